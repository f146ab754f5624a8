"""CSVM instances: the paper's data sets, first training fold, at the targets of its table 3."""

from __future__ import annotations

import functools

import numpy as np

import csvm
from csvm.search import CSVMProblem, Instance, Settings, slack_costs
from csvm.thresholds import threshold_count

from .paper.printed import TARGETS
from .paper.protocol import compress, cut, load

BASE = Settings(chances=(), probes=0)  # the plain convex bound, most violated anchor first
COMPRESSED = 0.2  # share of pageBlocks that k-means keeps, per class


def first_fold(name: str) -> tuple[np.ndarray, np.ndarray]:
    """X, y of the first training fold, standardised; I is the first half, J the second."""
    data = load(name)
    n = len(data.y)
    end = n - n // data.folds
    part = cut(data, np.arange(end), np.arange(end, n), clusters=n)
    return part.X, part.y


class Instances:
    """All problems of one data set; the kernel matrix is kept between equal γ."""

    def __init__(self, name: str, *, full: bool = False) -> None:
        self.name = name
        X, y = first_fold(name)
        half = len(y) // 2
        # Only positive anchors count for the true positive rate: the others bind nothing.
        positive = np.flatnonzero(y[half:] > 0) + half
        XI, yI, wI = X[:half], y[:half], np.ones(half)
        if name == "pageBlocks" and not full:
            XI, yI, wI = compress(XI, yI, COMPRESSED)
            order = np.argsort(-yI, kind="stable")  # positives first, as in all figures so far
            XI, yI, wI = XI[order], yI[order], wI[order]
        self.X = np.vstack([XI, X[positive]])
        self.y = np.concatenate([yI, y[positive]])
        self._weights = wI
        self.m = len(positive)
        self.required = threshold_count(TARGETS[name], self.m, "hoeffding", 0.05)
        self._gamma = np.nan
        self._K = np.zeros((0, 0))

    def problem(
        self, C: float, gamma: float, *, budget: int | None = None, node_solver: str = "auto",
        per_class: bool = True, settings: Settings | None = None,
    ) -> CSVMProblem:
        """The problem at (C, γ); `budget` replaces the one that the target leaves."""
        if gamma != self._gamma:
            self._gamma, self._K = gamma, csvm.kernels.rbf(self.X, gamma=gamma)
        y, w = self.y[: len(self._weights)], self._weights
        required = self.required if budget is None else self.m - budget
        instance = Instance(
            self._K, self.y, slack_costs(y, C, w, per_class=per_class), np.ones((1, self.m)),
            np.array([float(required)]),
        )
        return CSVMProblem(instance, node_solver, settings)


@functools.lru_cache(maxsize=1)
def instances(name: str, *, full: bool = False) -> Instances:
    """The same ones for problems that come one after the other."""
    return Instances(name, full=full)
