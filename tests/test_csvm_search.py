"""The constrained SVM search against enumeration of all z."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from bnb.engine import solve
from bnb.problem import Goal
from csvm.search import Chance, CSVMProblem, Instance, Settings
from csvm.search.drop import DropSearch
from csvm.search.instance import ENFORCED, GIVEN_UP
from csvm.search.recourse import RecourseSearch
from csvm.search.rival import Plan, Rival
from relaxations.patience import FOR_EVER, Patience
from relaxations.svm.dual import Effort, Point, certified_value
from relaxations.svm.solvers import AutoSolver, SMOSolver

HUGE = 1e7


def convex_value(data, enforced, b_l=-np.inf, b_u=np.inf):
    """Optimum with these anchors enforced and the others left out."""
    dual = data.dual(enforced, b_l, b_u)
    point = Point(np.zeros(data.n + 2), dual.p.copy())
    effort = Effort(1e-9, 8_000_000, HUGE)
    _, violation = SMOSolver().maximise(dual, point, effort)
    value, _ = certified_value(dual, point.t)
    if violation > 1e-6 and value < 1e4:  # pairs are slow: it may or may not climb for ever
        _, violation = AutoSolver().maximise(dual, point, effort)
        value, _ = certified_value(dual, point.t)
        assert violation <= 1e-6 or value > 1e4
    return value if violation <= 1e-6 else np.inf


def enumerate_node(data, status=None, b_l=-np.inf, b_u=np.inf):
    """Least objective over all completions of a node."""
    status = np.zeros(data.m, int) if status is None else status
    choices = [(1, -1) if s == 0 else (s,) for s in status]
    best = np.inf
    for z in product(*choices):
        z = np.array(z)
        if np.all(data.weights @ (z < 0) <= data.budgets + 1e-9):
            best = min(best, convex_value(data, z > 0, b_l, b_u))
    return best


SEARCHES = {
    "convex": Settings(chances=()),
    "chains": Settings(chances=(), few=-1.0),
    "covers": Settings(chances=(), few=np.inf),
    "base": Settings(chances=(), probes=0, few=-1.0),
    "drop": Settings(begin_with="drop"),
    "recourse": Settings(begin_with="recourse"),
    "all": Settings(chances=(
        Chance(4e5, 0.5, ("drop",), 0.0), Chance(1e6, 0.0, ("recourse",), 0.5),
        Chance(2e6, 0.0, ("drop", "recourse"), 1.0), Chance(4e6, 0.0, ("pairs",), 1.0),
    )),
    "pairs": Settings(begin_with="pairs"),
    "joint": Settings(begin_with="joint"),
}


def random_instance(seed):
    """Overlapping classes, one to three rates, weights, duplicates, label noise, factors."""
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
        kernel = X if seed % 2 else X @ X.T
    else:
        gamma = 10.0 ** rng.uniform(-2, 1)
        kernel = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
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
    return Instance(kernel, y, cost, weights, required, is_factor=kernel.shape != (n, n))


class AuditedDrop(DropSearch):
    """Checks all that is decided inside a node against enumeration."""

    def _settle(self, node, goal):
        before = node.status.copy()
        super()._settle(node, goal)
        best = enumerate_node(self._in, before, node.b_l, node.b_u)
        assert min(node.bound, goal.cutoff) <= best + 1e-6 * max(1.0, abs(best))

    def _fix(self, node, free, found, cutoff):
        before = node.status.copy()
        fixed = super()._fix(node, free, found, cutoff)
        if fixed and np.isfinite(cutoff):
            best = enumerate_node(self._in, before, node.b_l, node.b_u)
            kept = enumerate_node(self._in, node.status, node.b_l, node.b_u)
            assert min(kept, cutoff) <= min(best, cutoff) + 1e-6 * max(1.0, abs(cutoff))
        return fixed


class AuditedRecourse(RecourseSearch):
    """The same for the bounds with recourse and by pairs."""

    def _settle(self, node, goal):
        before = node.status.copy()
        super()._settle(node, goal)
        best = enumerate_node(self._in, before)
        assert min(node.bound, goal.cutoff) <= best + 1e-6 * max(1.0, abs(best))
        kept = enumerate_node(self._in, node.status)
        if node.bound < goal.cutoff and np.isfinite(goal.cutoff):
            assert min(kept, goal.cutoff) <= min(best, goal.cutoff) * (1 + 1e-6) + 1e-6


class Audited(CSVMProblem):
    """Checks every node's bound, and every split, against enumeration."""

    checked = 0

    def _make(self, name):
        search = super()._make(name)
        search.__class__ = AuditedDrop if name == "drop" else AuditedRecourse
        return search

    def best(self, node):
        return enumerate_node(self.instance.with_matrix(), node.status, node.b_l, node.b_u)

    def evaluate(self, state, goal):
        found = super().evaluate(state, goal)
        best = self.best(state)
        limit = min(best, goal.cutoff) if found.bound >= goal.cutoff else best
        limit = min(limit, found.removed) if np.isfinite(found.removed) else limit
        assert min(found.bound, goal.cutoff) <= limit + 1e-6 * max(1.0, abs(limit))
        self.checked += 1
        return found

    def branch(self, state, evaluation, candidate):
        children = super().branch(state, evaluation, candidate)
        best = self.best(state)
        # Else it cannot beat the cutoff, or was found on the way: both are equal up to rounding.
        if best < evaluation.removed - 1e-9 * max(1.0, abs(best)):
            of_children = [self.best(child.state) for child in children]
            assert min(of_children) <= best + 1e-6 * max(1.0, abs(best))
            for child, value in zip(children, of_children, strict=True):
                assert child.bound <= value + 1e-6 * max(1.0, abs(value))
        return children


