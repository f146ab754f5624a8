"""What a fit with anchors is given: checked, coded and split."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from .anchors import Anchors, split_anchors
from .groups import group_names, take_groups
from .labels import Labels, check_weights
from .rates import check_groups, chosen_cases, concerned, parse_constraints
from .requirements import Requirement, requirements


@dataclass(frozen=True)
class Given:
    """Points with their labels, the positions of training points and anchors, and what is asked."""

    points: np.ndarray
    labels: np.ndarray
    coded: Labels
    weights: np.ndarray
    groups: np.ndarray | None
    training: np.ndarray
    anchors: np.ndarray
    asked: list[Requirement]

    @cached_property
    def counted(self) -> np.ndarray:
        """Which anchors some rate is about: no others enter the problem."""
        return np.any([r.weights > 0 for r in self.asked], axis=0)

    @property
    def used(self) -> np.ndarray:
        """The positions of those."""
        return self.anchors[self.counted]


def take(
    model: Any, X: Any, y: Any, sample_weight: Any, anchors: Anchors | None, groups: Any, *,
    precomputed: bool = False,
) -> Given:
    """Check what an estimator is given, and choose the anchors by its parameters."""
    constraints = parse_constraints(model.constraints)
    X, groups, model.group_column_ = take_groups(X, groups)
    points, labels = validate_data(model, X, y, dtype=np.float64, ensure_min_samples=2)
    coded = Labels.of(labels, model.pos_label)
    weights = check_weights(sample_weight, points)
    names = None if groups is None else group_names(groups, len(points))
    check_groups(constraints, names)
    training, chosen = split_anchors(
        model.anchors if anchors is None else anchors, coded.signs,
        X=None if precomputed else points, weights=weights,
        about=concerned(constraints, coded.signs, names), strata=names,
        always=chosen_cases(constraints, len(points)), random_state=model.random_state,
    )
    asked = requirements(
        constraints, coded.signs[chosen], weights[chosen], threshold=model.threshold,
        alpha=model.alpha, groups=None if names is None else names[chosen], positions=chosen,
    )
    return Given(points, labels, coded, weights, names, training, chosen, asked)
