"""Whether rates hold beyond the data at hand, tested on points that the classifier has not seen.

Of the points that a rate is about, each is right or wrong independently of the others, so that the
number of right ones is binomial.  "The rate is lower than asked" is rejected where so many right
ones would be too rare.  All rates are certified together if each of them is: if one of them does
not hold, its own test already errs with probability at most 1 - confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc
from scipy.stats import beta, binom
from sklearn.utils.validation import column_or_1d

from .groups import group_names, is_missing, take_groups
from .rates import Constraint, check_groups, parse_constraints


@dataclass(frozen=True)
class CertifiedRate:
    """The test of one rate.

    Parameters
    ----------
    rate : str
        The measure, with its group.
    asked : float
        p0.
    n, right : int
        How many points the rate is about, and how many of them are classified right. For the
        precision these are the points called positive; for f1 those that are positive or called
        so.
    lower : float
        Clopper-Pearson bound: the true rate is at least this, with the confidence asked.
    p_value : float
        Probability of so many right ones, or more, if the true rate were p0.
    certified : bool
    more : int or None
        About how many more points of this kind would be needed, if they come out as these did; 0
        if none, None if no number of them would do.
    """

    rate: str
    asked: float
    n: int
    right: int
    lower: float
    p_value: float
    certified: bool
    more: int | None

    def __str__(self) -> str:
        found = f"{self.right} of {self.n} right"
        if self.n:
            found += f" ({self.right / self.n:.3f})"
        verdict = "certified" if self.certified else "NOT certified"
        text = (
            f"{self.rate} >= {self.asked:g} is {verdict}: {found}, true rate at least "
            f"{self.lower:.3f}, p = {self.p_value:.3g}"
        )
        return text if self.certified else f"{text}; {self._missing()}"

    def _missing(self) -> str:
        if self.asked == 1.0:
            return "no number of points certifies a rate of 1"
        if self.more is None:
            return "more points will not help unless more of them are right"
        return f"about {self.more} more such points would be needed if they come out the same"


@dataclass(frozen=True)
class Certificate:
    """What is known about the rates of a classifier.

    Parameters
    ----------
    confidence : float
        The claim that *all* rates are at least as asked is wrong with probability at most
        1 - confidence; so is each lower bound by itself.
    rates : list of CertifiedRate
    """

    confidence: float
    rates: list[CertifiedRate]

    @property
    def certified(self) -> bool:
        """Whether all rates are."""
        return all(rate.certified for rate in self.rates)

    @property
    def p_value(self) -> float:
        """The largest of the rates' p-values."""
        return max(rate.p_value for rate in self.rates)

    def __str__(self) -> str:
        verdict = "all rates are certified" if self.certified else "the rates are NOT certified"
        lines = [f"{verdict} (confidence {self.confidence:g})"]
        return "\n".join(lines + [f"  {rate}" for rate in self.rates])


def certify(
    model: Any, X: Any, y: Any, constraints: str | Constraint | Iterable[str | Constraint], *,
    confidence: float = 0.95, sensitive_features: Any = None, pos_label: Any = None,
) -> Certificate:
    """Test on unseen points whether the rates of a fitted classifier are what was asked.

    The promise is about points drawn like these, and holds only if neither the classifier nor its
    parameters were chosen with their help.

    Parameters
    ----------
    model : classifier
        Fitted, for two classes; of any kind.
    X : array or DataFrame (n, d)
        Points that the fit has not seen.
    y : array (n,)
        Their classes.
    constraints : str, Constraint or sequence of them
        As for `csvm.CSVM`. Only shares of independent points can be tested exactly: chosen cases,
        ``balanced_accuracy`` and ``cost`` are refused. (``f1`` is a function of such a share.)
    confidence : float
        In (0, 1).
    sensitive_features : array (n,) or str, optional
        The group of every point, for rates of groups; or the column of the DataFrame `X` that
        holds it, which is then no feature.
    pos_label : optional
        The positive class; by default the one that the model itself was given, else the greater.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import csvm
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X[::2].mean(axis=0)) / X[::2].std(axis=0)
    >>> model = LogisticRegression().fit(X[::2], y[::2])
    >>> print(csvm.certify(model, X[1::2], y[1::2], ["tpr>=0.95", "tnr>=0.85"]))
    all rates are certified (confidence 0.95)
      tpr >= 0.95 is certified: 171 of 174 right (0.983), true rate at least 0.956, p = 0.0236
      tnr >= 0.85 is certified: 100 of 110 right (0.909), true rate at least 0.851, p = 0.0481
    """
    X, groups, _ = take_groups(X, sensitive_features)
    labels = column_or_1d(y)
    missing = sum(map(is_missing, labels.tolist()))
    if missing:
        raise ValueError(f"y: the class of {missing} points is missing")
    names = None if groups is None else group_names(groups, len(labels))
    asked = certifiable(constraints, names)
    positive = positive_class(model, pos_label)
    predicted = column_or_1d(model.predict(X))
    if len(labels) != len(predicted):
        raise ValueError(f"X has {len(predicted)} points, y has {len(labels)} labels")
    strange = np.setdiff1d(predicted, model.classes_)
    if strange.size:
        raise ValueError(
            f"the model predicts {strange[0]!r}, which is none of its classes "
            f"{list(model.classes_)}"
        )
    unknown = np.setdiff1d(labels, model.classes_)
    if unknown.size:
        raise ValueError(
            f"y holds {unknown[0]!r}, the classes of the model are {list(model.classes_)}"
        )
    return certify_predictions(asked, labels == positive, predicted == positive, confidence, names)


