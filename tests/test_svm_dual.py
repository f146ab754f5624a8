"""The dual solver: certificates, optimality, warm starts, unbounded duals."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.svm import SVC

from relaxations.svm_dual import certified_value, gradient, intercept, make_feasible, solve_dual


def soft_margin(seed=0, n=80, gamma=0.5, cost=1.0):
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n)
    X = rng.normal(size=(n, 3)) + 0.5 * y[:, None]
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
    return K, y, np.where(y < 0, -cost, 0.0), np.where(y > 0, cost, 0.0)


def solve(K, p, lo, hi, t=None, tol=1e-8, target=1e300):
    t = np.zeros(p.size) if t is None else t
    make_feasible(t, lo, hi)
    F = np.empty(p.size)
    gradient(K, p, t, F)
    steps, violation = solve_dual(K, K.diagonal().copy(), p, lo, hi, t, F, tol, 10**6, target)
    return t, F, steps, violation


@pytest.mark.parametrize("cost", [0.01, 1.0, 100.0])
def test_agrees_with_libsvm(cost):
    K, y, lo, hi = soft_margin(cost=cost)
    t, F, steps, violation = solve(K, y, lo, hi)
    # ||w||^2 + c sum(xi) is twice libsvm's objective at C = c / 2, whose dual_coef is t / 2.
    model = SVC(C=cost / 2, kernel="precomputed", tol=1e-9).fit(K, y)
    dual = np.zeros(y.size)
    dual[model.support_] = 2.0 * model.dual_coef_[0]
    value = y @ dual - 0.25 * dual @ K @ dual
    assert violation <= 1e-8
    assert certified_value(K.diagonal(), y, t, F, steps) == pytest.approx(value, rel=1e-8)
    assert certified_value(K.diagonal(), y, t, F, steps) <= y @ t - 0.25 * t @ K @ t
    assert intercept(t, F, lo, hi) == pytest.approx(model.intercept_[0], abs=1e-5)


def test_any_feasible_point_is_below_the_primal_value():
    K, y, lo, hi = soft_margin()
    rng = np.random.default_rng(1)
    best, F, steps, _ = solve(K, y, lo, hi)
    optimum = certified_value(K.diagonal(), y, best, F, steps)
    for _ in range(50):
        t = rng.normal(size=y.size)
        make_feasible(t, lo, hi)
        gradient(K, y, t, F)
        assert np.all((lo <= t) & (t <= hi))
        assert t.sum() == pytest.approx(0.0, abs=1e-12)
        assert certified_value(K.diagonal(), y, t, F, 0) <= optimum + 1e-9


def test_warm_start_needs_fewer_steps():
    K, y, lo, hi = soft_margin()
    t, F, _, _ = solve(K, y, lo, hi)
    hi = hi.copy()
    hi[np.argmax(F)] = np.inf
    _, _, warm, _ = solve(K, y, lo, hi, t.copy())
    _, _, again, _ = solve(K, y, lo, hi)
    assert warm < again


def test_unbounded_dual_passes_any_target():
    # Two identical points with opposite labels cannot both have margin one.
    K = np.ones((2, 2))
    y = np.array([1.0, -1.0])
    t, F, steps, _ = solve(K, y, np.array([0.0, -np.inf]), np.array([np.inf, 0.0]), target=1e6)
    assert certified_value(K.diagonal(), y, t, F, steps) > 1e6


def test_a_kernel_matrix_off_by_rounding_lifts_no_bound():
    # Multipliers that cancel each other in Kt: what is left of t'Kt is rounding of K alone.
    rng = np.random.default_rng(0)
    for _ in range(200):
        s = rng.uniform(1e5, 1e6, 6)
        K = np.outer(s, s)
        t = rng.normal(size=6) * 100.0
        t[-1] = -(s[:-1] @ t[:-1]) / s[-1]
        y = np.sign(t)
        F = np.empty(6)
        gradient(K, y, t, F)
        norm = sum(Fraction(a) * Fraction(b) for a, b in zip(s, t, strict=True)) ** 2
        exact = sum(map(Fraction, np.abs(t))) - norm / 4
        assert Fraction(certified_value(K.diagonal(), y, t, F, 0)) <= exact
