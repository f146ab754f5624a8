"""Class labels as a user writes them, and the +1 and -1 of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight

ClassWeight = str | Mapping[Any, float] | None


@dataclass(frozen=True)
class Labels:
    """The two classes, and which of them is positive.

    scikit-learn's decision function is always positive for ``classes[1]``: `orientation` is +1 if
    that is the positive class, else -1.
    """

    classes: np.ndarray  # sorted, as scikit-learn wants them
    signs: np.ndarray  # +1 for the positive class
    orientation: float

    @classmethod
    def of(cls, y: np.ndarray, pos_label: Any = None) -> Labels:
        """Read labels; the positive class is the greater one unless `pos_label` names it."""
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(
                f"two classes are needed to train a classifier, y has one class: {classes[0]!r}"
            )
        positive = 1
        if pos_label is not None:
            found = np.flatnonzero(classes == pos_label)
            if found.size != 1:
                raise ValueError(f"pos_label={pos_label!r} is none of the classes {list(classes)}")
            positive = int(found[0])
        signs = np.where(y == classes[positive], 1.0, -1.0)
        return cls(classes, signs, 1.0 if positive == 1 else -1.0)


def class_factors(
    class_weight: ClassWeight, coded: Labels, training: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """What the slack of every training point is multiplied by for its class, as in scikit-learn.

    One; n / (2 n_k) for class k; or a number > 0 per class, one where it is not named. `weights`
    say how many points each one stands for.
    """
    factors, share = np.ones(len(training)), weights[training]
    of = [coded.signs[training] == side * coded.orientation for side in (-1.0, 1.0)]
    if isinstance(class_weight, str) and class_weight == "balanced":
        for members in of:
            factors[members] = share.sum() / (2.0 * share[members].sum())
    elif isinstance(class_weight, Mapping):
        classes = coded.classes.tolist()
        for label, factor in class_weight.items():
            if label not in classes:
                raise ValueError(f"class_weight names {label!r}, which is none of {classes}")
            number = isinstance(factor, Real) and not isinstance(factor, bool)
            if not (number and 0.0 < float(factor) < np.inf):
                raise ValueError(f"class_weight must be a number > 0, got {factor!r} for {label!r}")
            factors[of[classes.index(label)]] = float(factor)
    elif class_weight is not None:
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}")
    return factors


def check_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """Sample weights as floats >= 0, one by default."""
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


class TwoClasses(ClassifierMixin):
    """A classifier by the sign of its decision function."""

    def predict(self, X: Any) -> np.ndarray:
        """Class of every point."""
        chosen = (self.decision_function(X) > 0).astype(int)
        return self.classes_[chosen]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
