"""Sorting inside compiled code.

NumPy's sorts are generic, and compiling one takes seconds of a first run; this takes a tenth.
"""

from __future__ import annotations

import numpy as np

from ..jit import inner

__all__ = ["descending"]


@inner
def descending(values: np.ndarray) -> np.ndarray:
    """Places of the values, the largest first; of equal ones the earlier (Shell's sort)."""
    n = values.size
    order = np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    gap = 1
    while 3 * gap < n:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            place = order[i]
            value = values[place]
            k = i
            while k >= gap:
                other = order[k - gap]
                if values[other] > value or (values[other] == value and other < place):
                    break
                order[k] = other
                k -= gap
            order[k] = place
        gap //= 3
    return order
