"""SCIP as a source of points; each is verified before it counts."""

from __future__ import annotations

import numpy as np

from .quadratic import Minimum, Quadratic, minimise
from .watch import watched

try:
    import pyscipopt
except ImportError:
    pyscipopt = None

SECONDS = 1.0


def scip_point(qp: Quadratic, integer: np.ndarray) -> Minimum:
    """Integers that SCIP likes best, the rest completed by interior points."""
    if pyscipopt is None:
        return Minimum(None)
    model = pyscipopt.Model()
    model.hideOutput()
    model.setParam("limits/time", SECONDS)
    n = len(qp.q)
    whole = np.isin(np.arange(n), integer)
    x = [
        model.addVar(lb=_or_none(qp.lb[j]), ub=_or_none(qp.ub[j]), vtype="I" if whole[j] else "C")
        for j in range(n)
    ]
    t = model.addVar(lb=None)
    square = pyscipopt.quicksum(
        0.5 * qp.P[i, j] * x[i] * x[j] for i in range(n) for j in range(n) if qp.P[i, j]
    )
    model.addCons(square + pyscipopt.quicksum(qp.q[j] * x[j] for j in range(n)) <= t)
    for row, low, high in zip(qp.A, qp.l, qp.u, strict=True):
        value = pyscipopt.quicksum(row[j] * x[j] for j in range(n)) + 0.0 * x[0]
        if np.isfinite(high):
            model.addCons(value <= high)
        if np.isfinite(low):
            model.addCons(value >= low)
    model.setObjective(t)
    try:
        with watched([]):  # it has things to say, too
            model.optimize()
    except Exception:  # all that pyscipopt raises when SCIP itself fails: then it has no point
        return Minimum(None)
    if not model.getNSols():
        return Minimum(None)
    values = np.round([model.getVal(x[j]) for j in integer])
    return minimise(qp.fixed(integer, np.clip(values, qp.lb[integer], qp.ub[integer])))


def _or_none(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None
