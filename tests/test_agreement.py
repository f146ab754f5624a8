"""Whatever the route, the same optimum; and no bound above a planted optimum, at any node."""

import itertools

import numpy as np
import pytest
from oracle import brute_force, random_psd

import bnb
import bnb.qp.strengthen
from bnb import Status
from relaxations.patience import FOR_EVER


def planted(seed):
    rng = np.random.default_rng(seed)
    n = 12
    P = random_psd(rng, n, 6)
    q = rng.normal(size=n) - 0.5 * np.diag(P)
    A = np.ones((1, n))
    return P, q, A, np.array([4.0]), np.array([4.0])


@pytest.mark.parametrize("seed", range(2))
def test_all_routes_agree(seed, two_workers):
    P, q, A, l, u = planted(seed)
    truth = brute_force(P, q, A, l, u, np.zeros(12), np.ones(12), range(12))
    for selection, branching, more in itertools.product(
        ["best", "depth", "hybrid"], ["pseudocost", "fractional", "first"], [{}, two_workers]
    ):
        result = bnb.solve_miqp(
            P, q, A, l, u, binary=range(12), selection=selection, branching=branching,
            **more,
        )
        assert result.status is Status.OPTIMAL
        assert result.objective == pytest.approx(truth, rel=1e-4, abs=1e-6)


class Watched(bnb.MIQP):
    """Fails when a node that contains the planted solution is given a bound above it."""

    def plant(self, x):
        self.planted, self.checked = x, 0
        return self

    def evaluate(self, state, goal):
        evaluation = super().evaluate(state, goal)
        x, value = self.planted, self.check(self.planted)[0]
        if np.all(x >= state.lb - 1e-9) and np.all(x <= state.ub + 1e-9):
            self.checked += 1
            assert evaluation.bound <= value + 1e-7 * max(1.0, abs(value))
        return evaluation

    def prepare(self, goal):
        evaluation = super().prepare(goal)
        assert evaluation.bound <= self.check(self.planted)[0] + 1e-7
        return evaluation


@pytest.mark.parametrize("smallest", [0, 10**6])
def test_no_bound_above_the_planted_optimum(smallest, monkeypatch):
    """With the strengthened relaxation forced on, and with it forced off."""
    monkeypatch.setattr(bnb.qp.strengthen, "_MIN_OPEN", smallest)
    checked = 0
    for seed in range(8):
        rng = np.random.default_rng(100 + seed)
        n = 10
        P, q = random_psd(rng, n, 4), rng.normal(size=n)
        arguments = dict(lb=-3, ub=3, integer=range(n)) if seed % 2 else dict(binary=range(n))
        best = bnb.solve(bnb.MIQP(P, q, **arguments), gap=0.0)
        problem = Watched(P, q, **arguments).plant(best.x)
        result = bnb.solve(problem, gap=0.0)
        checked += problem.checked
        assert result.objective == pytest.approx(best.objective, abs=1e-9)
    assert checked > 0, "no node held the planted optimum: the test checked nothing"


@pytest.mark.parametrize("seed", range(12))
def test_strengthened_relaxation_agrees_with_enumeration(seed, monkeypatch):
    monkeypatch.setattr(bnb.qp.strengthen, "_MIN_OPEN", 0)
    rng = np.random.default_rng(500 + seed)
    n, k = 7, 3
    P, q = random_psd(rng, n, n), -rng.random(n)
    A, one = np.ones((1, n)), np.ones(1)
    from test_brute_force import agree, support_truth

    low = np.full(n, [0.05, 0.0, -0.5][seed % 3])
    truth = support_truth(P, q, k, A, one, one, low, np.ones(n), False)
    agree(bnb.solve(bnb.SupportQP(P, q, k, A, one, one, lb=low, ub=1.0)), truth)
    P = random_psd(rng, n, n)
    truth = brute_force(P, q, A, 3 * one, 3 * one, np.zeros(n), np.ones(n), range(n))
    agree(bnb.solve_miqp(P, q, A, 3 * one, 3 * one, binary=range(n)), truth)


def test_switches_are_recognised_in_a_plain_miqp():
    """The same portfolio as rows and as SupportQP: same strength, so same root bound."""
    rng = np.random.default_rng(5)
    n, k = 20, 4
    F = rng.normal(size=(n, 5))
    P, q = F @ F.T + 0.1 * np.eye(n), -0.2 * rng.random(n)
    eye = np.eye(n)
    A = np.vstack([
        np.r_[np.ones(n), np.zeros(n)], np.r_[np.zeros(n), np.ones(n)],
        np.hstack([2 * eye, -2 * eye]), np.hstack([-eye, 0.05 * eye]),
    ])
    l = np.r_[1.0, -np.inf, np.full(2 * n, -np.inf)]
    u = np.r_[1.0, k, np.zeros(2 * n)]
    big = np.zeros((2 * n, 2 * n))
    big[:n, :n] = P
    rows = bnb.solve_miqp(
        big, np.r_[q, np.zeros(n)], A, l, u, lb=0, ub=1, binary=range(n, 2 * n)
    )
    direct = bnb.solve(bnb.SupportQP(
        P, q, k, np.ones((1, n)), [1.0], [1.0], lb=0.05, ub=1.0))
    assert rows.objective == pytest.approx(direct.objective, rel=1e-4)
    assert rows.root_bound == pytest.approx(direct.root_bound, rel=1e-3)
    plain = bnb.MIQP(big, np.r_[q, np.zeros(n)], A, l, u, lb=0, ub=1, binary=range(n, 2 * n))
    plain._presolve(FOR_EVER)
    weak = plain.plain.solve(plain.root().lb, plain.root().ub)
    assert rows.root_bound > weak.bound + 0.5 * (rows.objective - weak.bound)


def test_workers_give_the_same_optimum(two_workers):
    from test_engine import hard_miqp

    one, two = bnb.solve(hard_miqp()), bnb.solve(hard_miqp(), **two_workers)
    assert two.status is Status.OPTIMAL
    assert two.objective == pytest.approx(one.objective, rel=1e-4)


@pytest.mark.parametrize("seed", range(10))
def test_scip_agrees(seed):
    scip = pytest.importorskip("pyscipopt", reason="pyscipopt is not installed")
    rng = np.random.default_rng(900 + seed)
    n = 12
    P, q = random_psd(rng, n, n), 3 * rng.normal(size=n)
    A = rng.integers(-2, 3, size=(3, n)).astype(float)
    u = rng.integers(2, 6, 3).astype(float)
    ours = bnb.solve_miqp(P, q, A, None, u, lb=-3, ub=3, integer=range(0, n, 2))
    model = scip.Model()
    model.hideOutput()
    x = [model.addVar(lb=-3, ub=3, vtype="I" if j % 2 == 0 else "C") for j in range(n)]
    t = model.addVar(lb=None)
    square = scip.quicksum(0.5 * P[i, j] * x[i] * x[j] for i in range(n) for j in range(n))
    model.addCons(square + scip.quicksum(q[j] * x[j] for j in range(n)) <= t)
    for i in range(3):
        model.addCons(scip.quicksum(A[i, j] * x[j] for j in range(n)) <= u[i])
    model.setObjective(t)
    model.setParam("limits/gap", 1e-6)
    model.optimize()
    assert ours.status is Status.OPTIMAL
    assert ours.objective == pytest.approx(model.getObjVal(), rel=2e-4, abs=1e-4)
