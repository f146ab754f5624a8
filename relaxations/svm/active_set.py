"""An active-set method for the node duals: exact, and a few steps after a small change.

The variables strictly inside their box are the members of the active set A, and F is kept level on
them: F_a = beta for all a in A.  A variable i outside that violates optimality is moved along
``e_i - sum_a rho_a e_a``, with ``sum_a rho_a = 1`` chosen so that F stays level on A: rho is the
affine projection of phi_i on A, and D rises along it with curvature ||d_i||^2, the squared distance
of phi_i to the affine hull of A.  The step ends where i is level with A and joins it, where i meets
its own bound, or where a member meets its bound and leaves; then i goes on.

With ``K + shift`` in place of K nothing changes for directions of zero sum, and affinely
independent points have a positive definite matrix.  Its Cholesky factor is kept up to date row by
row.  A point in the affine hull of A has no curvature of its own: it never joins, but takes the
place of the first member that leaves.  With a kernel of rank d there are d + 1 members at most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import inner, outer
from .dual import Dual, Effort, Point, value
from .gram import Gram, add_rows, entry

__all__ = ["ActiveSet", "climb", "copy_set", "empty_set"]

_FAST = {"reassoc", "contract", "nsz"}
_FLAT = 1e-10  # share of K_ii below which a squared distance counts as zero
_IDLE = 1e-14  # a compensation smaller than this moves nobody
_FAR = 1e12  # what a ray may gain where no target says how much is enough


class ActiveSet(NamedTuple):
    """The members, and the lower Cholesky factor of their part of K + shift.

    Parameters
    ----------
    ids : ndarray of int (capacity,)
        The members, the first ``size[0]`` entries.
    place : ndarray of int (N,)
        Where a variable stands in ``ids``, -1 for those that do not.
    L : ndarray (capacity, capacity)
    ones : ndarray (capacity,)
        L^-1 1, kept up to date with L: every projection needs it.
    size : ndarray of int (1,)
    """

    ids: np.ndarray
    place: np.ndarray
    L: np.ndarray
    ones: np.ndarray
    size: np.ndarray


def empty_set(variables: int, capacity: int) -> ActiveSet:
    """Nobody is a member; there is room for so many."""
    return ActiveSet(
        np.zeros(capacity, np.int64), np.full(variables, -1), np.zeros((capacity, capacity)),
        np.zeros(capacity), np.zeros(1, np.int64),
    )


@inner
def _shift(gram: Gram) -> float:
    total = 0.0
    for own in gram.diag:
        total += own
    return max(total / gram.diag.size, 1e-12)


@inner(fastmath=_FAST)
def _forward(L: np.ndarray, m: int, x: np.ndarray) -> None:
    """Solve Ly = x in place."""
    for a in range(m):
        total = x[a]
        row = L[a]
        for b in range(a):
            total -= row[b] * x[b]
        x[a] = total / row[a]


@inner(fastmath=_FAST)
def _backward(L: np.ndarray, m: int, x: np.ndarray) -> None:
    """Solve L'y = x in place."""
    for a in range(m - 1, -1, -1):
        row = L[a]
        found = x[a] / row[a]
        x[a] = found
        for b in range(a):
            x[b] -= row[b] * found


@inner(fastmath=_FAST)
def _times(x: np.ndarray, y: np.ndarray, m: int) -> float:
    """The inner product of the first m entries."""
    total = 0.0
    for a in range(m):
        total += x[a] * y[a]
    return total


@inner
def _row(gram: Gram, members: ActiveSet, i: int, shift: float) -> np.ndarray:
    """The row of L that i would have: L^-1 times K_ai + shift of all members a."""
    out = np.empty(members.size[0])
    for a in range(out.size):
        out[a] = entry(gram, i, members.ids[a]) + shift
    _forward(members.L, out.size, out)
    return out


@inner
def _join(gram: Gram, members: ActiveSet, i: int, row: np.ndarray, shift: float) -> bool:
    """Make i, whose row this is, a member; False if it lies in the others' affine hull, or there
    is no room."""
    m = members.size[0]
    if m == members.ids.size:
        return False
    own = gram.diag[i] + shift
    rest = own - _times(row, row, m)
    if rest <= _FLAT * own:
        return False
    for a in range(m):  # not a slice: numba takes seconds to compile its errors
        members.L[m, a] = row[a]
    members.L[m, m] = np.sqrt(rest)
    members.ones[m] = (1.0 - _times(row, members.ones, m)) / members.L[m, m]
    members.ids[m] = i
    members.place[i] = m
    members.size[0] = m + 1
    return True


