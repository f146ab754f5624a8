"""Two threads against one, where node solves dominate: same optimum, less time.

    python -m benchmarks.threads
"""

from __future__ import annotations

import sys

import numpy as np

import bnb


def problem(n: int, seed: int) -> bnb.MIQP:
    """Dense integer least squares: every node is an OSQP solve of some milliseconds."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, n))
    return bnb.MIQP(F @ F.T, 5.0 * rng.normal(size=n), integer=range(n), lb=-5, ub=5)


def main() -> int:
    bnb.solve_miqp([[1.0]], [0.0], binary=[0])
    for seed in range(3):
        one = bnb.solve(problem(36, seed), time_limit=120, branching="fractional")
        two = bnb.solve(problem(36, seed), time_limit=120, branching="fractional", threads=2)
        print(f"seed {seed}: {one.nodes} nodes {one.seconds:.1f} s with one thread, {two.nodes} "
              f"nodes {two.seconds:.1f} s with two; per node {one.seconds / one.nodes * 1e3:.2f} "
              f"and {two.seconds / two.nodes * 1e3:.2f} ms", flush=True)
        if one.optimal and two.optimal:
            assert abs(one.objective - two.objective) <= 2e-4 * abs(one.objective)
    return 0


if __name__ == "__main__":
    sys.exit(main())
