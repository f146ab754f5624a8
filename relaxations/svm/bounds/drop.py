"""The drop bound: what giving up anchors can cost a dual solution at most.

Take a dual-feasible ``t`` (see `relaxations.svm.dual`) that puts weight on *free* anchors, whose
constraint may yet be given up.  If the set V is given up, take the t_j, j in V, away.  What is left
is dual feasible for that completion once the intercept's two variables restore ``sum(t) = 0``, so
its value bounds that completion.  With sigma = sum(t) over all points, and D quadratic,

    value(V) = p't - t'Kt/4 - sum_V a_j - sum_{j,k in V} B_jk - c(sigma - sum_V t_j)
    a_j = t_j (p_j - (Kt)_j / 2),      B_jk = t_j t_k K_jk / 4,      c(s) = max(b_l s, b_u s).

The bound on all completions is the least value over the sets V that the budgets allow and over the
two ends b of the interval.  For each end the loss is a quadratic knapsack, and it is bounded by the
sum over V of

    l_j = a_j - b t_j + B_jj + largest sum of B_jk + S_jk over companions k of j

for any antisymmetric S: how B_jk + B_kj is split between j and k does not change the loss, and
subgradient steps on S tighten the bound (Caprara, Pisinger and Toth).  Giving up more never makes
a completion dearer, so where a rate has unit weights and shares no anchor with another, only sets
that use up its budget exactly need be looked at.

`relaxations.svm.bounds.game` finds a good t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...jit import inner, outer
from ..order import descending

__all__ = [
    "NOBODY",
    "ROUNDING",
    "DropBound",
    "Losses",
    "Rates",
    "allowed_loss",
    "drop_bound",
    "empty_losses",
    "fits",
    "policy_terms",
    "reduced_loss",
    "resplit_loss",
    "starts_of",
    "top_sum",
    "with_loss",
    "worst_set",
]

_EPS = np.finfo(np.float64).eps
_MAX_SPLIT = 3.0
ROUNDING = 1e-9  # of sums of weights
NOBODY = np.int64(-1)  # no literal: numba would compile what takes it once more


class Rates(NamedTuple):
    """Which sets of anchors may be given up.

    Parameters
    ----------
    weights : ndarray (L, m)
        What each anchor counts in each rate.
    budgets : ndarray (L,)
        What may be given up of each rate.
    exact : ndarray of bool (L,)
        Rates with unit weights that share no anchor: only sets that use up their budgets count.
    """

    weights: np.ndarray
    budgets: np.ndarray
    exact: np.ndarray


class Losses(NamedTuple):
    """What `resplit_loss` writes.

    Parameters
    ----------
    loss, mu, ends : ndarray (2, m), (2, L), (2,)
        l_j, prices and bound for either end.
    chosen : ndarray of bool (m,)
        The worst set found.
    """

    loss: np.ndarray
    mu: np.ndarray
    ends: np.ndarray
    chosen: np.ndarray


@outer
def empty_losses(m: int, L: int) -> Losses:
    """Room for the losses of m anchors in L rates."""
    return Losses(np.zeros((2, m)), np.zeros((2, L)), np.zeros(2), np.zeros(m, np.bool_))


@dataclass
class DropBound:
    """A bound and what it rests on.

    Parameters
    ----------
    bound, ceiling : float
        The bound, and the value of the worst set that was found, which no split can exceed.
    chosen : ndarray of bool (m,)
        That set.
    reduced : ndarray (2, m)
        ``l_j`` less the prices of j, at either end of the intercept's interval.
    ends : ndarray (2,)
        The bound at either end.
    """

    bound: float
    ceiling: float
    chosen: np.ndarray
    reduced: np.ndarray
    ends: np.ndarray


def drop_bound(
    K: np.ndarray, p: np.ndarray, t: np.ndarray, half: np.ndarray, free: np.ndarray, rates: Rates,
    S: np.ndarray, bars: np.ndarray, steps: int,
) -> DropBound:
    """The drop bound of ``t``.

    Parameters
    ----------
    K, p : ndarray
        Kernel matrix padded by two zero rows; linear term, the intercept's interval last.
    t, half : ndarray (N,)
        Multipliers (those of the intercept, the last two, are zero) and K t / 2.
    free : ndarray of int (m,)
        The variables that may be dropped.
    rates : Rates
        Over the free anchors.
    S : ndarray (M, M)
        Split over all M anchors, which are the last variables before those of the intercept;
        improved in place, worth keeping from call to call.
    bars : ndarray (L, m)
        Prices of the free anchors' companions; likewise.
    steps : int
        Evaluations of the bound, between which the split is improved.

    Returns
    -------
    DropBound
    """
    return DropBound(*_drop_bound(K, p, t, half, free, rates, S, bars, steps))


@outer
def _drop_bound(
    K: np.ndarray, p: np.ndarray, t: np.ndarray, half: np.ndarray, free: np.ndarray, rates: Rates,
    S: np.ndarray, bars: np.ndarray, steps: int,
) -> tuple[float, float, np.ndarray, np.ndarray, np.ndarray]:
    """`resplit_loss` on the anchors that matter, and what it says about all of them."""
    weights, budgets = rates.weights, rates.budgets
    L = budgets.size
    short = np.zeros(L, np.bool_)
    idle = np.empty(free.size, np.bool_)
    for j in range(free.size):
        idle[j] = t[free[j]] == 0.0
    active = with_loss(idle, rates, short)
    m = active.size
    variables = np.empty(m, np.int64)
    place = np.empty(m, np.int64)
    for a in range(m):
        variables[a] = free[active[a]]
        place[a] = variables[a] - (t.size - 2 - S.shape[0])
    split = np.empty((m, m))
    prices = np.empty((L, m))
    counts = np.empty((L, m))
    for a in range(m):
        for b in range(m):
            split[a, b] = S[place[a], place[b]]
        for rate in range(L):
            prices[rate, a] = bars[rate, active[a]]
            counts[rate, a] = weights[rate, active[a]]
    found = empty_losses(m, L)
    bound, ceiling = resplit_loss(
        policy_terms(K, p, t, half, variables), split, prices, Rates(counts, budgets, short),
        starts_of(counts), steps, found,
    )
    chosen = np.zeros(free.size, np.bool_)
    reduced = np.zeros((2, free.size))
    for e in range(2):
        for j in range(free.size):
            for rate in range(L):
                reduced[e, j] -= found.mu[e, rate] * weights[rate, j]
    for a in range(m):
        j = active[a]
        chosen[j] = found.chosen[a]
        reduced[0, j] += found.loss[0, a]
        reduced[1, j] += found.loss[1, a]
        for rate in range(L):
            bars[rate, j] = prices[rate, a]
        for b in range(m):
            S[place[a], place[b]] = split[a, b]
    return bound, ceiling, chosen, reduced, found.ends


@outer
def with_loss(idle: np.ndarray, rates: Rates, short: np.ndarray) -> np.ndarray:
    """The anchors that matter when the idle ones cost nothing, sorted by rate.

    Where there are enough idle anchors to use up a budget, the others need not use it up.  A rate
    that is ``short`` of them (written) keeps all its anchors and stays exact.
    """
    weights, budgets, exact = rates
    L, m = weights.shape
    for rate in range(L):
        spare = 0.0
        for j in range(m):
            if idle[j]:
                spare += weights[rate, j]
        short[rate] = exact[rate] and spare < budgets[rate]
    active = np.empty(m, np.int64)
    count = 0
    seen = np.zeros(m, np.bool_)
    for rate in range(L + 1):  # anchors in no rate come last
        for j in range(m):
            member = rate == L or weights[rate, j] > 0.0
            if member and not seen[j]:
                seen[j] = True
                if not idle[j] or (rate < L and short[rate]):
                    active[count] = j
                    count += 1
    return active[:count]


@outer
def starts_of(weights: np.ndarray) -> np.ndarray:
    """Where each rate begins if every anchor counts one in a single rate; else nothing."""
    rates, m = weights.shape
    starts = np.zeros(rates + 1, np.int64)
    for j in range(m):
        total = 0.0
        for rate in range(rates):
            if weights[rate, j] == 1.0:
                starts[rate + 1] += 1
            total += abs(weights[rate, j])
            if weights[rate, j] != 0.0 and weights[rate, j] != 1.0:
                return np.zeros(0, np.int64)
        if total != 1.0:
            return np.zeros(0, np.int64)
    for rate in range(rates):
        starts[rate + 1] += starts[rate]
    return starts


@inner(fastmath={"reassoc", "nsz", "contract"})
def _above(row: np.ndarray, bar: float) -> tuple[float, float]:
    """How many entries are above the bar, and by how much in total."""
    count, total = 0.0, 0.0
    for k in range(row.size):  # without branches: vector units take four at a time
        count += 1.0 if row[k] > bar else 0.0
        total += max(row[k] - bar, 0.0)
    return count, total


@outer
def top_sum(row: np.ndarray, count: int, bar: float, floor: float) -> tuple[float, float]:
    """Upper bound, all but exact, on the sum of the ``count`` largest entries, or of all if fewer.

    Any bar g gives the bound ``count g + sum_k (row_k - g)^+``, convex in g; it is exact when
    ``count`` entries are above g.  With bars from zero (the floor) on it also bounds the sum of any
    fewer entries.  The given bar is most often a good guess.  If not, each step goes to where the
    tangents at both ends of the interval that is left meet.

    Returns
    -------
    bound, bar : float
    """
    count, bar = min(count, row.size), max(bar, floor)
    above, total = _above(row, bar)
    value, slope = count * bar + total, count - above
    if slope == 0.0 or (slope > 0.0 and bar == floor):
        return value, bar
    other = row[0]
    for entry in row:
        other = max(other, entry) if slope < 0.0 else min(other, entry)
    # Values and slopes at both ends; at the least and the largest entry those beyond it.
    if slope < 0.0:
        low, at_low, slope_low = bar, value, slope
        high, at_high, slope_high = other, count * other, float(count)
    else:
        low = max(other, floor)
        above, total = _above(row, low)
        at_low, slope_low = count * low + total, count - (above if low > other else row.size)
        high, at_high, slope_high = bar, value, slope
    for _ in range(12):
        if slope_low >= 0.0:  # then nothing lower is better
            break
        bar = (at_low - at_high + slope_high * high - slope_low * low) / (slope_high - slope_low)
        if not low < bar < high:
            break
        above, total = _above(row, bar)
        value, slope = count * bar + total, count - above
        if slope < 0.0:
            low, at_low, slope_low = bar, value, slope
        else:
            high, at_high, slope_high = bar, value, slope
        if slope == 0.0:
            break
    return (at_high, high) if at_high <= at_low else (at_low, low)


@outer
def allowed_loss(loss: np.ndarray, rates: Rates, mu: np.ndarray) -> float:
    """Upper bound on ``sum(loss[V])`` over all sets V within the budgets.

    V is allowed if ``sum(weights[l, V]) <= budgets[l]`` for every rate l, with equality where
    ``exact``.  By LP duality any prices mu, not negative where the rate is not exact, give the
    bound ``mu'budgets + sum_j (loss_j - mu'weights_j)^+``.  The prices are improved one rate at a
    time, which is best possible for disjoint rates.

    Parameters
    ----------
    loss : ndarray (m,)
    rates : Rates
    mu : ndarray (L,)
        Written: the prices.

    Returns
    -------
    float
    """
    weights, budgets, exact = rates
    L, m = weights.shape
    mu[:] = 0.0
    ratio = np.empty(m)
    for _ in range(3 if L > 1 else 1):
        changed = False
        for rate in range(L):
            # With the other prices fixed the best price is the ratio at which the anchors above
            # it fill the budget.
            for j in range(m):
                rest = loss[j]
                for other in range(L):
                    if other != rate:
                        rest -= mu[other] * weights[other, j]
                weight = weights[rate, j]
                ratio[j] = rest / weight if weight > 0.0 else -np.inf
            used = 0.0
            price = 0.0
            for j in descending(ratio):
                if ratio[j] == -np.inf or (ratio[j] <= 0.0 and not exact[rate]):
                    break
                used += weights[rate, j]
                if used > budgets[rate]:
                    price = ratio[j]
                    break
                if exact[rate]:
                    price = min(ratio[j], 0.0)
            changed = changed or price != mu[rate]
            mu[rate] = price
        if not changed:
            break
    total = 0.0
    for rate in range(L):
        total += mu[rate] * budgets[rate]
    for j in range(m):
        total += max(reduced_loss(loss, weights, mu, j), 0.0)
    return total


@inner
def reduced_loss(loss: np.ndarray, weights: np.ndarray, mu: np.ndarray, j: int) -> float:
    """``loss_j - mu'weights_j``."""
    value = loss[j]
    for rate in range(mu.size):
        value -= mu[rate] * weights[rate, j]
    return value


