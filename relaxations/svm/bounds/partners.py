"""Pairs of anchors of opposite classes, and which of them may act on each other."""

from __future__ import annotations

import numpy as np

from ..dual import Dual

__all__ = ["Partners", "force_of"]

_PARTNERS = 2  # that may come in for each anchor at once
_SELDOM = 0.02  # how often an anchor is kept at least, as far as new pairs are concerned
_APART = 1e-9  # squared distance of a pair at least, in units of the diagonal


class Partners:
    """The pairs of a node's anchors, free or enforced, of which one at least is free.

    Parameters
    ----------
    dual : Dual
        With a dense kernel matrix.
    is_free : ndarray of bool (N,)

    Attributes
    ----------
    sides : list of ndarray of int
        Positive and negative anchors.
    square : ndarray
        Squared distances between the sides, infinite where there is no pair.
    """

    def __init__(self, dual: Dual, is_free: np.ndarray) -> None:
        p, K, diag = dual.p, dual.gram.K, dual.gram.diag
        is_hard = np.where(p > 0.0, np.isinf(dual.hi), np.isinf(dual.lo)) & (p != 0.0)
        self._p, self.sides = p, [np.flatnonzero(is_hard & (side * p > 0.0)) for side in (1, -1)]
        self._at = np.full(p.size, -1)  # place among those of its side
        for side in self.sides:
            self._at[side] = np.arange(side.size)
        pos, neg = self.sides
        square = diag[pos][:, None] + diag[neg][None] - 2.0 * K[np.ix_(pos, neg)]
        usable = is_free[pos][:, None] | is_free[neg][None]
        self.square = np.where(usable & (square > _APART * diag.max()), square, np.inf)

    def possible(self, ends: np.ndarray, push: np.ndarray) -> np.ndarray:
        """Which of some pairs from outside may push so."""
        (j, k), label = self._at[ends].T, self._p[ends].T
        possible = (j >= 0) & (label[0] > 0.0) & (k >= 0) & (label[1] < 0.0) & (push >= 0.0)
        possible[possible] = np.isfinite(self.square[j[possible], k[possible]])
        return possible

    def promising(self, gain: np.ndarray, known: np.ndarray, most: int) -> np.ndarray:
        """Pairs of large gain that are not known yet: some for each anchor, so many at most."""
        gain[tuple(self._at[known].T)] = 0.0
        chosen = np.zeros(gain.shape, np.bool_)
        for axis in (0, 1):
            best = np.argsort(-gain, axis=axis, kind="stable")
            best = best[:_PARTNERS] if axis == 0 else best[:, :_PARTNERS]
            np.put_along_axis(chosen, best, True, axis=axis)
        i, k = np.nonzero(chosen & (gain > 0.0))
        best = np.argsort(-gain[i, k], kind="stable")[: max(most, 0)]
        return np.column_stack([self.sides[0][i[best]], self.sides[1][k[best]]])

    def gains(self, F: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """What pairs would gain at the gradient F, if variables are kept so often."""
        (pos, neg), kept = self.sides, np.maximum(kept, _SELDOM)
        slope = np.maximum(F[pos][:, None] - F[neg][None], 0.0)
        return slope**2 * kept[pos][:, None] * kept[neg][None] / self.square


def force_of(ends: np.ndarray, push: np.ndarray, size: int) -> np.ndarray:
    """Multipliers that such forces of pairs add up to."""
    total = np.zeros(size)
    np.add.at(total, ends[:, 0], push)
    np.add.at(total, ends[:, 1], -push)
    return total
