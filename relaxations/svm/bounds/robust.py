"""Robust boxes: what the sets that may be given up can ask of a place at most.

A place with mean multiplier x, of which R_j goes to it when anchor j is given up, keeps below h for
every allowed set if

    x + s(R) <= h,      s(R) = max over allowed v of (v - u)'R,

u the mean over the sets that a policy is played against.  `largest_sums` bounds the maximum, and
`project` moves (x, R) into this set by the shortest way, as the answers of
`relaxations.svm.bounds.splitting` need it.
"""

from __future__ import annotations

import numpy as np

from ...jit import inner, outer
from .drop import ROUNDING, Rates, allowed_loss, top_sum

__all__ = ["largest_sums", "project", "spans_of"]

_STEPS = 12  # of Newton's method for a price: any point gives a valid bound
_ACCURACY = 1e-3  # of a projection, relative to what was violated
_PASSES = 3  # over rates that share anchors


@outer
def largest_sums(
    rows: np.ndarray, sign: float, rates: Rates, starts: np.ndarray, out: np.ndarray
) -> None:
    """Write, for each row, an upper bound on the sum of ``sign`` times it over any allowed set.

    Sharp where every anchor counts one in a single rate (``starts``).
    """
    _, budgets, exact = rates
    mu = np.empty(budgets.size)
    part, bars = np.empty(rows.shape[1]), np.zeros(budgets.size)
    for a in range(out.size):
        if starts.size == 0:
            out[a] = allowed_loss(sign * rows[a], rates, mu)
            continue
        out[a] = 0.0
        for rate in range(budgets.size):
            first, size = starts[rate], starts[rate + 1] - starts[rate]
            for k in range(size):
                part[k] = sign * rows[a, first + k]
            count = min(int(budgets[rate] + ROUNDING), size)
            if count > 0 and exact[rate]:  # a bar far below all entries would cost digits
                out[a] += top_sum(part[:size], count, part[0], -np.inf)[0]
            elif count > 0:
                total, bars[rate] = top_sum(part[:size], count, bars[rate], 0.0)
                out[a] += total


def spans_of(weights: np.ndarray) -> np.ndarray:
    """First and last plus one of the anchors that count in each rate."""
    spans = np.zeros((weights.shape[0], 2), np.int64)
    end = 0
    for span, row in zip(spans, weights, strict=True):
        members = np.flatnonzero(row)
        span[:] = (members[0], members[-1] + 1) if members.size else (end, end)
        end = span[1]
    return spans


def project(
    x: np.ndarray, R: np.ndarray, top: np.ndarray, u: np.ndarray, rates: Rates, spans: np.ndarray,
    starts: np.ndarray, weight: float, price: np.ndarray, theta: np.ndarray,
) -> None:
    """Move each place (x_a, R_a) to the nearest one whose robust box holds, in place.

    With price l of the box R_a becomes R_a - l (v - u), v the projection of u + R_a / l on the
    fractional sets, and x_a loses l / weight; Newton's method finds l.  Sets that rates with
    common anchors allow are projected on one rate at a time, so roughly.

    Parameters
    ----------
    x : ndarray (k,)
    R : ndarray (k, m)
    top : ndarray (k,)
        Upper ends of the boxes.
    u : ndarray (m,)
    rates : Rates
    spans, starts : ndarray
        See `spans_of` and `relaxations.svm.bounds.drop.starts_of`.
    weight : float
        Of x in the distance.
    price : ndarray (k,)
        Where to begin; written.
    theta : ndarray (k, L)
        The same for the prices of the rates.
    """
    sums = np.empty(x.size)
    largest_sums(R, 1.0, rates, starts, sums)
    _project(x, R, top, sums, u, rates, spans, weight, price, theta)


