"""The bounds of the games that leave the intercept free against enumeration."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from test_csvm_search import enumerate_node, random_instance
from test_drop_bound import allowed_sets

import bnb
from bnb.problem import Goal
from csvm.search import CSVMProblem, Instance, Settings
from csvm.search.state import State as SearchNode
from relaxations.patience import FOR_EVER
from relaxations.svm.bounds.drop import Rates, top_sum
from relaxations.svm.bounds.game import Mixture
from relaxations.svm.bounds.joint import JointGame, JointPolicy
from relaxations.svm.bounds.pairs import PairGame, PairPolicy
from relaxations.svm.bounds.recourse import Policy, RecourseGame
from relaxations.svm.bounds.robust import largest_sums
from relaxations.svm.gram import dense
from relaxations.svm.solvers import SMOSolver

ROUNDS = 6
FAR = 1e6  # a target that no bound comes near: answers with recourse are by splitting


class State:
    """A random node of a random problem with a game; nothing if all anchors are decided."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.data = data = random_instance(seed).with_matrix()
        status = self.rng.choice([0, 0, 0, 1, -1], data.m).astype(np.int8)
        self.node = replace(SearchNode.root(data.m, data.n + 2), status=status)
        left = data.propagate(status)
        self.free = self.node.free
        self.open = left is not None and self.free.size > 0
        if self.open:
            weights = np.ascontiguousarray(data.weights[:, self.free])
            exact = data.exact & (left < weights.sum(axis=1))
            self.rates = Rates(weights, left, exact)
            self.dual = data.dual(status >= 0)
            self.variables = data.anchors(self.free)
            self.place = self.dual, self.variables, self.rates
            self.begin(seed)

    def play(self, silly, rounds=ROUNDS):
        if silly:
            policy, u = self.silly_policy(), self.rng.uniform(size=self.free.size)
            start = policy, Mixture.independent(u, 3)
        else:
            found = self.game.open(*self.place, self.target, rounds, rounds, FOR_EVER)
            start = found.policy, found.mixture
        return self.game.play(*self.place, *start, self.target, rounds, rounds, FOR_EVER)

    def value(self, t):
        return self.dual.p @ t - 0.25 * t @ self.data.gram.K @ t

    def responses(self, policy):
        """Every allowed set with the multipliers that the policy answers it with."""
        for chosen in allowed_sets(self.rates.weights, self.rates.budgets, self.rates.exact):
            yield chosen, self.answer(policy, chosen)

    def status_with(self, j, choice):
        status = self.node.status.copy()
        status[self.free[j]] = choice
        return status


class RecourseState(State):
    """Its game is the one with recourse."""

    def begin(self, seed):
        scratch = dense(self.data.gram.K.copy())
        self.game = RecourseGame(SMOSolver(), self.data.gram, scratch, self.data.anchors())
        self.target = FAR if seed % 2 else np.inf  # both ways to answer get their turn

    def silly_policy(self):
        """One that no search would start with, and that is not feasible."""
        rng, n = self.rng, self.dual.p.size
        places = rng.permutation(n)[: rng.integers(0, n)]
        return Policy(
            rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3), self.variables, places,
            rng.normal(size=(self.free.size, places.size)) * 10.0 ** rng.uniform(-3, 3),
            10.0 ** rng.uniform(-6, 6, places.size),
        )

    @staticmethod
    def answer(policy, chosen):
        t = policy.t.copy()
        t[policy.free[chosen]] = 0.0
        t[policy.places] += policy.R[chosen].sum(axis=0)
        return t

    @staticmethod
    def largest(policy):
        return np.abs(policy.t).max()


