"""What a practitioner would take today to reach a rate: each returns a fitted classifier.

All are an SVC on the training points as they are, with the C and gamma chosen for the SVM.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import make_scorer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.svm import SVC

from csvm import GuaranteedClassifier, NotCertifiedWarning, tpr
from csvm.sequences import umbrella_rank

from .methods import Asked
from .protocol import Part


def balanced(part: Part, C: float, gamma: float, asked: Asked) -> Any:
    """Class weights that make up for the sizes of the classes; the rate asked for is unused."""
    return SVC(C=C, gamma=gamma, class_weight="balanced").fit(part.X, part.y)


def tuned_threshold(part: Part, C: float, gamma: float, asked: Asked) -> Any:
    """scikit-learn's tuned threshold: in cross-validation the largest TNR with TPR >= p0."""

    def score(y: np.ndarray, predicted: np.ndarray) -> float:
        found = float((predicted[y > 0] > 0).mean())
        # Below the rate asked for, every step towards it counts, but less than reaching it.
        return float((predicted[y < 0] < 0).mean()) if found >= asked.p0 else found - 1.0

    return TunedThresholdClassifierCV(
        SVC(C=C, gamma=gamma), scoring=make_scorer(score), response_method="decision_function",
        cv=5,
    ).fit(part.X, part.y)


def umbrella(part: Part, C: float, gamma: float, asked: Asked) -> Any:
    """The Neyman-Pearson umbrella rule: train on I, threshold at an order statistic of J.

    If no order statistic will do, since there are too few anchors, all of them are kept.
    """
    half = len(part.y) // 2
    model = SVC(C=C, gamma=gamma).fit(part.X[:half], part.y[:half])
    scores = np.sort(model.decision_function(part.X[half:][part.y[half:] > 0]))
    rank = umbrella_rank(asked.p0, len(scores), asked.alpha)
    return FixedThresholdClassifier(
        FrozenEstimator(model),
        threshold=np.nextafter(scores[rank - 1], np.inf) if rank else scores[0],
        response_method="decision_function",
    ).fit(part.X[:half], part.y[:half])


def guaranteed(part: Part, C: float, gamma: float, asked: Asked) -> Any:
    """`csvm.GuaranteedClassifier`: the umbrella rule with three tenths of the positives."""
    model = GuaranteedClassifier(
        SVC(C=C, gamma=gamma), constraints=(tpr >= asked.p0,), confidence=1.0 - asked.alpha,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)  # the table tells what comes of it
        return model.fit(part.X, part.y)


REMEDIES: dict[str, Callable[..., Any]] = {
    "balanced SVM": balanced,
    "tuned threshold": tuned_threshold,
    "NP umbrella": umbrella,
    "guaranteed": guaranteed,
}