def audit(seed, node_solver, search):
    """Solve a random problem with every bound checked against enumeration."""
    problem = Audited(random_instance(seed), node_solver, SEARCHES[search])
    best = problem.best(problem.root())
    result = solve(problem, gap=1e-6, branching="first", node_limit=3000)
    if np.isinf(best):
        assert np.isinf(result.objective)
    else:
        assert result.objective == pytest.approx(best, rel=3e-6, abs=1e-7)
        assert result.bound <= best * (1 + 1e-6) + 1e-7
        assert problem.checked > 0


@pytest.mark.parametrize("seed, node_solver, search", [
    *((seed, "auto", ("convex", "chains", "covers")[seed % 3]) for seed in range(60)),
    *((seed, "auto", "base") for seed in range(60, 80)),
    *((seed, "auto", "drop") for seed in range(80, 160)),
    *((seed, "auto", "recourse") for seed in range(160, 230)),
    *((seed, "auto", "all") for seed in range(230, 270)),
    *((seed, "auto", "pairs") for seed in range(400, 460)),
    *((seed, "auto", "joint") for seed in range(460, 500)),
    *((seed, "osqp", search) for seed in range(270, 285) for search in SEARCHES),
])
def test_optimum_and_every_bound_match_enumeration(seed, node_solver, search):
    audit(seed, node_solver, search)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_optimum_and_every_bound_match_enumeration_thousands(block):
    for seed in range(10_000 + 30 * block, 10_030 + 30 * block):
        audit(seed, ("auto", "smo", "osqp")[seed % 3], list(SEARCHES)[seed % len(SEARCHES)])


def node_on_an_interval(seed, node_solver, **changes):
    """A random node of a random problem, on an interval of the intercept."""
    rng = np.random.default_rng(seed)
    problem = Audited(random_instance(seed), node_solver, SEARCHES["drop"])
    status = rng.choice([0, 0, 0, 1, -1], problem.instance.m).astype(np.int8)
    middle, width = rng.normal(), 10.0 ** rng.uniform(-3, 0)
    node = replace(
        problem.root(), status=status, b_l=middle - width, b_u=middle + width, **changes
    )
    return problem, node, rng


