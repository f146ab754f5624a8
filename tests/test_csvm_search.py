"""The constrained SVM search against enumeration of all z."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from bnb.engine import solve
from bnb.problem import Goal
from csvm.problem import CSVMProblem
from relaxations.svm_dual import certified_value, gradient, make_feasible, solve_dual

HUGE = 1e7


def convex_value(problem, status, b_l=-np.inf, b_u=np.inf, reverse=()):
    """Optimum with the anchors of status 1 enforced, and those of `reverse` kept at margin <= 1."""
    p, lo, hi = problem.p.copy(), problem.lo.copy(), problem.hi.copy()
    for j, s in enumerate(status):
        i = problem.first + j
        sign = p[i] if s == 1 else -p[i] if j in reverse else 0.0
        hi[i] = np.inf if sign > 0 else 0.0
        lo[i] = -np.inf if sign < 0 else 0.0
    if np.isfinite(b_l):
        p[-2], hi[-2] = b_l, np.inf
    if np.isfinite(b_u):
        p[-1], lo[-1] = b_u, -np.inf
    t = np.zeros(p.size)
    F = p.copy()
    make_feasible(t, lo, hi)
    gradient(problem.K, p, t, F)
    steps, violation = solve_dual(problem.K, problem.diag, p, lo, hi, t, F, 1e-9, 4_000_000, HUGE)
    value = certified_value(problem.diag, p, t, F, steps)
    if violation > 1e-6:  # still climbing: only a dual without bound does
        assert value > 1e4
        return np.inf
    return value


def enumerate_node(problem, status=None, b_l=-np.inf, b_u=np.inf):
    """Least objective over all completions of a node."""
    status = np.zeros(problem.m, int) if status is None else status
    reverse = {j for j in range(problem.m) if status[j] < 0}
    choices = [(1, -1) if s == 0 else (s,) for s in status]
    best = np.inf
    for z in product(*choices):
        given_up = np.array(z) < 0
        if np.all(problem.weights @ given_up <= problem.budgets + 1e-9):
            best = min(best, convex_value(problem, z, b_l, b_u, reverse))
    return best


def random_problem(seed, node_solver="auto"):
    """Overlapping classes, one to three rates, weights, duplicates, label noise."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 8))
    n = int(rng.integers(4, 12)) + m
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = 1.0, -1.0
    X = rng.normal(size=(n, 2)) + 0.7 * y[:, None]
    if rng.random() < 0.3:
        X[-1] = X[-2]
    kind = rng.integers(3)
    if kind == 0:
        K = X @ X.T
    else:
        gamma = 10.0 ** rng.uniform(-2, 1)
        K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
    first = n - m
    cost = rng.choice([0.05, 0.5, 5.0]) * rng.uniform(0.5, 1.5, first)
    anchors = y[first:]
    rows = [anchors > 0, anchors < 0, np.ones(m, bool)]
    picked = [r for r in rng.permutation(3)[: rng.integers(1, 4)] if rows[r].any()] or [2]
    weights = np.array([rows[r] for r in picked], dtype=float)
    if rng.random() < 0.3:
        weights *= rng.integers(1, 4, m)
    elif rng.random() < 0.3:
        weights *= 2.0  # half an anchor's worth may be left of a budget
    share = rng.uniform(0.3, 1.0, len(picked))
    required = np.ceil(share * weights.sum(axis=1))
    return CSVMProblem(K, y, cost, weights, required, node_solver)


class Audited(CSVMProblem):
    """Checks every node's bound, and all that is decided inside it, against enumeration."""

    checked = 0

    def evaluate(self, state, goal):
        found = super().evaluate(state, goal)
        best = enumerate_node(self, state.status, state.b_l, state.b_u)
        limit = min(best, goal.cutoff) if found.bound >= goal.cutoff else best
        limit = min(limit, found.removed) if np.isfinite(found.removed) else limit
        assert min(found.bound, goal.cutoff) <= limit + 1e-6 * max(1.0, abs(limit))
        self.checked += 1
        return found

    def _settle(self, node, goal):
        before = node.status.copy()
        super()._settle(node, goal)
        best = enumerate_node(self, before, node.b_l, node.b_u)
        assert min(node.bound, goal.cutoff) <= best + 1e-6 * max(1.0, abs(best))

    def branch(self, state, evaluation, candidate):
        children = super().branch(state, evaluation, candidate)
        best = enumerate_node(self, state.status, state.b_l, state.b_u)
        if best < evaluation.removed:  # else the optimum of the node cannot beat the cutoff
            kept = min(enumerate_node(self, c.status, c.b_l, c.b_u) for c in children)
            assert kept <= best + 1e-6 * max(1.0, abs(best))
        return children

    def _fix(self, node, free, found, cutoff):
        before = node.status.copy()
        fixed = super()._fix(node, free, found, cutoff)
        if fixed and np.isfinite(cutoff):
            best = enumerate_node(self, before, node.b_l, node.b_u)
            kept = enumerate_node(self, node.status, node.b_l, node.b_u)
            assert min(kept, cutoff) <= min(best, cutoff) + 1e-6 * max(1.0, abs(cutoff))
        return fixed


