"""Incumbents for the constrained SVM: feasible classifiers found on the way.

The variables are those of `relaxations.svm_dual`: ``t`` over training points, then anchors, then
two for the interval of the intercept, which the heuristics leave free (their t is zero).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from relaxations.svm_dual import gradient, intercept, make_feasible, solve_dual

__all__ = ["alternate", "choose_given_up", "improve_by_swaps", "read_classifier", "sweep"]

_SATISFIED = 1.0 - 1e-12


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
def solve_kept(
    K: np.ndarray,
    diag: np.ndarray,
    p: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    first: int,
    kept: np.ndarray,
    t: np.ndarray,
    F: np.ndarray,
    tol: float,
    target: float,
) -> tuple[int, float]:
    """Solve the SVM that enforces the kept anchors and forgets the others.

    ``lo`` and ``hi`` hold the training points' boxes; the anchors' part is written.
    """
    n = t.size
    for j in range(kept.size):
        i = first + j
        hi[i] = np.inf if kept[j] and p[i] > 0.0 else 0.0
        lo[i] = -np.inf if kept[j] and p[i] < 0.0 else 0.0
    lo[n - 2:] = 0.0
    hi[n - 2:] = 0.0
    make_feasible(t, lo, hi)
    gradient(K, p, t, F)
    return solve_dual(K, diag, p, lo, hi, t, F, tol, 50 * n, target)


@njit(nogil=True, cache=True)
def alternate(
    K: np.ndarray,
    diag: np.ndarray,
    p: np.ndarray,
    cost: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    first: int,
    status: np.ndarray,
    weights: np.ndarray,
    budgets: np.ndarray,
    kept: np.ndarray,
    t: np.ndarray,
    bar: float,
    tol: float,
    out: np.ndarray,
) -> float:
    """Enforce the kept anchors, solve, keep the best margins instead, and so on.

    Stops when a round does not get below ``bar`` or the best so far.  ``kept`` and ``t`` end as
    those of the last round; ``out`` receives the best classifier (t, then beta).

    Returns
    -------
    float
        Its objective, ``inf`` if none is below ``bar``.
    """
    n = t.size
    points = n - 2
    F = np.empty(n)
    badness = np.empty(kept.size)
    best = np.inf
    for _ in range(100):
        solve_kept(K, diag, p, lo, hi, first, kept, t, F, tol, min(bar, best))
        hint = intercept(t, F, lo, hi)
        half = p - F
        value, scale, beta = read_classifier(
            p, cost, t, half, first, weights, budgets, kept, hint
        )
        if not value < min(bar, best - 1e-9 * abs(best)):
            break
        best = value
        out[:points] = scale * t[:points]
        out[points] = beta
        for j in range(kept.size):
            badness[j] = 1.0 - p[first + j] * (half[first + j] + beta) + 1e-9
        choose_given_up(badness, status, weights, budgets, kept)
    return best


@njit(nogil=True, cache=True)
def sweep(
    K: np.ndarray,
    diag: np.ndarray,
    p: np.ndarray,
    cost: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    first: int,
    status: np.ndarray,
    weights: np.ndarray,
    budgets: np.ndarray,
    levels: np.ndarray,
    tol: float,
    out: np.ndarray,
) -> float:
    """`alternate` from soft-margin solutions in which a level says what missing an anchor costs."""
    n = p.size
    points = n - 2
    t = np.zeros(n)
    F = np.empty(n)
    kept = np.ones(status.size, np.bool_)
    badness = np.empty(status.size)
    found = np.empty(points + 1)
    best = np.inf
    for level in levels:
        for j in range(status.size):
            i = first + j
            limit = np.inf if status[j] > 0 else level if status[j] == 0 else 0.0
            hi[i] = limit if p[i] > 0.0 else 0.0
            lo[i] = -limit if p[i] < 0.0 else 0.0
        lo[points:] = 0.0
        hi[points:] = 0.0
        make_feasible(t, lo, hi)
        gradient(K, p, t, F)
        solve_dual(K, diag, p, lo, hi, t, F, tol, 50 * n, 1e300)
        beta = intercept(t, F, lo, hi)
        for j in range(status.size):
            badness[j] = max(p[first + j] * (F[first + j] - beta), -1.0) + 2.0
        choose_given_up(badness, status, weights, budgets, kept)
        value = alternate(
            K, diag, p, cost, lo, hi, first, status, weights, budgets, kept, t.copy(), best, tol,
            found,
        )
        if value < best:
            best = value
            out[:] = found
    return best


@njit(nogil=True, cache=True)
def improve_by_swaps(
    K: np.ndarray,
    diag: np.ndarray,
    p: np.ndarray,
    cost: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    first: int,
    weights: np.ndarray,
    budgets: np.ndarray,
    tol: float,
    tries: int,
    out: np.ndarray,
    value: float,
) -> float:
    """Exchange an enforced anchor for one given up while that lowers the objective.

    Pairs are tried in the order of a guess: releasing an anchor saves about t_o^2 / 4, enforcing
    one costs about its squared slack.  A trial ends as soon as its dual value passes the incumbent.
    """
    n = p.size
    points = n - 2
    m = weights.shape[1]
    status = np.zeros(m, np.int8)
    t = np.zeros(n)
    t[:points] = out[:points]
    F = np.empty(n)
    found = np.empty(points + 1)
    kept = np.empty(m, np.bool_)
    gradient(K, p, t, F)
    half = p - F
    tried = 0
    while tried < tries:
        beta = out[points]
        for j in range(m):
            kept[j] = p[first + j] * (half[first + j] + beta) >= _SATISFIED
        pairs, guess = _swap_pairs(K, p, t, half, beta, first, weights, budgets, kept)
        better = False
        for a in np.argsort(guess)[: tries - tried]:
            tried += 1
            trial_kept = kept.copy()
            trial_kept[pairs[a, 0]] = False
            trial_kept[pairs[a, 1]] = True
            trial_t = t.copy()
            objective = alternate(
                K, diag, p, cost, lo, hi, first, status, weights, budgets, trial_kept, trial_t,
                value - 1e-7 * abs(value), tol, found,
            )
            if objective < value:
                value = objective
                out[:] = found
                t[:points] = out[:points]
                gradient(K, p, t, F)
                half = p - F
                better = True
                break
        if not better:
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
