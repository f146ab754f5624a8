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
    value,
)
from ..solvers import NodeSolver

__all__ = ["OVERHEAD", "ConvexBound", "Solved"]

_EPS = np.finfo(np.float64).eps
_CHUNKS = 40
OVERHEAD = 2e5  # of a solve, in floating-point operations
_ROWS = 40  # per variable, in a chunk: between two chunks it is seen whether D has no bound
_DRIFT = 1e-8  # of a gradient that was carried along, per unit of multipliers


class Solved(NamedTuple):
    """A certified bound, the multipliers behind it with their gradient, and the intercept."""

    bound: float
    t: np.ndarray
    F: np.ndarray
    beta: float


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
        return self._maximise(dual, point, cutoff, patience, accuracy, False)

    def hold(self) -> None:
        """Prepare for `apply_from` the point of the last solve."""
        self._solver.hold()

    def apply_from(
        self, solved: Solved, dual: Dual, cutoff: float, patience: Patience,
        accuracy: float,
    ) -> Solved:
        """The same from the solution that was held, in a larger box."""
        point = Point(solved.t.copy(), solved.F.copy())
        return self._maximise(dual, point, cutoff, patience, accuracy, True)

    def _maximise(
        self, dual: Dual, point: Point, cutoff: float, patience: Patience, accuracy: float,
        held: bool,
    ) -> Solved:
        self.solves += 1
        target = min(cutoff, self._hopeless)
        effort = Effort(accuracy, _ROWS * len(dual.p), target)
        bound, rows, afresh = 0.0, 0, False  # nothing costs less than nothing
        for _ in range(_CHUNKS):
            before = point.t.copy()
            more, violation = self._solver.maximise(dual, point, effort, held, patience)
            rows, held = rows + more, False
            _balance(dual, point.t)
            now, slip = certified_value(dual, point.t)
            last, bound = bound, max(bound, now)
            drift = abs(value(dual.p, point) - now - slip)
            drifted = drift > slip + _DRIFT * (1.0 + np.abs(point.t).sum())
            solved, stuck = violation <= accuracy, bound <= last + 1e-12 * abs(last)
            if bound >= target or (solved and not drifted) or patience.expired():
                break
            if drifted:
                gradient(dual.gram, dual.p, *point)
            elif not stuck:
                extrapolate(dual, point, before, target)
            elif afresh:
                break
            else:  # multipliers too large for their digits, as of a point from far away
                point.t[:], point.F[:], afresh = 0.0, dual.p, True
        self.operations += OVERHEAD + rows * float(len(dual.p))
        if bound >= self._hopeless:
            bound = np.inf
        return Solved(bound, point.t, point.F, intercept(dual, point))


def _balance(dual: Dual, t: np.ndarray) -> None:
    """Restore ``sum(t) = 0`` where large multipliers have left more than rounding, in place."""
    if abs(t.sum()) > 4.0 * _EPS * t.size * np.abs(t).sum():
        make_feasible(t, dual.lo, dual.hi)
