"""The drop bound: what giving up anchors can cost a dual solution at most.

Take a dual-feasible ``t`` (see `relaxations.svm_dual`) that puts weight on *free* anchors, whose
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

Which t is best?  ``min_V value(V)`` is concave in t, so `ascend` plays the game of t against V:
V answers t with the worst set it finds, t answers the average of the sets seen so far.  With
u_j the frequency of j and C the covariance of the sets, that answer is one more node dual, in
x_j = (1 - u_j) t_j, with kernel K_jk (1 + C_jk / ((1 - u_j)(1 - u_k))) on the free anchors.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .node_solvers import NodeSolver
from .svm_dual import gradient, intercept

__all__ = ["allowed_loss", "ascend", "average_in", "certify", "policy_terms", "soft_start",
           "worst_set"]

_EPS = np.finfo(np.float64).eps
_MAX_FREQUENCY = 0.98
_MAX_SPLIT = 3.0
_MEMORY = 12


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz", "contract"})
def _above(row: np.ndarray, bar: float) -> tuple[int, float]:
    """How many entries are above the bar, and by how much in total."""
    count = 0
    total = 0.0
    for k in range(row.size):
        over = row[k] - bar
        if over > 0.0:
            count += 1
            total += over
    return count, total


@njit(nogil=True, cache=True)
def top_sum(row: np.ndarray, count: int, bar: float) -> tuple[float, float]:
    """Upper bound, nearly exact, on the sum of the ``count`` largest entries of ``row``.

    Any bar g gives the bound ``count g + sum_k (row_k - g)^+``; it is exact when ``count`` entries
    are above g.  A few steps from the given bar, which is most often a good guess, are enough.

    Returns
    -------
    bound, bar : float
    """
    above, total = _above(row, bar)
    best = count * bar + total
    best_bar = bar
    low = -np.inf
    high = np.inf
    for _ in range(12):
        if above == count:
            break
        if above > count:
            low = bar
            trial = bar + total / above * (1.0 - count / above)  # below the minimiser or near it
        else:
            high = bar
            trial = bar - max(abs(bar), 1e-12) if low == -np.inf else 0.5 * (low + bar)
        bar = trial if trial < high else 0.5 * (low + high)
        above, total = _above(row, bar)
        value = count * bar + total
        if value < best:
            best = value
            best_bar = bar
    return best, best_bar


@njit(nogil=True, cache=True)
def allowed_loss(
    loss: np.ndarray, weights: np.ndarray, budgets: np.ndarray, exact: np.ndarray, mu: np.ndarray
) -> float:
    """Upper bound on ``sum(loss[V])`` over all sets V within the budgets.

    V is allowed if ``sum(weights[l, V]) <= budgets[l]`` for every rate l, with equality where
    ``exact``.  By LP duality any prices mu, not negative where the rate is not exact, give the
    bound ``mu'budgets + sum_j (loss_j - mu'weights_j)^+``.  The prices are improved one rate at a
    time, which is best possible for disjoint rates.

    Parameters
    ----------
    loss : ndarray (m,)
    weights : ndarray (L, m)
    budgets : ndarray (L,)
    exact : ndarray of bool (L,)
    mu : ndarray (L,)
        Written: the prices.

    Returns
    -------
    float
    """
    rates, m = weights.shape
    mu[:] = 0.0
    ratio = np.empty(m)
    for _ in range(3 if rates > 1 else 1):
        changed = False
        for rate in range(rates):
            # With the other prices fixed the best price is the ratio at which the anchors above
            # it fill the budget.
            for j in range(m):
                rest = loss[j]
                for other in range(rates):
                    if other != rate:
                        rest -= mu[other] * weights[other, j]
                weight = weights[rate, j]
                ratio[j] = rest / weight if weight > 0.0 else -np.inf
            used = 0.0
            price = 0.0
            for j in np.argsort(-ratio):
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
    for rate in range(rates):
        total += mu[rate] * budgets[rate]
    for j in range(m):
        total += max(reduced_loss(loss, weights, mu, j), 0.0)
    return total


@njit(nogil=True, cache=True)
def reduced_loss(loss: np.ndarray, weights: np.ndarray, mu: np.ndarray, j: int) -> float:
    """``loss_j - mu'weights_j``."""
    value = loss[j]
    for rate in range(mu.size):
        value -= mu[rate] * weights[rate, j]
    return value