@inner
def fits(used: np.ndarray, rates: Rates, out: int, into: int) -> bool:
    """Whether ``out`` may leave and ``into`` may join (-1 for none) a set that uses ``used``."""
    weights, budgets, exact = rates
    for rate in range(budgets.size):
        change = 0.0
        if into >= 0:
            change += weights[rate, into]
        if out >= 0:
            change -= weights[rate, out]
        if used[rate] + change > budgets[rate] + ROUNDING or (exact[rate] and change < 0.0):
            return False
    return True


@outer
def worst_set(
    linear: np.ndarray, B: np.ndarray, rates: Rates, guess: np.ndarray, chosen: np.ndarray
) -> float:
    """A set of large loss ``sum_V linear_j + sum_{j != k in V} B_jk``: greedy, then best moves.

    Parameters
    ----------
    linear : ndarray (m,)
        a_j + B_jj.
    B : ndarray (m, m)
    rates : Rates
    guess : ndarray (m,)
        What each anchor may add to the loss: the budgets are filled in this order.
    chosen : ndarray of bool (m,)
        Written: the set.

    Returns
    -------
    float
        The loss of the set, a lower bound on the maximum.
    """
    m = linear.size
    used = np.zeros(rates.budgets.size)
    marginal = linear.copy()
    chosen[:] = False
    some_exact = False
    for exact in rates.exact:
        some_exact = some_exact or exact
    for j in descending(guess):
        if guess[j] <= 0.0 and not some_exact:
            break
        if fits(used, rates, NOBODY, j):
            _toggle(j, 1.0, B, rates.weights, marginal, used, chosen)
    for _ in range(4 * m):
        out, into = _best_move(marginal, B, rates, used, chosen)
        if out < 0 and into < 0:
            break
        if out >= 0:
            _toggle(out, -1.0, B, rates.weights, marginal, used, chosen)
        if into >= 0:
            _toggle(into, 1.0, B, rates.weights, marginal, used, chosen)
    total = 0.0
    for j in range(m):
        if chosen[j]:
            total += 0.5 * (linear[j] + marginal[j])
    return total


