"""What a peer's wrapper hands back, and what it raises."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

Trace = list[tuple[float, float, float]]
"""(seconds, best objective, bound) whenever the solver told us."""

INTEGRALITY = 1e-8
"""Asked of every peer that has such a tolerance: with M = 100 the usual 1e-5 lets a margin that is
claimed to be one be 0.999."""


class TooLargeError(Exception):
    """The peer's licence does not allow a model of this size."""


class PeerError(Exception):
    """The peer crashed, raised, or did not come back."""


@dataclass
class Answer:
    """A solver's own words; nothing in it is believed before `benchmarks.runner` checked it."""

    status: str  # "optimal", "limit", or what else the solver said
    x: np.ndarray | None
    bound: float
    nodes: float
    seconds: float
    trace: Trace = field(default_factory=list)


class Recorder:
    """Collects a trajectory, a point at most every hundredth of a second unless it improved.

    What the solver gives as `infinity` or more is infinite.
    """

    def __init__(self, infinity: float) -> None:
        self.begin = time.perf_counter()
        self.trace: Trace = []
        self._infinity = infinity

    def start(self) -> None:
        self.begin = time.perf_counter()

    def __call__(self, objective: float, bound: float) -> None:
        seconds = time.perf_counter() - self.begin
        objective, bound = (
            v if abs(v) < self._infinity else float(np.copysign(np.inf, v))
            for v in (objective, bound)
        )
        if self.trace and self.trace[-1][1:] == (objective, bound):
            return
        if not self.trace or self.trace[-1][1] != objective or seconds > self.trace[-1][0] + 0.01:
            self.trace.append((seconds, objective, bound))

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begin


@contextmanager
def captured_output() -> Iterator[list[str]]:
    """What a C library prints to standard output, for figures that it gives nowhere else."""
    text: list[str] = []
    sys.stdout.flush()
    saved = os.dup(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        with path.open("wb") as file:
            os.dup2(file.fileno(), 1)
            try:
                yield text
            finally:
                os.dup2(saved, 1)
                os.close(saved)
        text.append(path.read_text(errors="replace"))
