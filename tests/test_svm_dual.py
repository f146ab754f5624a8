"""The dual's solvers: certificates, optimality, warm starts, unbounded duals, both kernels."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.svm import SVC

from relaxations.patience import FOR_EVER
from relaxations.svm.bounds.convex import ConvexBound
from relaxations.svm.dual import (
    Dual,
    Effort,
    Point,
    certified_value,
    gradient,
    intercept,
    make_feasible,
)
from relaxations.svm.gram import dense, factored
from relaxations.svm.solvers import make_solver

SOLVERS = pytest.mark.parametrize("solver", ["auto", "smo", "osqp"])


def soft_margin(seed=0, n=80, gamma=0.5, cost=1.0):
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n)
    X = rng.normal(size=(n, 3)) + 0.5 * y[:, None]
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
    return K, y, np.where(y < 0, -cost, 0.0), np.where(y > 0, cost, 0.0)


def solve(solver, gram, p, lo, hi, t=None, tol=1e-8, target=1e300):
    dual = Dual(gram, p, lo, hi)
    point = Point(np.zeros(p.size) if t is None else t, np.empty(p.size))
    make_feasible(point.t, lo, hi)
    gradient(gram, p, *point)
    rows, violation = make_solver(solver).maximise(dual, point, Effort(tol, 10**8, target))
    return dual, point, rows, violation


@SOLVERS
@pytest.mark.parametrize("cost", [0.01, 1.0, 100.0])
def test_agrees_with_libsvm(cost, solver):
    K, y, lo, hi = soft_margin(cost=cost)
    dual, point, _, violation = solve(solver, dense(K), y, lo, hi)
    # ||w||^2 + c sum(xi) is twice libsvm's objective at C = c / 2, whose dual_coef is t / 2.
    model = SVC(C=cost / 2, kernel="precomputed", tol=1e-9).fit(K, y)
    theirs = np.zeros(y.size)
    theirs[model.support_] = 2.0 * model.dual_coef_[0]
    value = y @ theirs - 0.25 * theirs @ K @ theirs
    assert violation <= 1e-8
    bound = certified_value(dual, point.t)[0]
    assert bound == pytest.approx(value, rel=1e-8)
    assert bound <= y @ point.t - 0.25 * point.t @ K @ point.t
    assert intercept(dual, point) == pytest.approx(model.intercept_[0], abs=1e-5)


@pytest.mark.parametrize("solver", ["auto", "osqp"])
@pytest.mark.parametrize("seed", range(20))
def test_a_factored_kernel_gives_what_the_matrix_gives(seed, solver):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 60)), int(rng.integers(1, 6))
    y = rng.choice([-1.0, 1.0], n)
    Z = rng.normal(size=(n, d)) + 0.3 * y[:, None]
    Z[n // 2] = Z[0]
    cost = 10.0 ** rng.uniform(-2, 2) * rng.uniform(0.5, 1.5, n)
    lo, hi = np.where(y < 0, -cost, 0.0), np.where(y > 0, cost, 0.0)
    hi[np.argmax(y)] = np.inf
    one, slow, _, _ = solve("smo", dense(Z @ Z.T), y, lo, hi, tol=1e-7)
    other, fast, _, violation = solve(solver, factored(Z), y, lo, hi, tol=1e-7)
    assert violation <= 1e-7
    assert certified_value(other, fast.t)[0] == pytest.approx(
        certified_value(one, slow.t)[0], rel=1e-6, abs=1e-6
    )
    np.testing.assert_allclose(fast.F, y - 0.5 * Z @ (Z.T @ fast.t), atol=1e-9 * (1 + cost.max()))


def test_any_feasible_point_is_below_the_primal_value():
    K, y, lo, hi = soft_margin()
    rng = np.random.default_rng(1)
    dual, best, _, _ = solve("auto", dense(K), y, lo, hi)
    optimum = certified_value(dual, best.t)[0]
    for _ in range(50):
        t = rng.normal(size=y.size)
        make_feasible(t, lo, hi)
        assert np.all((lo <= t) & (t <= hi))
        assert t.sum() == pytest.approx(0.0, abs=1e-12)
        assert certified_value(dual, t)[0] <= optimum + 1e-9


@SOLVERS
def test_warm_start_needs_less_work(solver):
    K, y, lo, hi = soft_margin(n=200)
    _, point, _, _ = solve(solver, dense(K), y, lo, hi)
    hi = hi.copy()
    capped = np.flatnonzero((y > 0) & (point.t == hi))
    hi[capped[np.argsort(point.F[capped])[1]]] = np.inf  # a small change
    _, _, warm, _ = solve(solver, dense(K), y, lo, hi, point.t.copy())
    _, _, again, _ = solve(solver, dense(K), y, lo, hi)
    assert warm < again


@pytest.mark.parametrize("data", [{"n": 60}, {"n": 150, "gamma": 20.0, "cost": 100.0}])
def test_what_was_held_is_where_the_next_solves_start(data):
    K, y, lo, hi = soft_margin(**data)
    solver = make_solver("auto")
    effort = Effort(1e-9, 10**8, 1e300)
    base = Point(np.zeros(y.size), y.copy())
    # Again from the solution: where many are inside their box pairs see at once that it is one, and
    # the active set has still to be found.
    for _ in range(2):
        solver.maximise(Dual(dense(K), y, lo, hi), base, effort)
    assert (np.sum((base.t > lo) & (base.t < hi)) > 64) == ("gamma" in data)
    solver.hold()
    for i in np.argsort(-y * base.F)[:10]:
        low, high = lo.copy(), hi.copy()
        low[i], high[i] = (-np.inf, 0.0) if y[i] < 0 else (0.0, np.inf)
        held = Point(base.t.copy(), base.F.copy())
        dual = Dual(dense(K), y, low, high)
        _, violation = solver.maximise(dual, held, effort, held=True)
        cold = Point(np.zeros(y.size), y.copy())
        make_solver("smo").maximise(dual, cold, effort)
        assert violation <= 1e-9
        assert certified_value(dual, held.t)[0] == pytest.approx(
            certified_value(dual, cold.t)[0], rel=1e-9
        )


@SOLVERS
def test_unbounded_dual_passes_any_target(solver):
    # Two identical points with opposite labels cannot both have margin one.
    y = np.array([1.0, -1.0])
    lo, hi = np.array([0.0, -np.inf]), np.array([np.inf, 0.0])
    dual, point, _, _ = solve(solver, dense(np.ones((2, 2))), y, lo, hi, target=1e6)
    assert certified_value(dual, point.t)[0] > 1e6


def test_a_kernel_matrix_off_by_rounding_lifts_no_bound():
    # Multipliers that cancel each other in Kt: what is left of t'Kt is rounding of K alone.
    rng = np.random.default_rng(0)
    for _ in range(200):
        s = rng.uniform(1e5, 1e6, 6)
        t = rng.normal(size=6) * 100.0
        t[-1] = -(s[:-1] @ t[:-1]) / s[-1]
        y, nothing = np.sign(t), np.zeros(6)
        dual = Dual(dense(np.outer(s, s)), y, nothing, nothing)
        norm = sum(Fraction(a) * Fraction(b) for a, b in zip(s, t, strict=True)) ** 2
        exact = sum(map(Fraction, np.abs(t))) - norm / 4
        assert Fraction(certified_value(dual, t)[0]) <= exact


@SOLVERS
@pytest.mark.parametrize("scale", [1e6, 1e9, 1e12, 1e15])
def test_a_bound_from_a_point_far_away_is_no_better(scale, solver):
    """Multipliers that were huge leave rounding in their sum and in the gradient."""
    K, y, lo, hi = soft_margin(cost=1.0)
    hard = np.flatnonzero(y > 0)[:3], np.flatnonzero(y < 0)[:3]
    hi[hard[0]], lo[hard[1]] = np.inf, -np.inf
    dual, best, _, _ = solve("auto", dense(K), y, lo, hi)
    optimum = y @ best.t - 0.25 * best.t @ K @ best.t
    rng = np.random.default_rng(0)
    for _ in range(10):
        start = scale * rng.normal(size=y.size)
        bound = ConvexBound(make_solver(solver), 1e300)
        found = bound.apply(dual, start, np.inf, FOR_EVER, 1e-9)
        assert found.bound <= optimum * (1 + 1e-9)
        assert abs(found.t.sum()) <= 1e-12 * (1.0 + np.abs(found.t).sum())
