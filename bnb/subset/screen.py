"""Best subsets of thousands of columns: the ridge bounds, and screens columns away.

With a ridge, S = XᵀX + D has its diagonal D at hand, so the relaxation of `relaxed` needs nothing
but products with X. What it cannot rule out is searched like any other problem as soon as few
enough columns are left; until then nodes are split in two: of a set of columns that are alike one
at least is in, or none is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg as la

from ..problem import Candidate, Child, Evaluation, Goal
from ..validation import index_set
from .data import SubsetData
from .relaxed import Choice, Relaxed, Ridged, Rows, relax
from .search import Done, Subset, SubsetSearch, decode, encode

DENSE = 1000
"""Columns up to which a problem is searched without screening."""
FEW = 200
"""Columns that screening must leave for that to go on without it."""
_ALIKE, _SEEDS = 0.3, 20  # correlation of columns that are split together; how many are tried
_SOME = 300  # columns among which heuristics look
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Part:
    """Columns that are in, those that may be, and groups of these of which one at least is in."""

    inside: np.ndarray
    free: np.ndarray
    groups: tuple[np.ndarray, ...]

    def keep(self, kept: np.ndarray, come: np.ndarray | None = None) -> Part | None:
        """With only some of the free columns left, and some in; None if that cannot be."""
        inside = self.inside
        if come is not None:
            inside = np.sort(np.append(inside, self.free[come]))
            kept = kept & ~come
        groups = []
        for members in self.groups:
            if np.isin(members, inside).any():
                continue
            left = members[np.isin(members, self.free[kept])]
            if len(left) == 0:
                return None
            groups.append(left)
        single = [members for members in groups if len(members) == 1]
        node = Part(inside, self.free[kept], tuple(groups))
        if not single:
            return node
        alone = np.isin(node.free, np.concatenate(single))
        return node.keep(~alone, alone)


@dataclass(frozen=True)
class Wide:
    """A node, small although its free columns are many."""

    inside: np.ndarray
    bits: np.ndarray
    groups: tuple[np.ndarray, ...] = ()
    warm: tuple[np.ndarray, np.ndarray] | None = None
    """Columns that are not zero in the parent's relaxation, and their z."""

    @staticmethod
    def of(
        node: Part, p: int, warm: tuple[np.ndarray, np.ndarray] | None = None
    ) -> Wide:
        """Of a node with p columns in all."""
        mask = np.zeros(p, bool)
        mask[node.free] = True
        return Wide(node.inside, np.packbits(mask), node.groups, warm)

    def open(self, p: int) -> Part:
        """The node again."""
        return Part(self.inside, np.flatnonzero(np.unpackbits(self.bits, count=p)), self.groups)


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
        self._gram = Rows(self.rows, self.D)
        self.unit = float(y @ y)
        self.b = self.rows @ (y / np.sqrt(self.unit)) if self.unit > 0.0 else np.zeros(len(norm))
        # Rounding of the columns and of y, for coefficients that a solution can have.
        self._slop = 8.0 * _EPS * (1.0 + np.sqrt(k / self.D.min())) ** 2
        # The same where entries of S are off by more than the rounding of a product.
        self._slip = 4.0 * self._slop * (len(y) + k)
        self._core: tuple[np.ndarray, SubsetSearch] | None = None
        self._evaluations = 0

    # -- first solutions --------------------------------------------------------------------

    def prepare(self, goal: Goal) -> Evaluation:
        """Forward selection on all columns, then swaps among the most promising."""
        self._core, self._evaluations = None, 0
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

    def root(self) -> Wide:
        """Every column is free."""
        return Wide.of(Part(np.zeros(0, dtype=np.int64), np.arange(len(self.D)), ()), len(self.D))

    def evaluate(self, state: Wide, goal: Goal) -> Evaluation:
        """Screen; then search what is left, or split it."""
        if self.unit == 0.0 or self.k == 0:
            return Evaluation(self.unit * (1.0 - 4.0 * _EPS), nodes=1)
        self._evaluations += 1
        done, warm = Done(work=Counter(screenings=0)), state.warm
        node: Part | None = state.open(len(self.D))
        while node is not None and len(node.inside) + len(node.free) > FEW:
            k = self.k - len(node.inside)
            if k < len(node.groups):
                return done.then(Evaluation(np.inf))
            if k == 0 or k >= len(node.free):
                break
            if k == len(node.groups) and sum(map(len, node.groups)) < len(node.free):
                node = node.keep(np.isin(node.free, np.concatenate(node.groups)))
                continue
            if k == 1 and self.unit * self._slip <= 0.1 * goal.tolerance.slack(goal.objective):
                return done.then(self._last(node))
            found = self._relax(node, warm, k, goal)
            done.work["screenings"] += 1
            bound = self._value(found.bound)
            if bound >= goal.cutoff:
                return done.then(Evaluation(bound))
            if done.work["screenings"] == 1 and self._evaluations.bit_count() == 1:
                done.solutions.append(("R", self._near(node, found, goal)))  # ever more rarely
            values = [self._value(part) for part in found.forced()]
            away, come = (part >= goal.cutoff for part in values)
            if goal.expired() or np.sum(away | come) < 0.1 * len(away):
                return done.then(self._halve(node, found, bound))
            done.removed = min(done.removed, values[0][away].min(initial=np.inf),
                               values[1][come].min(initial=np.inf))
            warm = self._warm(node, found)
            node = node.keep(~away, come)
        return done.then(Evaluation(np.inf) if node is None else self._below(node, goal))

    def _relax(
        self, node: Part, warm: tuple[np.ndarray, np.ndarray] | None, k: int, goal: Goal
    ) -> Relaxed:
        inside, free = node.inside, node.free
        columns = np.concatenate([inside, free])
        whole = np.zeros(len(self.D))
        if warm is not None:
            whole[warm[0]] = warm[1]
        elif goal.incumbent is not None:
            whole[goal.incumbent != 0.0] = 1.0
        else:
            whole[free[:k]] = 1.0
        whole[inside] = 1.0
        group = np.full(len(columns), -1)
        for i, members in enumerate(node.groups):
            group[len(inside) + np.searchsorted(free, members)] = i
        D = self.D[columns]
        target = goal.cutoff / self.unit + self._slop - 1.0
        return relax(
            Ridged(self._gram, columns), self.b[columns], D,
            Choice(k, len(inside), group, len(node.groups)), whole[columns], target,
        )

    def _warm(self, node: Part, found: Relaxed) -> tuple[np.ndarray, np.ndarray]:
        """Where the relaxations of children begin: columns that are not zero, and their z."""
        z = found.z[len(node.inside) :]
        return node.free[z > 0.0], z[z > 0.0]

    def _near(self, node: Part, found: Relaxed, goal: Goal) -> np.ndarray:
        """What swaps find among the columns that the relaxation likes best."""
        order = np.argsort(-found.score[len(node.inside) :], kind="stable")[:_SOME]
        return self._swapped(np.append(node.inside, node.free[order]), goal)

    def _last(self, node: Part) -> Evaluation:
        """One more column: try them all."""
        inside, free = node.inside, node.free
        rows, places = self._gram.at(inside)
        some = rows[places]
        L = la.cholesky(some[:, inside], lower=True, check_finite=False)
        V = la.solve_triangular(L, some[:, free], lower=True, check_finite=False)
        w = la.solve_triangular(L, self.b[inside], lower=True, check_finite=False)
        gain = (self.b[free] - w @ V) ** 2 / (1.0 - np.einsum("ij,ij->j", V, V))
        best = int(np.argmax(gain))
        chosen = np.append(inside, free[best])
        bound = self._value(-float(w @ w) - float(gain[best]) - self._slip)
        return Evaluation(bound, [("N", self._lift(chosen, self._fit(chosen)))])

    def _halve(self, node: Part, found: Relaxed, bound: float) -> Evaluation:
        """Split: one of a set of columns that are alike is in, or none is."""
        first = len(node.inside)
        some = self._cluster(node, found.z[first:], found.choice.group[first:])
        kept = np.ones(len(node.free), bool)
        kept[some] = False
        one = (node.keep(kept, ~kept) if len(some) == 1
               else Part(node.inside, node.free, (*node.groups, node.free[some])))
        warm = self._warm(node, found)
        children = [Child(Wide.of(child, len(self.D), warm), bound)
                    for child in (one, node.keep(kept)) if child is not None]
        return Evaluation(bound, [], [Candidate(0)], children)

    def _cluster(self, node: Part, z: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Positions of free columns of which it is least clear whether one is in.

        A column of which a neighbour could take the place is not worth a split: the relaxation
        would move there. So the columns like it go with it, and single ones of a group come last.
        """
        best, chosen = -1.0, np.zeros(1, dtype=np.int64)
        for j in np.argsort(-z * (1.0 - z), kind="stable")[:_SEEDS]:
            some = np.array([j])
            if group[j] < 0:
                rows, places = self._gram.at(node.free[some])
                some = np.flatnonzero(
                    (np.abs(rows[places[0], node.free]) > _ALIKE) & (group < 0)
                )
            y = min(float(z[some].sum()), 1.0)
            worth = y * (1.1 - y) * (1.0 if group[j] < 0 else 0.1)
            if worth > best:
                best, chosen = worth, some
        return chosen

    def _below(self, node: Part, goal: Goal) -> Evaluation:
        """Hand over to a search among the columns that are left."""
        free = node.free if len(node.inside) < self.k else node.free[:0]
        columns = np.sort(np.concatenate([node.inside, free]))
        if self._core is None or not np.all(np.isin(columns, self._core[0])):
            self._core = columns, self._search(columns)
        base, search = self._core
        small = Subset(np.searchsorted(base, node.inside), np.searchsorted(base, free))
        inner = goal if goal.incumbent is None else replace(goal, incumbent=goal.incumbent[base])
        found = search.evaluate(small, inner)
        found.solutions = [(source, self._lift(base, x)) for source, x in found.solutions]
        found.data = [self._widen(base, child) for child in found.data or ()]
        return found

    def _widen(self, base: np.ndarray, child: Child) -> Child:
        """A child of a search among the columns `base` in terms of all columns."""
        node = Part(base[child.state.inside], base[child.state.free], ())
        return Child(Wide.of(node, len(self.D)), child.bound)

    def _value(self, bound: Any) -> Any:
        """The objective of a bound, or of several, rounded down."""
        return self.unit * np.maximum(1.0 - 4.0 * _EPS + bound - self._slop, 0.0)

    def branch(self, evaluation: Evaluation) -> Sequence[Child]:
        """What the evaluation left open."""
        return evaluation.data

    # -- checkpoints ------------------------------------------------------------------------

    def encode(self, state: Wide) -> list[list[int]]:
        """The columns that are in, the free ones, and the groups."""
        node = state.open(len(self.D))
        return [*encode(Subset(node.inside, node.free)), *(part.tolist() for part in node.groups)]

    def decode(self, data: Any) -> Wide:
        """The sets back, checked."""
        node = decode(data[:2], len(self.D), self.k, np.zeros(0, dtype=np.int64))
        groups = [index_set("a group", part, len(self.D)) for part in data[2:]]
        members = np.concatenate([node.free[:0], *groups])
        if len(np.unique(members)) < len(members) or len(np.setdiff1d(members, node.free)):
            raise ValueError("groups must be made of free columns, each in one at most")
        return Wide.of(Part(node.inside, node.free, tuple(groups)), len(self.D))
