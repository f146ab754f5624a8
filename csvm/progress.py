"""A progress line with an estimate of the time left."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

_BETWEEN_LINES = 30.0  # seconds, where the line cannot be written over


class Estimate:
    """Time left, from the measured time of each group of tasks.

    Groups differ by orders of magnitude (smooth kernels take longest), so counting tasks would
    mislead. What is left is weighed by the mean of its group, or of all tasks if the group is new.
    The first task of every worker is no guide: it includes the worker's start.

    `known` was measured in earlier runs, `left` has the group of every task to do, `jobs` are done
    at once.
    """

    def __init__(
        self, known: Sequence[tuple[Hashable, float]], left: Sequence[Hashable], jobs: int
    ) -> None:
        self._seconds: defaultdict[Hashable, list[float]] = defaultdict(list)
        for group, seconds in known:
            self._seconds[group].append(seconds)
        self._left = Counter(left)
        self._jobs = jobs
        self._finished = 0

    def finish(self, group: Hashable, seconds: float) -> None:
        """Take note of a finished task."""
        self._left[group] -= 1
        self._finished += 1
        if self._finished > self._jobs:
            self._seconds[group].append(seconds)

    def left(self) -> float | None:
        """Seconds left; None while too little is known."""
        measured = [s for group in self._seconds.values() for s in group]
        if self._finished < 2 * self._jobs or not measured:
            return None
        overall = sum(measured) / len(measured)
        work = 0.0
        for group, count in self._left.items():
            mine = self._seconds.get(group)
            work += count * (sum(mine) / len(mine) if mine else overall)
        return work / self._jobs


class ProgressLine:
    """Writes to a stream, if there is one, and over the same line if that is a terminal."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._said = 0.0

    @contextmanager
    def step(
        self, name: str, known: Sequence[tuple[Hashable, float]], left: Sequence[Hashable],
        jobs: int,
    ) -> Iterator[Callable[[Hashable, float], None]]:
        """A step of the run; gives a function to call with group and seconds of each task."""
        estimate = Estimate(known, left, jobs)
        total, done = len(known) + len(left), len(known)
        begin = time.monotonic()

        def advance(group: Hashable, seconds: float) -> None:
            nonlocal done
            done += 1
            estimate.finish(group, seconds)
            elapsed = time.monotonic() - begin
            remaining = None if done == total else estimate.left()
            tail = "" if remaining is None else f", about {clock(remaining)} left"
            self._say(f"{name}: {done} of {total}, {clock(elapsed)}{tail}", done == total)

        if not left:
            self._say(f"{name}: {total} of {total} from the store", True)
        try:
            yield advance
        finally:
            if done < total and self._terminal:
                print(file=self._stream)  # keep the last line when the run breaks off

    @property
    def _terminal(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def _say(self, text: str, last: bool) -> None:
        if self._stream is None:
            return
        if self._terminal:
            print(f"\r\x1b[K{text}", end="\n" if last else "", file=self._stream, flush=True)
        elif last or time.monotonic() - self._said >= _BETWEEN_LINES:
            print(text, file=self._stream, flush=True)
            self._said = time.monotonic()


def clock(seconds: float) -> str:
    """Time as a person says it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(whole / 60) if whole >= 3600 else whole // 60
    if whole < 3600:
        return f"{minutes} min {whole % 60:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
