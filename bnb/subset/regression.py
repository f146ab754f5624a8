"""Best-subset regression: `best_subset` for arrays, `BestSubsetRegressor` for scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..engine import solve
from ..result import Result
from ..validation import count, real_array
from .problem import BestSubset

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_EPS = float(np.finfo(float).eps)
_TINY = 1e-100


class SubsetPath(list[Result]):
    """The results of `best_subset` for several k, in their order.

    Parameters
    ----------
    results : sequence of Result
    k : sequence of int
    residuals : sequence of float
        ‖y − Xβ‖² of each.
    rows : int
        Number of rows of X.
    intercept : bool

    Attributes
    ----------
    k : ndarray of int
    aic, bic : ndarray
        n log(‖y − Xβ‖² / n) plus 2, or log n, times the number of coefficients that are not zero,
        the intercept among them.
    """

    def __init__(
        self, results: Sequence[Result], k: Sequence[int], residuals: Sequence[float], rows: int,
        intercept: bool,
    ) -> None:
        super().__init__(results)
        self.k = np.array(k, dtype=int)
        used = np.array([np.count_nonzero(_coefficients(found)) for found in results]) + intercept
        with np.errstate(divide="ignore"):  # a perfect fit
            fit = rows * np.log(np.array(residuals, dtype=float) / rows)
        self.aic = fit + 2.0 * used
        self.bic = fit + np.log(rows) * used

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw AIC and BIC over k, the smallest of each marked."""
        from ..plots import plot_criteria

        return plot_criteria(self.k, {"AIC": self.aic, "BIC": self.bic}, ax)


def best_subset(
    X: Any, y: Any, k: int | Iterable[int], *, ridge: float = 0.0, fit_intercept: bool = True,
    **options: Any,
) -> Result | SubsetPath:
    """Minimise ‖y − β₀ − Xβ‖² + ridge ‖β‖² with at most k of the β_j non-zero, provably.

    Parameters
    ----------
    X : array of shape (n, p)
    y : array of shape (n,)
    k : int or several
        How many coefficients may be non-zero. With several, each search starts from the last one's
        solution.
    ridge : float
        Not applied to the intercept.
    fit_intercept : bool
        Whether there is a β₀; it is ``y.mean() - X.mean(axis=0) @ result.x``.
    **options
        Of `bnb.solve`.

    Returns
    -------
    Result, or SubsetPath for several k
        `x` are the coefficients, `objective` is the above. A `SubsetPath` is a list with AIC, BIC
        and a plot.

    Notes
    -----
    With the intercept the problem is solved for centred columns and y: that is where its objective
    is evaluated, and what its bound is proven for. Columns are scaled inside, the result is not.
    Dependent columns and more columns than rows are allowed; without a ridge no bound worth
    having is known while the free columns can fit y perfectly, so such a search may not end.

    Examples
    --------
    >>> import numpy as np, bnb
    >>> X = np.array([[1.0, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]])
    >>> bnb.best_subset(X, [1.0, 2, 3, 0.1], 2, fit_intercept=False).x.round(3)
    array([1., 2., 0.])
    """
    X, y = _matrix(X), real_array("y", y)
    _check(X, y, ridge)
    centred, target = (_centred(X), y - y.mean()) if fit_intercept else (X, y)
    several = k if isinstance(k, Iterable) else [k]
    sizes = [count("k", one, X.shape[1], "the columns of X") for one in several]
    if several is not k:
        return solve(BestSubset(centred, target, sizes[0], ridge), **options)
    if options.get("checkpoint") is not None:
        raise ValueError("checkpoint goes with a single k: several searches need several files")
    results, residuals, last = [], [], options.pop("start", None)
    for one in sizes:
        fits = last is not None and np.count_nonzero(last) <= one
        problem = BestSubset(centred, target, one, ridge)
        results.append(solve(problem, start=last if fits else None, **options))
        last = _coefficients(results[-1])
        residuals.append(float(np.sum((target - centred @ last) ** 2)))
    return SubsetPath(results, sizes, residuals, len(y), fit_intercept)


