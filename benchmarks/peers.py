"""Other solvers on the same MIQP data; each is optional and its absence is only reported."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

import bnb


@dataclass
class Outcome:
    """What a solver said, with the objective recomputed from its point."""

    solver: str
    status: str
    objective: float
    bound: float
    nodes: float
    seconds: float

    @property
    def proven(self) -> bool:
        return self.status == "optimal"


def ours(result: bnb.Result) -> Outcome:
    return Outcome(
        "bnb", result.status.value, result.objective, result.bound, result.nodes, result.seconds
    )


def objective_scale(problem: bnb.MIQP) -> float:
    """Brings small objectives to a size at which a peer's absolute tolerances mean little."""
    size = max(np.abs(problem.q).max(), 0.1 * np.abs(problem.P.data).max(initial=0.0))
    return max(1.0, 1e3 / size) if size > 0.0 else 1.0


def run_scip(problem: bnb.MIQP, limit: float, gap: float = 1e-4) -> Outcome:
    from pyscipopt import Model, quicksum

    model = Model()
    model.hideOutput()
    n = len(problem.q)
    binary = set(problem.binary.tolist())
    x = [
        model.addVar(
            lb=None if np.isneginf(problem.lb[j]) else problem.lb[j],
            ub=None if np.isposinf(problem.ub[j]) else problem.ub[j],
            vtype="B" if j in binary else "I" if problem.is_integer[j] else "C",
        )
        for j in range(n)
    ]
    t = model.addVar(lb=None)
    P = sp.coo_matrix(sp.triu(problem.P))
    square = quicksum(
        (0.5 if i == j else 1.0) * v * x[i] * x[j]
        for i, j, v in zip(P.row, P.col, P.data, strict=True)
    )
    linear = quicksum(problem.q[j] * x[j] for j in np.flatnonzero(problem.q))
    scale = objective_scale(problem)
    model.addCons(scale * (square + linear + problem.constant) <= t)
    A = problem.A
    for i in range(A.shape[0]):
        row = quicksum(
            A.data[k] * x[A.indices[k]] for k in range(A.indptr[i], A.indptr[i + 1])
        )
        if problem.l[i] == problem.u[i]:
            model.addCons(row == problem.u[i])
            continue
        if np.isfinite(problem.u[i]):
            model.addCons(row <= problem.u[i])
        if np.isfinite(problem.l[i]):
            model.addCons(row >= problem.l[i])
    model.setObjective(t)
    for name, value in (("limits/time", limit), ("limits/gap", gap),
                        ("parallel/maxnthreads", 1), ("lp/threads", 1)):
        model.setParam(name, value)
    begin = time.perf_counter()
    model.optimize()
    seconds = time.perf_counter() - begin
    objective = np.inf
    if model.getNSols():
        point = np.array([model.getVal(v) for v in x])
        objective = problem.check(point)[0]
    proven = model.getStatus() in ("optimal", "gaplimit")
    return Outcome(
        "SCIP", "optimal" if proven else model.getStatus(), objective,
        model.getDualbound() / scale, model.getNTotalNodes(), seconds,
    )


def run_gurobi(problem: bnb.MIQP, limit: float, gap: float = 1e-4) -> Outcome:
    import gurobipy as gp

    with gp.Env(params={"OutputFlag": 0}) as env, gp.Model(env=env) as model:
        n = len(problem.q)
        kinds = np.where(problem.is_integer, "I", "C")
        kinds[problem.binary] = "B"
        x = model.addMVar(n, lb=problem.lb, ub=problem.ub, vtype=kinds)
        scale = objective_scale(problem)
        model.setObjective(
            0.5 * (x @ sp.csr_matrix(scale * problem.P) @ x) + (scale * problem.q) @ x
            + scale * problem.constant
        )
        upper, lower = np.isfinite(problem.u), np.isfinite(problem.l)
        equal = problem.l == problem.u
        model.addConstr(problem.A[equal] @ x == problem.u[equal])
        model.addConstr(problem.A[upper & ~equal] @ x <= problem.u[upper & ~equal])
        model.addConstr(problem.A[lower & ~equal] @ x >= problem.l[lower & ~equal])
        model.Params.Threads, model.Params.TimeLimit, model.Params.MIPGap = 1, limit, gap
        model.Params.MIPGapAbs = 0.0
        begin = time.perf_counter()
        model.optimize()
        seconds = time.perf_counter() - begin
        objective = problem.check(x.X)[0] if model.SolCount else np.inf
        status = "optimal" if model.Status == gp.GRB.OPTIMAL else f"status {model.Status}"
        return Outcome(
            "Gurobi", status, objective, model.ObjBound / scale, model.NodeCount, seconds
        )


PEERS: dict[str, Callable[[bnb.MIQP, float, float], Outcome]] = {
    "SCIP": run_scip, "Gurobi": run_gurobi,
}


def try_peer(name: str, problem: bnb.MIQP, limit: float, gap: float = 1e-4) -> Outcome | str:
    """The peer's outcome, or why there is none."""
    try:
        return PEERS[name](problem, limit, gap)
    except ImportError:
        return f"{name} is not installed"
    except Exception as error:  # licences and size limits surface as solver-specific errors
        return f"{name} could not take it: {error}"


def compare(a: Outcome, b: Outcome, gap: float = 1e-4) -> None:
    """Two solvers that both claim optimality must agree: anything else fails the run."""
    if a.proven and b.proven:
        scale = max(abs(a.objective), abs(b.objective))
        if abs(a.objective - b.objective) > 3 * gap * scale + 1e-9:
            raise SystemExit(
                f"{a.solver} and {b.solver} both claim optimality and differ: "
                f"{a.objective!r} and {b.objective!r}"
            )


def geometric_mean(ratios: list[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")
