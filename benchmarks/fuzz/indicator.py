"""Random QPs in which some rows may be given up."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

import bnb

from .engine import EngineKind, draw_options
from .judge import Truth
from .quadratic import Quadratic, best_of

UNITS = [1.0, 1.0, 1.0, 1e-3, 1e3]


class Indicator(EngineKind):
    """`bnb.IndicatorQP` with weights and groups that overlap."""

    def make(self, rng: np.random.Generator) -> dict:
        n, m = int(rng.integers(1, 4)), int(rng.integers(1, 7))
        rank = int(rng.integers(1, n + 1))
        F = rng.normal(size=(rank, n))
        P = F.T @ F
        low, high = -np.inf, np.inf
        q = P @ rng.normal(size=n)  # falls nowhere for ever
        if rng.random() < 0.4:
            low, high, q = -3.0, 3.0, rng.normal(size=n)
        G, b = rng.normal(size=(m, n)), rng.normal(size=m)
        if rng.random() < 0.3:
            G, b = rng.integers(-2, 3, (m, n)).astype(float), rng.integers(-2, 4, m).astype(float)
        if m > 1 and rng.random() < 0.2:
            G[0], b[0] = G[1] * rng.choice([1.0, -1.0]), b[1]
        weights = rng.choice([1.0, 2.0, 3.0, 0.5, 0.0], m) if rng.random() < 0.5 else np.ones(m)
        groups = []
        for _ in range(int(rng.integers(1, 4))):
            members = np.sort(rng.permutation(m)[: rng.integers(1, m + 1)])
            most = weights[members].sum()
            groups.append([members, float(min(most, 0.5 * rng.integers(0, 2 * most + 1)))])
        rows = int(rng.integers(0, 2))
        A = rng.integers(-1, 2, (rows, n)).astype(float)
        unit, scale = rng.choice(UNITS), rng.choice(UNITS)
        return {
            "P": P * scale / unit**2, "q": q * scale / unit, "A": A / unit,
            "l": np.full(rows, -1.0), "u": np.full(rows, rng.choice([-1.0, 2.0])),
            "lb": np.full(n, low * unit), "ub": np.full(n, high * unit), "G": G / unit, "b": b,
            "weights": weights, "groups": groups, "constant": float(rng.choice([0.0, 7.0])),
            "options": draw_options(rng),
        }

    def build(self, data: dict) -> bnb.Problem:
        n = len(data["q"])
        arrays = {name: np.asarray(data[name], float) for name in (
            "G", "b", "l", "u", "lb", "ub", "weights")}
        return bnb.IndicatorQP(
            np.asarray(data["P"], float), np.asarray(data["q"], float),
            A=np.asarray(data["A"], float).reshape(-1, n), groups=data["groups"],
            constant=data["constant"], **arrays,
        )

    def audit(self, data: dict, x: np.ndarray) -> tuple[float, float, float]:
        qp = Quadratic.of(data)
        G, b, weights = (np.asarray(data[name], float) for name in ("G", "b", "weights"))
        short = np.maximum(b - G @ x, 0.0) / np.maximum(1.0, np.abs(b))
        violation = qp.violation(x)
        for members, k in data["groups"]:
            levels = [v for v in [0.0, *short] if _weight(short <= v, weights, members) >= k - 1e-9]
            violation = max(violation, min(levels))
        return qp.objective(x), qp.terms(x), violation

    def truth(self, data: dict) -> Truth:
        qp = Quadratic.of(data)
        G, b, weights = (np.asarray(data[name], float) for name in ("G", "b", "weights"))
        enough = smallest_sets(lambda z: all(
            _weight(z, weights, members) >= k - 1e-9 for members, k in data["groups"]
        ), len(b))
        truth = best_of(
            replace(
                qp, A=np.vstack([qp.A, G[z]]), l=np.concatenate([qp.l, b[z]]),
                u=np.concatenate([qp.u, np.full(z.sum(), np.inf)]),
            )
            for z in enough
        )
        truth.bounded = True
        return truth


def smallest_sets(enough, m: int) -> list[np.ndarray]:
    """Masks that are enough, none of which contains another."""
    found: list[np.ndarray] = []
    for z in sorted(product([False, True], repeat=m), key=sum):
        mask = np.array(z, bool)
        if enough(mask) and not any(np.all(mask[other]) for other in found):
            found.append(mask)
    return found


def _weight(z: np.ndarray, weights: np.ndarray, members: list[int]) -> float:
    return float((weights * z)[np.asarray(members, int)].sum())