@pytest.mark.parametrize("node_solver", ["auto", "smo", "osqp"])
@pytest.mark.parametrize("block", range(10))
def test_bounds_of_random_nodes_on_intervals_of_the_intercept(block, node_solver):
    """Without an incumbent that helps."""
    useful = 0
    for seed in range(20 * block, 20 * block + 20):
        problem, node, _ = node_on_an_interval(seed, node_solver)
        useful += problem.evaluate(node, Goal()).bound > 0.0
    assert useful >= 5


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_bounds_of_random_nodes_on_intervals_of_the_intercept_thousands(block):
    for seed in range(20_000 + 40 * block, 20_040 + 40 * block):
        problem, node, _ = node_on_an_interval(seed, ("auto", "smo", "osqp")[seed % 3])
        problem.evaluate(node, Goal())


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("block", range(8))
def test_all_node_solvers_find_the_enumerated_optimum(block, search):
    for seed in range(1000 + 15 * block, 1015 + 15 * block):
        best = enumerate_node(random_instance(seed).with_matrix())
        for node_solver in ("auto", "smo", "osqp"):
            problem = CSVMProblem(random_instance(seed), node_solver, SEARCHES[search])
            result = solve(problem, branching="first", node_limit=30000)
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
        data = random_instance(seed)
        noise = np.random.default_rng(seed).exponential(size=data.n)
        problem, node, rng = node_on_an_interval(
            seed, "auto", t=np.append(data.p[: data.n] * noise, [0.0, 0.0]), age=5,
            u=np.full(data.m, 0.3), C=np.diag(np.full(data.m, 0.2)),
        )
        best = problem.best(node)
        if np.isfinite(best):
            problem.evaluate(node, Goal(cutoff=best * rng.uniform(1.0, 1.05) + 1e-6))


@pytest.mark.parametrize("search", SEARCHES)
def test_root_bound_without_incumbent_is_valid(search):
    problem = Audited(random_instance(3), settings=SEARCHES[search])
    assert np.isfinite(problem.evaluate(problem.root(), Goal()).bound)


@pytest.mark.parametrize("search", SEARCHES)
def test_out_of_time_a_node_has_a_bound_and_children_with_its_optimum(search):
    problem = Audited(random_instance(3), settings=SEARCHES[search])
    best = problem.best(problem.root())
    late = Goal(cutoff=1.5 * best, objective=1.5 * best, deadline=0.0)
    found = problem.evaluate(problem.root(), late)
    assert 0.0 < found.bound <= best * (1 + 1e-6)
    children = problem.branch(problem.root(), found, found.candidates[0])
    assert min(problem.best(c.state) for c in children) == pytest.approx(best, rel=1e-6)


def after(looks):
    """Interrupts at the so many-th look at the clock."""
    left = iter(range(looks))
    return lambda: next(left, None) is None


@pytest.mark.parametrize("seed, share, looks", [(700041, 0.7, 5), (700295, 0.85, 2)])
def test_a_cover_cut_short_says_that_trials_before_it_relied_on_the_cutoff(seed, share, looks):
    """They have given up anchors without which the optimum is no longer in the node."""
    data = random_instance(seed)
    best = enumerate_node(data.with_matrix())
    goal = Goal(cutoff=share * best, objective=share * best, interrupted=after(looks))
    problem = CSVMProblem(data, settings=replace(SEARCHES["convex"], few=1.0))
    found = problem.evaluate(problem.root(), goal)
    of_children = [enumerate_node(data.with_matrix(), child.state.status) for child in found.data]
    assert min(of_children) > best
    assert found.removed <= goal.cutoff


@pytest.mark.parametrize("node_solver", ["auto", "smo", "osqp"])
@pytest.mark.parametrize("search", ["convex", "chains", "covers"])
def test_a_node_that_there_was_no_time_to_solve_is_no_leaf(search, node_solver):
    """Wherever time ran out, the optimum is among its solutions or in a child."""
    for seed in range(500_060, 500_080):
        problem = Audited(random_instance(seed), node_solver, SEARCHES[search])
        best = problem.best(problem.root())
        for looks in range(8):
            found = problem.evaluate(problem.root(), Goal(interrupted=after(looks)))
            checked = [problem.check(x) for _, x in found.solutions]
            ends = [objective for objective, violation in checked if violation <= 1e-6]
            ends += [problem.best(child.state) for child in found.data or ()]
            assert min(ends, default=np.inf) <= best * (1 + 1e-5) + 1e-7


