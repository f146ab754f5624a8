"""Answers with recourse by alternating directions, against a conic solver."""

import cvxpy as cp
import numpy as np
import pytest

from relaxations.svm.bounds.drop import Rates, starts_of
from relaxations.svm.bounds.robust import project, spans_of
from relaxations.svm.bounds.splitting import Splitting
from relaxations.svm.dual import Dual
from relaxations.svm.gram import dense


def one_rate(rng, m):
    return np.ones((1, m))


def two_rates(rng, m):
    return np.array([np.arange(m) < m // 2, np.arange(m) >= m // 2], dtype=float)


def weighted(rng, m):
    return rng.uniform(0.5, 2.0, (1, m))


def shared(rng, m):
    return np.vstack([two_rates(rng, m), np.ones(m)])


KINDS = [one_rate, two_rates, weighted, shared]


def random_rates(kind, rng, m):
    weights = kind(rng, m)
    budgets = np.maximum(1.0, np.floor(0.3 * weights.sum(axis=1)))
    return Rates(weights, budgets, np.zeros(budgets.size, np.bool_))


def frequencies(rng, rates):
    """Some fractional set within the budgets."""
    u = rng.uniform(0.0, 1.0, rates.weights.shape[1])
    return u * min(1.0, (0.7 * rates.budgets / (rates.weights @ u)).min())


def stays_below(x, R, top, u, rates):
    """Constraints by which x + (v - u)'R <= top for every fractional set, by duality."""
    mu, nu = cp.Variable(rates.budgets.size, nonneg=True), cp.Variable(u.size, nonneg=True)
    return [rates.weights.T @ mu + nu >= R, x + rates.budgets @ mu + cp.sum(nu) - u @ R <= top]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_projections_on_robust_boxes(kind, seed):
    rng = np.random.default_rng(seed)
    m, weight = 12, 0.25
    rates = random_rates(kind, rng, m)
    u = frequencies(rng, rates)
    x, R, top = rng.normal(size=3), 2.0 * rng.normal(size=(3, m)), np.array([-1.0, 0.3, 100.0])
    moved_x, moved_R = x.copy(), R.copy()
    project(moved_x, moved_R, top, u, rates, spans_of(rates.weights), starts_of(rates.weights),
            weight, np.zeros(3), np.zeros((3, rates.budgets.size)))
    assert moved_x[2] == x[2] and np.array_equal(moved_R[2], R[2])  # it was inside
    for a in range(2):
        near_x, near = cp.Variable(), cp.Variable(m)
        cp.Problem(
            cp.Minimize(weight * cp.square(near_x - x[a]) + cp.sum_squares(near - R[a])),
            stays_below(near_x, near, top[a], u, rates),
        ).solve(solver=cp.CLARABEL)
        assert moved_x[a] == pytest.approx(near_x.value, abs=0.02)
        assert moved_R[a] == pytest.approx(near.value, abs=0.02)


class Case:
    """A small random node, a mixture, and what a policy is worth against it."""

    def __init__(self, kind, seed):
        rng = np.random.default_rng(seed)
        k, m = 8, 6
        X = rng.normal(size=(k + m + 2, 3))
        self.K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
        y = np.where(rng.random(k + m + 2) < 0.5, 1.0, -1.0)
        cost = np.append(rng.uniform(0.5, 2.0, k), np.full(m, np.inf))
        cost = np.append(cost, [1.0, 1.0])  # two that stay what they are
        self.places, self.free = np.arange(k), np.arange(k, k + m)
        self.rates = random_rates(kind, rng, m)
        self.dual = Dual(dense(self.K), y, np.where(y > 0, 0.0, -cost), np.where(y > 0, cost, 0.0))
        self.t = np.zeros(y.size)
        self.t[-2:] = y[-2:]
        self.u = frequencies(rng, self.rates)
        half = rng.normal(size=(m, m))
        self.C = 0.1 * half @ half.T / m

    def splitting(self, prices=None, t=None, R=None):
        R = np.zeros((self.free.size, self.places.size)) if R is None else R
        return Splitting(self.dual, self.places, self.free, self.t if t is None else t, R, self.u,
                         self.rates, prices)

    def value(self, t, R):
        """D(x) - sum C_jk delta_j'K delta_k / 4."""
        delta = np.zeros((self.free.size, t.size))
        delta[:, self.free] = np.diag(t[self.free])
        delta[:, self.places] -= R
        x = t - self.u @ delta
        return self.dual.p @ x - 0.25 * x @ self.K @ x - 0.25 * np.vdot(
            self.C, delta @ self.K @ delta.T)

    def best(self):
        """The largest value of a policy within the robust boxes, from a conic solver."""
        k, m, dual = self.places.size, self.free.size, self.dual
        s, R, x = cp.Variable(m), cp.Variable((m, k)), cp.Variable(k)
        rest = self.t.copy()
        mean = cp.hstack([x, cp.multiply(1.0 - self.u, s), rest[-2:]])
        delta = cp.hstack([-R, cp.diag(s), np.zeros((m, 2))])
        root = np.linalg.cholesky(self.K + 1e-12 * np.eye(len(self.K)))
        spread = np.linalg.cholesky(self.C + 1e-12 * np.eye(m)).T
        value = dual.p @ mean - 0.25 * cp.sum_squares(root.T @ mean) - 0.25 * cp.sum_squares(
            spread @ delta @ root)
        asked = [cp.sum(R, axis=1) == s, cp.sum(mean) == 0.0,
                 cp.multiply(dual.p[self.free], s) >= 0.0]
        for a in range(k):
            asked += stays_below(x[a], R[:, a], dual.hi[a], self.u, self.rates)
            asked += stays_below(-x[a], -R[:, a], -dual.lo[a], self.u, self.rates)
        return cp.Problem(cp.Maximize(value), asked).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_answers_are_the_best_policies(kind, seed):
    case = Case(kind, seed)
    t, R, _ = case.splitting().answer(case.u, case.C, 500)
    assert np.array_equal(t[-2:], case.t[-2:])
    assert R.sum(axis=1) == pytest.approx(t[case.free], abs=1e-2)
    assert t.sum() == pytest.approx(0.0, abs=1e-2)
    assert case.value(t, R) == pytest.approx(case.best(), rel=0.01)


def test_an_answer_goes_on_from_prices():
    case = Case(two_rates, 0)
    first = case.splitting()
    t, R, _ = first.answer(case.u, case.C, 500)
    again = case.splitting(first.prices.compact(), t, R).answer(case.u, case.C, 1)
    cold = case.splitting(None, t, R).answer(case.u, case.C, 1)
    assert again[1] == pytest.approx(R, abs=1e-2)
    assert np.abs(cold[1] - R).max() > 10.0 * np.abs(again[1] - R).max()


def test_rates_without_members_share_nothing():
    weights = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert spans_of(weights).tolist() == [[0, 2], [2, 2], [2, 3]]


@pytest.mark.parametrize("gamma, cost", [(0.05, 1.5e-3), (0.1, 1e-3), (0.0, 1e-3), (50.0, 1e3)])
def test_many_places_with_little_room(gamma, cost):
    """What counts as a multiple of the identity must not outgrow the penalties."""
    rng = np.random.default_rng(0)
    k, m = 500, 200
    X = rng.normal(size=(k + m, 5))
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    y = np.where(rng.random(k + m) < 0.5, 1.0, -1.0)
    cap = np.append(np.full(k, cost), np.full(m, np.inf))
    dual = Dual(dense(K), y, np.where(y > 0, 0.0, -cap), np.where(y > 0, cap, 0.0))
    u = np.full(m, 0.05)
    rates = Rates(np.ones((1, m)), np.array([20.0]), np.zeros(1, np.bool_))
    splitting = Splitting(dual, np.arange(k), np.arange(k, k + m), np.zeros(k + m),
                          np.zeros((m, k)), u, rates, None)
    t, R, _ = splitting.answer(u, np.diag(u * (1.0 - u)), 3)
    assert np.isfinite(t).all() and np.isfinite(R).all()
