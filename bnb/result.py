"""Statuses, tolerances and the result of a search."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

SOURCES = {
    "S": "start", "H": "heuristic", "R": "rounding", "D": "diving", "L": "local search",
    "N": "node relaxation", "U": "user",
}
"""What the letters of incumbents stand for."""


class Status(str, Enum):
    """What is known about the problem when the search ends."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    NO_SOLUTION = "no solution"
    INVALID = "invalid"


class Reason(str, Enum):
    """Why the search ended."""

    GAP = "gap closed"
    TIME = "time limit"
    NODES = "node limit"
    MEMORY = "memory limit"
    INTERRUPT = "interrupted"
    CALLBACK = "stopped by callback"
    EXHAUSTED = "tree exhausted"


@dataclass(frozen=True)
class Tolerance:
    """Every comparison of bounds and objectives is made here.

    Parameters
    ----------
    relative, absolute : float
        The gap ``objective - bound`` is closed at ``max(absolute, relative * |objective|)``.
    """

    relative: float = 1e-4
    absolute: float = 1e-9

    def slack(self, objective: float) -> float:
        """The gap that counts as closed."""
        return max(self.absolute, self.relative * abs(objective))

    def cutoff(self, objective: float) -> float:
        """Nodes with at least this bound cannot improve the incumbent by more than the gap."""
        return objective - self.slack(objective) if np.isfinite(objective) else objective

    def closed(self, objective: float, bound: float) -> bool:
        """Whether the incumbent is proven optimal."""
        return bool(np.isfinite(objective) and bound >= self.cutoff(objective))

    def crossed(self, objective: float, bound: float) -> bool:
        """Whether a bound lies above an objective by more than rounding: somebody is wrong."""
        return bool(
            np.isfinite(objective) and bound > objective + 1e-6 * max(1.0, abs(objective))
        )

    def verdict(self, objective: float, bound: float) -> Status:
        """What a solution with this objective and a bound on all of them say together."""
        if self.crossed(objective, bound):
            return Status.INVALID
        return Status.OPTIMAL if self.closed(objective, bound) else Status.FEASIBLE


def relative_gap(objective: float, bound: float) -> float:
    """(objective - bound) / |objective|, as solvers print it."""
    if not (np.isfinite(objective) and np.isfinite(bound)):
        return np.inf
    return max(0.0, objective - bound) / max(abs(objective), 1e-10)


@dataclass
class TraceRow:
    """One line of the search's history."""

    seconds: float
    nodes: int
    bound: float
    objective: float
    open: int
    source: str = ""


@dataclass
class Result:
    """The outcome of `bnb.solve`.

    Attributes
    ----------
    status, reason : Status, Reason
        What is known, and why the search ended.
    x : ndarray or None
        The best solution found.
    objective, bound, gap : float
        Its objective, the certified lower bound, and their relative distance.
    root_bound : float
        The bound of the first node.
    violation : float
        Largest violation of the original constraints by `x`.
    nodes, open, pruned : int
        Nodes evaluated (strong-branching probes are counted in `probes`), left open, and cut off.
    seconds, relaxation_seconds : float
        Wall time of the search, and the part spent in relaxations (summed over workers).
    work : dict of str to int
        What was done inside nodes, in the problem's own terms (convex solves, games, …).
    trace : list of TraceRow
        History of bound and incumbent.
    tree : list of (node, parent, bound, fate)
        One row per evaluated node when ``keep_tree`` was asked for.
    """

    status: Status
    reason: Reason
    x: np.ndarray | None
    objective: float
    bound: float
    gap: float
    root_bound: float
    violation: float
    nodes: int
    open: int
    pruned: int
    probes: int
    seconds: float
    relaxation_seconds: float
    work: dict[str, int] = field(default_factory=dict)
    trace: list[TraceRow] = field(default_factory=list)
    tree: list[tuple[int, int, float, str]] = field(default_factory=list)

    @property
    def optimal(self) -> bool:
        """Whether `x` is proven optimal within the gap tolerance."""
        return self.status is Status.OPTIMAL

    def improved(
        self, x: np.ndarray, objective: float, violation: float, tolerance: Tolerance
    ) -> Result:
        """The same search with another solution, checked like an incumbent.

        Parameters
        ----------
        x : ndarray
        objective, violation : float
            Of `x`.
        tolerance : Tolerance
            What gap counts as closed.
        """
        status = tolerance.verdict(objective, self.bound)
        if self.status in (Status.INVALID, Status.UNBOUNDED):  # no solution changes that
            status = self.status
        bound = min(self.bound, objective)
        return replace(
            self, status=status, x=x, objective=objective, bound=bound, violation=violation,
            reason=Reason.GAP if status is Status.OPTIMAL else self.reason,
            gap=relative_gap(objective, bound),
        )

    def __str__(self) -> str:
        return (
            f"{self.status.value} ({self.reason.value}): objective {self.objective:.9g}, "
            f"bound {self.bound:.9g}, gap {100 * self.gap:.4f} %, {self.nodes} nodes, "
            f"{self.seconds:.2f} s"
        )
