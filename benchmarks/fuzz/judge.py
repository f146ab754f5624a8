"""What is true of a problem, what was claimed, and whether the two agree."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bnb import Reason, Status

ROUNDING = 1e-6
FEASIBILITY = 1e-6
CLOSE = 1e-8  # objectives of one point that differ by this share of their terms are the same
LATE = 60.0  # seconds that a search may end after its limit: the first of its sort compiles


@dataclass
class Truth:
    """What is known for certain.

    Parameters
    ----------
    best : float
        Objective of the best point known to be feasible; inf if none is known.
    slack : float
        What rounding and the accuracy of that point may hide.
    infeasible, bounded, unbounded : bool
        Whether that is proven. False is "not known".
    complete : bool
        Whether everything was enumerated, so that `best` is the optimum.
    """

    best: float = np.inf
    slack: float = 0.0
    infeasible: bool = False
    bounded: bool = False
    unbounded: bool = False
    complete: bool = False

    def offer(self, value: float, slack: float) -> None:
        """A feasible point."""
        if value + slack < self.best + self.slack:
            self.best, self.slack = value, slack

    @property
    def tolerance(self) -> float:
        return ROUNDING * abs(self.best) + self.slack


@dataclass
class Claim:
    """What a solver says, and what an independent check says of its point."""

    status: Status
    reason: Reason
    objective: float
    bound: float
    x: np.ndarray | None
    shape: tuple[int, ...]
    seconds: float = 0.0
    recomputed: float = np.inf  # objective of x
    terms: float = 0.0  # sum of the absolute terms of the objective: rounding is relative to it
    violation: float = np.inf


@dataclass
class Verdict:
    """How a problem ended, and everything that was wrong about it."""

    outcome: str
    faults: list[str] = field(default_factory=list)


def outcome(claim: Claim) -> str:
    """One word for the table."""
    if claim.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED):
        return str(claim.status.value)
    return "time limit" if claim.reason is Reason.TIME else "gave up"


def judge(claim: Claim, truth: Truth, options: dict) -> Verdict:
    """Try every part of the claim."""
    faults = [*_point(claim), *_status(claim, truth, options), *_bound(claim, truth)]
    late = claim.seconds - options.get("time_limit", np.inf)
    if late > LATE:
        faults.append(f"ended {late:.1f} s after its time limit")
    return Verdict(outcome(claim), faults)


def _point(claim: Claim) -> list[str]:
    if claim.x is None:
        return []
    if np.shape(claim.x) != claim.shape:
        return [f"x has shape {np.shape(claim.x)}, not {claim.shape}"]
    faults = []
    if not claim.violation <= 1.001 * FEASIBILITY:
        faults.append(f"the incumbent violates its constraints by {claim.violation:.3g}")
    if not abs(claim.recomputed - claim.objective) <= CLOSE * claim.terms + 1e-300:
        faults.append(f"objective {claim.objective!r} is said of x, it is {claim.recomputed!r}")
    return faults


def _status(claim: Claim, truth: Truth, options: dict) -> list[str]:
    status, best = claim.status, truth.best
    if status is Status.INVALID:
        return [f"invalid: bound {claim.bound!r} and objective {claim.objective!r} contradict"]
    if status is Status.INFEASIBLE and best < np.inf:
        return [f"infeasible is said, but a feasible point has objective {best!r}"]
    if status is Status.UNBOUNDED and truth.bounded:
        return ["unbounded is said of a problem with a lower bound"]
    if status is Status.UNBOUNDED and truth.infeasible:
        return ["unbounded is said of an infeasible problem"]
    if status is not Status.OPTIMAL:
        return []
    if claim.x is None:
        return ["optimal without a point"]
    if truth.unbounded:
        return [f"objective {claim.objective!r} is said to be optimal, there is no least one"]
    size = max(abs(best), abs(claim.objective))
    allowed = max(options.get("absolute_gap", 1e-9), options.get("gap", 1e-4) * size)
    if claim.objective > best + allowed * (1.0 + 1e-3) + truth.tolerance:
        return [f"objective {claim.objective!r} is said to be optimal, {best!r} is better"]
    return []


def _bound(claim: Claim, truth: Truth) -> list[str]:
    faults = []
    if np.isnan(claim.bound):
        faults.append("the bound is NaN")
    if truth.unbounded and claim.bound > -np.inf:
        faults.append(f"bound {claim.bound!r}, but there is no least objective")
    elif truth.best < np.inf and claim.bound > truth.best + truth.tolerance:
        faults.append(f"bound {claim.bound!r} is above a feasible objective {truth.best!r}")
    if claim.x is not None and claim.bound > claim.objective + 1e-9 * claim.terms:
        faults.append(f"bound {claim.bound!r} is above the objective {claim.objective!r}")
    return faults