@inner
def _best_move(
    marginal: np.ndarray, B: np.ndarray, rates: Rates, used: np.ndarray, chosen: np.ndarray
) -> tuple[int, int]:
    """Who should leave and who should join the set, -1 for nobody."""
    best = 1e-12
    best_out = -1
    best_in = -1
    for i in range(marginal.size):
        if chosen[i]:
            if -marginal[i] > best and fits(used, rates, i, NOBODY):
                best, best_out, best_in = -marginal[i], i, -1
            continue
        if marginal[i] > best and fits(used, rates, NOBODY, i):
            best, best_out, best_in = marginal[i], -1, i
        for o in range(marginal.size):
            if chosen[o]:
                gain = marginal[i] - marginal[o] - 2.0 * B[i, o]
                if gain > best and fits(used, rates, o, i):
                    best, best_out, best_in = gain, o, i
    return best_out, best_in


@inner
def _toggle(
    j: int, sign: float, B: np.ndarray, weights: np.ndarray, marginal: np.ndarray, used: np.ndarray,
    chosen: np.ndarray,
) -> None:
    """Let j join (sign 1) or leave (-1) the set; ``marginal`` is what each anchor adds to it."""
    chosen[j] = sign > 0.0
    for rate in range(used.size):
        used[rate] += sign * weights[rate, j]
    for k in range(marginal.size):
        if k != j:
            marginal[k] += 2.0 * sign * B[j, k]


