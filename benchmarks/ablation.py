"""What each part of the CSVM search is worth: the same problems with one part switched off.

    python -m benchmarks.ablation --limit 20

prints the table of docs/bounds.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

import bnb
import csvm.problem
import relaxations.drop_game
from csvm.problem import CSVMProblem, Node
from relaxations.drop_game import Dual

from .base_search import BaseSearch
from .csvm_instances import Instances
from .measures import geometric_mean

CASES: list[tuple[str, float, float, int | None]] = [
    ("australian", 32.0, 2.0**-2, None), ("australian", 32.0, 2.0, None),
    ("german", 32.0, 1.0, None), ("german", 2.0, 2.0**-4, None),
    ("biodeg", 32.0, 2.0**-5, None), ("biodeg", 32.0, 2.0**-2, None),
    ("wisconsin", 32.0, 2.0**-4, 15), ("pageBlocks", 32.0, 2.0**-1, None),
]


class NoFixing(CSVMProblem):
    def _fix(self, *_: Any) -> bool:
        return False


class NoReversal(CSVMProblem):
    def _dual(self, node: Node) -> Dual:
        dual = super()._dual(node)
        given_up = self.first + np.flatnonzero(node.status < 0)
        dual.lo[given_up] = dual.hi[given_up] = 0.0
        return dual


class NoShaving(CSVMProblem):
    def _shave_interval(self, node: Node, *_: Any) -> tuple[Node, float]:
        return node, -np.inf


class NoTests(CSVMProblem):
    def _test(self, node: Node, key: int, *_: Any) -> list[Node]:
        return self._children(node, key)


class AnyBudget(CSVMProblem):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.exact[:] = False


class MostFractional(CSVMProblem):
    def _candidates(self, node: Node, *rest: Any) -> list:
        # Within [0, 0.89]: from 0.9 on the search takes an anchor as decided.
        near = replace(node, u=0.89 * (1.0 - 2.0 * np.abs(node.u - 0.5)))
        return super()._candidates(near, *rest)


class NoRounding(CSVMProblem):
    def _round(self, *_: Any) -> list:
        return []


def without_covariance(chosen: np.ndarray, share: float, u: np.ndarray, C: np.ndarray) -> None:
    u += share * (chosen - u)
    C[:] = 0.0


@contextmanager
def no_game() -> Iterator[None]:
    with patch.object(csvm.problem, "_FIRST_ROUNDS", 1), patch.object(csvm.problem, "_ROUNDS", 1):
        yield


def setting(module: Any, name: str, value: Any) -> Callable[[], AbstractContextManager]:
    return lambda: patch.object(module, name, value)


PARTS: list[tuple[str, type[CSVMProblem], Callable[[], AbstractContextManager]]] = [
    ("everything on", CSVMProblem, nullcontext),
    ("the game: t from soft margins alone", CSVMProblem, no_game),
    ("covariance of the sets", CSVMProblem,
     setting(relaxations.drop_game, "average_in", without_covariance)),
    ("re-split of the quadratic term", CSVMProblem,
     setting(relaxations.drop_game, "_SPLIT_STEPS", 1)),
    ("budgets taken as used up", AnyBudget, nullcontext),
    ("fixing", NoFixing, nullcontext),
    ("f ≤ 1 on anchors given up", NoReversal, nullcontext),
    ("halving β below a width of 1/2", CSVMProblem,
     setting(csvm.problem, "_BETA_SHARE", np.inf)),
    ("shaving β", NoShaving, nullcontext),
    ("testing children inside the node", NoTests, nullcontext),
    ("branching on the largest u (most fractional instead)", MostFractional, nullcontext),
    ("swaps around new incumbents", CSVMProblem, setting(csvm.problem, "_SWAP_WORK", 0)),
    ("rounding in the tree", NoRounding, nullcontext),
    ("the drop bound: base search", BaseSearch, nullcontext),
]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablation", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS",
                        help="per problem (default 20)")
    options = parser.parse_args(arguments)
    instances = {name: Instances(name) for name, *_ in CASES}
    bnb.solve(instances["wisconsin"].problem(1.0, 1.0, budget=2), branching="first")  # compile
    first: list[bnb.Result] = []
    print("| switched off | proven | largest gap | nodes, times | seconds, times |")
    print("| --- | --- | --- | --- | --- |")
    for label, kind, context in PARTS:
        results = []
        for name, C, gamma, budget in CASES:
            with context():
                problem = instances[name].problem(C, gamma, budget=budget, kind=kind)
                results.append(
                    bnb.solve(problem, branching="first", time_limit=options.limit)
                )
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
