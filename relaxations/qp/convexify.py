r"""Move curvature to where integrality can use it.

A quadratic xᵀQx may be rewritten without changing its value on feasible points:
  * x_j² = x_j for a binary, so any multiple of x_j² − x_j may be added;
  * x_j² ≤ x_j²/z_j for a switched variable, with equality at z_j ∈ {0, 1} (perspective);
  * x_i x_j ≥ 0 for non-negative variables, so xᵀNx with N ≥ 0 may be dropped;
  * Ax = b turns Q into ΠQΠ plus linear terms, Π the projector on the null space of A.
The bound is best when the diagonal D and the matrix N solve the dual of the doubly non-negative
relaxation over Y = [1 xᵀ; x X]: Y ⪰ 0, Y ≥ 0, X_jj z_j ≥ x_j² (or X_jj = x_j), Y(−b; a) = 0.
`Convexifier` runs ADMM on that relaxation. Its multipliers are only a proposal: `extract` makes
the matrix positive semidefinite by a certified eigenvalue shift that is paid for, so whatever D
and N come out, the rewritten problem is a valid relaxation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..jit import outer

BINARY, SWITCHED, PLAIN = 0, 1, 2
_RELAX = 1.6
_ADAPT_EVERY = 20
_FAVOUR_DUAL = 30.0, 0.3
"""Step sizes are changed at these ratios of primal to dual residual: the multipliers are what is
wanted, so the dual residual is kept the smaller one."""


@dataclass(frozen=True)
class Lifted:
    """The part of a problem that is lifted: min xᵀQx + cᵀx + fᵀz.

    Parameters
    ----------
    Q, c : ndarray
        Objective; note that there is no ½.
    kind : ndarray of int
        BINARY, SWITCHED or PLAIN, per variable.
    lb, ub : ndarray
        Bounds; for a switched variable those when it is on.
    scale : ndarray
        Typical size of each variable.
    A, b : ndarray
        Equality rows Ax = b, linearly independent.
    switch : ndarray of int
        Which z a switched variable belongs to (ignored for the others).
    f : ndarray
        Costs of the z.
    count : (float, float)
        Bounds on the sum of all z, infinite where there is none.
    """

    Q: np.ndarray
    c: np.ndarray
    kind: np.ndarray
    lb: np.ndarray
    ub: np.ndarray
    scale: np.ndarray
    A: np.ndarray
    b: np.ndarray
    switch: np.ndarray
    f: np.ndarray
    count: tuple[float, float]


@dataclass(frozen=True)
class Convexification:
    """xᵀQx + cᵀx + constant + Σ d_j x_j²/z_j is a convex underestimator of the lifted objective.

    It is equal to it on feasible points up to xᵀNx ≥ 0 and the certified shift. `d` is zero but
    for switched variables.
    """

    Q: np.ndarray
    c: np.ndarray
    constant: float
    d: np.ndarray


@outer
def _project_cones(a, b, c):  # type: ignore[no-untyped-def]
    """Project each [[a, b], [b, c]] on the positive semidefinite matrices, in place."""
    for j in range(len(a)):
        mean, half = 0.5 * (a[j] + c[j]), 0.5 * (a[j] - c[j])
        radius = np.sqrt(half * half + b[j] * b[j])
        if mean + radius <= 0.0:
            a[j] = b[j] = c[j] = 0.0
        elif mean < radius:
            factor = (mean + radius) / (2.0 * radius)
            a[j] = factor * (radius + half)
            c[j] = factor * (radius - half)
            b[j] *= factor


@outer
def _project_links(x, z, shift, low, high, px, pz):  # type: ignore[no-untyped-def]
    """Project each (x, z − shift) on {low·z ≤ x ≤ high·z, 0 ≤ z ≤ 1}; returns Σz."""
    total = 0.0
    for j in range(len(x)):
        xj, zj = x[j], z[j] - shift
        lo, hi = low[j], high[j]
        if xj > hi * zj:
            t = max((xj * hi + zj) / (1.0 + hi * hi), 0.0)
            px[j], pz[j] = hi * t, t
        elif xj < lo * zj:
            t = max((xj * lo + zj) / (1.0 + lo * lo), 0.0)
            px[j], pz[j] = lo * t, t
        else:
            px[j], pz[j] = xj, zj
        if pz[j] > 1.0:
            pz[j] = 1.0
            px[j] = min(max(xj, lo), hi)
        elif pz[j] < 0.0:
            pz[j] = px[j] = 0.0
        total += pz[j]
    return total


@outer
def _project_counted_links(x, z, low, high, least, most, px, pz):  # type: ignore[no-untyped-def]
    """The same with least ≤ Σz ≤ most: one multiplier, found by bisection."""
    total = _project_links(x, z, 0.0, low, high, px, pz)
    if least <= total <= most:
        return
    sign = 1.0 if total > most else -1.0
    target = most if total > most else least
    near, far = 0.0, 1.0
    while sign * (_project_links(x, z, sign * far, low, high, px, pz) - target) > 0.0:
        near, far = far, 2.0 * far
        if far > 1e6:
            return
    for _ in range(45):
        middle = 0.5 * (near + far)
        if sign * (_project_links(x, z, sign * middle, low, high, px, pz) - target) > 0.0:
            near = middle
        else:
            far = middle
    _project_links(x, z, sign * far, low, high, px, pz)


@outer
def _minimise(  # type: ignore[no-untyped-def]
    S, U, C, rho, signed, kind, low, high, paired, switch, share, cone, cone_dual, link, link_dual,
    Y, z,
):
    """Minimise over the entrywise constraints: Y ≥ 0, Y_00 = 1, bounds, X_jj = x_j; in place.

    An off-diagonal entry counts twice in the matrix copy, and twice in the 2x2 copy.
    """
    n = len(kind)
    for i in range(n + 1):
        for j in range(n + 1):
            value = S[i, j] - U[i, j] - C[i, j] / rho
            Y[i, j] = value if signed[i, j] else max(value, 0.0)
    for j in range(1, n + 1):
        x, c = S[0, j] - U[0, j], C[0, j] / rho
        if kind[j - 1] == BINARY:
            x = (S[j, j] - U[j, j] + 2.0 * x - C[j, j] / rho - 2.0 * c) / 3.0
            Y[0, j] = Y[j, j] = min(max(x, 0.0), 1.0)
        elif kind[j - 1] == PLAIN:
            Y[0, j] = min(max(x - c, low[j - 1]), high[j - 1])
    votes = np.zeros(len(share))
    for m in range(len(paired)):
        j, g = paired[m], switch[m]
        square = S[j, j] - U[j, j] + cone[0, m] - cone_dual[0, m] - C[j, j] / rho
        Y[j, j] = max(0.5 * square, 0.0)
        x = 2.0 * (S[0, j] - U[0, j] + cone[1, m] - cone_dual[1, m] - C[0, j] / rho)
        x = (x + link[0, m] - link_dual[0, m]) / 5.0
        Y[0, j] = min(max(x, min(low[j - 1], 0.0)), max(high[j - 1], 0.0))
        votes[g] += cone[2, m] - cone_dual[2, m] + link[1, m] - link_dual[1, m]
    for j in range(1, n + 1):
        Y[j, 0] = Y[0, j]
    Y[0, 0] = 1.0
    for m in range(len(paired)):
        g = switch[m]
        z[m] = min(max((votes[g] - share[g, 0] / rho) / share[g, 1], 0.0), 1.0)


@outer
def _project_pairs(  # type: ignore[no-untyped-def]
    Y, z, paired, low, high, least, most, cone, cone_dual, link, link_dual,
):
    """Project the copies of the 2x2 cones and of the links, and update their multipliers."""
    m = len(paired)
    for r in range(m):
        j = paired[r]
        for part, value in enumerate((Y[j, j], Y[0, j], z[r])):
            cone_dual[part, r] += _RELAX * value + (1.0 - _RELAX) * cone[part, r]
            cone[part, r] = cone_dual[part, r]
        for part, value in enumerate((Y[0, j], z[r])):
            link_dual[part, r] += _RELAX * value + (1.0 - _RELAX) * link[part, r]
    _project_cones(cone[0], cone[1], cone[2])
    _project_counted_links(link_dual[0], link_dual[1], low, high, least, most, link[0], link[1])
    for r in range(m):
        for part in range(3):
            cone_dual[part, r] -= cone[part, r]
        for part in range(2):
            link_dual[part, r] -= link[part, r]


class Convexifier:
    """ADMM on the doubly non-negative relaxation; run it as long as the bound still moves."""

    def __init__(self, lifted: Lifted) -> None:
        self._in = lifted
        n = len(lifted.c)
        scale = np.concatenate([[1.0], lifted.scale])
        C = np.zeros((n + 1, n + 1))
        C[1:, 1:] = lifted.Q
        C[0, 1:] = C[1:, 0] = 0.5 * lifted.c
        C *= np.outer(scale, scale)
        self._norm = float(np.linalg.norm(C)) or 1.0
        self._C = C / self._norm
        rows = np.column_stack([-lifted.b, lifted.A * lifted.scale]).T
        self._null = np.linalg.qr(rows)[0] if rows.size else np.zeros((n + 1, 0))
        free = (lifted.lb < 0.0) & (lifted.kind != BINARY)
        self._signed = np.zeros((n + 1, n + 1), dtype=bool)
        self._signed[1:, 1:] = ~np.outer(~free, ~free)
        self._paired = np.flatnonzero(lifted.kind == SWITCHED) + 1
        self._plain = np.flatnonzero(lifted.kind == PLAIN) + 1
        self._switch = lifted.switch[self._paired - 1]
        members = np.bincount(self._switch, minlength=len(lifted.f)).astype(float)
        # Of every switch its cost, and the number of votes on its value.
        self._share = np.column_stack([lifted.f / self._norm, np.maximum(2.0 * members, 1.0)])
        self._low = lifted.lb / lifted.scale
        self._high = lifted.ub / lifted.scale
        self._rho = 0.1
        m = len(self._paired)
        self._S = np.zeros((n + 1, n + 1))
        self._S[0, 0] = 1.0
        self._U = np.zeros((n + 1, n + 1))
        self._cone, self._cone_dual = np.zeros((3, m)), np.zeros((3, m))
        self._link, self._link_dual = np.zeros((2, m)), np.zeros((2, m))
        self._z = np.zeros(m)
        self._steps = 0

    def restricted(self, lifted: Lifted, kept: np.ndarray) -> Convexifier:
        """Go on with fewer variables, `kept` (positions) of these, from where this one is."""
        other = Convexifier(lifted)
        other._rho, other._steps = self._rho, self._steps
        places = np.concatenate([[0], kept + 1])
        change = self._norm / other._norm  # multipliers are kept in units of ρ times the norm
        other._S = self._S[np.ix_(places, places)]
        other._U = change * self._U[np.ix_(places, places)]
        pairs = np.isin(self._paired, places)
        # Contiguous, since code is compiled for that.
        other._cone, other._cone_dual, other._link, other._link_dual = (
            np.ascontiguousarray(part[:, pairs])
            for part in (self._cone, change * self._cone_dual, self._link, change * self._link_dual)
        )
        return other

    def run(self, steps: int) -> None:
        """Do some ADMM steps."""
        for _ in range(steps):
            before, Y = self._S, self._main()
            V = _RELAX * Y + (1.0 - _RELAX) * self._S + self._U
            self._S = self._project_psd(V)
            self._U = V - self._S
            self._steps += 1
            if self._steps % _ADAPT_EVERY == 0:
                self._adapt(Y, before)

    def _main(self) -> np.ndarray:
        """One step but for the projection on Y ⪰ 0: the new Y, and the copies of single pairs."""
        pairs = (self._cone, self._cone_dual, self._link, self._link_dual)
        Y = np.empty_like(self._S)
        _minimise(
            self._S, self._U, self._C, self._rho, self._signed, self._in.kind, self._low,
            self._high, self._paired, self._switch, self._share, *pairs, Y, self._z,
        )
        j = self._paired - 1
        _project_pairs(
            Y, self._z, self._paired, np.clip(self._low[j], -1e3, 1e3),
            np.clip(self._high[j], -1e3, 1e3), *self._in.count, *pairs,
        )
        return Y

    def _project_psd(self, V: np.ndarray) -> np.ndarray:
        """On the positive semidefinite matrices of the face that the equality rows leave."""
        B = self._null
        if B.size:
            W = V @ B
            V = V - W @ B.T - B @ W.T + B @ (B.T @ W) @ B.T
        V = 0.5 * (V + V.T)
        values, vectors = np.linalg.eigh(V)
        positive = values > 0.0
        if positive.sum() <= len(values) // 2:
            part = vectors[:, positive]
            return np.asarray((part * values[positive]) @ part.T)
        part = vectors[:, ~positive]
        return np.asarray(V - (part * values[~positive]) @ part.T)

    def _adapt(self, Y: np.ndarray, before: np.ndarray) -> None:
        """Change the step size by the relative primal and dual residuals of the last step."""
        primal = float(np.linalg.norm(Y - self._S)) / max(1.0, float(np.linalg.norm(self._S)))
        dual = self._rho * float(np.linalg.norm(self._S - before))
        dual /= max(1.0, self._rho * float(np.linalg.norm(self._U)))
        up, down = _FAVOUR_DUAL
        factor = 1.5 if primal > up * dual else (1.0 / 1.5 if dual > down * primal else 1.0)
        if factor != 1.0:
            self._rho *= factor
            self._U /= factor
            self._cone_dual /= factor
            self._link_dual /= factor

    def point(self) -> np.ndarray:
        """The relaxation's x, in the problem's own units."""
        return np.asarray(self._S[0, 1:] * self._in.scale)

    def extract(self) -> Convexification | None:
        """D and N from the multipliers, made valid; None if they cannot be."""
        scale = np.outer(self._in.scale, self._in.scale)
        R = (self._C + self._rho * self._U)[1:, 1:] * self._norm / scale
        R = 0.5 * (R + R.T)
        D = np.diag(R).copy()
        D[self._plain - 1] = 0.0
        D[self._paired - 1] = np.maximum(D[self._paired - 1], 0.0)
        N = np.where(self._signed[1:, 1:], 0.0, np.maximum(R, 0.0))
        np.fill_diagonal(N, 0.0)
        return certified_split(self._in, D, N)


def certified_split(lifted: Lifted, D: np.ndarray, N: np.ndarray) -> Convexification | None:
    """Take xᵀDx and xᵀNx out of xᵀQx so that what remains is surely convex.

    The matrix left over, on the null space of the equality rows, is shifted by its most negative
    eigenvalue ε (and a margin for rounding). Binaries and switched variables get the shift back
    from D; others pay with the secant −εx² ≥ −ε((lb+ub)x − lb·ub). None if a variable without
    bounds would have to pay.
    """
    n = len(lifted.c)
    Q = lifted.Q - N - np.diag(D)
    if lifted.b.size:
        inverse = np.linalg.pinv(lifted.A)
        center, projector = inverse @ lifted.b, np.eye(n) - inverse @ lifted.A
    else:
        center, projector = np.zeros(n), np.eye(n)
    reduced = projector @ Q @ projector
    values = np.linalg.eigvalsh(0.5 * (reduced + reduced.T))
    margin = 1e-14 * n * max(np.abs(values).max(), np.abs(Q).max())
    shift = max(0.0, margin - values[0])
    D, linear, constant = D - shift, np.zeros(n), 0.0
    paying = (lifted.kind == PLAIN) | ((lifted.kind == SWITCHED) & (D < 0.0))
    if np.any(paying):
        lb, ub = lifted.lb.copy(), lifted.ub.copy()
        off = lifted.kind == SWITCHED
        lb[off], ub[off] = np.minimum(lb[off], 0.0), np.maximum(ub[off], 0.0)
        if shift > 0.0 and not np.all(np.isfinite(lb[paying]) & np.isfinite(ub[paying])):
            return None
        lack = np.where(paying, np.maximum(-D, 0.0), 0.0)
        due = lack > 0.0
        linear[due] = -lack[due] * (lb[due] + ub[due])
        constant = float(np.sum(lack[due] * lb[due] * ub[due]))
        D = np.where(paying, np.maximum(D, 0.0), D)
    Q = Q + shift * np.eye(n)
    convex = projector @ Q @ projector
    linear += lifted.c + 2.0 * projector @ (Q @ center)
    constant += float(center @ Q @ center)
    binary = lifted.kind == BINARY
    linear[binary] += D[binary]
    return Convexification(
        0.5 * (convex + convex.T), linear, constant, np.where(binary, 0.0, D)
    )
