"""Incumbents for the constrained SVM: feasible classifiers found on the way.

The variables are those of `relaxations.svm_dual`: ``t`` over training points, then anchors, then
two for the interval of the intercept, which the heuristics leave free (their t is zero).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numba import njit

from relaxations.svm_dual import gradient, intercept, make_feasible, solve_dual

__all__ = ["Searcher", "choose_given_up", "read_classifier"]

_SATISFIED = 1.0 - 1e-12
_WORK = 20_000_000  # points times steps between two looks at the clock


@njit(nogil=True, cache=True)
def _within_budgets(
    half: np.ndarray,
    beta: float,
    p: np.ndarray,
    first: int,
    weights: np.ndarray,
    budgets: np.ndarray,
) -> bool:
    """Whether the anchors that ``f = half + beta`` misses fit the budgets."""
    for rate in range(budgets.size):
        missed = 0.0
        for j in range(weights.shape[1]):
            if p[first + j] * (half[first + j] + beta) < _SATISFIED:
                missed += weights[rate, j]
        if missed > budgets[rate] + 1e-9:
            return False
    return True


@njit(nogil=True, cache=True)
def read_classifier(
    p: np.ndarray,
    cost: np.ndarray,
    t: np.ndarray,
    half: np.ndarray,
    first: int,
    weights: np.ndarray,
    budgets: np.ndarray,
    kept: np.ndarray,
    hint: float,
) -> tuple[float, float, float]:
    """The best of feasible intercepts near ``hint`` for w given by ``t`` (sliding beta), and of
    (w, beta) scaled until the kept anchors have margin 1 (where both classes are kept).

    Returns
    -------
    objective, scale, beta : float
        The objective is infinite if nothing feasible was found.
    """
    below = -np.inf
    above = np.inf
    if _within_budgets(half, hint, p, first, weights, budgets):
        below = hint
        above = hint
    else:
        for j in range(weights.shape[1]):
            beta = p[first + j] - half[first + j]
            if below < beta < above and _within_budgets(half, beta, p, first, weights, budgets):
                if beta > hint:
                    above = beta
                else:
                    below = beta
    norm = 0.5 * np.dot(t, half)
    best = np.inf
    best_scale = 1.0
    best_beta = 0.0
    for beta in (below, above):
        if np.isfinite(beta):
            value = norm + _slack_cost(p, cost, half, 1.0, beta)
            if value < best:
                best = value
                best_beta = beta
    lowest = np.inf
    highest = -np.inf
    for j in range(weights.shape[1]):
        if kept[j] and p[first + j] > 0.0:
            lowest = min(lowest, half[first + j])
        elif kept[j]:
            highest = max(highest, half[first + j])
    if lowest > highest and np.isfinite(lowest - highest):
        scale = 2.0 / (lowest - highest)
        beta = 1.0 - scale * lowest
        value = scale * scale * norm + _slack_cost(p, cost, half, scale, beta)
        if value < best:
            best = value
            best_scale = scale
            best_beta = beta
    return best, best_scale, best_beta


@njit(nogil=True, cache=True)
def _slack_cost(
    p: np.ndarray, cost: np.ndarray, half: np.ndarray, scale: float, beta: float
) -> float:
    total = 0.0
    for i in range(cost.size):
        total += cost[i] * max(1.0 - p[i] * (scale * half[i] + beta), 0.0)
    return total


@njit(nogil=True, cache=True)
def choose_given_up(
    badness: np.ndarray,
    status: np.ndarray,
    weights: np.ndarray,
    budgets: np.ndarray,
    kept: np.ndarray,
) -> None:
    """Give up the worst anchors the budgets allow; ``kept`` is written.

    ``status`` is 1 for anchors that must be kept, -1 for those given up, 0 for the others; only
    anchors of positive badness are given up without need.
    """
    left = budgets.copy()
    for j in range(kept.size):
        kept[j] = status[j] >= 0
        if status[j] < 0:
            left -= weights[:, j]
    for j in np.argsort(-badness):
        if status[j] == 0 and badness[j] > 0.0 and np.all(weights[:, j] <= left + 1e-9):
            kept[j] = False
            left -= weights[:, j]


@njit(nogil=True, cache=True)
def _pose(
    K: np.ndarray,
    p: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    first: int,
    limit: np.ndarray,
    t: np.ndarray,
    F: np.ndarray,
) -> None:
    """Write the anchors' boxes, ``limit`` the most a multiplier may be, and make t feasible."""
    n = t.size
    for j in range(limit.size):
        i = first + j
        hi[i] = limit[j] if p[i] > 0.0 else 0.0
        lo[i] = -limit[j] if p[i] < 0.0 else 0.0
    lo[n - 2:] = 0.0
    hi[n - 2:] = 0.0
    make_feasible(t, lo, hi)
    gradient(K, p, t, F)


@njit(nogil=True, cache=True)
def _badness(p: np.ndarray, half: np.ndarray, beta: float, first: int, m: int) -> np.ndarray:
    """By how much the anchors miss margin one, a little more than nothing where they do not."""
    out = np.empty(m)
    for j in range(m):
        out[j] = 1.0 - p[first + j] * (half[first + j] + beta) + 1e-9
    return out


