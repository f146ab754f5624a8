"""Best subsets of thousands of columns: the ridge bounds, and screens columns away.

With a ridge, S = XᵀX + D has its diagonal D at hand, so the relaxation of `relaxed` needs nothing
but products with X. What it cannot rule out is searched like any other problem as soon as few
enough columns are left; until then nodes are split in two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..problem import Candidate, Child, Evaluation, Goal
from .data import SubsetData
from .relaxed import Relaxed, Ridged, relax
from .search import Subset, SubsetSearch, decode, encode

DENSE = 1000
"""Columns up to which a problem is searched without screening."""
_SOME = 300  # columns among which heuristics look
_EPS = float(np.finfo(float).eps)


class ScreenedSearch:
    """As `SubsetSearch`, for a ridge and more columns than matrices can be made of.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    y : ndarray of shape (n,)
    k : int
    ridge : float
        Greater than zero.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, k: int, ridge: float) -> None:
        self.X, self.y, self.k, self.ridge = X, y, k, ridge
        norm = np.sqrt(np.einsum("ij,ij->j", X, X) + ridge)
        self.rows = np.ascontiguousarray((X / norm).T)
        self.D = ridge / norm**2
        self.unit = float(y @ y)
        self.b = self.rows @ (y / np.sqrt(self.unit)) if self.unit > 0.0 else np.zeros(len(norm))
        # Rounding of the columns and of y, for coefficients that a solution can have.
        self._slop = 8.0 * _EPS * (1.0 + np.sqrt(k / self.D.min())) ** 2
        self._core: tuple[np.ndarray, SubsetSearch] | None = None

    # -- first solutions --------------------------------------------------------------------

    def prepare(self, goal: Goal) -> Evaluation:
        """Forward selection on all columns, then swaps among the most promising."""
        self._core = None
        if self.unit == 0.0 or self.k == 0:
            return Evaluation(0.0, [("H", np.zeros(len(self.D)))])
        rest, chosen = self.y, np.zeros(0, dtype=np.int64)
        promising = [np.argsort(-np.abs(self.b), kind="stable")[:_SOME]]
        for _ in range(self.k):
            gain = np.abs(self.rows @ rest)
            gain[chosen] = -1.0
            promising.append(np.argsort(-gain, kind="stable")[:_SOME // self.k + 1])
            chosen = np.append(chosen, np.argmax(gain))
            rest = self.y - self.X[:, chosen] @ self._fit(chosen)
            if goal.expired():
                break
        return Evaluation(0.0, [("L", self._swapped(np.concatenate([chosen, *promising]), goal))])

    def _fit(self, columns: np.ndarray) -> np.ndarray:
        some = self.X[:, columns]
        S = some.T @ some + self.ridge * np.eye(len(columns))
        return np.linalg.solve(S, some.T @ self.y)

    def _swapped(self, columns: np.ndarray, goal: Goal) -> np.ndarray:
        """The best that swaps find among these columns, as coefficients of all."""
        columns = np.unique(columns)
        found = self._search(columns).prepare(goal).solutions[0][1]
        return self._lift(columns, found)

    def _search(self, columns: np.ndarray) -> SubsetSearch:
        data = SubsetData.from_columns(self.X[:, columns], self.y, self.ridge)
        return SubsetSearch(data, self.k, np.zeros(0, dtype=np.int64))

    def _lift(self, columns: np.ndarray, x: np.ndarray) -> np.ndarray:
        whole = np.zeros(len(self.D))
        whole[columns] = x
        return whole

    # -- nodes ------------------------------------------------------------------------------

    def root(self) -> Subset:
        """Every column is free."""
        return Subset(np.zeros(0, dtype=np.int64), np.arange(len(self.D)))

    def evaluate(self, state: Subset, goal: Goal) -> Evaluation:
        """Screen; then search what is left, or split it."""
        if self.unit == 0.0 or self.k == 0:
            return Evaluation(self.unit * (1.0 - 4.0 * _EPS), nodes=1)
        removed, rounds = np.inf, 0
        solutions: list[tuple[str, np.ndarray]] = []
        while len(state.inside) + len(state.free) > DENSE:
            k = self.k - len(state.inside)
            if k == 0 or k >= len(state.free):
                state = Subset(state.inside, state.free if k else state.free[:0])
                break
            found = self._relax(state, k, goal)
            rounds += 1
            bound = self._value(found.bound)
            if bound >= goal.cutoff:
                return Evaluation(bound, solutions, removed=removed, work={"screenings": rounds})
            if rounds == 1:
                order = np.argsort(-found.score[found.inside:], kind="stable")[:_SOME]
                near = np.concatenate([state.inside, state.free[order]])
                solutions = [("R", self._swapped(near, goal))]
            values = [self._value(part) for part in found.forced(k)]
            away, inside = (part >= goal.cutoff for part in values)
            state = Subset(state.inside, state.free, (found.z[found.inside:],) * 2)
            if goal.expired() or np.sum(away | inside) < 0.1 * len(away):
                return self._halve(state, found, bound, removed, solutions, rounds)
            removed = min(removed, *(float(part[gone].min(initial=np.inf))
                                     for part, gone in zip(values, (away, inside), strict=True)))
            state = state.without(away, inside)
        return self._below(state, goal, removed, solutions, rounds)

    def _relax(self, state: Subset, k: int, goal: Goal) -> Relaxed:
        columns = np.concatenate([state.inside, state.free])
        if state.warm is not None:
            free = state.warm[1]
        elif goal.incumbent is not None:
            free = (goal.incumbent[state.free] != 0.0).astype(float)
        else:
            free = np.full(len(state.free), k / len(state.free))
        rows = self.rows if len(columns) == len(self.rows) else self.rows[columns]
        D = self.D[columns]
        target = goal.cutoff / self.unit + self._slop - 1.0
        z = np.concatenate([np.ones(len(state.inside)), free])
        return relax(Ridged(rows, D), self.b[columns], D, k, z, target, len(state.inside))

    def _halve(
        self, state: Subset, found: Relaxed, bound: float, removed: float,
        solutions: list[tuple[str, np.ndarray]], rounds: int,
    ) -> Evaluation:
        """Split at the column about which the relaxation is least decided."""
        z = found.z[found.inside:]
        score = z * (1.0 - z) * found.score[found.inside:]
        at, none = np.arange(len(z)) == int(np.argmax(score)), np.zeros(len(z), bool)
        children = [Child(state.without(none, at), bound), Child(state.without(at, none), bound)]
        return Evaluation(
            bound, solutions, [Candidate(0)], children, removed=removed,
            work={"screenings": rounds},
        )

    def _below(
        self, state: Subset, goal: Goal, removed: float,
        solutions: list[tuple[str, np.ndarray]], rounds: int,
    ) -> Evaluation:
        """Hand over to a search among the columns that are left."""
        columns = np.sort(np.concatenate([state.inside, state.free]))
        if self._core is None or not np.all(np.isin(columns, self._core[0])):
            self._core = columns, self._search(columns)
        base, search = self._core
        free = np.searchsorted(base, state.free)
        order = np.argsort(free)
        small = Subset(np.searchsorted(base, state.inside), free[order])
        inner = goal if goal.incumbent is None else replace(goal, incumbent=goal.incumbent[base])
        found = search.evaluate(small, inner)
        lifted = [(source, self._lift(base, x)) for source, x in found.solutions]
        found.solutions = [*solutions, *lifted]
        found.removed = min(found.removed, removed)
        found.data = [
            Child(Subset(base[child.state.inside], base[child.state.free]), child.bound)
            for child in found.data or ()
        ]
        found.work = found.work | {"screenings": rounds}
        return found

    def _value(self, bound: Any) -> Any:
        """The objective of a bound, or of several, rounded down."""
        return self.unit * np.maximum(1.0 - 4.0 * _EPS + bound - self._slop, 0.0)

    def branch(self, evaluation: Evaluation) -> Sequence[Child]:
        """What the evaluation left open."""
        return evaluation.data

    # -- checkpoints ------------------------------------------------------------------------

    def encode(self, state: Subset) -> list[list[int]]:
        """The two sets."""
        return encode(state)

    def decode(self, data: Any) -> Subset:
        """The two sets back, checked."""
        return decode(data, len(self.D), self.k, np.zeros(0, dtype=np.int64))
