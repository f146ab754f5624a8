from itertools import product

import cvxpy as cp
import numpy as np
import pytest

import bnb
from csvm import formulation, kernels
from csvm.search import CSVMProblem, Instance


def instance(seed, rates=1):
    rng = np.random.default_rng(seed)
    y = np.tile([1.0, -1.0], 8)
    X = rng.normal(size=(16, 2)) + 0.6 * y[:, None]
    K = kernels.rbf(X, gamma=0.5) if seed % 2 else kernels.linear(X)
    first = 10
    cost = np.where(y[:first] > 0, 4.0, 2.0) / 5
    anchors = y[first:]
    weights = np.array([anchors > 0, anchors < 0][:rates], dtype=float)
    return K, y, cost, weights, np.full(rates, 2.0)


def by_enumeration(K, y, cost, weights, required):
    """The model without constants: one convex problem for every z."""
    L, first = formulation.factor(K), len(cost)
    best = np.inf
    for z in product([False, True], repeat=len(y) - first):
        if np.any(weights @ np.array(z, float) < required):
            continue
        w, beta, xi = cp.Variable(L.shape[1]), cp.Variable(), cp.Variable(first, nonneg=True)
        margin = cp.multiply(y, L @ w + beta)
        kept = first + np.flatnonzero(z)
        constraints = [margin[:first] >= 1 - xi, margin[kept] >= 1]
        problem = cp.Problem(cp.Minimize(cp.sum_squares(w) + cost @ xi), constraints)
        problem.solve(solver=cp.CLARABEL)
        if problem.status == cp.OPTIMAL:
            best = min(best, problem.value)
    return best


@pytest.mark.parametrize("seed, rates", [(0, 1), (1, 1), (3, 2)])
def test_all_four_and_ours_have_the_optimum_of_the_model(seed, rates):
    data = instance(seed, rates)
    best = by_enumeration(*data)
    ours = bnb.solve(CSVMProblem(Instance(*data)), gap=1e-6, time_limit=60)
    assert ours.optimal and ours.objective == pytest.approx(best, rel=1e-5)
    for build in (formulation.primal_csvm, formulation.kernel_csvm):
        problem = build(*data, attained=1.1 * best).problem()
        result = bnb.solve(problem, gap=1e-6, time_limit=60)
        assert result.optimal
        assert result.objective == pytest.approx(best, rel=1e-5)
    for build in (formulation.primal_csvm_cvxpy, formulation.kernel_csvm_cvxpy):
        problem = build(*data)
        assert problem.is_dcp()
        problem.solve(solver=cp.SCIP)
        assert problem.value == pytest.approx(best, rel=1e-4)


def test_a_constant_that_binds_raises_the_optimum():
    data = instance(0)
    objectives = []
    for M1 in (100.0, 0.01):
        problem = formulation.primal_csvm(*data, M1=M1, attained=50.0).problem()
        objectives.append(bnb.solve(problem, gap=1e-6, time_limit=60).objective)
    assert objectives[1] > objectives[0] * 1.01


def test_positions():
    K, y, cost, weights, required = instance(1)
    for build in (formulation.primal_csvm, formulation.kernel_csvm):
        data = build(K, y, cost, weights, required)
        assert len(data.binary) == len(y) - len(cost)
        assert np.isinf(data.lb[data.intercept]) and np.isinf(data.ub[data.intercept])
        assert np.all(data.ub[data.binary] == 1)
        bounded = build(K, y, cost, weights, required, attained=10.0)
        assert np.isfinite(bounded.lb).all() and np.isfinite(bounded.ub).all()


def test_factor():
    K = kernels.linear(np.random.default_rng(0).normal(size=(9, 3)))
    L = formulation.factor(K)
    assert L.shape == (9, 3)
    assert np.abs(L @ L.T - K).max() < 1e-12
