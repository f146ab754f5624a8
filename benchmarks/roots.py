"""How far the bounds of the CSVM are from the optimum at the root, before any branching.

    python -m benchmarks.roots

prints a table of docs/bounds.md: the plain convex bound, the drop bound, those with recourse,
by pairs and by both, next to the best solution that a search of `--limit` seconds finds.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import bnb
from csvm.search import CSVMProblem, Settings

from . import command_line
from .families import BASE, FoldProblem

CASES = (
    FoldProblem("wisconsin", 1.0, 1 / 30, rates=2, per_class=False, share=0.05),
    FoldProblem("wisconsin", 8.0, 1 / 30, rates=2, per_class=False, share=0.05),
    FoldProblem("australian", 32.0, 2.0**-5, per_class=False),
    FoldProblem("german", 2.0, 2.0**-5, per_class=False),
    FoldProblem("biodeg", 1.0, 2.0**-5, per_class=False),
    FoldProblem("australian", 1.0, 1 / 14, rates=2, per_class=False, share=0.1),
    *(FoldProblem(data, 1.0, 1.0 / columns, rates=2, per_class=False, share=0.05)
      for data, columns in (("australian", 14), ("german", 24), ("biodeg", 41))),
    FoldProblem("biodeg", 8.0, 1 / 41, rates=2, per_class=False, share=0.05),
    FoldProblem("biodeg", 1.0, 1 / 41, rates=2, per_class=False, share=0.01),
    FoldProblem("biodeg", 32.0, 2.0**-4, 200, rates=2),
    FoldProblem("australian", 32.0, 0.25), FoldProblem("german", 32.0, 2.0**-5),
    FoldProblem("australian", 32.0, 0.0), FoldProblem("biodeg", 32.0, 0.0),
)
ALONE = Settings(chances=())
SEARCHES = (
    BASE, *(replace(ALONE, begin_with=name) for name in ("drop", "recourse", "pairs", "joint"))
)


def main(arguments: list[str] | None = None) -> int:
    parser = command_line("benchmarks.roots", __doc__)
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS",
                        help="for the search whose solution is the measure (default 20)")
    options = parser.parse_args(arguments)
    print("| instance | best | plain | drop bound | with recourse | by pairs | by both | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for sample in CASES:
        instance = sample.problem().instance
        best = bnb.solve(
            CSVMProblem(instance), branching="first", time_limit=options.limit
        )
        cells, seconds = [], []
        for settings in SEARCHES:
            if settings.begin_with in ("pairs", "joint") and not instance.rates_both_classes:
                cells.append("")
                continue
            result = bnb.solve(
                CSVMProblem(instance, settings=settings), branching="first", node_limit=1,
                start=best.x, time_limit=options.limit,
            )
            cells.append(f"{100 * result.gap:.2f} %")
            seconds.append(f"{result.seconds:.2f}")
        mark = "" if best.optimal else " (not proven)"
        print(f"| {sample.name} | {best.objective:.6g}{mark} | {' | '.join(cells)} | "
              f"{', '.join(seconds)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