@inner
def _leave(members: ActiveSet, i: int, row: np.ndarray) -> None:
    """Take i out: its row goes, and rotations make the factor triangular again.

    The products of the rows that stay with L^-1 1, and with the row of somebody who is about to
    join, are what they were: these are rotated with them.
    """
    L, place, ones = members.L, members.place, members.ones
    first = place[i]
    m = members.size[0] - 1
    for a in range(first, m):
        members.ids[a] = members.ids[a + 1]
        place[members.ids[a]] = a
        for k in range(a + 2):
            L[a, k] = L[a + 1, k]
    place[i] = -1
    members.size[0] = m
    for k in range(first, m):
        x, y = L[k, k], L[k, k + 1]
        length = np.sqrt(x * x + y * y)
        c, s = x / length, y / length
        ones[k], ones[k + 1] = c * ones[k] + s * ones[k + 1], c * ones[k + 1] - s * ones[k]
        if row.size > 0:
            row[k], row[k + 1] = c * row[k] + s * row[k + 1], c * row[k + 1] - s * row[k]
        for a in range(k, m):
            u, v = L[a, k], L[a, k + 1]
            L[a, k] = c * u + s * v
            L[a, k + 1] = c * v - s * u


@inner
def _sum(x: np.ndarray) -> float:
    total = 0.0
    for a in range(x.size):
        total += x[a]
    return total


@inner
def _inverse_of_ones(members: ActiveSet) -> np.ndarray:
    """(K_AA + shift)^-1 1."""
    ones = np.empty(members.size[0])
    for a in range(ones.size):
        ones[a] = members.ones[a]
    _backward(members.L, ones.size, ones)
    return ones


@inner
def _project(
    gram: Gram, members: ActiveSet, i: int, row: np.ndarray, shift: float
) -> tuple[np.ndarray, float]:
    """The affine projection rho of phi_i, whose row this is, on the members; its squared distance.

    rho = L^-T (row + extra L^-1 1), with extra such that it sums to one.
    """
    m = members.size[0]
    share = _times(row, members.ones, m)
    extra = (1.0 - share) / _times(members.ones, members.ones, m)
    rho = np.empty(m)
    for a in range(m):
        rho[a] = row[a] + extra * members.ones[a]
    _backward(members.L, m, rho)
    distance = gram.diag[i] + shift + extra * (1.0 - share) - _times(row, row, m)
    return rho, max(distance, 0.0)


@inner
def _level(members: ActiveSet, F: np.ndarray) -> float:
    """beta: the mean of F over the members."""
    total = 0.0
    for a in range(members.size[0]):
        total += F[members.ids[a]]
    return total / members.size[0]


@inner
def _first_block(
    ids: np.ndarray, rho: np.ndarray, sign: float, lo: np.ndarray, hi: np.ndarray, t: np.ndarray,
    i: int,
) -> tuple[float, int]:
    """How far i can go before somebody is at a bound, and who: a place in A, or -1 for i itself."""
    step = hi[i] - t[i] if sign > 0.0 else t[i] - lo[i]
    block = -1
    for a in range(rho.size):
        j = ids[a]
        away = -sign * rho[a]
        room = np.inf
        if away > _IDLE:
            room = (hi[j] - t[j]) / away
        elif away < -_IDLE:
            room = (lo[j] - t[j]) / away
        if room < step:
            step = max(room, 0.0)
            block = a
    return step, block


@inner
def _rows(gram: Gram, m: int) -> int:
    """Work of a change of m variables, in rows of length N."""
    return m if gram.Z.shape[1] == 0 else gram.Z.shape[1]


@inner
def _move(
    gram: Gram, members: ActiveSet, i: int, rho: np.ndarray, change: float, point: Point
) -> int:
    """Change t_i, compensated on the members, and F with it; returns the rows that took."""
    m = rho.size
    index = np.empty(m + 1, np.int64)
    factor = np.empty(m + 1)
    for a in range(m):
        j = members.ids[a]
        index[a] = j
        factor[a] = 0.5 * change * rho[a]
        point.t[j] -= change * rho[a]
    index[m] = i
    factor[m] = -0.5 * change
    point.t[i] += change
    add_rows(gram, index, factor, point.F)
    return _rows(gram, m + 1)