@njit(nogil=True, cache=True)
def _fits(used: np.ndarray, weights: np.ndarray, budgets: np.ndarray, out: int, into: int) -> bool:
    """Whether ``out`` may leave (or -1) and ``into`` may join a set that uses ``used``."""
    for rate in range(budgets.size):
        total = used[rate] + weights[rate, into]
        if out >= 0:
            total -= weights[rate, out]
        if total > budgets[rate] + 1e-9:
            return False
    return True


@njit(nogil=True, cache=True)
def worst_set(
    linear: np.ndarray,
    B: np.ndarray,
    weights: np.ndarray,
    budgets: np.ndarray,
    order: np.ndarray,
    chosen: np.ndarray,
) -> float:
    """A set of large loss ``sum_V linear_j + sum_{j != k in V} B_jk``: greedy, then best swaps.

    Parameters
    ----------
    linear : ndarray (m,)
        a_j + B_jj.
    B : ndarray (m, m)
    weights, budgets : see `allowed_loss`
    order : ndarray of int
        In which order to fill the budgets.
    chosen : ndarray of bool (m,)
        Written: the set.

    Returns
    -------
    float
        The loss of the set, a lower bound on the maximum.
    """
    m = linear.size
    used = np.zeros(budgets.size)
    marginal = linear.copy()
    chosen[:] = False
    for j in order:
        if _fits(used, weights, budgets, -1, j):
            _toggle(j, 1.0, B, weights, marginal, used, chosen)
    for _ in range(4 * m):
        best = 1e-12
        best_out = -1
        best_in = -1
        for i in range(m):
            if chosen[i]:
                continue
            if _fits(used, weights, budgets, -1, i) and marginal[i] > best:
                best, best_out, best_in = marginal[i], -1, i
            for o in range(m):
                if chosen[o]:
                    gain = marginal[i] - marginal[o] - 2.0 * B[i, o]
                    if gain > best and _fits(used, weights, budgets, o, i):
                        best, best_out, best_in = gain, o, i
        if best_in < 0:
            break
        if best_out >= 0:
            _toggle(best_out, -1.0, B, weights, marginal, used, chosen)
        _toggle(best_in, 1.0, B, weights, marginal, used, chosen)
    total = 0.0
    for j in range(m):
        if chosen[j]:
            total += 0.5 * (linear[j] + marginal[j])
    return total


@njit(nogil=True, cache=True)
def _toggle(
    j: int,
    sign: float,
    B: np.ndarray,
    weights: np.ndarray,
    marginal: np.ndarray,
    used: np.ndarray,
    chosen: np.ndarray,
) -> None:
    """Let j join (sign 1) or leave (-1) the set; ``marginal`` is what each anchor adds to it."""
    chosen[j] = sign > 0.0
    for rate in range(used.size):
        used[rate] += sign * weights[rate, j]
    for k in range(marginal.size):
        if k != j:
            marginal[k] += 2.0 * sign * B[j, k]


@njit(nogil=True, cache=True)
def _companions(
    M: np.ndarray,
    weights: np.ndarray,
    budgets: np.ndarray,
    exact: np.ndarray,
    bars: np.ndarray,
    extra: np.ndarray,
) -> None:
    """Bound, for each j, the sum of row j of M over the companions of j in any set.

    ``bars`` holds the last prices of each row and is updated; ``extra`` is written.  The diagonal
    of M is set so low that j is never its own companion, but not lower: sums must not lose digits.
    """
    m = extra.size
    for j in range(m):
        M[j, j] = min(np.min(M[j]), 0.0)
    if budgets.size == 1 and exact[0]:
        count = int(budgets[0] + 1e-9) - 1
        for j in range(m):
            extra[j] = 0.0
            if count > 0:
                extra[j], bars[0, j] = top_sum(M[j], count, bars[0, j])
        return
    for j in range(m):
        extra[j] = allowed_loss(M[j], weights, budgets - weights[:, j], exact, bars[:, j])


