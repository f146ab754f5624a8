"""Definitions and singleton rows are removed, and nothing else changes."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import bnb
from bnb.qp.model import Model
from bnb.qp.substitution import rows_to_bounds, substitute

INF = np.inf


def model(P, q, A=None, low=None, high=None, lb=None, ub=None, integer=(), constant=0.0):
    n = len(q)
    mask = np.zeros(n, dtype=bool)
    mask[list(integer)] = True
    A = sp.csr_matrix((0, n) if A is None else A, dtype=float)
    sizes = (A.shape[0], A.shape[0], n, n)
    ends = [
        np.full(size, default) if value is None else np.asarray(value, dtype=float)
        for value, size, default in zip((low, high, lb, ub), sizes, (-INF, INF) * 2, strict=True)
    ]
    return Model(sp.csr_matrix(P, dtype=float), np.asarray(q, dtype=float), A, *ends, mask,
                 constant)


def objective(m, x):
    return 0.5 * x @ (m.P @ x) + m.q @ x + m.constant


def residual_model(X, y, rng):
    """½·Σ w t² + linear terms on t and b, where a·t − aXb = −ay defines t."""
    m, n = X.shape
    a = rng.choice([-2.0, 1.0, 3.0], m)
    P = np.zeros((n + m, n + m))
    P[n:, n:] = np.diag(rng.uniform(1, 2, m))
    return model(P, rng.normal(size=n + m), np.hstack([-a[:, None] * X, np.diag(a)]), -a * y,
                 -a * y, constant=1.5)


def test_residuals_come_back_as_curvature():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 3)), rng.normal(size=8)
    full = residual_model(X, y, rng)
    small = substitute(full)
    assert list(small.kept) == [0, 1, 2]
    assert small.model.A.shape == (0, 3)
    W = full.P.toarray()[3:, 3:]
    assert np.allclose(small.model.P.toarray(), X.T @ W @ X)
    for _ in range(5):
        b = rng.normal(size=3)
        x = small.recover(b)
        assert np.allclose(x[3:], X @ b - y)
        assert np.allclose(full.A @ x, full.l)
        assert objective(small.model, b) == pytest.approx(objective(full, x))
        assert np.array_equal(small.restrict(x), b)


def test_definitions_in_a_chain():
    # s = 2t + 1, t = x + y; s has a quadratic cost
    full = model(np.diag([0.0, 0, 0, 2]), [1.0, 0, 0, 0], [[0, 0, -2, 1], [-1, -1, 1, 0]],
                 [1, 0], [1, 0])
    small = substitute(full)
    assert list(small.kept) == [0, 1]
    assert np.allclose(small.recover(np.array([1.0, 2.0])), [1, 2, 3, 7])
    assert np.allclose(small.model.P.toarray(), 8)
    assert objective(small.model, np.array([1.0, 2.0])) == pytest.approx(1 + 49)


def test_bounds_of_a_defined_variable_stay_as_a_row():
    # t = (x + 2y - 1) / -2 with -1 <= t <= 4; x and y may not be defined by the row themselves
    full = model(np.diag([0.0, 0, 1]), [0.0, 0, 0], [[1, 2, 2]], [1], [1],
                 lb=[0, 0, -1], ub=[9, 9, 4])
    small = substitute(full)
    assert list(small.kept) == [0, 1]
    assert small.model.A.shape == (1, 2)
    inside = 0
    for x in itertools.product(np.linspace(0.1, 8.9, 19), repeat=2):
        x = np.array(x)
        t = small.recover(x)[2]
        row = (small.model.A @ x)[0]
        assert (-1 <= t <= 4) == (small.model.l[0] <= row <= small.model.u[0])
        inside += -1 <= t <= 4
    assert 0 < inside < 19**2


def defined_by_a_row():
    """t = x + y next to a row in x and y only."""
    return {"P": np.diag([1.0, 0, 1]), "q": [0.0, 0, 0], "A": [[1.0, 1, -1], [1, 1, 0]],
            "low": [0, -INF], "high": [0, 4], "integer": [0, 1]}


def test_a_definition_is_used():
    assert list(substitute(model(**defined_by_a_row())).kept) == [0, 1]


@pytest.mark.parametrize("why", ["integer", "two rows", "inequality", "tiny", "ambiguous"])
def test_what_must_stay(why):
    data = defined_by_a_row()
    if why == "integer":
        data["integer"] = [0, 1, 2]
    elif why == "two rows":
        data["A"][1][2] = 1
    elif why == "inequality":
        data["high"][0] = 1
    elif why == "tiny":
        data["A"][0][2] = 1e-9
    else:  # every variable could be defined by the budget row, so none is
        data.update(A=[[1.0, 1, 1]], low=[1], high=[1], P=np.eye(3), integer=[])
    small = substitute(model(**data))
    assert list(small.kept) == [0, 1, 2]
    assert small.model.A.shape[0] == len(data["low"])


def test_limit_keeps_the_form_sparse():
    rng = np.random.default_rng(1)
    full = residual_model(rng.normal(size=(6, 50)), rng.normal(size=6), rng)
    full = model(full.P, full.q, full.A, full.l, full.u, integer=range(50))
    assert substitute(full).model.P.nnz == 2500
    assert substitute(full, limit=2499).model.P.nnz == 6
    # short definitions are still put in when long ones are not
    A = full.A.tolil()
    A[0, 2:50] = 0.0
    partly = model(full.P, full.q, A, full.l, full.u, integer=range(50))
    small = substitute(partly, limit=100)
    assert len(small.kept) == 55
    assert small.model.P.nnz <= 100


def absolute_value():
    """|b| ≤ 5z, as ±b ≤ s ≤ 5z."""
    return {"P": np.diag([1.0, 0, 0]), "q": [-1.0, 0, 1],
            "A": [[1, -1, 0], [-1, -1, 0], [0, 1, -5]], "low": [-INF] * 3, "high": [0, 0, 0],
            "lb": [-INF, -INF, 0], "ub": [INF, INF, 1], "integer": [2]}


def test_inequalities_are_joined():
    small = substitute(model(**absolute_value()))
    assert list(small.kept) == [0, 2]
    rows = sorted(small.model.A.toarray().tolist())
    assert rows == [[-1, -5], [1, -5]]
    assert small.model.u.tolist() == [0, 0]
    assert small.recover(np.array([-3.0, 1.0])).tolist() == [-3, 3, 1]
    assert small.recover(np.array([2.0, 1.0])).tolist() == [2, 2, 1]


def test_only_upper_ends():
    # s <= 4 - x and s <= 2x, both rows are no restriction at all
    m = model(np.diag([1.0, 0, 1]), [0.0, 0, 0], [[1, 1, 0], [-4, 2, 0], [1, 0, 1]],
              high=[4, 0, 1])
    small = substitute(m)
    assert list(small.kept) == [0, 2]
    assert small.model.A.toarray().tolist() == [[1, 1]]
    assert small.recover(np.array([1.0, 0.0])).tolist() == [1, 2, 0]
    assert small.recover(np.array([3.0, 0.0])).tolist() == [3, 1, 0]


@pytest.mark.parametrize("why", ["cost", "curvature", "integer", "equation", "no room"])
def test_what_may_not_be_joined(why):
    data = absolute_value()
    if why == "cost":
        data["q"][1] = 0.1
    elif why == "curvature":
        data["P"][1, 1] = 1.0
    elif why == "integer":
        data["integer"] = [1, 2]
    elif why == "equation":
        data["low"][2] = 0
    else:
        data["A"] += [[1, 2, 3], [1, 3, 3], [2, 2, 3]]
        data["low"] += [-INF] * 3
        data["high"] += [1] * 3
    assert 1 in substitute(model(**data)).kept


def test_one_variable_always_stays():
    # x >= 3 and x <= 1 twice: joined, that is a row without variables that cannot hold
    m = model(np.zeros((2, 2)), [0.0, 0], [[1, 0], [1, 0], [0, 1], [0, 1]], [3, -INF, 3, -INF],
              [INF, 1, INF, 1])
    small = substitute(m)
    assert len(small.kept) == 1
    assert bnb.solve(bnb.MIQP(**small.model.arguments())).status is bnb.Status.INFEASIBLE


def test_joining_keeps_the_set_of_points():
    seen = np.array([_compare_sets(np.random.default_rng(seed)) for seed in range(30)])
    assert np.all(seen.sum(axis=0) > 30)  # there was something to compare


def _compare_sets(rng):
    """Check random points both ways; returns how many were feasible in problems that shrank."""
    n, m = 5, 6
    A = rng.integers(-2, 3, (m, n)) * (rng.random((m, n)) < 0.6)
    high = rng.integers(0, 4, m).astype(float)
    low = np.where(rng.random(m) < 0.3, high - 3, -INF)
    full = model(np.diag([1.0, 1, 0, 0, 0]), [1.0, -1, 0, 0, 0], A, low, high,
                 lb=[-3, -3, -INF, -1, -INF], ub=[3, 3, INF, INF, 2])
    small = substitute(full)
    whole, part = bnb.MIQP(**full.arguments()), bnb.MIQP(**small.model.arguments())
    there = back = 0
    for x in rng.uniform(-3, 3, (200, n)):
        if whole.check(x)[1] <= 0:
            there += 1
            assert part.check(small.restrict(x))[1] <= 1e-9
        y = small.restrict(x)
        if part.check(y)[1] <= 0:
            back += 1
            assert whole.check(small.recover(y))[1] <= 1e-9
            assert whole.check(small.recover(y))[0] == pytest.approx(part.check(y)[0])
    return (there, back) if len(small.kept) < n else (0, 0)


def test_singleton_rows_become_bounds():
    m = model(np.zeros((2, 2)), [0.0, 0], [[-2, 0], [3, 0], [0, 1], [1, 1], [0, 0]],
              [-INF, -INF, 1, -INF, -1], [4, 9, 1, 5, 0])
    got = rows_to_bounds(m)
    assert got.lb.tolist() == [-2, 1]
    assert got.ub.tolist() == [3, 1]
    assert got.A.toarray().tolist() == [[1, 1]]
    assert m.A.shape == (5, 2)  # the input is left alone


def test_contradictions_are_kept_for_the_solver():
    m = model(np.zeros((2, 2)), [0.0, 0], [[1, 0], [1, 0], [0, 1]], [3, -INF, 2], [INF, 1, INF])
    got = rows_to_bounds(m)
    assert got.A.shape[0] == 2
    assert got.lb.tolist() == [-INF, 2]
    assert bnb.solve(bnb.MIQP(**got.arguments())).status is bnb.Status.INFEASIBLE
    never = rows_to_bounds(model([[1.0]], [0.0], [[0.0]], [1], [2]))
    assert never.A.shape[0] == 1
    assert bnb.solve(bnb.MIQP(**never.arguments())).status is bnb.Status.INFEASIBLE


@pytest.mark.parametrize("seed", range(8))
def test_same_optimum_with_and_without(seed):
    rng = np.random.default_rng(seed)
    n, m = 4, 6
    full = residual_model(rng.normal(size=(m, n)), rng.normal(size=m), rng)
    lb = np.r_[np.full(n, -2.0), np.full(m, -INF)]
    ub = np.r_[np.full(n, 2.0), np.full(m, INF)]
    lb[n + 1], ub[n + 2] = -1.5, 1.0  # some residuals are bounded
    full = model(full.P, full.q, full.A, full.l, full.u, lb, ub, range(3), full.constant)
    small = substitute(full)
    assert len(small.kept) == n
    whole = bnb.MIQP(**full.arguments())
    plain = bnb.solve(whole, gap=1e-6)
    short = bnb.solve(bnb.MIQP(**small.model.arguments()), gap=1e-6)
    assert short.status is plain.status is bnb.Status.OPTIMAL
    assert short.objective == pytest.approx(plain.objective, rel=1e-5, abs=1e-6)
    value, violation = whole.check(small.recover(short.x))
    assert violation <= 1e-6
    assert value == pytest.approx(short.objective)