@inner
def _to_bound(
    members: ActiveSet, j: int, bound: float, t: np.ndarray, row: np.ndarray
) -> None:
    """A member that has met its bound is put there exactly, and leaves; `row` as in `_leave`."""
    t[j] = bound
    _leave(members, j, row)


@inner
def _partner(dual: Dual, point: Point, i: int, sign: float) -> int:
    """Who can give way to i where nobody is a member; -1 if nobody gains from it."""
    best = sign * point.F[i]
    partner = -1
    for k in range(point.t.size):
        movable = point.t[k] > dual.lo[k] if sign > 0.0 else point.t[k] < dual.hi[k]
        if k != i and movable and sign * point.F[k] < best:
            best = sign * point.F[k]
            partner = k
    return partner


@inner
def _push(
    dual: Dual, members: ActiveSet, i: int, sign: float, point: Point, tol: float, missing: float,
    shift: float,
) -> tuple[int, float]:
    """Move t_i until i is level with the members or at its bound.

    All members stay level with each other, so F is needed only at the end: what i still has to make
    up for is known from step to step.  A ray without curvature is followed until D has gained what
    is missing.  Returns the rows that were added to F and what D gained.
    """
    gram, lo, hi, t, F = dual.gram, dual.lo, dual.hi, point.t, point.F
    ids, size = members.ids, members.size
    if size[0] == 0:
        partner = _partner(dual, point, i, sign)
        if partner < 0:
            return 0, 0.0
        _join(gram, members, partner, _row(gram, members, partner, shift), shift)
    moved = np.empty(size[0] + 1, np.int64)
    change = np.empty(moved.size)
    for a in range(moved.size):
        moved[a] = i if a == size[0] else ids[a]
        change[a] = t[moved[a]]
    slope = sign * (F[i] - _level(members, F))
    gained = 0.0
    row = _row(gram, members, i, shift)
    while slope > 0.1 * tol and size[0] > 0:
        rho, distance = _project(gram, members, i, row, shift)
        step, block = _first_block(ids, rho, sign, lo, hi, t, i)
        curved = distance > _FLAT * (gram.diag[i] + shift)
        if curved and 2.0 * slope < step * distance:
            step, block = 2.0 * slope / distance, -2
        if not np.isfinite(step):
            step, block = max(2.0 * (missing - gained) / slope, 1.0), -3
        t[i] += sign * step
        for a in range(rho.size):
            t[ids[a]] -= sign * step * rho[a]
        gained += step * slope - 0.25 * step * step * distance
        if block == -1:
            t[i] = hi[i] if sign > 0.0 else lo[i]
        if block < 0:
            break
        slope -= 0.5 * step * distance
        j = ids[block]
        _to_bound(members, j, hi[j] if sign * rho[block] < 0.0 else lo[j], t, row)
    if lo[i] < t[i] < hi[i]:
        _join(gram, members, i, row, shift)
    for a in range(moved.size):
        change[a] = 0.5 * (change[a] - t[moved[a]])
    add_rows(gram, moved, change, F)
    return _rows(gram, moved.size), gained


@inner
def _swap_in(
    dual: Dual, members: ActiveSet, i: int, row: np.ndarray, point: Point, shift: float
) -> int:
    """i is inside its box and in the hull of the members: move until one of them is at a bound."""
    t, F = point
    gram, lo, hi, ids = dual.gram, dual.lo, dual.hi, members.ids
    rho, _ = _project(gram, members, i, row, shift)
    slope = F[i]
    for a in range(rho.size):
        slope -= rho[a] * F[ids[a]]
    sign = 1.0 if slope >= 0.0 else -1.0
    for _ in range(2):
        step, block = _first_block(ids, rho, sign, lo, hi, t, i)
        if np.isfinite(step):
            break
        sign = -sign
    else:
        return 0
    rows = _move(gram, members, i, rho, sign * step, point)
    if block == -1:
        t[i] = hi[i] if sign > 0.0 else lo[i]
    else:
        j = ids[block]
        _to_bound(members, j, hi[j] if sign * rho[block] < 0.0 else lo[j], t, row)
        _join(gram, members, i, row, shift)
    return rows


