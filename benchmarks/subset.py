"""Best-subset regression on scikit-learn's diabetes data, k = 1 … 10, against enumeration.

    python -m benchmarks.subset
"""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
from sklearn.datasets import load_diabetes

import bnb


def enumerate_best(P: np.ndarray, q: np.ndarray, k: int) -> float:
    """Smallest ½βᵀPβ + qᵀβ over all supports of size k (fewer are never better)."""
    best = np.inf
    for chosen in combinations(range(len(q)), k):
        rows = list(chosen)
        beta = np.linalg.solve(P[np.ix_(rows, rows)], -q[rows])
        best = min(best, 0.5 * q[rows] @ beta)
    return best


def main() -> int:
    X, y = load_diabetes(return_X_y=True)
    y = y - y.mean()
    P, q = 2.0 * X.T @ X, -2.0 * X.T @ y
    failed = 0
    for k in range(1, 11):
        result = bnb.solve(bnb.SupportQP(P, q, k, constant=float(y @ y)))
        truth = enumerate_best(P, q, k) + float(y @ y)
        same = result.optimal and abs(result.objective - truth) <= 1e-4 * abs(truth)
        failed += not same
        print(f"k = {k:2d}: {result.objective:.6f}, enumeration {truth:.6f}, "
              f"{result.nodes} nodes, {result.seconds:.2f} s, {'equal' if same else 'DIFFERENT'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
