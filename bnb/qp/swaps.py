"""Local search for QPs with a limited support: one variable in, one out, as long as that helps.

A support is as good as the QP over it, which is small: a dual active set solves thousands a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from relaxations.jit import outer
from relaxations.qp.active_set import OPTIMAL, backward, dual_active_set, factorise, forward

_TRIALS = 1500
_SLICE = 100  # trials between two looks at the clock
_INTO = 25  # of the variables outside, so many are tried: those that promise most
_MOST, _MAX_DENSE = 60, 3000  # variables that may be selected, and in all
_BETTER = 1e-9  # of the objective: less may be rounding, and swaps could go round in circles


@outer
def _best_on(P, q, A, l, u, low, high, support, x, y):  # type: ignore[no-untyped-def]  # noqa: E741
    """Best x over the support, in place with the rows' multipliers: its objective."""
    n, m, k = len(q), len(l), 0
    chosen = np.empty(n, np.int64)
    for j in range(n):
        if support[j]:
            chosen[k] = j
            k += 1
    block, C = np.zeros((k, k)), np.zeros((k + m, k))
    least, most = np.zeros(k + m), np.zeros(k + m)
    for a in range(k):
        j = chosen[a]
        C[a, a], least[a], most[a] = 1.0, low[j], high[j]
        for b in range(k):
            block[a, b] = P[j, chosen[b]]
        for i in range(m):
            C[k + i, a] = A[i, j]
    for i in range(m):
        least[k + i], most[k + i] = l[i], u[i]
    if k == 0 or not factorise(block):
        return np.inf
    inverse, G, w = C.copy(), np.zeros((k + m, k + m)), np.zeros(k + m)
    for i in range(k + m):
        forward(block, k, inverse[i])
        backward(block, k, inverse[i])
    for i in range(k + m):
        for a in range(k):
            w[i] -= inverse[i, a] * q[chosen[a]]
            for r in range(k + m):
                G[i, r] += inverse[i, a] * C[r, a]
    multiplier = np.zeros(k + m)
    status, value = dual_active_set(G, w, least, most, multiplier, 50 + 10 * (k + m))
    if status != OPTIMAL:
        return np.inf
    for j in range(n):
        x[j] = 0.0
    for a in range(k):
        x[chosen[a]] = value[a]
    for i in range(m):
        y[i] = multiplier[k + i]
    total = 0.0
    for a in range(k):
        total += q[chosen[a]] * value[a]
        for b in range(k):
            total += 0.5 * P[chosen[a], chosen[b]] * value[a] * value[b]
    return total


@outer
def _first_better(  # type: ignore[no-untyped-def]
    P, q, A, l, u, low, high, support, best, into, out, begin, end, x, y  # noqa: E741
):
    """Try the swaps from number `begin` to `end`: the first that helps, or `end`, and its value.

    Every one of `into` comes in with each of `out` going (−1: none). Support, x and y are changed
    in place.
    """
    for number in range(begin, end):
        j, i = into[number // len(out)], out[number % len(out)]
        support[j] = True
        if i >= 0:
            support[i] = False
        value = _best_on(P, q, A, l, u, low, high, support, x, y)
        if value < best - _BETTER * abs(best):
            return number, value
        support[j] = False
        if i >= 0:
            support[i] = True
    return end, best


@dataclass(frozen=True)
class Swaps:
    """min ½ xᵀPx + qᵀx, l ≤ Ax ≤ u, at most `most` of the x_j that are not `fixed` non-zero.

    `low` and `high` hold for variables that are selected; the others are zero. All are dense.
    """

    P: np.ndarray
    q: np.ndarray
    A: np.ndarray
    l: np.ndarray  # noqa: E741 - the usual name
    u: np.ndarray
    low: np.ndarray
    high: np.ndarray
    fixed: np.ndarray
    most: int

    @staticmethod
    def of(
        P: sp.csr_matrix, q: np.ndarray, A: sp.csr_matrix, l: np.ndarray, u: np.ndarray,  # noqa: E741
        low: np.ndarray, high: np.ndarray, fixed: np.ndarray, most: int,
    ) -> Swaps | None:
        """None if the QPs over single supports are not small."""
        if most + np.sum(fixed) > _MOST or len(l) > _MOST or len(q) > _MAX_DENSE:
            return None
        return Swaps(P.toarray(), q, A.toarray(), l, u, low, high, fixed, most)

    def improve(self, x: np.ndarray, expired: Callable[[], bool]) -> np.ndarray:
        """A local optimum near x, or how far the search came before `expired()`."""
        support = (x != 0.0) | self.fixed
        data = (self.P, self.q, self.A, self.l, self.u, self.low, self.high, support)
        best_x, best_y = x.copy(), np.zeros(len(self.l))
        best = _best_on(*data, best_x, best_y)
        trials, at = _TRIALS, 0
        into, out = self._order(support, best_x, best_y)
        x, y = best_x.copy(), best_y.copy()
        while np.isfinite(best) and trials > 0 and at < len(into) * len(out) and not expired():
            end = min(at + _SLICE, len(into) * len(out))
            found, value = _first_better(*data, best, into, out, at, end, x, y)
            trials, at = trials - (found - at) - 1, found
            if value < best:
                best, best_x, best_y = value, x.copy(), y.copy()
                into, out = self._order(support, best_x, best_y)
                at = 0
        return best_x

    def _order(
        self, support: np.ndarray, x: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Who might come in, and who go (−1: none), the best guesses first."""
        slope = self.P @ x + self.q + self.A.T @ y
        helps = ((slope < 0.0) & (self.high > 0.0)) | ((slope > 0.0) & (self.low < 0.0))
        outside = np.flatnonzero(~support & ~self.fixed & helps)
        gain = slope[outside] ** 2 / np.maximum(self.P.diagonal()[outside], 1e-300)
        inside = np.flatnonzero(support & ~self.fixed)
        loss = self.P.diagonal()[inside] * x[inside] ** 2
        out = inside[np.argsort(loss, kind="stable")]
        if len(inside) < self.most:
            out = np.concatenate([[-1], out])
        return outside[np.argsort(-gain, kind="stable")[:_INTO]], out
