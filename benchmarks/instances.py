"""Instances for the benchmarks, from a directory named by the environment variable CSVM_INSTANCES.

OR-Library portfolios port1.txt … port5.txt and QPLIB files; nothing of it is shipped.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import bnb


def instance_file(name: str) -> Path | None:
    """The file of that name, or None when it is not there."""
    folder = os.environ.get("CSVM_INSTANCES")
    path = Path(folder) / name if folder else None
    return path if path is not None and path.exists() else None


def load_portfolio(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Mean returns μ and covariance Σ of an OR-Library portfolio file."""
    numbers = np.array(path.read_text().split(), dtype=float)
    n = int(numbers[0])
    mean, deviation = numbers[1 : 2 * n + 1 : 2], numbers[2 : 2 * n + 2 : 2]
    rows = numbers[2 * n + 1 :].reshape(-1, 3)
    i, j = rows[:, 0].astype(int) - 1, rows[:, 1].astype(int) - 1
    correlation = np.zeros((n, n))
    correlation[i, j] = correlation[j, i] = rows[:, 2]
    return mean, correlation * np.outer(deviation, deviation)


def random_portfolio(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A factor-model market, for when the OR-Library files are not at hand."""
    rng = np.random.default_rng(seed)
    loadings = 0.02 * rng.normal(size=(n, 4)) + np.array([0.03, 0, 0, 0])
    covariance = loadings @ loadings.T + np.diag((0.01 + 0.03 * rng.random(n)) ** 2)
    return 0.004 + 0.003 * rng.normal(size=n), covariance


def portfolio_problem(
    mean: np.ndarray, covariance: np.ndarray, weight: float, k: int = 10
) -> bnb.SupportQP:
    """min λ xᵀΣx − (1−λ) μᵀx, Σx = 1, at most k held, 0.01 ≤ x ≤ 1 when held."""
    n = len(mean)
    return bnb.SupportQP(
        2.0 * weight * covariance, -(1.0 - weight) * mean, k, np.ones((1, n)), [1.0], [1.0],
        lb=0.01, ub=1.0,
    )
