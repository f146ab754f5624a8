"""Variables without bounds: right answers, and nothing claimed that is not proven."""

import itertools

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from oracle import brute_force
from test_brute_force import agree, support_truth

import bnb
from bnb import Reason, Status
from relaxations import QP, Certifier

INF = np.inf


@pytest.fixture(autouse=True)
def silence(capfd):
    """No library may talk to the user, not even past Python."""
    yield
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def linear(seed):
    """A random mixed-integer linear problem, most of its variables without one bound or both."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 6)), int(rng.integers(0, 4))
    A = rng.integers(-5, 8, size=(m, n)) * (rng.random((m, n)) < 0.8).astype(float)
    if seed % 3 == 2:
        A = np.round(A * rng.random((m, n)), 2)
    q = rng.integers(-3 if seed % 2 else -9, 20, n).astype(float)
    q *= rng.random(n) < (0.4 if seed % 4 == 1 else 1.0)
    x0 = rng.integers(-9, 10, n)
    lb = np.where(rng.random(n) < 0.6, np.minimum(x0, 0), -INF)
    ub = np.where(rng.random(n) < 0.25, np.maximum(x0, 3), INF)
    kind, slack = rng.random(m), rng.integers(0, 4, m)
    l = np.where(kind < 0.75, A @ x0 - slack, -INF)
    u = np.where(kind > 0.6, A @ x0 + slack, INF)
    if m and seed % 4 == 0:
        l[0] = u[0] = A[0] @ x0 + (7 if seed % 8 == 0 and seed % 3 != 2 else 0)
    return q, A, l, u, lb, ub, np.flatnonzero(rng.random(n) < (0.7 if seed % 7 else 1.1))


def highs(q, A, l, u, lb, ub, integer):
    """Status and optimum by another solver."""
    whole = np.zeros(len(q))
    whole[integer] = 1
    rows = scipy.optimize.LinearConstraint(A, l, u) if len(l) else ()
    bounds = scipy.optimize.Bounds(lb, ub)
    answer = scipy.optimize.milp(
        q, integrality=whole, bounds=bounds, constraints=rows, options={"time_limit": 2.0}
    )
    return answer.status, answer.fun


@pytest.mark.parametrize("block", range(10))
def test_linear_problems_agree_with_another_solver(block):
    for seed in range(60 * block, 60 * block + 60):
        q, A, l, u, lb, ub, integer = linear(seed)
        status, truth = highs(q, A, l, u, lb, ub, integer)
        result = bnb.solve_miqp(None, q, A, l, u, lb=lb, ub=ub, integer=integer, time_limit=30)
        if status == 0:
            agree(result, truth)
        elif status == 1:  # it gave up, we do not
            assert result.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED), seed
        else:  # it does not always tell the two apart
            assert result.status in (Status.INFEASIBLE, Status.UNBOUNDED), (seed, str(result))
            assert status == 4 or (status == 2) == (result.status is Status.INFEASIBLE), seed


@pytest.mark.parametrize("seed", range(60))
def test_convex_problems_agree_with_enumeration(seed):
    """Whatever is better than the rounded free minimum lies in a ball around that."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    F = rng.normal(size=(n, n))
    P = F @ F.T + 0.5 * np.eye(n)
    q = 4 * rng.normal(size=n)
    centre = -np.linalg.solve(P, q)

    def value(x):
        return 0.5 * x @ P @ x + q @ x

    whole = np.round(centre)
    excess = value(whole) - value(centre)
    radius = np.sqrt(2 * excess / np.linalg.eigvalsh(P)[0]) + 1e-9
    lb = np.where(rng.random(n) < 0.3, np.floor(centre), -INF)
    lb = np.minimum(lb, whole)
    low, high = np.maximum(lb, centre - radius), centre + radius
    truth = brute_force(P, q, np.zeros((0, n)), np.zeros(0), np.zeros(0), low, high, range(n))
    agree(bnb.solve_miqp(P, q, lb=lb, integer=range(n)), truth)


def test_integers_without_an_upper_bound_keep_their_box():
    result = bnb.solve_miqp(None, [11, 18, 13], [[2, 5, 7]], [22], lb=0, integer=range(3))
    assert result.optimal and result.objective == 50.0


@pytest.mark.parametrize("size", [1.0, 3e7, 3e12])
def test_far_points_are_found(size):
    """x = y = size."""
    result = bnb.solve_miqp(
        None, [1.0, 0, 1], [[1, -1, 0], [1, 1, 0]], [0, 2 * size], [0, INF],
        lb=[-INF, -INF, 0], ub=[INF, INF, 1], binary=[2],
    )
    assert result.optimal and result.objective == pytest.approx(size, rel=1e-6)


def test_far_optima_of_the_other_problems():
    rows = bnb.IndicatorQP(np.eye(1), [0.0], G=[[1.0]] * 3, b=[1e8, 2e8, 3e8],
                           groups=[(range(3), 2)])
    assert bnb.solve(rows).x == pytest.approx([2e8], rel=1e-6)
    sparse = bnb.SupportQP(np.eye(3), np.zeros(3), 2, np.ones((1, 3)), [6e7], [6e7])
    assert bnb.solve(sparse).objective == pytest.approx(9e14, rel=1e-4)
    assert bnb.solve(bnb.SupportQP(1e-8 * np.eye(3), [-1.0, -2, -3], 2, lb=0.5)).objective == (
        pytest.approx(-6.5e8, rel=2e-4)
    )


