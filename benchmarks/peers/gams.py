"""Gurobi as GAMS ships it: 999 variables and rows without a licence.

    pip install gamspy && gamspy install solver gurobi

GAMS adds a variable and a row for the objective. The time is the solver's own, without GAMS'.
"""

from __future__ import annotations

import gamspy as gp
import numpy as np
import pandas as pd
import scipy.sparse as sp
from gamspy.exceptions import GamspyException

from ..model import PeerModel
from .answer import INTEGRALITY, Answer, TooLargeError


def solve(model: PeerModel, limit: float, gap: float) -> Answer:
    container = gp.Container()
    problem, parts = _build(container, model)
    options = gp.Options(
        time_limit=limit, relative_optimality_gap=gap, absolute_optimality_gap=0.0, threads=1
    )
    try:
        problem.solve(
            solver="gurobi", options=options, solver_options={"intfeastol": INTEGRALITY}
        )
    except GamspyException as error:
        if "licensing error" in str(error):
            raise TooLargeError("GAMS: licensing error") from None
        raise
    named = {
        gp.ModelStatus.OptimalGlobal: "optimal", gp.ModelStatus.Integer: "optimal",
        gp.ModelStatus.IntegerInfeasible: "infeasible",
    }
    status = named.get(problem.status, problem.status.name)
    if problem.solve_status == gp.SolveStatus.ResourceInterrupt:
        status = "limit"
    found = problem.objective_value is not None and np.isfinite(problem.objective_value)
    return Answer(
        status, _point(len(model.q), parts) if found else None,
        problem.objective_estimation, problem.num_nodes_used, problem.total_solver_time,
    )


def _build(
    container: gp.Container, model: PeerModel
) -> tuple[gp.Model, list[tuple[np.ndarray, gp.Variable]]]:
    """The model, and for each kind of variable its positions and its symbol.

    GAMS has a symbol per kind; sums run over the non-zeros, so a symbol is asked only for its own.
    """
    n = len(model.q)
    i = gp.Set(container, "i", records=_names(n))
    j = gp.Alias(container, "j", alias_with=i)
    whole = model.kinds != "C"
    parts = []
    for name, kind, mine in (("x", "free", ~whole), ("z", "integer", whole)):
        variable = gp.Variable(container, name, kind, domain=i)
        variable.setRecords(pd.DataFrame({
            "i": np.array(_names(n))[mine], "level": 0.0, "marginal": 0.0,
            "lower": model.lb[mine], "upper": model.ub[mine], "scale": 1.0,
        }))
        parts.append((np.flatnonzero(mine), variable))
    objective = model.constant
    for first, u in parts:
        for second, v in parts:
            P = gp.Parameter(container, f"P{u.name}{v.name}", domain=[i, j],
                             records=_entries(model.P, first, second))
            square = gp.Sum(gp.Domain(i, j).where[P[i, j]], P[i, j] * u[i] * v[j])
            objective = objective + 0.5 * square
        q = gp.Parameter(container, f"q{u.name}", domain=i,
                         records=[(str(k), model.q[k]) for k in first])
        objective = objective + gp.Sum(gp.Domain(i).where[q[i]], q[i] * u[i])
    equations = _equations(container, model, i, parts)
    return gp.Model(
        container, "peer", equations=equations, problem="MIQCP", sense="min", objective=objective
    ), parts


def _equations(
    container: gp.Container, model: PeerModel, i: gp.Set,
    parts: list[tuple[np.ndarray, gp.Variable]],
) -> list[gp.Equation]:
    A, rhs, senses = model.one_sided()
    r = gp.Set(container, "r", records=_names(len(rhs)))
    b = gp.Parameter(container, "b", domain=r, records=[(str(k), v) for k, v in enumerate(rhs)])
    everything = np.arange(len(rhs))
    left = 0
    for mine, variable in parts:
        a = gp.Parameter(container, f"a{variable.name}", domain=[r, i],
                         records=_entries(A, everything, mine))
        left = left + gp.Sum(gp.Domain(i).where[a[r, i]], a[r, i] * variable[i])
    equations = []
    for sense in sorted(set(senses)):
        rows = gp.Set(container, f"rows{sense}", domain=r,
                      records=[str(k) for k, s in enumerate(senses) if s == sense])
        equation = gp.Equation(container, f"row{sense}", domain=r)
        equation[rows[r]] = (
            left == b[r] if sense == "E" else left <= b[r] if sense == "L" else left >= b[r]
        )
        equations.append(equation)
    return equations


def _names(count: int) -> list[str]:
    return [str(k) for k in range(count)]


def _entries(
    matrix: sp.csr_matrix, rows: np.ndarray, columns: np.ndarray
) -> list[tuple[str, str, float]]:
    """Non-zeros of a block."""
    M = sp.coo_matrix(matrix[rows][:, columns])
    return [
        (str(rows[r]), str(columns[c]), v) for r, c, v in zip(M.row, M.col, M.data, strict=True)
    ]


def _point(n: int, parts: list[tuple[np.ndarray, gp.Variable]]) -> np.ndarray:
    x = np.zeros(n)
    for _, variable in parts:
        x[variable.records["i"].astype(int)] = variable.records["level"]
    return x
