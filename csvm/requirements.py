"""From constraints to the rows that a search needs, and back to what a classifier achieves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bnb.options import Options

from .rates import Confusion, Constraint
from .thresholds import threshold_count, threshold_sum


class MissingAnchorsError(ValueError):
    """A rate is asked of points of which there are no anchors."""


@dataclass(frozen=True)
class Requirement:
    """What a constraint, of one group or of all points, asks of the m anchors."""

    constraint: Constraint
    weights: np.ndarray  # n_j of each anchor in the row, 0 for those it is not about
    required: float  # k, the weight that must be well classified
    y: np.ndarray  # labels, +1 or -1
    points: np.ndarray  # how many points each anchor stands for in the measure

    @property
    def unit(self) -> str:
        """What `required` counts."""
        if self.constraint.rate.is_share:
            return "anchors"
        parts = []
        for kind, label in (("positive", 1), ("negative", -1)):
            members = np.flatnonzero((self.y == label) & (self.points > 0))
            if members.size:
                each = self.weights[members[0]] / self.points[members[0]]
                parts.append(f"{each:g} for every {kind} anchor")
        return f"({', '.join(parts)})"

    def value(self, right: np.ndarray) -> float:
        """The measure where these anchors are classified well."""
        return self.constraint.rate.value(Confusion.of(self.y > 0, right, self.points))

    def only(self, anchors: np.ndarray) -> Requirement:
        """The same for some of the anchors, which must hold all that have weight."""
        return Requirement(
            self.constraint, self.weights[anchors], self.required, self.y[anchors],
            self.points[anchors],
        )


@dataclass(frozen=True)
class RateReport:
    """How a fitted classifier does on one constraint.

    Of a share of anchors, `required`, `total` and `counted` are numbers of anchors (or weights
    where those were given). Other measures weigh positives and negatives differently in their row,
    and the three are sums of these weights.

    Parameters
    ----------
    rate : str
        The measure, with its group.
    asked : float
        p0.
    required, total : float
        How many anchors must be well classified, and of how many.
    counted : float
        How many have margin one, as the model counts.
    achieved : float
        The measure on the anchors.
    """

    rate: str
    asked: float
    required: float
    total: float
    counted: float
    achieved: float


def requirements(
    constraints: Iterable[Constraint], y: np.ndarray, weights: np.ndarray, *,
    threshold: str = "exact", alpha: float = 0.05, groups: np.ndarray | None = None,
    positions: np.ndarray | None = None,
) -> list[Requirement]:
    """What the constraints ask of anchors with labels `y`, one row for each (and for each group).

    `weights` say how many points each anchor stands for, `positions` where it is among the points
    that chosen cases are counted in. For `threshold` and `alpha` see `threshold_count`; chosen
    cases are counted as they are, and one by one.
    """
    found = []
    for constraint in constraints:
        for one in constraint.each(groups):
            if one.name == "cases":
                found.append(_cases(one, y, positions))
            else:
                found.append(_requirement(one, y, weights, threshold, alpha, groups))
    return found


def _cases(constraint: Constraint, y: np.ndarray, positions: np.ndarray | None) -> Requirement:
    places = np.arange(len(y)) if positions is None else positions
    chosen = np.isin(places, constraint.rate.cases).astype(float)
    missing = len(constraint.rate.cases) - int(chosen.sum())
    if missing:
        raise ValueError(f"{constraint}: {missing} of them are no anchors (of weight > 0)")
    count = float(round(constraint.p0 * chosen.sum()))
    return Requirement(constraint, chosen, count, y, chosen)


def _requirement(
    constraint: Constraint, y: np.ndarray, weights: np.ndarray, threshold: str, alpha: float,
    groups: np.ndarray | None,
) -> Requirement:
    rate, p0 = constraint.rate, constraint.p0
    points = np.where(rate.members(y, groups), weights, 0.0)
    positives, negatives = float(points[y > 0].sum()), float(points[y < 0].sum())
    _check_anchors(constraint, positives, negatives, groups)
    at_positive, at_negative, nominal = rate.row(p0, positives, negatives)
    units = np.where(y > 0, at_positive, at_negative)
    if rate.is_share:
        required = threshold_count(p0, positives + negatives, threshold, alpha, str(constraint))
    else:
        required = threshold_sum(nominal, units, points, threshold, alpha, str(constraint))
    return Requirement(constraint, units * points, required, y, points)


def _check_anchors(
    constraint: Constraint, positives: float, negatives: float, groups: np.ndarray | None
) -> None:
    """Refuse what there are no anchors for."""
    both = constraint.name == "balanced_accuracy"
    group = constraint.rate.group
    if positives + negatives > 0 and not (both and min(positives, negatives) <= 0):
        return
    kind = {"tpr": "positive ", "tnr": "negative "}.get(constraint.name, "")
    if both:
        kind = "positive " if positives <= 0 else "negative "
    where = ""
    if group is not None and groups is not None:
        known = ", ".join(np.unique(groups.astype(str))[:10])
        where = f" in the group {group!r} (groups of the anchors: {known})"
    raise MissingAnchorsError(
        f"{constraint} cannot be asked: there are no {kind}anchors{where}; give more points, or "
        "other anchors"
    )


def report(
    asked: Iterable[Requirement], margins: np.ndarray, margin: float = 1.0
) -> list[RateReport]:
    """How a classifier with these margins y_j f(x_j) on the anchors does.

    An anchor counts if it reaches `margin`, up to what the search lets pass.
    """
    counts = margins >= margin * (1.0 - Options.feasibility)
    return [
        RateReport(
            str(r.constraint.rate), r.constraint.p0, r.required, float(r.weights.sum()),
            float(r.weights[counts].sum()), r.value(margins > 0),
        )
        for r in asked
    ]