class PairState(State):
    """Its game is the one by pairs."""

    def begin(self, seed):
        self.game = PairGame(self.data.gram)
        self.target = 1e4 if seed % 2 else 1e2  # how exact the answers are

    def silly_policy(self):
        """One that no search would start with: any t, any pairs, and forces of any sign."""
        rng, n = self.rng, self.dual.p.size
        pairs = int(rng.integers(0, 30))
        ends = rng.integers(0, n, (pairs, 2))
        return PairPolicy(
            rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3), self.variables, ends,
            rng.normal(size=pairs) * 10.0 ** rng.uniform(-3, 3), rng.uniform(size=pairs),
            rng.normal(size=(pairs, 12)),
        )

    @staticmethod
    def answer(policy, chosen):
        gone = np.zeros(policy.t.size, bool)
        gone[policy.free[chosen]] = True
        t = policy.t.copy()
        for (j, k), s in zip(policy.ends, policy.push, strict=True):
            if not gone[j] and not gone[k]:
                t[j] += s
                t[k] -= s
        return t

    @staticmethod
    def largest(policy):
        return max(np.abs(policy.t).max(), policy.push.max(initial=0.0))


class JointState(State):
    """Its game is the one with recourse and by pairs."""

    def begin(self, seed):
        RecourseState.begin(self, seed)
        self.game = JointGame(self.game, PairGame(self.data.gram))

    def silly_policy(self):
        pairs = PairState.silly_policy(self)
        base = RecourseState.silly_policy(self)
        return JointPolicy(
            base, self.variables, pairs.ends, pairs.push, pairs.u, pairs.factor)

    @staticmethod
    def answer(policy, chosen):
        gone = np.isin(policy.base.free, policy.free[chosen])
        t = RecourseState.answer(policy.base, gone)
        pairs = PairPolicy(
            np.zeros(t.size), policy.free, policy.ends, policy.push, policy.broken, policy.factor)
        return t + PairState.answer(pairs, chosen)

    @staticmethod
    def largest(policy):
        return max(np.abs(policy.base.t).max(), policy.push.max(initial=0.0))


all_games = pytest.mark.parametrize("game", [RecourseState, PairState, JointState])


def open_nodes(game, block, size=12):
    nodes = [game(seed) for seed in range(size * block, size * block + size)]
    return [node for node in nodes if node.open]


@all_games
@pytest.mark.parametrize("silly", [False, True])
@pytest.mark.parametrize("block", range(15))
def test_bound_is_below_the_enumerated_optimum(block, silly, game):
    for node in open_nodes(game, block):
        best = enumerate_node(node.data, node.node.status)
        assert node.play(silly).bound <= best + 1e-6 * max(1.0, abs(best))


@all_games
@pytest.mark.parametrize("silly", [False, True])
@pytest.mark.parametrize("block", range(15))
def test_every_allowed_set_is_answered_within_the_boxes_and_above_the_bound(block, silly, game):
    for node in open_nodes(game, block):
        found = node.play(silly)
        for chosen, t in node.responses(found.policy):
            hi, lo = node.dual.hi.copy(), node.dual.lo.copy()
            hi[node.variables[chosen]] = lo[node.variables[chosen]] = 0.0
            slip = 1e-9 * max(1.0, node.largest(found.policy))
            assert np.all(t >= lo - slip) and np.all(t <= hi + slip)
            assert abs(t.sum()) <= slip * t.size
            value = node.value(t)
            small = 1e-9 * max(1.0, abs(value))
            assert found.bound <= value + small
            assert np.all(found.bound - found.reduced[chosen] <= value + small)
            assert np.all(found.bound + found.reduced[~chosen] <= value + small)


@all_games
@pytest.mark.parametrize("silly", [False, True])
@pytest.mark.parametrize("block", range(8))
def test_fixings_are_valid(block, silly, game):
    for node in open_nodes(game, block):
        found = node.play(silly)
        for j, reduced in enumerate(found.reduced):
            for choice in (1, -1):
                best = enumerate_node(node.data, node.status_with(j, choice))
                least = found.bound + max(choice * reduced, 0.0)
                assert least <= best + 1e-6 * max(1.0, abs(best))


