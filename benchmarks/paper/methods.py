"""The four methods of the paper on one part of the data, as the public estimators have them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVC

from csvm import CSVM, SlidingSVC, fit_path, tpr

from .protocol import Part, Protocol


@dataclass(frozen=True)
class Asked:
    """The true positive rate asked for, and how it is searched for; see `Protocol`."""

    p0: float
    alpha: float
    time_limit: float
    gap: float
    costs: str

    @classmethod
    def of(cls, p0: float, protocol: Protocol) -> Asked:
        """As the protocol has it."""
        return cls(p0, protocol.alpha, protocol.time_limit, protocol.gap, protocol.costs)

    @property
    def rate(self) -> dict[str, Any]:
        """The same for an estimator."""
        return {"constraints": tpr >= self.p0, "alpha": self.alpha, "threshold": "hoeffding"}

    def cost(self, C: float, weight: float) -> float:
        """The estimator's C, beside ||w||^2 / 2: the paper's has no half.

        Shared by the class, it is the paper's C / |I+| and C / |I-|, with balanced classes.
        """
        return C / weight if self.costs == "class" else C / 2.0


def svm(part: Part, gamma: float, C_pos: float, C_neg: float) -> SVC:
    """Trained on I and J."""
    model = SVC(C=1.0, gamma=gamma, class_weight={1.0: C_pos, -1.0: C_neg})
    return model.fit(part.points, part.labels, sample_weight=part.weights)


def slid(part: Part, model: SVC, asked: Asked) -> SlidingSVC:
    """The SVM with its hyperplane moved."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the paper's min{1, ...} is meant
        return SlidingSVC(FrozenEstimator(model), **asked.rate).fit(**part.anchored)


def csvms(part: Part, gamma: float, costs: Sequence[float], asked: Asked) -> list[CSVM]:
    """A CSVM for each C in turn, each search starting from the last one."""
    weight = float(part.weights[: part.first].sum())
    model = CSVM(
        gamma=gamma, class_weight="balanced" if asked.costs == "class" else None, gap=asked.gap,
        time_limit=asked.time_limit, **asked.rate,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above; and constant classifiers are seen in the tables
        return fit_path(
            model, parameters=[{"C": asked.cost(C, weight)} for C in costs], **part.anchored
        )


FITS: dict[str, Callable[..., Any]] = {
    "SVM": lambda part, C, gamma, asked: svm(part, gamma, C, C),
    "SVM(C+, C-)": lambda part, C_pos, C_neg, gamma, asked: svm(part, gamma, C_pos, C_neg),
    "sliding beta": lambda part, C, gamma, asked: slid(part, svm(part, gamma, C, C), asked),
    "CSVM": lambda part, C, gamma, asked: csvms(part, gamma, [C], asked)[0],
}
"""The paper's methods by their names in its table 3."""
