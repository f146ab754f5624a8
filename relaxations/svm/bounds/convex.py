"""The plain bound: the dual of a node without its free anchors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...patience import Patience
from ..dual import (
    Dual,
    Effort,
    Point,
    certified_value,
    extrapolate,
    gradient,
    intercept,
    make_feasible,
)
from ..solvers import NodeSolver

__all__ = ["OVERHEAD", "ConvexBound", "Solved"]

_CHUNKS = 40
OVERHEAD = 2e5  # of a solve, in floating-point operations
_ROWS = 40  # per variable, in a chunk: between two chunks it is seen whether D has no bound


class Solved(NamedTuple):
    """A certified bound, the multipliers behind it with their gradient, and the intercept.

    `rows` is how many rows have been added to the gradient since it was computed afresh.
    """

    bound: float
    t: np.ndarray
    F: np.ndarray
    beta: float
    rows: int


class ConvexBound:
    """Solves node duals and certifies what they reach.

    Parameters
    ----------
    solver : NodeSolver
    hopeless : float
        A dual that exceeds this is taken to be unbounded, its node infeasible.
    """

    def __init__(self, solver: NodeSolver, hopeless: float) -> None:
        self._solver = solver
        self._hopeless = hopeless
        self.solves = 0
        self.operations = 0.0  # floating-point ones, about; a solve has some overhead

    def apply(
        self, dual: Dual, t: np.ndarray, cutoff: float, patience: Patience,
        accuracy: float,
    ) -> Solved:
        """Maximise from the feasible point nearest to t, until the bound reaches the cutoff.

        A coarser accuracy gives a weaker bound, and so does a lack of time.
        """
        t = t.copy()
        make_feasible(t, dual.lo, dual.hi)
        point = Point(t, np.empty_like(t))
        gradient(dual.gram, dual.p, *point)
        return self._maximise(dual, point, t.size, cutoff, patience, accuracy, False)

    def hold(self) -> None:
        """Prepare for `apply_from` the point of the last solve."""
        self._solver.hold()

    def apply_from(
        self, solved: Solved, dual: Dual, cutoff: float, patience: Patience,
        accuracy: float,
    ) -> Solved:
        """The same from the solution that was held, in a larger box."""
        point = Point(solved.t.copy(), solved.F.copy())
        return self._maximise(dual, point, solved.rows, cutoff, patience, accuracy, True)

    def _maximise(
        self, dual: Dual, point: Point, rows: int, cutoff: float, patience: Patience,
        accuracy: float, held: bool,
    ) -> Solved:
        self.solves += 1
        target = min(cutoff, self._hopeless)
        effort = Effort(accuracy, _ROWS * len(dual.p), target)
        bound, before_rows = -np.inf, rows
        for _ in range(_CHUNKS):
            before = point.t.copy()
            more, violation = self._solver.maximise(dual, point, effort, held, patience)
            rows, held = rows + more, False
            last, bound = bound, max(bound, certified_value(dual, point, rows))
            if violation <= accuracy or bound >= target or bound <= last + 1e-12 * abs(last):
                break
            if patience.expired():
                break
            extrapolate(dual, point, before, target)
        self.operations += OVERHEAD + (rows - before_rows) * float(len(dual.p))
        if bound >= self._hopeless:
            bound = np.inf
        return Solved(bound, point.t, point.F, intercept(dual, point), rows)
