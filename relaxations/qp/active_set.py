r"""Small dense QPs by a dual active-set method that starts from the parent's active set.

Bounds and rows are one list of constraints, low ≤ Cx ≤ high with C = [I; A]. With multipliers λ
(positive against `high`, negative against `low`) x = −P⁻¹(q + Cᵀλ), so Cx = w − Gλ with
G = CP⁻¹Cᵀ and w = −CP⁻¹q. These are computed once: a node is a search for the right λ, and only
`low` and `high` change. The method is Goldfarb and Idnani's: λ is dual feasible from the first step
to the last, the most violated constraint enters, those whose multiplier would change its sign
leave. The factor of the active block of G is updated, never computed anew.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ..jit import outer
from ..patience import FOR_EVER, Patience
from .certificate import Certifier
from .model import QP, Solution
from .osqp_workspace import OSQPWorkspace

OPTIMAL, INFEASIBLE, UNFINISHED = 0, 1, 2
_MOST = 250
"""Variables, and as many rows: beyond, G is too large to be quick."""
_DEFINITE = 1e-11
"""Smallest reciprocal condition number of P (scaled to a unit diagonal) that is trusted."""
_VIOLATED = 1e-10
"""A constraint is violated by more than this, relative to its terms."""
_DEPENDENT = 1e-11
"""Share of G_jj that must be left for j to be independent of the active constraints."""
_NOISE = 1e-9
"""Multipliers below this share of the largest are zeros of the parent's solution."""


@outer
def forward(L, k, b):  # type: ignore[no-untyped-def]
    """b ← L⁻¹b."""
    for i in range(k):
        total = b[i]
        for j in range(i):
            total -= L[i, j] * b[j]
        b[i] = total / L[i, i]


@outer
def backward(L, k, b):  # type: ignore[no-untyped-def]
    """b ← L⁻ᵀb."""
    for i in range(k - 1, -1, -1):
        b[i] /= L[i, i]
        for j in range(i):
            b[j] -= L[i, j] * b[i]


@outer
def factorise(M):  # type: ignore[no-untyped-def]
    """Cholesky's factor in place of the lower triangle; False if M is nearly singular."""
    for i in range(len(M)):
        size = M[i, i]
        for j in range(i + 1):
            total = M[i, j]
            for r in range(j):
                total -= M[i, r] * M[j, r]
            if j < i:
                M[i, j] = total / M[j, j]
            elif total > _DEFINITE * size:
                M[i, i] = np.sqrt(total)
            else:
                return False
    return True


@outer
def _enter(G, L, active, k, j, row):  # type: ignore[no-untyped-def]
    """Write L⁻¹G_Wj to `row`; True if j is independent of the active constraints W."""
    left = G[j, j]
    for i in range(k):
        row[i] = G[active[i], j]
    forward(L, k, row)
    for i in range(k):
        left -= row[i] * row[i]
    if not left > _DEPENDENT * G[j, j]:
        return False
    for i in range(k):
        L[k, i] = row[i]
    L[k, k] = np.sqrt(left)
    active[k] = j
    return True


@outer
def _leave(L, active, k, p, v):  # type: ignore[no-untyped-def]
    """Take the p-th active constraint out: a shift, and an update of rank one below it."""
    for i in range(p + 1, k):
        v[i - 1] = L[i, p]
        active[i - 1] = active[i]
        for j in range(p):
            L[i - 1, j] = L[i, j]
        for j in range(p + 1, i + 1):
            L[i - 1, j - 1] = L[i, j]
    for c in range(p, k - 1):
        r = np.hypot(L[c, c], v[c])
        cosine, sine = r / L[c, c], v[c] / L[c, c]
        L[c, c] = r
        for i in range(c + 1, k - 1):
            L[i, c] = (L[i, c] + sine * v[i]) / cosine
            v[i] = cosine * v[i] - sine * L[i, c]


@outer
def _values(G, w, active, k, multiplier, out):  # type: ignore[no-untyped-def]
    """Cx = w − Gλ."""
    for r in range(len(w)):
        out[r] = w[r]
    for a in range(k):
        i = active[a]
        t = multiplier[i]
        if t != 0.0:
            for r in range(len(w)):
                out[r] -= G[i, r] * t


