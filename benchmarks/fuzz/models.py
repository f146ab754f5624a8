"""Random cvxpy models with norms and integers, next to the same model written as a QP by hand."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import bnb
from bnb import Status

from .engine import Kind, draw_options
from .integers import solve_truth
from .judge import Claim, Verdict, judge
from .quadratic import Quadratic
from .watch import watched

TERMS = ("norm1", "norm_inf", "max", "abs")


class Norms(Kind):
    """Squares and one piecewise linear term, which may stand in the objective or in a row."""

    def make(self, rng: np.random.Generator) -> dict:
        n, m, p = int(rng.integers(1, 5)), int(rng.integers(0, 4)), int(rng.integers(1, 4))
        reach = int(rng.integers(1, 3))
        integer = rng.random(n) < 0.7
        return {
            "F": rng.normal(size=(m, n)) * rng.choice([1.0, 1.0, 1e-2, 1e2]),
            "g": rng.normal(size=m) * 2, "q": rng.normal(size=n) * rng.choice([0.0, 1.0]),
            "G": rng.integers(-2, 3, (p, n)), "h": np.round(rng.normal(size=p), 2),
            "term": str(rng.choice(TERMS)), "weight": float(rng.choice([0.0, 0.3, 1.0, 5.0])),
            "most": float(np.round(rng.uniform(-0.5, 6.0), 2)) if rng.random() < 0.5 else None,
            "lb": -reach, "ub": int(rng.integers(0, reach + 1)), "integer": np.flatnonzero(integer),
            "sum": int(rng.integers(-2, 3)) if rng.random() < 0.3 else None,
            "maximise": bool(rng.random() < 0.3), "attributes": bool(rng.random() < 0.5),
            "options": draw_options(rng),
        }

    def run(self, data: dict) -> Verdict:
        x, problem = self.model(data)
        faults: list[str] = []
        with watched(faults):
            problem.solve(solver=bnb.CvxpySolver(), **data["options"])
        sign = -1.0 if data["maximise"] else 1.0
        result = problem.solver_stats.extra_stats
        claim = Claim(result.status, result.reason, result.objective, result.bound, None, x.shape,
                      result.seconds)
        if problem.status in (cp.OPTIMAL, cp.USER_LIMIT):
            claim.x = x.value
            claim.recomputed, claim.terms, claim.violation = self.audit(data, x.value)
            if not abs(sign * problem.value - claim.recomputed) <= 1e-7 * claim.terms:
                faults.append(f"value {problem.value!r}, but x has {sign * claim.recomputed!r}")
            # The engine's own point may have the sum of a norm a little too high: compare values.
            claim.objective = claim.recomputed
        expected = {Status.OPTIMAL: cp.OPTIMAL, Status.INFEASIBLE: cp.INFEASIBLE,
                    Status.UNBOUNDED: cp.UNBOUNDED}.get(result.status, problem.status)
        if problem.status != expected:
            faults.append(f"cvxpy says {problem.status}, the engine {result.status.value}")
        qp, integer = self.by_hand(data)
        truth = solve_truth(qp, integer, np.zeros(len(qp.q)))
        truth.bounded = True
        verdict = judge(claim, truth, data["options"])
        return Verdict(verdict.outcome, faults + verdict.faults)

    def model(self, data: dict) -> tuple[cp.Variable, cp.Problem]:
        """As a user would write it, the integers apart from the others."""
        n, integer = len(data["q"]), data["integer"]
        others = np.setdiff1d(np.arange(n), integer)
        if len(integer) in (0, n):
            bounds = {"bounds": [data["lb"], data["ub"]]} if data["attributes"] else {}
            x = cp.Variable(n, integer=len(integer) == n, **bounds)
            rows = [] if bounds else [x >= data["lb"], x <= data["ub"]]
        else:
            x = cp.Variable(n)
            whole = cp.Variable(len(integer), integer=True)
            rows = [x[integer] == whole, x >= data["lb"], x <= data["ub"]]
            if data["attributes"] and len(others):
                rows.append(x[others] <= data["ub"])
        F, g, q, G, h = _arrays(data)
        inner = G @ x - h
        term = {
            "norm1": lambda: cp.norm1(inner), "norm_inf": lambda: cp.norm_inf(inner),
            "max": lambda: cp.max(inner), "abs": lambda: cp.sum(cp.abs(inner)),
        }[data["term"]]()
        objective = q @ x + data["weight"] * term + 1.0
        if len(F):
            objective = objective + cp.sum_squares(F @ x - g)
        if data["most"] is not None:
            rows.append(term <= data["most"])
        if data["sum"] is not None:
            rows.append(cp.sum(x) == data["sum"])
        goal = cp.Maximize(-objective) if data["maximise"] else cp.Minimize(objective)
        return x, cp.Problem(goal, rows)

    def audit(self, data: dict, x: np.ndarray) -> tuple[float, float, float]:
        F, g, q, G, h = _arrays(data)
        inner = G @ x - h
        term = {
            "norm1": np.abs(inner).sum(), "abs": np.abs(inner).sum(),
            "norm_inf": np.abs(inner).max(), "max": inner.max(),
        }[data["term"]]
        square = float(np.sum((F @ x - g) ** 2))
        whole = x[data["integer"]]
        missed = [
            float((x - data["ub"]).max()), float((data["lb"] - x).max()),
            float(np.abs(whole - np.round(whole)).max(initial=0.0)),
        ]
        if data["most"] is not None:
            missed.append((float(term) - data["most"]) / max(1.0, abs(data["most"])) / len(h))
        if data["sum"] is not None:
            missed.append(abs(float(x.sum()) - data["sum"]) / max(1.0, abs(data["sum"])))
        terms = 1.0 + square + np.abs(q) @ np.abs(x) + float((np.abs(F) @ np.abs(x)) @ np.abs(g))
        terms += data["weight"] * float(np.abs(G) @ np.abs(x) @ np.ones(len(h)) + np.abs(h).sum())
        return square + q @ x + data["weight"] * term + 1.0, terms, max(missed)

    def by_hand(self, data: dict) -> tuple[Quadratic, np.ndarray]:
        """The same with a variable above every piece: x, then the pieces' tops."""
        F, g, q, G, h = _arrays(data)
        n, p = len(q), len(h)
        single = data["term"] in ("norm_inf", "max")
        tops = 1 if single else p
        above = np.ones((p, 1)) if single else np.eye(p)
        rows, low = [np.hstack([-G, above])], [-h]
        if data["term"] != "max":
            rows.append(np.hstack([G, above]))
            low.append(h)
        high = [np.full(len(part), np.inf) for part in low]
        if data["most"] is not None:
            rows.append(np.concatenate([np.zeros(n), np.ones(tops)])[None, :])
            low.append(np.array([-np.inf]))
            high.append(np.array([data["most"]]))
        if data["sum"] is not None:
            rows.append(np.concatenate([np.ones(n), np.zeros(tops)])[None, :])
            low.append(np.array([data["sum"]]))
            high.append(np.array([data["sum"]]))
        P = np.zeros((n + tops, n + tops))
        P[:n, :n] = 2.0 * F.T @ F
        linear = np.concatenate([q - 2.0 * F.T @ g, np.full(tops, data["weight"])])
        side = np.full(tops, np.inf)
        qp = Quadratic(
            P, linear, np.vstack(rows), np.concatenate(low), np.concatenate(high),
            np.concatenate([np.full(n, float(data["lb"])), -side]),
            np.concatenate([np.full(n, float(data["ub"])), side]), float(g @ g) + 1.0,
        )
        return qp, np.asarray(data["integer"], int)


def _arrays(data: dict) -> list[np.ndarray]:
    n = len(data["q"])
    F = np.asarray(data["F"], float).reshape(-1, n)
    return [F, *(np.asarray(data[name], float) for name in ("g", "q", "G", "h"))]