@inner
def _companions(
    M: np.ndarray, rates: Rates, starts: np.ndarray, bars: np.ndarray, extra: np.ndarray
) -> None:
    """Bound, for each j, the sum of row j of M over the companions of j in any set.

    ``bars`` holds the last prices of each row and is updated; ``extra`` is written.  The diagonal
    of M is set so low that j is never its own companion, but not lower: sums must not lose digits.
    """
    weights, budgets, exact = rates
    m = extra.size
    for j in range(m):
        lowest = 0.0
        for k in range(m):
            lowest = min(lowest, M[j, k])
        M[j, j] = lowest
    if starts.size == 0:
        left = np.empty(budgets.size)
        prices = np.empty(budgets.size)
        for j in range(m):
            for rate in range(budgets.size):
                left[rate] = budgets[rate] - weights[rate, j]
            extra[j] = allowed_loss(M[j], Rates(weights, left, exact), prices)
            for rate in range(budgets.size):
                bars[rate, j] = prices[rate]
        return
    for j in range(m):
        extra[j] = 0.0
        for rate in range(budgets.size):
            count = int(budgets[rate] - weights[rate, j] + ROUNDING)
            if count > 0:
                total, bars[rate, j] = top_sum(
                    M[j, starts[rate]: starts[rate + 1]], count, bars[rate, j],
                    -np.inf if exact[rate] else 0.0,
                )
                extra[j] += total


