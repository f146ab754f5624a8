"""The data of a constrained SVM, in the one order that the search knows."""

from __future__ import annotations

import copy

import numpy as np
from scipy.optimize import linprog

from bnb.options import Options
from relaxations.svm.bounds.drop import ROUNDING, Rates
from relaxations.svm.dual import Dual
from relaxations.svm.gram import Gram, block, dense, factored, times

__all__ = ["ENFORCED", "FREE", "GIVEN_UP", "Instance", "slack_costs"]

FREE, ENFORCED, GIVEN_UP = 0, 1, -1

_IMPLIED = 0.1  # of a budget, by which the other budgets may exceed one that is left out of games
_HOPELESS = 1e9  # objectives above this, in units of the problem, count as infeasible


def slack_costs(
    y: np.ndarray, C: float, weights: np.ndarray | None = None, *, per_class: bool = False
) -> np.ndarray:
    """Costs c_i of the training points: C for every point, or C in all for each class.

    Parameters
    ----------
    y : ndarray (n,)
        Labels, +1 or -1.
    C : float
    weights : ndarray (n,), optional
        How many points each one stands for.
    per_class : bool
        The paper's costs, C / |I+| and C / |I-|.
    """
    share = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    if not per_class:
        return C * share
    total = np.where(y > 0, share[y > 0].sum(), share[y < 0].sum())
    return C * share / total


