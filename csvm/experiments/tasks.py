"""Units of work: each is one record in the store, named by a hash of all that decides it."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from .methods import Kernels, Search, csvm_path, required_count, slide_svm, svm
from .peers import PEERS
from .protocol import Part, Sample, cut, folds, random_split

__all__ = ["Comparison", "CostGrid", "RatePath", "Task", "counts"]

_VERSION = 1  # raised when the same settings would give another outcome


def counts(decision: np.ndarray, y: np.ndarray) -> dict[str, int]:
    """Positives and negatives that are classified well; f = 0 counts as negative."""
    return {
        "tp": int(np.count_nonzero((decision > 0) & (y > 0))),
        "tn": int(np.count_nonzero((decision <= 0) & (y < 0))),
    }


@dataclass(frozen=True)
class Task:
    """Work on one part of a data set.

    Parameters
    ----------
    sample : Sample
    clusters : int
        See `Protocol`.
    """

    title: ClassVar[str]

    sample: Sample
    clusters: int

    def describe(self) -> dict[str, Any]:
        """All that decides the outcome, as JSON data."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "sample"}
        return {
            "task": type(self).__name__, "version": _VERSION, "dataset": self.sample.name,
            "data": self.sample.digest, **settings,
        }

    @property
    def key(self) -> str:
        """Hash of the description."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()

    @property
    def group(self) -> tuple[Any, ...]:
        """Tasks that take about equally long."""
        return type(self).__name__, self.sample.name, getattr(self, "gamma", None)

    def run(self) -> dict[str, Any]:
        """Do the work; JSON data with the seconds it took."""
        begin = time.perf_counter()
        result = self._run()
        return {**result, "seconds": time.perf_counter() - begin}

    def _run(self) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class _InnerTask(Task):
    """One inner fold at one gamma, over all costs.

    Parameters
    ----------
    outer, inner : (int, int)
        Number of the fold, and of how many.
    gamma : float
    costs : tuple of float
    """

    outer: tuple[int, int]
    inner: tuple[int, int]
    gamma: float
    costs: tuple[float, ...]

    def _kernels(self) -> Kernels:
        training, _ = folds(self.sample.y, self.outer[1])[self.outer[0]]
        fit, validation = folds(self.sample.y[training], self.inner[1])[self.inner[0]]
        part = cut(self.sample, training[fit], training[validation], self.clusters)
        return Kernels.at(part, self.gamma)


@dataclass(frozen=True)
class CostGrid(_InnerTask):
    """SVM(C+, C-) for all pairs of costs, C- running fastest; SVM is the diagonal."""

    title = "SVM and SVM(C+, C-)"

    def _run(self) -> dict[str, Any]:
        kernels = self._kernels()
        y = kernels.part.y_val
        found = [
            counts(svm(kernels, C_pos, C_neg)[0], y) for C_pos in self.costs for C_neg in self.costs
        ]
        return {"SVM(C+, C-)": _columns(found), **_sizes(y)}


@dataclass(frozen=True)
class RatePath(_InnerTask):
    """Sliding beta and CSVM along C, for a rate.

    Parameters
    ----------
    p0 : float
        True positive rate asked for.
    alpha, time_limit, gap, shared
        See `Protocol`; `shared` is whether its costs are those of a class.
    """

    title = "sliding beta and CSVM"

    p0: float
    alpha: float
    time_limit: float
    gap: float
    shared: bool

    def _run(self) -> dict[str, Any]:
        kernels = self._kernels()
        y = kernels.part.y_val
        required = required_count(kernels.part, self.p0, self.alpha)
        slid = []
        for C in self.costs:
            decision, own = svm(kernels, C, C)
            slid.append(counts(decision + slide_svm(kernels.part, own, required), y))
        search = Search(required, self.time_limit, self.gap, self.shared)
        found = [
            {**counts(decision, y), **_search(result)}
            for decision, result in csvm_path(kernels, self.costs, search)
        ]
        return {"sliding beta": _columns(slid), "CSVM": _columns(found), **_sizes(y)}


@dataclass(frozen=True)
class Comparison(Task):
    """Methods with given parameters on one training part and its validation part.

    Parameters
    ----------
    where : ("fold", number, folds) or ("split", number)
    methods : tuple of str
        Names of the paper's methods and of `PEERS`.
    choices : dict
        Per method of the paper its parameters; the peers take those of the SVM.
    p0 : float or None
        Rate asked for; None if no method needs it.
    alpha, time_limit, gap, shared
        As for `RatePath`.
    """

    title = "comparison"

    where: tuple[Any, ...]
    methods: tuple[str, ...]
    choices: dict[str, dict[str, float]]
    p0: float | None
    alpha: float
    time_limit: float
    gap: float
    shared: bool

    @property
    def group(self) -> tuple[Any, ...]:
        """As for every task; folds and splits differ in size."""
        return *super().group, self.where[0], self.methods

    def _run(self) -> dict[str, Any]:
        if self.where[0] == "fold":
            training, validation = folds(self.sample.y, self.where[2])[self.where[1]]
        else:
            training, validation = random_split(self.sample.y, self.where[1])
        part = cut(self.sample, training, validation, self.clusters)
        return {
            **{name: self._method(name, part) for name in self.methods}, **_sizes(part.y_val),
            "labels": part.y_val.astype(int).tolist(),
        }

    def _method(self, name: str, part: Part) -> dict[str, Any]:
        if name in PEERS:
            assert self.p0 is not None
            chosen = self.choices["SVM"]
            label = PEERS[name](part, chosen["C"], chosen["gamma"], self.p0, self.alpha)
            return counts(label, part.y_val)
        chosen, extra = self.choices[name], dict[str, Any]()
        kernels = Kernels.at(part, chosen["gamma"])
        if name == "CSVM":
            search = Search(self._required(part), self.time_limit, self.gap, self.shared)
            ((decision, result),) = csvm_path(kernels, [chosen["C"]], search)
            extra = _search(result)
        else:
            C_pos, C_neg = (
                (chosen["C_pos"], chosen["C_neg"]) if name == "SVM(C+, C-)" else
                (chosen["C"], chosen["C"])
            )
            decision, own = svm(kernels, C_pos, C_neg)
            if name == "sliding beta":
                decision = decision + slide_svm(part, own, self._required(part))
        if self.where[0] == "fold":  # for the ROC curves
            extra["scores"] = [float(f"{value:.6g}") for value in decision]
        return {**counts(decision, part.y_val), **extra}

    def _required(self, part: Part) -> float:
        assert self.p0 is not None
        return required_count(part, self.p0, self.alpha)


def _search(result: Any) -> dict[str, Any]:
    return {
        "proven": result.optimal, "gap": result.gap, "nodes": result.nodes,
        "fit_seconds": result.seconds,
    }


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """One list per name: tens of thousands of these are kept in memory."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def _sizes(y: np.ndarray) -> dict[str, int]:
    return {"positives": int((y > 0).sum()), "negatives": int((y < 0).sum())}
