"""Pairs of anchors, of which giving up either breaks the pair: what breaking costs at most.

See `relaxations.svm.bounds.pairs` for the mathematics.
"""

from __future__ import annotations

import numpy as np

from ...jit import inner, outer
from .drop import NOBODY, Rates, allowed_loss, fits, reduced_loss
from .moments import TINY

__all__ = ["broken_loss", "climb"]

_SHARINGS = 5  # rounds in which pairs choose the anchor that pays for them


@outer
def climb(
    a: np.ndarray, B: np.ndarray, ends: np.ndarray, rates: Rates, delta: np.ndarray,
    z: np.ndarray, given_up: np.ndarray, steps: int,
) -> None:
    """Conditional-gradient steps of z on the loss (a + delta)'z - z'(delta - B)z, in place.

    ``given_up`` follows: the anchors that break the pairs.
    """
    P = z.size
    loss, away, chosen = np.empty(P), np.empty(P), np.empty(given_up.size)
    for _ in range(steps):
        product = np.dot(B, z)
        for p in range(P):
            loss[p] = a[p] + delta[p] - 2.0 * (delta[p] * z[p] - product[p])
        _break(loss, ends, rates, chosen, away)
        for p in range(P):
            away[p] -= z[p]
        slope = np.dot(loss, away)
        if slope <= 0.0:
            return
        product = np.dot(B, away)
        curve = 0.0
        for p in range(P):
            curve += away[p] * (delta[p] * away[p] - product[p])
        step = min(1.0, 0.5 * slope / max(curve, TINY))
        for p in range(P):
            z[p] += step * away[p]
        for j in range(given_up.size):
            given_up[j] += step * (chosen[j] - given_up[j])


@inner
def _break(
    loss: np.ndarray, ends: np.ndarray, rates: Rates, chosen: np.ndarray, broken: np.ndarray
) -> None:
    """Write an allowed set that breaks pairs of large loss, and these: greedy, as 0-1 vectors."""
    used = np.zeros(rates.budgets.size)
    gain = np.zeros(chosen.size)
    broken[:] = 0.0
    chosen[:] = 0.0
    for p in range(loss.size):
        for e in range(2):
            if ends[p, e] >= 0:
                gain[ends[p, e]] += loss[p]
    while True:
        at = -1
        for j in range(gain.size):
            better = chosen[j] == 0.0 and gain[j] > (0.0 if at < 0 else gain[at])
            if better and fits(used, rates, NOBODY, j):
                at = j
        if at < 0:
            return
        chosen[at] = 1.0
        for rate in range(used.size):
            used[rate] += rates.weights[rate, at]
        for p in range(loss.size):
            if broken[p] == 0.0 and (ends[p, 0] == at or ends[p, 1] == at):
                broken[p] = 1.0
                for e in range(2):
                    if ends[p, e] >= 0:
                        gain[ends[p, e]] -= loss[p]


@outer
def broken_loss(loss: np.ndarray, ends: np.ndarray, rates: Rates, reduced: np.ndarray) -> float:
    """Upper bound on the loss of the pairs that any allowed set breaks.

    Parameters
    ----------
    loss : ndarray (P,)
        l_p.
    ends : ndarray of int (P, 2)
        The anchors of each pair, -1 for one that cannot be given up; one at least can.
    rates : Rates
        None of them exact.
    reduced : ndarray (m,)
        Written: L_j less the prices of j's weights.

    Returns
    -------
    float
    """
    mu, L, y, sure = np.zeros(rates.budgets.size), np.zeros(reduced.size), np.zeros(loss.size), 0.0
    for p in range(loss.size):
        j, k = ends[p, 0], ends[p, 1]
        y[p] = max(loss[p], 0.0)
        part = 0.5 * loss[p] if loss[p] < 0.0 and j >= 0 and k >= 0 else loss[p]
        if j >= 0:
            L[j] += part
        if k >= 0:
            L[k] += part
    for sharing in range(_SHARINGS + 1):
        total = sure + allowed_loss(L, rates, mu)
        for j in range(reduced.size):
            reduced[j] = reduced_loss(L, rates.weights, mu, j)
        if sharing == _SHARINGS:
            break
        # Where both anchors of a pair pay, one that pays once for all is enough.
        for p in range(loss.size):
            j, k = ends[p, 0], ends[p, 1]
            if j >= 0 and k >= 0:
                part = max(min(y[p], min(reduced[j], reduced[k])), 0.0)
                sure += part
                y[p] -= part
                L[j] -= part
                L[k] -= part
                reduced[j] -= part
                reduced[k] -= part
    return total