class Instance:
    """Soft-margin SVM in which enough anchors must have margin one.

        min ||w||^2 + sum_i c_i xi_i   s.t.  y_i f(x_i) >= 1 - xi_i on the training points,
        y_j f(x_j) >= 1 or z_j = 0 on the anchors,  sum_j n_lj z_j >= k_l for every rate l

    A solution is the vector (t, beta) with f = sum_i t_i K(x_i, .) / 2 + beta.

    Parameters
    ----------
    kernel : ndarray (n, n) or (n, d)
        Positive semidefinite kernel matrix K, training points first, then the anchors; or Z with
        K = ZZ', if `is_factor`.
    y : ndarray (n,)
        Labels, +1 or -1.
    cost : ndarray (n - m,)
        Slack costs c_i of the training points.
    weights : ndarray (L, m)
        Weights n_lj >= 0 of the anchors in each rate.
    required : ndarray (L,)
        Weight k_l of the anchors that must have margin one.
    is_factor : bool

    Attributes
    ----------
    n, m, first : int
        Points, anchors, and the place of the first anchor, which is the number of training points.
    gram : Gram
        The kernel with two zero rows behind it, for the interval of the intercept.
    p, lo, hi : ndarray (n + 2,)
        Linear term and box of the dual with all anchors left out; see `relaxations.svm.dual`.
    weights, budgets : ndarray
        In units of the heaviest anchor; a budget is what may be given up. Without rates that the
        others imply.
    exact : ndarray of bool (L,)
        Rates of unit weights that share no anchor; see `relaxations.svm.bounds.drop`.
    hopeless : float
        Objectives from here on count as infeasible.
    """

    def __init__(
        self, kernel: np.ndarray, y: np.ndarray, cost: np.ndarray, weights: np.ndarray,
        required: np.ndarray, *, is_factor: bool = False,
    ) -> None:
        n = y.size
        self.n, self.m, self.first = n, n - cost.size, cost.size
        self.gram = _padded(kernel, is_factor)
        self.p = np.append(np.asarray(y, dtype=float), [0.0, 0.0])
        self.cost = np.ascontiguousarray(cost, dtype=float)
        # Counts in units of the heaviest anchor: tolerances must not depend on the user's unit.
        weights = np.asarray(weights, dtype=float)
        unit = weights.max(axis=1)
        unit[unit == 0.0] = 1.0
        weights = weights / unit[:, None]
        budgets = weights.sum(axis=1) - np.asarray(required, dtype=float) / unit
        # Of unit weights no fraction can be given up, and only a whole budget can be used up.
        whole = np.all((weights == 0) | (weights == 1), axis=1)
        budgets[whole] = np.floor(budgets[whole] + ROUNDING)
        self._asked = weights, budgets
        needed = _needed(weights, budgets)
        self.weights, self.budgets = np.ascontiguousarray(weights[needed]), budgets[needed]
        self._telling = _needed(self.weights, self.budgets, _IMPLIED)
        alone = (self.weights > 0).sum(axis=0) <= 1
        self.exact = np.all((self.weights == 0) | ((self.weights == 1) & alone), axis=1)
        # In units of the data: margins of one between two points at distance d need ||w|| = 2 / d.
        # Of solutions above it nothing is claimed, and `check` takes none.
        self.hopeless = _HOPELESS * (1.0 / _spread(self.gram, n) + self.cost.sum())
        self.lo, self.hi = np.zeros(n + 2), np.zeros(n + 2)
        train = slice(self.first)
        self.lo[train] = np.where(self.p[train] < 0, -self.cost, 0.0)
        self.hi[train] = np.where(self.p[train] > 0, self.cost, 0.0)

    @property
    def is_factor(self) -> bool:
        """Whether the kernel is kept as a factor."""
        return self.gram.Z.shape[1] > 0

    @property
    def rates_both_classes(self) -> bool:
        """Whether anchors of both classes count in some rate."""
        counts = self.weights.any(axis=0)
        return np.unique(self.p[self.anchors()][counts]).size == 2

    def with_matrix(self) -> Instance:
        """The same with the kernel matrix written down."""
        other = copy.copy(self)
        if self.is_factor:
            other.gram = dense(self.gram.Z @ self.gram.Z.T)
        return other

    def anchors(self, which: np.ndarray | None = None) -> np.ndarray:
        """Places of the anchors, or of some of them, among all variables."""
        return self.first + (np.arange(self.m) if which is None else which)

    def decision(self, x: np.ndarray) -> np.ndarray:
        """f(x_i) of all points for a solution (t, beta)."""
        t, out = np.append(x[: self.n], [0.0, 0.0]), np.empty(self.n + 2)
        times(self.gram, t, out)
        return 0.5 * out[: self.n] + x[self.n]

    def rounding(self, x: np.ndarray) -> float:
        """How far another order of summation may move an anchor's decision value."""
        used = np.flatnonzero(x[: self.n])
        terms = np.abs(block(self.gram, self.anchors(), used)) @ np.abs(x[used])
        size = 0.5 * float(terms.max(initial=0.0)) + abs(float(x[self.n]))
        return used.size * float(np.finfo(float).eps) * size

    def kept(self, x: np.ndarray) -> np.ndarray:
        """Which anchors have margin one, up to what the search lets pass."""
        return (self.p[: self.n] * self.decision(x))[self.first :] >= 1.0 - Options.feasibility

    def check(self, x: np.ndarray) -> tuple[float, float]:
        """Objective, and by how much margins must be relaxed for the counts to hold."""
        decision = self.decision(x)
        margin = self.p[: self.n] * decision
        slack = np.maximum(1.0 - margin[: self.first], 0.0)
        short = np.maximum(1.0 - margin[self.first :], 0.0)
        order = np.argsort(-short)
        violation = 0.0
        for row, budget in zip(*self._asked, strict=True):
            over = np.cumsum(row[order]) > budget + ROUNDING
            if over.any():
                violation = max(violation, float(short[order[np.argmax(over)]]))
        norm = 0.5 * float(x[: self.n] @ (decision - x[self.n]))
        objective = max(norm, 0.0) + float(self.cost @ slack) + self._doubt(x)
        return objective, violation if objective < self.hopeless else np.inf

    def _doubt(self, x: np.ndarray) -> float:
        """How much smaller than the objective a sum in floating point may come out.

        Large multipliers that cancel in Kt leave nothing but rounding, even a negative ||w||^2.
        """
        t, size = x[: self.n], np.sqrt(self.gram.diag[: self.n])
        reach = 0.5 * float(np.abs(t) @ size)  # |Kt|_i / 2 is at most this times size_i
        eps = np.count_nonzero(t) * float(np.finfo(float).eps)
        return eps * reach * (reach + float(self.cost @ size[: self.first]))

    def propagate(self, status: np.ndarray) -> np.ndarray | None:
        """Enforce anchors that no longer fit a budget; what is left, None if overdrawn."""
        left = self.budgets - self.weights @ (status == GIVEN_UP)
        if (left < -ROUNDING).any():
            return None
        too_heavy = (self.weights > left[:, None] + ROUNDING).any(axis=0)
        status[(status == FREE) & too_heavy] = ENFORCED
        return np.minimum(left, self.weights @ (status == FREE))

    def overdrawn(self, anchors: np.ndarray, left: np.ndarray) -> np.ndarray:
        """The rates that do not allow all of these anchors to be given up."""
        return np.flatnonzero(self.weights[:, anchors].sum(axis=1) > left + ROUNDING)

    def rates(self, free: np.ndarray, left: np.ndarray) -> Rates:
        """Which sets of the free anchors may be given up with what is left of the budgets.

        A few more, where a rate is all but implied by the others: certificates take ten times as
        long with rates that share anchors.
        """
        rows = self._telling
        weights, left = np.ascontiguousarray(self.weights[np.ix_(rows, free)]), left[rows]
        # Fixing asks what happens without one of them: the others must still use up the budget.
        return Rates(weights, left, self.exact[rows] & (left < weights.sum(axis=1)))

    def dual(
        self, included: np.ndarray, b_l: float = -np.inf, b_u: float = np.inf
    ) -> Dual:
        """The node dual with these anchors enforced and the intercept in an interval.

        Parameters
        ----------
        included : ndarray of bool (m,)
        b_l, b_u : float
        """
        p, lo, hi = self.p.copy(), self.lo.copy(), self.hi.copy()
        at = self.anchors(np.flatnonzero(included))
        hi[at] = np.where(p[at] > 0, np.inf, 0.0)
        lo[at] = np.where(p[at] < 0, -np.inf, 0.0)
        if np.isfinite(b_l):
            p[-2], hi[-2] = b_l, np.inf
        if np.isfinite(b_u):
            p[-1], lo[-1] = b_u, -np.inf
        return Dual(self.gram, p, lo, hi)


