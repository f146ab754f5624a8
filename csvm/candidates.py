"""The classifiers among which a `GuaranteedClassifier` chooses."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, VotingClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import _safe_indexing

from .estimator import CSVM
from .feasibility import InfeasibleRatesError
from .rates import Constraint, UnknownGroupError
from .requirements import MissingAnchorsError
from .tuning import COSTS, WIDTHS

_FOLDS = 3
_TREES = 50
_FOR_TREES = 10  # points of a class: with fewer there are no folds within folds
_OF_A_CLASS = 300  # points, at most, to compare on where only rates of classes count
CANNOT = (InfeasibleRatesError, MissingAnchorsError, UnknownGroupError, RuntimeError)
"""Rates that contradict, are about nobody among the anchors, or are not found in time."""
_RISING = (0.0, 0.5)  # of the way from the rates asked for to one
_GAP, _SECONDS = 0.05, 5.0  # of the search of a CSVM: good is enough, the rates are tested
_COMPARED = 0.05  # of its time limit, for each fit that is only compared


@dataclass(frozen=True)
class Sample:
    """Labelled points."""

    X: Any  # as the user gave it
    y: np.ndarray
    positive: np.ndarray
    groups: np.ndarray | None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, positions: np.ndarray) -> Sample:
        """Some of the points."""
        groups = None if self.groups is None else self.groups[positions]
        X = _safe_indexing(self.X, positions)
        return Sample(X, self.y[positions], self.positive[positions], groups)

    def some(self, seed: int) -> Sample:
        """As many of each class as it takes to compare parameters; more would only take time."""
        random = np.random.default_rng(seed)
        kinds = (np.flatnonzero(self.positive), np.flatnonzero(~self.positive))
        if max(map(len, kinds)) <= _OF_A_CLASS:
            return self
        drawn = [random.permutation(kind)[:_OF_A_CLASS] for kind in kinds]
        return self.take(np.sort(np.concatenate(drawn)))

    def folds(self, seed: int) -> StratifiedKFold:
        """Three folds, or two, each with points of both classes."""
        fewest = min(int(self.positive.sum()), int((~self.positive).sum()))
        if fewest < 2:
            raise ValueError(
                f"beside the points held back there must be two of each class to fit and compare "
                f"classifiers, one class has {fewest}: give more points, or hold back fewer"
            )
        return StratifiedKFold(min(_FOLDS, fewest), shuffle=True, random_state=seed)


def candidates(
    estimator: Any, sample: Sample, constraints: Sequence[Constraint], seed: int
) -> list[Any]:
    """Classifiers to fit, chosen without the points that will test them."""
    if estimator is not None:
        several = len(constraints) > 1 and isinstance(_last(estimator), CSVM)
        return _rising(estimator, constraints) if several else [estimator]
    svc = tuned_svc(sample, seed)[-1]
    both = svc_and_trees(svc, sample, seed)
    if len(constraints) == 1:
        return [both]
    csvm = CSVM(
        C=svc.C, gamma=svc.gamma, threshold="none", gap=_GAP, time_limit=_SECONDS,
        pos_label=sample.y[sample.positive][0], random_state=seed,
    )
    return [both, *_rising(make_pipeline(StandardScaler(), csvm), constraints)]


def svc_and_trees(svc: SVC, sample: Sample, seed: int) -> Any:
    """The mean of the probabilities of a support vector machine and of random trees.

    Each is good where the other is not, and few scores of positives, of which the lowest become
    thresholds, are less often far off in both.
    """
    fewest = int(min(sample.positive.sum(), (~sample.positive).sum()))
    if fewest < _FOR_TREES:
        return make_pipeline(StandardScaler(), svc)
    calibrated = CalibratedClassifierCV(svc, ensemble=False, cv=_FOLDS)
    trees = ExtraTreesClassifier(
        _TREES, min_samples_leaf=3, class_weight="balanced", random_state=seed
    )
    return VotingClassifier(
        [("svc", make_pipeline(StandardScaler(), calibrated)), ("trees", trees)], voting="soft"
    )


def tuned_svc(sample: Sample, seed: int, scoring: str = "roc_auc") -> Pipeline:
    """A support vector machine with the parameters that rank the classes best, not fitted.

    Scores for a threshold need no more than that. For margins it takes a C at which the classifier
    itself is good, by ``scoring="balanced_accuracy"``.
    """
    sample = sample.some(seed)
    folds = sample.folds(seed)
    pipeline = make_pipeline(StandardScaler(), SVC(class_weight="balanced"))
    shape = np.shape(sample.X)
    features = shape[1] if len(shape) == 2 and shape[1] else 1  # the scaler refuses other shapes
    grid = {"svc__C": COSTS, "svc__gamma": [width / features for width in WIDTHS]}
    search = GridSearchCV(
        pipeline, grid, scoring=scoring, cv=folds, refit=False, error_score="raise"
    )
    return pipeline.set_params(**search.fit(sample.X, sample.y).best_params_)


def _rising(estimator: Any, constraints: Sequence[Constraint]) -> list[Any]:
    """The same CSVM asked for more and more."""
    name = f"{_prefix(estimator)}constraints"
    return [
        clone(estimator).set_params(**{
            name: tuple(
                Constraint(c.rate, c.p0 + share * (1.0 - c.p0)) for c in constraints
            )
        })
        for share in _RISING
    ]


def first_fitted(models: Sequence[Any], sample: Sample) -> Any:
    """The first of the models that can be fitted: CSVMs may be asked for too much."""
    for model in models[:-1]:
        with suppress(*CANNOT):
            return _fit(model, sample)
    return _fit(models[-1], sample)


def _fit(model: Any, sample: Sample) -> Any:
    if sample.groups is None or not isinstance(_last(model), CSVM):
        return clone(model).fit(sample.X, sample.y)
    return clone(model).fit(
        sample.X, sample.y, **{f"{_prefix(model)}sensitive_features": sample.groups}
    )


def _quick(model: Any) -> Any:
    """The same model, but of a CSVM what a short search finds."""
    last, prefix = _last(model), _prefix(model)
    if not isinstance(last, CSVM):
        return model
    return clone(model).set_params(**{
        f"{prefix}time_limit": _COMPARED * last.time_limit, f"{prefix}gap": max(last.gap, _GAP),
    })


def _last(model: Any) -> Any:
    return model[-1] if isinstance(model, Pipeline) else model


def _prefix(model: Any) -> str:
    """What scikit-learn puts before the names of parameters of the last step."""
    return f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""


def scores(model: Any, X: Any, positive: Any) -> np.ndarray:
    """What a fitted model says of points, the higher the more positive."""
    at = int(np.flatnonzero(model.classes_ == positive)[0])
    if hasattr(model, "decision_function"):
        return (1.0 if at == 1 else -1.0) * model.decision_function(X)
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"estimator must have decision_function or predict_proba, {model!r} has neither"
        )
    return model.predict_proba(X)[:, at]


def compared(
    models: Sequence[Any], sample: Sample, positive: Any, seed: int
) -> list[tuple[Any, np.ndarray]]:
    """Models with their `unseen_scores`, without those that cannot be fitted in some fold."""
    found = []
    for model in models:
        with suppress(*CANNOT):
            found.append((model, unseen_scores(model, sample, positive, seed)))
    if not found:
        return [(models[0], unseen_scores(models[0], sample, positive, seed))]  # says what is wrong
    return found


def unseen_scores(model: Any, sample: Sample, positive: Any, seed: int) -> np.ndarray:
    """Scores of every point by the model fitted to the other folds."""
    found = np.empty(len(sample))
    folds = sample.folds(seed)
    quick = _quick(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said again, of the model that is taken
        for rest, fold in folds.split(np.zeros(len(sample)), sample.positive):
            found[fold] = scores(_fit(quick, sample.take(rest)), sample.take(fold).X, positive)
    return found
