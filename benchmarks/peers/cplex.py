"""CPLEX: 1000 variables and 1000 rows in the community edition."""

from __future__ import annotations

from itertools import pairwise

import cplex
import numpy as np
import scipy.sparse as sp
from cplex.callbacks import MIPInfoCallback
from cplex.exceptions import CplexSolverError

from ..model import PeerModel
from .answer import INTEGRALITY, Answer, Recorder, TooLargeError

_TOO_LARGE = 1016
_OPTIMAL, _TIME = (101, 102), (107, 108)


class _Watch(MIPInfoCallback):
    record: Recorder

    def __call__(self) -> None:
        self.record(self.get_incumbent_objective_value(), self.get_best_objective_value())


def solve(model: PeerModel, limit: float, gap: float) -> Answer:
    with cplex.Cplex() as solver:
        for stream in ("log", "results", "warning", "error"):
            getattr(solver, f"set_{stream}_stream")(None)
        _build(solver, model)
        solver.parameters.threads.set(1)
        solver.parameters.timelimit.set(limit)
        solver.parameters.mip.tolerances.mipgap.set(gap)
        solver.parameters.mip.tolerances.absmipgap.set(0.0)
        solver.parameters.mip.tolerances.integrality.set(INTEGRALITY)
        watch = solver.register_callback(_Watch)
        watch.record = Recorder(1e70)
        watch.record.start()
        try:
            solver.solve()
        except CplexSolverError as error:
            if error.args[2] == _TOO_LARGE:
                raise TooLargeError(error.args[0]) from None
            raise
        seconds = watch.record.seconds
        code, found = solver.solution.get_status(), solver.solution.is_primal_feasible()
        return Answer(
            "optimal" if code in _OPTIMAL else "limit" if code in _TIME
            else solver.solution.get_status_string(),
            np.array(solver.solution.get_values()) if found else None,
            solver.solution.MIP.get_best_objective(),
            solver.solution.progress.get_num_nodes_processed(), seconds, watch.record.trace,
        )


def _build(solver: cplex.Cplex, model: PeerModel) -> None:
    infinity = cplex.infinity
    solver.variables.add(
        obj=model.q.tolist(), lb=np.maximum(model.lb, -infinity).tolist(),
        ub=np.minimum(model.ub, infinity).tolist(), types="".join(model.kinds),
    )
    A, rhs, senses = model.one_sided()
    solver.linear_constraints.add(lin_expr=_pairs(A), senses=senses, rhs=rhs.tolist())
    solver.objective.set_quadratic(_pairs(model.P))
    solver.objective.set_offset(model.constant)
    if model.indicators is not None:
        rows = _pairs(model.indicators.G)
        for switch, row, h in zip(model.indicators.switch, rows, model.indicators.h, strict=True):
            solver.indicator_constraints.add(
                indvar=int(switch), lin_expr=row, sense="G", rhs=float(h)
            )


def _pairs(matrix: sp.csr_matrix) -> list[cplex.SparsePair]:
    ends = matrix.indptr
    return [
        cplex.SparsePair(matrix.indices[a:b].tolist(), matrix.data[a:b].tolist())
        for a, b in pairwise(ends)
    ]
