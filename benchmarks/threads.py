"""Two threads against one: time per node where node solves are long and where they are short.

    python -m benchmarks.threads
"""

from __future__ import annotations

import sys

import numpy as np

import bnb


def problem(n: int, seed: int) -> bnb.MIQP:
    """Dense integer least squares: every node is an OSQP solve with n variables."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, n))
    return bnb.MIQP(F @ F.T, 5.0 * rng.normal(size=n), integer=range(n), lb=-5, ub=5)


def main() -> int:
    bnb.solve_miqp([[1.0]], [0.0], binary=[0])  # compile before the clock runs
    for n, nodes in ((20, 2000), (60, 500), (300, 100)):
        spent = []
        for threads in (1, 2):
            clock: list[tuple[int, float]] = []
            result = bnb.solve(
                problem(n, 0), branching="fractional", threads=threads, node_limit=nodes,
                on_node=lambda p, seen=clock: seen.append((p.nodes, p.seconds)),
            )
            (first, begin), (last, end) = clock[0], clock[-1]
            spent.append((end - begin) / max(1, last - first))
            print(f"n = {n}, {threads} thread(s): {1e3 * spent[-1]:.2f} ms a node after the root, "
                  f"{result.nodes} nodes, {result.status.value}", flush=True)
        print(f"n = {n}: two threads are {spent[0] / spent[1]:.2f} times as fast")
    return 0


if __name__ == "__main__":
    sys.exit(main())
