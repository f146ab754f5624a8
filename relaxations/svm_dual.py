"""Kernel node duals, solved by sequential minimal optimisation (SMO) in numba.

Every node problem of a constrained support vector machine is

    min  ||w||^2 + sum_i c_i xi_i      over w, xi >= 0 and beta in [b_l, b_u]

with soft constraints on the training points, hard ones on enforced anchors and reversed hard ones
on anchors given up.  With the *signed* multipliers ``t_i = y_i alpha_i`` its dual is

    max  D(t) = p't - t'Kt / 4    s.t.  lo <= t <= hi,  sum(t) = 0,       w = sum_i t_i phi_i / 2

where ``p_i = y_i`` and every interval [lo_i, hi_i] contains 0.  The interval of the intercept is
two more variables with a zero kernel row: one in [0, inf) with p = b_l, one in (-inf, 0] with
p = b_u.  Signed multipliers make all kinds of constraint look alike, so nothing here knows labels.

``F = p - K t / 2`` is the gradient; at the optimum a free variable has F_i = beta.
Any feasible t gives the lower bound D(t), whatever the solver's accuracy.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = [
    "certified_value",
    "extrapolate",
    "gradient",
    "intercept",
    "make_feasible",
    "solve_dual",
]

_EPS = np.finfo(np.float64).eps


@njit(nogil=True, cache=True)
def make_feasible(t: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> None:
    """Clip ``t`` to its box and restore ``sum(t) = 0`` by shrinking the heavier side, in place."""
    plus = 0.0
    minus = 0.0
    for i in range(t.size):
        t[i] = min(max(t[i], lo[i]), hi[i])
        if t[i] > 0.0:
            plus += t[i]
        else:
            minus -= t[i]
    if plus > minus:
        for i in range(t.size):
            if t[i] > 0.0:
                t[i] *= minus / plus
    elif minus > plus:
        for i in range(t.size):
            if t[i] < 0.0:
                t[i] *= plus / minus


@njit(nogil=True, cache=True)
def gradient(K: np.ndarray, p: np.ndarray, t: np.ndarray, F: np.ndarray) -> None:
    """Write ``F = p - K t / 2``, skipping the zeros of ``t``."""
    F[:] = p
    for i in range(t.size):
        if t[i] != 0.0:
            half = 0.5 * t[i]
            row = K[i]
            for k in range(t.size):
                F[k] -= half * row[k]


@njit(nogil=True, cache=True)
def certified_value(
    diag: np.ndarray, p: np.ndarray, t: np.ndarray, F: np.ndarray, steps: int
) -> float:
    """Lower bound D(t) less a bound on its rounding error.

    ``D = (p + F)'t / 2``.  F has been updated ``steps`` times, each time with a relative error of a
    few units in the last place of the largest entry.  And K, whose diagonal is ``diag``, is
    positive semidefinite only up to rounding: entries are off by some units of sqrt(K_ii K_jj),
    which large multipliers that cancel each other in Kt would turn into a gain.
    """
    value = 0.0
    mass = 0.0
    reach = 0.0
    largest = 1.0
    for i in range(t.size):
        if t[i] != 0.0:
            value += 0.5 * (p[i] + F[i]) * t[i]
            mass += abs(t[i])
            reach += abs(t[i]) * np.sqrt(diag[i])
            largest = max(largest, abs(F[i]), abs(p[i]))
    return value - _EPS * (4.0 * (steps + t.size) * mass * largest + reach * reach)


@njit(nogil=True, cache=True)
def intercept(t: np.ndarray, F: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> float:
    """Intercept beta that matches ``t``: the middle of the last violating pair."""
    top = -np.inf
    low = np.inf
    for i in range(t.size):
        if t[i] < hi[i]:
            top = max(top, F[i])
        if t[i] > lo[i]:
            low = min(low, F[i])
    if not np.isfinite(top):
        return low
    if not np.isfinite(low):
        return top
    return 0.5 * (top + low)


@njit(nogil=True, cache=True)
def solve_dual(
    K: np.ndarray,
    diag: np.ndarray,
    p: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    t: np.ndarray,
    F: np.ndarray,
    tol: float,
    max_steps: int,
    target: float,
) -> tuple[int, float]:
    """Maximise D(t) from a feasible ``t`` with its gradient ``F``; both change in place.

    Second-order working sets (Fan, Chen and Lin).  Stops when the most violating pair differs by
    less than ``tol``, after ``max_steps``, or as soon as D(t) exceeds ``target`` (an unbounded dual
    passes any target: along a ray of zero curvature the step is cut where it does).

    Returns
    -------
    steps : int
    violation : float
        Largest difference F_i - F_j over pairs that could still move.
    """
    n = t.size
    value = 0.0
    for k in range(n):
        value += 0.5 * (p[k] + F[k]) * t[k]
    steps = 0
    violation = np.inf
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
        if violation <= tol or steps >= max_steps or value > target:
            return steps, violation
        j = -1
        best = -1.0
        row_i = K[i]
        curve_i = diag[i]
        for k in range(n):
            if t[k] > lo[k]:
                gap = top - F[k]
                if gap > 0.0:
                    curve = max(curve_i + diag[k] - 2.0 * row_i[k], 1e-12)
                    if gap * gap > best * curve:
                        best = gap * gap / curve
                        j = k
        gap = top - F[j]
        curve = curve_i + diag[j] - 2.0 * row_i[j]
        room = min(hi[i] - t[i], t[j] - lo[j])
        step = min(room, 2.0 * gap / max(curve, 1e-12))
        if curve <= 1e-12:
            step = min(room, 2.0 * (target - value + 1.0 + abs(target)) / gap)
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
        value += step * (gap - 0.25 * step * curve)
        row_j = K[j]
        half = 0.5 * step
        for k in range(n):
            F[k] -= half * (row_i[k] - row_j[k])
        steps += 1


@njit(nogil=True, cache=True)
def extrapolate(
    K: np.ndarray,
    p: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    t: np.ndarray,
    before: np.ndarray,
    F: np.ndarray,
    target: float,
) -> None:
    """Go on from ``before`` through ``t`` as far as D rises and the box allows, in place.

    A dual without bound is climbed by pairs in steps that do not grow; the line through two of
    its points is close to a ray, on which a single step passes the target.
    """
    away = t - before
    change = np.empty(t.size)
    gradient(K, np.zeros(t.size), away, change)
    slope = np.dot(F, away)
    if slope <= 0.0:
        return
    curve = -0.5 * np.dot(away, change)
    step = 2.0 * (abs(target) + 1.0) / slope
    if curve > 0.0:
        step = min(step, 0.5 * slope / curve)
    for i in range(t.size):
        if away[i] > 0.0:
            step = min(step, (hi[i] - t[i]) / away[i])
        elif away[i] < 0.0:
            step = min(step, (lo[i] - t[i]) / away[i])
    if step > 0.0:
        t += step * away
        make_feasible(t, lo, hi)
        gradient(K, p, t, F)
