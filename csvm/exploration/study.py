"""Rates that can be reached and kept, by CSVMs and by thresholds of an SVC."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_X_y

from ..candidates import Sample, scores, tuned_svc, unseen_scores
from ..estimator import CSVM, fit_path
from ..feasibility import InfeasibleRatesError
from ..groups import group_names, take_groups
from ..labels import Labels
from ..laboratory import Laboratory
from ..progress import ProgressLine
from ..rates import Constraint, parse_constraints
from ..sequences import about
from ..store import Store

TARGETS = (
    "tpr>=1", "tpr>=0.98", "tpr>=0.96", "tpr>=0.93", "tpr>=0.9", "tpr>=0.85", "tpr>=0.8",
    "tpr>=0.7", "tnr>=0.7", "tnr>=0.8", "tnr>=0.9", "tnr>=0.95", "tnr>=0.98",
)
CSVMS, THRESHOLDS = "CSVM", "SVC, threshold"
METHODS = (CSVMS, THRESHOLDS)
_EVERYBODY = ""  # beside the names of groups
_GAP = 1e-3  # wider ones would take the start, the classifier of the last rate, for the next

Counts = dict[str, list[int]]
"""True positives, false negatives, true negatives, false positives; of everybody and by group."""


@dataclass(frozen=True)
class OperatingPoint:
    """What a method gives at one target.

    Parameters
    ----------
    asked : str
        The rate asked for, of all points or of those of each group.
    own : tuple of float
        TPR and TNR on the points that the fit was made with: of a CSVM on its anchors and, for the
        other class, on its training points; of a threshold on the points that it was read from.
    counts : dict
        Held-out points of all folds, as a confusion table (tp, fn, tn, fp) of everybody (the empty
        name) and of each group.
    proven : float
        Share of the fits that are proven optimal; 1 for thresholds.
    """

    asked: str
    own: tuple[float, float]
    counts: Counts
    proven: float


@dataclass(frozen=True)
class Method:
    """A method and its points, one for each target."""

    name: str
    points: list[OperatingPoint]


@dataclass(frozen=True)
class Exploration:
    """What can be had.

    Parameters
    ----------
    methods : list of Method
    groups : list of str
    rows, positives, folds : int
    parameters : dict
        C and gamma that suit all the data, for standardised features.
    """

    methods: list[Method]
    groups: list[str]
    rows: int
    positives: int
    folds: int
    parameters: dict[str, float]

    def save(self, path: str | Path) -> Path:
        """Write the page; see `csvm.exploration.write_page`."""
        from .page import write_page

        return write_page(self, path)


def explore(
    X: Any, y: Any, *, sensitive_features: Any = None, pos_label: Any = None,
    targets: Sequence[str | Constraint] = TARGETS, folds: int = 5, time_limit: float = 2.0,
    random_state: int = 0, store: str | Path | None = None, progress: ProgressLine | None = None,
) -> Exploration:
    """Rates that can be reached on these data, and what is kept of them on held-out folds.

    Parameters
    ----------
    X : array or DataFrame (n, d)
        Numbers; they are standardised.
    y : array (n,)
        Two classes.
    sensitive_features : array (n,) or str, optional
        The group of every point, or the column of the DataFrame `X` that holds it. The targets are
        then asked of every group.
    pos_label : optional
        The positive class; by default the greater of the two labels.
    targets : sequence of str or Constraint
        Rates to ask for, each by itself, as ``"tpr>=0.9"`` or ``"tnr>=0.95"``.
    folds : int
    time_limit : float
        Seconds for each CSVM.
    random_state : int
    store : path, optional
        Where finished folds are kept: a run that was stopped goes on from there.
    progress : ProgressLine, optional

    Returns
    -------
    Exploration
        `save` writes it as a page.
    """
    if not isinstance(random_state, Integral):
        raise TypeError(
            f"random_state must be an integer, so that a run can go on, got {random_state!r}"
        )
    sample, groups = _sample(X, y, sensitive_features, pos_label)
    asked = _asked(targets, by_group=bool(groups))
    fewest = int(min(sample.positive.sum(), (~sample.positive).sum()))
    if not isinstance(folds, Integral) or not 2 <= folds <= fewest:
        raise ValueError(f"folds must be from 2 to {fewest}, the smaller class, got {folds}")
    cuts = StratifiedKFold(int(folds), shuffle=True, random_state=random_state)
    settings = {"targets": asked, "seed": int(random_state), "time_limit": float(time_limit)}
    nobody = sample.take(np.array([], int))
    jobs = [_Job("parameters", _parameters, sample, nobody, settings)]
    for number, (rest, fold) in enumerate(cuts.split(np.zeros(len(sample)), sample.positive)):
        jobs.append(_Job(f"fold {number}", _fold, sample.take(rest), sample.take(fold), settings))
    with Store(store) as kept:
        first, *done = Laboratory(kept, 1, progress or ProgressLine(None))("exploring", jobs)
    methods = [Method(name, _pooled(asked, [found[name] for found in done])) for name in METHODS]
    parameters = {"C": first["C"], "gamma": first["gamma"]}
    positives = int(sample.positive.sum())
    return Exploration(methods, groups, len(sample), positives, folds, parameters)


def _asked(targets: Sequence[str | Constraint], by_group: bool) -> list[str]:
    """The targets as text, of every group if there are any."""
    found = []
    if isinstance(targets, (str, Constraint)):
        targets = [targets]
    for target in targets:
        (constraint,) = parse_constraints(target)
        if constraint.name not in ("tpr", "tnr") or constraint.rate.group is not None:
            raise ValueError(f"targets must be like 'tpr>=0.9' or 'tnr>=0.9', got {target!r}")
        rate = constraint.rate["*"] if by_group else constraint.rate
        found.append((rate >= constraint.p0).text)
    if len(set(found)) < len(found):
        raise ValueError(f"targets must differ, got {', '.join(found)}")
    if not found:
        raise ValueError("targets is empty: there is nothing to explore")
    return found


def _sample(X: Any, y: Any, sensitive_features: Any, pos_label: Any) -> tuple[Sample, list[str]]:
    X, groups, _ = take_groups(X, sensitive_features)
    points, labels = check_X_y(X, y, dtype=np.float64)
    coded = Labels.of(labels, pos_label)
    names = None if groups is None else group_names(groups, len(points))
    sample = Sample(points, (coded.signs > 0).astype(int), coded.signs > 0, names)
    return sample, [] if names is None else np.unique(names).tolist()


@dataclass(frozen=True)
class _Job:
    """A piece of work: on one part of the points, judged on another."""

    name: str
    work: Callable[[Sample, Sample, Mapping[str, Any]], dict[str, Any]]
    rest: Sample
    fold: Sample
    settings: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Depends on everything that the result depends on."""
        text = json.dumps([self.name, dict(self.settings)])
        hashed = hashlib.sha256(text.encode())
        for part in (self.rest, self.fold):
            hashed.update(np.ascontiguousarray(part.X).tobytes() + part.positive.tobytes())
            hashed.update("\n".join([] if part.groups is None else part.groups).encode())
        return hashed.hexdigest()

    @property
    def group(self) -> str:
        """Folds take about equally long."""
        return self.work.__name__

    def describe(self) -> dict[str, Any]:
        return {"job": self.name}

    def run(self) -> dict[str, Any]:
        begin = monotonic()
        result = self.work(self.rest, self.fold, self.settings)
        return {**result, "seconds": monotonic() - begin}