@inner
def _make_level(dual: Dual, members: ActiveSet, point: Point, tol: float) -> int:
    """Newton steps on the members until F is level there; who meets a bound leaves."""
    t, F = point
    gram, lo, hi = dual.gram, dual.lo, dual.hi
    ids, L, size = members.ids, members.L, members.size
    rows = 0
    nobody = np.empty(0)
    while size[0] > 0:
        m = size[0]
        step = np.empty(m)
        for a in range(m):
            step[a] = F[ids[a]]
        mean = _sum(step) / m
        level = True
        for a in range(m):
            level = level and abs(step[a] - mean) <= tol
        if level:
            break
        ones = _inverse_of_ones(members)
        _forward(L, m, step)
        _backward(L, m, step)
        share = _sum(step) / _sum(ones)
        length = 1.0
        block = -1
        for a in range(m):
            j = ids[a]
            step[a] = 2.0 * (step[a] - share * ones[a])
            if step[a] != 0.0:
                room = hi[j] - t[j] if step[a] > 0.0 else lo[j] - t[j]
                if room / step[a] < length:
                    length = max(room / step[a], 0.0)
                    block = a
        rising = block >= 0 and step[block] > 0.0
        for a in range(m):
            t[ids[a]] += length * step[a]
            step[a] *= -0.5 * length
        add_rows(gram, ids[:m], step, F)
        rows += _rows(gram, m)
        if block < 0:
            break  # another step would only chase rounding
        j = ids[block]
        _to_bound(members, j, hi[j] if rising else lo[j], t, nobody)
    return rows


@inner
def _gather(dual: Dual, members: ActiveSet, point: Point, shift: float) -> int:
    """Members are those inside their box.  Returns the rows that took."""
    for a in range(members.size[0]):
        members.place[members.ids[a]] = -1
    members.size[0] = 0
    rows = 0
    for i in range(point.t.size):
        if dual.lo[i] < point.t[i] < dual.hi[i]:
            row = _row(dual.gram, members, i, shift)
            if not _join(dual.gram, members, i, row, shift):
                rows += _swap_in(dual, members, i, row, point, shift)
    return rows


@inner
def _worst(dual: Dual, members: ActiveSet, point: Point) -> tuple[int, float, float]:
    """Who violates optimality most, in which direction it should go, and by how much."""
    t, F = point
    if members.size[0] == 0:
        top, low, worst = -np.inf, np.inf, -1
        for i in range(t.size):
            if t[i] < dual.hi[i] and F[i] > top:
                top, worst = F[i], i
            if t[i] > dual.lo[i]:
                low = min(low, F[i])
        return worst, 1.0, max(top - low, 0.0)
    beta = _level(members, F)
    worst, sign, violation = -1, 1.0, 0.0
    for i in range(t.size):
        if members.place[i] < 0:
            over = F[i] - beta
            if over > violation and t[i] < dual.hi[i]:
                worst, sign, violation = i, 1.0, over
            elif -over > violation and t[i] > dual.lo[i]:
                worst, sign, violation = i, -1.0, -over
    return worst, sign, violation


def copy_set(source: ActiveSet, target: ActiveSet) -> None:
    """Make the members of one set those of another, factor included."""
    m = target.size[0] = source.size[0]
    target.ids[:m] = source.ids[:m]
    target.place[:] = source.place
    target.L[:m, :m] = source.L[:m, :m]
    target.ones[:m] = source.ones[:m]


@outer
def climb(
    dual: Dual, members: ActiveSet, point: Point, effort: Effort, ready: bool
) -> tuple[int, float]:
    """Maximise D from a feasible point, in place.

    Parameters
    ----------
    dual : Dual
    members : ActiveSet
        Those of the point if `ready`; in any case they are written.
    point : Point
    effort : Effort
    ready : bool

    Returns
    -------
    rows : int
        Rows of K that were added to F.
    violation : float
        What is left of the largest violation.
    """
    shift = _shift(dual.gram)
    rows = 0 if ready else _gather(dual, members, point, shift)
    near, height, steps = 0.1 * effort.tol, 0.0, 0
    while True:
        if steps > 0 or not ready:  # in one place: every call is compiled for itself
            rows += _make_level(dual, members, point, near)
        if steps == 0:
            height = value(dual.p, point)
        i, sign, violation = _worst(dual, members, point)
        full = members.size[0] == members.ids.size
        if violation <= effort.tol or rows >= effort.rows or height > effort.target or full:
            return rows, violation
        missing = min(effort.target - height + 1.0 + abs(effort.target), _FAR)
        more, gained = _push(dual, members, i, sign, point, effort.tol, missing, shift)
        rows += max(more, 1)
        height += gained
        near = 0.5 * effort.tol
        steps += 1