@pytest.mark.parametrize("seed, options", [
    (30246, {}), (30398, {"selection": "depth", "gap": 1e-6}),
])
def test_a_leaf_whose_margins_are_short_by_rounding_is_scaled(seed, options):
    """Sliding the intercept alone repairs one class at the cost of the other."""
    result = solve(CSVMProblem(random_instance(seed)), branching="first", **options)
    assert result.optimal


def test_searches_side_by_side_give_the_same_optimum(two_workers):
    for seed in (5, 17, 23):
        best = enumerate_node(random_instance(seed).with_matrix())
        problem = CSVMProblem(random_instance(seed), settings=SEARCHES["all"])
        result = solve(problem, branching="first", gap=1e-6, **two_workers)
        assert result.objective == pytest.approx(best, rel=3e-6, abs=1e-7)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("search", SEARCHES)
def test_an_incumbent_of_norm_zero_closes_the_search_in_silence(search):
    # Only positives but for an anchor that may be given up: f = 1 costs nothing.
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    weights = np.array([[1.0, 1.0, 1.0]])
    data = Instance(np.diag(np.arange(1.0, 6.0)), y, np.ones(2), weights, np.array([1.0]))
    result = solve(CSVMProblem(data, settings=SEARCHES[search]), branching="first")
    assert result.optimal and result.objective == 0.0


