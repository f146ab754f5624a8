"""Small dense QPs: the active set's answers are those of interior points, cold and warm."""

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import brute_force

import bnb
from relaxations import QP, OSQPWorkspace, Pairs, workspace_for
from relaxations.qp import active_set
from relaxations.qp.active_set import INFEASIBLE, OPTIMAL, ActiveSetWorkspace, DualForm
from relaxations.qp.reduced import ReducedSolver


def random_qp(seed, equations=False, twice=False):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 25)), int(rng.integers(1, 25))
    F = rng.normal(size=(n, n))
    A = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.7)
    inside = A @ rng.uniform(-0.5, 0.5, n)
    l, u = inside - rng.random(m), inside + rng.random(m)
    if equations:
        l[: m // 3] = u[: m // 3] = inside[: m // 3]
    if twice:  # a row that says the same again is dependent on the first
        A, l, u = np.vstack([A, 2.0 * A]), np.tile(l, 2), np.tile(u, 2)
        l[m:], u[m:] = 2.0 * l[:m], 2.0 * u[:m]
    lb = np.where(rng.random(n) < 0.5, -1.0, -np.inf)
    ub = np.where(rng.random(n) < 0.5, 1.0, np.inf)
    P = F @ F.T + 0.05 * np.eye(n)
    return QP(P, 3.0 * rng.normal(size=n), sp.csr_matrix(A), l, u, np.zeros(n)), lb, ub


@pytest.fixture
def interior(monkeypatch):
    """A solver without active sets."""
    monkeypatch.setattr("relaxations.qp.reduced._FEW", -1)


@pytest.mark.parametrize("equations", [False, True])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_nodes_agree_with_interior_points(seed, equations, twice, interior):
    qp, lb, ub = random_qp(seed, equations, twice)
    workspace, reference = ActiveSetWorkspace.of(qp), ReducedSolver(qp)
    rng, warm, compared = np.random.default_rng(seed), None, 0
    for _ in range(8):
        found, truth = workspace.solve(lb, ub, warm=warm), reference.solve(lb, ub)
        feasible = np.all(qp.A @ truth.x <= qp.u + 1e-6) and np.all(qp.A @ truth.x >= qp.l - 1e-6)
        if not feasible:
            assert found.bound > truth.objective or found.bound == np.inf
            break
        assert found.objective == pytest.approx(truth.objective, rel=1e-7, abs=1e-7)
        assert found.bound <= truth.objective + 1e-7 * (1.0 + abs(truth.objective))
        assert np.all(qp.A @ found.x <= qp.u + 1e-8) and np.all(qp.A @ found.x >= qp.l - 1e-8)
        compared += 1
        warm = (found.x, found.y)
        j = int(rng.integers(qp.n))
        lb, ub = lb.copy(), ub.copy()
        if rng.random() < 0.5:
            ub[j] = max(found.x[j] - 0.1, lb[j])
        else:
            lb[j] = min(found.x[j] + 0.1, ub[j])
    assert compared


def test_bounded_nodes_have_tight_bounds():
    for seed in range(10):
        qp, lb, ub = random_qp(seed)
        lb, ub = np.maximum(lb, -2.0), np.minimum(ub, 2.0)
        found = ActiveSetWorkspace.of(qp).solve(lb, ub)
        assert found.bound == pytest.approx(found.objective, rel=1e-8, abs=1e-8)


def test_infeasible_rows_are_proven():
    P, A = np.eye(3), np.array([[1.0, 1, 1], [1, 1, 1]])
    form = DualForm.of(P, np.ones(3), A)
    ray = np.zeros(5)
    low, high = np.array([-1.0, -1, -1, 2, -9]), np.array([1.0, 1, 1, 9, 1])
    assert form.solve(low, high, ray)[0] == INFEASIBLE
    # Farkas: the ray's rows cost more than any x can give.
    C = np.vstack([np.eye(3), A])
    assert np.allclose(C.T @ ray, 0.0)
    assert np.sum(np.where(ray > 0.0, ray * high, ray * low)) < 0.0
    qp = QP(P, np.ones(3), sp.csr_matrix(A), low[3:], high[3:], np.zeros(3))
    assert ActiveSetWorkspace.of(qp).solve(low[:3], high[:3]).bound == np.inf


def test_singular_matrices_are_refused():
    F = np.random.default_rng(0).normal(size=(4, 6))
    assert DualForm.of(F.T @ F, np.ones(6), np.zeros((0, 6))) is None
    assert DualForm.of(F.T @ F + 1e-13 * np.eye(6), np.ones(6), np.zeros((0, 6))) is None
    assert DualForm.of(np.diag([1.0, 1e12]), np.ones(2), np.zeros((0, 2))) is not None  # only scale


def test_leaves_of_nearly_singular_matrices_are_accurate():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        F = rng.normal(size=(8, 8)) * 10.0 ** np.linspace(0, -5, 8)
        qp = QP(F.T @ F, rng.normal(size=8), sp.csr_matrix(np.ones((1, 8))), np.array([1.0]),
                np.array([1.0]), np.zeros(8))
        found = ReducedSolver(qp).solve(np.full(8, -3.0), np.full(8, 3.0))
        assert abs(found.x.sum() - 1.0) <= 1e-8
        assert found.objective - found.bound <= 1e-7 * (1.0 + abs(found.objective))


def test_osqp_takes_what_is_not_certified(monkeypatch):
    qp, lb, ub = random_qp(3)
    truth = ActiveSetWorkspace.of(qp).solve(lb, ub)
    unfinished = (active_set.UNFINISHED, np.ones(qp.n))
    monkeypatch.setattr(active_set.DualForm, "solve", lambda *_: unfinished)
    found = ActiveSetWorkspace.of(qp).solve(lb, ub)
    assert found.objective == pytest.approx(truth.objective, rel=1e-3, abs=1e-3)


def test_the_choice():
    dense, sparse = random_qp(1)[0], QP(
        sp.identity(30), np.ones(30), sp.csr_matrix((0, 30)), np.zeros(0), np.zeros(0), np.zeros(30)
    )
    assert isinstance(workspace_for(dense, np.ones(dense.n)), ActiveSetWorkspace)
    assert isinstance(workspace_for(sparse, np.ones(30)), OSQPWorkspace)


@pytest.mark.parametrize("seed", range(10))
def test_dense_miqps(seed):
    rng = np.random.default_rng(seed)
    n, m = 6, 4
    F, A = rng.normal(size=(n, n)), rng.normal(size=(m, n))
    P, q = F @ F.T + 0.01 * np.eye(n), 3.0 * rng.normal(size=n)
    l, u = -rng.random(m) - 0.5, rng.random(m) + 0.5
    lb, ub = np.full(n, -2.0), np.full(n, 2.0)
    chosen = [0, 2, 4]
    result = bnb.solve_miqp(P, q, A, l, u, lb=lb, ub=ub, integer=chosen)
    truth = brute_force(P, q, A, l, u, lb, ub, chosen)
    assert result.optimal and result.objective == pytest.approx(truth, rel=1e-4, abs=1e-5)
    assert result.bound <= truth + 1e-6 * (1.0 + abs(truth))


def switched(seed):
    """A QP with perspective terms, of which some variables are zero for good."""
    rng = np.random.default_rng(seed)
    n = 8
    F = rng.normal(size=(n, n))
    P = np.zeros((2 * n, 2 * n))
    P[:n, :n] = F @ F.T
    A = sp.csr_matrix(np.vstack([np.r_[np.ones(n), np.zeros(n)], np.r_[np.zeros(n), np.ones(n)]]))
    pairs = Pairs(np.arange(n), np.arange(n, 2 * n), np.zeros(n), np.ones(n), rng.random(n))
    qp = QP(P, np.r_[rng.normal(size=n), np.zeros(n)], A, np.array([1.0, -np.inf]),
            np.array([1.0, 3.0]), np.zeros(2 * n), pairs)
    return qp, n


@pytest.mark.parametrize("seed", range(5))
def test_trimmed_relaxations_say_the_same(seed):
    qp, n = switched(seed)
    lb, ub = np.zeros(2 * n), np.ones(2 * n)
    off = np.random.default_rng(seed).permutation(n)[:4]
    ub[off] = ub[n + off] = 0.0
    trimmed, whole = (
        workspace.solve(lb, ub, slack=1e-8)
        for workspace in (workspace_for(qp, np.ones(2 * n), lb, ub),
                          workspace_for(qp, np.ones(2 * n)))
    )
    assert trimmed.x.shape == whole.x.shape and np.all(trimmed.x[off] == 0.0)
    assert trimmed.bound == pytest.approx(whole.bound, abs=1e-5)
    assert trimmed.objective == pytest.approx(whole.objective, abs=1e-4)


def test_optimal_is_said():
    form = DualForm.of(np.eye(2), np.array([-3.0, 0.0]), np.array([[1.0, 1.0]]))
    multiplier = np.zeros(3)
    status, x = form.solve(np.full(3, -np.inf), np.array([2.0, 1.0, 1.5]), multiplier)
    assert status == OPTIMAL and np.allclose(x, [2.0, -0.5])
    assert np.allclose(multiplier, [0.5, 0.0, 0.5])