def _needed(weights: np.ndarray, budgets: np.ndarray, share: float = 0.0) -> np.ndarray:
    """The rates that are not implied by the others (of equal ones, the last).

    A rate is implied if no set within the other budgets, not even of fractions of anchors,
    exceeds its own by more than this share.
    """
    needed = np.arange(len(budgets))
    for rate in range(len(budgets)):
        others = needed[needed != rate]
        shares = np.any((weights[others] > 0) & (weights[rate] > 0))
        if not shares or (budgets[others] < 0).any():
            continue
        most = linprog(-weights[rate], A_ub=weights[others], b_ub=budgets[others], bounds=(0, 1))
        if most.status == 0 and -most.fun <= (1.0 + share) * budgets[rate] + ROUNDING:
            needed = others
    return needed


def _spread(gram: Gram, n: int) -> float:
    """Mean squared distance of the points from their mean, or what rounding leaves of it."""
    if gram.Z.shape[1] == 0:
        middle = float(gram.K[:n, :n].mean())
    else:
        middle = float((gram.Z[:n].mean(axis=0) ** 2).sum())
    size = float(gram.diag[:n].mean())
    return max(size - middle, 1e-15 * size) or 1.0


def _padded(kernel: np.ndarray, is_factor: bool) -> Gram:
    n, columns = kernel.shape
    if is_factor:
        return factored(np.vstack([kernel, np.zeros((2, columns))]))
    K = np.zeros((n + 2, n + 2))
    K[:n, :n] = kernel
    return dense(K)
