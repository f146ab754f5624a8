r"""ADMM for convex QPs with perspective terms d·x²/z.

The splitting is OSQP's, with one more kind of block: besides the rows, projected on [l, u], and
plain variables, projected on their bounds, a switch z and its variables x_m are sent to

    argmin  Σ_m (d_m x_m²/z + ½ρ_m (x_m − v_m)²) + ½ρ_z (z − v_z)²,   low·z ≤ x ≤ high·z.

For fixed z each x_m has a closed form, t = x_m/z = clip(ρv/(ρz + 2d), low, high), and the
derivative in z is increasing, so a bracketed root search finds z. The multipliers are certified
by `relaxations.qp.certificate` like anybody else's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ..jit import outer
from ..patience import FOR_EVER, Patience
from .certificate import Certifier
from .model import QP, Solution

_CHUNK = 50
_MAX_CHUNKS = 60
_RAY_EVERY = 4
_EQUALITY_WEIGHT = 100.0
_RELAX = 1.6
_MAX_LEVEL = 10
_WORK = 3e7
"""Multiplications between two looks at the clock."""
_FULL, _FEW = 0.1, 10
"""Share of the variables that make a row a full one, and how many such rows are worth the name."""
_SMALL = 500
"""Blocks of this size are inverted at once."""


@outer
def _slope(z, first, last, v, rho, d, low, high):  # type: ignore[no-untyped-def]
    """Derivative in z of the x-part of a switch's block."""
    total = 0.0
    for m in range(first, last):
        den = rho[m] * z + 2.0 * d[m]
        if den > 0.0:
            t = rho[m] * v[m] / den
        else:
            t = np.inf if v[m] > 0.0 else (-np.inf if v[m] < 0.0 else 0.0)
        if t < low[m]:
            total += d[m] * low[m] ** 2 + rho[m] * (low[m] * z - v[m]) * low[m]
        elif t > high[m]:
            total += d[m] * high[m] ** 2 + rho[m] * (high[m] * z - v[m]) * high[m]
        elif d[m] > 0.0:
            total -= d[m] * t * t
    return total


@outer
def _switch(vz, rho_z, zl, zu, first, last, v, rho, d, low, high):  # type: ignore[no-untyped-def]
    """The optimal z of a switch's block: a bracketed secant search on the derivative."""
    a, b = zl, zu
    fa = _slope(a, first, last, v, rho, d, low, high) + rho_z * (a - vz)
    if fa >= 0.0:
        return a
    fb = _slope(b, first, last, v, rho, d, low, high) + rho_z * (b - vz)
    if fb <= 0.0:
        return b
    side = 0
    for _ in range(60):
        if b - a <= 1e-13:
            break
        c = (a * fb - b * fa) / (fb - fa)
        if not (c > a and c < b):
            c = 0.5 * (a + b)
        fc = _slope(c, first, last, v, rho, d, low, high) + rho_z * (c - vz)
        if fc == 0.0:
            return c
        if fc < 0.0:
            a, fa = c, fc
            if side == -1:
                fb *= 0.5
            side = -1
        else:
            b, fb = c, fc
            if side == 1:
                fa *= 0.5
            side = 1
    return 0.5 * (a + b)


@outer
def _prox(  # type: ignore[no-untyped-def]
    v, rho, lb, ub, single, switches, start, px, vx, rx, d, low, high, out
):
    """Send every block to its minimiser; vx and rx are scratch in pair order."""
    for j in range(len(v)):
        if single[j]:
            out[j] = min(max(v[j], lb[j]), ub[j])
    for m in range(len(px)):
        vx[m] = v[px[m]]
        rx[m] = rho[px[m]]
    for g in range(len(switches)):
        k = switches[g]
        z = _switch(
            v[k], rho[k], lb[k], ub[k], start[g], start[g + 1], vx, rx, d, low, high
        )
        out[k] = z
        for m in range(start[g], start[g + 1]):
            if z > 0.0:
                t = rx[m] * vx[m] * z / (rx[m] * z + 2.0 * d[m])
                out[px[m]] = min(max(t, low[m] * z), high[m] * z)
            else:
                out[px[m]] = 0.0


