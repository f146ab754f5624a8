"""CSVM instances: the paper's data sets, first training fold, at the targets of its table 3."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans

import csvm
from csvm.problem import CSVMProblem
from csvm.rates import threshold_count

TARGETS = {
    "australian": 0.855, "votes": 0.988, "wisconsin": 0.973, "german": 0.65,
    "pageBlocks": 0.832, "biodeg": 0.808,
}
GRID = [2.0**k for k in range(-5, 6)]
COMPRESSED = 0.2  # share of pageBlocks that k-means keeps, per class


def first_fold(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y, weights of the first training fold, standardised; I is the first half, J the second."""
    data = csvm.datasets.load(name)
    X, y = data.X, data.y
    n = len(y)
    order = np.random.default_rng(0).permutation(n)
    training = order[: n - n // (5 if n > 1000 else 10)]
    X, y = X[training], y[training].astype(float)
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    return X, y, np.ones(len(y))


def compress(X: np.ndarray, y: np.ndarray, share: float) -> tuple[np.ndarray, ...]:
    """k-means centres per class with counts as weights (section 3.4 of the paper)."""
    points, labels, weights = [], [], []
    for label in (1.0, -1.0):
        members = X[y == label]
        model = KMeans(max(1, round(share * len(members))), n_init=1, random_state=0).fit(members)
        points.append(model.cluster_centers_)
        labels.append(np.full(len(model.cluster_centers_), label))
        weights.append(np.bincount(model.labels_).astype(float))
    return np.vstack(points), np.concatenate(labels), np.concatenate(weights)


class Instances:
    """All problems of one data set; the kernel matrix is kept between equal γ."""

    def __init__(self, name: str, *, full: bool = False) -> None:
        self.name = name
        X, y, weights = first_fold(name)
        half = len(y) // 2
        train, anchor = slice(0, half), slice(half, len(y))
        # Only positive anchors count for the true positive rate: the others bind nothing.
        positive = np.flatnonzero(y[anchor] > 0) + half
        XI, yI, wI = X[train], y[train], weights[train]
        if name == "pageBlocks" and not full:
            XI, yI, wI = compress(XI, yI, COMPRESSED)
        self.X = np.vstack([XI, X[positive]])
        self.y = np.concatenate([yI, y[positive]])
        self._weights = wI
        self.m = len(positive)
        self.required = threshold_count(TARGETS[name], self.m, "hoeffding", 0.05)
        self._gamma = np.nan
        self._K = np.zeros((0, 0))

    def problem(
        self, C: float, gamma: float, *, budget: int | None = None, node_solver: str = "auto",
        kind: type[CSVMProblem] = CSVMProblem,
    ) -> CSVMProblem:
        """The problem at (C, γ); `budget` replaces the one that the target leaves."""
        if gamma != self._gamma:
            self._gamma, self._K = gamma, csvm.kernels.rbf(self.X, gamma=gamma)
        y, w = self.y[: len(self._weights)], self._weights
        cost = np.empty(len(w))
        for label in (1.0, -1.0):
            cost[y == label] = C * w[y == label] / w[y == label].sum()
        required = self.required if budget is None else self.m - budget
        return kind(
            self._K, self.y, cost, np.ones((1, self.m)), np.array([float(required)]), node_solver
        )