def _good_svc(sample: Sample, settings: Mapping[str, Any]) -> Pipeline:
    """A support vector machine that classifies well as it is, not fitted."""
    return tuned_svc(sample, settings["seed"], scoring="balanced_accuracy")


def _parameters(rest: Sample, fold: Sample, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Cost and kernel width of CSVMs for all the data."""
    svc = _good_svc(rest, settings)[-1]
    return {"C": svc.C, "gamma": svc.gamma}


def _fold(rest: Sample, fold: Sample, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The points of both methods, with cost and kernel width of one good SVC."""
    svc = _good_svc(rest, settings)
    return {
        THRESHOLDS: _thresholds(svc, rest, fold, settings),
        CSVMS: _csvms(svc[-1].C, svc[-1].gamma, rest, fold, settings),
    }


def _thresholds(
    svc: Pipeline, rest: Sample, fold: Sample, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Thresholds of an SVC, read from points that its fits had not seen."""
    unseen = unseen_scores(svc, rest, 1, settings["seed"])
    on_fold = scores(svc.fit(rest.X, rest.y), fold.X, 1)
    points = []
    for target in map(Constraint.parse, settings["targets"]):
        cut = _cut(unseen, target, rest)
        said = unseen > cut
        points.append({
            "own": _rates(rest.positive, said), "proven": 1.0,
            "counts": _counts(fold, on_fold > cut),
        })
    return points


def _cut(values: np.ndarray, target: Constraint, sample: Sample) -> float:
    """The boldest threshold of these scores at which the rate is met, in every group."""
    sign, bold = about([target]), np.inf
    for one in target.each(sample.groups):
        ordered = np.sort(sign * values[one.rate.members(sample.positive, sample.groups)])
        if len(ordered):
            allowed = int(np.floor((1.0 - target.p0) * len(ordered) + 1e-9))
            bold = min(bold, np.nextafter(ordered[min(allowed, len(ordered) - 1)], -np.inf))
    return float(sign * bold)


def _csvms(
    C: float, gamma: float, rest: Sample, fold: Sample, settings: Mapping[str, Any]
) -> list[dict[str, Any] | None]:
    """CSVMs along the targets; None where one cannot be had."""
    scaler = StandardScaler().fit(rest.X)
    model = CSVM(
        C=C, gamma=gamma, threshold="none", gap=_GAP, time_limit=settings["time_limit"],
        random_state=settings["seed"],
    )
    X, X_fold = scaler.transform(rest.X), scaler.transform(fold.X)
    points: dict[str, dict[str, Any]] = {}
    for name in ("tpr", "tnr"):
        along = [c for c in map(Constraint.parse, settings["targets"]) if c.name == name]
        # From the highest target down: what keeps more anchors is a start for what keeps fewer.
        along.sort(key=lambda constraint: -constraint.p0)
        for target, fitted in _as_far_as_possible(model, X, rest, along):
            said = fitted.decision_function(X) > 0
            judged = (rest.positive == (name == "tnr")) | np.isin(
                np.arange(len(rest)), fitted.anchors_
            )
            points[target.text] = {
                "own": _rates(rest.positive[judged], said[judged]),
                "proven": float(fitted.result_.optimal),
                "counts": _counts(fold, fitted.decision_function(X_fold) > 0),
            }
    return [points.get(target) for target in settings["targets"]]


def _as_far_as_possible(
    model: CSVM, X: np.ndarray, rest: Sample, targets: Sequence[Constraint]
) -> list[tuple[Constraint, CSVM]]:
    """Fits along falling targets, without those that cannot be had or are not found in time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant classifiers and few anchors are seen in the page
        for first in range(len(targets)):
            steps = [{"constraints": (target,)} for target in targets[first:]]
            try:
                path = fit_path(model, X, rest.y, steps, sensitive_features=rest.groups)
                return list(zip(targets[first:], path, strict=True))
            except (InfeasibleRatesError, RuntimeError):
                continue  # the highest target is the first to fail
    return []


def _rates(positive: np.ndarray, said: np.ndarray) -> list[float]:
    """TPR and TNR."""
    return [float(said[positive].mean()), float((~said[~positive]).mean())]


def _counts(sample: Sample, predicted: np.ndarray) -> Counts:
    names = [] if sample.groups is None else np.unique(sample.groups).tolist()
    found = {}
    for name in [_EVERYBODY, *names]:
        within = np.ones(len(sample), bool) if name == _EVERYBODY else sample.groups == name
        positive, said = sample.positive[within], predicted[within]
        found[name] = [
            int((positive & said).sum()), int((positive & ~said).sum()),
            int((~positive & ~said).sum()), int((~positive & said).sum()),
        ]
    return found


def _pooled(
    targets: Sequence[str], folds: Sequence[Sequence[Mapping[str, Any] | None]]
) -> list[OperatingPoint]:
    """One point per target that could be had in every fold."""
    points = []
    for place, target in enumerate(targets):
        found = [one for fold in folds if (one := fold[place]) is not None]
        if len(found) < len(folds):
            continue
        names = sorted({name for one in found for name in one["counts"]})
        counts = {
            name: np.sum([one["counts"].get(name, [0] * 4) for one in found], axis=0).tolist()
            for name in names
        }
        own = np.mean([one["own"] for one in found], axis=0)
        proven = float(np.mean([one["proven"] for one in found]))
        asked = str(Constraint.parse(target))
        points.append(OperatingPoint(asked, (float(own[0]), float(own[1])), counts, proven))
    return points
