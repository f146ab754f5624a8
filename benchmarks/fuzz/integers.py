"""The truth of mixed-integer QPs: integers by enumeration, the rest by interior points."""

from __future__ import annotations

import numpy as np

from .judge import Truth
from .quadratic import ACCURATE, Quadratic, best_of
from .scip import scip_point

MOST_WHOLE, MOST_MIXED = 200_000, 60  # assignments looked at
NEAR = 2


def solve_truth(
    qp: Quadratic, integer: np.ndarray, near: np.ndarray, *, scip: bool = False
) -> Truth:
    """The best of all integer assignments; of those around `near` where there are too many."""
    grid, complete = assignments(qp, integer, near)
    if len(integer) == len(qp.q):
        truth = _whole(qp, integer, grid)
    else:
        truth = best_of(qp.fixed(integer, values) for values in grid)
    truth.complete &= complete
    truth.infeasible = truth.complete and truth.best == np.inf
    if scip or not truth.complete:
        point = scip_point(qp, integer)
        if point.x is not None:
            truth.offer(point.value, point.slack)
    return truth


def assignments(qp: Quadratic, integer: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, bool]:
    """Integer points within the bounds, and whether these are all."""
    low, high = np.ceil(qp.lb[integer] - 1e-9), np.floor(qp.ub[integer] + 1e-9)
    most = MOST_WHOLE if len(integer) == len(qp.q) else MOST_MIXED
    complete = True
    for width in (np.inf, NEAR, 1, 0):
        start = np.maximum(low, near[integer] - width)
        end = np.minimum(high, near[integer] + width)
        count = np.prod(np.maximum(end - start + 1, 0)) if len(integer) else 1
        if count <= most:
            break
        complete = False
    ranges = [np.arange(a, b + 1) for a, b in zip(start, end, strict=True)]
    if not ranges:
        return np.zeros((1, 0)), True
    return np.stack([g.ravel() for g in np.meshgrid(*ranges, indexing="ij")], axis=1), complete


def _whole(qp: Quadratic, integer: np.ndarray, grid: np.ndarray) -> Truth:
    """All variables are integers: look at all points at once."""
    truth = Truth(complete=True)
    x = np.empty_like(grid)
    x[:, integer] = grid
    rows = x @ qp.A.T
    room = ACCURATE * (1e-300 + np.abs(x) @ np.abs(qp.A).T)
    x = x[np.all((rows <= qp.u + room) & (rows >= qp.l - room), axis=1)]
    if len(x):
        best = x[np.argmin(0.5 * np.einsum("ij,ij->i", x @ qp.P, x) + x @ qp.q)]
        truth.offer(qp.objective(best), 1e-9 * qp.terms(best))
    return truth