@outer
def _project(
    x: np.ndarray, R: np.ndarray, top: np.ndarray, sums: np.ndarray, u: np.ndarray, rates: Rates,
    spans: np.ndarray, weight: float, price: np.ndarray, theta: np.ndarray,
) -> None:
    """`project` once the largest sums of the rows are known."""
    k, m = R.shape
    y, move = np.empty(m), np.empty(m)
    most = 0.0
    for budget in rates.budgets:
        most += budget
    for a in range(k):
        violated = x[a] + sums[a] - np.dot(u, R[a]) - top[a]
        if not violated > 0.0:
            price[a] = 0.0
            continue
        lam = price[a]
        if lam <= 0.0:
            lam = violated / (1.0 / weight + most)
        low, high = 0.0, np.inf
        for _ in range(_STEPS):
            if not 0.0 < lam < np.inf:  # numbers too large or too small for their digits
                break
            for j in range(m):  # not a slice: numba takes seconds to compile its errors
                y[j] = R[a, j] / lam
            bend = _nearest(y, u, rates, spans, theta[a], move)
            square = np.dot(move, move) + 1.0 / weight
            missing = x[a] - top[a] + np.dot(move, R[a]) - lam * square
            if abs(missing) <= _ACCURACY * violated:
                break
            if missing > 0.0:
                low = lam
            else:
                high = lam
            lam += missing / max(square - bend, 1e-12)
            if not low < lam < high:
                lam = 0.5 * (low + high) if high < np.inf else 2.0 * low
        if not 0.0 < lam < np.inf:
            price[a] = 0.0
            continue
        price[a] = lam
        x[a] -= lam / weight
        for j in range(m):
            R[a, j] -= lam * move[j]


@inner
def _nearest(
    y: np.ndarray, u: np.ndarray, rates: Rates, spans: np.ndarray, theta: np.ndarray,
    move: np.ndarray,
) -> float:
    """Write v - u, v the projection of u + y on the fractional sets within the budgets.

    Returns by how much less than its square the length of ``move`` bends with y's: the square of y
    off the prices theta, over the anchors that are neither kept nor given up.
    """
    weights, budgets, _ = rates
    L = budgets.size
    shared = False
    for rate in range(1, L):
        shared = shared or spans[rate, 0] < spans[rate - 1, 1]
    bend = 0.0
    for j in range(y.size):
        move[j] = y[j] + u[j]
        for rate in range(L):
            if shared:
                move[j] -= theta[rate] * weights[rate, j]
    for _ in range(_PASSES if shared else 1):
        for rate in range(L):
            first, last = spans[rate, 0], spans[rate, 1]
            if shared:
                for j in range(first, last):
                    move[j] += theta[rate] * weights[rate, j]
            theta[rate] = _threshold(move, weights[rate], budgets[rate], first, last, theta[rate])
            for j in range(first, last):
                move[j] -= theta[rate] * weights[rate, j]
    for rate in range(L):
        first, last = spans[rate, 0], spans[rate, 1]
        squares, cross, norm = 0.0, 0.0, 0.0
        for j in range(first, last):
            if 0.0 < move[j] < 1.0 and not shared:
                squares += y[j] * y[j]
                cross += weights[rate, j] * y[j]
                norm += weights[rate, j] * weights[rate, j]
        bend += squares - (cross * cross / norm if norm > 0.0 and theta[rate] > 0.0 else 0.0)
    for j in range(y.size):
        move[j] = min(max(move[j], 0.0), 1.0) - u[j]
    return bend


@inner
def _threshold(
    y: np.ndarray, w: np.ndarray, budget: float, first: int, last: int, theta: float
) -> float:
    """The least theta >= 0 with ``sum w clip(y - theta w, 0, 1) <= budget``, by Newton's method."""
    total, high = 0.0, 0.0
    for j in range(first, last):
        if w[j] > 0.0:
            total += w[j] * min(max(y[j], 0.0), 1.0)
            high = max(high, y[j] / w[j])
    if total <= budget:
        return 0.0
    low = 0.0
    if not low < theta < high:
        theta = 0.5 * high
    for _ in range(30):
        total, slope = -budget, 0.0
        for j in range(first, last):
            v = y[j] - theta * w[j]
            if v >= 1.0:
                total += w[j]
            elif v > 0.0:
                total += w[j] * v
                slope += w[j] * w[j]
        if abs(total) <= 1e-7 * budget:
            break
        if total > 0.0:
            low = theta
        else:
            high = theta
        if slope > 0.0:
            theta += total / slope
        if slope == 0.0 or not low < theta < high:
            theta = 0.5 * (low + high)
    return theta
