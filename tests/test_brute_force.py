"""The promise: optimum equal to enumeration, on hundreds of random problems of each kind."""

import itertools

import numpy as np
import pytest
from oracle import brute_force, convex_minimum, random_psd

import bnb
from bnb import Status


def agree(result, truth, gap=1e-4):
    """The result must match the truth, and its bound must not lie above it."""
    scale = max(1.0, abs(truth)) if np.isfinite(truth) else 1.0
    if truth == np.inf:
        assert result.status is Status.INFEASIBLE, str(result)
        return
    assert result.status is Status.OPTIMAL, str(result)
    assert result.objective >= truth - 1e-5 * scale
    assert result.objective <= truth + gap * abs(truth) + 1e-5 * scale
    assert result.bound <= truth + 1e-5 * scale
    assert result.violation <= 1e-6


def random_miqp(seed):
    """Mixed binary/integer/continuous, of every awkward sort in turn."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    kinds = rng.choice(3, size=n, p=[0.5, 0.25, 0.25])  # binary, integer, continuous
    if np.sum(kinds != 2) == 0:
        kinds[0] = 0
    rank = [0, 1, n, n][seed % 4]
    P = random_psd(rng, n, rank) if rank else np.zeros((n, n))
    q = rng.normal(size=n) * [1, 10, 0.1][seed % 3]
    m = int(rng.integers(0, 4))
    A = rng.integers(-3, 4, size=(m, n)).astype(float)
    x0 = np.where(kinds == 0, rng.integers(0, 2, n), rng.integers(-2, 3, n)).astype(float)
    l = A @ x0 - rng.integers(0, 3, m)
    u = A @ x0 + rng.integers(0, 3, m)
    if m and seed % 5 == 0:
        l[0] = u[0]  # an equation, possibly unattainable
    if m > 1 and seed % 7 == 0:
        A[1], l[1], u[1] = A[0], l[0], u[0]  # a duplicate row
    if m and seed % 11 == 0:
        l[0], u[0] = u[0] + 50, u[0] + 60  # surely infeasible
    lb = np.where(kinds == 0, 0.0, -2.0)
    ub = np.where(kinds == 0, 1.0, 2.0)
    return P, q, A, l, u, lb, ub, np.flatnonzero(kinds == 0), np.flatnonzero(kinds != 2)


@pytest.mark.parametrize("block", range(10))
def test_miqp(block):
    for seed in range(40 * block, 40 * block + 40):
        P, q, A, l, u, lb, ub, binary, integer = random_miqp(seed)
        truth = brute_force(P, q, A, l, u, lb, ub, integer)
        result = bnb.solve_miqp(P, q, A, l, u, lb=lb, ub=ub, binary=binary, integer=integer)
        agree(result, truth)


@pytest.mark.parametrize("block", range(6))
def test_pure_binary_with_rows(block):
    for seed in range(40 * block, 40 * block + 40):
        rng = np.random.default_rng(1000 + seed)
        n = int(rng.integers(3, 9))
        P = random_psd(rng, n, int(rng.integers(1, n + 1)))
        q = -np.diag(P) * rng.random(n) - rng.random(n)
        A = np.vstack([np.ones(n), rng.integers(0, 3, n)])
        k = float(rng.integers(1, n))
        l, u = np.array([k, -np.inf]), np.array([k, float(rng.integers(0, 2 * n))])
        truth = brute_force(P, q, A, l, u, np.zeros(n), np.ones(n), range(n))
        agree(bnb.solve_miqp(P, q, A, l, u, binary=range(n)), truth)


def support_truth(P, q, k, A, l, u, lb, ub, exactly):
    from itertools import combinations

    n, best = len(q), np.inf
    for size in [k] if exactly else range(k + 1):
        for chosen in combinations(range(n), size):
            low, high = np.zeros(n), np.zeros(n)
            low[list(chosen)], high[list(chosen)] = lb[list(chosen)], ub[list(chosen)]
            best = min(best, convex_minimum(P, q, A, l, u, low, high))
    return best


@pytest.mark.parametrize("block", range(6))
def test_support(block):
    for seed in range(40 * block, 40 * block + 40):
        rng = np.random.default_rng(2000 + seed)
        n = int(rng.integers(3, 7))
        k = int(rng.integers(0, n + 1))
        free = seed % 3 == 0
        P = random_psd(rng, n, n) + 0.1 * np.eye(n)
        if not free and seed % 4 == 1:
            P = random_psd(rng, n, 1)
        q = rng.normal(size=n)
        lb = np.full(n, -np.inf) if free else np.full(n, [0.1, -1.0, 0.0][seed % 3 - 1])
        ub = np.full(n, np.inf) if free else np.full(n, 1.0)
        A = np.ones((1, n)) if seed % 2 else np.zeros((0, n))
        l = u = np.ones(A.shape[0])
        exactly = seed % 5 == 0
        truth = support_truth(P, q, k, A, l, u, lb, ub, exactly)
        problem = bnb.SupportQP(P, q, k, A, l, u, lb=lb, ub=ub, exactly=exactly)
        result = bnb.solve(problem)
        agree(result, truth)
        if result.x is not None:
            assert np.count_nonzero(result.x) <= k


@pytest.mark.parametrize("block", range(5))
def test_indicator(block):
    from itertools import product

    for seed in range(40 * block, 40 * block + 40):
        rng = np.random.default_rng(3000 + seed)
        n, m = int(rng.integers(1, 4)), int(rng.integers(2, 7))
        P = random_psd(rng, n, n) + (0.0 if seed % 4 == 0 else 0.1) * np.eye(n)
        q = rng.normal(size=n) if seed % 4 else P @ rng.normal(size=n)
        G, b = rng.normal(size=(m, n)), rng.normal(size=m)
        weights = np.ones(m) if seed % 2 else rng.integers(1, 4, m).astype(float)
        half = np.arange(m // 2 + 1)
        groups = [(np.arange(m), rng.integers(0, int(weights.sum()) + 1))]
        if seed % 3 == 0:
            groups.append((half, rng.integers(0, int(weights[half].sum()) + 1)))
        truth = np.inf
        for z in product([0, 1], repeat=m):
            z = np.array(z, bool)
            if all((weights * z)[list(g)].sum() >= k for g, k in groups):
                truth = min(truth, convex_minimum(
                    P, q, G[z], b[z], np.full(z.sum(), np.inf),
                    np.full(n, -np.inf), np.full(n, np.inf),
                ))
        problem = bnb.IndicatorQP(P, q, G=G, b=b, groups=groups, weights=weights)
        agree(bnb.solve(problem), truth)


@pytest.mark.parametrize("seed", range(20))
def test_children_of_an_indicator_share_out_what_may_hold(seed):
    """Every way to fulfil the groups is in one child, and in one only."""
    rng = np.random.default_rng(seed)
    n, m = 3, 8
    weights = rng.choice([0.5, 1.0, 2.0], m)
    groups = [(range(5), 0.5 * weights[:5].sum()), (range(3, m), 0.6 * weights[3:].sum())]
    problem = bnb.IndicatorQP(
        random_psd(rng, n, n) + np.eye(n), np.zeros(n), G=rng.normal(size=(m, n)),
        b=rng.random(m), weights=weights, groups=groups,
    )
    problem.prepare(bnb.Goal())
    state = problem.root()
    found = problem.evaluate(state, bnb.Goal())
    if not found.candidates:  # solved at once
        return
    boxes = [child.state for child in problem.branch(state, found, found.candidates[0])]
    for z in itertools.product([0.0, 1.0], repeat=m):
        if all(weights[list(rows)] @ np.array(z)[list(rows)] >= k for rows, k in groups):
            inside = [np.all(box.lb[-m:] <= z) and np.all(z <= box.ub[-m:]) for box in boxes]
            assert sum(inside) == 1



@pytest.mark.parametrize("big", [1e2, 1e6])
def test_huge_big_m_rows(big):
    """−Mz ≤ x ≤ Mz with a needlessly large M, and a price per switch."""
    for seed in range(20):
        rng = np.random.default_rng(4000 + seed)
        n = 4
        P = np.zeros((2 * n, 2 * n))
        P[:n, :n] = random_psd(rng, n, n) + 0.2 * np.eye(n)
        q = np.r_[3 * rng.normal(size=n), rng.random(n)]
        eye = np.eye(n)
        A = np.vstack([np.hstack([eye, -big * eye]), np.hstack([eye, big * eye])])
        l = np.r_[np.full(n, -np.inf), np.zeros(n)]
        u = np.r_[np.zeros(n), np.full(n, np.inf)]
        lb, ub = np.r_[np.full(n, -np.inf), np.zeros(n)], np.r_[np.full(n, np.inf), np.ones(n)]
        truth = brute_force(P, q, A, l, u, lb, ub, range(n, 2 * n))
        result = bnb.solve_miqp(P, q, A, l, u, lb=lb, ub=ub, binary=range(n, 2 * n))
        agree(result, truth)


def test_an_answer_is_accepted_as_a_start():
    """Also where something that may not be zero must not be selected, and where b is large."""
    exactly = bnb.SupportQP(np.eye(3), [1.0, 0, 0], 1, lb=[0.5, -1, -1], ub=1, exactly=True)
    result = bnb.solve(exactly)
    assert bnb.solve(exactly, start=result.x).objective == result.objective == 0.0
    rng = np.random.default_rng(20)
    for _ in range(20):
        G, b = rng.normal(size=(6, 3)), 1e4 * rng.normal(size=6)
        rows = bnb.IndicatorQP(np.eye(3), np.zeros(3), G=G, b=b, groups=[(range(6), 4)])
        result = bnb.solve(rows)
        if result.optimal:
            again = bnb.solve(rows, start=result.x)
            assert again.objective == pytest.approx(result.objective, rel=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_the_bound_of_the_root_is_no_better_than_the_optimum(seed):
    """Fixings that rely on an incumbent may leave nothing of the root."""
    rng = np.random.default_rng(seed)
    G, b = rng.normal(size=(7, 3)), rng.normal(size=7)
    rows = bnb.IndicatorQP(np.eye(3), rng.normal(size=3), G=G, b=b, groups=[(range(7), 4)])
    result = bnb.solve(rows)
    assert result.optimal
    assert result.root_bound <= result.objective + 1e-9 * abs(result.objective)
