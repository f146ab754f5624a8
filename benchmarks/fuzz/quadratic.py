"""Convex QPs for the truth: checks written anew and points whose feasibility is verified."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import clarabel
import numpy as np
import scipy.sparse as sp

from .judge import Truth

ACCURATE = 1e-9  # violation, relative to the terms of a row, of a point that counts as feasible


@dataclass(frozen=True)
class Quadratic:
    """min ½ xᵀPx + qᵀx + constant  s.t.  l ≤ Ax ≤ u,  lb ≤ x ≤ ub; dense."""

    P: np.ndarray
    q: np.ndarray
    A: np.ndarray
    l: np.ndarray  # noqa: E741 - the usual name
    u: np.ndarray
    lb: np.ndarray
    ub: np.ndarray
    constant: float = 0.0

    @classmethod
    def of(cls, data: dict) -> Quadratic:
        """From JSON data; what is missing is none."""
        q = np.asarray(data["q"], float)
        n = len(q)
        A = np.asarray(data.get("A") or np.zeros((0, n)), float).reshape(-1, n)
        m = len(A)

        def vector(name: str, default: float, size: int) -> np.ndarray:
            value = data.get(name)
            return np.full(size, default) if value is None else np.asarray(value, float)

        P = data.get("P")
        return cls(
            np.zeros((n, n)) if P is None else np.asarray(P, float), q, A,
            vector("l", -np.inf, m), vector("u", np.inf, m),
            vector("lb", -np.inf, n), vector("ub", np.inf, n), float(data.get("constant", 0.0)),
        )

    def objective(self, x: np.ndarray) -> float:
        return float(0.5 * x @ self.P @ x + self.q @ x + self.constant)

    def terms(self, x: np.ndarray) -> float:
        """Sum of the absolute terms of the objective."""
        size = np.abs(x)
        return float(
            0.5 * size @ np.abs(self.P) @ size + np.abs(self.q) @ size + abs(self.constant)
        )

    def violation(self, x: np.ndarray) -> float:
        """Largest violation, absolute or relative to bounds above one, as documented.

        Less what another order of summation could make of it: terms of 1e10 round to 1e-6.
        """
        rounding = 2.0 * x.size * np.finfo(float).eps * (np.abs(self.A) @ np.abs(x))
        rows = np.maximum(_missed(self.A @ x, self.l, self.u) - rounding, 0.0)
        bounds = _missed(x, self.lb, self.ub)
        size = [np.maximum(1.0, _side(v, a, b)) for v, a, b in (
            (self.A @ x, self.l, self.u), (x, self.lb, self.ub))]
        return float(max((rows / size[0]).max(initial=0.0), (bounds / size[1]).max(initial=0.0)))

    def error(self, x: np.ndarray) -> float:
        """Largest violation relative to the terms of its row: rounding, or not."""
        rows = _missed(self.A @ x, self.l, self.u)
        side = _side(self.A @ x, self.l, self.u)
        terms = np.maximum(np.abs(self.A) @ np.abs(x), side)
        bounds = _missed(x, self.lb, self.ub)
        share = np.divide(rows, terms, out=np.zeros_like(rows), where=rows > 0)
        parts = np.divide(bounds, np.abs(x) + _side(x, self.lb, self.ub),
                          out=np.zeros_like(bounds), where=bounds > 0)
        return float(max(share.max(initial=0.0), parts.max(initial=0.0)))

    def fixed(self, positions: np.ndarray, values: np.ndarray) -> Quadratic:
        """With some variables fixed."""
        lb, ub = self.lb.copy(), self.ub.copy()
        lb[positions] = ub[positions] = values
        return replace(self, lb=lb, ub=ub)


@dataclass(frozen=True)
class Minimum:
    """An answer of `minimise`: a verified point, or None with the reason."""

    x: np.ndarray | None
    value: float = np.inf
    slack: float = 0.0
    infeasible: bool = False


def minimise(qp: Quadratic) -> Minimum:
    """The minimum by interior points; only a point that is verified is given."""
    free = np.flatnonzero(qp.lb < qp.ub)
    x = np.where(qp.lb == qp.ub, qp.lb, 0.0)
    if np.any(qp.lb > qp.ub):
        return Minimum(None, infeasible=True)
    if free.size == 0:
        return verified(qp, x) if qp.error(x) <= ACCURATE else Minimum(None, infeasible=True)
    shift = qp.A @ x
    A = qp.A[:, free]
    size = np.abs(A).max(axis=1, initial=0.0)
    used = size > 0
    if np.any(_missed(shift, qp.l, qp.u)[~used] > 1e-6 * (1 + np.abs(shift[~used]))):
        return Minimum(None, infeasible=True)
    rows = np.vstack([A[used] / size[used, None], np.eye(free.size)])
    low = np.concatenate([(qp.l - shift)[used] / size[used], qp.lb[free]])
    high = np.concatenate([(qp.u - shift)[used] / size[used], qp.ub[free]])
    slope = qp.P[free] @ x + qp.q[free]
    block = qp.P[np.ix_(free, free)]
    unit = max(np.abs(slope).max(), np.abs(block).max(), 1e-300)
    answer, cost = _clarabel(block / unit, slope / unit, rows, low, high)
    status = str(answer.status)
    if status.endswith("PrimalInfeasible"):
        return Minimum(None, infeasible=True)
    x[free] = np.clip(np.asarray(answer.x), qp.lb[free], qp.ub[free])
    if not np.isfinite(x).all():
        return Minimum(None)
    missed = _missed((rows @ x[free])[: used.sum()], low[: used.sum()], high[: used.sum()])
    return verified(qp, x, unit * float(cost[: used.sum()] @ missed))


def best_of(parts: Iterable[Quadratic]) -> Truth:
    """Of QPs that together are a problem: complete if each is solved or infeasible."""
    truth = Truth(complete=True)
    for point in map(minimise, parts):
        if point.x is not None:
            truth.offer(point.value, point.slack)
        truth.complete &= point.x is not None or point.infeasible
    truth.infeasible = truth.complete and truth.best == np.inf
    return truth


def verified(qp: Quadratic, x: np.ndarray, slack: float = 0.0) -> Minimum:
    """The point with its objective, if it is feasible up to rounding."""
    if not qp.error(x) <= ACCURATE:
        return Minimum(None)
    return Minimum(x, qp.objective(x), 1e-9 * qp.terms(x) + 2.0 * slack)


def _clarabel(
    P: np.ndarray, q: np.ndarray, rows: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[clarabel.DefaultSolution, np.ndarray]:
    """Raw answer, and the absolute multiplier of every row."""
    equal = np.flatnonzero(low == high)
    top = np.flatnonzero((low < high) & np.isfinite(high))
    bottom = np.flatnonzero((low < high) & np.isfinite(low))
    G = sp.csc_matrix(np.vstack([rows[equal], rows[top], -rows[bottom]]))
    h = np.concatenate([high[equal], high[top], -low[bottom]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(len(top) + len(bottom))]
    answer = clarabel.DefaultSolver(
        sp.csc_matrix(np.triu(P)), q, G, h, cones, settings
    ).solve()
    cost = np.zeros(len(rows))
    np.add.at(cost, np.concatenate([equal, top, bottom]), np.abs(np.asarray(answer.z)))
    return answer, cost


def _missed(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.maximum(np.maximum(value - high, low - value), 0.0)


def _side(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Size of the bound that is missed, zero where none is."""
    above, below = value > high, value < low
    side = np.zeros_like(value)
    side[above], side[below] = np.abs(high[above]), np.abs(low[below])
    return side
