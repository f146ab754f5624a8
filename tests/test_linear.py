"""Separable QPs by linear programs: bounds that hold, and the optima of other solvers."""

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import brute_force, convex_minimum

import bnb
from benchmarks.families import commitment_problem
from relaxations import QP, Pairs, PerspectiveWorkspace, workspace_for
from relaxations.qp.linear import LinearWorkspace, is_separable, suits


def separable(seed, n=6, m=4):
    rng = np.random.default_rng(seed)
    d = rng.random(n) * (rng.random(n) < 0.7) + 1e-3
    A = rng.normal(size=(m, n))
    middle = A @ rng.uniform(-1, 1, n)
    l = np.where(rng.random(m) < 0.3, middle, middle - rng.random(m))
    return d, 2 * rng.normal(size=n), A, l, np.maximum(l, middle)


@pytest.mark.parametrize("seed", range(12))
def test_convex_problems(seed):
    d, q, A, l, u = separable(seed)
    lb, ub = np.full(6, -2.0), np.full(6, 2.0)
    if seed % 3 == 0:
        lb[:2], ub[1:3] = -np.inf, np.inf
    qp = QP(sp.diags(2 * d), q, sp.csr_matrix(A), l, u, np.zeros(6), constant=1.0)
    work = LinearWorkspace(qp)
    truth = convex_minimum(np.diag(2 * d), q, A, l, u, lb, ub) + 1.0
    found = work.solve(lb, ub, slack=1e-7)
    assert found.bound <= truth + 1e-7
    assert found.bound == pytest.approx(truth, rel=1e-5, abs=1e-5)
    lb[3] = 0.5  # again, from the same basis
    truth = convex_minimum(np.diag(2 * d), q, A, l, u, lb, ub) + 1.0
    found = work.solve(lb, ub, slack=1e-7)
    assert found.bound == pytest.approx(truth, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_switches_agree_with_the_other_solver(seed):
    """x in the first half, their switches in the second."""
    rng = np.random.default_rng(seed)
    n = 5
    pairs = Pairs(np.arange(n), np.arange(n, 2 * n), np.full(n, 0.5), np.full(n, 2.0),
                  0.1 + rng.random(n))
    q = np.concatenate([rng.normal(size=n), rng.random(n)])
    A = sp.csr_matrix(np.vstack([np.r_[np.ones(n), np.zeros(n)]] * 4))
    qp = QP(sp.csr_matrix((2 * n, 2 * n)), q, A, np.full(4, 2.5), np.full(4, np.inf),
            np.zeros(2 * n), pairs)
    lb, ub = np.zeros(2 * n), np.r_[np.full(n, 2.0), np.ones(n)]
    ub[n + seed % n] = 0.0
    ours = workspace_for(qp, np.ones(2 * n))
    assert isinstance(ours, LinearWorkspace)
    other = PerspectiveWorkspace(qp, np.ones(2 * n)).solve(lb, ub, slack=1e-6)
    found = ours.solve(lb, ub, slack=1e-6)
    assert found.bound == pytest.approx(other.bound, rel=1e-4, abs=1e-4)


def test_infeasible_rows_are_proven():
    qp = QP(sp.identity(2), np.zeros(2), sp.csr_matrix(np.ones((1, 2))), np.array([5.0]),
            np.array([np.inf]), np.zeros(2))
    work = LinearWorkspace(qp)
    assert work.solve(np.zeros(2), np.ones(2)).bound == np.inf
    assert work.solve(np.zeros(2), np.full(2, 4.0), slack=1e-6).bound == pytest.approx(6.25)


def test_what_is_separable():
    def qp(P, pairs=None, square=0.0):
        return QP(sp.csr_matrix(P), np.zeros(2), sp.csr_matrix(np.ones((1, 2))), np.zeros(1),
                  np.ones(1), np.full(2, square), pairs or Pairs.none())

    assert is_separable(qp(np.eye(2))) and is_separable(qp(np.zeros((2, 2)), square=1.0))
    assert not is_separable(qp(np.ones((2, 2))))
    pair = Pairs(np.array([0]), np.array([1]), np.zeros(1), np.ones(1), np.ones(1))
    assert is_separable(qp(np.zeros((2, 2)), pair)) and not is_separable(qp(np.eye(2), pair))
    assert suits(qp(np.zeros((2, 2)), pair)) and suits(qp(np.diag([1.0, 0.0])))
    assert not suits(qp(np.eye(2))) and not suits(qp(np.zeros((2, 2))))


@pytest.mark.parametrize("seed", range(10))
def test_searches_agree_with_brute_force(seed):
    d, q, A, l, u = separable(seed, n=5, m=3)
    d[2:] = 0.0
    lb, ub = np.full(5, -2.0), np.full(5, 2.0)
    integer = [0, 1, 3]
    truth = brute_force(np.diag(2 * d), q, A, l - 0.5, u + 0.5, lb, ub, integer)
    result = bnb.solve_miqp(np.diag(2 * d), q, A, l - 0.5, u + 0.5, lb=lb, ub=ub, integer=integer)
    if truth == np.inf:
        assert result.status is bnb.Status.INFEASIBLE
    else:
        assert result.optimal
        assert result.objective == pytest.approx(truth, rel=2e-4, abs=1e-6)


def test_unit_commitment(two_workers):
    result = bnb.solve(commitment_problem(3, 4), time_limit=60)
    assert result.optimal and result.violation <= 1e-6
    whole = bnb.solve(commitment_problem(3, 4), time_limit=60, **two_workers)
    assert whole.optimal and whole.objective == pytest.approx(result.objective, rel=1e-4)
