"""Integer least squares: the lattice's answers are those of brute force and of the MIQP search."""

import numpy as np
import pytest
from oracle import brute_force

import bnb
from bnb.problem import Goal
from bnb.qp.lattice import LatticeSearch, _nearest_plane


def squares(seed, n=5, m=None, box=4, spread=1.0):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(m or n, n)) * spread ** np.linspace(-1, 1, n)
    t = rng.uniform(-2.0, 2.0, n)
    P, q = 2.0 * F.T @ F, -2.0 * F.T @ (F @ t + 0.3 * rng.normal(size=m or n))
    return P, q, np.full(n, -float(box)), np.full(n, float(box))


def problem(P, q, lb, ub, **extra):
    return bnb.MIQP(P, q, integer=range(len(q)), lb=lb, ub=ub, **extra)


@pytest.mark.parametrize("seed", range(20))
def test_brute_force(seed):
    P, q, lb, ub = squares(seed, n=4 + seed % 2, box=2 + seed % 2, spread=[1.0, 3.0][seed // 2 % 2])
    none = np.zeros(0)
    truth = brute_force(P, q, np.zeros((0, len(q))), none, none, lb, ub, range(len(q)))
    result = bnb.solve(problem(P, q, lb, ub, constant=5.0))
    inside = np.all(np.abs(np.linalg.solve(P, -q)) <= ub - 1) and np.linalg.cond(P) < 10
    assert "walks" in result.work or not inside
    assert result.optimal and result.violation == 0.0
    assert result.objective == pytest.approx(truth + 5.0, rel=1e-4, abs=1e-6)
    assert result.bound <= truth + 5.0 + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_the_general_search_agrees(seed):
    """A row that says nothing sends the same problem the other way."""
    P, q, lb, ub = squares(seed, n=8, m=10, box=6)
    lattice = bnb.solve(problem(P, q, lb, ub))
    rows = bnb.solve(problem(P, q, lb, ub, A=np.ones((1, 8)), u=[1e3]))
    assert "walks" in lattice.work and "walks" not in rows.work
    assert lattice.objective == pytest.approx(rows.objective, rel=2e-4)


def test_bounds_that_are_missing():
    P, q, _, _ = squares(0)
    free = bnb.solve(problem(P, q, None, None))
    wide = bnb.solve(problem(P, q, -1000, 1000))
    assert free.optimal and free.objective == pytest.approx(wide.objective, rel=1e-9)


def test_slices_resume_and_workers(tmp_path, monkeypatch, two_workers):
    P, q, lb, ub = squares(3, n=14, box=8)
    whole = bnb.solve(problem(P, q, lb, ub))
    assert whole.nodes > 60
    monkeypatch.setattr("bnb.qp.lattice._SLICE", 7.0)
    for options in ({}, two_workers, {"selection": "depth"}):
        sliced = bnb.solve(problem(P, q, lb, ub), **options)
        assert sliced.optimal and sliced.objective == pytest.approx(whole.objective, rel=1e-4)
    file, result, parts = tmp_path / "search.json", None, 0
    while result is None or not result.optimal:
        limit = 10 if result is None else result.nodes + 20
        result = bnb.solve(problem(P, q, lb, ub), checkpoint=file, resume=parts > 0,
                           node_limit=limit)
        parts += 1
    assert parts > 2 and result.objective == pytest.approx(whole.objective, rel=1e-4)


def test_singular_matrices_are_left_to_the_general_search():
    P, q, lb, ub = squares(0)
    flat = np.ones((5, 5))
    assert LatticeSearch.of(flat, q, 0.0, lb, ub, 1e-4) is None
    assert LatticeSearch.of(flat + 1e-13 * np.eye(5), q, 0.0, lb, ub, 1e-4) is None
    assert not LatticeSearch.of(P, q + 1e3, 0.0, lb, ub, 1e-4).pays(Goal())  # the centre is far
    assert bnb.solve(problem(flat, -flat @ np.ones(5), lb, ub)).optimal


def test_bounds_hold_whatever_the_conditioning():
    """Residuals of the bound are checked in rational arithmetic."""
    from fractions import Fraction

    for seed in range(6):
        rng = np.random.default_rng(seed)
        F = rng.integers(-3, 4, (4, 4)).astype(float) + np.eye(4) * 2.0**-seed
        F[:, 3] = F[:, 2] + rng.normal(size=4) * 10.0**-seed
        P, q = 2.0 * F.T @ F, rng.normal(size=4)
        found = LatticeSearch.of(P, q, 0.0, np.full(4, -1e9), np.full(4, 1e9), 0.5)
        if found is None:
            continue
        back = np.linalg.inv(found.U).round()
        for _ in range(20):
            x = rng.integers(-50, 51, 4)
            total = float(np.sum((found.R @ (back @ x - found.centre)) ** 2))
            exact = sum(
                Fraction(P[i, j]) * int(x[i]) * int(x[j]) / 2 for i in range(4) for j in range(4)
            ) + sum(Fraction(q[i]) * int(x[i]) for i in range(4))
            assert Fraction(found._value(total)) <= exact


def test_a_box_beside_the_centre_is_not_searched_as_a_lattice():
    """Only the leaves know the box: millions of points outside it were tried for 6,561 inside."""
    P, c = np.diag([1e4, 1.0, 1.0, 1e-2]), np.array([-0.9, 4.3, 3.2, 2.2])
    problem = bnb.MIQP(P, -P @ c, integer=range(4), lb=0, ub=8, constant=0.5 * c @ P @ c)
    result = bnb.solve(problem, time_limit=30)
    best = np.clip(np.round(c), 0, 8)
    assert result.optimal and result.nodes < 1000
    assert result.objective == pytest.approx(0.5 * (best - c) @ P @ (best - c))


@pytest.mark.parametrize("seed", range(12))
def test_a_lattice_that_is_done_at_once_may_leave_the_box_on_its_way(seed):
    """Rounding leads out of the box, but all points worth a look are few."""
    rng = np.random.default_rng(seed)
    n, none = 5, np.zeros(0)
    F = rng.normal(size=(n, n)) + 2.0 * np.eye(n)
    c = rng.uniform(-1.0, 1.0, n)
    c[0] = 3.4
    P, q = 2.0 * F.T @ F, -2.0 * F.T @ (F @ c)
    lb, ub = np.full(n, -2.0), np.full(n, 2.0)
    found = LatticeSearch.of(P, q, 0.0, lb, ub, 1e-4)
    assert np.any(found.U @ _nearest_plane(found.R, found.centre) > ub)
    result = bnb.solve(problem(P, q, lb, ub))
    truth = brute_force(P, q, np.zeros((0, n)), none, none, lb, ub, range(n))
    assert "walks" in result.work
    assert result.objective == pytest.approx(truth, rel=1e-4, abs=1e-6)
