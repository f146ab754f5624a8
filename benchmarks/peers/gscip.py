"""SCIP again, as ortools ships it (GSCIP); no callbacks for quadratic objectives."""

from __future__ import annotations

import datetime
import time

import numpy as np
from ortools.math_opt.python import mathopt

from ..model import PeerModel
from .answer import Answer


def solve(model: PeerModel, limit: float, gap: float) -> Answer:
    solver = mathopt.Model()
    kinds = model.kinds
    x = [
        solver.add_variable(lb=float(low), ub=float(high), is_integer=bool(kind != "C"))
        for low, high, kind in zip(model.lb, model.ub, kinds, strict=True)
    ]
    P = model.triangle()
    square = mathopt.fast_sum(
        float(0.5 * v if i == j else v) * x[i] * x[j]
        for i, j, v in zip(P.row, P.col, P.data, strict=True)
    )
    linear = mathopt.fast_sum(float(model.q[j]) * x[j] for j in np.flatnonzero(model.q))
    solver.minimize(square + linear + model.constant)
    A = model.A
    for i in range(A.shape[0]):
        row = mathopt.fast_sum(
            float(A.data[k]) * x[A.indices[k]] for k in range(A.indptr[i], A.indptr[i + 1])
        )
        solver.add_linear_constraint(expr=row, lb=float(model.l[i]), ub=float(model.u[i]))
    parameters = mathopt.SolveParameters(
        time_limit=datetime.timedelta(seconds=limit), threads=1, relative_gap_tolerance=gap
    )
    begin = time.perf_counter()
    found = mathopt.solve(solver, mathopt.SolverType.GSCIP, params=parameters)
    seconds = time.perf_counter() - begin
    reason = found.termination.reason
    named = {
        mathopt.TerminationReason.OPTIMAL: "optimal",
        mathopt.TerminationReason.FEASIBLE: "limit",
        mathopt.TerminationReason.NO_SOLUTION_FOUND: "limit",
    }
    point = None
    if found.has_primal_feasible_solution():
        values = found.variable_values()
        point = np.array([values[v] for v in x])
    return Answer(
        named.get(reason, reason.name.lower()), point,
        found.termination.objective_bounds.dual_bound, found.solve_stats.node_count, seconds,
    )