@outer
def _rows_times(data, index, pointer, x, out):  # type: ignore[no-untyped-def]
    for i in range(len(pointer) - 1):
        total = 0.0
        for k in range(pointer[i], pointer[i + 1]):
            total += data[k] * x[index[k]]
        out[i] = total


class _Inverse(NamedTuple):
    """The inverse of a matrix whose entries off the diagonal are a block and a few full rows.

    Parameters
    ----------
    core, rest : ndarray of int
        Variables of the block, and the others.
    block : ndarray (c, c)
        Inverse of the block.
    diagonal : ndarray (n - c,)
        Inverse of what is left of the diagonal.
    rows : ndarray (r, n)
        The inverse of the whole is that of block and diagonal less rows'rows.
    """

    core: np.ndarray
    rest: np.ndarray
    block: np.ndarray
    diagonal: np.ndarray
    rows: np.ndarray


@outer
def _times_inverse(inverse, x, out):  # type: ignore[no-untyped-def]
    part = np.empty(len(inverse.core))
    for k in range(len(inverse.core)):
        part[k] = x[inverse.core[k]]
    part = np.dot(inverse.block, part)
    for k in range(len(inverse.core)):
        out[inverse.core[k]] = part[k]
    for k in range(len(inverse.rest)):
        out[inverse.rest[k]] = inverse.diagonal[k] * x[inverse.rest[k]]
    for i in range(inverse.rows.shape[0]):
        share = 0.0
        for j in range(len(x)):
            share += inverse.rows[i, j] * x[j]
        for j in range(len(x)):
            out[j] -= share * inverse.rows[i, j]


@outer
def _iterate(  # type: ignore[no-untyped-def]
    count, inverse, q, data, index, pointer, low_row, high_row, weight, rho, lb, ub, single,
    switches, start, px, d, low, high, s, ys, r, yr,
):
    """`count` ADMM steps in place on (s, ys, r, yr); returns w and the two residuals."""
    n, m = len(q), len(r)
    rhs, w, v, s_old = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    aw, r_old = np.empty(m), np.empty(m)
    vx, rx = np.empty(len(px)), np.empty(len(px))
    primal = dual = 0.0
    for step in range(count):
        for j in range(n):
            rhs[j] = rho[j] * s[j] - ys[j] - q[j]
        for i in range(m):
            value = weight[i] * r[i] - yr[i]
            for k in range(pointer[i], pointer[i + 1]):
                rhs[index[k]] += data[k] * value
        _times_inverse(inverse, rhs, w)
        _rows_times(data, index, pointer, w, aw)
        s_old[:] = s
        r_old[:] = r
        for j in range(n):
            v[j] = _RELAX * w[j] + (1.0 - _RELAX) * s[j] + ys[j] / rho[j]
        _prox(v, rho, lb, ub, single, switches, start, px, vx, rx, d, low, high, s)
        for j in range(n):
            ys[j] = rho[j] * (v[j] - s[j])
        for i in range(m):
            value = _RELAX * aw[i] + (1.0 - _RELAX) * r[i] + yr[i] / weight[i]
            r[i] = min(max(value, low_row[i]), high_row[i])
            yr[i] = weight[i] * (value - r[i])
        if step == count - 1:
            for j in range(n):
                primal += rho[j] * (w[j] - s[j]) ** 2
                dual += rho[j] * (s[j] - s_old[j]) ** 2
            for i in range(m):
                primal += weight[i] * (aw[i] - r[i]) ** 2
                dual += weight[i] * (r[i] - r_old[i]) ** 2
    return w, primal, dual


