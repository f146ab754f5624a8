"""Rates asked of a classifier, and the number of anchors that makes each of them believable.

>>> import csvm
>>> csvm.tpr >= 0.9
Constraint('tpr>=0.9')
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom, norm

__all__ = [
    "THRESHOLDS",
    "AnchorWarning",
    "Constraint",
    "Rate",
    "RateReport",
    "Requirement",
    "accuracy",
    "parse_constraints",
    "report",
    "requirements",
    "threshold_count",
    "tnr",
    "tpr",
]

THRESHOLDS = ("hoeffding", "normal", "exact", "none")

_NO_TRUTH = (
    "{} is neither true nor false; pass several constraints as a list, not with 'and': "
    "constraints=[csvm.tpr >= 0.8, csvm.tnr >= 0.99], each bounded from below only"
)

_ROUNDING = 1e-9  # relative: 0.07 * 100 is 7, not 7.000000000000001


class AnchorWarning(UserWarning):
    """There are too few anchors for the confidence asked, so that all of them are required."""


@dataclass(frozen=True)
class Rate:
    """A rate of correct classification: of the positives, of the negatives, or of all points."""

    name: str

    def __ge__(self, p0: float) -> Constraint:
        return Constraint(self.name, p0)

    def __le__(self, p0: float) -> Constraint:
        raise ValueError(f"a rate can only be bounded from below; write csvm.{self.name} >= {p0}")

    __gt__ = __lt__ = __le__
    __array_ufunc__ = None  # numpy's numbers, too, leave the comparison to us

    def __bool__(self) -> bool:
        raise TypeError(_NO_TRUTH.format(f"the rate csvm.{self.name}"))

    def members(self, y: np.ndarray) -> np.ndarray:
        """Mask of the points, labelled +1 and -1, that the rate is about."""
        if self.name == "accuracy":
            return np.ones(len(y), dtype=bool)
        return y > 0 if self.name == "tpr" else y < 0


tpr = Rate("tpr")
tnr = Rate("tnr")
accuracy = Rate("accuracy")
_RATES = {rate.name: rate for rate in (tpr, tnr, accuracy)}
_MEANT = {
    "recall": "tpr", "sensitivity": "tpr", "specificity": "tnr", "acc": "accuracy",
    "fnr": "tpr", "fpr": "tnr",
}


@dataclass(frozen=True)
class Constraint:
    """``rate >= p0`` for the true positive rate, the true negative rate or the accuracy.

    Parameters
    ----------
    name : {"tpr", "tnr", "accuracy"}
    p0 : float
        In (0, 1].
    """

    name: str
    p0: float

    def __post_init__(self) -> None:
        if self.name not in _RATES:
            hint = f"; did you mean {_MEANT[self.name]!r}?" if self.name in _MEANT else ""
            raise ValueError(f"unknown rate {self.name!r}, known are {', '.join(_RATES)}{hint}")
        if not (isinstance(self.p0, (int, float, np.number)) and 0.0 < self.p0 <= 1.0):
            raise ValueError(f"{self.name} must be asked to be in (0, 1], got {self.p0!r}")
        object.__setattr__(self, "p0", float(self.p0))  # numpy's numbers do not read back

    @property
    def rate(self) -> Rate:
        """What is bounded."""
        return _RATES[self.name]

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Read ``"tpr>=0.9"``."""
        match = re.fullmatch(r"\s*([A-Za-z_]+)\s*(>=|≥|<=|≤|==|=|<|>)\s*(\S+)\s*", text)
        if match is None:
            raise ValueError(f"cannot read the constraint {text!r}; write for example 'tpr>=0.9'")
        name, sign, value = match.groups()
        if sign not in (">=", "≥"):
            raise ValueError(
                f"cannot read the constraint {text!r}: a rate can only be bounded from below, "
                f"with '>='"
            )
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"cannot read the number {value!r} in {text!r}") from None
        return cls(name, number)

    def __bool__(self) -> bool:
        # Else `a and b` and `0.8 <= rate <= 0.9` would silently be their last part alone.
        raise TypeError(_NO_TRUTH.format(f"the constraint {self}"))

    def __str__(self) -> str:
        return f"{self.name}>={self.p0:g}"

    def __repr__(self) -> str:
        return f"Constraint('{self}')"


def parse_constraints(
    constraints: str | Constraint | Iterable[str | Constraint],
) -> list[Constraint]:
    """Constraints from what a user writes: one or several, as text or as `Constraint`."""
    if isinstance(constraints, (str, Constraint)):
        constraints = [constraints]
    parsed = []
    for item in constraints:
        if isinstance(item, str):
            item = Constraint.parse(item)
        if not isinstance(item, Constraint):
            raise TypeError(
                f"a constraint is written 'tpr>=0.9' or csvm.tpr >= 0.9, got {item!r}"
            )
        parsed.append(item)
    names = [c.name for c in parsed]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is constrained more than once")
    return parsed


@dataclass(frozen=True)
class Requirement:
    """What a constraint asks of the anchors.

    Parameters
    ----------
    constraint : Constraint
    weights : ndarray (m,)
        n_j, the weight of each anchor in the rate; 0 for those it is not about.
    required : float
        k, the weight that must be well classified.
    """

    constraint: Constraint
    weights: np.ndarray
    required: float


