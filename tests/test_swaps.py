"""Swaps over supports, and portfolios whose box shrinks at the root, against enumeration."""

from itertools import combinations

import numpy as np
import pytest

import bnb
from bnb.problem import Goal
from bnb.qp.heuristics import Heuristics


def portfolio(seed, n=9, k=3, **extra):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, n + 2))
    P, q = F @ F.T / n, -0.3 * rng.random(n)
    return P, q, bnb.SupportQP(P, q, k, np.ones((1, n)), [1.0], [1.0], lb=0.05, ub=0.7, **extra)


def truth(P, q, k, exactly=False):
    """The best of all supports, each a convex QP of its own."""
    n, best = len(q), np.inf
    for size in [k] if exactly else range(1, k + 1):
        for chosen in combinations(range(n), size):
            c = list(chosen)
            part = bnb.solve_miqp(
                P[np.ix_(c, c)], q[c], np.ones((1, size)), [1.0], [1.0], lb=0.05, ub=0.7
            )
            if part.x is not None:
                best = min(best, part.objective)
    return best


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_enumeration(seed, exactly, two_workers):
    P, q, problem = portfolio(seed, exactly=exactly)
    best = truth(P, q, 3, exactly)
    for options in ({}, two_workers, {"gap": 0.0}):
        result = bnb.solve(problem, **options)
        assert result.optimal
        assert result.objective == pytest.approx(best, rel=2e-4, abs=1e-7)
        assert result.bound <= best + 1e-7


@pytest.mark.parametrize("seed", range(6))
def test_a_local_search_ends_where_no_swap_helps(seed):
    P, q, problem = portfolio(seed, n=12, k=4)
    x = np.zeros(12)
    x[:4] = 0.25
    found = problem.rules.local_search(problem.accept(x), Goal())
    objective, violation = problem.check(found)
    assert violation <= 1e-8 and objective <= problem.check(problem.accept(x))[0] + 1e-12
    support = np.flatnonzero(problem.present(found))
    for out in support:
        for into in np.setdiff1d(np.arange(12), support):
            c = [*np.setdiff1d(support, [out]), into]
            other = bnb.solve_miqp(
                P[np.ix_(c, c)], q[c], np.ones((1, len(c))), [1.0], [1.0], lb=0.05, ub=0.7
            )
            assert other.x is None or other.objective >= objective - 1e-7


def test_the_search_stops_when_time_is_up():
    _, _, problem = portfolio(0, n=12, k=4)
    x = np.zeros(12)
    x[:4] = 0.25
    found = problem.rules.local_search(problem.accept(x), Goal(deadline=-1.0))
    assert problem.check(found)[1] <= 1e-8


def test_copies_of_a_variable_do_no_harm():
    P, q, _ = portfolio(1, n=6)
    twice = np.r_[np.arange(6), np.arange(6)]
    problem = bnb.SupportQP(P[np.ix_(twice, twice)], q[twice], 3, np.ones((1, 12)), [1.0], [1.0],
                            lb=0.05, ub=0.7)
    result = bnb.solve(problem)
    assert result.optimal and result.objective <= truth(P, q, 3) + 1e-6


def test_a_box_without_room():
    """Every variable is zero for good: the rows forbid all others."""
    problem = bnb.SupportQP(np.eye(3), -np.ones(3), 2, np.ones((1, 3)), [0.0], [0.0], lb=0.1, ub=1)
    assert bnb.solve(problem).objective == 0.0


def test_large_supports_are_left_to_others():
    n = 80
    assert bnb.SupportQP(np.eye(n), -np.ones(n), 70, np.ones((1, n)), [1.0], [1.0], lb=0.0,
                         ub=1.0).rules.local_search is None


def test_what_the_root_takes_out_counts_in_the_bound(tmp_path):
    """A resumed search meets nodes from before, whose boxes are larger than the root's."""
    _, _, problem = portfolio(2, n=40, k=6)
    whole = bnb.solve(problem, gap=1e-6)
    assert whole.nodes > 6
    file, result = tmp_path / "search.json", None
    for nodes in (1, 3, 6, 10**6):
        result = bnb.solve(problem, gap=1e-6, checkpoint=file, resume=file.exists(),
                           node_limit=nodes)
        assert result.bound <= whole.objective * (1.0 + 1e-9)
    assert result.optimal and result.objective == pytest.approx(whole.objective, rel=1e-6)


def test_annealing_goes_on_in_the_tree_at_doublings():
    rng = np.random.default_rng(3)
    n = 40
    F = rng.normal(size=(n, n))
    q = 10 * rng.normal(size=n)
    problem = bnb.MIQP(F @ F.T, q, np.ones((1, n)), [5], [20], binary=range(n))
    problem.prepare(Goal())
    poor = np.zeros(n)
    poor[:5] = 1.0
    half = np.full(n, 0.5)  # nothing to round to
    improved = []
    for nodes in range(1, 140):
        problem.evaluations = nodes - 1
        finder = Heuristics(problem, problem.check(poor)[0], poor)
        found = finder.at_node(half, problem.lb, problem.ub, Goal())
        if any(source == "L" for source, _ in found):
            improved.append(nodes)
    assert improved == [32, 64, 128]
