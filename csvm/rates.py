"""Rates asked of a classifier: an algebra of constraints, each one linear in who is right.

>>> import csvm
>>> csvm.tpr >= 0.9
Constraint('tpr>=0.9')
>>> csvm.precision["north"] >= 0.8, csvm.cost(fn=5, fp=1) <= 0.3
(Constraint('precision[north]>=0.8'), Constraint('cost(fn=5,fp=1)<=0.3'))

Every measure here grows when one more point is classified well, and asking for a value of it is
one row ``sum_j n_j z_j >= k`` with n_j >= 0, where z_j says whether point j is right. That is what
`csvm.requirements` makes of a constraint, and all that a search needs to know.

On any points, of training or not, a `Constraint` answers for itself. Labels are positive where
they are > 0 (so -1 and 1, 0 and 1, or truth values); groups are compared as text.

>>> (csvm.tpr["*"] >= 0.5).value([1, 1, 1, -1], [1, -1, 1, 1], ["a", "a", "b", "b"])
0.5
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bnb.validation import real_array

from .groups import group_names

EVERY_GROUP = "*"

_NO_TRUTH = (
    "{} is neither true nor false; pass several constraints as a list, not with 'and': "
    "constraints=[csvm.tpr >= 0.8, csvm.tnr >= 0.99], each bounded from below only"
)
_NO_DIFFERENCE = (
    "rates cannot be compared with each other: a difference between groups bounds one of them from "
    "above, which no number of points classified well can do; ask for as much of every group "
    "instead, with csvm.tpr['*'] >= 0.85 or 'tpr[*]>=0.85'"
)
_ROUNDING = 1e-9

_SHARES = ("tpr", "tnr", "accuracy", "cases")  # of points known beforehand
_NAMES = ("tpr", "tnr", "accuracy", "precision", "npv", "f1", "balanced_accuracy", "cost")
_MEANT = {
    "recall": "tpr", "sensitivity": "tpr", "specificity": "tnr", "acc": "accuracy",
    "fnr": "tpr", "fpr": "tnr", "ppv": "precision", "f1_score": "f1", "bacc": "balanced_accuracy",
}


class UnknownGroupError(ValueError):
    """A rate is asked of a group that nobody is in."""


@dataclass(frozen=True)
class Confusion:
    """A confusion table; counts are weights where those were given."""

    tp: float
    fn: float
    tn: float
    fp: float

    @classmethod
    def of(cls, positive: np.ndarray, right: np.ndarray, weights: np.ndarray) -> Confusion:
        """The table where these points are positive, and these classified well."""
        kinds = (positive & right, positive & ~right, ~positive & right, ~positive & ~right)
        return cls(*(float(weights[kind].sum()) for kind in kinds))

    @property
    def positives(self) -> float:
        """All of them."""
        return self.tp + self.fn

    @property
    def negatives(self) -> float:
        """All of them."""
        return self.tn + self.fp

    @property
    def total(self) -> float:
        """All points."""
        return self.positives + self.negatives


@dataclass(frozen=True)
class Rate:
    """A measure of a classifier, of all points or of a group; compare it to get a constraint.

    Parameters
    ----------
    name : str
        "tpr", "tnr", "accuracy", "precision", "npv", "f1", "balanced_accuracy", "cost", or "cases".
    group : str, optional
        The points it is about; ``"*"`` for every group by itself. ``rate[group]`` writes it.
    fn, fp : float
        Of "cost": what a false negative and a false positive cost.
    cases : tuple of int
        Of "cases": positions of the points.
    """

    name: str
    group: str | None = None
    fn: float = 1.0
    fp: float = 1.0
    cases: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in (*_NAMES, "cases"):
            hint = f"; did you mean {_MEANT[self.name]!r}?" if self.name in _MEANT else ""
            raise ValueError(f"unknown rate {self.name!r}, known are {', '.join(_NAMES)}{hint}")
        for name in ("fn", "fp"):
            value = getattr(self, name)
            if not (_is_number(value) and 0.0 < value < np.inf):
                raise ValueError(f"{name}, the cost of an error, must be > 0, got {value!r}")
            object.__setattr__(self, name, float(value))

    def __getitem__(self, group: Any) -> Rate:
        if self.group is not None or self.name == "cases":
            raise ValueError(f"{self} is about certain points already")
        return replace(self, group=str(group))

    def __ge__(self, p0: Any) -> Constraint:
        _refuse_rate(p0)
        if self.name == "cost":
            raise ValueError(f"a cost can only be bounded from above; write {self} <= {p0}")
        return Constraint(self, p0)

    def __le__(self, p0: Any) -> Constraint:
        _refuse_rate(p0)
        if self.name == "cost":
            return Constraint(self, p0)
        raise ValueError(f"a rate can only be bounded from below; write {self} >= {p0}")

    def __lt__(self, p0: Any) -> Constraint:
        _refuse_rate(p0)
        sign = "<=" if self.name == "cost" else ">="
        bound = "above" if self.name == "cost" else "below"
        raise ValueError(f"{self} can only be bounded from {bound}, with '{sign}'")

    __gt__ = __lt__
    __array_ufunc__ = None  # numpy's numbers, too, leave the comparison to us

    def __sub__(self, other: Any) -> Rate:
        raise TypeError(_NO_DIFFERENCE)

    __rsub__ = __truediv__ = __rtruediv__ = __add__ = __radd__ = __sub__

    def __bool__(self) -> bool:
        raise TypeError(_NO_TRUTH.format(f"the rate csvm.{self}"))

    def __str__(self) -> str:
        if self.name == "cases":
            return f"cases({len(self.cases)})"
        costs = f"(fn={self.fn:g},fp={self.fp:g})" if self.name == "cost" else ""
        return f"{self.name}{costs}{'' if self.group is None else f'[{self.group}]'}"

    @property
    def is_share(self) -> bool:
        """Whether it is the share of certain points that is classified well."""
        return self.name in _SHARES

    def members(self, y: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
        """Mask of the points that the rate is about, whatever a classifier says of them."""
        positive = np.asarray(y) > 0
        if self.name == "cases":
            return case_mask(self.cases, len(positive))
        within = self.within(len(positive), groups)
        if self.name == "tpr":
            return within & positive
        return within & ~positive if self.name == "tnr" else within

    def within(self, n: int, groups: np.ndarray | None) -> np.ndarray:
        """Mask of the points in its group, or in any if it is about every group."""
        if self.group is None:
            return np.ones(n, dtype=bool)
        if groups is None:
            raise ValueError(
                f"{self} is about a group: say who is in which, with sensitive_features"
            )
        names = group_names(groups, n)
        return np.ones(n, dtype=bool) if self.group == EVERY_GROUP else names == self.group

    def value(self, table: Confusion) -> float:
        """The measure; NaN if nobody is concerned, 1 for a share of predictions never made."""
        tp, fn, tn, fp = table.tp, table.fn, table.tn, table.fp
        if self.name == "balanced_accuracy":
            return 0.5 * (_ratio(tp, tp + fn) + _ratio(tn, tn + fp))
        if self.name == "cost":
            return _ratio(self.fn * fn + self.fp * fp, table.total)
        if self.name == "f1":
            return _ratio(2.0 * tp, 2.0 * tp + fp + fn, 1.0 if table.total else np.nan)
        right, of = self.share(table)
        predicted = self.name in ("precision", "npv")
        return _ratio(right, of, 1.0 if predicted and table.total else np.nan)

    def share(self, table: Confusion) -> tuple[float, float]:
        """Right, and of how many, for the measures that are shares."""
        return {
            "tpr": (table.tp, table.positives), "tnr": (table.tn, table.negatives),
            "precision": (table.tp, table.tp + table.fp),
            "npv": (table.tn, table.tn + table.fn),
        }.get(self.name, (table.tp + table.tn, table.total))

    def row(self, p0: float, positives: float, negatives: float) -> tuple[float, float, float]:
        """n_j of a positive and of a negative, and k."""
        total = positives + negatives
        if self.name == "precision":
            return 1.0 - p0, p0, p0 * negatives
        if self.name == "npv":
            return p0, 1.0 - p0, p0 * positives
        if self.name == "f1":
            return 2.0 - p0, p0, p0 * total
        if self.name == "balanced_accuracy":
            return 0.5 * total / positives, 0.5 * total / negatives, p0 * total
        if self.name == "cost":
            return self.fn, self.fp, self.fn * positives + self.fp * negatives - p0 * total
        return 1.0, 1.0, p0 * total  # a share: of its members


def _ratio(part: float, whole: float, otherwise: float = np.nan) -> float:
    return part / whole if whole > 0 else otherwise


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _refuse_rate(p0: Any) -> None:
    if isinstance(p0, (Rate, Constraint)):
        raise TypeError(_NO_DIFFERENCE)


tpr = Rate("tpr")
tnr = Rate("tnr")
accuracy = Rate("accuracy")
precision = Rate("precision")
npv = Rate("npv")
f1 = Rate("f1")
balanced_accuracy = Rate("balanced_accuracy")


def cost(*, fn: float, fp: float) -> Rate:
    """Mean cost of the errors per point, to be bounded from above.

    Parameters
    ----------
    fn, fp : float
        What a false negative and a false positive cost, > 0.

    Examples
    --------
    >>> cost(fn=5, fp=1) <= 0.3
    Constraint('cost(fn=5,fp=1)<=0.3')
    """
    return Rate("cost", fn=fn, fp=fp)


def at_least(count: int, *, of: Any) -> Constraint:
    """At least so many of these known cases are classified well.

    Parameters
    ----------
    count : int
    of : array of bool or int
        Mask of the cases among the points given to `fit`, or their positions. They become anchors.
    """
    array = np.asarray(of)
    if array.ndim != 1 or not (array.dtype == bool or np.issubdtype(array.dtype, np.integer)):
        raise ValueError("of must be a mask or integer positions of the cases, in one dimension")
    places = np.flatnonzero(array) if array.dtype == bool else np.unique(array)
    if array.dtype != bool and places.size != array.size:
        raise ValueError("of holds a position more than once")
    if places.size == 0 or places[0] < 0:
        raise ValueError("of must name at least one case, by positions >= 0")
    if not isinstance(count, (int, np.integer)) or not 0 < count <= places.size:
        raise ValueError(f"count must be a number from 1 to the {places.size} cases, got {count!r}")
    return Constraint(Rate("cases", cases=tuple(places.tolist())), int(count) / places.size)


def all_of(cases: Any) -> Constraint:
    """All of these known cases are classified well; see `at_least`."""
    array = np.asarray(cases)
    return at_least(int(array.sum()) if array.dtype == bool else array.size, of=array)


def chosen_cases(constraints: Iterable[Constraint], n: int) -> np.ndarray:
    """Mask of the points among n that some constraint names."""
    return case_mask((place for c in constraints for place in c.rate.cases), n)


def concerned(
    constraints: Iterable[Constraint], y: np.ndarray, groups: np.ndarray | None
) -> np.ndarray:
    """Mask of the points that some rate is about; chosen cases aside."""
    masks = [c.rate.members(y, groups) for c in constraints if c.name != "cases"]
    return np.any([np.zeros(len(y), dtype=bool), *masks], axis=0)


def check_groups(constraints: Iterable[Constraint], groups: np.ndarray | None) -> None:
    """Refuse rates of groups that none of these points is in: most likely the name is wrong."""
    for constraint in constraints:
        if groups is not None and not constraint.rate.within(len(groups), groups).any():
            raise UnknownGroupError(
                f"{constraint} is about nobody: the groups in sensitive_features are "
                f"{', '.join(np.unique(groups)[:20])}"
            )


def case_mask(cases: Iterable[int], n: int) -> np.ndarray:
    """Mask of these positions among n points."""
    places, mask = np.fromiter(cases, dtype=int), np.zeros(n, dtype=bool)
    if places.size and places.max() >= n:
        raise ValueError(
            f"a chosen case is point {places.max()}, but there are {n} points (positions count "
            "from 0 among the points given to fit)"
        )
    mask[places] = True
    return mask


@dataclass(frozen=True)
class Constraint:
    """``rate >= p0``, or ``cost <= p0``; written ``csvm.tpr >= 0.9`` or ``"tpr>=0.9"``.

    Parameters
    ----------
    rate : Rate
        What is bounded.
    p0 : float
        In (0, 1]; of a cost, >= 0.
    """

    rate: Rate
    p0: float

    def __post_init__(self) -> None:
        if self.rate.name == "cost":
            if not (_is_number(self.p0) and 0.0 <= self.p0 < np.inf):
                raise ValueError(f"{self.rate} must be asked to be at most a number >= 0, got "
                                 f"{self.p0!r}")
        elif not (_is_number(self.p0) and 0.0 < self.p0 <= 1.0):
            raise ValueError(f"{self.rate} must be asked to be in (0, 1], got {self.p0!r}")
        object.__setattr__(self, "p0", float(self.p0))  # numpy's numbers do not read back

    @property
    def name(self) -> str:
        """Of the measure, without group and costs."""
        return self.rate.name

    @property
    def on_new_data(self) -> bool:
        """Whether it can be asked of other points than those given to `fit`."""
        return self.name != "cases"

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Read ``"tpr>=0.9"``, ``"tpr[north]>=0.9"`` or ``"cost(fn=5,fp=1)<=0.3"``."""
        cases = _CASES.fullmatch(text)
        if cases is not None:
            return at_least(int(cases[1]), of=[int(place) for place in cases[2].split(",")])
        try:
            return _parse(text)
        except (TypeError, ValueError) as error:
            raise ValueError(f"cannot read the constraint {text!r}: {error}") from None

    def each(self, groups: Any) -> list[Constraint]:
        """This constraint, or one for every group if it is about every one of them."""
        if self.rate.group != EVERY_GROUP:
            return [self]
        if groups is None:
            self.rate.within(0, None)  # refuses
        names = np.unique(group_names(groups, len(groups)))
        return [Constraint(replace(self.rate, group=str(name)), self.p0) for name in names]

    def value(
        self, y_true: Any, y_pred: Any, groups: Any = None, sample_weight: Any = None
    ) -> float:
        """The measure on these points; for ``[*]`` of the worst group that it can be told of.

        Parameters
        ----------
        y_true, y_pred : array (n,)
            Positive where > 0.
        groups : array (n,), optional
        sample_weight : array (n,), optional

        Returns
        -------
        float
            NaN if no point is concerned. A share of predictions that are never made is 1.
        """
        if self.rate.group == EVERY_GROUP:
            found = [
                one.value(y_true, y_pred, groups, sample_weight) for one in self.each(groups)
            ]
            known = [value for value in found if not np.isnan(value)]
            worst = max if self.name == "cost" else min
            return worst(known, default=np.nan)
        return self.rate.value(self._table(y_true, y_pred, groups, sample_weight))

    def met(
        self, y_true: Any, y_pred: Any, groups: Any = None, sample_weight: Any = None
    ) -> bool:
        """Whether the measure is as asked on these points; an error if no point is concerned."""
        value = self.value(y_true, y_pred, groups, sample_weight)
        if np.isnan(value):
            raise ValueError(f"{self} cannot be told: no point, or none of a class, is concerned")
        tolerance = _ROUNDING * max(1.0, self.p0)
        return bool(value <= self.p0 + tolerance if self.name == "cost" else
                    value >= self.p0 - tolerance)

    def counts(self, y_true: Any, y_pred: Any, groups: Any = None) -> tuple[int, int] | None:
        """(right, of how many) where the measure is a share of points, else None.

        So it can be tested as a binomial. Of ``precision`` and ``npv`` the share is of the points
        predicted so; for ``[*]`` ask `each` of the constraints.
        """
        if self.rate.group == EVERY_GROUP:
            raise ValueError(f"{self} has counts for every group: ask each(groups)")
        if self.name in ("f1", "balanced_accuracy", "cost"):
            return None
        right, of = self.rate.share(self._table(y_true, y_pred, groups, None))
        return int(right), int(of)

    def _table(self, y_true: Any, y_pred: Any, groups: Any, sample_weight: Any) -> Confusion:
        positive, predicted = _positive("y_true", y_true), _positive("y_pred", y_pred)
        if positive.ndim != 1 or positive.shape != predicted.shape:
            raise ValueError(
                f"y_true and y_pred must be one-dimensional and equally long, got shapes "
                f"{positive.shape} and {predicted.shape}"
            )
        weights = _weights(sample_weight, len(positive))
        members = self.rate.members(positive, groups)
        return Confusion.of(positive, positive == predicted, np.where(members, weights, 0.0))

    def __bool__(self) -> bool:
        # Else `a and b` and `0.8 <= rate <= 0.9` would silently be their last part alone.
        raise TypeError(_NO_TRUTH.format(f"the constraint {self}"))

    @property
    def _sign(self) -> str:
        return "<=" if self.name == "cost" else ">="

    @property
    def text(self) -> str:
        """With all digits and cases, for `parse`."""
        if self.name == "cases":
            places = ",".join(map(str, self.rate.cases))
            return f"at_least({round(self.p0 * len(self.rate.cases))},of=[{places}])"
        costs = f"(fn={self.rate.fn!r},fp={self.rate.fp!r})" if self.name == "cost" else ""
        group = "" if self.rate.group is None else f"[{self.rate.group}]"
        return f"{self.name}{costs}{group}{self._sign}{self.p0!r}"

    def __str__(self) -> str:
        if self.name == "cases":
            n = len(self.rate.cases)
            return f"at least {round(self.p0 * n)} of {n} cases"
        return f"{self.rate}{self._sign}{self.p0:g}"

    def __repr__(self) -> str:
        return f"Constraint('{self}')"