def harder_instance(seed):
    """So that a search takes some nodes."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], 60)
    X = rng.normal(size=(60, 3)) + 0.3 * y[:, None]
    K = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(-1))
    weights = np.array([y[30:] > 0, y[30:] < 0], dtype=float)
    return Instance(K, y, np.full(30, 0.5), weights, np.floor(0.75 * weights.sum(axis=1)))


@pytest.mark.parametrize("search", SEARCHES)
def test_a_resumed_search_goes_on_with_the_same_bound(search, tmp_path):
    whole = solve(CSVMProblem(harder_instance(1), settings=SEARCHES[search]), branching="first")
    file = tmp_path / "search.json"
    problem = CSVMProblem(harder_instance(1), settings=SEARCHES[search])
    part = solve(problem, branching="first", checkpoint=file, node_limit=2)
    used = problem.notes()
    again = CSVMProblem(harder_instance(1), settings=SEARCHES[search])
    result = solve(again, branching="first", checkpoint=file, resume=True)
    assert result.optimal and result.objective == pytest.approx(whole.objective, rel=2e-4)
    assert result.nodes > part.nodes
    assert again.notes()["chances"] >= used["chances"]


@pytest.mark.parametrize("first, rival", [
    ("convex", "drop"), ("convex", "recourse"), ("drop", "recourse"), ("recourse", "drop"),
    ("convex", "pairs"), ("pairs", "recourse"), ("joint", "recourse"),
])
def test_every_search_gives_way_to_one_that_has_come_further(first, rival):
    """To all of the optimum, if the other may go on to the end of its tree."""
    problem = CSVMProblem(harder_instance(1), settings=Settings(
        begin_with=first, chances=tuple(Chance(1e5 * k, 0.0, (rival,), 1e5) for k in range(1, 9))
    ))
    result = solve(problem, branching="first")
    plain = solve(CSVMProblem(harder_instance(1), settings=SEARCHES["convex"]), branching="first")
    assert problem.notes()["search"] == rival
    assert result.optimal and result.objective == pytest.approx(plain.objective, rel=2e-4)


def test_a_search_that_halves_its_gap_is_left_alone(monkeypatch):
    """The rival here never gets anywhere, so that all chances come."""
    turns = []
    monkeypatch.setattr(Rival, "go_on", lambda self, *_: turns.append(self) or [])
    problem = CSVMProblem(harder_instance(2), settings=Settings(
        chances=tuple(Chance(1e5 * 8.0**k, 0.0, ("drop",), 1.0) for k in range(6))
    ))
    solve(problem, branching="first")
    assert 0 < len(turns) < problem.notes()["chances"]


CHANCES = (
    Chance(1.0, 0.5, ("drop",), 0.0),
    *(Chance(10.0 * 2.0**k, 0.1, ("drop", "recourse"), 1.0) for k in range(4)),
)


def test_chances_that_are_due_at_once_count_as_one():
    """As after a long node; but one of another kind is not passed over."""
    plan = Plan("convex", Settings(chances=CHANCES))
    assert plan.chance(0.5, 1.0) is None
    assert plan.chance(45.0, 1.0) is CHANCES[0]
    assert plan.chance(45.0, 1.0) is CHANCES[3]
    assert plan.chance(45.0, 1.0) is None
    assert plan.chance(90.0, 1.0) is CHANCES[4]
    assert plan.chance(1e9, 1.0) is None


def test_a_rival_far_behind_is_hardly_trusted():
    plan, chance = Plan("convex", Settings(behind=0.7)), CHANCES[1]
    assert plan.effort("drop", chance, 5.0, 0.0) == chance.operations
    assert plan.effort("drop", chance, 5.0, 6.0) == pytest.approx(0.7 * chance.operations)
    assert plan.effort("drop", chance, 5.0, 50.0) == pytest.approx(0.07 * chance.operations)
    # nearer than before, so it is given some time
    assert plan.effort("drop", chance, 5.0, 20.0) == pytest.approx(0.049 * chance.operations)
    assert plan.effort("recourse", chance, 0.0, np.inf) == 0.0


def test_a_rival_is_compared_with_where_ours_will_be():
    chance = CHANCES[1]  # that closes a tenth of the gap
    for gap, pace in ((1.0, 0.0), (0.9, 0.1)):  # no progress, and some with every doubling
        for work, doublings, its in ((20.0, 1, 1), (5.0, 1, 3), (80.0, 3, 1)):
            plan = Plan("convex", Settings(chances=CHANCES))
            assert plan.chance(10.0, 1.0) is CHANCES[0]
            assert plan.chance(20.0, gap) is CHANCES[2]
            enough = -0.9 * (gap - pace * doublings) - 0.5 * pace * its
            assert not plan.judge("recourse", chance, -gap, enough - 1e-9, gap, work)
            assert plan.search == "convex"
            assert plan.judge("recourse", chance, -gap, enough + 1e-9, gap, work)
            assert plan.search == "recourse"
    plan = Plan("convex", Settings(chances=CHANCES))
    plan.chance(10.0, 1.0), plan.chance(20.0, 0.2)  # ours is expected to end soon
    assert not plan.judge("recourse", chance, -0.2, -0.19, 0.2, 20.0)
    assert plan.judge("recourse", chance, -0.2, 0.0, 0.2, 20.0)  # but that one has ended


def test_a_contest_decides_who_goes_on(monkeypatch):
    """Then no evaluation lets rivals go on by itself: that may take seconds, and workers wait."""
    turns = []
    monkeypatch.setattr(Rival, "go_on", lambda self, *_: turns.append(self) or [])
    chances = tuple(Chance(1.0 + k, 0.0, ("drop",), 1.0) for k in range(3))
    problem = CSVMProblem(harder_instance(2), settings=Settings(chances=chances))
    goal = Goal(cutoff=1e6, objective=1e6)
    for contested in (True, False):
        problem.prepare(goal)
        problem.evaluate(problem.root(), goal)  # so that some work is done
        turns.clear()
        if contested:
            problem.contest(2)
        problem.evaluate(problem.root(), goal)
        assert bool(turns) is not contested


def test_work_inside_nodes_is_counted():
    result = solve(CSVMProblem(harder_instance(1), settings=SEARCHES["convex"]), branching="first")
    assert result.work["convex solves"] > result.nodes and result.work["games"] == 0
    result = solve(CSVMProblem(harder_instance(1), settings=SEARCHES["drop"]), branching="first")
    assert result.work["games"] > 0


@pytest.mark.parametrize("as_factor", [True, False])
def test_what_is_hopeless_does_not_depend_on_where_the_origin_is(as_factor):
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.tile([1.0, -1.0], 10)
    found = [
        Instance(Z if as_factor else Z @ Z.T, y, np.full(10, 1e-6), np.ones((1, 10)),
                 np.array([8.0]), is_factor=as_factor).hopeless
        for Z in (X, X + 100.0)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def noisy_instance(seed, m=9):
    """Overlapping classes, and a rate on each of them: many local optima."""
    rng = np.random.default_rng(seed)
    y = np.tile([1.0, -1.0], 20)
    X = rng.normal(size=(40, 2)) + 0.3 * y[:, None]
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))
    rates = np.array([y[-m:] > 0, y[-m:] < 0], float)
    return Instance(K, y, np.ones(40 - m), rates, rates.sum(axis=1) - [1.0, 2.0])


def test_local_search_finds_what_the_sweep_misses():
    """Nearly always the optimum, never anything that breaks a rate."""
    missed = mended = 0
    for seed in range(16):
        problem = CSVMProblem(noisy_instance(seed), settings=Settings(local_first=1e8))
        optimum = enumerate_node(problem.instance) * (1 + 1e-6)
        value, x = problem.finder.sweep(FOR_EVER)
        missed += value > optimum
        while value > optimum:
            found = problem.finder.improve(Goal(incumbent=x, objective=value), 0.0, 4e8)
            if not found:
                break
            worse, (_, x) = value, found[0]
            value, violation = problem.check(x)
            assert value < worse and violation <= 1e-6
            mended += value <= optimum
    assert missed >= 3
    assert mended >= missed - 1


@pytest.mark.parametrize("seed", range(6))
def test_local_search_begins_where_games_suggest(seed):
    """It finds the optimum if that is suggested, by its first start; nodes' decisions are kept."""
    problem = CSVMProblem(noisy_instance(seed), settings=Settings(local_first=1e8))
    data, finder = problem.instance, problem.finder
    sets = [np.array(z) for z in product((1, -1), repeat=data.m)]
    sets = [z for z in sets if np.array_equal(data.weights @ (z < 0), data.budgets)]
    values = [convex_value(data, z > 0) for z in sets]
    best = sets[int(np.argmin(values))]
    value, x = finder.sweep(FOR_EVER)
    status = np.zeros(data.m, np.int8)
    status[[np.argmax(best), np.argmin(best)]] = ENFORCED, GIVEN_UP
    finder.suggest((best < 0) + 0.1, status)
    assert np.array_equal(finder._hint, best > 0)

    def no_other_start(*_):
        raise StopIteration

    finder._redrawn = no_other_start
    with pytest.raises(RuntimeError):
        finder.improve(Goal(incumbent=x, objective=value), 0.0, 1e10)
    assert finder._around <= min(values) * (1 + 1e-6)


