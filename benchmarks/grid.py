"""All 726 problems of the paper's grid, proven one by one; resumes where it stopped.

    python -m benchmarks.grid --datasets australian votes

keeps a record per problem and prints a summary per data set.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import bnb
from csvm.datasets import NAMES
from csvm.laboratory import laboratory
from csvm.search.compiled import warm_up

from . import command_line
from .families import BASE, FoldProblem
from .measures import geometric_mean
from .paper import FULL
from .tables import lines


@dataclass(frozen=True)
class Cell:
    """One pair (C, γ) of a data set, and how it is searched."""

    dataset: str
    C: float
    gamma: float
    full: bool
    costs: str
    limit: float
    base_limit: float

    @property
    def key(self) -> str:
        return json.dumps(self.describe())

    @property
    def group(self) -> tuple[str, float]:
        return self.dataset, self.gamma

    def describe(self) -> dict[str, Any]:
        return asdict(self)

    def run(self) -> dict[str, Any]:
        begin = time.perf_counter()
        sample = FoldProblem(
            self.dataset, self.C, self.gamma, per_class=self.costs == "class",
            compressed=self.dataset == "pageBlocks" and not self.full,
        )
        result = bnb.solve(sample.problem(), branching="first", time_limit=self.limit)
        found = {"problem": asdict(self), "search": figures(result), "base": None}
        if self.base_limit:
            base = bnb.solve(sample.problem(BASE), branching="first", time_limit=self.base_limit)
            found["base"] = figures(base)
            if result.optimal and base.optimal:
                same = abs(result.objective - base.objective) <= 3e-4 * abs(base.objective)
                assert same, found
        return {**found, "seconds": time.perf_counter() - begin}


def figures(result: bnb.Result) -> dict[str, Any]:
    return {
        "status": result.status.value, "objective": result.objective, "bound": result.bound,
        "gap": result.gap, "nodes": result.nodes, "seconds": result.seconds,
    }


def tell(found: dict[str, Any]) -> None:
    problem, search = found["problem"], found["search"]
    print(f"{problem['dataset']} C={problem['C']:<8g} γ={problem['gamma']:<8g} "
          f"{search['status']:9} {search['objective']:.7g} gap {100 * search['gap']:.4f} % "
          f"{search['nodes']:6d} nodes {search['seconds']:6.2f} s", flush=True)


def summary(found: Sequence[dict[str, Any]]) -> str:
    rows = []
    for name in dict.fromkeys(one["problem"]["dataset"] for one in found):
        mine = [one["search"] for one in found if one["problem"]["dataset"] == name]
        rest = [search["gap"] for search in mine if search["status"] != "optimal"]
        seconds = [search["seconds"] for search in mine]
        rows.append((
            name, f"{len(mine) - len(rest)} of {len(mine)}",
            f"{100 * max(rest, default=0.0):.3f} %",
            f"{np.mean([search['nodes'] for search in mine]):.1f}",
            f"{np.mean(seconds):.2f}, {max(seconds):.1f}",
        ))
    header = ("data set", "proven", "largest gap of the rest", "nodes (mean)",
              "seconds (mean, max)")
    text = "\n".join(lines(header, rows))
    both = [
        one["search"]["nodes"] / one["base"]["nodes"] for one in found
        if one["base"] and one["search"]["status"] == one["base"]["status"] == "optimal"
        and one["base"]["nodes"] > 100
    ]
    if both:
        text += (f"\n\nnodes next to the base search where it needs more than 100 and both prove "
                 f"it ({len(both)} problems): 1/{1 / geometric_mean(both):.1f} (geometric mean)")
    return text


def main(arguments: list[str] | None = None) -> int:
    parser = command_line("benchmarks.grid", __doc__)
    parser.add_argument("--datasets", nargs="+", default=list(NAMES), choices=NAMES, metavar="NAME",
                        help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS",
                        help="per problem (default 60)")
    parser.add_argument("--base-limit", type=float, default=0.0, metavar="SECONDS",
                        help="run the search without the drop bound next to it, for so long")
    parser.add_argument("--jobs", type=int, default=1, help="problems at once")
    parser.add_argument("--costs", choices=("class", "point"), default="class",
                        help="C in all for each class, as the paper has it, or C for every point")
    parser.add_argument("--full", action="store_true", help="pageBlocks without k-means")
    parser.add_argument("--out", type=Path, default=Path("results/grid.jsonl"), metavar="FILE",
                        help="finished problems in it are not run again")
    options = parser.parse_args(arguments)
    warm_up(is_factor=False, both_classes=False)  # compile before the clock runs
    problems = [
        Cell(name, C, gamma, options.full, options.costs, options.limit, options.base_limit)
        for name in options.datasets for gamma, C in product(FULL.grid, FULL.grid)
    ]
    with laboratory(options.out, options.jobs) as work:
        print("\n" + summary(work("grid", problems, tell=tell)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