def _positive(name: str, labels: Any) -> np.ndarray:
    """Which labels are positive; refuses what is no number."""
    array = np.asarray(labels)
    if array.dtype != bool:
        array = real_array(name, array)
        if np.isnan(array).any():
            raise ValueError(f"{name} holds NaN at position {int(np.argmax(np.isnan(array)))}")
    return array > 0


def _weights(sample_weight: Any, n: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n)
    array = real_array("sample_weight", sample_weight)
    if array.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError("sample_weight must be finite and >= 0")
    return array


# -- text -------------------------------------------------------------------------------------

_CASES = re.compile(r"\s*at_least\(\s*(\d+)\s*,\s*of\s*=\s*\[([\d\s,]+)\]\s*\)\s*")
_RATE = re.compile(
    r"\s*(?P<name>[A-Za-z_0-9]+)\s*(?:\((?P<costs>[^()]*)\))?\s*(?:\[(?P<group>.+)\])?\s*"
    r"(?P<sign>>=|≥|<=|≤|==|=|<|>)\s*(?P<number>\S+)\s*"
)
_COSTS = re.compile(r"\s*fn\s*=\s*(\S+?)\s*,\s*fp\s*=\s*(\S+?)\s*")


_COMPARED = {">=": operator.ge, "≥": operator.ge, "<=": operator.le, "≤": operator.le}


