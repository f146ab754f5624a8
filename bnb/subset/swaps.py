"""Good subsets by forward selection and swaps, for the search to start from."""

from __future__ import annotations

import numpy as np

from relaxations.jit import outer

_DEPENDENT = 1e-10  # a column of which less than this is new says nothing


@outer
def _gains(gram: np.ndarray, chosen: np.ndarray, L: np.ndarray) -> np.ndarray:
    """What each further column would take off the residual; negative where it cannot be used.

    L gets the rows of a Cholesky factor: what the chosen columns explain of each column and of y.
    """
    p = gram.shape[0] - 1
    m = chosen.size
    used = np.zeros(p, np.bool_)
    for i in range(m):
        used[chosen[i]] = True
    new = np.empty(p + 1)
    for j in range(p + 1):
        new[j] = gram[j, j]
    for i in range(m):
        c = chosen[i]
        pivot = np.sqrt(max(new[c], _DEPENDENT))
        for j in range(p + 1):
            s = gram[c, j]
            for t in range(i):
                s -= L[t, c] * L[t, j]
            L[i, j] = s / pivot
        for j in range(p + 1):
            new[j] -= L[i, j] ** 2
    gains = np.full(p, -1.0)
    for j in range(p):
        if not used[j] and new[j] > _DEPENDENT:
            s = gram[j, p]
            for t in range(m):
                s -= L[t, j] * L[t, p]
            gains[j] = s * s / new[j]
    return gains


@outer
def _residual(gram: np.ndarray, L: np.ndarray, m: int) -> float:
    p = gram.shape[0] - 1
    rest = gram[p, p]
    for t in range(m):
        rest -= L[t, p] ** 2
    return rest


@outer
def grow(gram: np.ndarray, chosen: np.ndarray, k: int) -> np.ndarray:
    """Add the best column, again and again, until there are k or none is of use."""
    L = np.empty((k + 1, gram.shape[0]))
    while chosen.size < k:
        gains = _gains(gram, chosen, L)
        j = int(np.argmax(gains))
        if gains[j] <= 0.0:
            break
        chosen = np.append(chosen, j)
    return chosen


@outer
def swap(
    gram: np.ndarray, chosen: np.ndarray, fixed: int, tries: int
) -> tuple[np.ndarray, float, bool]:
    """Replace one column after the other by the best in its place, until nothing improves.

    The first `fixed` columns stay. Returns the columns, their residual, and whether no swap can
    improve it; otherwise all the tries were used up.
    """
    m = chosen.size
    L = np.empty((m + 1, gram.shape[0]))
    _gains(gram, chosen, L)
    best = _residual(gram, L, m)
    chosen = chosen.copy()
    place, stale = fixed, 0
    while stale < m - fixed and tries > 0:
        tries -= 1
        others = np.append(chosen[:place], chosen[place + 1 :])
        gains = _gains(gram, others, L)
        j = int(np.argmax(gains))
        value = _residual(gram, L, m - 1) - gains[j]
        if gains[j] >= 0.0 and value < best - 1e-12 * abs(best):
            best = value
            chosen[place] = j
            stale = 0
        else:
            stale += 1
        place = place + 1 if place + 1 < m else fixed
    return chosen, best, stale >= m - fixed


@outer
def shrink(T: np.ndarray, k: int) -> np.ndarray:
    """Columns left when the cheapest is eliminated from the inverse until there are k."""
    T = T.copy()
    f = T.shape[0] - 1
    there = np.ones(f, np.bool_)
    for _ in range(f - k):
        worst, price = -1, np.inf
        for j in range(f):
            if there[j] and T[j, f] ** 2 < price * T[j, j]:
                worst, price = j, T[j, f] ** 2 / T[j, j]
        there[worst] = False
        pivot = 1.0 / T[worst, worst]
        for a in range(f + 1):
            if a == f or there[a]:
                s = T[a, worst] * pivot
                for b in range(f + 1):
                    T[a, b] -= s * T[worst, b]
    return np.flatnonzero(there)
