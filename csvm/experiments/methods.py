"""The four methods of the paper on one part of the data, along the grid of costs.

The kernel matrix is computed once per gamma. Along C each CSVM search starts from the last
solution, which stays feasible: costs do not enter the constraint.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.svm import SVC

import bnb

from ..estimator import start_near
from ..kernels import rbf
from ..search import CSVMProblem, Instance, slack_costs
from ..sliding import slide
from ..thresholds import AnchorWarning, threshold_count
from .protocol import Part

__all__ = ["Kernels", "Search", "csvm_path", "required_count", "slide_svm", "svm"]

_BOUNDARY = 1e-9  # how far beyond the boundary a slid anchor lies, to survive rounding


@dataclass(frozen=True)
class Kernels:
    """The kernel matrices of a part at one gamma.

    Parameters
    ----------
    part : Part
    training : ndarray
        Between the points.
    validation : ndarray
        Between the validation points and the points.
    """

    part: Part
    training: np.ndarray
    validation: np.ndarray

    @classmethod
    def at(cls, part: Part, gamma: float) -> Kernels:
        """Compute them."""
        return cls(part, rbf(part.points, gamma=gamma), rbf(part.X_val, part.points, gamma=gamma))


@dataclass(frozen=True)
class Search:
    """What is asked of a CSVM search, and its limits.

    Parameters
    ----------
    required : float
        Weight of the anchors that must have margin one.
    time_limit, gap : float
        See `bnb.solve`.
    shared : bool
        Whether C is shared by the points of a class.
    """

    required: float
    time_limit: float
    gap: float
    shared: bool


def required_count(part: Part, p0: float, alpha: float) -> float:
    """Weight of the anchors to be well classified: min{1, p0 + Hoeffding} of all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorWarning)  # the paper's min{1, ...} is meant
        return threshold_count(p0, part.weights[part.anchors].sum(), "hoeffding", alpha)


def svm(kernels: Kernels, C_pos: float, C_neg: float) -> tuple[np.ndarray, np.ndarray]:
    """Decision values of an SVM trained on I and J: on the validation points, on its own."""
    part = kernels.part
    model = SVC(kernel="precomputed", C=1.0, class_weight={1.0: C_pos, -1.0: C_neg})
    model.fit(kernels.training, part.labels, sample_weight=part.weights)
    used, coefficients = model.support_, model.dual_coef_[0]
    return (
        kernels.validation[:, used] @ coefficients + model.intercept_[0],
        kernels.training[:, used] @ coefficients + model.intercept_[0],
    )


def slide_svm(part: Part, decision: np.ndarray, required: float) -> float:
    """What must be added to an SVM's decision until enough anchors are well classified."""
    on_anchors, weights = decision[part.anchors], part.weights[part.anchors]
    margin = _BOUNDARY * max(1.0, float(np.abs(on_anchors).max()))
    moved = slide(
        on_anchors, np.ones(len(weights)), weights[None, :], np.array([required]), margin=margin,
        scale=False,
    )
    assert moved is not None  # one rate on one class can always be met
    return moved[1]


def csvm_path(
    kernels: Kernels, costs: Sequence[float], search: Search
) -> Iterator[tuple[np.ndarray, bnb.Result]]:
    """Decision values on the validation points and the search, for each C in turn.

    Parameters
    ----------
    kernels : Kernels
    costs : sequence of float
        Values of C, best in increasing or decreasing order.
    search : Search
    """
    part = kernels.part
    used = np.append(np.arange(part.first), part.anchors)
    K, y, weights = kernels.training[np.ix_(used, used)], part.labels[used], part.weights
    x = None
    for C in costs:
        cost = slack_costs(
            y[: part.first], C, weights[: part.first], per_class=search.shared
        )
        instance = Instance(
            K, y, cost, weights[None, part.anchors], np.array([search.required])
        )
        problem, start = CSVMProblem(instance), None
        # With nothing to give up there is one convex problem: a start would cost as much.
        if x is not None and instance.budgets.any():
            start = start_near(problem, instance.kept(x), x[:-1])
        result = bnb.solve(
            problem, branching="first", gap=search.gap, time_limit=search.time_limit, start=start
        )
        if result.reason is bnb.Reason.INTERRUPT:
            raise KeyboardInterrupt  # half a search must not be stored as a whole one
        x = result.x
        if x is None:
            raise RuntimeError(
                f"no classifier was found in {search.time_limit:g} s (C={C:g}): raise the time "
                "limit of a fit"
            )
        yield 0.5 * kernels.validation[:, used] @ x[:-1] + x[-1], result
