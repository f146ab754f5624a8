"""Which relaxation solves the nodes of a search, by the structure of its QP."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy.sparse as sp

from ..patience import FOR_EVER, Patience
from . import active_set, linear
from .model import QP, Solution
from .osqp_workspace import OSQPWorkspace
from .perspective import PerspectiveWorkspace
from .trimmed import Trimmed, trimmed

_MAX_SPARSE_WORK, _MAX_DENSE = 5e8, 6000
"""OSQP factorises without a look at the clock: above so many operations (half a second or so) a
dense inverse is taken, which can be interrupted, if it can be stored at all."""
_WORTH = 0.8
"""Leave variables that are zero for good out if no larger share is left."""


class Workspace(Protocol):
    """Solves one QP under changing variable bounds, and certifies its answers."""

    def solve(
        self, lb: np.ndarray, ub: np.ndarray, *, cutoff: float = np.inf, slack: float = 0.0,
        warm: tuple[np.ndarray, np.ndarray] | None = None, patience: Patience = FOR_EVER,
    ) -> Solution:
        """Solve the node with these bounds, as accurately as the search needs.

        Parameters
        ----------
        lb, ub : ndarray
            Variable bounds of the node.
        cutoff : float
            Stop as soon as the certified bound reaches this.
        slack : float
            A certified bound this close to the objective reached is accurate enough.
        warm : (x, y), optional
            Where to start; y has the rows' multipliers.
        patience : Patience
            When it ends, come back with what there is.
        """


def workspace_for(
    qp: QP, scale: np.ndarray, lb: np.ndarray | None = None, ub: np.ndarray | None = None
) -> Workspace:
    """The best workspace for a QP.

    Separable problems with many rows are for the simplex method, perspective terms for their own
    ADMM, small dense ones for active sets; the rest is OSQP's where its factorisation is quick.

    Parameters
    ----------
    qp : QP
    scale : ndarray
        Typical size of each variable.
    lb, ub : ndarray, optional
        Bounds that all nodes keep: variables that are zero by them may be left out.
    """
    if lb is not None and ub is not None:
        kept = (lb != 0.0) | (ub != 0.0)
        kept[qp.pairs.z[kept[qp.pairs.x]]] = True  # a variable is not kept without its switch
        if kept.any() and kept.sum() <= _WORTH * qp.n:
            return Trimmed(workspace_for(trimmed(qp, kept), scale[kept]), kept)
    if linear.suits(qp):
        return linear.LinearWorkspace(qp)
    if len(qp.pairs):
        return PerspectiveWorkspace(qp, scale)
    small = active_set.ActiveSetWorkspace.of(qp) if active_set.suits(qp) else None
    if small is not None:
        return small
    if qp.n <= _MAX_DENSE and _sparse_work(qp) > _MAX_SPARSE_WORK:
        return PerspectiveWorkspace(qp, scale)
    return OSQPWorkspace(qp)


def _sparse_work(qp: QP) -> float:
    """A guess of the operations of OSQP's factorisation: as if nothing filled in after P + AᵀA.

    Few long rows do no harm, since they can be eliminated last.
    """
    rows = np.diff(qp.A.indptr).astype(float)
    long = rows > 10.0 * np.sqrt(qp.n)
    work = float(np.sum(rows**2) + np.sum(long) ** 2 * qp.n)
    if work > _MAX_SPARSE_WORK:
        return work
    pattern = sp.csr_matrix(qp.A[~long], copy=True)
    pattern.data[:] = 1.0
    columns = np.diff((abs(sp.csr_matrix(qp.P)) + pattern.T @ pattern).indptr).astype(float)
    return work + float(np.sum(columns**2)) / 3.0
