"""Bound propagation through rows: cheap deductions at every node, and presolve at the root."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from relaxations import Patience
from relaxations.jit import outer

_ROUNDS = 10
_TOLERANCE = 1e-6
"""A row must be missed by more than this (relative to its terms) to prove infeasibility."""
_WORK = 1e6
"""Coefficients in the propagations between two looks at the clock, each of several rounds."""
_TIGHTEN = 1e-3
"""A continuous bound must shrink its interval by this share to count as news."""


@outer
def _activity(i, data, index, pointer, lb, ub):  # type: ignore[no-untyped-def]
    """Smallest and largest value of row i, the number of infinite terms in each, and the sum of
    the absolute values of the finite ones (it scales the rounding error)."""
    low = high = size = 0.0
    low_inf = high_inf = 0
    for k in range(pointer[i], pointer[i + 1]):
        a, j = data[k], index[k]
        smallest = a * lb[j] if a > 0.0 else a * ub[j]
        largest = a * ub[j] if a > 0.0 else a * lb[j]
        if np.isfinite(smallest):
            low += smallest
            size += abs(smallest)
        else:
            low_inf += 1
        if np.isfinite(largest):
            high += largest
            size += abs(largest)
        else:
            high_inf += 1
    return low, low_inf, high, high_inf, size


@outer
def _propagate(  # type: ignore[no-untyped-def]
    data, index, pointer, l, u, lb, ub, integer, rounds  # noqa: E741
):
    """Tighten lb and ub in place; False if some row cannot be met."""
    for _ in range(rounds):
        changed = False
        for i in range(len(pointer) - 1):
            low, low_inf, high, high_inf, size = _activity(i, data, index, pointer, lb, ub)
            if low_inf == 0 and low > u[i] + _TOLERANCE * (1.0 + size):
                return False
            if high_inf == 0 and high < l[i] - _TOLERANCE * (1.0 + size):
                return False
            if (low_inf > 1 or u[i] == np.inf) and (high_inf > 1 or l[i] == -np.inf):
                continue
            for k in range(pointer[i], pointer[i + 1]):
                a, j = data[k], index[k]
                if a == 0.0 or lb[j] == ub[j]:
                    continue
                smallest = a * lb[j] if a > 0.0 else a * ub[j]
                largest = a * ub[j] if a > 0.0 else a * lb[j]
                new_low, new_high = -np.inf, np.inf
                if u[i] < np.inf and (low_inf == 0 or (low_inf == 1 and smallest == -np.inf)):
                    room = (u[i] - (low - smallest if low_inf == 0 else low)) / a
                    if a > 0.0:
                        new_high = room
                    else:
                        new_low = room
                if l[i] > -np.inf and (high_inf == 0 or (high_inf == 1 and largest == np.inf)):
                    room = (l[i] - (high - largest if high_inf == 0 else high)) / a
                    if a > 0.0:
                        new_low = max(new_low, room)
                    else:
                        new_high = min(new_high, room)
                slack = 1e-12 * size / abs(a)
                if integer[j]:
                    slack = max(1e-6, slack)
                    new_high = np.floor(new_high + slack)
                    new_low = np.ceil(new_low - slack)
                    least = 0.5
                else:
                    new_high += slack
                    new_low -= slack
                    width = ub[j] - lb[j]
                    least = _TIGHTEN * width if np.isfinite(width) else 0.0
                moved = False
                if new_high < ub[j] - least:
                    ub[j] = new_high
                    moved = True
                if new_low > lb[j] + least:
                    lb[j] = new_low
                    moved = True
                if lb[j] > ub[j]:
                    if lb[j] > ub[j] + 1e-6 * (1.0 + abs(ub[j])):
                        return False
                    lb[j] = ub[j] = 0.5 * (lb[j] + ub[j])
                if moved:
                    changed = True
                    low, low_inf, high, high_inf, size = _activity(
                        i, data, index, pointer, lb, ub
                    )
        if not changed:
            break
    return True


@outer
def _fix(  # type: ignore[no-untyped-def]
    data, index, pointer, l, u, lb, ub, integer, order, x  # noqa: E741
):
    """Fix the integers in `order` near x, propagating after each; False at a dead end."""
    for j in order:
        if lb[j] == ub[j]:
            continue
        near = min(max(np.round(x[j]), lb[j]), ub[j])
        other = near - 1.0 if (near > x[j] and near > lb[j]) or near == ub[j] else near + 1.0
        done = False
        for value in (near, other):
            if done or value < lb[j] or value > ub[j]:
                continue
            new_lb, new_ub = lb.copy(), ub.copy()
            new_lb[j] = new_ub[j] = value
            if _propagate(data, index, pointer, l, u, new_lb, new_ub, integer, _ROUNDS):
                lb[:] = new_lb
                ub[:] = new_ub
                done = True
        if not done:
            return False
    return True


class Propagator:
    """Propagates bounds through the rows l ≤ Ax ≤ u."""

    def __init__(
        self, A: sp.csr_matrix, l: np.ndarray, u: np.ndarray, integer: np.ndarray  # noqa: E741
    ) -> None:
        self._A = sp.csr_matrix(A)
        self._l, self._u, self._integer = l, u, integer

    def tighten(self, lb: np.ndarray, ub: np.ndarray, rounds: int = _ROUNDS) -> bool:
        """Tighten the bounds in place; False if there is surely no feasible point."""
        return bool(
            _propagate(
                self._A.data, self._A.indices, self._A.indptr, self._l, self._u, lb, ub,
                self._integer, rounds,
            )
        )

    def fix(
        self, x: np.ndarray, lb: np.ndarray, ub: np.ndarray, patience: Patience
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Bounds with every integer fixed near x, or None at a dead end or when time is up.

        The largest go first: what is switched on claims its place before what is off.
        """
        lb, ub = lb.copy(), ub.copy()
        whole = np.flatnonzero(self._integer)
        order = whole[np.argsort(-x[whole], kind="stable")]
        # Every variable is a propagation: come back in between to look at the clock.
        share = max(1, int(_WORK / (1 + self._A.nnz)))
        for first in range(0, len(order), share):
            if patience.expired() or not _fix(
                self._A.data, self._A.indices, self._A.indptr, self._l, self._u, lb, ub,
                self._integer, order[first : first + share], x,
            ):
                return None
        return lb, ub
