"""Sliding beta: move the hyperplane of an SVM until the rates hold on the anchors."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted, validate_data

from .anchors import Anchors
from .given import Given, take
from .groups import without_groups
from .kernels import resolve_gamma
from .labels import TwoClasses
from .rates import Constraint
from .requirements import RateReport, report


def slide(
    decision: np.ndarray, y: np.ndarray, weights: np.ndarray, required: np.ndarray, *,
    margin: float = 1.0, scale: bool = True,
) -> tuple[float, float] | None:
    """Smallest change of (w, beta) for which enough anchors have the margin.

    Anchor j counts where y_j (a f(x_j) + b) >= margin. First only the intercept slides (a = 1,
    b as near to zero as possible). Rates on both classes may leave no room between them; then
    (w, beta) is also scaled, as little as will do.

    Parameters
    ----------
    decision : ndarray (m,)
        f(x_j) of the anchors.
    y : ndarray (m,)
        Their labels, +1 or -1.
    weights : ndarray (L, m)
        Their weights in each rate.
    required : ndarray (L,)
        Weight that must count in each rate.
    margin : float
        Positive.
    scale : bool
        Whether scaling is allowed.

    Returns
    -------
    (a, b) or None
        None if no multiple and shift of f will do.
    """
    need = np.asarray(required, dtype=float) - 1e-9 * np.maximum(1.0, np.abs(required))
    edge = margin * y - decision  # the shift at which anchor j begins, or ceases, to count
    above, below = _cumulated(edge, y > 0, weights), _cumulated(-edge, y < 0, weights)
    shifts = np.append(edge, 0.0)
    fits = np.all(above(shifts) + below(-shifts) >= need[:, None], axis=0)
    if fits.any():
        best = shifts[fits]
        return 1.0, float(best[np.argmin(np.abs(best))])
    return _scaled(decision, y, weights, need, margin) if scale else None


def _cumulated(edge: np.ndarray, members: np.ndarray, weights: np.ndarray) -> Any:
    """The function that gives, per rate, the weight of the members with edge at most s."""
    order = np.argsort(edge[members], kind="stable")
    sorted_edges = edge[members][order]
    total = np.cumsum(weights[:, members][:, order], axis=1)
    total = np.hstack([np.zeros((len(weights), 1)), total])

    def count(s: np.ndarray) -> np.ndarray:
        # An edge met by the shift that puts its own anchor on the margin counts despite rounding.
        tolerance = 1e-12 * np.maximum(1.0, np.abs(s))
        return total[:, np.searchsorted(sorted_edges, s + tolerance, side="right")]

    return count


def _scaled(
    decision: np.ndarray, y: np.ndarray, weights: np.ndarray, need: np.ndarray, margin: float
) -> tuple[float, float] | None:
    """Widest gap between positives kept above and negatives kept below, brought to the margins."""
    highs, lows = decision[y > 0], decision[y < 0]
    if not (highs.size and lows.size):
        return None
    kept_above = _cumulated(-decision, y > 0, weights)(-highs)
    kept_below = _cumulated(decision, y < 0, weights)(np.sort(lows))
    best = None
    for high, kept in zip(highs, kept_above.T, strict=True):
        enough = np.all(kept[:, None] + kept_below >= need[:, None], axis=0)
        if enough.any():
            low = np.sort(lows)[np.argmax(enough)]  # counts grow with low: the first is the widest
            if high > low and (best is None or high - low > best[0] - best[1]):
                best = high, low
    if best is None:
        return None
    a = 2.0 * margin / (best[0] - best[1])
    return float(a), float(margin - a * best[0])


class SlidingSVC(MetaEstimatorMixin, TwoClasses, BaseEstimator):
    """The paper's sliding-beta strategy: an SVM whose intercept is moved until the rates hold.

    The SVM is trained on all points; its intercept then moves as little as makes enough anchors
    well classified.

    Parameters
    ----------
    estimator : classifier with a decision function, optional
        An SVC with RBF kernel by default. To use one that is fitted already as it is, wrap it in
        `sklearn.frozen.FrozenEstimator`.
    constraints, alpha, threshold, anchors, pos_label, random_state
        As for `csvm.CSVM`.

    Attributes
    ----------
    estimator_ : classifier
        The fitted SVM.
    shift_ : float
        What was added to its decision function.
    classes_ : ndarray (2,)
    anchors_ : ndarray of int
        Positions of the anchors in the data given to `fit`.
    rates_ : list of RateReport

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from csvm import SlidingSVC, datasets
    >>> X, y = datasets.load("wisconsin")
    >>> model = SlidingSVC(SVC(C=10), constraints=["tpr>=0.8"], random_state=0).fit(X, y)
    >>> model.rates_[0].achieved >= 0.8
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        constraints: str | Constraint | tuple[str | Constraint, ...] = ("tpr>=0.9",),
        alpha: float = 0.05,
        threshold: str = "exact",
        anchors: Anchors = 0.5,
        pos_label: Any = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.constraints = constraints
        self.alpha = alpha
        self.threshold = threshold
        self.anchors = anchors
        self.pos_label = pos_label
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, anchors: Anchors | None = None, *,
        sensitive_features: Any = None,
    ) -> SlidingSVC:
        """Fit the SVM and slide.

        Parameters
        ----------
        X : array or DataFrame (n, d)
        y : array (n,)
            Two classes.
        sample_weight : array (n,), optional
            How many points each one stands for.
        anchors : optional
            Overrides the parameter of the same name.
        sensitive_features : optional
            As for `csvm.CSVM.fit`.
        """
        given = take(self, X, y, sample_weight, anchors, sensitive_features)
        coded, asked = given.coded, given.asked
        signs = coded.signs[given.anchors]
        self.classes_ = coded.classes
        self.estimator_ = self._fitted(given, sample_weight)
        decision = coded.orientation * self.estimator_.decision_function(
            given.points[given.anchors]
        )
        # Just beyond the boundary: far enough to survive rounding.
        margin = 1e-9 * max(1.0, float(np.abs(decision).max()))
        moved = slide(
            decision, signs, np.array([r.weights for r in asked]).reshape(-1, len(signs)),
            np.array([r.required for r in asked]), margin=margin, scale=False,
        )
        if moved is None:
            raise ValueError(
                "no position of the hyperplane meets all rates at once: "
                + ", ".join(str(r.constraint) for r in asked)
            )
        self.anchors_ = given.anchors
        self.shift_ = coded.orientation * moved[1]
        self.rates_: list[RateReport] = report(asked, signs * (decision + moved[1]), margin)
        return self

    def _fitted(self, given: Given, sample_weight: Any) -> Any:
        X, y, estimator = given.points, given.labels, self.estimator
        if estimator is None:
            # scikit-learn's own "scale" ignores the weights.
            estimator = SVC(gamma=resolve_gamma("scale", X, given.weights), tol=1e-8)
        estimator = clone(estimator)  # a frozen one is returned as it is, and stays as it is
        if sample_weight is None or isinstance(estimator, FrozenEstimator):
            estimator.fit(X, y)
        else:
            estimator.fit(X, y, sample_weight=sample_weight)
        if not np.array_equal(estimator.classes_, self.classes_):
            raise ValueError(
                f"the fitted estimator knows the classes {estimator.classes_}, y holds "
                f"{self.classes_}"
            )
        return estimator

    def decision_function(self, X: Any) -> np.ndarray:
        """Signed score; positive means ``classes_[1]``."""
        check_is_fitted(self)
        X = without_groups(X, self.group_column_)
        points = validate_data(self, X, dtype=np.float64, reset=False)
        return self.estimator_.decision_function(points) + self.shift_
