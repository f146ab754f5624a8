"""The demonstration: four ways to find more tumours in the breast cancer data."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from . import datasets
from .estimator import CSVM
from .rates import Constraint, tpr
from .sliding import SlidingSVC

__all__ = ["Outcome", "compare", "draw"]

_GAMMA = 2.0**-5
_COSTS = [0.25, 1.0, 4.0, 16.0]


@dataclass(frozen=True)
class Outcome:
    """The fitted models and their rates on held-out points."""

    constraint: Constraint
    models: dict[str, Any]
    rates: dict[str, dict[str, float]]
    X: np.ndarray
    y: np.ndarray

    def table(self) -> str:
        """The comparison, one row per method."""
        lines = [
            "\nCosts chosen for all four by cross-validated accuracy on the training patients.",
            f"Held out: {len(self.y)} patients, {int((self.y > 0).sum())} of them with a tumour; "
            f"asked for {self.constraint}",
            f"{'':14}{'TPR':>8}{'TNR':>8}{'accuracy':>10}",
        ]
        lines += [
            f"{name:14}{r['tpr']:8.3f}{r['tnr']:8.3f}{r['accuracy']:10.3f}"
            for name, r in self.rates.items()
        ]
        return "\n".join(lines)


def compare(time_limit: float) -> Outcome:
    """Fit SVM, SVM(C+, C-), sliding beta and CSVM on the same points.

    The costs of every method are chosen in the same way, as in the paper: by accuracy in a
    cross-validation on the training points. The held-out points are used for the rates only.
    """
    X, y = datasets.load("wisconsin")
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=0
    )
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    constraint = tpr >= 0.9
    asked: dict[str, Any] = {
        "constraints": (constraint,), "threshold": "exact", "random_state": 0
    }
    svc = SVC(gamma=_GAMMA)
    candidates: dict[str, tuple[Any, dict[str, list[Any]]]] = {
        "SVM": (svc, {"C": _COSTS}),
        "SVM(C+, C-)": (
            svc, {"C": _COSTS, "class_weight": [{1: w, -1: 1.0} for w in (0.5, 1.0, 2.0, 4.0)]}
        ),
        "sliding beta": (SlidingSVC(svc, **asked), {"estimator__C": _COSTS}),
        "CSVM": (CSVM(gamma=_GAMMA, time_limit=time_limit, **asked), {"C": _COSTS}),
    }
    models = {}
    for name, (estimator, grid) in candidates.items():
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        search = GridSearchCV(estimator, grid, cv=folds, refit=False).fit(X_train, y_train)
        best = clone(estimator).set_params(**search.best_params_)
        if name == "CSVM":
            best.set_params(verbose=1)
        models[name] = best.fit(X_train, y_train)
    return Outcome(
        constraint, models,
        {name: _rates(y_test, model.predict(X_test)) for name, model in models.items()},
        X_test, y_test,
    )


def draw(outcome: Outcome, path: str) -> bool:
    """Write the picture; False if matplotlib is not there."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure

    from . import plots

    figure = Figure(figsize=(6, 5), layout="constrained")
    ax = plots.roc(
        outcome.models, outcome.X, outcome.y, constraints=(outcome.constraint,),
        ax=figure.subplots(),
    )
    # All four are good: look at the corner.
    ax.set(xlim=(-0.01, 0.41), ylim=(0.595, 1.005))
    figure.savefig(path, dpi=150)
    return True


def _rates(y: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    return {
        "tpr": float((predicted[y > 0] > 0).mean()),
        "tnr": float((predicted[y < 0] < 0).mean()),
        "accuracy": float((predicted == y).mean()),
    }
