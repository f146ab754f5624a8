"""What the kinds that `bnb.solve` solves have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import bnb
import bnb.workers

from .judge import Claim, Truth, Verdict, judge
from .watch import watched

SECONDS = 2.0  # a search that takes longer counts as given up
_POOL = ThreadPoolExecutor(2)


class Kind(ABC):
    """A kind of random problem; its data are plain JSON, so that they can be replayed."""

    @abstractmethod
    def make(self, rng: np.random.Generator) -> dict:
        """A random problem."""

    @abstractmethod
    def run(self, data: dict) -> Verdict:
        """Solve it and judge the answer."""


class EngineKind(Kind):
    """A problem class of the engine."""

    @abstractmethod
    def build(self, data: dict) -> bnb.Problem:
        """The problem as a user would write it."""

    @abstractmethod
    def audit(self, data: dict, x: np.ndarray) -> tuple[float, float, float]:
        """Objective, size of its terms, and violation of x, not by the code under test."""

    @abstractmethod
    def truth(self, data: dict) -> Truth:
        """What is certain about the problem."""

    def shape(self, data: dict) -> tuple[int, ...]:
        """Shape of a solution."""
        return (len(data["q"]),)

    def deep(self, rng: np.random.Generator) -> dict:
        """A problem that takes some nodes, to be interrupted."""
        return self.make(rng)

    def run(self, data: dict) -> Verdict:
        faults: list[str] = []
        with watched(faults):
            result = bnb.solve(self.build(data), **shared(data["options"]))
        verdict = self.judge(data, result, self.truth(data))
        return Verdict(verdict.outcome, faults + verdict.faults)

    def judge(self, data: dict, result: bnb.Result, truth: Truth) -> Verdict:
        return judge(self.claim(data, result), truth, data["options"])

    def claim(self, data: dict, result: bnb.Result) -> Claim:
        claim = Claim(
            result.status, result.reason, result.objective, result.bound, result.x,
            self.shape(data), result.seconds,
        )
        if result.x is not None and np.shape(result.x) == claim.shape:
            claim.recomputed, claim.terms, claim.violation = self.audit(data, result.x)
        return claim


class Wrapped(Kind):
    """A problem of one of the engine's kinds, with which more is done than solving it."""

    def __init__(self, kinds: dict[str, EngineKind]) -> None:
        self.kinds = kinds

    def draw(self, rng: np.random.Generator, deep: float) -> dict:
        """Some problem, a deep one with this probability."""
        name = str(rng.choice(list(self.kinds)))
        kind = self.kinds[name]
        inner = kind.deep(rng) if deep and rng.random() < deep else kind.make(rng)
        return {"of": name, "inner": inner}


def shared(options: dict) -> dict:
    """With several workers let them be threads, which start fast, and share from the beginning."""
    if options.get("workers", 1) == 1:
        return options
    bnb.workers.RAMP_UP = 0.0
    return {**options, "executor": _POOL}


def draw_options(rng: np.random.Generator, branching: str = "pseudocost") -> dict:
    """Options of `bnb.solve`: mostly the defaults."""
    options: dict = {"time_limit": SECONDS, "branching": branching}
    if rng.random() < 0.2:
        options["workers"] = 2
    if rng.random() < 0.3:
        options["selection"] = str(rng.choice(["depth", "hybrid"]))
    if rng.random() < 0.3:
        options["branching"] = str(rng.choice(["pseudocost", "fractional", "first"]))
    if rng.random() < 0.3:
        options["gap"] = float(rng.choice([1e-2, 1e-6, 1e-8]))
    if rng.random() < 0.2:
        options["seed"] = int(rng.integers(100))
    return options
