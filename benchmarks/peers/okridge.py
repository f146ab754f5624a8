"""OKRidge: k-sparse ridge regression; its ridge is set to almost nothing."""

from __future__ import annotations

import time

import numpy as np
from okridge.tree import BNBTree

from ..model import PeerModel
from .answer import Answer
from .regression import regression

_RIDGE = 1e-8  # it wants one


def solve(model: PeerModel, limit: float, gap: float) -> Answer:
    data = regression(model)
    begin = time.perf_counter()
    tree = BNBTree(data.X, data.y, lambda2=_RIDGE, gap_tol=gap, max_memory_GB=8)
    _, beta, reached, bound, _ = tree.solve(data.k, gap_tol=gap, time_limit=limit)
    seconds = time.perf_counter() - begin
    return Answer(
        "optimal" if reached <= gap else "limit", data.point(np.asarray(beta, float)),
        # Its objective has no constant.
        float(bound) + float(data.y @ data.y) + data.rest, float(tree.number_of_nodes), seconds,
    )
