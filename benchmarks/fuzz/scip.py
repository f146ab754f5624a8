"""SCIP as a source of points; each is verified before it counts."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..model import PeerModel
from .quadratic import Minimum, Quadratic, minimise
from .watch import watched

try:
    from ..peers.scip import solve
except ImportError:  # it is not installed
    solve = None

LIMIT = 1.0  # seconds


def scip_point(qp: Quadratic, integer: np.ndarray) -> Minimum:
    """Integers that SCIP likes best, the rest completed by interior points."""
    if solve is None:
        return Minimum(None)
    used = qp.A.any(axis=1)
    model = PeerModel(
        sp.csr_matrix(qp.P), qp.q, sp.csr_matrix(qp.A[used]), qp.l[used], qp.u[used], qp.lb, qp.ub,
        np.isin(np.arange(len(qp.q)), integer), qp.constant,
    )
    try:
        with watched([]):  # it has things to say, too
            found = solve(model, LIMIT, 0.0).x
    except Exception:  # all that pyscipopt raises when SCIP itself fails: then it has no point
        found = None
    if found is None:
        return Minimum(None)
    values = np.clip(np.round(found[integer]), qp.lb[integer], qp.ub[integer])
    return minimise(qp.fixed(integer, values))
