"""QPs in which only some of the rows have to hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from relaxations import Patience
from relaxations.qp.droppable import Droppable

from .. import validation
from ..chains import Chains
from ..problem import Candidate, Child, Evaluation, Goal, UnboundedError
from .miqp import MIQP, Box, first_solution
from .propagation import Propagator
from .rules import Rules

_HOLDS = 1e-9
_SPARE, _TRIALS = 2.0, 24  # trials as a multiple of what a split needs, and at most
_MOST_ROWS, _EARLY = 500, 20  # rows, and nodes before drop bounds pay for being compiled
_LOOK = 100  # nodes to look for directions in which the objective falls without end
_SHARPNESS, _DECAY = 6.0, 0.9  # see `Chains.best`


class IndicatorQP(MIQP):
    """min ½ xᵀPx + qᵀx  s.t.  l ≤ Ax ≤ u,  and of the rows Gx ≥ b at least k per group hold.

    Parameters
    ----------
    P, q, A, l, u, lb, ub
        As in `MIQP`; all x are continuous.
    G, b : array or sparse matrix of shape (m, n), array of shape (m,)
        The rows of which some may be given up.
    groups : list of (positions, k)
        Of the rows at `positions`, rows of total weight at least k must hold. Groups may overlap;
        a row in no group need not hold.
    weights : array of shape (m,), optional
        Weight of each row in the counts, >= 0; one by default.

    Notes
    -----
    Internally x is followed by the slacks s = Gx − b and binaries z with z_j = 1 ⇒ s_j ≥ 0. No
    big-M is needed: a row that is neither enforced nor given up is simply left out of the
    relaxation. Nodes are split by chains of violated rows (`bnb.chains`); where P is definite the
    drop bound decides about rows before that (`relaxations.qp.droppable`). `Result.x` is x alone.

    Examples
    --------
    The smallest x with at least two of three lower bounds met:

    >>> import bnb
    >>> problem = bnb.IndicatorQP([[1.0]], [0.0], G=[[1.0]] * 3, b=[1.0, 2.0, 3.0],
    ...                           groups=[([0, 1, 2], 2)])
    >>> bnb.solve(problem).x.round(6)
    array([2.])
    """

    scratch = MIQP.scratch | {"_droppable"}

    def __init__(
        self,
        P: Any,
        q: Any,
        *,
        G: Any,
        b: Any,
        groups: Sequence[tuple[Sequence[int], float]],
        weights: Any = None,
        A: Any = None,
        l: Any = None,  # noqa: E741 - the usual name
        u: Any = None,
        lb: Any = None,
        ub: Any = None,
        constant: float = 0.0,
    ) -> None:
        n = np.size(q)
        rows = validation.matrix("G", G, (None, n))
        m = rows.shape[0]
        if m == 0:
            raise ValueError("G must have at least one row")
        b = validation.vector("b", b, m)
        weights = validation.vector("weights", weights, m, 1.0)
        if (weights < 0).any():
            raise ValueError("weights must be >= 0")
        counts, needs = _count_rows(groups, weights, m)
        A = validation.matrix("A", A, (None, n))
        low = validation.vector("l", l, A.shape[0], -np.inf, infinite=True)
        high = validation.vector("u", u, A.shape[0], np.inf, infinite=True)
        nothing = sp.csr_matrix((m, m))
        super().__init__(
            sp.block_diag([validation.matrix("P", P, (n, n)), nothing, nothing]),
            np.concatenate([validation.vector("q", q, n), np.zeros(2 * m)]),
            sp.vstack([
                sp.hstack([A, sp.csr_matrix((A.shape[0], 2 * m))]),
                sp.hstack([rows, -sp.identity(m), nothing]),
                sp.hstack([sp.csr_matrix((len(needs), n + m)), counts]),
            ], format="csr"),
            np.concatenate([low, b, needs]),
            np.concatenate([high, b, np.full(len(needs), np.inf)]),
            lb=np.concatenate([
                validation.vector("lb", lb, n, -np.inf, infinite=True), np.full(m, -np.inf),
                np.zeros(m),
            ]),
            ub=np.concatenate([
                validation.vector("ub", ub, n, np.inf, infinite=True), np.full(m, np.inf),
                np.ones(m),
            ]),
            binary=np.arange(n + m, n + 2 * m),
            constant=constant,
        )
        self.rules: IndicatorRules = IndicatorRules(n, rows, b, counts, needs)
        self._droppable: Droppable | None = None

    # -- the search -------------------------------------------------------------------------

    def prepare(self, goal: Goal) -> Evaluation:
        """As for `MIQP`, unless rows that are enough let the objective fall without end."""
        if self._falls(Box(self.lb, self.ub), goal.patience) is not False:
            kept = self._kept_by_a_fall(goal)
            if kept is not None and self._falls_along(kept, goal):
                raise UnboundedError
        self._droppable = self._rows_to_drop()
        return super().prepare(goal)

    @property
    def _given(self) -> int:
        """How many rows come first: those of the argument A."""
        return self.A.shape[0] - len(self.rules.b) - len(self.rules.needs)

    def _rows_to_drop(self) -> Droppable | None:
        """What the drop bound needs, if P is definite and there are not too many rows."""
        rules, n, given = self.rules, self.rules.n, self._given
        low = np.concatenate([self.l[:given], self.lb[:n]])
        high = np.concatenate([self.u[:given], self.ub[:n]])
        stay = sp.vstack([self.A[:given, :n], sp.identity(n)], format="csr")
        below, above = np.isfinite(low), np.isfinite(high)
        H = sp.vstack([stay[below], -stay[above], rules.G])
        if H.shape[0] > _MOST_ROWS:
            return None
        return Droppable.of(
            self.P[:n, :n].toarray(), self.q[:n], H.toarray(),
            np.concatenate([low[below], -high[above], rules.b]), self.constant, len(rules.b),
        )

    def _kept_by_a_fall(self, goal: Goal) -> np.ndarray | None:
        """Mask of the rows that some direction to fall along keeps, if one was found.

        It keeps enough of the rows, Gd >= 0: to look for it is a problem of this kind.
        """
        rules, n, given = self.rules, self.rules.n, self._given
        rows = [self.A[:given, :n], self.P[:n, :n], self.q[None, :n] / np.abs(self.q).max()]
        flat = np.zeros(n)
        directions = IndicatorQP(
            sp.identity(n), flat, G=rules.G, b=np.zeros(len(rules.b)),
            groups=[(np.flatnonzero(row).tolist(), need)
                    for row, need in zip(rules.counts, rules.needs, strict=True)],
            weights=rules.counts.max(axis=0), A=sp.vstack(rows),
            l=np.concatenate([_cone(self.l[:given]), flat, [-np.inf]]),
            u=np.concatenate([_cone(self.u[:given]), flat, [-1.0]]),
            lb=_cone(self.lb[:n]), ub=_cone(self.ub[:n]),
        )
        found = first_solution(directions, goal, node_limit=_LOOK)
        return None if found.x is None else rules.G @ found.x >= -_HOLDS

    def _falls_along(self, kept: np.ndarray, goal: Goal) -> bool:
        """Whether a direction that keeps these rows is proven, and a solution to begin at."""
        z, all_kept = self.rules.z, Box(self.lb.copy(), self.ub.copy())
        all_kept.lb[z], all_kept.ub[z] = kept, kept
        self.rules.tighten(all_kept.lb, all_kept.ub)
        some_kept = Box(self.lb, all_kept.ub)
        return (self._falls(all_kept, goal.patience) is True
                and self._point_within(some_kept, goal).x is not None)

    def evaluate(self, state: Box, goal: Goal) -> Evaluation:
        """Decide what the drop bound decides, then split by what trials show."""
        box = Box(state.lb.copy(), state.ub.copy(), state.warm, state.memory)
        bound, removed = self._drop(box, goal)
        if bound >= goal.cutoff:
            return Evaluation(bound, removed=min(removed, self._removed))
        found = self._evaluate(box, goal)
        if found.bound == -np.inf and removed < np.inf:  # a leaf whose bound cannot be certified
            leaf, found = found, self._evaluate(state, goal)
            found.solutions = [*leaf.solutions, *found.solutions]
        found.bound, found.removed = max(found.bound, bound), min(found.removed, removed)
        for child in found.data if found.candidates else ():
            child.state.memory = box.memory
        return found

    def _drop(self, box: Box, goal: Goal) -> tuple[float, float]:
        """The drop bound, and the cutoff that it relied on to decide about rows, in place."""
        bound, removed, z = -np.inf, np.inf, self.rules.z
        if self._droppable is None or self.evaluations < _EARLY or not np.isfinite(goal.cutoff):
            return bound, removed
        while bound < goal.cutoff and not goal.expired():
            if not self.propagate(box.lb, box.ub):
                return np.inf, removed
            must, may = box.lb[z] > 0.5, box.ub[z] > 0.5
            if np.all(must == may):
                break
            found = self._droppable.play(
                must, may, self.rules.counts, self.rules.needs, box.memory, goal.cutoff,
                goal.patience,
            )
            bound, box.memory = max(bound, found.bound), found.memory
            if not found.enforce.size + found.give_up.size:
                break
            box.lb[z[found.enforce]] = 1.0
            box.ub[z[found.give_up]] = 0.0
            removed = goal.cutoff
            if np.any(box.lb[z] > box.ub[z]):
                return np.inf, removed
        return bound, removed

    def _evaluate(self, state: Box, goal: Goal) -> Evaluation:
        """As for `MIQP`; then rows that cannot be enforced are given up, and the node is split."""
        found = super().evaluate(state, goal)
        while found.candidates:
            box: Box = found.data
            trials = self._try(box, goal)
            refuted = [j for j, trial in trials.items() if trial.bound >= goal.cutoff]
            box.ub[self.rules.z[refuted]] = 0.0
            if refuted:
                found.removed = min(found.removed, goal.cutoff)
            if not (refuted and self._decides(box)):
                children = self._split(box, found.bound, trials, goal)
                bound = max(found.bound, min(child.bound for child in children))
                return replace(found, bound=bound, candidates=[Candidate(0)], data=children,
                               seconds=None)
            last, found = found, super().evaluate(box, goal)
            found.bound = max(last.bound, found.bound)
            found.removed = min(last.removed, found.removed)
            found.solutions = [*last.solutions, *found.solutions]
        return found

    def _decides(self, box: Box) -> bool:
        """Whether what is left of the budgets enforces a row, or is overdrawn, or all is said."""
        lb, ub, z = box.lb.copy(), box.ub.copy(), self.rules.z
        return (not self.propagate(lb, ub) or bool(np.any(lb[z] != box.lb[z]))
                or self._is_leaf(lb, ub))

    def _chains(self, box: Box) -> Chains:
        rules = self.rules
        return Chains(rules.counts, rules.counts @ (box.ub[rules.z] > 0.5) - rules.needs)

    def _open(self, box: Box) -> tuple[np.ndarray, np.ndarray]:
        """Rows that nothing is decided about, the most violated first, and their slacks."""
        assert box.warm is not None
        z = self.rules.z
        rows = np.flatnonzero(box.lb[z] < box.ub[z])
        slack = self.rules.slacks(box.warm[0])[rows]
        order = np.argsort(slack, kind="stable")
        return rows[order], slack[order]

    def _try(self, box: Box, goal: Goal) -> dict[int, Child]:
        """Enforce violated rows one at a time, for every group that they overdraw."""
        (rows, slack), z = self._open(box), self.rules.z
        trials: dict[int, Child] = {}
        for j in self._chains(box).trials(rows[slack < -_HOLDS], _SPARE, _TRIALS):
            if goal.expired():
                break
            part = Box(box.lb.copy(), box.ub.copy(), box.warm)
            part.lb[z[j]] = 1.0
            if not self.propagate(part.lb, part.ub, rounds=1):
                trials[j] = Child(part, np.inf)
                continue
            found = self._relax(part.lb, part.ub, box.warm, goal)
            part.warm = (found.x, found.y)
            trials[j] = Child(part, found.bound)
        return trials

    def _split(
        self, box: Box, bound: float, trials: dict[int, Child], goal: Goal
    ) -> list[Child]:
        """By a chain of rows of which some is the first that is not given up."""
        chains, z = self._chains(box), self.rules.z
        bounds = {j: trial.bound for j, trial in trials.items() if box.ub[z[j]] > 0.5}
        chain = chains.best(bounds, bound, goal.cutoff, _SHARPNESS, _DECAY)
        chain = chain or [int(self._open(box)[0][0])]
        children = []
        for i, j in enumerate(chain):
            warm = trials[j].state.warm if j in trials else box.warm
            child = Box(box.lb.copy(), box.ub.copy(), warm)
            child.ub[z[chain[:i]]] = 0.0
            child.lb[z[j]] = 1.0
            children.append(Child(child, max(bound, bounds.get(j, bound))))
        if not chains.overdrawn(np.array(chain)).size:
            child = Box(box.lb.copy(), box.ub.copy(), box.warm)
            child.ub[z[chain]] = 0.0
            children.append(Child(child, bound))
        return children

    def branch(
        self, state: Any, evaluation: Evaluation, candidate: Candidate
    ) -> Sequence[Box | Child]:
        """What the evaluation has split the node into."""
        children: list[Child] = evaluation.data
        return children


@dataclass(frozen=True)
class IndicatorRules(Rules):
    """x is followed by the slacks s = Gx − b and by binaries z with z_j = 1 ⇒ s_j ≥ 0.

    Parameters
    ----------
    n : int
        How many x there are.
    G, b : sparse matrix (m, n), ndarray (m,)
    counts, needs : ndarray (groups, m), (groups,)
        counts @ z ≥ needs.
    """

    G: sp.csr_matrix
    b: np.ndarray
    counts: np.ndarray
    needs: np.ndarray

    rows_say_all = False  # enforced rows, which are not rows of A, may stop a fall

    @property
    def s(self) -> np.ndarray:
        """Positions of the slacks."""
        return np.arange(self.n, self.n + len(self.b))

    @property
    def z(self) -> np.ndarray:
        """Positions of the binaries."""
        return self.s + len(self.b)

    def slacks(self, x: np.ndarray) -> np.ndarray:
        """What the rows have in hand at a point."""
        return self.G @ x[: self.n] - self.b

    def extend(self, x: np.ndarray) -> np.ndarray:
        """Slacks and binaries that go with x."""
        slack = self.slacks(x)
        none, everything = np.zeros(len(slack), bool), np.ones(len(slack), bool)
        return np.concatenate([x, slack, self._claims(slack, none, everything).astype(float)])

    def violation(self, x: np.ndarray) -> float:
        """Every row counted as holding must hold."""
        claimed = x[self.z] > 0.5
        slack = self.slacks(x) / np.maximum(1.0, np.abs(self.b))
        return float((-slack[claimed]).max(initial=0.0))

    def tighten(self, lb: np.ndarray, ub: np.ndarray) -> bool:
        """An enforced row has a non-negative slack, and a hopeless one is given up."""
        s, z = self.s, self.z
        enforced = s[lb[z] > 0.5]
        lb[enforced] = np.maximum(lb[enforced], 0.0)
        ub[z[ub[s] < -1e-6]] = 0.0
        return bool(np.all(lb <= ub))

    def fix(
        self, rows: Propagator, x: np.ndarray, lb: np.ndarray, ub: np.ndarray, patience: Patience
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Claim the rows that hold best until every group is satisfied; give up the others."""
        z = self.z
        claimed = self._claims(self.slacks(x), lb[z] > 0.5, ub[z] > 0.5)
        new_lb, new_ub = lb.copy(), ub.copy()
        new_lb[z] = new_ub[z] = claimed.astype(float)
        return None if np.any(new_lb > ub) or np.any(new_ub < lb) else (new_lb, new_ub)

    def _claims(self, slack: np.ndarray, must: np.ndarray, may: np.ndarray) -> np.ndarray:
        """Rows to count as holding: all that do, then the next best that a group is short of."""
        claimed = must.copy()
        have = self.counts @ claimed
        for j in np.argsort(-slack / np.maximum(1.0, np.abs(self.b)), kind="stable"):
            if claimed[j] or not may[j]:
                continue
            short = have < self.needs - 1e-9
            if slack[j] >= 0.0 or np.any(self.counts[short, j] > 0.0):
                claimed[j] = True
                have += self.counts[:, j]
        return claimed


def _cone(bounds: np.ndarray) -> np.ndarray:
    """Bounds of the directions that stay within these for ever."""
    return np.where(np.isfinite(bounds), 0.0, bounds)


def _count_rows(
    groups: Sequence[tuple[Sequence[int], float]], weights: np.ndarray, m: int
) -> tuple[np.ndarray, np.ndarray]:
    """Σ_j w_j z_j ≥ k for every group: the weights, a row per group, and the k."""
    if not groups:
        raise ValueError("groups must name at least one (positions, k)")
    rows, needs = [], []
    for number, group in enumerate(groups):
        try:
            positions, k = group
            k = float(k)
        except (TypeError, ValueError):
            raise ValueError(
                f"groups[{number}] must be a pair (positions, number of rows), got {group!r}"
            ) from None
        members = validation.index_set(f"groups[{number}]", np.asarray(positions), m)
        row = np.zeros(m)
        row[members] = weights[members]
        if not 0 <= k <= row.sum() + 1e-9:
            raise ValueError(
                f"groups[{number}]: k = {k:g} must be between 0 and the group's total weight "
                f"{row.sum():g}"
            )
        rows.append(row)
        needs.append(k)
    return np.array(rows), np.array(needs)