def _parse(text: str) -> Constraint:
    without_groups = re.sub(r"\[[^\]]*\]", "", text)
    if re.match(r"[^<>=≥≤]*[-/+|]", without_groups):
        raise ValueError(_NO_DIFFERENCE)
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError("write for example 'tpr>=0.9'")
    rate = _parse_rate(match["name"], match["costs"], match["group"])
    number = match["number"]
    if re.match(r"[A-Za-z_0-9]+\[", number) or number in _NAMES:
        raise ValueError(_NO_DIFFERENCE)
    return _COMPARED.get(match["sign"], operator.lt)(rate, _parse_number(number))


def _parse_rate(name: str, costs: str | None, group: str | None) -> Rate:
    if name != "cost":
        if costs is not None:
            raise ValueError(f"{name} takes no costs")
        return Rate(name, group)
    found = _COSTS.fullmatch(costs or "")
    if found is None:
        raise ValueError("say what errors cost, for example 'cost(fn=5,fp=1)<=0.3'")
    return Rate(name, group, _parse_number(found[1]), _parse_number(found[2]))


def _parse_number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"cannot read the number {value!r}") from None


def parse_constraints(
    constraints: str | Constraint | Iterable[str | Constraint],
) -> list[Constraint]:
    """Constraints from what a user writes: one or several, as text or as `Constraint`."""
    if isinstance(constraints, (str, Constraint)):
        constraints = [constraints]
    if not isinstance(constraints, Iterable):
        raise TypeError(
            "constraints must be one or several, written 'tpr>=0.9' or csvm.tpr >= 0.9, got "
            f"{constraints!r}"
        )
    parsed: list[Constraint] = []
    for item in constraints:
        if isinstance(item, str):
            item = Constraint.parse(item)
        if not isinstance(item, Constraint):
            raise TypeError(
                f"a constraint is written 'tpr>=0.9' or csvm.tpr >= 0.9, got {item!r}"
            )
        if any(item.rate == other.rate for other in parsed):
            raise ValueError(f"{item.rate} is constrained more than once")
        parsed.append(item)
    return parsed