@outer
def resplit_loss(
    terms: tuple, S: np.ndarray, bars: np.ndarray, rates: Rates, starts: np.ndarray, steps: int,
    found: Losses,
) -> tuple[float, float]:
    """Bound the value over all sets and both ends of the interval; tighten S on the way.

    Parameters
    ----------
    terms : tuple
        From `policy_terms`.
    S : ndarray (m, m)
        Antisymmetric, in units of ``scale_j scale_k``; improved in place.
    bars : ndarray (L, m)
        Prices of each anchor's companions, improved in place.
    rates : Rates
    starts : see `starts_of`
    steps : int
        Evaluations of the bound.
    found : Losses
        Written.

    Returns
    -------
    bound, ceiling : float
        The bound, and the value of the worst set, which no S can exceed.
    """
    value, sigma, linear, B, scale, share, b = terms
    m = scale.size
    M = np.empty((m, m))
    extra = np.empty(m)
    trial = np.empty((2, m))
    trial_mu = np.empty(found.mu.shape)
    trial_ends = np.empty(2)
    tilted = np.empty(m)
    for j in range(m):
        for k in range(m):
            M[j, k] = B[j, k] + S[j, k] * scale[j] * scale[k]
        M[j, j] = 0.0
    best = -np.inf
    ceiling = np.inf
    for step in range(steps):
        _companions(M, rates, starts, bars, extra)
        for e in range(2):
            for j in range(m):
                trial[e, j] = linear[j] - b[e] * share[j] + extra[j]
            trial_ends[e] = value - b[e] * sigma - allowed_loss(
                trial[e], rates, trial_mu[e]
            )
        end = int(np.argmin(trial_ends))
        bound = trial_ends[end]
        if bound > best:
            best = bound
            for e in range(2):
                found.ends[e] = trial_ends[e]
                for j in range(m):
                    found.loss[e, j] = trial[e, j]
                for rate in range(rates.budgets.size):
                    found.mu[e, rate] = trial_mu[e, rate]
            if step > 0:
                _store_split(M, B, scale, S)
        if step == 0:
            for j in range(m):
                tilted[j] = linear[j] - b[end] * share[j]
            ceiling = value - b[end] * sigma - worst_set(
                tilted, B, rates, trial[end], found.chosen
            )
        if step == steps - 1 or not _resplit(
            M, bars, trial[end], trial_mu[end], rates.weights, ceiling - bound
        ):
            break
    return best, ceiling


