"""L0BnB: the penalised problem, with a λ₀ for which its solution has k non-zeros.

λ₀ lies between what the k-th and the next column of a greedy fit take off the residual, the bound
on coefficients is twice the largest of that fit, and the fit itself is its start, without which it
finds no good solution; nothing of this is part of its time. An optimal solution of the penalised
problem with k non-zeros is one of ours.
"""

from __future__ import annotations

import time

import numpy as np
from l0bnb import BNBTree

from ..model import PeerModel
from .answer import Answer
from .regression import Regression, regression


def solve(model: PeerModel, limit: float, gap: float) -> Answer:
    data = regression(model)
    penalty, start = _greedy(data)
    largest = 2.0 * float(np.abs(start).max())
    BNBTree(data.X, data.y).solve(penalty, 0.0, largest, time_limit=1.0)  # compile
    # Its loss is half of ours, and without what no column can explain.
    loss = 0.5 * float(np.sum((data.y - data.X @ start) ** 2))
    share = gap * (loss + 0.5 * data.rest) / (loss + penalty * data.k)
    begin = time.perf_counter()
    tree = BNBTree(data.X, data.y)
    found = tree.solve(
        penalty, 0.0, largest, gap_tol=share, warm_start=start, time_limit=limit
    )
    seconds = time.perf_counter() - begin
    proven = found.gap <= share
    chosen = int(np.count_nonzero(found.beta))
    status = "limit" if not proven else "optimal" if chosen == data.k else f"{chosen} non-zeros"
    bound = 2.0 * (found.cost * (1.0 - max(found.gap, 0.0)) - penalty * data.k) + data.rest
    return Answer(
        status, data.point(found.beta), bound if proven else -np.inf, float(tree.number_of_nodes),
        seconds,
    )


def _greedy(data: Regression) -> tuple[float, np.ndarray]:
    """λ₀, and the coefficients of a fit with k columns."""
    chosen: list[int] = []
    rest, start = [float(data.y @ data.y)], np.zeros(data.X.shape[1])
    for _ in range(min(data.k + 1, data.X.shape[1])):
        value, j = min((_fit(data, [*chosen, j])[0], j)
                       for j in range(data.X.shape[1]) if j not in chosen)
        chosen.append(j)
        rest.append(value)
    start[chosen[: data.k]] = _fit(data, chosen[: data.k])[1]
    drops = -np.diff(rest)
    between = float(np.sqrt(drops[data.k - 1] * max(drops[-1], 1e-12 * drops[0])))
    return 0.5 * between, start


def _fit(data: Regression, columns: list[int]) -> tuple[float, np.ndarray]:
    fit = np.linalg.lstsq(data.X[:, columns], data.y, rcond=None)[0]
    return float(np.sum((data.y - data.X[:, columns] @ fit) ** 2)), fit