@pytest.mark.parametrize("low, high", [(0.0, INF), (0.5, INF), (-INF, 0.0), (-INF, -0.5)])
def test_support_with_one_bound_missing(low, high):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = 4
        F = rng.normal(size=(n, n))
        P, q = F @ F.T + 0.2 * np.eye(n), 2 * rng.normal(size=n)
        lb, ub = np.full(n, low), np.full(n, high)
        A, l, u = np.zeros((0, n)), np.zeros(0), np.zeros(0)
        truth = support_truth(P, q, 2, A, l, u, lb, ub, False)
        agree(bnb.solve(bnb.SupportQP(P, q, 2, lb=lb, ub=ub)), truth)


def test_free_supports_get_the_optimum_of_their_support():
    """Rounding has to know that what is not selected is zero."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 12))
        y = X @ (rng.normal(size=12) * (rng.random(12) < 0.4)) + rng.normal(size=40)
        result = bnb.solve(bnb.SupportQP(X.T @ X, -X.T @ y, 4), gap=1e-2)
        on = np.flatnonzero(result.x)
        best = np.linalg.lstsq(X[:, on], y, rcond=None)[0]
        np.testing.assert_allclose(result.x[on], best, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("P, q, truth", [
    (1e-9 * np.eye(2), [-1, -1], -1e9),
    ([[1, 1], [1, 1 + 1e-9]], [-1, 1], -2e9),
    (np.diag([1.0, 1e-9]), [0, -1], -5e8),
])
def test_little_curvature_is_enough_for_an_optimum(P, q, truth):
    result = bnb.solve_miqp(P, q, integer=[0])
    assert result.optimal and result.objective == pytest.approx(truth, rel=2e-4)


@pytest.mark.parametrize("arguments", [
    dict(P=np.diag([1.0, 0]), q=[1.0, -1], integer=[0]),
    dict(P=[[4.0, -4], [-4, 4]], q=[4.0, -8], lb=0, integer=[0, 1]),
    dict(P=None, q=[-1.0, 0.1], A=[[0.1, -0.3]], l=[0.0], u=[0.0], lb=0, integer=[0]),
    dict(P=None, q=[1.0, 1.0], A=[[1.0, -1.0]], l=None, u=[1.0], integer=[1]),
    dict(P=None, q=[0.0, -5, -9, 2, 6], A=[[-0.9, 0, 1.62, 0, -0.15]], l=[5.91], u=[5.91],
         lb=[0, 0, -INF, -9, 0], integer=range(5)),
])
def test_true_falls_are_unbounded(arguments):
    assert bnb.solve_miqp(**arguments, time_limit=60).status is Status.UNBOUNDED


def rows_of_which_some_hold(seed):
    """A random problem in small integers; most of them have nothing that stops a fall."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    F = rng.integers(-1, 2, (int(rng.integers(0, n)), n)).astype(float)
    A = rng.integers(-1, 2, (int(rng.integers(0, 2)), n)).astype(float)
    members = np.sort(rng.permutation(m)[: rng.integers(1, m + 1)])
    return dict(
        P=F.T @ F, q=rng.integers(-2, 3, n).astype(float), A=A, l=np.full(len(A), -1.0),
        lb=np.where(rng.random(n) < 0.3, -2.0, -INF), G=rng.integers(-2, 3, (m, n)).astype(float),
        b=rng.integers(-2, 4, m).astype(float), groups=[(members, rng.integers(len(members) + 1))],
    )


def whether_some_rows_let_it_fall(P, q, A, l, lb, G, b, groups):
    """By two linear programs for every choice of rows: is there a point, and a way down?"""
    (members, k), n = groups[0], len(q)
    feasible = False
    for chosen in itertools.combinations(members, int(k)):
        rows = -np.vstack([A, G[list(chosen)]])
        low = -np.concatenate([l, b[list(chosen)]])
        bounds = np.column_stack([lb, np.full(n, INF)])
        if scipy.optimize.linprog(0 * q, rows, low, bounds=bounds).status == 2:
            continue
        feasible = True
        cone = np.column_stack([np.where(np.isfinite(lb), 0.0, -1.0), np.ones(n)])
        down = scipy.optimize.linprog(q, rows, 0 * low, P, np.zeros(n), bounds=cone)
        if down.fun < -1e-6:
            return Status.UNBOUNDED
    return Status.OPTIMAL if feasible else Status.INFEASIBLE


@pytest.mark.parametrize("block", range(4))
def test_rows_of_which_some_hold_agree_with_enumeration(block):
    """Whether it falls depends on which rows are given up."""
    met = set()
    for seed in range(30 * block, 30 * block + 30):
        data = rows_of_which_some_hold(seed)
        truth = whether_some_rows_let_it_fall(**data)
        met.add(truth)
        assert bnb.solve(bnb.IndicatorQP(**data), time_limit=60).status is truth, seed
    assert met == {Status.UNBOUNDED, Status.OPTIMAL, Status.INFEASIBLE}


