"""A relaxation over the variables that are not zero for good.

Nothing is computed: rows and columns of zeros are left out, so whatever certifies the smaller QP
certifies the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..patience import FOR_EVER, Patience
from .model import QP, Pairs, Solution

if TYPE_CHECKING:
    from .choose import Workspace


def trimmed(qp: QP, kept: np.ndarray) -> QP:
    """The QP over these variables alone, a mask; the others are zero."""
    place = np.cumsum(kept) - 1
    held = kept[qp.pairs.x] & kept[qp.pairs.z]
    pairs = Pairs(
        place[qp.pairs.x[held]], place[qp.pairs.z[held]], qp.pairs.low[held],
        qp.pairs.high[held], qp.pairs.d[held],
    )
    P = (
        qp.P[np.ix_(kept, kept)] if isinstance(qp.P, np.ndarray) else qp.P.tocsr()[kept][:, kept]
    )
    return QP(
        P, qp.q[kept], qp.A[:, kept].tocsr(), qp.l, qp.u, qp.square[kept], pairs, qp.constant
    )


class Trimmed:
    """A workspace of a trimmed QP, for those who know the whole."""

    def __init__(self, inner: Workspace, kept: np.ndarray) -> None:
        self._inner, self._kept = inner, kept

    def solve(
        self, lb: np.ndarray, ub: np.ndarray, *, cutoff: float = np.inf, slack: float = 0.0,
        warm: tuple[np.ndarray, np.ndarray] | None = None, patience: Patience = FOR_EVER,
    ) -> Solution:
        """As `Workspace.solve`."""
        kept = self._kept
        found = self._inner.solve(
            lb[kept], ub[kept], cutoff=cutoff, slack=slack,
            warm=None if warm is None else (warm[0][kept], warm[1]), patience=patience,
        )
        x, reduced = np.zeros(len(kept)), np.zeros(len(kept))
        x[kept], reduced[kept] = found.x, found.reduced
        found.x, found.reduced = x, reduced
        return found
