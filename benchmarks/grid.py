"""All 726 problems of the paper's grid, proven one by one; resumes where it stopped.

    python -m benchmarks.grid --datasets australian votes

writes a CSV row per problem and prints a summary per data set.
"""

from __future__ import annotations

import argparse
import csv
import sys
from itertools import product
from pathlib import Path

import numpy as np

import bnb
from csvm.datasets import NAMES
from csvm.experiments import FULL

from .csvm_instances import BASE, Instances
from .measures import geometric_mean

FIELDS = ("dataset", "C", "gamma", "status", "objective", "bound", "gap", "nodes", "seconds",
          "base_status", "base_gap", "base_nodes", "base_seconds")


def done(path: Path) -> set[tuple[str, float, float]]:
    if not path.exists():
        return set()
    with path.open() as file:
        return {(r["dataset"], float(r["C"]), float(r["gamma"])) for r in csv.DictReader(file)}


def run(instances: Instances, C: float, gamma: float, options: argparse.Namespace) -> dict:
    result = bnb.solve(
        instances.problem(C, gamma, per_class=options.costs == "class"), branching="first",
        time_limit=options.limit, threads=options.threads,
    )
    row = {
        "dataset": instances.name, "C": C, "gamma": gamma, "status": result.status.value,
        "objective": result.objective, "bound": result.bound, "gap": result.gap,
        "nodes": result.nodes, "seconds": result.seconds,
    }
    if options.base_limit:
        base = bnb.solve(
            instances.problem(C, gamma, settings=BASE, per_class=options.costs == "class"),
            branching="first", time_limit=options.base_limit,
        )
        row |= {"base_status": base.status.value, "base_gap": base.gap,
                "base_nodes": base.nodes, "base_seconds": base.seconds}
        if result.optimal and base.optimal:
            assert abs(result.objective - base.objective) <= 3e-4 * abs(base.objective), row
    return row


def summary(path: Path) -> None:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    print("\n| data set | proven | largest gap of the rest | nodes (mean) | seconds (mean, max) |")
    print("| --- | --- | --- | --- | --- |")
    for name in NAMES:
        mine = [r for r in rows if r["dataset"] == name]
        if not mine:
            continue
        rest = [float(r["gap"]) for r in mine if r["status"] != "optimal"]
        seconds = [float(r["seconds"]) for r in mine]
        print(f"| {name} | {len(mine) - len(rest)} of {len(mine)} | "
              f"{100 * max(rest, default=0.0):.3f} % | "
              f"{np.mean([float(r['nodes']) for r in mine]):.1f} | "
              f"{np.mean(seconds):.2f}, {max(seconds):.1f} |")
    both = [r for r in rows if r["status"] == r["base_status"] == "optimal"
            and float(r["base_nodes"]) > 100]
    if both:
        ratio = geometric_mean([float(r["nodes"]) / float(r["base_nodes"]) for r in both])
        print(f"\nnodes next to the base search where it needs more than 100 and both prove it "
              f"({len(both)} problems): 1/{1 / ratio:.1f} (geometric mean)")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.grid", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--datasets", nargs="+", default=list(NAMES), choices=NAMES, metavar="NAME",
                        help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS",
                        help="per problem (default 60)")
    parser.add_argument("--base-limit", type=float, default=0.0, metavar="SECONDS",
                        help="run the search without the drop bound next to it, for so long")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--costs", choices=("class", "point"), default="class",
                        help="C in all for each class, as the paper has it, or C for every point")
    parser.add_argument("--full", action="store_true", help="pageBlocks without k-means")
    parser.add_argument("--csv", type=Path, default=Path("results/grid.csv"),
                        help="finished problems in it are not run again")
    options = parser.parse_args(arguments)
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    finished = done(options.csv)
    bnb.solve(Instances(options.datasets[0]).problem(1.0, 1.0, budget=2), branching="first",
              time_limit=30)  # compile before the clock runs
    with options.csv.open("a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=FIELDS)
        if file.tell() == 0:
            writer.writeheader()
        for name in options.datasets:
            instances = Instances(name, full=options.full)
            for number, (gamma, C) in enumerate(product(FULL.grid, FULL.grid)):
                if (name, C, gamma) in finished:
                    continue
                row = run(instances, C, gamma, options)
                writer.writerow(row)
                file.flush()
                print(f"{name} {number + 1:3d}/121 C={C:<8g} γ={gamma:<8g} {row['status']:9} "
                      f"{row['objective']:.7g} gap {100 * row['gap']:.4f} % "
                      f"{row['nodes']:6d} nodes {row['seconds']:6.2f} s", flush=True)
    summary(options.csv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
