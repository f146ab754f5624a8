"""SCIP through pyscipopt, free and without limits of size."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from pyscipopt import SCIP_EVENTTYPE, Eventhdlr, quicksum
from pyscipopt import Model as Solver

from ..model import PeerModel
from .answer import Answer, Recorder


class _Watch(Eventhdlr):
    def __init__(self, record: Recorder) -> None:
        self.record = record

    def eventinit(self) -> None:
        self.model.catchEvent(SCIP_EVENTTYPE.BESTSOLFOUND, self)
        self.model.catchEvent(SCIP_EVENTTYPE.NODESOLVED, self)

    def eventexec(self, event: object) -> None:
        self.record(self.model.getPrimalbound(), self.model.getDualbound())


def solve(model: PeerModel, limit: float, gap: float) -> Answer:
    solver = Solver()
    solver.hideOutput()
    x = [
        solver.addVar(lb=_or_none(low), ub=_or_none(high), vtype=str(kind))
        for low, high, kind in zip(model.lb, model.ub, model.kinds, strict=True)
    ]
    _build(solver, x, model)
    for name, value in (("limits/time", limit), ("limits/gap", gap),
                        ("parallel/maxnthreads", 1), ("lp/threads", 1)):
        solver.setParam(name, value)
    record = Recorder(1e20)
    solver.includeEventhdlr(_Watch(record), "trajectory", "bounds over time")
    record.start()
    solver.optimize()
    seconds = record.seconds
    status = solver.getStatus()
    named = {"optimal": "optimal", "gaplimit": "optimal", "timelimit": "limit"}
    return Answer(
        named.get(status, status),
        np.array([solver.getVal(v) for v in x]) if solver.getNSols() else None,
        solver.getDualbound(), solver.getNTotalNodes(), seconds, record.trace,
    )


def _build(solver: Solver, x: list, model: PeerModel) -> None:
    """The quadratic objective goes into a constraint: SCIP's objectives are linear."""
    P = model.triangle()
    square = quicksum(
        (0.5 if i == j else 1.0) * v * x[i] * x[j]
        for i, j, v in zip(P.row, P.col, P.data, strict=True)
    )
    linear = quicksum(model.q[j] * x[j] for j in np.flatnonzero(model.q))
    t = solver.addVar(lb=None)
    solver.addCons(square + linear + model.constant <= t)
    solver.setObjective(t)
    A = model.A
    for i in range(A.shape[0]):
        row = _row(A, i, x)
        if model.l[i] == model.u[i]:
            solver.addCons(row == model.u[i])
            continue
        if np.isfinite(model.u[i]):
            solver.addCons(row <= model.u[i])
        if np.isfinite(model.l[i]):
            solver.addCons(row >= model.l[i])
    if model.indicators is not None:
        for j, switch in enumerate(model.indicators.switch):
            solver.addConsIndicator(
                -_row(model.indicators.G, j, x) <= -model.indicators.h[j], binvar=x[switch]
            )


def _row(A: sp.csr_matrix, i: int, x: list) -> object:
    begin, end = A.indptr[i], A.indptr[i + 1]
    return quicksum(A.data[k] * x[A.indices[k]] for k in range(begin, end))


def _or_none(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None
