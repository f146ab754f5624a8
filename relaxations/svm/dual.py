"""The node duals of a constrained support vector machine, and what any feasible point certifies.

Every node problem is

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

from typing import NamedTuple

import numpy as np

from ..jit import inner, outer
from .gram import Gram, times

__all__ = [
    "Dual", "Effort", "Point", "certified_value", "extrapolate", "gradient", "intercept",
    "make_feasible", "value",
]

_EPS = np.finfo(np.float64).eps


class Dual(NamedTuple):
    """Kernel, linear term and box of a node dual."""

    gram: Gram
    p: np.ndarray
    lo: np.ndarray
    hi: np.ndarray


class Point(NamedTuple):
    """Multipliers and the gradient of D there, which solvers change in place together."""

    t: np.ndarray
    F: np.ndarray


class Effort(NamedTuple):
    """When a solver stops.

    Parameters
    ----------
    tol : float
        Largest violation F_i - F_j of a pair that could still move.
    rows : int
        How many rows of K may be added to F: the measure of work.
    target : float
        As soon as D(t) exceeds this.
    """

    tol: float
    rows: int
    target: float


@outer
def make_feasible(t: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> None:
    """Clip ``t`` to its box and restore ``sum(t) = 0`` by shrinking the heavier side, in place.

    What is inside its box shrinks first: who is at a bound should stay there.
    """
    total = 0.0
    for i in range(t.size):
        t[i] = min(max(t[i], lo[i]), hi[i])
        total += t[i]
    sign = 1.0 if total > 0.0 else -1.0
    excess = abs(total)
    for everybody in (False, True):
        mass = 0.0
        for i in range(t.size):
            if sign * t[i] > 0.0 and (everybody or lo[i] < t[i] < hi[i]):
                mass += abs(t[i])
        if excess > 0.0 and (everybody or excess < 0.5 * mass):
            keep = 1.0 - excess / mass
            for i in range(t.size):
                if sign * t[i] > 0.0 and (everybody or lo[i] < t[i] < hi[i]):
                    t[i] *= keep
            return


def gradient(gram: Gram, p: np.ndarray, t: np.ndarray, F: np.ndarray) -> None:
    """Write ``F = p - K t / 2``."""
    times(gram, t, F)
    F *= -0.5
    F += p


@outer
def value(p: np.ndarray, point: Point) -> float:
    """D(t) = (p + F)'t / 2, up to rounding."""
    total = 0.0
    for i in range(p.size):
        total += 0.5 * (p[i] + point.F[i]) * point.t[i]
    return total


@outer
def certified_value(dual: Dual, t: np.ndarray) -> tuple[float, float]:
    """Lower bound D(t) less a bound on its rounding error, and that bound on the error.

    From t alone: a gradient that was carried along keeps the rounding errors of all the points that
    it has been at, and where multipliers were large for a while these are large.  K is positive
    semidefinite only up to rounding: entries are off by some units of sqrt(K_ii K_jj), which large
    multipliers that cancel each other in Kt would turn into a gain.
    """
    gram, p = dual.gram, dual.p
    index = np.flatnonzero(t)
    linear, mass, reach = 0.0, 0.0, 0.0
    for i in index:
        linear += p[i] * t[i]
        mass += abs(p[i] * t[i])
        reach += abs(t[i]) * np.sqrt(gram.diag[i])
    square, size = _square(gram, t, index)
    added = index.size + gram.Z.shape[1]
    slip = _EPS * ((0.5 * added + 2.0) * size + (index.size + 2.0) * mass + reach * reach)
    return linear - 0.25 * square - slip, slip


@inner
def _square(gram: Gram, t: np.ndarray, index: np.ndarray) -> tuple[float, float]:
    """t'Kt, and the sum of the sizes of all its terms."""
    square, size = 0.0, 0.0
    if gram.Z.shape[1] == 0:
        for i in index:
            total, terms = 0.0, 0.0
            for j in index:
                term = gram.K[i, j] * t[j]
                total += term
                terms += abs(term)
            square += t[i] * total
            size += abs(t[i]) * terms
    else:
        for k in range(gram.Z.shape[1]):
            total, terms = 0.0, 0.0
            for i in index:
                term = gram.T[k, i] * t[i]
                total += term
                terms += abs(term)
            square += total * total
            size += terms * terms
    return square, size


@outer
def intercept(dual: Dual, point: Point) -> float:
    """Intercept beta that matches ``t``: the middle of the last violating pair."""
    top, low = -np.inf, np.inf
    for i in range(point.t.size):
        if point.t[i] < dual.hi[i]:
            top = max(top, point.F[i])
        if point.t[i] > dual.lo[i]:
            low = min(low, point.F[i])
    if np.isfinite(top) and np.isfinite(low):
        return 0.5 * (top + low)
    return top if np.isfinite(top) else low


def extrapolate(dual: Dual, point: Point, before: np.ndarray, target: float) -> None:
    """Go on from ``before`` through ``t`` as far as D rises and the box allows, in place.

    A dual without bound is climbed by pairs in steps that do not grow; the line through two of
    its points is close to a ray, on which a single step passes the target.
    """
    t, F = point
    away = t - before
    change = np.empty(t.size)
    times(dual.gram, away, change)
    slope = np.dot(F, away)
    if slope <= 0.0:
        return
    curve = 0.25 * np.dot(away, change)
    step = 2.0 * (abs(target) + 1.0) / slope
    if curve > 0.0:
        step = min(step, 0.5 * slope / curve)
    moves = away != 0.0
    end = np.where(away > 0.0, dual.hi, dual.lo)
    step = float(((end - t)[moves] / away[moves]).min(initial=step))
    if step > 0.0:
        t += step * away
        make_feasible(t, dual.lo, dual.hi)
        gradient(dual.gram, dual.p, t, F)
