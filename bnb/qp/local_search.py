"""Simulated annealing for pure binary QPs with linear rows.

A move flips one variable and then repairs the rows it broke, flipping one variable of a violated
row at a time, until every row holds again or the chain gets too long. Moves therefore lead from
feasible point to feasible point, whatever mixture of one-of-many, counting and covering rows there
is, and are accepted by the usual Metropolis rule.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from relaxations.jit import outer

_CHAIN = 8
_COLD = 1e-4
"""The last temperature as a share of the first."""
_WORK = 1e8
"""Steps between two looks at the clock."""


@outer
def _flip(j, x, gradient, activity, P, cp, ci, cd):  # type: ignore[no-untyped-def]
    """Flip x_j in place; returns the change of the objective."""
    step = 1.0 - 2.0 * x[j]
    change = step * gradient[j] + 0.5 * P[j, j]
    for k in range(len(x)):
        gradient[k] += step * P[j, k]
    for k in range(cp[j], cp[j + 1]):
        activity[ci[k]] += step * cd[k]
    x[j] += step
    return change


@outer
def _violated(rows, count, activity, l, u):  # type: ignore[no-untyped-def]  # noqa: E741
    """A violated row among the first `count` of `rows`, or −1."""
    for t in range(count):
        i = rows[t]
        if activity[i] > u[i] + 1e-9 or activity[i] < l[i] - 1e-9:
            return i
    return -1


@outer
def _repair_choice(  # type: ignore[no-untyped-def]
    i, x, activity, l, u, rp, ri, rd, movable, chain, length  # noqa: E741
):
    """A random variable of row i whose flip moves the row towards its bounds, or −1."""
    need_up = activity[i] < l[i]
    chosen, seen = -1, 0
    for k in range(rp[i], rp[i + 1]):
        j = ri[k]
        step = (1.0 - 2.0 * x[j]) * rd[k]
        if not movable[j] or (step > 0.0) != need_up or step == 0.0:
            continue
        fresh = True
        for t in range(length):
            fresh = fresh and chain[t] != j
        if fresh:
            seen += 1
            if np.random.random() * seen < 1.0:
                chosen = j
    return chosen


@outer
def _seed(seed):  # type: ignore[no-untyped-def]
    """Seed numba's own generator."""
    np.random.seed(seed)


@outer
def _anneal(  # type: ignore[no-untyped-def]
    moves, temperature, cooling, value, best_value, P, l, u, rp, ri, rd, cp, ci, cd,  # noqa: E741
    movable, x, gradient, activity, best,
):
    """Some moves from x, in place; the temperature, the objective there and the best one, both
    relative to the start's."""
    m = len(l)
    chain = np.empty(_CHAIN, dtype=np.int64)
    touched = np.empty(_CHAIN * m + 1, dtype=np.int64)
    free = np.flatnonzero(movable)
    for _ in range(moves):
        temperature *= cooling
        j = free[np.random.randint(len(free))]
        length, count, change = 0, 0, 0.0
        feasible = False
        while True:
            change += _flip(j, x, gradient, activity, P, cp, ci, cd)
            chain[length] = j
            length += 1
            for k in range(cp[j], cp[j + 1]):
                touched[count] = ci[k]
                count += 1
            i = _violated(touched, count, activity, l, u)
            if i < 0:
                feasible = True
                break
            if length == _CHAIN:
                break
            j = _repair_choice(
                i, x, activity, l, u, rp, ri, rd, movable, chain, length
            )
            if j < 0:
                break
        if feasible and (change <= 0.0 or np.random.random() < np.exp(-change / temperature)):
            value += change
            if value < best_value - 1e-12 * (1.0 + abs(best_value)):
                best_value = value
                best[:] = x
        else:
            for t in range(length - 1, -1, -1):
                _flip(chain[t], x, gradient, activity, P, cp, ci, cd)
    return temperature, value, best_value


class BinaryLocalSearch:
    """Annealing on min ½xᵀPx + qᵀx, l ≤ Ax ≤ u, x binary."""

    def __init__(
        self, P: sp.csr_matrix, q: np.ndarray, A: sp.csr_matrix, l: np.ndarray,  # noqa: E741
        u: np.ndarray, movable: np.ndarray,
    ) -> None:
        columns = sp.csc_matrix(A)
        self._q, self._A = q, A
        self._data = (
            np.ascontiguousarray(P.toarray()), l, u, A.indptr, A.indices, A.data,
            columns.indptr, columns.indices, columns.data, movable,
        )
        self._at_once = max(1, int(_WORK / (_CHAIN * (len(q) + A.nnz / len(q)))))
        # Temperatures between "takes typical single flips" and "takes hardly anything".
        typical = np.abs(0.5 * np.diag(self._data[0]) + np.abs(q)) + 1e-9
        spread = np.sqrt((self._data[0] ** 2).sum(axis=1).mean())
        self._hot = 0.2 * float(np.median(typical) + spread)

    def run(
        self, x: np.ndarray, moves: int, seed: int, expired: Callable[[], bool]
    ) -> np.ndarray:
        """The best point found in one annealing run from the feasible binary point x."""
        x = np.round(x)
        gradient, activity, best = self._data[0] @ x + self._q, self._A @ x, x.copy()
        cooling = _COLD ** (1.0 / moves)
        temperature, value, best_value = self._hot, 0.0, 0.0
        _seed(seed)
        while moves > 0 and not expired():
            some = min(moves, self._at_once)
            temperature, value, best_value = _anneal(
                some, temperature, cooling, value, best_value, *self._data, x, gradient, activity,
                best,
            )
            moves -= some
        return best