class PerspectiveWorkspace:
    """Solves QPs with pairs under changing variable bounds; the counterpart of `OSQPWorkspace`.

    Parameters
    ----------
    qp : QP
    scale : ndarray
        Typical size of each variable: the step size of variable j is ρ/scale_j².
    """

    def __init__(self, qp: QP, scale: np.ndarray) -> None:
        self._qp = qp
        self._certifier = Certifier(qp)
        order = np.argsort(qp.pairs.z, kind="stable")
        pairs = qp.pairs
        self._switches, counts = np.unique(pairs.z, return_counts=True)
        self._start = np.concatenate([[0], np.cumsum(counts)])
        self._pair = tuple(
            np.ascontiguousarray(part[order]) for part in (pairs.x, pairs.d, pairs.low, pairs.high)
        )
        self._single = np.ones(qp.n, dtype=np.bool_)
        self._single[pairs.x] = False
        self._single[pairs.z] = False
        self._A = sp.csr_matrix(qp.A)
        norms = np.sqrt(np.asarray(self._A.power(2) @ scale**2).ravel())
        self._row_weight = np.where(qp.l == qp.u, _EQUALITY_WEIGHT, 1.0) / np.maximum(
            norms, 1e-12
        ) ** 2
        self._variable_weight = 1.0 / scale**2
        self._row_work = float(np.sum(np.diff(self._A.indptr).astype(float) ** 2))
        self._hessian = qp.dense_hessian()
        full = np.diff(self._A.indptr) > _FULL * qp.n
        # Many full rows are no longer told apart, and couple all variables.
        self._full = full if np.count_nonzero(full) <= _FEW else np.zeros_like(full)
        self._is_core = _coupled(self._hessian, self._A[~self._full])
        work = np.count_nonzero(self._is_core) ** 2 + 2 * self._A.nnz + qp.n
        self._at_once = int(np.clip(_WORK / work, 1, _CHUNK))
        self._inverses: dict[int, _Inverse] = {}
        curvature = np.concatenate(
            [np.diag(self._hessian) * scale**2, 2.0 * pairs.d * scale[pairs.x] ** 2]
        )
        typical = np.median(curvature[curvature > 0]) if np.any(curvature > 0) else 1.0
        self._unit = float(typical)
        self._level = 0

    def _inverse(self, level: int, patience: Patience) -> tuple[_Inverse, float]:
        """(P + AᵀWA + R)⁻¹ at step size unit·4^level; computed once per level."""
        rho = self._unit * 4.0**level
        if level not in self._inverses:
            self._inverses[level] = patience.run(
                lambda: self._invert(rho, patience), 1.4 * float(self._qp.n) ** 3 + self._row_work
            )
        return self._inverses[level], rho

    def _invert(self, rho: float, patience: Patience) -> _Inverse:
        """By block and diagonal, B, then the full rows F: B⁻¹ − (FB⁻¹)ᵀ(W⁻¹ + FB⁻¹Fᵀ)⁻¹FB⁻¹."""
        core, rest = np.flatnonzero(self._is_core), np.flatnonzero(~self._is_core)
        weight, few = rho * self._row_weight, self._A[~self._full]
        block = self._hessian[np.ix_(core, core)] + _gram(few[:, core], weight[~self._full])
        block[np.diag_indices_from(block)] += rho * self._variable_weight[core]
        block = _inverse_of(block, patience)
        block = np.ascontiguousarray(0.5 * (block + block.T))
        diagonal = np.diag(self._hessian) + rho * self._variable_weight
        diagonal = 1.0 / (diagonal + few.power(2).T @ weight[~self._full])[rest]
        F = self._A[self._full].toarray()
        rows = np.empty_like(F)
        rows[:, core], rows[:, rest] = F[:, core] @ block, F[:, rest] * diagonal
        factor = np.linalg.cholesky(np.diag(1.0 / weight[self._full]) + rows @ F.T)
        rows = scipy.linalg.solve_triangular(factor, rows, lower=True)
        return _Inverse(core, rest, block, diagonal, np.ascontiguousarray(rows))

    def solve(
        self, lb: np.ndarray, ub: np.ndarray, *, cutoff: float = np.inf, slack: float = 0.0,
        warm: tuple[np.ndarray, np.ndarray] | None = None, patience: Patience = FOR_EVER,
    ) -> Solution:
        """Solve the node with these bounds; as `Workspace.solve`."""
        qp = self._qp
        s, ys, r, yr = self._begin(lb, ub, warm)
        best: Solution | None = None
        stalled = 0
        for chunk in range(1, _MAX_CHUNKS + 1):
            inverse, rho = self._inverse(self._level, patience)
            before = yr.copy()
            for done in range(0, _CHUNK, self._at_once):
                w, primal, dual = _iterate(  # type: ignore[call-arg]  # numba's types count no stars
                    min(self._at_once, _CHUNK - done), inverse, qp.q, self._A.data,
                    self._A.indices, self._A.indptr, qp.l, qp.u, rho * self._row_weight,
                    rho * self._variable_weight, lb, ub, self._single, self._switches,
                    self._start, *self._pair, s, ys, r, yr,
                )
                if patience.expired():
                    break
            # Multipliers of an infeasible node grow along a Farkas ray, and its bound with them.
            if chunk % _RAY_EVERY == 0 and self._certifier.infeasible(yr - before, lb, ub):
                return Solution(s, yr, np.inf, np.zeros(qp.n), np.inf, chunk * _CHUNK)
            bound, reduced = self._certifier.bound(w, yr, lb, ub)
            objective = self._objective(s)
            improved = best is None or bound > best.bound + 0.1 * slack
            stalled = 0 if improved else stalled + 1
            if best is None or bound > best.bound:
                best = Solution(s, yr.copy(), bound, reduced, objective, chunk * _CHUNK)
            best.objective, best.x = objective, s.copy()  # the last point is the most accurate
            enough = best.bound >= cutoff or abs(objective - best.bound) <= slack
            if enough or stalled >= 6 or patience.expired():
                break
            self._adapt(primal, dual)
        assert best is not None
        return best

    def _begin(
        self, lb: np.ndarray, ub: np.ndarray, warm: tuple[np.ndarray, np.ndarray] | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        qp = self._qp
        if warm is None:
            s = np.clip(np.zeros(qp.n), lb, ub)
            yr = np.zeros(len(qp.l))
            ys = np.zeros(qp.n)
        else:
            s, yr = warm[0].copy(), warm[1].copy()
            ys = -(self._hessian @ s + qp.q + qp.A.T @ yr)
        r = np.clip(self._A @ s, qp.l, qp.u)
        return s, ys, r, yr

    def _objective(self, s: np.ndarray) -> float:
        qp, pairs = self._qp, self._qp.pairs
        z = np.maximum(s[pairs.z], 1e-12)
        perspective = float(np.sum(pairs.d * s[pairs.x] ** 2 / z))
        return (
            0.5 * float(s @ (self._hessian @ s)) + float(qp.q @ s) + perspective + qp.constant
        )

    def _adapt(self, primal: float, dual: float) -> None:
        if primal > 10.0 * dual and self._level < _MAX_LEVEL:
            self._level += 1
        elif dual > 10.0 * primal and self._level > -_MAX_LEVEL:
            self._level -= 1


def _coupled(hessian: np.ndarray, A: sp.csr_matrix) -> np.ndarray:
    """Mask of the variables that the objective or the rows couple with others."""
    coupled = np.count_nonzero(hessian, axis=1) > (np.diag(hessian) != 0.0)
    coupled[A[np.diff(A.indptr) > 1].indices] = True
    return np.asarray(coupled)


def _gram(A: sp.csr_matrix, weight: np.ndarray) -> np.ndarray:
    """AᵀWA; full rows are multiplied as such."""
    full = np.diff(A.indptr) > _FULL * A.shape[1]
    rows, rest = A[full].toarray(), A[~full]
    product = rows.T @ (weight[full, None] * rows)
    return np.asarray(product + (rest.T @ sp.diags(weight[~full]) @ rest).toarray())


def _inverse_of(M: np.ndarray, patience: Patience) -> np.ndarray:
    """Inverse of a positive definite matrix, by halves, so that it can be given up in between."""
    n = len(M)
    if n <= _SMALL:
        factor = scipy.linalg.cho_factor(M, lower=True)
        return np.asarray(scipy.linalg.cho_solve(factor, np.eye(n)))
    h = n // 2
    out = np.empty_like(M)
    first = _inverse_of(M[:h, :h], patience)
    patience.check()
    W = first @ M[:h, h:]
    patience.check()
    rest = _inverse_of(M[h:, h:] - M[h:, :h] @ W, patience)
    patience.check()
    T = W @ rest
    patience.check()
    out[:h, :h] = first + T @ W.T
    out[:h, h:], out[h:, :h], out[h:, h:] = -T, -T.T, rest
    return out