@njit(nogil=True, cache=True)
def certify(
    terms: tuple,
    S: np.ndarray,
    M: np.ndarray,
    bars: np.ndarray,
    weights: np.ndarray,
    budgets: np.ndarray,
    exact: np.ndarray,
    steps: int,
    loss: np.ndarray,
    mu: np.ndarray,
    ends: np.ndarray,
    chosen: np.ndarray,
) -> tuple[float, float]:
    """Bound the value over all sets and both ends of the interval; tighten S on the way.

    Parameters
    ----------
    terms : tuple
        From `policy_terms`.
    S : ndarray (m, m)
        Antisymmetric, in units of ``scale_j scale_k``; improved in place.
    M, bars : ndarray (m, m), (L, m)
        Work space; bars are worth keeping from call to call.
    weights, budgets, exact : see `allowed_loss`
    steps : int
        Evaluations of the bound.
    loss, mu, ends : ndarray (2, m), (2, L), (2,)
        Written: l_j, prices and bound for either end.
    chosen : ndarray of bool (m,)
        Written: the worst set found.

    Returns
    -------
    bound, ceiling : float
        The bound, and the value of the worst set, which no S can exceed.
    """
    value, sigma, linear, B, scale, share, b = terms
    m = scale.size
    extra = np.empty(m)
    trial = np.empty((2, m))
    trial_mu = np.empty(mu.shape)
    trial_ends = np.empty(2)
    tilted = np.empty(m)
    for j in range(m):
        for k in range(m):
            M[j, k] = B[j, k] + S[j, k] * scale[j] * scale[k]
        M[j, j] = 0.0
    best = -np.inf
    ceiling = np.inf
    for step in range(steps):
        _companions(M, weights, budgets, exact, bars, extra)
        for e in range(2):
            for j in range(m):
                trial[e, j] = linear[j] - b[e] * share[j] + extra[j]
            trial_ends[e] = value - b[e] * sigma - allowed_loss(
                trial[e], weights, budgets, exact, trial_mu[e]
            )
        end = int(np.argmin(trial_ends))
        bound = trial_ends[end]
        if bound > best:
            best = bound
            loss[:] = trial
            mu[:] = trial_mu
            ends[:] = trial_ends
            if step > 0:
                _store_split(M, B, scale, S)
        if step == 0:
            for j in range(m):
                tilted[j] = linear[j] - b[end] * share[j]
            ceiling = value - b[end] * sigma - worst_set(
                tilted, B, weights, budgets, np.argsort(-trial[end]), chosen
            )
        if step == steps - 1 or not _resplit(
            M, bars, trial[end], trial_mu[end], weights, ceiling - bound
        ):
            break
    return best, ceiling


