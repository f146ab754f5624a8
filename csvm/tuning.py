"""Choosing parameters by rates: whoever misses one ranks behind all that meet it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from time import monotonic
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from .certification import positive_class
from .estimator import CSVM, fit_path
from .feasibility import InfeasibleRatesError
from .groups import group_names, take_groups
from .labels import Labels
from .progress import ProgressLine
from .rates import Confusion, Constraint, Rate, parse_constraints

COSTS = (0.1, 1.0, 10.0, 100.0)
WIDTHS = (0.03, 0.1, 0.3, 1.0)  # gamma times the number of features
_FOLDS = 3
_GAP, _SECONDS = 0.01, 2.0  # of a fit that is only compared
_MISSED = 1000.0  # worse than any measure, also where a mean over folds hides it


@dataclass(frozen=True)
class RateScorer:
    """A scorer for `sklearn.model_selection.GridSearchCV`; see `rate_scorer`."""

    constraints: tuple[Constraint, ...]
    maximise: Rate
    sensitive_features: str | None = None
    pos_label: Any = None

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """The score of a fitted classifier on points."""
        positive = positive_class(estimator, self.pos_label)
        _, groups, _ = take_groups(X, self.sensitive_features)
        said = np.asarray(estimator.predict(X)) == positive
        names = None if groups is None else group_names(groups, len(said))
        return self.score(np.asarray(y) == positive, said, names)

    def score(
        self, positive: np.ndarray, predicted: np.ndarray, groups: np.ndarray | None = None
    ) -> float:
        """The measure if all rates are met, else -1000 and less, by how much they are missed."""
        missed = [
            abs(c.p0 - c.value(positive, predicted, groups)) for c in self.constraints
            if not c.met(positive, predicted, groups)
        ]
        if missed:
            return -_MISSED * (1.0 + sum(missed))
        table = Confusion.of(positive, positive == predicted, np.ones(len(positive)))
        value = self.maximise.value(table)
        if np.isnan(value):
            raise ValueError(
                f"{self.maximise} cannot be maximised: the points to score have no "
                f"{'negatives' if positive.any() else 'positives'}"
            )
        return -value if self.maximise.name == "cost" else value


def rate_scorer(
    constraints: str | Constraint | Iterable[str | Constraint],
    maximise: str | Rate = "balanced_accuracy", *, sensitive_features: str | None = None,
    pos_label: Any = None,
) -> RateScorer:
    """A scorer by which candidates that miss a rate rank behind all that meet it.

    Parameters
    ----------
    constraints : str, Constraint or sequence of them
        Asked of the held-out points. In a cross-validation the score is a mean over folds: first
        come those that meet the rates in every fold, then those that miss them in one, and so on.
    maximise : str or Rate
        What ranks those that meet the rates: "balanced_accuracy", "tnr", ``csvm.f1`` and so on. Of
        a cost, the smallest is the best.
    sensitive_features : str, optional
        The column of the DataFrame `X` that holds the groups, for rates of groups.
    pos_label : optional
        The positive class; by default the one that the estimator itself was given, else the
        greater.

    Examples
    --------
    >>> import csvm
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.svm import SVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scorer = csvm.rate_scorer(["tpr>=0.9"], maximise="tnr")
    >>> search = GridSearchCV(SVC(), {"C": [0.1, 1, 10, 100]}, scoring=scorer).fit(X, y)
    >>> search.best_params_
    {'C': 100}
    """
    rate = Rate(maximise) if isinstance(maximise, str) else maximise
    if not isinstance(rate, Rate) or rate.name == "cases" or rate.group is not None:
        raise ValueError(
            f"maximise must be a measure of all points, as 'tnr' or csvm.f1, got {maximise!r}"
        )
    if not (sensitive_features is None or isinstance(sensitive_features, str)):
        raise TypeError(
            "sensitive_features must name a column of X, since a scorer sees other points in every "
            f"fold; got {type(sensitive_features).__name__}"
        )
    asked = tuple(parse_constraints(constraints))
    for constraint in asked:
        if not constraint.on_new_data:
            raise ValueError(f"{constraint} is about known cases, held-out points cannot meet it")
    return RateScorer(asked, rate, sensitive_features, pos_label)


@dataclass(frozen=True)
class Tuned:
    """The best parameters; none if the rates could not be had with any."""

    parameters: dict[str, Any]
    score: float  # by `RateScorer.score`: below zero if a rate is missed


def tune(
    model: CSVM, X: np.ndarray, y: np.ndarray, *, costs: Sequence[float] = COSTS,
    gammas: Sequence[float | str] | None = None, groups: np.ndarray | None = None,
    progress: ProgressLine | None = None,
) -> Tuned:
    """The cost and kernel width with the best rates on held-out folds.

    The held-out points of all folds are judged together. Each path along the rising costs shares
    its kernel matrix, and each search starts from the last solution. Widths are by default four
    around one over the number of features.
    """
    if gammas is None:
        features = X.shape[1]
        gammas = [width / features for width in WIDTHS] if model.kernel != "linear" else ["scale"]
    constraints = [c for c in parse_constraints(model.constraints) if c.on_new_data]
    quick = clone(model).set_params(
        constraints=constraints, time_limit=min(model.time_limit, _SECONDS),
        gap=max(model.gap, _GAP), verbose=0, n_jobs=None, checkpoint=None,
    )
    labels = Labels.of(y, model.pos_label)
    folds = list(_folds(labels.signs).split(X, labels.signs))
    said = np.full((len(gammas), len(costs), len(y)), np.nan)
    todo = list(product(range(len(gammas)), folds))
    step = (progress or ProgressLine(None)).step("tuning", [], [at for at, _ in todo], 1)
    with step as advance:
        for at, (rest, fold) in todo:
            begin = monotonic()
            part = None if groups is None else groups[rest]
            path = _path(quick.set_params(gamma=gammas[at]), X[rest], y[rest], costs, part)
            for place, fitted in enumerate(path):
                said[at, place, fold] = labels.orientation * fitted.decision_function(X[fold])
            advance(at, monotonic() - begin)
    scorer = RateScorer(tuple(constraints), Rate("balanced_accuracy"))
    found = [
        Tuned({"C": C, "gamma": gamma}, scorer.score(labels.signs > 0, scores > 0, groups))
        for gamma, along in zip(gammas, said, strict=True)
        for C, scores in zip(costs, along, strict=True) if not np.isnan(scores).any()
    ]
    return max(found, key=lambda tuned: tuned.score, default=Tuned({}, -np.inf))


def _folds(signs: np.ndarray) -> StratifiedKFold:
    fewest = int(min((signs > 0).sum(), (signs < 0).sum()))
    if fewest < 2:
        raise ValueError(
            "to choose C and gamma by cross-validation each class needs at least 2 points, one has "
            f"{fewest}: say which C and gamma to take"
        )
    return StratifiedKFold(min(_FOLDS, fewest), shuffle=True, random_state=0)


def _path(
    model: CSVM, X: np.ndarray, y: np.ndarray, costs: Sequence[float], groups: np.ndarray | None
) -> list[CSVM]:
    """A model for each cost; none if the rates cannot be had with this kernel, or not in time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said again, of the model that is taken
        try:
            return fit_path(model, X, y, [{"C": C} for C in costs], sensitive_features=groups)
        except (InfeasibleRatesError, RuntimeError):
            return []