def test_a_first_game_says_nothing_about_another_node_with_the_same_free_anchors():
    checked = 0
    for node in (one for block in range(6) for one in open_nodes(JointState, block)):
        status = node.status_with(0, 1)
        for choice in (1, -1):
            status[node.free[0]] = choice
            left, free = node.data.propagate(status.copy()), np.flatnonzero(status == 0)
            if left is None or not free.size:
                break
            weights = np.ascontiguousarray(node.data.weights[:, free])
            rates = Rates(weights, left, node.data.exact & (left < weights.sum(axis=1)))
            place = node.data.dual(status >= 0), node.data.anchors(free), rates
            found = node.game.open(*place, FAR, ROUNDS, ROUNDS, FOR_EVER)
            best = enumerate_node(node.data, status)
            assert found.bound <= best + 1e-6 * max(1.0, abs(best))
            checked += choice < 0
    assert checked > 0


@all_games
@pytest.mark.parametrize("block", range(8))
def test_a_decided_policy_answers_as_before(block, game):
    checked = 0
    for node in open_nodes(game, block):
        policy = node.play(False).policy
        decision = node.rng.integers(0, 3, node.free.size)
        child = policy.decided(decision == 1, decision == 2)
        left = decision == 0
        assert np.array_equal(child.free, policy.free[left])
        for chosen, t in node.responses(policy):
            if np.all(chosen[decision == 2]) and not np.any(chosen[decision == 1]):
                same = node.answer(child, chosen[left])
                np.testing.assert_allclose(same, t, atol=1e-9 * max(1.0, np.abs(t).max()))
                checked += 1
    assert checked > 0


@all_games
@pytest.mark.parametrize("block", range(4))
def test_a_policy_kept_compactly_bounds_as_well(block, game):
    for node in open_nodes(game, block):
        found = node.play(False)
        one_round = (1, 1, FOR_EVER)
        # Both from the same memory: a game's certificates go on from where the last ones were.
        bounds = [
            deepcopy(node.game).play(*node.place, policy, found.mixture, np.inf, *one_round).bound
            for policy in (found.policy, found.policy.compact())
        ]
        assert bounds[1] == pytest.approx(bounds[0], rel=1e-5, abs=1e-5)
        if game is RecourseState:
            assert found.policy.compact().R.nbytes <= 0.5 * found.policy.R.nbytes


