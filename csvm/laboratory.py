"""Work on all cores or on a cluster, each finished piece stored at once and never done again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from joblib import delayed

from bnb.processes import interrupts_ignored

from .jobs import parallel
from .progress import ProgressLine
from .store import Store


class Work(Protocol):
    """A piece of work."""

    @property
    def key(self) -> str:
        """Tells it apart by all that decides the outcome."""

    @property
    def group(self) -> Hashable:
        """Names pieces that take about equally long."""

    def describe(self) -> dict[str, Any]:
        """For readers of the store."""

    def run(self) -> dict[str, Any]:
        """JSON data with the seconds it took."""


@contextmanager
def laboratory(path: Path, jobs: int = 1) -> Iterator[Laboratory]:
    """One that keeps its results in this file and tells its progress on stderr."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Store(path) as store:
        yield Laboratory(store, jobs, ProgressLine(sys.stderr))


class Laboratory:
    """Does what is not in the store yet, so many pieces at once."""

    def __init__(self, store: Store, jobs: int, progress: ProgressLine) -> None:
        self.store = store
        self.jobs = jobs
        self.progress = progress

    def __call__(
        self, step: str, work: Sequence[Work], *,
        finished: Callable[[dict[str, Any]], bool] = lambda result: True,
        tell: Callable[[dict[str, Any]], None] = lambda result: None,
    ) -> list[dict[str, Any]]:
        """Results, in the order of the work.

        A stored result that is not `finished` is done again; `tell` is called with each new one.
        """
        pieces = {piece.key: piece for piece in work}
        done = {
            key: self.store[key] for key in pieces
            if key in self.store and finished(self.store[key])
        }
        known = [(pieces[key].group, result["seconds"]) for key, result in done.items()]
        left = [piece for key, piece in pieces.items() if key not in done]
        # One piece per batch: a batch would be lost as a whole when the run is killed.
        runner = parallel(self.jobs, batch_size=1, return_as="generator_unordered")
        with self.progress.step(step, known, [piece.group for piece in left], self.jobs) as advance:
            with interrupts_ignored():
                results = runner(delayed(_run)(piece) for piece in left)
            for key, result in results:
                self.store.add(key, pieces[key].describe(), result)
                tell(result)
                advance(pieces[key].group, result["seconds"])
        return [self.store[piece.key] for piece in work]


def _run(piece: Work) -> tuple[str, dict[str, Any]]:
    return piece.key, piece.run()