@outer
def _worst(value, low, high, G):  # type: ignore[no-untyped-def]
    """The constraint whose violation promises most, and its sign; (−1, 0) if none is violated."""
    worst, most, sign = -1, 0.0, 0
    for i in range(len(value)):
        over, under = value[i] - high[i], low[i] - value[i]
        if over > under:
            miss, end, side = over, high[i], 1
        else:
            miss, end, side = under, low[i], -1
        if miss > _VIOLATED * (1.0 + abs(end) + abs(value[i])):
            gain = miss / np.sqrt(G[i, i]) if G[i, i] > 0.0 else np.inf
            if gain > most:
                worst, most, sign = i, gain, side
    return worst, sign


@outer
def dual_active_set(G, w, low, high, multiplier, limit):  # type: ignore[no-untyped-def]
    """Solve from dual feasible multipliers, in place.

    Returns OPTIMAL; INFEASIBLE, and `multiplier` is then a ray that shows it; or UNFINISHED after
    `limit` steps, with multipliers that are still dual feasible. And the values Cx.
    """
    size = len(w)
    L, active, k = np.zeros((size, size)), np.zeros(size, np.int64), 0
    row, goal, value = np.zeros(size), np.zeros(size), np.zeros(size)
    side = np.zeros(size, np.int64)  # 1: held at `high`, −1: at `low`, 0: not active
    for i in range(size):
        if multiplier[i] != 0.0 and _enter(G, L, active, k, i, row):
            side[i] = 1 if multiplier[i] > 0.0 else -1
            k += 1
        else:
            multiplier[i] = 0.0
    for _ in range(limit):
        for a in range(k):
            i = active[a]
            goal[a] = w[i] - (high[i] if side[i] > 0 else low[i])
        forward(L, k, goal)
        backward(L, k, goal)
        blocking, step = -1, 1.0
        for a in range(k):
            i = active[a]
            now = multiplier[i]
            if low[i] < high[i] and side[i] * goal[a] < 0.0 and now / (now - goal[a]) < step:
                blocking, step = a, now / (now - goal[a])
        for a in range(k):
            multiplier[active[a]] += step * (goal[a] - multiplier[active[a]])
        if blocking >= 0:
            k = _drop(L, active, k, blocking, row, side, multiplier)
            continue
        _values(G, w, active, k, multiplier, value)
        j, sign = _worst(value, low, high, G)
        if j < 0 or side[j] != 0:  # an active constraint is as good as rounding lets it be
            return OPTIMAL, value
        while not _enter(G, L, active, k, j, row):
            # Along this ray Cx stays where it is, and the dual objective grows without end.
            backward(L, k, row)
            blocking, step = -1, np.inf
            for a in range(k):
                i = active[a]
                fall = sign * row[a]
                held = low[i] == high[i] or side[i] * fall <= 0.0
                if not held and multiplier[i] / fall < step:
                    blocking, step = a, multiplier[i] / fall
            if blocking < 0:
                for i in range(size):
                    multiplier[i] = 0.0
                for a in range(k):
                    multiplier[active[a]] = -sign * row[a]
                multiplier[j] = sign
                return INFEASIBLE, value
            for a in range(k):
                multiplier[active[a]] -= step * sign * row[a]
            multiplier[j] += step * sign
            k = _drop(L, active, k, blocking, row, side, multiplier)
        side[j] = sign
        k += 1
    return UNFINISHED, value


@outer
def _drop(L, active, k, p, v, side, multiplier):  # type: ignore[no-untyped-def]
    """Let the p-th active constraint go; returns how many are left."""
    multiplier[active[p]] = 0.0
    side[active[p]] = 0
    _leave(L, active, k, p, v)
    return k - 1