def test_a_fall_up_to_rounding_is_not_called_one():
    F = np.random.default_rng(0).normal(size=(4, 2))
    result = bnb.solve_miqp(F @ F.T, [1.0, 2.0, -1.0, 0.5], integer=[0])
    assert (result.status, result.reason) == (Status.FEASIBLE, Reason.EXHAUSTED)
    assert result.bound == -INF


def test_least_squares_with_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5, 8)), rng.normal(size=5)
    result = bnb.solve_miqp(X.T @ X, -X.T @ y, integer=[0, 1])
    assert result.optimal and result.objective == pytest.approx(-0.5 * y @ y)


@pytest.mark.parametrize("rows, low, high", [
    ([[1, -1, 0], [1, -1, 0]], [0, 1], [0, INF]),
    ([[0.3, -0.7, 0], [0.6, -1.4, 0.1]], [0, 1], [0, INF]),
    ([[1, 0, 2], [0, 1, 1], [1, 1, 0]], [0, 0, 9], [0, 0, INF]),
])
def test_infeasible_with_free_variables(rows, low, high):
    result = bnb.solve_miqp(None, [1.0, 0, 1], rows, low, high, lb=[-INF, -INF, 0],
                            ub=[INF, INF, 1], binary=[2])
    assert result.status is Status.INFEASIBLE


def test_whole_rows_take_whole_values():
    none = bnb.solve_miqp(None, [1.0, 1.0], [[2.0, -2.0]], [1.0], [1.0], lb=0, integer=[0, 1])
    assert none.status is Status.INFEASIBLE
    result = bnb.solve_miqp(None, [-1.0, 1], [[1.0, -1.0]], None, [3.5], lb=0, integer=[0, 1])
    assert result.optimal and result.objective == -3.0


def test_integers_beyond_what_floats_hold_end_without_a_claim():
    result = bnb.solve_miqp(None, [1.0], lb=1e17, ub=2e17, integer=[0])
    assert (result.status, result.reason) == (Status.FEASIBLE, Reason.EXHAUSTED)


@pytest.mark.parametrize("arguments, name", [
    (dict(lb=1e25), "lb must be < inf"), (dict(ub=-1e20), "ub > -inf"),
    (dict(A=[[1.0]], l=[1e21]), "l must be < inf"),
])
def test_finite_bounds_that_count_as_infinite_are_refused(arguments, name):
    with pytest.raises(ValueError, match=name):
        bnb.solve_miqp(None, [1.0], **arguments)


def test_certificates_do_not_rest_on_how_far_a_variable_goes():
    """Rows x − y = 0 and x + y ≥ b, nothing bounded: always feasible, and min x is b/2."""
    rows = sp.csr_matrix([[1.0, -1.0], [1.0, 1.0]])
    endless = np.full(2, INF)
    for b in (1.0, 1e9, 1e15):
        qp = QP(np.zeros((2, 2)), np.array([1.0, 0.0]), rows, np.array([0.0, b]),
                np.array([0.0, INF]), np.zeros(2))
        certifier = Certifier(qp)
        for noise in (0.0, 1e-13, 1e-9, 1e-5):
            y = np.array([-0.5, -0.5 + noise])
            assert not certifier.infeasible(y, -endless, endless)
            bound, _ = certifier.bound(np.zeros(2), y, -endless, endless)
            assert bound == pytest.approx(b / 2, rel=1e-9) and bound <= b / 2
        # A price that no multiplier balances: there is no bound.
        assert certifier.bound(np.zeros(2), np.array([0.3, 0.5]), -endless, endless)[0] <= b / 2


def test_rounding_of_a_huge_solution_does_not_make_it_better():
    """P is singular up to rounding: far out along its flat direction rounding would decide."""
    F = np.random.default_rng(3).normal(size=(2, 3))
    P = 1e-3 * F.T @ F
    problem = bnb.MIQP(P, P @ [1e3, 2e3, -5e2])
    near = np.array([-1e3, -2e3, 5e2])
    flat = np.linalg.svd(F)[2][-1]
    for size in np.geomspace(1e6, 1e10, 50):
        assert problem.check(near + size * flat)[0] >= problem.check(near)[0] * (1 + 1e-9)


def test_large_multipliers_along_a_flat_direction_prove_nothing():
    """Their terms cancel in xᵀPx only up to rounding, far above what the optimum is known to."""
    P = [[5.11811091131722e-10, -9.215667305029971e-10],
         [-9.215667305029971e-10, 1.6593724784119767e-09]]
    problem = bnb.IndicatorQP(
        P, [4.1842195795755417e-08, -7.534103157337871e-08], constant=7.0, b=[0, 3, -2, 0, -2, -2],
        G=0.001 * np.array([[1, 2], [-1, 0], [2, -1], [0, -2], [1, 0], [-2, 0]]),
        groups=[([1, 2, 3, 4], 0.5), ([1, 5], 2.0)],
    )
    result = bnb.solve(problem)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(6.9999982896, abs=1e-8)