@dataclass(frozen=True)
class RateReport:
    """How a fitted classifier does on one constraint; counts are weights where those were given.

    Parameters
    ----------
    rate : str
        Its name.
    asked : float
        p0.
    required, total : float
        How many anchors must be well classified, and of how many.
    counted : float
        How many have margin one, as the model counts.
    achieved : float
        The rate on the anchors.
    """

    rate: str
    asked: float
    required: float
    total: float
    counted: float
    achieved: float


def requirements(
    constraints: Iterable[Constraint],
    y: np.ndarray,
    weights: np.ndarray,
    *,
    threshold: str = "hoeffding",
    alpha: float = 0.05,
) -> list[Requirement]:
    """The counts that the constraints ask of anchors with labels `y`.

    Parameters
    ----------
    constraints : iterable of Constraint
    y : ndarray (m,)
        Labels of the anchors, +1 or -1.
    weights : ndarray (m,)
        How many points each anchor stands for.
    threshold, alpha
        See `threshold_count`.
    """
    found = []
    for constraint in constraints:
        share = np.where(constraint.rate.members(y), weights, 0.0)
        total = float(share.sum())
        if total <= 0:
            kind = {"tpr": "positive ", "tnr": "negative "}.get(constraint.name, "")
            raise ValueError(f"{constraint} cannot be asked: there are no {kind}anchors")
        count = threshold_count(constraint.p0, total, threshold, alpha, str(constraint))
        found.append(Requirement(constraint, share, count))
    return found


def report(
    asked: Iterable[Requirement], margins: np.ndarray, margin: float = 1.0
) -> list[RateReport]:
    """How a classifier with these margins y_j f(x_j) on the anchors does.

    Parameters
    ----------
    asked : iterable of Requirement
    margins : ndarray (m,)
    margin : float
        What an anchor must reach to be counted, up to 1e-6 of it.
    """
    counts = margins >= margin * (1.0 - 1e-6)
    return [
        RateReport(
            r.constraint.name, r.constraint.p0, r.required, float(r.weights.sum()),
            float(r.weights[counts].sum()), float(r.weights[margins > 0].sum() / r.weights.sum()),
        )
        for r in asked
    ]


def threshold_count(
    p0: float,
    n: float,
    threshold: str = "hoeffding",
    alpha: float = 0.05,
    name: str = "the rate",
) -> float:
    """How many of n anchors must be well classified to believe that the rate is at least p0.

    Parameters
    ----------
    p0 : float
        The rate asked for.
    n : float
        |J_l|, the number of anchors, or the sum of their weights.
    threshold : {"hoeffding", "normal", "exact", "none"}
        How "p <= p0" is rejected at level alpha: k = ceil(p0* n) with Hoeffding's
        p0* = p0 + sqrt(log(alpha) / (-2 n)), or with p0* from the normal approximation; the
        smallest k with P(Bin(n, p0) >= k) <= alpha; or k = ceil(p0 n), which claims nothing beyond
        the anchors. At most n, with an `AnchorWarning` if the test asked for more.
    alpha : float
        In (0, 1).
    name : str
        What to call the constraint in a warning.

    Returns
    -------
    float
        The count k; not rounded up where n is no integer, since weights then are not counts.
    """
    if threshold not in THRESHOLDS:
        raise ValueError(f"threshold must be one of {', '.join(THRESHOLDS)}, got {threshold!r}")
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must be in (0, 1), got {alpha!r}")
    if threshold == "exact":
        if n != round(n):
            raise ValueError(
                "threshold='exact' counts points: the anchors' weights must sum to an integer, "
                f"got {n:g}"
            )
        tail = binom.sf(np.arange(-1, int(n)), int(n), p0)  # P(Bin >= k) for k = 0..n
        enough = np.flatnonzero(tail <= alpha)
        if enough.size:
            return float(enough[0])
    else:
        p_star = p0 + _margin(p0, n, threshold, alpha)
        if p_star <= 1.0 + _ROUNDING:
            k = min(p_star, 1.0) * n
            return float(math.ceil(k - _ROUNDING * max(1.0, k))) if n == round(n) else k
    warnings.warn(_too_few(p0, n, threshold, alpha, name), AnchorWarning, stacklevel=2)
    return float(n)


def _margin(p0: float, n: float, threshold: str, alpha: float) -> float:
    """p0* - p0."""
    if threshold == "hoeffding":
        return math.sqrt(math.log(alpha) / (-2.0 * n))
    if threshold == "normal":
        return max(0.0, float(norm.isf(alpha))) * math.sqrt(p0 * (1.0 - p0) / n)
    return 0.0


def _too_few(p0: float, n: float, threshold: str, alpha: float, name: str) -> str:
    """The warning, with the number of anchors that would do."""
    start = (
        f"{name} cannot be certified at level alpha={alpha:g} with {n:g} anchors "
        f"(threshold={threshold!r}): all of them are required, none may be given up; "
    )
    if p0 == 1.0:
        return start + "no number of anchors certifies a rate of 1"
    if threshold == "hoeffding":
        needed = math.log(alpha) / (-2.0 * (1.0 - p0) ** 2)
    elif threshold == "normal":
        needed = norm.isf(alpha) ** 2 * p0 / (1.0 - p0)
    else:
        needed = math.log(alpha) / math.log(p0)
    return start + f"at least {math.ceil(needed - _ROUNDING * needed)} anchors would be needed"
