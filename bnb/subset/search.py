"""The search for a best subset in the engine's terms.

A node of the engine is a set of columns that are in and a set of free ones. Its evaluation runs a
depth-first search below it in compiled code (`tree`) for a slice of work, and what is left open
after that comes back as children.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as la

from ..problem import Candidate, Child, Evaluation, Goal
from ..validation import index_set
from . import swaps
from .data import Inverse, SubsetData, condition, invert, least_residual
from .tree import explore

_SLICE = 1e8  # entries of inverses written between two looks at the clock: a tenth of a second
_KICKS = 8
_LARGE = 400  # columns beyond which backward elimination takes too long to begin with
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Subset:
    """A node: columns that are in, and columns that may be; all others are out."""

    inside: np.ndarray
    free: np.ndarray


class SubsetSearch:
    """Bounds, solutions and splits for min ‖y − Xβ‖² with at most k columns besides `always`.

    Parameters
    ----------
    data : SubsetData
    k : int
    always : ndarray of int
        Columns that are in and do not count.
    """

    def __init__(self, data: SubsetData, k: int, always: np.ndarray) -> None:
        self.data = data
        self.k = k
        self.always = always
        self.gram = data.R.T @ data.R

    # -- first solutions --------------------------------------------------------------------

    def prepare(self, goal: Goal) -> Evaluation:
        """Forward selection, backward elimination, swaps and a few kicks."""
        root = self.root()
        k = min(self.k, len(root.free))
        starts = [swaps.grow(self.gram, self.always, len(self.always) + k)]
        if 0 < k < len(root.free) <= _LARGE:
            found = condition(self.data, root.inside, root.free)
            inverse = invert(self.data, found[0], len(root.inside)) if found else None
            if found and inverse and k < len(found[1]):
                kept = found[1][swaps.shrink(inverse.T, k)]
                starts.append(np.concatenate([self.always, kept]))
        best = min((self._improve(start, goal) for start in starts), key=lambda found: found[1])
        rng = np.random.default_rng(goal.seed)
        for _ in range(_KICKS if 2 < k < len(root.free) else 0):
            if goal.expired():
                break
            chosen = best[0][len(self.always):]
            some = rng.permutation(chosen)[: max(k - max(2, k // 4), 0)]
            again = swaps.grow(self.gram, np.concatenate([self.always, some]), len(self.always) + k)
            best = min(best, self._improve(again, goal), key=lambda found: found[1])
        return Evaluation(-np.inf, [("L", self.data.residual(best[0])[1])])

    def _improve(self, chosen: np.ndarray, goal: Goal) -> tuple[np.ndarray, float]:
        tries = max(1, int(2e7 / (self.data.p * (len(chosen) + 1.0) ** 2)))
        while True:
            chosen, value, over = swaps.swap(self.gram, chosen, len(self.always), tries)
            if over or goal.expired():
                return chosen, value

    def within(self, objective: float, low: np.ndarray, high: np.ndarray) -> bool:
        """Whether every point that is at least as good as this objective keeps the bounds.

        (β − b)ᵀS(β − b) is at most the objective less the least one, with b the solution without
        a limit on non-zeros: so |β_j − b_j| ≤ √(that · (S⁻¹)_jj).
        """
        if np.all(np.isinf(low) & np.isinf(high)):
            return True
        data = self.data
        inverse = invert(data, data.R, 0)
        if inverse is None or np.any(data.norm == 0.0):
            return False
        T, p = inverse.T, data.p
        wide = 1.0 + 2.0 * inverse.theta
        b = -T[:p, p] / T[p, p]
        # The block without y: T_jj − T_jy² / T_yy.
        spread = np.maximum(T.diagonal()[:p] - T[:p, p] ** 2 / T[p, p], 0.0) * wide
        least = (1.0 - inverse.theta) / T[p, p]
        room = max((objective - data.offset) / data.unit - least + 4.0 * _EPS, 0.0)
        reach = np.sqrt(spread * room)
        reach += 2.0 * inverse.theta * (np.abs(b) + np.sqrt(T.diagonal()[:p]))
        size = np.sqrt(data.unit) / data.norm
        return bool(np.all(size * (b - reach) >= low) and np.all(size * (b + reach) <= high))

    # -- nodes ------------------------------------------------------------------------------

    def root(self) -> Subset:
        """All columns are free but those that are always in and those that are zero."""
        return Subset(
            self.always, np.setdiff1d(np.flatnonzero(self.data.norm > 0.0), self.always)
        )

    def evaluate(self, state: Subset, goal: Goal) -> Evaluation:
        """Search below the node for a slice of work."""
        size = len(state.inside) + len(state.free) + 1.0
        return goal.patience.run(lambda: self._evaluate(state, goal), 10.0 * size**3)

    def _evaluate(self, state: Subset, goal: Goal) -> Evaluation:
        found = condition(self.data, state.inside, state.free)
        if found is None:
            return Evaluation(np.inf)
        triangle, free = found
        k = self.k - (len(state.inside) - len(self.always))
        if k == 0 or k >= len(free):
            return self._leaf(np.concatenate([state.inside, free]) if k else state.inside)
        inverse = invert(self.data, triangle, len(state.inside))
        if inverse is None or inverse.theta > max(0.5 * goal.tolerance.relative, 1e-6):
            return self._split(state, free, triangle)
        return self._explore(state, free, k, inverse, goal)

    def _explore(
        self, state: Subset, free: np.ndarray, k: int, inverse: Inverse, goal: Goal
    ) -> Evaluation:
        data = self.data
        known = (goal.objective - data.offset) / data.unit
        # A little less than the gap, for the objective is computed in another way in the end.
        scale = (data.unit, data.offset, 0.99 * goal.tolerance.relative,
                 0.99 * goal.tolerance.absolute)
        best, chosen, closed, visited, rest = explore(
            self.gram, inverse.T, state.inside, free, k, inverse.theta, known, scale,
            float(goal.nodes), _SLICE,
        )
        solutions = [("N", data.residual(chosen)[1])] if best < known else []
        children = [Child(Subset(np.sort(a), np.sort(b)), self._value(r)) for a, b, r in rest]
        bound = min([self._value(closed), *(child.bound for child in children)])
        return Evaluation(
            bound, solutions, [Candidate(0)] if children else (), children, nodes=visited,
            removed=self._value(closed), work={"subtrees": 1},
        )

    def _leaf(self, columns: np.ndarray) -> Evaluation:
        """Only one set is left."""
        found = condition(self.data, columns, columns[:0])
        sure = 0.0 if found is None else least_residual(self.data, found[0])
        return Evaluation(self._value(sure), [("N", self.data.residual(columns)[1])])

    def _split(self, state: Subset, free: np.ndarray, triangle: np.ndarray) -> Evaluation:
        """Decide about the most dependent column: inverses are not to be trusted yet."""
        m = len(state.inside)
        last = la.qr(triangle[m:, m:-1], mode="r", pivoting=True, check_finite=False)[1][-1]
        rest = np.delete(free, last)
        children = [
            Child(Subset(state.inside, rest), -np.inf),
            Child(Subset(np.sort(np.append(state.inside, free[last])), rest), -np.inf),
        ]
        bound = self._value(least_residual(self.data, triangle))
        return Evaluation(bound, [], [Candidate(0)], children)

    def _value(self, residual: float) -> float:
        """The objective of a residual, rounded down."""
        value = self.data.unit * residual
        return value + self.data.offset - 4.0 * _EPS * (value + abs(self.data.offset))

    def branch(self, evaluation: Evaluation) -> Sequence[Child]:
        """What the evaluation left open."""
        return evaluation.data

    # -- checkpoints ------------------------------------------------------------------------

    def encode(self, state: Subset) -> list[list[int]]:
        """The two sets."""
        return [state.inside.tolist(), state.free.tolist()]

    def decode(self, data: Any) -> Subset:
        """The two sets back, checked."""
        inside, free = (index_set(name, part, self.data.p)
                        for name, part in zip(("inside", "free"), data, strict=True))
        if len(np.intersect1d(inside, free)):
            raise ValueError("a column is in and free at once")
        if len(np.setdiff1d(self.always, inside)) or len(inside) - len(self.always) > self.k:
            raise ValueError("the columns that are in cannot be")
        return Subset(inside, free)
