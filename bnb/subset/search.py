"""The search for a best subset in the engine's terms.

A node of the engine is a set of columns that are in and a set of free ones. Its evaluation runs a
depth-first search by elimination in compiled code (`tree`) for a slice of work. If that does not
come to an end, the relaxation (`relaxed`) decides about as many columns as it can, and elimination
begins anew with those that are left. What remains in the end comes back as children: two of them
where the relaxation is strong, otherwise all that elimination has left open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg as la

from ..problem import Candidate, Child, Evaluation, Goal
from ..validation import index_set
from . import swaps
from .data import Inverse, SubsetData, condition, invert, least_residual
from .relaxed import Dense, Diagonals, climb
from .tree import explore

_FIRST = 1e7
_SLICE = 1e8  # entries of inverses written between two looks at the clock: a tenth of a second
_KICKS = 8
_FEW = 80  # columns with which elimination is faster than any relaxation
_ROUNDS, _ROUNDS_BELOW = 16, 4  # of the relaxation's diagonal, at the root and below
_WEAK, _MANY = 0.5, 150  # a relaxation that leaves more than this share, from so many columns on
_LARGE = 400  # columns beyond which backward elimination takes too long to begin with
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Subset:
    """A node: columns that are in, and columns that may be; all others are out."""

    inside: np.ndarray
    free: np.ndarray
    warm: tuple[np.ndarray, np.ndarray] | None = None
    """Logarithms of a diagonal and z of the parent's relaxation, one per free column."""

    def without(self, away: np.ndarray, inside: np.ndarray) -> Subset:
        """Some free columns less; those `inside` are in, the others out."""
        kept = ~(away | inside)
        warm = None if self.warm is None else (self.warm[0][kept], self.warm[1][kept])
        return Subset(np.sort(np.append(self.inside, self.free[inside])), self.free[kept], warm)