def _coefficients(found: Result) -> np.ndarray:
    assert found.x is not None  # the first thing that a search does is to find some
    return found.x


def _matrix(X: Any) -> np.ndarray:
    X = real_array("X", X)
    if X.ndim != 2 or not X.size:
        raise ValueError(f"X must have rows and columns, got shape {X.shape}")
    return X


def _check(X: np.ndarray, y: np.ndarray, ridge: float) -> None:
    if y.shape != X.shape[:1]:
        raise ValueError(f"y must have shape ({len(X)},), one value per row of X, got {y.shape}")
    for name, array in (("X", X), ("y", y)):
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be finite, it holds NaN or infinity")
        largest = np.abs(array).max(axis=0)
        if np.any((largest > 1.0 / _TINY) | ((largest < _TINY) & (largest > 0.0))):
            raise ValueError(
                f"{name} has a column whose largest entry is not between {_TINY:g} and "
                f"{1.0 / _TINY:g}, squares of which are not floating-point numbers: scale it"
            )
    if not (np.isfinite(ridge) and ridge >= 0.0):
        raise ValueError(f"ridge must be a finite number >= 0, got {ridge!r}")


def _centred(X: np.ndarray) -> np.ndarray:
    """X less its means; what is left of a constant column is rounding, and made zero."""
    centred = X - X.mean(axis=0)
    centred -= centred.mean(axis=0)  # of what the first mean's rounding has left
    noise = 4.0 * _EPS * np.abs(X).max(axis=0)
    centred[:, np.abs(centred).max(axis=0) <= noise] = 0.0
    return centred


class BestSubsetRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Least squares with at most k non-zero coefficients, to proven optimality.

    Parameters
    ----------
    k : int
        How many coefficients may be non-zero, for each target; all, if there are fewer features.
    ridge : float
        Weight of ‖β‖².
    fit_intercept : bool
    gap : float
        Relative gap at which a search ends.
    time_limit : float, optional
        Seconds for each target.
    verbose : {0, 1, 2}
        As in `bnb.solve`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray of shape (n_targets,)
    support_ : ndarray of bool, of the shape of `coef_`
        Which coefficients are not zero.
    result_ : Result or list of Result
        Status, objective and bound of the search for each target.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import bnb
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = bnb.BestSubsetRegressor(k=3).fit(X, y)
    >>> list(X.columns[model.support_]), model.result_.optimal
    (['bmi', 'bp', 's5'], True)
    """

    def __init__(
        self, k: int = 5, *, ridge: float = 0.0, fit_intercept: bool = True, gap: float = 1e-4,
        time_limit: float | None = None, verbose: int = 0,
    ) -> None:
        self.k = k
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.gap = gap
        self.time_limit = time_limit
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> BestSubsetRegressor:
        """Find the best subset for each target.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_targets)

        Returns
        -------
        BestSubsetRegressor
        """
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        y = np.asarray(y, dtype=float)
        k = min(count("k", self.k), X.shape[1])
        limit = np.inf if self.time_limit is None else self.time_limit
        results = []
        for target in np.reshape(y, (len(y), -1)).T:
            found = best_subset(
                X, target, k, ridge=self.ridge, fit_intercept=self.fit_intercept, gap=self.gap,
                time_limit=limit, verbose=self.verbose,
            )
            assert isinstance(found, Result)
            results.append(found)
        coef = np.array([_coefficients(found) for found in results])
        means = (X.mean(axis=0), y.mean(axis=0)) if self.fit_intercept else (0.0 * X[0], 0.0)
        intercept = means[1] - coef @ means[0]
        alone = y.ndim == 1
        self.coef_: np.ndarray = coef[0] if alone else coef
        self.intercept_: Any = float(intercept[0]) if alone else intercept
        self.result_: Result | list[Result] = results[0] if alone else results
        self.support_: np.ndarray = self.coef_ != 0.0
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions of the linear model.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return X @ self.coef_.T + self.intercept_
