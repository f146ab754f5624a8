"""One worker repeats a run exactly, with the same problem object and with a new one."""

from __future__ import annotations

import numpy as np

import bnb
from bnb import Reason

from .engine import Wrapped
from .judge import Verdict
from .watch import watched


class Repeated(Wrapped):
    """The same search three times."""

    def make(self, rng: np.random.Generator) -> dict:
        data = self.draw(rng, 0.5)
        data["inner"]["options"]["workers"] = 1
        return data

    def run(self, data: dict) -> Verdict:
        kind, inner, faults = self.kinds[data["of"]], data["inner"], []
        same = kind.build(inner)
        with watched(faults):
            first, *others = (
                bnb.solve(problem, **inner["options"])
                for problem in (same, same, kind.build(inner))
            )
        verdict = kind.judge(inner, first, kind.truth(inner))
        for name, other in zip(("the same problem again", "a new one"), others, strict=True):
            if Reason.TIME not in (first.reason, other.reason) and _trail(first) != _trail(other):
                faults.append(f"first {first}; {name}: {other}")
        return Verdict(verdict.outcome, faults + verdict.faults)


def _trail(result: bnb.Result) -> tuple:
    x = None if result.x is None else tuple(result.x)
    return result.status, result.nodes, result.probes, result.objective, result.bound, x