@dataclass
class Done:
    """What an evaluation has done before its last step."""

    nodes: int = 0
    solutions: list[tuple[str, np.ndarray]] = field(default_factory=list)
    removed: float = np.inf
    work: Counter[str] = field(default_factory=Counter)

    def add(self, step: Evaluation) -> None:
        """A step whose bounds and children are not needed: others hold for all of the node."""
        self.nodes += step.nodes
        self.solutions += step.solutions
        self.work.update(step.work)

    def then(self, last: Evaluation) -> Evaluation:
        """The last step, with all before it."""
        last.nodes = max(1, last.nodes + self.nodes)
        last.solutions = [*self.solutions, *last.solutions]
        last.removed = min(last.removed, self.removed)
        last.work = dict(self.work + Counter(last.work))
        return last


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
        self._weak = self._skip = 0  # how often in a row the relaxation was weak; when to try again

    # -- first solutions --------------------------------------------------------------------

    def prepare(self, goal: Goal) -> Evaluation:
        """Forward selection, backward elimination, swaps and a few kicks."""
        self._weak = self._skip = 0  # so that runs repeat
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
        done = Done()
        while True:
            found = condition(self.data, state.inside, state.free)
            if found is None:
                return done.then(Evaluation(np.inf))
            triangle, free = found
            if len(free) < len(state.free):
                state = state.without(~np.isin(state.free, free), np.zeros(len(state.free), bool))
            k = self.k - (len(state.inside) - len(self.always))
            if k == 0 or k >= len(free):
                chosen = np.concatenate([state.inside, free]) if k else state.inside
                return done.then(self._leaf(chosen))
            inverse = invert(self.data, triangle, len(state.inside))
            if inverse is None or inverse.theta > max(0.5 * goal.tolerance.relative, 1e-6):
                return done.then(self._split(state, triangle))
            explored = self._explore(state, k, inverse, goal, done)
            if not explored.candidates or len(free) <= _FEW or self._skip > 0:
                self._skip = max(0, self._skip - 1)
                return done.then(explored)
            bound, score, state, fixed = self._tighten(state, triangle, inverse, k, goal)
            done.work["relaxations"] += 1
            if fixed == np.inf and bound < goal.cutoff and self._is_weak(bound, k, inverse, goal):
                return done.then(explored)
            done.add(explored)
            if bound >= goal.cutoff:
                return done.then(Evaluation(bound, nodes=0))
            if fixed == np.inf:
                return done.then(self._halve(state, k, bound, score, goal))
            done.removed = min(done.removed, fixed)

    def _tighten(
        self, state: Subset, triangle: np.ndarray, inverse: Inverse, k: int, goal: Goal
    ) -> tuple[float, np.ndarray, Subset, float]:
        """A bound from the relaxation, what speaks for a split at each column, and fixings.

        The last is the smallest bound of what the fixings took away; infinite if nothing.
        """
        m, f = len(state.inside), len(state.free)
        tail = triangle[m:, m:]
        gram = tail.T @ tail
        T = inverse.T[:f, :f] - np.outer(inverse.T[f, :f], inverse.T[f, :f]) / inverse.T[f, f]
        diagonals = Diagonals(T, inverse.theta)
        log, z = state.warm or (diagonals.start(), self._chosen(goal, state.free))
        target = (goal.cutoff - self.data.offset) / self.data.unit * (1.0 + 2.0 * inverse.theta)
        best, log = climb(
            Dense(gram[:f, :f]), gram[:f, f], diagonals, k, log, z, target - gram[f, f],
            _ROUNDS if state.warm is None else _ROUNDS_BELOW, goal.patience,
        )
        state = Subset(state.inside, state.free, (log, best.z))
        values = [self._value((1.0 - inverse.theta) * np.maximum(gram[f, f] + part, 0.0))
                  for part in (best.bound, *best.forced())]
        bound, score = float(values[0]), best.z * (1.0 - best.z) * best.score
        away, inside = (part >= goal.cutoff for part in values[1:])
        if bound >= goal.cutoff or not (away.any() or inside.any()):
            return bound, score, state, np.inf
        fixed = min(float(part[gone].min(initial=np.inf))
                    for part, gone in zip(values[1:], (away, inside), strict=True))
        return bound, score, state.without(away, inside), fixed

    def _chosen(self, goal: Goal, free: np.ndarray) -> np.ndarray:
        """The incumbent's columns, where a relaxation may begin."""
        if goal.incumbent is None:
            return np.full(len(free), self.k / len(free))
        return (goal.incumbent[free] != 0.0).astype(float)

    def _is_weak(self, bound: float, k: int, inverse: Inverse, goal: Goal) -> bool:
        """Whether the relaxation is no match for elimination; then it is left out for a while."""
        T, f = inverse.T, len(inverse.T) - 1
        prices = T[f, f] - T[f, :f] ** 2 / T.diagonal()[:f]
        simple = self._value((1.0 - inverse.theta) / float(np.partition(prices, k)[k]))
        # With few columns elimination is so fast that the relaxation has to be much better.
        share = _WEAK * min(1.0, (f / _MANY) ** 2)
        weak = goal.cutoff - bound > share * (goal.cutoff - simple)
        self._weak = self._weak + 1 if weak else 0
        self._skip = 2**self._weak if weak else 0
        return weak

    def _halve(
        self, state: Subset, k: int, bound: float, score: np.ndarray, goal: Goal
    ) -> Evaluation:
        """Split at the column about which the relaxation is least decided."""
        assert state.warm is not None
        at, none = np.arange(len(score)) == int(np.argmax(score)), np.zeros(len(score), bool)
        children = [Child(state.without(none, at), bound), Child(state.without(at, none), bound)]
        some = state.free[np.argsort(-state.warm[1], kind="stable")[:k]]
        decided = np.setdiff1d(state.inside, self.always)
        chosen = self._improve(np.concatenate([self.always, decided, some]), goal)[0]
        solution = ("R", self.data.residual(chosen)[1])
        return Evaluation(bound, [solution], [Candidate(0)], children, nodes=0)

    def _explore(
        self, state: Subset, k: int, inverse: Inverse, goal: Goal, done: Done
    ) -> Evaluation:
        """Search by elimination for a slice of work."""
        data = self.data
        known = (goal.objective - data.offset) / data.unit
        # A little less than the gap, for the objective is computed in another way in the end.
        scale = (data.unit, data.offset, 0.99 * goal.tolerance.relative,
                 0.99 * goal.tolerance.absolute)
        # As long as the relaxation would take; where it is left out, a tenth of a second.
        work = _SLICE if self._skip > 0 else min(max(_FIRST, 2.0 * len(state.free) ** 3), _SLICE)
        best, chosen, closed, visited, rest = explore(
            self.gram, inverse.T, state.inside, state.free, k, inverse.theta, known, scale,
            float(max(goal.nodes - done.nodes, 1)), work,
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

    def _split(self, state: Subset, triangle: np.ndarray) -> Evaluation:
        """Decide about the most dependent column: inverses are not to be trusted yet."""
        m, f = len(state.inside), len(state.free)
        last = la.qr(triangle[m:, m:-1], mode="r", pivoting=True, check_finite=False)[1][-1]
        at, none = np.arange(f) == last, np.zeros(f, bool)
        bound = self._value(least_residual(self.data, triangle))
        children = [Child(state.without(at, none), bound), Child(state.without(none, at), bound)]
        return Evaluation(bound, [], [Candidate(0)], children)

    def _value(self, residual: Any) -> Any:
        """The objective of a residual, or of several, rounded down."""
        value = self.data.unit * residual
        return value + self.data.offset - 4.0 * _EPS * (value + abs(self.data.offset))

    def branch(self, evaluation: Evaluation) -> Sequence[Child]:
        """What the evaluation left open."""
        return evaluation.data

    # -- checkpoints ------------------------------------------------------------------------

    def encode(self, state: Subset) -> list[list[int]]:
        """The two sets."""
        return encode(state)

    def decode(self, data: Any) -> Subset:
        """The two sets back, checked."""
        return decode(data, self.data.p, self.k, self.always)


def encode(state: Subset) -> list[list[int]]:
    """A node as JSON data."""
    return [state.inside.tolist(), state.free.tolist()]


def decode(data: Any, p: int, k: int, always: np.ndarray) -> Subset:
    """A node back from JSON data; a ValueError says what cannot be."""
    inside, free = (index_set(name, part, p)
                    for name, part in zip(("inside", "free"), data, strict=True))
    if len(np.intersect1d(inside, free)):
        raise ValueError("a column is in and free at once")
    if len(np.setdiff1d(always, inside)) or len(inside) - len(always) > k:
        raise ValueError("the columns that are in cannot be")
    return Subset(inside, free)
