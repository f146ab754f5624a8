"""COPT: 2000 variables and 2000 rows without a licence file."""

from __future__ import annotations

import coptpy as cp
import numpy as np
from coptpy import COPT

from ..model import PeerModel
from .answer import INTEGRALITY, Answer, Recorder, TooLargeError


class _Watch(cp.CallbackBase):
    def __init__(self, record: Recorder) -> None:
        super().__init__()
        self.record = record

    def callback(self) -> None:
        self.record(self.getInfo(COPT.CbInfo.BestObj), self.getInfo(COPT.CbInfo.BestBnd))


def solve(model: PeerModel, limit: float, gap: float) -> Answer:
    environment = cp.Envr()
    solver = environment.createModel()
    solver.setParam(COPT.Param.Logging, 0)
    x = solver.addMVar(len(model.q), lb=model.lb, ub=model.ub, vtype=model.kinds.tolist())
    A, rhs, senses = model.one_sided()
    for sense in sorted(set(senses)):
        mine = np.array(list(senses)) == sense
        solver.addMConstr(A[mine], x, sense, rhs[mine])
    solver.setObjective(0.5 * (x @ model.P @ x) + model.q @ x + model.constant, COPT.MINIMIZE)
    if model.indicators is not None:
        variables = x.tolist()
        for j, switch in enumerate(model.indicators.switch):
            row = model.indicators.G[j]
            terms = cp.LinExpr()
            terms.addTerms([variables[i] for i in row.indices], row.data.tolist())
            solver.addGenConstrIndicator(
                variables[switch], True, terms >= float(model.indicators.h[j])
            )
    for name, value in (("Threads", 1), ("TimeLimit", limit), ("RelGap", gap), ("AbsGap", 0.0),
                        ("IntTol", INTEGRALITY)):
        solver.setParam(name, value)
    record = Recorder(1e30)
    watch = _Watch(record)
    solver.setCallback(watch, COPT.CBCONTEXT_MIPSOL | COPT.CBCONTEXT_MIPNODE)
    record.start()
    try:
        solver.solve()
    except cp.CoptError as error:
        if "(LICENSE)" in str(error):
            raise TooLargeError(str(error)) from None
        raise
    seconds = record.seconds
    status = {COPT.OPTIMAL: "optimal", COPT.TIMEOUT: "limit", COPT.INFEASIBLE: "infeasible"}
    return Answer(
        status.get(solver.status, f"status {solver.status}"),
        np.array([v.x for v in solver.getVars()]) if solver.hasmipsol else None,
        solver.bestbnd, solver.nodecnt, seconds, record.trace,
    )
