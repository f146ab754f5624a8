"""The constrained support vector machine as a scikit-learn estimator."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

import bnb
from bnb import Reason, Result, Status
from bnb.checkpoint import OtherProblemError
from bnb.options import Options
from bnb.result import Tolerance
from relaxations.patience import FOR_EVER, Patience

from . import persistence
from .anchors import Anchors
from .feasibility import Feasibility, InfeasibleRatesError
from .given import Given, take
from .groups import without_groups
from .jobs import workers
from .kernels import KERNELS, Kernel, check_psd, gram, low_rank, resolve_gamma
from .labels import ClassWeight, TwoClasses, class_factors
from .rates import Constraint
from .requirements import RateReport, Requirement, report
from .search import CSVMProblem, Instance
from .search.compiled import warm_up

NODE_SOLVERS = ("auto", "smo", "osqp")

_LARGEST = 1e100  # of the kernel matrix: products with costs and multipliers must not overflow
_SCALE_X = "scale the features, for example with sklearn.preprocessing.StandardScaler"
_LARGE = 1e6  # entries of the kernel matrix beyond this are better left as they are
_SMALL_RANK = 0.2  # of the number of points: then products with a factor are the cheaper ones
_BLURRED = 0.1  # rounding of a margin, which is one, beyond which it says nothing
_SHORT = Options.feasibility  # what a margin may lack of one
_SAME = 1e-9  # relative difference that is rounding
_SAVE_EVERY = 10.0  # seconds between two checkpoints
_CHECK_SHARE = 0.1  # of the time limit, at most, goes into looking for contradictions beforehand


class ConstantClassifierWarning(UserWarning):
    """All points get the same class, since slack costs too little."""


class CSVM(TwoClasses, BaseEstimator):
    """Support vector machine whose rates hold on anchors, solved to proven optimality.

    The data are split into training points I and anchors J. Of all classifiers
    f(x) = w'phi(x) + beta that classify enough anchors well, with margin one, it is the one with
    least ||w||^2 / 2 + C sum_I xi_i. Where no rate binds that is `sklearn.svm.SVC` on I.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable
        Must be positive semidefinite on the data.
    C : float
        Slack cost of a point, as in `sklearn.svm.SVC`.
    class_weight : None, "balanced" or dict
        Factors of C for the classes, as in `sklearn.svm.SVC`; "balanced" counts the training
        points. It makes up for anchors, which have no slack, being taken from one class only.
    gamma : {"scale", "auto"} or float
        Of the kernels "rbf", "poly" and "sigmoid".
    degree : int
        Of the kernel "poly".
    coef0 : float
        Of the kernels "poly" and "sigmoid".
    constraints : sequence of str or Constraint
        Rates asked for, as ``"tpr>=0.9"`` or ``csvm.tpr >= 0.9``; also ``tnr``, ``accuracy``,
        ``precision``, ``npv``, ``f1``, ``balanced_accuracy`` and ``cost``, of all points, of a
        group (``"tpr[north]>=0.9"``) or of every group (``"tpr[*]>=0.85"``); and chosen cases, with
        `csvm.at_least` and `csvm.all_of`.
    alpha : float
        Level at which the anchors must reject that a rate is lower than asked.
    threshold : {"hoeffding", "normal", "exact", "none"}
        From a rate to a number of anchors; see `csvm.thresholds.threshold_count`. Each is a test
        of a classifier fixed beforehand, but the anchors also choose the classifier: rates are
        promised on the anchors only, and are often missed on new data, whatever the threshold.
    anchors : float, "second-half", positions or mask
        Which points are anchors; see `csvm.anchors.split_anchors`.
    node_solver : {"auto", "smo", "osqp"}
        Solver of the convex problems inside the search. Where "smo" or "osqp" cannot finish them,
        the search is done again with "auto", and a ConvergenceWarning says so.
    time_limit : float
        Seconds for `fit`; the best classifier found by then is used.
    gap : float
        Relative gap at which a classifier counts as optimal; an absolute gap of 1e-9 does, too.
    n_jobs : int, optional
        Processes that search at once, -1 for as many as there are processors; with joblib's
        backend "dask", as many as that on its cluster. Inside another parallel job it is one.
    checkpoint : path, optional
        File to which the search is saved as it goes on. A fit that finds it there, because it was
        killed or its time was up, goes on from it, if data and parameters are the same (give a
        fixed `random_state` or anchors); once the classifier is proven optimal it is removed.
    pos_label : optional
        The positive class; by default the greater of the two labels.
    random_state : int, RandomState or None
        Draws the anchors.
    verbose : {0, 1, 2}
        Whether to print the search log: 1 with times, 2 without.

    Attributes
    ----------
    classes_ : ndarray (2,)
    support_ : ndarray of int
        Positions of the support vectors in the data given to `fit`.
    support_vectors_ : ndarray
        The points themselves; empty for a precomputed kernel.
    dual_coef_ : ndarray (1, number of support vectors)
    intercept_ : ndarray (1,)
    coef_ : ndarray (1, d)
        w, for the linear kernel.
    anchors_ : ndarray of int
        Positions of the anchors.
    given_up_ : ndarray of int
        Positions of the anchors that have no margin one though a rate is about them.
    rates_ : list of RateReport
        For every constraint, and every group of it, what was asked, required and achieved on the
        anchors.
    groups_ : list of str or None
        The groups given to `fit`.
    group_column_ : str or None
        The column that held them; it is not needed to predict.
    result_ : bnb.Result
        The search: status, bound, gap, nodes, time. Its objective is ||w||^2 + 2 C sum_I xi_i.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import csvm
    >>> X, y = csvm.datasets.load("wisconsin")
    >>> X = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> model = csvm.CSVM(constraints=["tpr>=0.9"], random_state=0).fit(X, y)
    >>> model.result_.optimal
    True
    """

    def __init__(
        self,
        *,
        kernel: Kernel = "rbf",
        C: float = 1.0,
        class_weight: ClassWeight = "balanced",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        constraints: str | Constraint | Iterable[str | Constraint] = ("tpr>=0.9",),
        alpha: float = 0.05,
        threshold: str = "exact",
        anchors: Anchors = 0.5,
        node_solver: str = "auto",
        time_limit: float = 60.0,
        gap: float = 1e-4,
        n_jobs: int | None = None,
        checkpoint: str | Path | None = None,
        pos_label: Any = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.class_weight = class_weight
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.constraints = constraints
        self.alpha = alpha
        self.threshold = threshold
        self.anchors = anchors
        self.node_solver = node_solver
        self.time_limit = time_limit
        self.gap = gap
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.pos_label = pos_label
        self.random_state = random_state
        self.verbose = verbose

    # -- fitting ------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, anchors: Anchors | None = None, *,
        sensitive_features: Any = None,
    ) -> CSVM:
        """Find the classifier.

        Parameters
        ----------
        X : array or DataFrame (n, d), or kernel matrix (n, n)
        y : array (n,)
            Two classes.
        sample_weight : array (n,), optional
            How many points each one stands for: weighs slack costs and the counts of anchors.
        anchors : optional
            Overrides the parameter of the same name.
        sensitive_features : array (n,) or str, optional
            The group of every point, for rates of groups; or the column of the DataFrame `X` that
            holds it, which is then no feature.

        Raises
        ------
        InfeasibleRatesError
            If the rates contradict each other.
        """
        return self._fit(X, y, sample_weight, anchors, sensitive_features, _Neighbour())

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, anchors: Anchors | None, groups: Any,
        near: _Neighbour,
    ) -> CSVM:
        """Fit, starting from what a model with other parameters left."""
        self._check_parameters()
        precomputed = self.kernel == "precomputed"
        given = take(self, X, y, sample_weight, anchors, groups, precomputed=precomputed)
        if not given.asked:
            raise ValueError("constraints is empty: without any, use sklearn.svm.SVC")
        points, counted = given.points, given.counted
        if precomputed and points.shape[0] != points.shape[1]:
            raise ValueError(f"a precomputed kernel matrix must be square, got {points.shape}")
        self._gamma = 1.0 if precomputed else resolve_gamma(self.gamma, points, given.weights)
        self.groups_ = None if given.groups is None else np.unique(given.groups).tolist()
        factors = class_factors(self.class_weight, given.coded, given.training, given.weights)
        cost = 2.0 * self.C * factors * given.weights[given.training]  # ||w||^2 without its half
        order = np.concatenate([given.training, given.used])
        kernel, is_factor = near.kernel(self, points, order)
        asked = [r.only(counted) for r in given.asked]
        instance = Instance(
            kernel, given.coded.signs[order], cost, np.array([r.weights for r in asked]),
            np.array([r.required for r in asked]), is_factor=is_factor,
        )
        del kernel  # the instance has a copy
        self.result_ = self._solve(instance, asked, near.kept(given.used))
        self._keep(given, instance, order)
        return self

    def _keep(self, given: Given, instance: Instance, order: np.ndarray) -> None:
        """The classifier of the result, and its rates on all anchors."""
        x, coded, points, counted = self.result_.x, given.coded, given.points, given.counted
        assert x is not None
        decision = instance.decision(x)
        _check_rounding(instance, x)
        if np.all(decision > 0) or np.all(decision < 0):
            warnings.warn(
                "every point gets the same class: slack costs too little beside ||w||^2 and the "
                "rates; raise C", ConstantClassifierWarning, stacklevel=4,
            )
        margins = np.empty(len(given.anchors))
        margins[counted] = (coded.signs[order] * decision)[len(given.training) :]
        support = np.flatnonzero(x[:-1])
        self.classes_ = coded.classes
        self.anchors_ = given.anchors
        self.given_up_ = given.used[margins[counted] < 1.0 - _SHORT]
        self.support_ = order[support]
        precomputed = self.kernel == "precomputed"
        self.support_vectors_ = points[:0] if precomputed else points[self.support_]
        self.dual_coef_ = 0.5 * coded.orientation * x[:-1][support][None, :]
        self.intercept_ = np.array([coded.orientation * x[-1]])
        if not counted.all():  # some measures are also about anchors that their row gives no weight
            others = given.anchors[~counted]
            margins[~counted] = (
                coded.signs[others] * coded.orientation * self._decide(points[others])
            )
        self.rates_: list[RateReport] = report(given.asked, margins)
        _check_rates(self.rates_)

    def _check_parameters(self) -> None:
        for name in ("C", "time_limit"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not float(value) > 0:
                raise ValueError(f"{name} must be a number > 0, got {value!r}")
            if name == "C" and not np.isfinite(float(value)):
                raise ValueError(f"{name} must be finite, got {value!r}")
        if not callable(self.kernel) and self.kernel not in KERNELS:
            raise ValueError(
                f"kernel must be one of {', '.join(KERNELS)} or callable, got {self.kernel!r}"
            )
        if isinstance(self.coef0, bool) or not (
            isinstance(self.coef0, Real) and np.isfinite(float(self.coef0))
        ):
            raise ValueError(f"coef0 must be a finite number, got {self.coef0!r}")
        if self.kernel == "poly" and not (isinstance(self.degree, Integral) and self.degree >= 1):
            raise ValueError(f"degree must be an integer >= 1, got {self.degree!r}")
        n_jobs = self.n_jobs
        if n_jobs is not None and (
            isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0
        ):
            raise ValueError(
                "n_jobs must be None, an integer >= 1, or -1 for all processors (-2 for all but "
                f"one, and so on), got {n_jobs!r}"
            )
        if self.node_solver not in NODE_SOLVERS:
            raise ValueError(
                f"node_solver must be one of {', '.join(NODE_SOLVERS)}, got {self.node_solver!r}"
            )

    def _kernel(self, X: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, bool]:
        """The kernel matrix of these points, or a factor of it where its rank is small."""
        if self.kernel == "linear" and X.shape[1] <= _SMALL_RANK * len(order):
            with np.errstate(over="ignore"):
                self._check_range(float((X[order] ** 2).sum(axis=1).max()))
            return X[order], True
        if self.kernel == "precomputed":
            K = np.ascontiguousarray(X[np.ix_(order, order)])
        else:
            K = self._gram(X[order], None)
        largest = float(np.abs(K).max())
        self._check_range(largest)
        always = self.kernel in ("linear", "rbf") or (self.kernel == "poly" and self.coef0 >= 0)
        if not always:
            check_psd(K)
        # A factor is off by rounding, which large entries would turn into margins.
        Z = low_rank(K, _SMALL_RANK) if largest <= _LARGE else None
        return (K, False) if Z is None else (Z, True)

    def _check_range(self, largest: float) -> None:
        if not np.isfinite(largest):
            raise ValueError(f"the kernel matrix of X holds NaN or infinity; {_SCALE_X}")
        if largest > _LARGEST or 0.0 < largest < 1.0 / _LARGEST:
            raise ValueError(
                f"the largest entry of the kernel matrix is {largest:.3g}, out of the range in "
                f"which float64 can be calculated with; {_SCALE_X}"
            )

    def _gram(self, X: np.ndarray, Y: np.ndarray | None) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # told below
            K = gram(self.kernel, X, Y, gamma=self._gamma, degree=self.degree, coef0=self.coef0)
        if not np.isfinite(K).all():
            raise ValueError(f"the kernel matrix of X holds NaN or infinity; {_SCALE_X}")
        return K

    def _solve(
        self, instance: Instance, asked: list[Requirement], kept: np.ndarray | None
    ) -> Result:
        # Not in the time that was given.
        warm_up(instance.is_factor, instance.rates_both_classes)
        patience = Patience(time.monotonic() + self.time_limit)
        _refuse_conflict(instance, asked, _CHECK_SHARE * self.time_limit)
        problem = CSVMProblem(instance, self.node_solver)
        start = None
        # With nothing to give up there is one convex problem: a start would cost as much.
        if kept is not None and instance.budgets.any():
            start = start_near(problem, kept, patience=patience)
        result = self._search(problem, start, patience, self.checkpoint)
        if self.node_solver != "auto" and _unproven_leaves(result) and not patience.expired():
            warnings.warn(
                f"node_solver={self.node_solver!r} could not finish the convex problems of the "
                f"search; it is done again with 'auto'. It helps to {_SCALE_X}",
                ConvergenceWarning, stacklevel=5,
            )
            problem = CSVMProblem(instance, "auto")
            again = None if self.checkpoint is None else f"{self.checkpoint}.auto"
            result = self._search(problem, result.x, patience, again)
        if result.x is not None:
            return _polish(problem, result, self.gap, patience)
        _refuse_conflict(instance, asked, patience.seconds())
        rates = ", ".join(str(r.constraint) for r in asked)
        if result.status is Status.INFEASIBLE:
            raise RuntimeError(
                f"every classifier with the rates {rates} has an objective above "
                f"{instance.hopeless:.3g}: they contradict each other, or features are so "
                f"small beside C that you should {_SCALE_X}"
            )
        raise RuntimeError(
            f"no classifier with the rates {rates} was found, and none was proven not to exist, "
            f"when the search ended after {result.seconds:.3g} s: {result.reason.value}"
        )

    def _search(
        self, problem: CSVMProblem, start: np.ndarray | None, patience: Patience,
        checkpoint: str | Path | None,
    ) -> Result:
        try:
            result = bnb.solve(  # the problem knows best in which order to branch
                problem, branching="first", gap=self.gap, start=start, verbose=self.verbose,
                time_limit=max(patience.seconds(), 1e-3), checkpoint=checkpoint,
                checkpoint_interval=_SAVE_EVERY, resume=checkpoint is not None,
                **workers(self.n_jobs),
            )
        except OtherProblemError:
            raise ValueError(
                f"checkpoint: {checkpoint} was written by a fit with other data or parameters, or "
                "with other anchors, which a fixed random_state draws again; remove it to begin "
                "anew"
            ) from None
        if result.optimal and checkpoint is not None:
            Path(checkpoint).unlink(missing_ok=True)
        return result

    @property
    def coef_(self) -> np.ndarray:
        """The weights w of a linear classifier, (1, d)."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only there with kernel='linear'")
        return self.dual_coef_ @ self.support_vectors_

    # -- using --------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> np.ndarray:
        """f(x); positive means ``classes_[1]``.

        Parameters
        ----------
        X : array or DataFrame (n, d)
            For a precomputed kernel the matrix between these points and those given to `fit`.
        """
        check_is_fitted(self)
        X = without_groups(X, self.group_column_)
        return self._decide(validate_data(self, X, dtype=np.float64, reset=False))

    def _decide(self, points: np.ndarray) -> np.ndarray:
        if self.kernel == "precomputed":
            K = points[:, self.support_]
        else:
            K = self._gram(points, self.support_vectors_)
        return K @ self.dual_coef_[0] + self.intercept_[0]

    def save(self, path: str | Path) -> None:
        """Write the fitted model to an npz file that holds arrays and text only."""
        check_is_fitted(self)
        persistence.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> CSVM:
        """Read a model written by `save`; runs no code from the file."""
        return persistence.load(cls, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def fit_path(
    estimator: CSVM, X: Any, y: Any, parameters: Iterable[Mapping[str, Any]], *,
    sample_weight: Any = None, anchors: Anchors | None = None, sensitive_features: Any = None,
) -> list[CSVM]:
    """Fit a model for each of neighbouring parameters, each search starting from the last one.

    As long as neither the kernel nor its points change, its matrix is computed once. Ctrl-C ends
    the whole path (KeyboardInterrupt): half a search is no neighbour to start from.

    Parameters
    ----------
    estimator : CSVM
        Copied; give it a fixed `random_state` or anchors, so that all fits share the anchors.
    X, y, sample_weight, anchors, sensitive_features
        As for `CSVM.fit`.
    parameters : iterable of dict
        For example ``[{"C": C} for C in (1, 2, 4)]``.

    Returns
    -------
    list of CSVM
    """
    models: list[CSVM] = []
    near = _Neighbour(shared=True)
    for changes in parameters:
        model = clone(estimator).set_params(**changes)
        near.last = model._fit(X, y, sample_weight, anchors, sensitive_features, near)
        if model.result_.reason is Reason.INTERRUPT:
            raise KeyboardInterrupt
        models.append(model)
    return models


@dataclass
class _Neighbour:
    """What a fit can take over from the last one along a path."""

    shared: bool = False  # whether a further fit may need the kernel matrix
    last: CSVM | None = None
    _key: Any = None
    _value: tuple[np.ndarray, bool] | None = None

    def kernel(self, model: CSVM, points: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, bool]:
        """The kernel matrix or its factor, computed anew only if it is another one."""
        if not self.shared:
            return model._kernel(points, order)
        key = (model.kernel, model._gamma, model.degree, model.coef0, order.tobytes())
        if self._value is None or key != self._key:
            self._value = None  # two of them may not fit into memory
            self._key, self._value = key, model._kernel(points, order)
        return self._value

    def kept(self, used: np.ndarray) -> np.ndarray | None:
        """Which of these anchors the last model does not give up."""
        return None if self.last is None else ~np.isin(used, self.last.given_up_)


def _refuse_conflict(data: Instance, asked: list[Requirement], seconds: float) -> None:
    """Raise if so many seconds are enough to prove that the rates contradict each other."""
    at = slice(data.first, data.n)
    kernel = data.gram.Z[at] if data.is_factor else data.gram.K[at, at]
    anchors = Feasibility(kernel, data.p[at], data.is_factor, data.hopeless)
    conflict = anchors.find_conflict(asked, seconds)
    if conflict is not None:
        raise InfeasibleRatesError(str(conflict))


def start_near(
    problem: CSVMProblem, kept: np.ndarray, t: np.ndarray | None = None, tolerance: float = 1e-6,
    patience: Patience = FOR_EVER,
) -> np.ndarray | None:
    """A solution that keeps these anchors, improved by alternation; None if there is none.

    It starts from multipliers `t`, for example those of a solution with other costs. When patience
    ends, what was found so far is returned.
    """
    multipliers = np.zeros(problem.instance.n + 2)
    if t is not None:
        multipliers[: problem.instance.n] = t
    _, x = problem.finder.alternate(kept, multipliers, np.inf, patience, tolerance)
    return x if x is not None and problem.check(x)[1] <= _SHORT else None


def _unproven_leaves(result: Result) -> bool:
    """Whether nothing is left to search, but some leaf's bound is too weak for a proof."""
    open_ = result.status in (Status.FEASIBLE, Status.NO_SOLUTION)
    return open_ and result.reason is Reason.EXHAUSTED


def _polish(problem: CSVMProblem, result: Result, gap: float, patience: Patience) -> Result:
    """The same anchors kept, solved more accurately than the search needs to."""
    assert result.x is not None
    x = start_near(problem, problem.instance.kept(result.x), result.x[:-1], 1e-12, patience)
    if x is None:
        return result
    objective, violation = problem.check(x)
    if objective > result.objective + _SAME * abs(result.objective):
        return result
    polished = result.improved(x, objective, violation, Tolerance(relative=gap))
    # The last digit is not worth a proof.
    return result if result.optimal and polished.status is Status.FEASIBLE else polished


def _check_rounding(instance: Instance, x: np.ndarray) -> None:
    """Whether margins are known: another order of summation must not change who is right."""
    rounding = instance.rounding(x)
    if rounding > _BLURRED:
        raise RuntimeError(
            f"the margins of a classifier are known to within {rounding:.3g} only, since entries "
            f"of the kernel matrix cancel each other: none was proven to have the rates; {_SCALE_X}"
        )


def _check_rates(rates: list[RateReport]) -> None:
    """The promise of the estimator, checked on what is returned."""
    for rate in rates:
        tolerance = _SAME * rate.total
        if rate.counted < rate.required - tolerance:
            raise RuntimeError(
                f"the classifier found counts {rate.counted:g} of the anchors for {rate.rate}, but "
                f"{rate.required:g} are required: please report this"
            )
