"""Bounds and infeasibility proofs hold whatever the multipliers are (property tests)."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import convex_minimum, linear_feasible, random_psd

from relaxations import (
    QP,
    Certifier,
    Convexifier,
    Lifted,
    OSQPWorkspace,
    Pairs,
    PerspectiveWorkspace,
    ReducedSolver,
    certified_split,
)
from relaxations.qp.convexify import BINARY, PLAIN, SWITCHED


def random_qp(rng, n, m):
    P = random_psd(rng, n, int(rng.integers(0, n + 1))) if n else np.zeros((0, 0))
    A = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.7)
    x0 = rng.normal(size=n)
    l = A @ x0 - rng.random(m)
    u = np.where(rng.random(m) < 0.3, l, A @ x0 + rng.random(m))
    qp = QP(P, rng.normal(size=n), sp.csr_matrix(A), l, u, np.zeros(n))
    return qp, x0 - 1.0, x0 + 1.0


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), m=st.integers(0, 4),
       size=st.sampled_from([0.0, 1e-3, 1.0, 1e3, 1e6]))
def test_any_multipliers_give_a_valid_bound(seed, n, m, size):
    rng = np.random.default_rng(seed)
    qp, lb, ub = random_qp(rng, n, m)
    truth = convex_minimum(qp.P, qp.q, qp.A, qp.l, qp.u, lb, ub)
    x, y = size * rng.normal(size=n), size * rng.normal(size=m)
    bound, reduced = Certifier(qp).bound(x, y, lb, ub)
    assert bound <= truth + 1e-6 * max(1.0, abs(truth)) if np.isfinite(truth) else True
    assert np.all(np.isfinite(reduced))


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1e-6, 1.0, 1e6]))
def test_infeasibility_is_never_proven_for_a_feasible_problem(seed, size):
    rng = np.random.default_rng(seed)
    qp, lb, ub = random_qp(rng, 4, 3)
    y = size * rng.normal(size=3)
    if Certifier(qp).infeasible(y, lb, ub):
        assert not linear_feasible(qp.A.toarray(), qp.l, qp.u, lb, ub)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_workspaces_agree_with_an_independent_solver(seed):
    rng = np.random.default_rng(seed)
    qp, lb, ub = random_qp(rng, 5, 3)
    truth = convex_minimum(qp.P, qp.q, qp.A, qp.l, qp.u, lb, ub)
    rough, sharp = OSQPWorkspace(qp).solve(lb, ub), ReducedSolver(qp).solve(lb, ub)
    if truth == np.inf:
        assert max(rough.bound, sharp.bound) == np.inf
        return
    # First-order steps end at a limit of iterations where rows are nearly parallel.
    for found, accuracy in ((rough, 0.05), (sharp, 1e-6)):
        assert found.bound <= truth + 1e-6 * max(1.0, abs(truth))
        assert found.bound >= truth - accuracy * max(1.0, abs(truth))


def test_large_finite_bounds_are_believed():
    """min −x over 0 ≤ x ≤ 10⁹ is −10⁹, and 2·10⁷ ≤ x leaves room above."""
    qp = QP(np.zeros((1, 1)), -np.ones(1), sp.csr_matrix((0, 1)), np.zeros(0), np.zeros(0),
            np.zeros(1))
    far = np.array([1e9])
    assert Certifier(qp).bound(np.zeros(1), np.zeros(0), np.zeros(1), far)[0] <= -1e9
    assert Certifier(qp).bound(np.zeros(1), np.zeros(0), far / 50, np.array([np.inf]))[0] < -2e7
    row = sp.csr_matrix(np.ones((1, 1)))
    qp = QP(np.zeros((1, 1)), np.zeros(1), row, far / 50, np.array([np.inf]), np.zeros(1))
    assert not Certifier(qp).infeasible(-np.ones(1), np.zeros(1), far)


def test_infeasible_nodes_are_proven():
    A = sp.csr_matrix(np.ones((1, 3)))
    qp = QP(np.eye(3), np.zeros(3), A, np.array([5.0]), np.array([5.0]), np.zeros(3))
    lb, ub = np.zeros(3), np.ones(3)
    assert OSQPWorkspace(qp).solve(lb, ub).bound == np.inf
    assert ReducedSolver(qp).solve(lb, ub).bound == np.inf


def test_workspace_survives_changing_bounds_and_repeats():
    rng = np.random.default_rng(3)
    qp, lb, ub = random_qp(rng, 8, 3)
    results = []
    for _ in range(2):
        workspace, values = OSQPWorkspace(qp), []
        warm = None
        for step in range(6):
            upper = ub.copy()
            upper[step] = lb[step]
            found = workspace.solve(lb, upper, warm=warm)
            warm = (found.x, found.y)
            values.append((found.bound, found.iterations))
        results.append(values)
    assert results[0] == results[1]


def perspective_qp(rng, n, shared):
    """Random switched QP; several x may share one z."""
    switches = 2 if shared else n
    P = np.zeros((n + switches, n + switches))
    P[:n, :n] = random_psd(rng, n, n)
    q = np.r_[rng.normal(size=n), rng.random(switches)]
    A = sp.csr_matrix(np.r_[np.ones(n), np.zeros(switches)][None, :])
    z = n + (np.arange(n) % switches)
    pairs = Pairs(np.arange(n), z, np.full(n, rng.choice([-1.0, 0.0, 0.1])), np.ones(n),
                  rng.random(n) * rng.choice([0.0, 1.0]))
    qp = QP(P, q, A, np.array([-np.inf]), np.array([1.0]), np.zeros(n + switches), pairs)
    lb = np.r_[np.full(n, -1.0), np.zeros(switches)]
    return qp, lb, np.ones(n + switches), switches


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), shared=st.booleans())
def test_perspective_bound_is_below_every_integer_point(seed, shared):
    from itertools import product

    rng = np.random.default_rng(seed)
    n = 4
    qp, lb, ub, switches = perspective_qp(rng, n, shared)
    hessian = np.array(qp.P)
    hessian[np.diag_indices(n)] += 2.0 * qp.pairs.d  # at z in {0, 1}: x²/z = x²
    best = np.inf
    for values in product([0.0, 1.0], repeat=switches):
        on = np.array(values)[qp.pairs.z - n]
        low = np.r_[on * qp.pairs.low, values]
        high = np.r_[on * qp.pairs.high, values]
        best = min(best, convex_minimum(hessian, qp.q, qp.A, qp.l, qp.u, low, high))
    workspace = PerspectiveWorkspace(qp, np.ones(qp.n))
    found = workspace.solve(lb, ub, slack=1e-6)
    assert found.bound <= best + 1e-6 * max(1.0, abs(best))
    assert abs(found.objective - found.bound) <= 1e-3 * max(1.0, abs(found.bound))
    x, y = rng.normal(size=qp.n), rng.normal(size=1)
    assert Certifier(qp).bound(x, y, lb, ub)[0] <= best + 1e-9


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.sampled_from([0, 5, 60]))
def test_rewritten_objectives_never_exceed_the_original(seed, steps):
    """However few steps the convexifier ran, its proposal is convex and an underestimator."""
    rng = np.random.default_rng(seed)
    n = 5
    kind = rng.choice([BINARY, SWITCHED, PLAIN], size=n)
    lb = np.where(kind == SWITCHED, rng.choice([0.0, 0.1, -1.0], size=n), 0.0)
    x = rng.random(n)
    x[kind == BINARY] = rng.integers(0, 2, n)[kind == BINARY]
    z = rng.integers(0, 2, n)
    x = np.where(kind == SWITCHED, np.where(z == 1, np.clip(x, lb, 1.0), 0.0), x)
    A = rng.normal(size=(int(rng.integers(0, 3)), n))
    lifted = Lifted(
        random_psd(rng, n, 3), rng.normal(size=n), kind, lb, np.ones(n),
        np.full(n, 0.5), A, A @ x, np.arange(n), np.zeros(n), (-np.inf, 3.0),
    )
    engine = Convexifier(lifted)
    if steps:
        engine.run(steps)
    for split in (
        engine.extract(),
        certified_split(lifted, rng.random(n) * (kind != PLAIN), np.zeros((n, n))),
    ):
        assert split is not None
        value = x @ lifted.Q @ x + lifted.c @ x
        rewritten = x @ split.Q @ x + split.c @ x + split.constant + split.d @ x**2
        assert rewritten <= value + 1e-8 * (1.0 + abs(value))
        assert np.linalg.eigvalsh(split.Q)[0] >= -1e-10


def test_bounds_beyond_what_osqp_takes_for_infinite_print_nothing(capfd):
    no_rows, none = sp.csr_matrix((0, 2)), np.zeros(0)
    qp = QP(sp.identity(2), np.zeros(2), no_rows, none, none, np.zeros(2))
    found = OSQPWorkspace(qp).solve(np.array([8e22, -np.inf]), np.array([np.inf, -7e21]))
    assert found.bound <= 0.5 * (8e22**2 + 7e21**2)
    assert capfd.readouterr() == ("", "")
