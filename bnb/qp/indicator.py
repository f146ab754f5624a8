"""QPs in which only some of the rows have to hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from relaxations import Patience

from .. import validation
from ..problem import Candidate, Evaluation
from .miqp import MIQP, Box

_HOLDS = 1e-9


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
    relaxation. Branching is on the row violated most; `Result.x` is x alone.

    Examples
    --------
    The smallest x with at least two of three lower bounds met:

    >>> import bnb
    >>> problem = bnb.IndicatorQP([[1.0]], [0.0], G=[[1.0]] * 3, b=[1.0, 2.0, 3.0],
    ...                           groups=[([0, 1, 2], 2)])
    >>> bnb.solve(problem).x.round(6)
    array([2.])
    """

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
        self._n = n
        self._s = np.arange(n, n + m)
        self._z = np.arange(n + m, n + 2 * m)
        self._G, self._b = rows, b
        self._counts, self._needs = counts, needs

    def propagate(self, lb: np.ndarray, ub: np.ndarray, rounds: int = 10) -> bool:
        """Rows and budgets; then an enforced row has a non-negative slack, and a hopeless one
        is given up."""
        s, z = self._s, self._z
        enforced = lb[z] > 0.5
        lb[s[enforced]] = np.maximum(lb[s[enforced]], 0.0)
        ub[z[ub[s] < -1e-6]] = 0.0
        if np.any(lb > ub) or not super().propagate(lb, ub, rounds):
            return False
        enforced = lb[z] > 0.5
        lb[s[enforced]] = np.maximum(lb[s[enforced]], 0.0)
        return bool(np.all(lb <= ub))

    def check(self, x: np.ndarray) -> tuple[float, float]:
        """As for `MIQP`, and every row counted as holding must hold."""
        objective, violation = super().check(x)
        if np.isfinite(violation):
            claimed = x[self._z] > 0.5
            slack = (self._G @ x[: self._n] - self._b) / np.maximum(1.0, np.abs(self._b))
            violation = max(violation, float((-slack[claimed]).max(initial=0.0)))
        return objective, violation

    def _recession(self, patience: Patience) -> bool:
        """Not known: enforced rows, which are not rows of A, may stop the fall."""
        return False

    def _candidates(self, x: np.ndarray, lb: np.ndarray, ub: np.ndarray) -> list[Candidate]:
        """Open rows, most violated first; those that hold come last and only if all do."""
        open_ = np.flatnonzero(lb[self._z] < ub[self._z])
        slack = self._G[open_] @ x[: self._n] - self._b[open_]
        order = np.argsort(slack, kind="stable")
        chosen = [i for i in order if slack[i] < -_HOLDS] or list(order)
        return [
            Candidate(int(self._z[open_[i]]), max(float(-slack[i]), 1e-9), 1.0) for i in chosen
        ]

    def branch(self, state: Box, evaluation: Evaluation, candidate: Candidate) -> list[Box]:
        """Enforce the row in one child and give it up in the other."""
        box: Box = evaluation.data
        enforced, given_up = (Box(box.lb.copy(), box.ub.copy(), box.warm) for _ in range(2))
        enforced.lb[candidate.key] = 1.0
        given_up.ub[candidate.key] = 0.0
        return [enforced, given_up]

    def fix_and_propagate(
        self, x: np.ndarray, lb: np.ndarray, ub: np.ndarray, patience: Patience
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Claim the rows that hold best until every group is satisfied; give up the others."""
        slack = self._G @ x[: self._n] - self._b
        scores = np.where(ub[self._z] > 0.5, slack, -np.inf)
        chosen = lb[self._z] > 0.5
        have = self._counts @ chosen
        for j in np.argsort(-scores, kind="stable"):
            if chosen[j] or scores[j] == -np.inf:
                continue
            short = have < self._needs - 1e-9
            if slack[j] >= 0.0 or np.any(self._counts[short, j] > 0.0):
                chosen[j] = True
                have += self._counts[:, j]
        new_lb, new_ub = lb.copy(), ub.copy()
        new_lb[self._z] = new_ub[self._z] = chosen.astype(float)
        if np.any(new_lb > ub) or np.any(new_ub < lb):
            return None
        return (new_lb, new_ub) if self.propagate(new_lb, new_ub) else None

    def present(self, x: np.ndarray) -> np.ndarray:
        """x without slacks and binaries."""
        return x[: self._n]

    def accept(self, x: np.ndarray) -> np.ndarray:
        """Slacks and binaries that go with x."""
        if np.shape(x) != (self._n,):
            raise ValueError(f"a solution must have shape ({self._n},), got {np.shape(x)}")
        slack = self._G @ x - self._b
        return np.concatenate([x, slack, (slack >= -_HOLDS).astype(float)])


def _count_rows(
    groups: Sequence[tuple[Sequence[int], float]], weights: np.ndarray, m: int
) -> tuple[np.ndarray, np.ndarray]:
    """Σ_j w_j z_j ≥ k for every group: the weights, a row per group, and the k."""
    if not groups:
        raise ValueError("groups must name at least one (positions, k)")
    rows, needs = [], []
    for number, (positions, k) in enumerate(groups):
        members = validation.index_set(f"groups[{number}]", np.asarray(positions), m)
        row = np.zeros(m)
        row[members] = weights[members]
        if not 0 <= k <= row.sum() + 1e-9:
            raise ValueError(
                f"groups[{number}]: k = {k:g} must be between 0 and the group's total weight "
                f"{row.sum():g}"
            )
        rows.append(row)
        needs.append(float(k))
    return np.array(rows), np.array(needs)