@njit(nogil=True, cache=True)
def _resplit(
    M: np.ndarray,
    bars: np.ndarray,
    loss: np.ndarray,
    mu: np.ndarray,
    weights: np.ndarray,
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


@njit(nogil=True, cache=True)
def _store_split(M: np.ndarray, B: np.ndarray, scale: np.ndarray, S: np.ndarray) -> None:
    """Write ``S = (M - B) / (scale scale')``, within +-3: t changes before S is used again."""
    for j in range(S.shape[0]):
        for k in range(S.shape[0]):
            unit = scale[j] * scale[k]
            if unit > 1e-10 and j != k:
                S[j, k] = min(max((M[j, k] - B[j, k]) / unit, -_MAX_SPLIT), _MAX_SPLIT)


@njit(nogil=True, cache=True)
def policy_terms(
    K: np.ndarray, p: np.ndarray, t: np.ndarray, half: np.ndarray, free: np.ndarray
) -> tuple:
    """What `certify` needs to know of ``t``.

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
    for i in range(t.size):
        value += (p[i] - 0.5 * half[i]) * t[i]
        sigma += t[i]
        mass += abs(t[i])
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
    largest = 1.0 + mass + abs(b[0]) + abs(b[1])
    return value - 16.0 * _EPS * t.size * mass * largest, sigma, linear, B, scale, share, b


@njit(nogil=True, cache=True)
def average_in(chosen: np.ndarray, share: float, u: np.ndarray, C: np.ndarray) -> None:
    """Mix a set into the frequencies u and the covariance C with the given share."""
    m = u.size
    away = np.empty(m)
    for j in range(m):
        away[j] = (1.0 if chosen[j] else 0.0) - u[j]
        u[j] += share * away[j]
    for j in range(m):
        for k in range(m):
            C[j, k] = (1.0 - share) * (C[j, k] + share * away[j] * away[k])


@njit(nogil=True, cache=True)
def _pose_answer(
    K: np.ndarray,
    kernel: np.ndarray,
    kernel_diag: np.ndarray,
    p: np.ndarray,
    free: np.ndarray,
    u: np.ndarray,
    C: np.ndarray,
    x: np.ndarray,
    half: np.ndarray,
    F: np.ndarray,
) -> None:
    """Write the kernel and the gradient F of the answer's dual in x = (1 - u) t.

    ``kernel`` and ``kernel_diag`` are copies of K and its diagonal of which the block of the free
    anchors is overwritten; ``half`` is K x / 2.
    """
    m = free.size
    z = np.empty(m)
    for a in range(m):
        z[a] = 1.0 - min(u[a], _MAX_FREQUENCY)
    for a in range(m):
        j = free[a]
        for b in range(a + 1):
            k = free[b]
            kernel[j, k] = K[j, k] * (1.0 + C[a, b] / (z[a] * z[b]))
            kernel[k, j] = kernel[j, k]
        kernel_diag[j] = kernel[j, j]
    for i in range(x.size):
        F[i] = p[i] - half[i]
    for a in range(m):
        j = free[a]
        for b in range(m):
            k = free[b]
            F[j] -= 0.5 * (kernel[j, k] - K[j, k]) * x[k]


@njit(nogil=True, cache=True)
def _read_answer(
    K: np.ndarray,
    diag: np.ndarray,
    kernel: np.ndarray,
    kernel_diag: np.ndarray,
    p: np.ndarray,
    free: np.ndarray,
    x: np.ndarray,
    half: np.ndarray,
    F: np.ndarray,
) -> None:
    """Update ``half`` = K x / 2 from the gradient of the solved dual, and restore the kernel."""
    m = free.size
    for i in range(x.size):
        half[i] = p[i] - F[i]
    for a in range(m):
        j = free[a]
        for b in range(m):
            k = free[b]
            half[j] -= 0.5 * (kernel[j, k] - K[j, k]) * x[k]
    for a in range(m):
        j = free[a]
        for b in range(m):
            kernel[j, free[b]] = K[j, free[b]]
        kernel_diag[j] = diag[j]


@njit(nogil=True, cache=True)
def _expand(
    K: np.ndarray,
    x: np.ndarray,
    half_x: np.ndarray,
    free: np.ndarray,
    u: np.ndarray,
    t: np.ndarray,
    half_t: np.ndarray,
) -> None:
    """Write t = x / (1 - u) on the free anchors, x elsewhere, and K t / 2."""
    n = t.size
    t[:] = x
    t[n - 2:] = 0.0
    half_t[:] = half_x
    for a in range(free.size):
        j = free[a]
        if x[j] != 0.0:
            extra = x[j] * (1.0 / (1.0 - min(u[a], _MAX_FREQUENCY)) - 1.0)
            t[j] += extra
            row = K[j]
            for i in range(n):
                half_t[i] += 0.5 * extra * row[i]


@njit(nogil=True, cache=True)
def _rest(
    K: np.ndarray,
    p: np.ndarray,
    s: np.ndarray,
    half_s: np.ndarray,
    t: np.ndarray,
    half_t: np.ndarray,
    free: np.ndarray,
    chosen: np.ndarray,
) -> tuple[float, float, float]:
    """Linear, quadratic and intercept part of t once the chosen anchors are gone.

    For s = t they are p't, t'Kt / 4 and sum(t) of what is left; else the quadratic part is the
    mixed term s'Kt / 4.
    """
    linear = 0.0
    quadratic = 0.0
    sigma = 0.0
    for i in range(t.size):
        linear += p[i] * t[i]
        quadratic += 0.5 * s[i] * half_t[i]
        sigma += t[i]
    for a in range(free.size):
        if chosen[a]:
            j = free[a]
            linear -= p[j] * t[j]
            sigma -= t[j]
            quadratic -= 0.5 * (s[j] * half_t[j] + t[j] * half_s[j])
            for b in range(free.size):
                if chosen[b]:
                    quadratic += 0.25 * s[j] * t[free[b]] * K[j, free[b]]
    return linear, quadratic, sigma


@njit(nogil=True, cache=True)
def _best_pull(
    K: np.ndarray,
    p: np.ndarray,
    t: np.ndarray,
    half_t: np.ndarray,
    answer: np.ndarray,
    half_answer: np.ndarray,
    free: np.ndarray,
    memory: np.ndarray,
    count: int,
) -> float:
    """How far to go from t towards the answer: best against the last sets on a grid of shares."""
    n = t.size
    b_l = p[n - 2]
    b_u = p[n - 1]
    best = -np.inf
    best_pull = 0.0
    terms = np.empty((count, 7))
    for s in range(count):
        l0, q0, s0 = _rest(K, p, t, half_t, t, half_t, free, memory[s])
        l1, q1, s1 = _rest(K, p, answer, half_answer, answer, half_answer, free, memory[s])
        _, q01, _ = _rest(K, p, t, half_t, answer, half_answer, free, memory[s])
        terms[s] = np.array((l0, q0, s0, l1, q1, s1, q01))
    for k in range(7):
        pull = 0.5 ** k if k < 6 else 0.0
        keep = 1.0 - pull
        worst = np.inf
        for s in range(count):
            l0, q0, s0, l1, q1, s1, q01 = terms[s]
            sigma = keep * s0 + pull * s1
            value = keep * l0 + pull * l1 - keep * keep * q0 - pull * pull * q1
            value -= 2.0 * keep * pull * q01 + max(b_l * sigma, b_u * sigma)
            worst = min(worst, value)
        if worst > best:
            best = worst
            best_pull = pull
    return max(best_pull, 0.02)


def ascend(
    solver: NodeSolver,
    K: np.ndarray,
    diag: np.ndarray,
    kernel: np.ndarray,
    kernel_diag: np.ndarray,
    p: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    t: np.ndarray,
    free: np.ndarray,
    weights: np.ndarray,
    budgets: np.ndarray,
    exact: np.ndarray,
    u: np.ndarray,
    C: np.ndarray,
    age: int,
    S: np.ndarray,
    target: float,
    rounds: int,
    steps: int,
    patience: int,
    loss: np.ndarray,
    mu: np.ndarray,
    ends: np.ndarray,
) -> tuple[float, float, int]:
    """Raise the drop bound of a node by playing t against the sets.

    Parameters
    ----------
    solver : NodeSolver
        Solves the answers' duals.
    K, diag : ndarray
        Kernel matrix padded by two zero rows, and its diagonal.
    kernel, kernel_diag : ndarray
        Copies of K and diag to work on; restored.
    p, lo, hi : ndarray (N,)
        Linear term (the intercept's interval in the last two places) and box of t.
    t : ndarray (N,)
        Start, improved in place: the t of the best bound.  The last two entries stay zero.
    free : ndarray of int (m,)
        Variables that may be dropped.
    weights, budgets, exact : ndarray
        Count rows over the free anchors, what is left of their budgets, and which of these may be
        taken to be used up.
    u, C, age : ndarray (m,), ndarray (m, m), int
        Frequencies and covariance of the sets seen so far, and how many these were; in place.
    S : ndarray (m, m)
        Split of B; improved in place.
    target : float
        Stop when the bound reaches this.
    rounds, steps, patience : int
        Rounds of the game, steps on S in each, rounds without progress.
    loss, mu, ends : ndarray (2, m), (2, L), (2,)
        Written: l_j, prices and bound at either end of the intercept's interval.

    Returns
    -------
    bound, middle : float
        The certified bound, and what it would be if the intercept were the middle of its interval.
    rounds : int
        Rounds played.
    """
    n = t.size
    m = free.size
    F = np.empty(n)
    now = t.copy()
    now[n - 2:] = 0.0
    gradient(K, p, now, F)
    half_now = p - F
    x = now.copy()
    x[free] *= 1.0 - np.minimum(u, _MAX_FREQUENCY)
    _close_sum(x)
    gradient(K, p, x, F)
    half_x = p - F
    M = np.empty((m, m))
    bars = np.zeros((budgets.size, m))
    trial = np.zeros((2, m))
    trial[:] = u
    trial_mu = np.empty(mu.shape)
    trial_ends = np.empty(2)
    chosen = np.zeros(m, np.bool_)
    memory = np.zeros((_MEMORY, m), np.bool_)
    answer = np.empty(n)
    half_answer = np.empty(n)
    half_best = np.empty(n)
    best = -np.inf
    mark = -np.inf
    stale = 0
    played = 0
    for r in range(rounds):
        played = r + 1
        bound, _ = certify(
            policy_terms(K, p, now, half_now, free), S, M, bars, weights, budgets, exact, steps,
            trial, trial_mu, trial_ends, chosen,
        )
        if bound > best:
            best = bound
            half_best[:] = half_now
            t[:] = now
            loss[:] = trial
            mu[:] = trial_mu
            ends[:] = trial_ends
        else:  # a null step: go on from the best, which now knows one more set
            now[:] = t
            half_now[:] = half_best
        if best >= target or r == rounds - 1:
            break
        if best - mark > 0.03 * (target - best):
            mark = best
            stale = 0
        else:
            stale += 1
            if stale >= patience:
                break
        average_in(chosen, 2.0 / (age + r + 4.0), u, C)
        _pose_answer(K, kernel, kernel_diag, p, free, u, C, x, half_x, F)
        # A violation of tol costs about tol times the mass: a tenth of what is still missing.
        share = 0.1 * (target - best) / max(np.abs(x).sum(), 1e-12)
        tol = min(max(share, 1e-6), 1e-3)
        solver.maximise(kernel, kernel_diag, p, lo, hi, x, F, tol, 20 * n, np.inf)
        _read_answer(K, diag, kernel, kernel_diag, p, free, x, half_x, F)
        _expand(K, x, half_x, free, u, answer, half_answer)
        memory[r % _MEMORY] = chosen
        pull = _best_pull(
            K, p, now, half_now, answer, half_answer, free, memory, min(r + 1, _MEMORY)
        )
        now += pull * (answer - now)
        half_now += pull * (half_answer - half_now)
    at_middle = p.copy()
    at_middle[n - 2:] = 0.5 * (p[n - 2] + p[n - 1])
    middle, _ = certify(
        policy_terms(K, at_middle, t, half_best, free), S, M, bars, weights, budgets, exact, 1,
        trial, trial_mu, trial_ends, chosen,
    )
    return best, middle, played


def soft_start(
    solver: NodeSolver,
    K: np.ndarray,
    diag: np.ndarray,
    p: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    t: np.ndarray,
    free: np.ndarray,
    weights: np.ndarray,
    budgets: np.ndarray,
    exact: np.ndarray,
    u: np.ndarray,
) -> None:
    """A start for `ascend`: the best of a range of soft margins.

    Every free anchor's multiplier is capped at the same level, which is doubled from solve to
    solve; t with the best drop bound is kept.  The anchors' frequencies u are put in proportion to
    their slack at that level.
    """
    n = t.size
    m = free.size
    x = t.copy()
    F = np.empty(n)
    top = hi.copy()
    low = lo.copy()
    M = np.empty((m, m))
    bars = np.zeros((budgets.size, m))
    S = np.zeros((m, m))
    loss = np.empty((2, m))
    mu = np.empty((2, budgets.size))
    ends = np.empty(2)
    chosen = np.zeros(m, np.bool_)
    best = -np.inf
    for k in range(-8, 5):
        top[free] = np.minimum(hi[free], 2.0**k)
        low[free] = np.maximum(lo[free], -(2.0**k))
        x[free] = np.clip(x[free], low[free], top[free])
        _close_sum(x)
        gradient(K, p, x, F)
        solver.maximise(K, diag, p, low, top, x, F, 1e-3, 20 * n, np.inf)
        policy = x.copy()
        policy[n - 2:] = 0.0
        terms = policy_terms(K, p, policy, p - F, free)
        bound, _ = certify(
            terms, S, M, bars, weights, budgets, exact, 1, loss, mu, ends, chosen
        )
        if bound > best:
            best = bound
            t[:] = policy
            beta = intercept(x, F, low, top)
            u[:] = np.maximum((F[free] - beta) * np.sign(p[free]), 0.0)
    _spread(u, weights, budgets)


@njit(nogil=True, cache=True)
def _spread(u: np.ndarray, weights: np.ndarray, budgets: np.ndarray) -> None:
    """Scale u so that it uses up the first budget it meets, every entry within [0.01, 0.9]."""
    base = np.maximum(u, 1e-9)
    factor = 1.0
    for _ in range(60):
        u[:] = np.minimum(np.maximum(factor * base, 0.01), 0.9)
        ratio = np.inf
        for rate in range(budgets.size):
            ratio = min(ratio, budgets[rate] / max(np.dot(weights[rate], u), 1e-12))
        if abs(ratio - 1.0) < 0.01:
            break
        factor *= ratio


@njit(nogil=True, cache=True)
def _close_sum(x: np.ndarray) -> None:
    """Let the intercept's variables, the last two of x, restore ``sum(x) = 0``."""
    n = x.size
    x[n - 2:] = 0.0
    sigma = x.sum()
    x[n - 2] = max(-sigma, 0.0)
    x[n - 1] = min(-sigma, 0.0)
