"""A classifier that keeps rates on new data, with the confidence asked."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_classifier
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .candidates import Sample, candidates, compared, first_fitted, scores
from .certification import Certificate, certifiable, check_share, fewest_trials, trials
from .groups import group_names, take_groups, without_groups
from .labels import Labels, TwoClasses
from .rates import Constraint
from .sequences import (
    about,
    fixed_sequence,
    in_order,
    safety,
    threshold_of_classes,
    umbrella_threshold,
)

_MOST = 0.5  # to be held back, beyond the share asked for, for a certificate to be possible


class NotCertifiedWarning(UserWarning):
    """No candidate could be certified; the message says how many points it would take."""


class GuaranteedClassifier(MetaEstimatorMixin, TwoClasses, BaseEstimator):
    """Any classifier with scores, thresholded so that rates hold on new data.

    With probability at least `confidence` over the data given to `fit`, what is certified is true:
    all rates are at least as asked on points drawn like these. Nothing else is assumed, neither of
    the data nor of the estimator.

    Parameters
    ----------
    estimator : classifier with ``decision_function`` or ``predict_proba``, optional
        Fitted to the points that are not held back. By default the mean of the probabilities of a
        support vector machine with balanced class weights, cost and kernel width chosen by
        cross-validated ROC area, and of random trees (with fewer than ten points of a class the
        former alone); for several rates also CSVMs that were asked for them. Of a `csvm.CSVM`, or a
        pipeline that ends in one, several are fitted for several rates, along rising rates.
    constraints : str, Constraint or sequence of them
        As for `csvm.certify`.
    confidence : float
        In (0, 1).
    calibration : float
        Share of the points to hold back, in (0, 1), of those that some rate is about; up to half of
        them if a certificate needs as many (29 positives for ``tpr>=0.9``).
    pos_label : optional
        The positive class; by default the greater of the two labels.
    random_state : int, RandomState or None
        Draws the points to hold back, and folds.

    Attributes
    ----------
    estimator_ : classifier
        The one that was taken, fitted.
    threshold_ : float
        Points with a score above it are called positive; the score is the decision function, or
        the probability, of the positive class.
    certificate_ : Certificate
        The test of the rates on the points held back; for rates of both classes each at half the
        level, since the threshold is then chosen between theirs. If it is not ``certified``, a
        `NotCertifiedWarning` has said so, and nothing is promised.
    calibration_ : ndarray of int
        Positions of the points held back.
    classes_ : ndarray (2,)
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import csvm
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scaled = make_pipeline(StandardScaler(), LogisticRegression())
    >>> model = csvm.GuaranteedClassifier(scaled, constraints="tpr>=0.9", random_state=0).fit(X, y)
    >>> print(model.certificate_)
    all rates are certified (confidence 0.95)
      tpr >= 0.9 is certified: 102 of 107 right (0.953), true rate at least 0.904, p = 0.0374
    """

    certificate_: Certificate
    threshold_: float

    def __init__(
        self,
        estimator: Any = None,
        *,
        constraints: str | Constraint | Iterable[str | Constraint] = ("tpr>=0.9",),
        confidence: float = 0.95,
        calibration: float = 0.3,
        pos_label: Any = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.constraints = constraints
        self.confidence = confidence
        self.calibration = calibration
        self.pos_label = pos_label
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> GuaranteedClassifier:
        """Fit candidates to one part of the points, and choose with the other.

        Parameters
        ----------
        X : array or DataFrame (n, d), or whatever the estimator takes
        y : array (n,)
            Two classes.
        sensitive_features : array (n,) or str, optional
            The group of every point, for rates of groups; or the column of the DataFrame `X` that
            holds it, which is then no feature. It is not needed to predict.
        """
        self._check_parameters()
        X, groups, self.group_column_ = take_groups(X, sensitive_features)
        X, y = indexable(X, y)
        labels = column_or_1d(y, warn=True)
        if not len(labels):
            raise ValueError("X and y hold no points")
        coded = Labels.of(labels, self.pos_label)
        names = None if groups is None else group_names(groups, len(labels))
        constraints = certifiable(self.constraints, names)
        everybody = Sample(X, labels, coded.signs > 0, names)
        random = check_random_state(self.random_state)
        self.classes_ = coded.classes
        self._positive = coded.classes[1 if coded.orientation > 0 else 0]
        self.calibration_ = _held_back(
            everybody, constraints, self.calibration, self.confidence, random
        )
        rest = np.setdiff1d(np.arange(len(labels)), self.calibration_)
        if len(np.unique(labels[rest])) < 2:
            raise ValueError(
                "no points of one class are left to fit beside those held back: give more points "
                "of both classes"
            )
        self._choose(
            everybody.take(rest), everybody.take(self.calibration_), constraints,
            int(random.randint(2**31 - 1)),
        )
        if not self.certificate_.certified:
            warnings.warn(str(self.certificate_), NotCertifiedWarning, stacklevel=2)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def _check_parameters(self) -> None:
        check_share("confidence", self.confidence)
        check_share("calibration", self.calibration)
        given = self.estimator
        if given is None:
            return
        if isinstance(given, type) or not (hasattr(given, "fit") and is_classifier(given)):
            raise TypeError(
                f"estimator must be a classifier of scikit-learn's kind, with scores, got {given!r}"
            )

    def _choose(
        self, rest: Sample, held: Sample, constraints: Sequence[Constraint], seed: int
    ) -> None:
        """Everything before the last step is done without the points held back."""
        models = candidates(self.estimator, rest, constraints, seed)
        if {constraint.name for constraint in constraints} <= {"tpr", "tnr"}:
            if len(models) > 1:
                models = self._by_promise(models, rest, constraints, seed)
            self.estimator_ = first_fitted(models, rest)
            found = scores(self.estimator_, held.X, self._positive)
            self.threshold_, self.certificate_ = threshold_of_classes(
                found, held.positive, constraints, self.confidence, held.groups
            )
            return
        usable = compared(models, rest, self._positive, seed)
        ready = [first_fitted([model], rest) for model, _ in usable]
        sequence = in_order(
            [unseen for _, unseen in usable], rest.positive, constraints, len(held) / len(rest),
            rest.groups,
        )
        on_held = [scores(model, held.X, self._positive) for model in ready]
        taken, self.certificate_ = fixed_sequence(
            sequence, lambda candidate: on_held[candidate.model] > candidate.threshold,
            held.positive, constraints, self.confidence, held.groups,
        )
        self.estimator_, self.threshold_ = ready[taken.model], taken.threshold

    def _by_promise(
        self, models: Sequence[Any], rest: Sample, constraints: Sequence[Constraint], seed: int
    ) -> list[Any]:
        """The models, the best first: by what they keep of the other class where the rates hold.

        For rates of both classes by how likely they are to be certified.
        """
        rest = rest.some(seed)
        usable = compared(models, rest, self._positive, seed)
        sign = about(constraints)
        worth = []
        for _, found in usable:
            if not sign:
                order = in_order([found], rest.positive, constraints, 1.0, rest.groups)
                predicted = found > order[0].threshold
                worth.append(safety(rest.positive, predicted, constraints, 1.0, rest.groups))
                continue
            threshold = umbrella_threshold(
                found, rest.positive, constraints, self.confidence, rest.groups
            )
            other = rest.positive == (sign < 0)
            worth.append(float(((found > threshold) == rest.positive)[other].mean()))
        return [usable[place][0] for place in np.argsort(-np.array(worth), kind="stable")]

    def decision_function(self, X: Any) -> np.ndarray:
        """Distance of the score to the threshold; positive means ``classes_[1]``."""
        check_is_fitted(self)
        X = without_groups(X, self.group_column_)
        above = scores(self.estimator_, X, self._positive) - self.threshold_
        return above if self._positive == self.classes_[1] else -above

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags


def _held_back(
    sample: Sample, constraints: Sequence[Constraint], share: float, confidence: float,
    random: np.random.RandomState,
) -> np.ndarray:
    """Positions of points to hold back, of those that some rate is about.

    Rates of classes are about points whose classes are as they are, so that the draw may keep to
    the same share of each; rates of both classes need a draw that does not look at them.
    """
    names = {constraint.name for constraint in constraints}
    by_class = names <= {"tpr", "tnr"}
    shares = np.zeros(len(sample))
    for constraint in constraints:
        members = trials(constraint, sample.positive, sample.positive, sample.groups)
        fewest = fewest_trials(constraint, 1.0 - (1.0 - confidence) / len(names))
        wanted = max(share, fewest / max(1, members.sum()))
        shares[members] = np.maximum(shares[members], wanted if wanted <= _MOST else share)
    kind = np.zeros(len(sample), dtype=int)
    if by_class:
        kind = sample.positive.astype(int)
        if sample.groups is not None:
            kind += 2 * np.unique(sample.groups, return_inverse=True)[1]
    if not shares.any():
        raise ValueError(f"{', '.join(map(str, constraints))}: no point is of that kind")
    chosen = []
    for value in np.unique(kind[shares > 0]):
        members = random.permutation(np.flatnonzero((shares > 0) & (kind == value)))
        part = shares[members].max()
        # Rounding up what a certificate needs: one point fewer would be none.
        exact = part * len(members)
        number = round(exact) if part == share else np.ceil(exact - 1e-9)
        chosen.append(members[: max(1, int(number))])
    return np.sort(np.concatenate(chosen))