def positive_class(model: Any, pos_label: Any) -> Any:
    """The class that the rates call positive."""
    classes = list(getattr(model, "classes_", ()))
    if len(classes) != 2:
        raise ValueError(f"the model must be fitted to two classes, it has {classes}")
    if pos_label is None:
        pos_label = _own_pos_label(model)
    if pos_label is None:
        return classes[1]
    if pos_label not in classes:
        raise ValueError(f"pos_label={pos_label!r} is none of the classes {classes}")
    return pos_label


def _own_pos_label(model: Any) -> Any:
    """The parameter of a classifier, also of one inside a pipeline or a search."""
    while getattr(model, "pos_label", None) is None:
        inner = getattr(model, "best_estimator_", None) or getattr(model, "_final_estimator", None)
        if inner is None:
            return None
        model = inner
    return model.pos_label


def certify_predictions(
    constraints: Sequence[Constraint], positive: np.ndarray, predicted: np.ndarray,
    confidence: float, groups: np.ndarray | None = None,
) -> Certificate:
    """The certificate, from which points are positive and which are called so."""
    check_share("confidence", confidence)
    right = positive == predicted
    rates = []
    for constraint in constraints:
        members = trials(constraint, positive, predicted, groups)
        rates.append(_test(constraint, int(members.sum()), int(right[members].sum()), confidence))
    return Certificate(float(confidence), rates)


def check_share(name: str, value: Any) -> None:
    """Refuse what is no number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name} must be a number in (0, 1), got {value!r}")
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must be in (0, 1), got {value!r}")


_NO_TEST = {
    "cases": "it is about known cases, not about new points",
    "balanced_accuracy": "it is the mean of two shares; ask for tpr and tnr instead",
    "cost": "it weighs two kinds of errors; ask for tpr and tnr, or for the accuracy, instead",
}


def certifiable(
    constraints: str | Constraint | Iterable[str | Constraint], groups: np.ndarray | None
) -> list[Constraint]:
    """Constraints that have an exact test, one for each group; refuses the others."""
    asked = [one for each in parse_constraints(constraints) for one in each.each(groups)]
    if not asked:
        raise ValueError("constraints is empty: there is nothing to certify")
    check_groups(asked, groups)
    for constraint in asked:
        if constraint.name in _NO_TEST:
            raise ValueError(
                f"{constraint} has no exact test on new data: {_NO_TEST[constraint.name]}"
            )
    return asked


def trials(
    constraint: Constraint, positive: np.ndarray, predicted: np.ndarray, groups: np.ndarray | None
) -> np.ndarray:
    """Mask of the points whose share of right ones is tested.

    For the precision these are the points called positive: given the predictions, each of them is
    right independently of the others. F1 is 2s / (1 + s) for the share s of right ones among the
    points that are positive or called so.
    """
    members = constraint.rate.members(positive, groups)
    concerned = {"precision": predicted, "npv": ~predicted, "f1": positive | predicted}
    return members & concerned.get(constraint.name, True)


def fewest_trials(constraint: Constraint, confidence: float) -> float:
    """How many points of its kind a certificate needs at least, all of them right."""
    p0 = share_asked(constraint)
    return np.inf if p0 == 1.0 else float(np.ceil(np.log(1.0 - confidence) / np.log(p0) - 1e-9))


def share_asked(constraint: Constraint) -> float:
    """What the share of right ones among the `trials` must be."""
    return constraint.p0 / (2.0 - constraint.p0) if constraint.name == "f1" else constraint.p0


def clopper_pearson(right: int, n: int, tail: float) -> tuple[float, float]:
    """The exact interval of a share: the true one is beyond each end with probability `tail`."""
    low = float(beta.ppf(tail, right, n - right + 1)) if right else 0.0
    high = float(beta.isf(tail, right + 1, n - right)) if right < n else 1.0
    return low, high


def _test(constraint: Constraint, n: int, right: int, confidence: float) -> CertifiedRate:
    level, p0 = 1.0 - confidence, share_asked(constraint)
    p_value = float(binom.sf(right - 1, n, p0))
    lower, _ = clopper_pearson(right, n, level)
    if constraint.name == "f1":
        lower = 2.0 * lower / (1.0 + lower)
    certified = p_value <= level
    more = 0 if certified else _more(p0, n, right, level)
    return CertifiedRate(
        str(constraint.rate), constraint.p0, n, right, lower, p_value, certified, more
    )


def _more(p0: float, n: int, right: int, level: float) -> int | None:
    """About how many more points let the test pass if the share of right ones stays."""
    share = right / n if n else 1.0
    if share <= p0:
        return None

    def passes(total: int) -> bool:
        # P(Bin(total, p0) >= k) for k = share * total, which need not be an integer here.
        k = share * total
        return bool(betainc(k, total - k + 1.0, p0) <= level)

    low, high = n, max(2 * n, 1)
    while not passes(high):
        low, high = high, 2 * high
        if high > 2**60:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return math.ceil(high - n)