class Searcher:
    """Looks for feasible classifiers until its time is up.

    Compiled code answers neither a clock nor Ctrl-C, so it comes back every few milliseconds.

    Parameters
    ----------
    K, diag, p, cost, lo, hi : ndarray
        The problem's data, see `csvm.problem`; lo and hi are copied.
    weights, budgets : ndarray
        Rates.
    expired : callable
        Says whether time is up.
    """

    def __init__(
        self, K: np.ndarray, diag: np.ndarray, p: np.ndarray, cost: np.ndarray, lo: np.ndarray,
        hi: np.ndarray, weights: np.ndarray, budgets: np.ndarray,
        expired: Callable[[], bool] = lambda: False,
    ) -> None:
        self._K, self._diag, self._p, self._cost = K, diag, p, cost
        self._lo, self._hi = lo.copy(), hi.copy()
        self._weights, self._budgets = weights, budgets
        self._first, self._m = cost.size, weights.shape[1]
        self._expired = expired

    def _solve(
        self, limit: np.ndarray, t: np.ndarray, F: np.ndarray, tol: float, target: float
    ) -> float:
        """Maximise the dual with these limits of the anchors' multipliers; the intercept."""
        _pose(self._K, self._p, self._lo, self._hi, self._first, limit, t, F)
        left, at_once = 50 * t.size, max(1, _WORK // t.size)
        while left > 0 and not self._expired():
            some = min(left, at_once)
            steps, _ = solve_dual(
                self._K, self._diag, self._p, self._lo, self._hi, t, F, tol, some, target
            )
            left -= steps
            if steps < some:
                break
        return float(intercept(t, F, self._lo, self._hi))

    def _give_up(self, badness: np.ndarray, kept: np.ndarray) -> None:
        status = np.zeros(self._m, np.int8)
        choose_given_up(badness, status, self._weights, self._budgets, kept)

    def alternate(
        self, kept: np.ndarray, t: np.ndarray, bar: float, tol: float, out: np.ndarray
    ) -> float:
        """Enforce the kept anchors, solve, keep the best margins instead, and so on.

        Stops when a round does not get below ``bar`` or the best so far.  ``kept`` and ``t`` end
        as those of the last round; ``out`` receives the best classifier (t, then beta).

        Returns
        -------
        float
            Its objective, ``inf`` if none is below ``bar``.
        """
        points = t.size - 2
        F = np.empty(t.size)
        best = np.inf
        for _ in range(100):
            hint = self._solve(np.where(kept, np.inf, 0.0), t, F, tol, min(bar, best))
            half = self._p - F
            value, scale, beta = read_classifier(
                self._p, self._cost, t, half, self._first, self._weights, self._budgets, kept,
                hint,
            )
            if not value < min(bar, best - 1e-9 * abs(best)):
                break
            best = value
            out[:points] = scale * t[:points]
            out[points] = beta
            if self._expired():
                break
            self._give_up(_badness(self._p, half, beta, self._first, self._m), kept)
        return best

    def sweep(self, levels: Sequence[float], tol: float, out: np.ndarray) -> float:
        """`alternate` from soft-margin solutions; a level says what missing an anchor costs."""
        n, first, m = self._p.size, self._first, self._m
        t, F = np.zeros(n), np.empty(n)
        kept = np.ones(m, np.bool_)
        found = np.empty(n - 1)
        best = np.inf
        for level in levels:
            beta = self._solve(np.full(m, level), t, F, tol, 1e300)
            anchors = slice(first, first + m)
            self._give_up(np.maximum(self._p[anchors] * (F[anchors] - beta), -1.0) + 2.0, kept)
            value = self.alternate(kept, t.copy(), best, tol, found)
            if value < best:
                best = value
                out[:] = found
            if self._expired():
                break
        return best

    def improve_by_swaps(self, tol: float, tries: int, out: np.ndarray, value: float) -> float:
        """Exchange an enforced anchor for one given up while that lowers the objective.

        Pairs are tried in the order of a guess: releasing an anchor saves about t_o^2 / 4,
        enforcing one costs about its squared slack.  A trial ends as soon as its dual value passes
        the incumbent.
        """
        p, first, n = self._p, self._first, self._p.size
        points = n - 2
        anchors = slice(first, first + self._m)
        t, F, found = np.zeros(n), np.empty(n), np.empty(points + 1)
        tried, better = 0, True
        while better and tried < tries and not self._expired():
            better = False
            t[:points] = out[:points]
            gradient(self._K, p, t, F)
            half, beta = p - F, out[points]
            kept = p[anchors] * (half[anchors] + beta) >= _SATISFIED
            pairs, guess = _swap_pairs(
                self._K, p, t, half, beta, first, self._weights, self._budgets, kept
            )
            for a in np.argsort(guess)[: tries - tried]:
                if self._expired():
                    break
                tried += 1
                trial = kept.copy()
                trial[pairs[a, 0]], trial[pairs[a, 1]] = False, True
                objective = self.alternate(
                    trial, t.copy(), value - 1e-7 * abs(value), tol, found
                )
                if objective < value:
                    value, better = objective, True
                    out[:] = found
                    break
        return value


@njit(nogil=True, cache=True)
def _swap_pairs(
    K: np.ndarray,
    p: np.ndarray,
    t: np.ndarray,
    half: np.ndarray,
    beta: float,
    first: int,
    weights: np.ndarray,
    budgets: np.ndarray,
    kept: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (released, enforced) that respect the budgets, and a guess of what each costs."""
    m = kept.size
    left = budgets.copy()
    for j in range(m):
        if not kept[j]:
            left -= weights[:, j]
    pairs = np.empty((m * m, 2), np.int64)
    guess = np.empty(m * m)
    count = 0
    for o in range(m):
        if not kept[o] or t[first + o] == 0.0:
            continue
        saved = 0.25 * t[first + o] ** 2 * K[first + o, first + o]
        for i in range(m):
            if kept[i] or not np.all(weights[:, o] - weights[:, i] <= left + 1e-9):
                continue
            slack = 1.0 - p[first + i] * (half[first + i] + beta)
            pairs[count, 0] = o
            pairs[count, 1] = i
            guess[count] = slack * slack / max(K[first + i, first + i], 1e-12) - saved
            count += 1
    return pairs[:count], guess[:count]