class DualForm:
    """G and w of a QP whose P is safely definite; `of` returns None for others."""

    def __init__(self, inverse: np.ndarray, C: np.ndarray, q: np.ndarray) -> None:
        G = C @ inverse
        self._n = len(q)
        self.G = np.ascontiguousarray(0.5 * (G + G.T))
        self.w = -(inverse.T @ q)

    @staticmethod
    def of(P: np.ndarray, q: np.ndarray, A: np.ndarray) -> DualForm | None:
        """Factorise P; None if it is not definite beyond doubt."""
        diagonal = P.diagonal()
        if not np.all(diagonal > 0.0):
            return None
        scale = 1.0 / np.sqrt(diagonal)
        unit = P * np.outer(scale, scale)
        try:
            factor = scipy.linalg.cho_factor(unit, lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            return None
        norm = float(np.abs(unit).sum(axis=0).max())
        if not scipy.linalg.lapack.dpocon(factor[0], norm, uplo="L")[0] > _DEFINITE:
            return None
        C = np.vstack([np.eye(len(q)), A])
        inverse = scipy.linalg.cho_solve(factor, (C * scale).T, check_finite=False)
        return DualForm(scale[:, None] * inverse, C, q)

    def solve(
        self, low: np.ndarray, high: np.ndarray, multiplier: np.ndarray
    ) -> tuple[int, np.ndarray]:
        """Status and x; `multiplier` is changed in place."""
        status, value = dual_active_set(
            self.G, self.w, low, high, multiplier, 50 + 10 * len(self.w)
        )
        return int(status), value[: self._n]


def suits(qp: QP) -> bool:
    """Whether the QP is small, dense, and has no perspective terms."""
    if len(qp.pairs) or qp.n > _MOST or qp.A.shape[0] > _MOST:
        return False
    return sp.csr_matrix(qp.P).nnz > 0.25 * qp.n**2


class ActiveSetWorkspace:
    """Solves a small dense QP without pairs under changing variable bounds; see `suits`."""

    def __init__(self, qp: QP, form: DualForm) -> None:
        self._qp, self._form = qp, form
        self._certifier = Certifier(qp)
        self._hessian = qp.dense_hessian()
        self._columns = np.ascontiguousarray(qp.A.toarray().T)
        self._other: OSQPWorkspace | None = None

    @staticmethod
    def of(qp: QP) -> ActiveSetWorkspace | None:
        """None where P is too close to singular."""
        form = DualForm.of(qp.dense_hessian(), qp.q, qp.A.toarray())
        return None if form is None else ActiveSetWorkspace(qp, form)

    def solve(
        self, lb: np.ndarray, ub: np.ndarray, *, cutoff: float = np.inf, slack: float = 0.0,
        warm: tuple[np.ndarray, np.ndarray] | None = None, patience: Patience = FOR_EVER,
    ) -> Solution:
        """Solve the node with these bounds; as `Workspace.solve`.

        The solution is accurate whatever `cutoff` and `slack` ask for. Where no certificate comes
        of it, which rounding may do, the node is OSQP's.
        """
        qp = self._qp
        low, high = np.concatenate([lb, qp.l]), np.concatenate([ub, qp.u])
        multiplier = self._begin(low, high, warm)
        status, x = self._form.solve(low, high, multiplier)
        y = multiplier[qp.n :]
        if status == INFEASIBLE and self._certifier.infeasible(y, lb, ub):
            nothing = np.zeros(qp.n)
            return Solution(np.clip(nothing, lb, ub), 0.0 * y, np.inf, nothing, np.inf, 1)
        if status == OPTIMAL:
            x = np.clip(x, lb, ub)
            bound, reduced = self._certifier.bound(x, y, lb, ub)
            if bound > -np.inf:
                objective = 0.5 * float(x @ (self._hessian @ x)) + float(qp.q @ x) + qp.constant
                return Solution(x, y, bound, reduced, objective, 1)
        if self._other is None:
            self._other = OSQPWorkspace(qp)
        return self._other.solve(
            lb, ub, cutoff=cutoff, slack=slack, warm=warm, patience=patience
        )

    def _begin(
        self, low: np.ndarray, high: np.ndarray, warm: tuple[np.ndarray, np.ndarray] | None
    ) -> np.ndarray:
        """Dual feasible multipliers from a solution nearby; zeros without one."""
        if warm is None:
            return np.zeros(len(low))
        x, y = warm
        slope = self._hessian @ x + self._qp.q + self._columns @ y
        multiplier = np.concatenate([-slope, y])
        multiplier[np.abs(multiplier) <= _NOISE * np.abs(multiplier).max(initial=0.0)] = 0.0
        ends = np.where(multiplier > 0.0, high, low)
        multiplier[np.isinf(ends)] = 0.0
        return multiplier
