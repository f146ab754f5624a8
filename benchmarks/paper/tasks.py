"""Units of work: each is one record in the store, named by a hash of all that decides it."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np

from csvm import CSVM

from .methods import FITS, Asked, csvms, slid, svm
from .protocol import Data, Part, cut, folds, random_split
from .remedies import REMEDIES

_VERSION = 2  # raised when the same settings would give another outcome


@dataclass(frozen=True)
class Task:
    """Work on one part of a data set."""

    title: ClassVar[str]

    data: Data
    clusters: int

    def describe(self) -> dict[str, Any]:
        """All that decides the outcome, as JSON data."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "data"}
        if settings.get("asked") is not None:
            settings["asked"] = asdict(settings["asked"])
        return {
            "task": type(self).__name__, "version": _VERSION, "dataset": self.data.name,
            "data": self.data.digest, **settings,
        }

    @property
    def key(self) -> str:
        """Hash of the description."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()

    @property
    def group(self) -> tuple[Any, ...]:
        """Tasks that take about equally long."""
        return type(self).__name__, self.data.name, getattr(self, "gamma", None)

    def run(self) -> dict[str, Any]:
        """Do the work; JSON data with the seconds it took."""
        begin = time.perf_counter()
        part = self._part()
        found = self._methods(part)
        return {
            **found, "positives": int((part.y_val > 0).sum()),
            "negatives": int((part.y_val < 0).sum()), "seconds": time.perf_counter() - begin,
        }

    def _part(self) -> Part:
        raise NotImplementedError

    def _methods(self, part: Part) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class _InnerTask(Task):
    """One inner fold at one gamma, over all costs."""

    outer: tuple[int, int]  # number of the fold, and of how many
    inner: tuple[int, int]
    gamma: float
    costs: tuple[float, ...]

    def _part(self) -> Part:
        training, _ = folds(self.data.y, self.outer[1])[self.outer[0]]
        fit, validation = folds(self.data.y[training], self.inner[1])[self.inner[0]]
        return cut(self.data, training[fit], training[validation], self.clusters)


@dataclass(frozen=True)
class CostGrid(_InnerTask):
    """SVM(C+, C-) for all pairs of costs, C- running fastest; SVM is the diagonal."""

    title = "SVM and SVM(C+, C-)"

    def _methods(self, part: Part) -> dict[str, Any]:
        return {"SVM(C+, C-)": _columns([
            _counts(svm(part, self.gamma, C_pos, C_neg), part)
            for C_pos in self.costs for C_neg in self.costs
        ])}


@dataclass(frozen=True)
class RatePath(_InnerTask):
    """Sliding beta and CSVM along C, for a rate."""

    title = "sliding beta and CSVM"

    asked: Asked

    def _methods(self, part: Part) -> dict[str, Any]:
        moved = [slid(part, svm(part, self.gamma, C, C), self.asked) for C in self.costs]
        found = csvms(part, self.gamma, self.costs, self.asked)
        return {
            "sliding beta": _columns([_counts(model, part) for model in moved]),
            "CSVM": _columns([_counts(model, part) | _search(model) for model in found]),
        }


@dataclass(frozen=True)
class Comparison(Task):
    """Methods of the paper, and `REMEDIES`, on one training part and its validation part."""

    title = "comparison"

    where: tuple[Any, ...]  # ("fold", number, folds) or ("split", number)
    methods: tuple[str, ...]
    choices: dict[str, dict[str, float]]  # per method; the remedies take those of the SVM
    asked: Asked | None  # None if no method needs it

    @property
    def group(self) -> tuple[Any, ...]:
        """As for every task; folds and splits differ in size."""
        return *super().group, self.where[0], self.methods

    def _part(self) -> Part:
        y = self.data.y
        training, validation = (
            folds(y, self.where[2])[self.where[1]] if self.where[0] == "fold"
            else random_split(y, self.where[1])
        )
        return cut(self.data, training, validation, self.clusters)

    def _methods(self, part: Part) -> dict[str, Any]:
        found = {name: self._method(name, part) for name in self.methods}
        return found | {"labels": part.y_val.astype(int).tolist()}

    def _method(self, name: str, part: Part) -> dict[str, Any]:
        if name in REMEDIES:
            model = REMEDIES[name](part, **self.choices["SVM"], asked=self.asked)
            return _counts(model, part)
        model = FITS[name](part, **self.choices[name], asked=self.asked)
        found = _counts(model, part) | (_search(model) if isinstance(model, CSVM) else {})
        if self.where[0] == "fold":  # for the ROC curves
            scores = model.decision_function(part.X_val)
            found["scores"] = [float(f"{value:.6g}") for value in scores]
        return found


def _counts(model: Any, part: Part) -> dict[str, Any]:
    """Positives and negatives of the validation points that are classified well."""
    right = model.predict(part.X_val) == part.y_val
    return {
        "tp": int(np.count_nonzero(right & (part.y_val > 0))),
        "tn": int(np.count_nonzero(right & (part.y_val < 0))),
    }


def _search(model: CSVM) -> dict[str, Any]:
    result = model.result_
    return {
        "proven": result.optimal, "gap": result.gap, "nodes": result.nodes,
        "fit_seconds": result.seconds,
    }


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """One list per name: tens of thousands of these are kept in memory."""
    return {name: [row[name] for row in rows] for name in rows[0]}
