"""Gurobi through gurobipy: 200 variables without a licence file, all with one."""

from __future__ import annotations

import gurobipy as gp
from gurobipy import GRB

from ..model import PeerModel
from .answer import INTEGRALITY, Answer, Recorder, TooLargeError


def solve(model: PeerModel, limit: float, gap: float) -> Answer:
    try:
        with gp.Env(params={"OutputFlag": 0}) as env, gp.Model(env=env) as solver:
            return _solve(solver, model, limit, gap)
    except gp.GurobiError as error:
        if error.errno == GRB.Error.SIZE_LIMIT_EXCEEDED:
            raise TooLargeError(str(error)) from None
        raise


def _solve(solver: gp.Model, model: PeerModel, limit: float, gap: float) -> Answer:
    x = solver.addMVar(len(model.q), lb=model.lb, ub=model.ub, vtype=model.kinds)
    solver.setObjective(0.5 * (x @ model.P @ x) + model.q @ x + model.constant)
    equal, upper, lower = model.split_rows()
    solver.addConstr(model.A[equal] @ x == model.u[equal])
    solver.addConstr(model.A[upper] @ x <= model.u[upper])
    solver.addConstr(model.A[lower] @ x >= model.l[lower])
    if model.indicators is not None:
        variables = x.tolist()
        for j, switch in enumerate(model.indicators.switch):
            row = model.indicators.G[j]
            terms = gp.LinExpr(row.data.tolist(), [variables[i] for i in row.indices])
            solver.addGenConstrIndicator(
                variables[switch], True, terms, GRB.GREATER_EQUAL, model.indicators.h[j]
            )
    solver.Params.Threads, solver.Params.TimeLimit = 1, limit
    solver.Params.MIPGap, solver.Params.MIPGapAbs = gap, 0.0
    solver.Params.IntFeasTol = INTEGRALITY
    record = Recorder(GRB.INFINITY)

    def watch(_: gp.Model, where: int) -> None:
        if where == GRB.Callback.MIP:
            record(
                solver.cbGet(GRB.Callback.MIP_OBJBST), solver.cbGet(GRB.Callback.MIP_OBJBND)
            )

    record.start()
    solver.optimize(watch)
    seconds = record.seconds
    status = {GRB.OPTIMAL: "optimal", GRB.TIME_LIMIT: "limit", GRB.INFEASIBLE: "infeasible"}
    return Answer(
        status.get(solver.Status, f"status {solver.Status}"), x.X if solver.SolCount else None,
        solver.ObjBound, solver.NodeCount, seconds, record.trace,
    )
