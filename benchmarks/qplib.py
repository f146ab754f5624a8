"""QPLIB instances next to SCIP: proofs, bounds and incumbents at the same time limit.

    python -m benchmarks.qplib --limit 60 --peers SCIP
"""

from __future__ import annotations

import argparse
import sys

import bnb

from .instances import instance_file
from .peers import compare, ours, try_peer

NAMES = ("QPLIB_3871", "QPLIB_3980", "QPLIB_3913")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=NAMES)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--peers", nargs="*", default=["SCIP"])
    options = parser.parse_args(arguments)
    bnb.solve_miqp([[1.0]], [0.0], binary=[0])  # compile before the clock runs
    for name in options.only:
        path = instance_file(f"{name}.mps")
        if path is None:
            print(f"{name}: file not found (set CSVM_INSTANCES)")
            continue
        problem = bnb.read(path)
        outcomes = [ours(bnb.solve(problem, time_limit=options.limit))]
        for peer in options.peers:
            answer = try_peer(peer, problem, options.limit)
            if isinstance(answer, str):
                print(f"    {answer}")
            else:
                outcomes.append(answer)
                compare(outcomes[0], answer)
        for o in outcomes:
            print(f"{name} {o.solver:7} {o.status:12} objective {o.objective:.9g} "
                  f"bound {o.bound:.9g} {o.nodes:8.0f} nodes {o.seconds:7.2f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
