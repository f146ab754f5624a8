"""Cardinality-constrained portfolios (OR-Library): every one proven, next to SCIP and Gurobi.

    python -m benchmarks.portfolios --peers SCIP Gurobi --limit 60 --peer-limit 60
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import bnb

from .instances import instance_file, load_portfolio, portfolio_problem, random_portfolio
from .peers import Outcome, compare, geometric_mean, ours, try_peer

WEIGHTS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99)


def markets() -> list[tuple[str, tuple]]:
    found = []
    for number in range(1, 6):
        path = instance_file(f"port{number}.txt")
        if path is not None:
            found.append((f"port{number}", load_portfolio(path)))
    if not found:
        print("OR-Library files not found (set CSVM_INSTANCES); using random factor markets")
        found = [(f"factor{n}", random_portfolio(n, n)) for n in (30, 60, 90)]
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="names of the markets to run")
    parser.add_argument("--weights", nargs="*", type=float, default=WEIGHTS)
    parser.add_argument("--exactly", action="store_true", help="exactly 10 assets, not at most")
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--peers", nargs="*", default=[])
    parser.add_argument("--peer-limit", type=float, default=60.0)
    parser.add_argument("--csv", type=Path, default=Path("results/portfolios.csv"))
    options = parser.parse_args(arguments)
    bnb.solve_miqp([[1.0]], [0.0], binary=[0])  # compile before the clock runs
    rows: list[dict] = []
    overhead = total = 0.0
    for name, market in markets():
        if options.only and name not in options.only:
            continue
        for weight in options.weights:
            problem = portfolio_problem(*market, weight, exactly=options.exactly)
            result = bnb.solve(problem, time_limit=options.limit)
            overhead += result.seconds - result.relaxation_seconds
            total += result.seconds
            show(name, weight, ours(result))
            rows.append({"market": name, "weight": weight, **vars(ours(result))})
            for peer in options.peers:
                answer = try_peer(peer, problem, options.peer_limit)
                if isinstance(answer, str):
                    print(f"    {answer}")
                    continue
                show(name, weight, answer)
                compare(ours(result), answer)
                rows.append({"market": name, "weight": weight, **vars(answer)})
    summary(rows, overhead, total)
    save(rows, options.csv)
    return 0 if all(r["status"] == "optimal" for r in rows if r["solver"] == "bnb") else 1


def show(name: str, weight: float, o: Outcome) -> None:
    gap = (o.objective - o.bound) / abs(o.objective)
    print(f"{name:9} λ={weight:<5} {o.solver:7} {o.status:12} {o.objective:.9g} gap {gap:.1e} "
          f"{o.nodes:9.0f} nodes {o.seconds:7.2f} s", flush=True)


def summary(rows: list[dict], overhead: float, total: float) -> None:
    mine = {(r["market"], r["weight"]): r for r in rows if r["solver"] == "bnb"}
    proven = sum(r["status"] == "optimal" for r in mine.values())
    print(f"\nbnb: {proven} of {len(mine)} proven, slowest "
          f"{max(r['seconds'] for r in mine.values()):.1f} s, engine overhead "
          f"{100 * overhead / total:.1f} % of {total:.0f} s")
    for peer in sorted({r["solver"] for r in rows} - {"bnb"}):
        theirs = [r for r in rows if r["solver"] == peer]
        times = [mine[r["market"], r["weight"]]["seconds"] / r["seconds"] for r in theirs]
        hard = [r for r in theirs if r["nodes"] > 100]
        nodes = [mine[r["market"], r["weight"]]["nodes"] / r["nodes"] for r in hard]
        print(f"{peer}: {sum(r['status'] == 'optimal' for r in theirs)} of {len(theirs)} proven; "
              f"our time / its time {geometric_mean(times):.3f}; our nodes / its nodes "
              f"{geometric_mean(nodes):.5f} where it needs more than 100 ({len(hard)}); "
              "geometric means, its time at the limit counted as the limit")


def save(rows: list[dict], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
