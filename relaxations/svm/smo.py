"""Sequential minimal optimisation of the node duals, for kernel matrices that are written down."""

from __future__ import annotations

import numpy as np

from ..jit import outer
from .dual import Dual, Effort, Point, value

__all__ = ["climb_by_pairs"]

_FLAT = 1e-12  # a curvature below this is none


@outer
def climb_by_pairs(dual: Dual, point: Point, effort: Effort) -> tuple[int, float]:
    """Maximise D(t) from a feasible point, in place.

    Second-order working sets (Fan, Chen and Lin).  An unbounded dual passes any target: along a ray
    of zero curvature the step is cut where it does.

    Returns
    -------
    rows : int
        Rows of K that were added to F.
    violation : float
        Largest difference F_i - F_j over pairs that could still move.
    """
    K, diag = dual.gram.K, dual.gram.diag
    lo, hi = dual.lo, dual.hi
    t, F = point
    tol, rows, target = effort
    n = t.size
    height = value(dual.p, point)
    steps = 0
    while True:
        i = -1
        top = -np.inf
        low = np.inf
        for k in range(n):
            if t[k] < hi[k] and F[k] > top:
                top = F[k]
                i = k
            if t[k] > lo[k] and F[k] < low:
                low = F[k]
        violation = max(top - low, 0.0)
        if violation <= tol or 2 * steps >= rows or height > target:
            return 2 * steps, violation
        j = -1
        best = -1.0
        row_i = K[i]
        for k in range(n):
            if t[k] > lo[k]:
                gap = top - F[k]
                if gap > 0.0:
                    curve = max(diag[i] + diag[k] - 2.0 * row_i[k], _FLAT)
                    if gap * gap > best * curve:
                        best = gap * gap / curve
                        j = k
        gap = top - F[j]
        curve = diag[i] + diag[j] - 2.0 * row_i[j]
        room = min(hi[i] - t[i], t[j] - lo[j])
        step = min(room, 2.0 * gap / max(curve, _FLAT))
        if curve <= _FLAT:
            step = min(room, 2.0 * (target - height + 1.0 + abs(target)) / gap)
            if not np.isfinite(step):
                step = 1e12
        if step == hi[i] - t[i]:
            t[i] = hi[i]
        else:
            t[i] += step
        if step == t[j] - lo[j]:
            t[j] = lo[j]
        else:
            t[j] -= step
        height += step * (gap - 0.25 * step * curve)
        row_j = K[j]
        half = 0.5 * step
        for k in range(n):
            F[k] -= half * (row_i[k] - row_j[k])
        steps += 1