@inner
def _resplit(
    M: np.ndarray, bars: np.ndarray, loss: np.ndarray, mu: np.ndarray, weights: np.ndarray,
    excess: float,
) -> bool:
    """A subgradient step on the split that aims to lower the loss by ``excess``.

    Anchors j of the set that the bound chose pay for their companions k; where k does not pay for j
    in turn, part of j's share is moved to k.  Returns whether there was anything to move.
    """
    m = loss.size
    if excess <= 0.0:
        return False
    picked = np.zeros((m, m), np.bool_)
    for j in range(m):
        if reduced_loss(loss, weights, mu, j) >= 0.0:
            for k in range(m):
                price = 0.0
                for rate in range(mu.size):
                    price += bars[rate, j] * weights[rate, k]
                picked[j, k] = M[j, k] > price
    norm = 0
    for j in range(m):
        for k in range(m):
            if picked[j, k] and not picked[k, j]:
                norm += 2
    if norm == 0:
        return False
    size = excess / norm
    for j in range(m):
        for k in range(m):
            if picked[j, k] and not picked[k, j]:
                M[j, k] -= size
                M[k, j] += size
    return True


@inner
def _store_split(M: np.ndarray, B: np.ndarray, scale: np.ndarray, S: np.ndarray) -> None:
    """Write ``S = (M - B) / (scale scale')``, within +-3: t changes before S is used again."""
    for j in range(S.shape[0]):
        for k in range(S.shape[0]):
            unit = scale[j] * scale[k]
            if unit > 1e-10 and j != k:
                S[j, k] = min(max((M[j, k] - B[j, k]) / unit, -_MAX_SPLIT), _MAX_SPLIT)


@inner
def policy_terms(
    K: np.ndarray, p: np.ndarray, t: np.ndarray, half: np.ndarray, free: np.ndarray
) -> tuple:
    """What `resplit_loss` needs to know of ``t``.

    Parameters
    ----------
    K, p : ndarray
    t, half : ndarray (N,)
        Multipliers (those of the intercept, the last two, are zero) and K t / 2.
    free : ndarray of int (m,)
        The variables that may be dropped.

    Returns
    -------
    value, sigma : float
        p't - t'Kt / 4, less a bound on rounding errors, and sum(t).
    linear, B, scale, share : ndarray
        a_j + B_jj, B with a zero diagonal, |t_j| / 2 and t_j.
    b : ndarray (2,)
        Ends of the intercept's interval.
    """
    m = free.size
    value = 0.0
    sigma = 0.0
    mass = 0.0
    reach = 0.0  # its square is the most that the terms of t'Kt can sum up to
    for i in range(t.size):
        value += (p[i] - 0.5 * half[i]) * t[i]
        sigma += t[i]
        mass += abs(t[i])
        reach += abs(t[i]) * np.sqrt(K[i, i])
    linear = np.empty(m)
    B = np.empty((m, m))
    scale = np.empty(m)
    share = np.empty(m)
    for a in range(m):
        j = free[a]
        share[a] = t[j]
        scale[a] = 0.5 * abs(t[j])
        linear[a] = t[j] * (p[j] - half[j]) + 0.25 * t[j] * t[j] * K[j, j]
        for c in range(a):
            B[a, c] = 0.25 * t[j] * share[c] * K[j, free[c]]
            B[c, a] = B[a, c]
        B[a, a] = 0.0
    b = p[t.size - 2:].copy()
    terms = mass * (1.0 + abs(b[0]) + abs(b[1])) + reach * reach
    return value - 16.0 * _EPS * t.size * terms, sigma, linear, B, scale, share, b
