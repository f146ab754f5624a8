"""Splits where rows may be given up as far as budgets allow: chains of rows that are too many.

Let j_1, j_2, ... be rows that cannot all be given up. Some j_k is the first of them that is not,
so a node is split into "give up j_1 ... j_k-1, enforce j_k", k = 1, 2, ... Which rows are taken,
and in what order, is seen by enforcing some of them one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Chains:
    """What may be given up at a node.

    Parameters
    ----------
    weights : ndarray of shape (g, m)
        What each of m rows counts in each of g budgets.
    left : ndarray of shape (g,)
        What the budgets still allow to be given up.
    """

    weights: np.ndarray
    left: np.ndarray

    def overdrawn(self, rows: np.ndarray) -> np.ndarray:
        """The budgets that do not allow all of these rows to be given up."""
        return np.flatnonzero(self.weights[:, rows].sum(axis=1) > self.left + _ROUNDING)

    def trials(self, violated: np.ndarray, spare: float, most: int) -> list[int]:
        """Violated rows worth a trial, for every budget that they overdraw: the first of each.

        `spare` times as many as a chain needs, but no more than `most` per budget.
        """
        chosen: dict[int, None] = {}
        for budget in self.overdrawn(violated):
            weights = self.weights[budget, violated]
            members = violated[weights > 0.0]
            needed = self.left[budget] / weights[weights > 0.0].mean() + 1.0
            chosen |= dict.fromkeys(members[: min(int(np.ceil(spare * needed)), most)].tolist())
        return list(chosen)

    def best(
        self, bounds: Mapping[int, float], bound: float, cutoff: float, sharpness: float,
        decay: float,
    ) -> list[int]:
        """The chain, all of one budget, whose children promise the smallest trees.

        A child that closes a share s of the gap counts as exp(-sharpness s), and the later ones
        less and less, by `decay`, for they may give up less. Empty if nothing was tried.

        Parameters
        ----------
        bounds : mapping from row to bound
            Of the node with that row enforced.
        bound, cutoff : float
            Of the node.
        """
        gap = cutoff - bound
        unit = gap if np.isfinite(gap) else max(abs(bound), 1.0)

        def size(chain: list[int]) -> float:
            shares = [max(bounds[j] - bound, 0.0) / unit for j in chain]
            if not self.overdrawn(np.array(chain)).size:  # one child more
                shares.append(0.0)
            return float(np.exp(-sharpness * np.array(shares)) @ decay ** np.arange(len(shares)))

        chains = [self._chain(budget, bounds) for budget in range(len(self.left))]
        return min((chain for chain in chains if chain), key=size, default=[])

    def _chain(self, budget: int, bounds: Mapping[int, float]) -> list[int]:
        """Tried rows of a budget, the hardest to enforce first, until they overdraw it."""
        weights, left = self.weights[budget], self.left[budget]
        chain: list[int] = []
        for j in sorted((j for j in bounds if weights[j] > 0.0), key=lambda j: -bounds[j]):
            chain.append(j)
            left -= weights[j]
            if left < -_ROUNDING:
                break
        return chain
