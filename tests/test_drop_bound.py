"""The drop bound and its parts against enumeration."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relaxations.svm.bounds.drop import Rates, allowed_loss, drop_bound, top_sum, worst_set

SEEDS = st.integers(0, 2**32 - 1)


def allowed_sets(weights, budgets, exact):
    """All sets of anchors within the budgets."""
    m = weights.shape[1]
    for size in range(m + 1):
        for members in combinations(range(m), size):
            chosen = np.zeros(m, bool)
            chosen[list(members)] = True
            used = weights @ chosen
            if np.all(used <= budgets + 1e-9) and np.all(used[exact] >= budgets[exact] - 1e-9):
                yield chosen


def random_rates(rng, m):
    """One rate of unit weights, two disjoint ones, or overlapping ones with weights."""
    kind = rng.integers(3)
    if kind == 0:
        return np.ones((1, m)), np.array([float(rng.integers(1, m + 1))]), np.array([True])
    if kind == 1:
        first = rng.permutation(m) < m // 2
        weights = np.array([first, ~first], dtype=float)
        budgets = np.array([float(rng.integers(1, row.sum() + 1)) for row in weights])
        return weights, budgets, np.array([True, True])
    weights = rng.integers(0, 4, (2, m)).astype(float)
    budgets = np.floor(rng.uniform(0.2, 0.8, 2) * weights.sum(axis=1))
    return weights, budgets, np.array([False, False])


@settings(max_examples=300, deadline=None)
@given(SEEDS)
def test_top_sum_is_an_upper_bound_and_nearly_exact(seed):
    rng = np.random.default_rng(seed)
    row = rng.normal(size=rng.integers(1, 40)) * 10.0 ** rng.integers(-6, 3)
    if rng.random() < 0.3:
        row = np.round(row, 1)
    count = int(rng.integers(1, row.size + 1))
    exact = np.sort(row)[-count:].sum()
    bound, _ = top_sum(row, count, rng.normal(), -np.inf)
    assert bound >= exact - 1e-9 * (1 + np.abs(row).sum())
    bound, _ = top_sum(row, count, rng.normal(), 0.0)
    assert bound >= np.maximum(np.sort(row)[-count:], 0.0).sum() - 1e-9 * (1 + np.abs(row).sum())


@settings(max_examples=300, deadline=None)
@given(SEEDS)
def test_allowed_loss_bounds_every_set(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 8))
    weights, budgets, exact = random_rates(rng, m)
    loss = rng.normal(size=m) + rng.choice([0.0, 1.0])
    mu = np.empty(budgets.size)
    bound = allowed_loss(loss, Rates(weights, budgets, exact), mu)
    worst = max(loss[v].sum() for v in allowed_sets(weights, budgets, exact))
    assert bound >= worst - 1e-9
    if exact.all():
        assert bound == pytest.approx(worst, abs=1e-9)


@settings(max_examples=300, deadline=None)
@given(SEEDS)
def test_certified_bound_is_below_the_value_of_every_set_at_both_ends(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 8))
    n = m + int(rng.integers(2, 6))
    weights, budgets, exact = random_rates(rng, m)
    X = rng.normal(size=(n, 2))
    K = np.zeros((n + 2, n + 2))
    K[:n, :n] = np.exp(-(10.0 ** rng.uniform(-2, 1)) * ((X[:, None] - X[None]) ** 2).sum(-1))
    p = np.append(rng.choice([-1.0, 1.0], n), np.sort(rng.normal(size=2)))
    t = np.append(p[:n] * rng.exponential(size=n), [0.0, 0.0])
    free = np.arange(n - m, n)
    t[free[rng.random(m) < rng.choice([0.0, 0.5])]] = 0.0  # idle anchors are left out
    S = np.zeros((m, m))
    bars = np.zeros((budgets.size, m))
    found = drop_bound(
        K, p, t, 0.5 * K @ t, free, Rates(weights, budgets, exact), S, bars, 10
    )
    values = []
    for v in allowed_sets(weights, budgets, exact):
        rest = t.copy()
        rest[free[v]] = 0.0
        inner = p[:n] @ rest[:n] - 0.25 * rest @ K @ rest
        value = [inner - b * rest.sum() for b in p[n:]]
        for e in range(2):  # what the fixing rules say about sets with and without j
            end, reduced = found.ends[e], found.reduced[e]
            assert np.all(end + np.maximum(-reduced[v], 0.0) <= value[e] + 1e-8)
            assert np.all(end + np.maximum(reduced[~v], 0.0) <= value[e] + 1e-8)
        values.append(min(value))
    assert found.bound <= min(values) + 1e-8
    assert found.ceiling >= min(values) - 1e-8
    np.testing.assert_allclose(S, -S.T, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_worst_set_is_allowed_and_its_loss_is_what_it_says(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 9))
    weights, budgets, exact = random_rates(rng, m)
    B = rng.normal(size=(m, m))
    B = B + B.T
    np.fill_diagonal(B, 0.0)
    linear = rng.normal(size=m)
    chosen = np.zeros(m, bool)
    loss = worst_set(linear, B, Rates(weights, budgets, exact), rng.normal(size=m), chosen)
    assert np.all((weights @ chosen)[exact] == budgets[exact])
    assert np.all(weights @ chosen <= budgets + 1e-9)
    assert loss == pytest.approx(linear[chosen].sum() + B[np.ix_(chosen, chosen)].sum(), abs=1e-9)