def test_local_search_keeps_to_its_share_of_the_work():
    settings = Settings(local_share=0.25, local_most=0.5, local_first=1e6)
    problem = CSVMProblem(harder_instance(1), settings=settings)
    value, x = problem.finder.sweep(FOR_EVER)
    goal, spent = Goal(incumbent=x, objective=value), problem.finder.operations
    assert problem.finder.improve(goal, 0.0, 2.0 * spent) == []  # half of it is spent already
    assert problem.finder.operations == spent
    work = 100.0 * (spent + 1e6)
    problem.finder.improve(goal, 0.0, work)
    assert 0.25 * work <= problem.finder.operations < 0.5 * work  # a quarter, and what was begun


def test_local_search_gets_less_where_little_is_open():
    settings = Settings(local_share=0.01, local_per_gap=10.0, local_most=0.5, local_first=1e12)
    work = {}
    for gap in (0.2, 0.002):
        problem = CSVMProblem(harder_instance(1), settings=settings)
        value, x = problem.finder.sweep(FOR_EVER)
        goal, spent = Goal(incumbent=x, objective=value), problem.finder.operations
        problem.finder.improve(goal, (1.0 - gap) * value, 50.0 * spent)
        work[gap] = problem.finder.operations / spent
    assert work[0.2] >= 25.0  # half of 50
    assert work[0.002] < 2.5  # a fiftieth of 50 would be 1, which the sweep has spent already