def audit(seed, node_solver):
    """Solve a random problem with every bound checked against enumeration."""
    problem = random_problem(seed, node_solver)
    problem.__class__ = Audited
    best = enumerate_node(problem)
    result = solve(problem, gap=1e-6, branching="first", node_limit=3000)
    if np.isinf(best):
        assert np.isinf(result.objective)
    else:
        assert result.objective == pytest.approx(best, rel=3e-6, abs=1e-7)
        assert result.bound <= best * (1 + 1e-6) + 1e-7
        assert problem.checked > 0


@pytest.mark.parametrize("seed, node_solver", [
    *((seed, "auto") for seed in range(120)), *((seed, "osqp") for seed in range(120, 150)),
])
def test_optimum_and_every_bound_match_enumeration(seed, node_solver):
    audit(seed, node_solver)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_optimum_and_every_bound_match_enumeration_thousands(block):
    for seed in range(10_000 + 30 * block, 10_030 + 30 * block):
        audit(seed, ("auto", "smo", "osqp")[seed % 3])


def bound_of_a_random_node(seed, node_solver):
    """A bound that was not helped by an incumbent, and what it must not exceed."""
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, node_solver)
    status = rng.choice([0, 0, 0, 1, -1], problem.m).astype(np.int8)
    middle = rng.normal()
    width = 10.0 ** rng.uniform(-3, 0)
    node = replace(problem.root(), status=status, b_l=middle - width, b_u=middle + width)
    found = problem.evaluate(node, Goal())
    return found.bound, enumerate_node(problem, status, node.b_l, node.b_u)


@pytest.mark.parametrize("node_solver", ["smo", "osqp"])
@pytest.mark.parametrize("block", range(10))
def test_bounds_of_random_nodes_on_intervals_of_the_intercept(block, node_solver):
    useful = 0
    for seed in range(20 * block, 20 * block + 20):
        bound, best = bound_of_a_random_node(seed, node_solver)
        assert bound <= best + 1e-6 * max(1.0, abs(best))
        useful += bound > 0.0
    assert useful >= 5


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_bounds_of_random_nodes_on_intervals_of_the_intercept_thousands(block):
    for seed in range(20_000 + 40 * block, 20_040 + 40 * block):
        bound, best = bound_of_a_random_node(seed, ("smo", "osqp")[seed % 2])
        assert bound <= best + 1e-6 * max(1.0, abs(best))


@pytest.mark.parametrize("block", range(15))
def test_both_node_solvers_find_the_enumerated_optimum(block):
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        best = enumerate_node(random_problem(seed))
        for node_solver in ("smo", "osqp"):
            result = solve(random_problem(seed, node_solver), branching="first", node_limit=30000)
            if np.isinf(best):
                assert np.isinf(result.objective)
            else:
                assert result.optimal
                assert result.objective == pytest.approx(best, rel=2e-4, abs=1e-6)
                assert result.bound <= best * (1 + 1e-6) + 1e-7


@pytest.mark.parametrize("block", range(10))
def test_fixings_from_any_multipliers_are_valid(block):
    """Also from multipliers that no search would start with, and where all may be given up."""
    for seed in range(30 * block, 30 * block + 30):
        rng = np.random.default_rng(seed)
        problem = random_problem(seed)
        problem.__class__ = Audited
        status = rng.choice([0, 0, 0, 1, -1], problem.m).astype(np.int8)
        middle, width = rng.normal(), 10.0 ** rng.uniform(-3, 0)
        t = np.append(problem.p[: problem.n] * rng.exponential(size=problem.n), [0.0, 0.0])
        node = replace(
            problem.root(), status=status, b_l=middle - width, b_u=middle + width, t=t,
            age=5, u=np.full(problem.m, 0.3), C=np.diag(np.full(problem.m, 0.2)),
        )
        best = enumerate_node(problem, status, node.b_l, node.b_u)
        if np.isfinite(best):
            problem.evaluate(node, Goal(cutoff=best * rng.uniform(1.0, 1.05) + 1e-6))


def test_root_bound_without_incumbent_is_valid():
    problem = random_problem(3)
    found = problem.evaluate(problem.root(), Goal())
    assert found.bound <= enumerate_node(problem) + 1e-6


def test_out_of_time_a_node_has_a_bound_and_children_with_its_optimum():
    problem = random_problem(3)
    best = enumerate_node(problem)
    late = Goal(cutoff=1.5 * best, objective=1.5 * best, deadline=0.0)
    found = problem.evaluate(problem.root(), late)
    assert 0.0 < found.bound <= best * (1 + 1e-6)
    children = problem.branch(problem.root(), found, found.candidates[0])
    assert min(enumerate_node(problem, c.status, c.b_l, c.b_u) for c in children) == pytest.approx(
        best, rel=1e-6
    )


@pytest.mark.parametrize("seed, options", [
    (30246, {}), (30398, {"selection": "depth", "gap": 1e-6}),
])
def test_a_leaf_whose_margins_are_short_by_rounding_is_scaled(seed, options):
    """Sliding the intercept alone repairs one class at the cost of the other."""
    result = solve(random_problem(seed), branching="first", **options)
    assert result.optimal


@pytest.mark.filterwarnings("error")
def test_an_incumbent_of_norm_zero_closes_the_search_in_silence():
    # Only positives but for an anchor that may be given up: f = 1 costs nothing.
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    weights = np.array([[1.0, 1.0, 1.0]])
    problem = CSVMProblem(np.diag(np.arange(1.0, 6.0)), y, np.ones(2), weights, np.array([1.0]))
    result = solve(problem, branching="first")
    assert result.optimal and result.objective == 0.0
