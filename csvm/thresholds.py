"""How many anchors make a rate believable.

All of these test one classifier fixed in advance. Anchors that helped to choose the classifier do
not make the same promise about new data.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from numbers import Real

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc
from scipy.stats import binom, norm

__all__ = ["THRESHOLDS", "AnchorWarning", "threshold_count", "threshold_sum"]

THRESHOLDS = ("hoeffding", "normal", "exact", "none")

_ROUNDING = 1e-9  # relative: 0.07 * 100 is 7, not 7.000000000000001


class AnchorWarning(UserWarning):
    """There are too few anchors for the confidence asked, so that all of them are required."""


def threshold_count(
    p0: float, n: float, threshold: str = "exact", alpha: float = 0.05, name: str = "the rate"
) -> float:
    """How many of n anchors must be well classified to believe that the rate is at least p0.

    Parameters
    ----------
    p0 : float
        The rate asked for.
    n : float
        How many anchors there are, or the sum of their weights.
    threshold : {"hoeffding", "normal", "exact", "none"}
        How "p <= p0" is rejected at level alpha: k = ceil(p0* n) with Hoeffding's
        p0* = p0 + sqrt(log(alpha) / (-2 n)), or with p0* from the normal approximation; the
        smallest k with P(Bin(n, p0) >= k) <= alpha; or k = ceil(p0 n), which claims nothing beyond
        the anchors. At most n, with an `AnchorWarning` if the test asked for more.
    alpha : float
        In (0, 1).
    name : str
        What to call the constraint in a warning.

    Returns
    -------
    float
        The count k; not rounded up where n is no integer, since weights then are not counts.
    """
    _check(threshold, alpha)
    if threshold == "exact":
        if n != round(n):
            # P(Bin(n, p0) >= k) is an incomplete beta function, which knows no integers.
            if p0**n <= alpha:
                return float(brentq(lambda k: betainc(k, n - k + 1.0, p0) - alpha, 1e-12, n))
        else:
            # By halves, since n may be a sum of weights: P(Bin >= k) falls with k.
            least = bisect_left(
                range(int(n) + 1), -alpha, key=lambda k: -binom.sf(k - 1, int(n), p0)
            )
            if least <= n:
                return float(least)
    else:
        p_star = p0 + _margin(p0, n, threshold, alpha)
        if p_star <= 1.0 + _ROUNDING:
            k = min(p_star, 1.0) * n
            return float(math.ceil(k - _ROUNDING * max(1.0, k))) if n == round(n) else k
    warnings.warn(_too_few(p0, n, threshold, alpha, name), AnchorWarning, stacklevel=2)
    return float(n)


def threshold_sum(
    nominal: float, units: np.ndarray, points: np.ndarray, threshold: str, alpha: float, name: str
) -> float:
    """The same for a sum over well classified anchors that do not all count alike.

    For independent points the sum exceeds its mean by sqrt(log(alpha) / -2 * sum of squares) with
    probability alpha at most (Hoeffding), or, by the normal approximation with the largest possible
    variance, by z / 2 times the root of that sum. There is no exact test: "exact" is Hoeffding's.

    Parameters
    ----------
    nominal : float
        What the sum must be by the measure itself.
    units : ndarray (m,)
        What one point of each anchor adds.
    points : ndarray (m,)
        How many points each anchor stands for.
    threshold, alpha, name
        See `threshold_count`.
    """
    _check(threshold, alpha)
    largest = float(units @ points)
    factor = {
        "none": 0.0, "normal": 0.5 * max(0.0, float(norm.isf(alpha))),
    }.get(threshold, math.sqrt(-0.5 * math.log(alpha)))
    needed = nominal + factor * math.sqrt(float(units**2 @ points))
    if needed <= largest + _ROUNDING * max(1.0, largest):
        return max(0.0, needed)
    warnings.warn(
        f"{name} cannot be certified at level alpha={alpha:g} with {points[units > 0].sum():g} "
        f"anchors (threshold={threshold!r}): all of them are required, none may be given up",
        AnchorWarning, stacklevel=2,
    )
    return largest


def _check(threshold: str, alpha: float) -> None:
    if threshold not in THRESHOLDS:
        raise ValueError(f"threshold must be one of {', '.join(THRESHOLDS)}, got {threshold!r}")
    if not (isinstance(alpha, Real) and 0.0 < alpha < 1.0):
        raise ValueError(f"alpha must be in (0, 1), got {alpha!r}")


def _margin(p0: float, n: float, threshold: str, alpha: float) -> float:
    """p0* - p0."""
    if threshold == "hoeffding":
        return math.sqrt(math.log(alpha) / (-2.0 * n))
    if threshold == "normal":
        return max(0.0, float(norm.isf(alpha))) * math.sqrt(p0 * (1.0 - p0) / n)
    return 0.0


def _too_few(p0: float, n: float, threshold: str, alpha: float, name: str) -> str:
    """The warning, with the number of anchors that would do."""
    start = (
        f"{name} cannot be certified at level alpha={alpha:g} with {n:g} anchors "
        f"(threshold={threshold!r}): all of them are required, none may be given up; "
    )
    if p0 == 1.0:
        return start + "no number of anchors certifies a rate of 1"
    if threshold == "hoeffding":
        needed = math.log(alpha) / (-2.0 * (1.0 - p0) ** 2)
    elif threshold == "normal":
        needed = norm.isf(alpha) ** 2 * p0 / (1.0 - p0)
    else:
        needed = math.log(alpha) / math.log(p0)
    return start + f"at least {math.ceil(needed - _ROUNDING * needed)} anchors would be needed"