def test_rates_that_others_imply_are_not_searched():
    """They still count where a solution is checked."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.tile([1.0, -1.0], 15)
    of = np.array([y[-10:] > 0, y[-10:] < 0, np.ones(10)], float)
    for spare, kept in ((4.0, 2), (3.0, 3)):  # of the accuracy, beside 2 and 2
        data = Instance(X @ X.T, y, np.ones(20), of, [3.0, 3.0, 10.0 - spare])
        assert len(data.budgets) == kept
        assert list(data.exact) == ([True, True] if kept == 2 else [False] * 3)
    twice = Instance(X @ X.T, y, np.ones(20), of[[0, 0, 1]], [4.0, 4.0, 3.0])
    assert len(twice.budgets) == 2
    wrong = Instance(X @ X.T, y, np.ones(20), of, [4.0, 3.0, 7.0])
    constant = np.append(np.zeros(30), 1.0)  # misses all negative anchors
    assert wrong.check(constant)[1] == 2.0


@pytest.mark.parametrize("seed", range(20))
def test_dropping_implied_rates_changes_no_optimum(seed):
    rng = np.random.default_rng(seed)
    data = noisy_instance(seed, 6)
    of = np.vstack([data.weights, rng.integers(0, 3, (2, 6)).astype(float)])
    of[2, of[2] == 0] = 1.0
    required = np.array([*(data.weights.sum(axis=1) - data.budgets), *(0.5 * of[2:].sum(axis=1))])
    K = data.gram.K[: data.n, : data.n]
    all_of_them = Instance(K, data.p[: data.n], data.cost, of, required)
    best = min(
        convex_value(data, np.array(kept)) for kept in product([True, False], repeat=6)
        if np.all(of @ np.array(kept) >= required - 1e-9)
    )
    result = solve(CSVMProblem(all_of_them), branching="first", gap=1e-6)
    assert result.objective == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("as_factor", [False, True])
def test_multipliers_that_cancel_do_not_make_an_objective_too_small(as_factor):
    """Kt is then rounding alone, and ||w||^2 = t'Kt / 4 came out as -158,605 once."""
    rng = np.random.default_rng(0)
    negative = 0
    for _ in range(50):
        Z = rng.normal(size=(10, 2))
        y = np.array([1.0, -1.0] * 5)
        null = np.linalg.svd(Z.T)[2][2:].T
        t = 1e12 * null @ rng.normal(size=8)
        data = Instance(
            Z if as_factor else Z @ Z.T, y, np.ones(6), np.ones((1, 4)), np.ones(1),
            is_factor=as_factor,
        )
        w = [sum(Fraction(z) * Fraction(v) for z, v in zip(column, t, strict=True)) / 2
             for column in Z.T]
        exact = float(sum(v * v for v in w))
        raw = 0.5 * float(t @ data.decision(np.append(t, 0.0)))
        negative += raw < 0.0
        assert data.check(np.append(t, 0.0))[0] >= exact
    assert negative or as_factor  # else there was nothing to guard against


def test_first_classifiers_leave_most_of_the_time_to_the_bound():
    class Late(Patience):
        """A clock that has gone on by a third of the time at every second look."""

        left = 3.5

        def seconds(self):
            self.__dict__["left"] = self.left - 0.5
            return self.left

    problem = CSVMProblem(harder_instance(1))
    problem.finder.sweep(FOR_EVER)
    whole = problem.finder.operations
    one = CSVMProblem(harder_instance(1))
    value, x = one.finder.sweep(Late())
    assert x is not None and np.isfinite(value)  # the first cost is tried in any case
    assert one.finder.operations < 0.8 * whole