@pytest.mark.parametrize("search", ["recourse", "pairs", "joint"])
@pytest.mark.parametrize("far", [0.0, 1e-9, 1.0, 1e6])
def test_kernels_that_hardly_see_the_anchors(far, search):
    """Singular between the places, and of another size at the anchors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[40:] *= far
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    weights, spare = np.ones((1, 20)), 3.0
    if search != "recourse":
        weights, spare = np.array([y[40:] > 0, y[40:] < 0], dtype=float), 2.0
    data = Instance(X @ X.T, y, np.ones(40), weights, weights.sum(axis=1) - spare)
    settings = Settings(begin_with=search, chances=())
    alone = bnb.solve(CSVMProblem(data, settings=settings), branching="first", time_limit=10)
    usual = bnb.solve(CSVMProblem(data), branching="first", time_limit=10)
    assert alone.bound <= usual.objective + 1e-6 * abs(usual.objective)
    assert usual.bound <= alone.objective + 1e-6 * abs(alone.objective)


def overlapping_classes(size=60, spare=5.0, cost=1.0):
    """As many points as anchors, of classes that overlap; some of each may be given up."""
    rng = np.random.default_rng(3)
    y = rng.choice([-1.0, 1.0], 2 * size)
    X = rng.normal(size=(2 * size, 5)) + 0.3 * y[:, None]
    K = np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
    weights = np.array([y[size:] > 0, y[size:] < 0], dtype=float)
    return Instance(K, y, np.full(size, cost), weights, weights.sum(axis=1) - spare)


def settled(problem, target, decided=0):
    """The root, or a node below with so many anchors enforced, after its game."""
    node = problem.root()
    node.status[:decided] = 1
    problem._by(problem.settings.begin_with)._settle(node, Goal(cutoff=target, objective=target))
    return node


@pytest.mark.parametrize("search", ["recourse", "pairs", "joint"])
def test_a_game_that_ended_early_is_no_start_for_others(search):
    # As after a resume: the first node is a deep one that the first game refutes at once.
    settings = Settings(begin_with=search, chances=())
    alone = settled(CSVMProblem(overlapping_classes(), settings=settings), 600.0)
    problem = CSVMProblem(overlapping_classes(), settings=settings)
    deep = problem.root()
    deep.status[:30] = 1
    plain = problem._convex.solve(deep, Goal(cutoff=1e9, objective=1e9)).bound
    assert settled(problem, 1.02 * plain, decided=30).bound >= 1.02 * plain
    assert settled(problem, 600.0).bound >= 0.9 * alone.bound


def test_without_pairs_both_in_one_policy_is_the_game_with_recourse():
    data = overlapping_classes(20, 3.0)
    rates = data.rates(np.arange(data.m), data.budgets)
    place = data.dual(np.ones(data.m, bool)), data.anchors(), rates
    recourse, joint = (CSVMProblem(data)._game(name, data) for name in ("recourse", "joint"))
    first = recourse.open(*place, 600.0, 5, 5, FOR_EVER)
    how = first.mixture, 600.0, ROUNDS, ROUNDS, FOR_EVER
    start = JointPolicy.with_recourse(deepcopy(first.policy))
    found = joint.play(*place, start, *how)
    assert found.bound == pytest.approx(recourse.play(*place, first.policy, *how).bound, rel=1e-3)
    assert found.bound > first.bound and not found.policy.push.size


def test_the_work_of_games_that_a_game_begins_with_is_counted():
    problem = CSVMProblem(
        overlapping_classes(20, 3.0), settings=Settings(begin_with="joint", chances=()))
    settled(problem, 600.0)
    played = {name: game.operations for name, game in problem._games.items()}
    assert set(played) == {"recourse", "pairs", "joint"} and min(played.values()) > 0.0
    assert problem._operations() >= sum(played.values())


@pytest.mark.parametrize("cost", [0.0, 1e-300])
@pytest.mark.parametrize("search", ["recourse", "pairs", "joint"])
@pytest.mark.filterwarnings("error")
def test_training_points_that_can_take_nothing_over_are_no_matter(search, cost):
    data = overlapping_classes(20, 2.0, cost)
    node = settled(CSVMProblem(data, settings=Settings(begin_with=search, chances=())), 600.0)
    assert 0.0 <= node.bound < np.inf


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("kind", ["sizes", "ties", "sparse", "wide"])
def test_sums_of_the_largest(kind, exact, sign):
    rng = np.random.default_rng(0)
    for anchors, budget in ((40, 7), (9, 2), (5, 5), (5, 0), (1, 1)):
        rows = rng.normal(size=(50, anchors))
        rows = {
            "sizes": rows, "ties": rows.round(), "wide": np.exp(5.0 * rows) * np.sign(rows),
            "sparse": rows * (rng.random(rows.shape) < 0.2),
        }[kind]
        rates = Rates(np.ones((1, anchors)), np.array([float(budget)]), np.array([exact]))
        found = np.empty(50)
        largest_sums(rows, sign, rates, np.array([0, anchors]), found)
        top = np.sort(sign * rows, axis=1)[:, anchors - budget:]
        asked = top.sum(axis=1) if exact else np.maximum(top, 0.0).sum(axis=1)
        rounding = 1e-14 * anchors * np.abs(rows).max()
        assert found == pytest.approx(asked, rel=1e-8, abs=10.0 * rounding)
        assert (found >= asked - rounding).all()


@pytest.mark.parametrize("bar", [0.0, 0.5, 2.5, 9.0])
def test_the_sum_of_more_entries_than_there_are_is_that_of_all(bar):
    assert top_sum(np.zeros(0), 2, bar, 0.0)[0] == 0.0
    assert top_sum(np.array([1.0, 2.0, 3.0]), 5, bar, 0.0)[0] == pytest.approx(6.0)
    assert top_sum(np.array([1.0, -2.0, 3.0]), 5, bar, 0.0)[0] == pytest.approx(4.0)
    assert top_sum(np.array([1.0, -2.0, 3.0]), 3, bar, -np.inf)[0] == pytest.approx(2.0)
