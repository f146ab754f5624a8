"""What a practitioner would take today to reach a rate: each returns the labels it predicts.

All are an SVC on the training points as they are, with the C and gamma chosen for the SVM.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import make_scorer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.svm import SVC

from ..guaranteed import GuaranteedClassifier, NotCertifiedWarning
from ..rates import tpr
from ..sequences import umbrella_rank
from .protocol import Part

__all__ = ["PEERS"]


def balanced(part: Part, C: float, gamma: float, p0: float, alpha: float) -> np.ndarray:
    """Class weights that make up for the sizes of the classes; the rate asked for is unused."""
    model = SVC(C=C, gamma=gamma, class_weight="balanced").fit(part.X, part.y)
    return model.predict(part.X_val)


def tuned_threshold(part: Part, C: float, gamma: float, p0: float, alpha: float) -> np.ndarray:
    """scikit-learn's tuned threshold: in cross-validation the largest TNR with TPR >= p0."""

    def score(y: np.ndarray, predicted: np.ndarray) -> float:
        tpr = float((predicted[y > 0] > 0).mean())
        # Below the rate asked for, every step towards it counts, but less than reaching it.
        return float((predicted[y < 0] < 0).mean()) if tpr >= p0 else tpr - 1.0

    model = TunedThresholdClassifierCV(
        SVC(C=C, gamma=gamma), scoring=make_scorer(score), response_method="decision_function",
        cv=5,
    )
    return model.fit(part.X, part.y).predict(part.X_val)


def umbrella(part: Part, C: float, gamma: float, p0: float, alpha: float) -> np.ndarray:
    """The Neyman-Pearson umbrella rule: train on I, threshold at an order statistic of J.

    If no order statistic will do, since there are too few anchors, all of them are kept.
    """
    half = len(part.y) // 2
    model = SVC(C=C, gamma=gamma).fit(part.X[:half], part.y[:half])
    scores = np.sort(model.decision_function(part.X[half:][part.y[half:] > 0]))
    rank = umbrella_rank(p0, len(scores), alpha)
    threshold = np.nextafter(scores[rank - 1], np.inf) if rank else scores[0]
    fixed = FixedThresholdClassifier(
        FrozenEstimator(model), threshold=threshold, response_method="decision_function"
    )
    return fixed.fit(part.X[:half], part.y[:half]).predict(part.X_val)


def guaranteed(part: Part, C: float, gamma: float, p0: float, alpha: float) -> np.ndarray:
    """`csvm.GuaranteedClassifier`: the umbrella rule with three tenths of the positives."""
    model = GuaranteedClassifier(
        SVC(C=C, gamma=gamma), constraints=(tpr >= p0,), confidence=1.0 - alpha, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)  # the table tells what comes of it
        return model.fit(part.X, part.y).predict(part.X_val)


PEERS: dict[str, Callable[[Part, float, float, float, float], np.ndarray]] = {
    "balanced SVM": balanced,
    "tuned threshold": tuned_threshold,
    "NP umbrella": umbrella,
    "guaranteed": guaranteed,
}
