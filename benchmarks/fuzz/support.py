"""Random QPs with few non-zeros."""

from __future__ import annotations

from itertools import combinations

import numpy as np

import bnb

from .engine import EngineKind, draw_options
from .judge import Truth
from .quadratic import Quadratic, best_of

UNITS = [1.0, 1.0, 1.0, 1e-4, 1e-2, 1e2, 1e4]


class Support(EngineKind):
    """`bnb.SupportQP`, with and without bounds, rows, `support=` and `exactly`."""

    def make(self, rng: np.random.Generator) -> dict:
        n = int(rng.integers(1, 7))
        counted = np.arange(n)
        if rng.random() < 0.4:
            counted = np.sort(rng.permutation(n)[: rng.integers(1, n + 1)])
        k = int(rng.integers(0, len(counted) + 1))
        lb, ub, free = self._bounds(rng, n)
        rank = n if free else int(rng.integers(1, n + 1))
        F = rng.normal(size=(rank, n)) * rng.choice([0.3, 1.0, 3.0])
        P = F.T @ F + (rng.choice([0.05, 1.0]) * np.eye(n) if free else 0.0)
        m = int(rng.integers(0, 3))
        A = np.ones((m, n)) if rng.random() < 0.5 else rng.integers(-2, 3, (m, n)).astype(float)
        u = rng.integers(-1, 3, m).astype(float)
        slack = np.where(rng.random(m) < 0.5, 0.0, rng.choice([1.0, np.inf]))
        unit, scale = rng.choice(UNITS), rng.choice(UNITS)
        return {
            "P": scale * P / unit**2, "q": scale * rng.normal(size=n) * 2 / unit, "k": k,
            "A": A / unit, "l": u - slack, "u": u, "lb": lb * unit, "ub": ub * unit,
            "support": None if len(counted) == n and rng.random() < 0.7 else counted,
            "exactly": bool(rng.random() < 0.3), "constant": float(rng.choice([0.0, 2.5])),
            "options": draw_options(rng),
        }

    def _bounds(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, bool]:
        way = rng.integers(5)
        if way == 0:
            return np.full(n, -np.inf), np.full(n, np.inf), True
        low = np.array([0.1, -1.0, 0.0, -2.0])[rng.integers(4, size=n)]
        if way == 1:
            low = np.full(n, low[0])
        high = low + np.array([0.5, 1.0, 3.0])[rng.integers(3, size=n)]
        if way == 2:  # some ends are open
            low[rng.random(n) < 0.3], high[rng.random(n) < 0.3] = -np.inf, np.inf
        return low, high, bool(np.isinf([low, high]).any())

    def build(self, data: dict) -> bnb.Problem:
        names = ("A", "l", "u", "lb", "ub")
        P, q, A, low, high, lb, ub = (
            np.asarray(data[name], float) for name in ("P", "q", *names)
        )
        return bnb.SupportQP(
            P, q, data["k"], A.reshape(-1, len(q)), low, high, lb=lb, ub=ub,
            support=data["support"], exactly=data["exactly"], constant=data["constant"],
        )

    def audit(self, data: dict, x: np.ndarray) -> tuple[float, float, float]:
        qp = Quadratic.of(data)
        chosen, zero = _counted(data), x == 0.0
        low, high = qp.lb.copy(), qp.ub.copy()
        off = chosen[zero[chosen]]
        allows = (low[off] <= 0.0) & (high[off] >= 0.0)
        low[off], high[off] = 0.0, 0.0
        inside = Quadratic(qp.P, qp.q, qp.A, qp.l, qp.u, low, high, qp.constant)
        many = len(chosen) - len(off)
        missing = max(0, data["k"] - many - int(allows.sum())) if data["exactly"] else 0
        violation = max(inside.violation(x), float(max(0, many - data["k"])), float(missing))
        return qp.objective(x), qp.terms(x), violation

    def truth(self, data: dict) -> Truth:
        qp, counted = Quadratic.of(data), _counted(data)
        zero_allowed = np.all((qp.lb[counted] <= 0) & (qp.ub[counted] >= 0))
        sizes = [data["k"]] if data["exactly"] or zero_allowed else range(data["k"] + 1)
        truth = best_of(
            qp.fixed(np.setdiff1d(counted, chosen), 0.0)
            for size in sizes for chosen in combinations(counted, size)
        )
        truth.bounded = True  # by its bounds, or P is positive definite
        return truth


def _counted(data: dict) -> np.ndarray:
    support = data["support"]
    return np.arange(len(data["q"])) if support is None else np.asarray(support, int)
