"""Algorithm 1 of the paper, and the comparison on random splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from .methods import Asked
from .printed import METHODS, TARGETS
from .protocol import Data, Protocol
from .remedies import REMEDIES
from .tasks import Comparison, CostGrid, RatePath, Task

FREE, BOUND = METHODS[:2], METHODS[2:]  # without and with a rate asked for

_SEARCH = ("proven", "gap", "nodes", "fit_seconds")

Run = Callable[[str, Sequence[Task]], list[dict[str, Any]]]
Choice = dict[str, float]


@dataclass(frozen=True)
class Findings:
    """What was found on one data set."""

    data: Data
    protocol: Protocol
    target: str  # where p0 comes from, "estimated" or "paper"
    p0: float  # true positive rate asked for
    choices: dict[str, list[Choice]]  # per method its parameters in every outer fold
    fixed: dict[str, Choice]  # per method of the paper those used on the random splits
    folds: list[dict[str, Any]]  # per outer fold the record of every method
    splits: list[dict[str, Any]]  # the same per random split
    fits: list[dict[str, Any]]  # of every CSVM: proven, gap, nodes, fit_seconds
    seconds: float  # work in all, summed over cores


def study(data: Data, protocol: Protocol, run: Run, target: str = "estimated") -> Findings:
    """Algorithm 1 for all methods, then the same methods and the usual remedies on random splits.

    `run` is a `Laboratory`, or anything that gives the results of tasks in their order. The target
    is "estimated", the SVM's mean true positive rate plus delta, or "paper", what it printed.
    """
    if target not in ("estimated", "paper"):
        raise ValueError(f"target must be 'estimated' or 'paper', got {target!r}")
    if target == "paper" and data.name not in TARGETS:
        raise ValueError(f"the paper has no target for {data.name!r}")
    return _Study(data, protocol, run, target).outcome()


def rates(record: dict[str, Any], method: str) -> dict[str, Any]:
    """TPR, TNR, accuracy and G-mean of a method in a record: numbers, or arrays over the costs."""
    tp, tn = np.array(record[method]["tp"]), np.array(record[method]["tn"])
    positives, negatives = record["positives"], record["negatives"]
    tpr, tnr = tp / positives, tn / negatives
    accuracy = (tp + tn) / (positives + negatives)
    return {"tpr": tpr, "tnr": tnr, "accuracy": accuracy, "gmean": np.sqrt(tpr * tnr)}


def choose(scores: np.ndarray) -> tuple[int, ...]:
    """Position of the best score; of equal ones the last, as in Algorithm 1 ("if >=").

    Rounded first: sums of the same numbers in another order must not break a tie.
    """
    rounded = np.round(scores, 12)
    last = rounded.size - 1 - int(np.argmax(rounded.ravel()[::-1]))
    return tuple(int(k) for k in np.unravel_index(last, scores.shape))


class _Study:
    """One data set on its way through the steps."""

    def __init__(self, data: Data, protocol: Protocol, run: Run, target: str) -> None:
        self.data, self.protocol, self.target = data, protocol, target
        self.outer = protocol.outer or data.folds
        self.inner = protocol.inner or data.folds
        self.criterion = "accuracy" if data.balanced else "gmean"
        self.records: list[dict[str, Any]] = []
        self._run = run

    def outcome(self) -> Findings:
        """All steps in turn."""
        found = self._inner_folds(1, CostGrid)
        size = len(self.protocol.grid)
        pairs = self._scores(found, "SVM(C+, C-)").reshape(self.outer, size, size, size)
        scores = {"SVM": np.einsum("kiig->kig", pairs), "SVM(C+, C-)": pairs}
        choices = {name: [self._parameters(s) for s in scores[name]] for name in FREE}
        folds = self._outer_folds(2, FREE, choices, None)
        p0 = self._p0(folds)
        protocol = self.protocol
        asked = Asked.of(p0, protocol)
        found = self._inner_folds(3, RatePath, asked=asked)
        for name in BOUND:
            scores[name] = self._scores(found, name)
            choices[name] = [self._parameters(s) for s in scores[name]]
        rest = self._outer_folds(4, (*BOUND, *REMEDIES), choices, asked)
        fixed = {name: self._parameters(scores[name].mean(axis=0)) for name in METHODS}
        everything = (*METHODS, *REMEDIES)
        splits = self._step(5, "random splits", [
            Comparison(self.data, protocol.clusters, ("split", k), everything, fixed, asked)
            for k in range(protocol.splits)
        ])
        return Findings(
            self.data, protocol, self.target, p0, choices, fixed,
            [{**one, **other} for one, other in zip(folds, rest, strict=True)], splits,
            [fit for record in self.records for fit in _csvm_fits(record)],
            sum(record["seconds"] for record in self.records),
        )

    def _step(self, number: int, text: str, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        found = self._run(f"{self.data.name}, step {number} of 5, {text}", tasks)
        self.records += found
        return found

    def _p0(self, folds: Sequence[dict[str, Any]]) -> float:
        """The rate to ask for: what the SVM reaches on the outer folds, and a little more."""
        if self.target == "paper":
            return TARGETS[self.data.name]
        tpr0 = float(np.mean([rates(fold, "SVM")["tpr"] for fold in folds]))
        return min(1.0, round(tpr0 + self.protocol.delta, 12))

    def _inner_folds(self, number: int, kind: type[Any], **more: Any) -> np.ndarray:
        """Records of the inner cross-validations: outer fold, inner fold, gamma.

        Gamma runs fastest, so that every gamma has soon been timed.
        """
        grid = self.protocol.grid
        places = list(product(range(self.outer), range(self.inner), grid))
        found = self._step(number, kind.title, [
            kind(
                self.data, self.protocol.clusters, outer=(k, self.outer), inner=(j, self.inner),
                gamma=gamma, costs=grid, **more,
            )
            for k, j, gamma in places
        ])
        return np.array(found, dtype=object).reshape(self.outer, self.inner, len(grid))

    def _scores(self, found: np.ndarray, name: str) -> np.ndarray:
        """Mean criterion over the inner folds: outer fold, costs, gamma."""
        values = np.array([
            [[rates(record, name)[self.criterion] for record in row] for row in fold]
            for fold in found
        ])
        return np.moveaxis(values.mean(axis=1), 1, -1)

    def _parameters(self, scores: np.ndarray) -> Choice:
        """The best costs and gamma."""
        names = ("C", "gamma") if scores.ndim == 2 else ("C_pos", "C_neg", "gamma")
        grid = self.protocol.grid
        return {name: grid[k] for name, k in zip(names, choose(scores), strict=True)}

    def _outer_folds(
        self, number: int, methods: tuple[str, ...], choices: dict[str, list[Choice]],
        asked: Asked | None,
    ) -> list[dict[str, Any]]:
        return self._step(number, "validation", [
            Comparison(
                self.data, self.protocol.clusters, ("fold", k, self.outer), methods,
                {name: chosen[k] for name, chosen in choices.items()}, asked,
            )
            for k in range(self.outer)
        ])


def _csvm_fits(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The searches behind a record: none, one, or one per C."""
    found = record.get("CSVM")
    if found is None:
        return []
    columns = {name: np.atleast_1d(found[name]).tolist() for name in _SEARCH}
    return [dict(zip(_SEARCH, row, strict=True)) for row in zip(*columns.values(), strict=True)]
