"""Depth first through a tree of subsets, by eliminating columns from an inverse.

A node is a set of free columns with the inverse T of their Gram matrix (y is the last row), of
which k may still be chosen. T_yy is one over the residual of all of them; without column j it
falls to T_yy − T_jy² / T_jj. When r of the columns must go, one of them is at least as dear as the
r-th cheapest, and removing more never costs less: that bounds the node. The columns are tried in
the order of their price: first the tree without the dearest column, then the rest with it.
"""

from __future__ import annotations

import numpy as np

from relaxations.jit import outer


@outer
def _leaf(gram: np.ndarray, chosen: np.ndarray, L: np.ndarray) -> float:
    """One over the residual of a fit with these columns, by Cholesky; infinite if singular."""
    m = chosen.size
    p = gram.shape[0] - 1
    rest = gram[p, p]
    for i in range(m + 1):
        row = p if i == m else chosen[i]
        for j in range(min(i + 1, m)):
            s = gram[row, chosen[j]]
            for t in range(j):
                s -= L[i, t] * L[j, t]
            if i == j:
                if s <= 0.0:
                    return np.inf
                L[i, i] = np.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    for t in range(m):
        rest -= L[m, t] ** 2
    return 1.0 / rest if rest > 0.0 else np.inf


@outer
def _without(T: np.ndarray, kept: np.ndarray, j: int, out: np.ndarray) -> None:
    """Eliminate row j of T; only the rows `kept` go into `out`, both triangles."""
    pivot = 1.0 / T[j, j]
    for a in range(kept.size):
        row = T[kept[a]]
        scale = row[j] * pivot
        for b in range(a + 1):
            value = row[kept[b]] - scale * T[j, kept[b]]
            out[a, b] = value
            out[b, a] = value


@outer
def _cut(best: float, scale: tuple[float, float, float, float]) -> float:
    """The largest T_yy that cannot lead to a residual worth having, rounding aside."""
    unit, offset, relative, absolute = scale
    if best == np.inf:
        return 0.0
    objective = unit * best + offset
    worth = objective - max(absolute, relative * abs(objective)) - offset
    return unit / worth if worth > 0.0 else np.inf


@outer
def _prices(T: np.ndarray, f: int, after: np.ndarray, order: np.ndarray) -> None:
    """T_yy without each column, and the columns by it: the dearest first.

    Columns come in the order of their parent, which is nearly theirs: insertion is fast.
    """
    for j in range(f):
        value = T[f, f] - T[j, f] ** 2 / T[j, j]
        after[j] = value
        i = j
        while i > 0 and after[order[i - 1]] > value:
            order[i] = order[i - 1]
            i -= 1
        order[i] = j


@outer
def explore(
    gram: np.ndarray, T: np.ndarray, inside: np.ndarray, free: np.ndarray, k: int,
    theta: float, best: float, scale: tuple[float, float, float, float], nodes: float, work: float,
) -> tuple:
    """Search below a node until it is done or the allowance is used up.

    Parameters
    ----------
    gram : ndarray
        Gram matrix of all columns and y.
    T : ndarray
        Inverse for `free` and y, given `inside`.
    inside, free : ndarray of int
        Columns that are in, and those that may be.
    k : int
        How many of the free columns may be chosen, fewer than there are.
    theta : float
        Relative error of T.
    best : float
        Residual of the incumbent.
    scale : (unit, offset, relative gap, absolute gap)
        What makes objectives of residuals, and the gap that need not be closed.
    nodes, work : float
        Nodes to visit and entries of inverses to write at most.

    Returns
    -------
    best, chosen
        The best residual, and its columns; none if the incumbent was not improved.
    closed : float
        Smallest certified residual of anything that was closed.
    visited : int
    rest : list of (inside, free, certified residual)
        The open nodes.
    """
    p = free.size
    sure = 1.0 - theta
    taken = np.empty(inside.size + k + p, np.int64)
    taken[: inside.size] = inside
    L = np.empty((inside.size + k + 1, inside.size + k + 1))
    chosen = np.empty(0, np.int64)
    # One row or entry per level; the inverses are made when a level is first reached.
    inverses = [T]
    columns = np.empty((p + 1, p), np.int64)
    columns[0] = free
    order = np.empty((p + 1, p), np.int64)
    after = np.empty((p + 1, p))
    size, begin = np.empty(p + 1, np.int64), np.empty(p + 1, np.int64)
    place, room = np.empty(p + 1, np.int64), np.empty(p + 1, np.int64)
    size[0], begin[0], place[0], room[0] = p, inside.size, 0, k
    kept = np.empty(p + 1, np.int64)
    cut = _cut(best, scale) * sure
    closed = np.inf
    visited = 1
    written = 0.0
    _prices(T, p, after[0], order[0])
    level = 0
    while level >= 0 and visited < nodes and written < work:
        f, i, left = size[level], place[level], room[level]
        line, price = order[level], after[level]
        now = inverses[level]
        if left >= f - i:  # all that is left may be chosen
            value, last = now[f, f], f
        elif left == 0:
            value, last = -1.0, i
        else:
            value, last = 0.0, -1
        if last >= 0:
            for t in range(last):
                taken[begin[level] + t] = columns[level, line[t]]
            if value < 0.0:
                value = _leaf(gram, taken[: begin[level] + last], L)
            closed = min(closed, sure / value)
            if 1.0 / value < best:
                best = 1.0 / value
                chosen = taken[: begin[level] + last].copy()
                cut = _cut(best, scale) * sure
            level -= 1
            continue
        if price[line[i + left]] <= cut:
            closed = min(closed, sure / max(price[line[i + left]], 1e-300))
            level -= 1
            continue
        j = line[i]
        place[level] += 1
        room[level] -= 1
        if price[j] <= cut:  # too dear to be without: in for good
            closed = min(closed, sure / max(price[j], 1e-300))
            continue
        g = f - i - 1
        for t in range(i):
            taken[begin[level] + t] = columns[level, line[t]]
        for t in range(g):
            kept[t] = line[i + 1 + t]
            columns[level + 1, t] = columns[level, kept[t]]
        kept[g] = f
        level += 1
        if level == len(inverses):
            inverses.append(np.empty((g + 1, g + 1)))
        elif inverses[level].shape[0] < g + 1:
            inverses[level] = np.empty((g + 1, g + 1))
        _without(now, kept[: g + 1], j, inverses[level])
        _prices(inverses[level], g, after[level], order[level])
        size[level], begin[level], place[level], room[level] = g, begin[level - 1] + i, 0, left
        visited += 1
        written += (g + 1.0) ** 2
    rest = [(inside[:0].copy(), inside[:0].copy(), 0.0) for _ in range(0)]
    for t in range(level + 1):
        f, i = size[t], place[t]
        line = order[t]
        ins = np.concatenate((taken[: begin[t]], columns[t][line[:i]]))
        bound = after[t, line[i + room[t]]] if i + room[t] < f else inverses[t][f, f]
        rest.append((ins, columns[t][line[i:f]], sure / max(bound, 1e-300)))
    return best, chosen, closed, visited, rest
