"""What each part of the CSVM search is worth: the same problems with one part switched off.

    python -m benchmarks.ablation --limit 20

prints the table of docs/bounds.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

import bnb
import csvm.search.drop
from csvm.search import Settings
from relaxations.svm.bounds import game, recourse

from . import command_line
from .families import BASE, WISCONSIN_BUDGET, FoldProblem
from .measures import geometric_mean

CASES = (
    FoldProblem("australian", 32.0, 2.0**-2), FoldProblem("australian", 32.0, 2.0),
    FoldProblem("german", 32.0, 1.0), FoldProblem("german", 2.0, 2.0**-4),
    FoldProblem("biodeg", 32.0, 2.0**-5), FoldProblem("biodeg", 32.0, 2.0**-2),
    FoldProblem("wisconsin", 32.0, 2.0**-4, budget=WISCONSIN_BUDGET),
    FoldProblem("pageBlocks", 32.0, 2.0**-1, compressed=True),
    FoldProblem("australian", 32.0, 2.0**-5, per_class=False),
    FoldProblem("australian", 1.0, 2.0**-4, per_class=False),
    FoldProblem("biodeg", 8.0, 2.0**-3, per_class=False),
    FoldProblem("wisconsin", 8.0, 2.0**-5, budget=5, per_class=False),
    FoldProblem("biodeg", 1.0, 1 / 41, rates=2, per_class=False, share=0.01),
    FoldProblem("wisconsin", 8.0, 1 / 30, rates=2, per_class=False, share=0.05),
)


def without_covariance(chosen: np.ndarray, share: float, u: np.ndarray, C: np.ndarray) -> None:
    u += share * (chosen - u)
    C[:] = 0.0


def changed(module: Any, name: str, value: Any) -> Callable[[], AbstractContextManager]:
    return lambda: patch.object(module, name, value)


def without(method: str, answer: Callable[..., Any]) -> Callable[[], AbstractContextManager]:
    return changed(csvm.search.drop.DropSearch, method, answer)


ON = Settings()
PARTS: list[tuple[str, Settings, Callable[[], AbstractContextManager]]] = [
    ("everything on", ON, nullcontext),
    ("all but the convex search", replace(ON, chances=()), nullcontext),
    ("all but the drop search", replace(ON, begin_with="drop", chances=()), nullcontext),
    ("all but the search with recourse",
     replace(ON, begin_with="recourse", chances=()), nullcontext),
    ("all but the search by pairs", replace(ON, begin_with="pairs", chances=()), nullcontext),
    ("all but that by both", replace(ON, begin_with="joint", chances=()), nullcontext),
    *((name, replace(ON, chances=tuple(
        chance._replace(rivals=tuple(rival for rival in chance.rivals if rival not in out))
        for chance in ON.chances)), nullcontext)
      for name, out in (("pairs", ("pairs", "joint")), ("both in one policy", ("joint",)))),
    ("trials before a split of the convex search", replace(ON, probes=0), nullcontext),
    ("half as many trials again as the split needs", replace(ON, spare=1.0), nullcontext),
    ("covers where one anchor at most is left", replace(ON, few=-1.0), nullcontext),
    ("the game: t from soft margins alone", replace(ON, first_rounds=1, rounds=1), nullcontext),
    ("covariance of the sets", ON, changed(game, "average_in", without_covariance)),
    ("answers by splitting", ON,
     lambda: patch.multiple(recourse, _FAR=np.inf, _CLEARLY=0.0)),
    ("answers by projections after the first game", ON, changed(recourse, "_FAR", 0.0)),
    ("long games where much is open", replace(ON, far=np.inf), nullcontext),
    ("re-split of the quadratic term", ON, changed(game, "SPLIT_STEPS", 1)),
    ("fixing", ON, without("_fix", lambda *_: False)),
    ("halving β below a width of 1/2", replace(ON, width_share=np.inf), nullcontext),
    ("shaving β", ON, without("_shave_interval", lambda self, node, goal: (node, -np.inf))),
    ("local search around incumbents", replace(ON, local_share=0.0, local_most=0.0), nullcontext),
    ("rivals after their first chance", replace(ON, chances=ON.chances[:2]), nullcontext),
    ("reading incumbents from nodes", replace(ON, round_every=10**9), nullcontext),
    ("all of it: plain bound, most violated anchor", BASE, nullcontext),
]


def main(arguments: list[str] | None = None) -> int:
    parser = command_line("benchmarks.ablation", __doc__)
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS",
                        help="per problem (default 20)")
    options = parser.parse_args(arguments)
    bnb.solve(FoldProblem("wisconsin", 1.0, 1.0, budget=2).problem(), branching="first")  # compile
    first: list[bnb.Result] = []
    print("| switched off | proven | largest gap | nodes, times | seconds, times |")
    print("| --- | --- | --- | --- | --- |")
    for label, settings, context in PARTS:
        results = []
        for case in CASES:
            with context():
                results.append(bnb.solve(
                    case.problem(settings), branching="first", time_limit=options.limit
                ))
        first = first or results
        pairs = list(zip(results, first, strict=True))
        proven = sum(r.optimal for r in results)
        mark = "" if proven == len(CASES) else "≥ "
        nodes = geometric_mean([r.nodes / f.nodes for r, f in pairs])
        seconds = geometric_mean([r.seconds / f.seconds for r, f in pairs])
        print(f"| {label} | {proven} of {len(CASES)} | {100 * max(r.gap for r in results):.2f} % "
              f"| {mark}{nodes:.2f} | {mark}{seconds:.2f} |", flush=True)
    print("\nnodes and seconds with everything on: "
          + ", ".join(f"{r.nodes} / {r.seconds:.2f}" for r in first))
    return 0


if __name__ == "__main__":
    sys.exit(main())
