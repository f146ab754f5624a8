"""The drop bound with recourse against enumeration."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from test_csvm_search import convex_value, enumerate_node, random_instance
from test_drop_bound import allowed_sets

import bnb
from csvm.search import CSVMProblem, Instance, Settings
from csvm.search.state import State as SearchNode
from relaxations.patience import FOR_EVER
from relaxations.svm.bounds.drop import Rates
from relaxations.svm.bounds.game import Mixture
from relaxations.svm.bounds.recourse import Policy, RecourseGame, _ByProjection, _BySplitting
from relaxations.svm.gram import dense
from relaxations.svm.solvers import SMOSolver

ROUNDS = 6
FAR = 1e6  # a target that no bound comes near: answers by splitting


class State:
    """A random node of a random problem with its game; nothing if all anchors are decided."""

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
            scratch = dense(data.gram.K.copy())
            self.game = RecourseGame(SMOSolver(), data.gram, scratch, data.anchors())
            self.place = self.dual, self.variables, self.rates
            self.target = FAR if seed % 2 else np.inf  # both ways to answer get their turn

    def silly_start(self):
        """A policy that no search would start with, and that is not feasible."""
        rng, n = self.rng, self.dual.p.size
        m = self.free.size
        places = rng.permutation(n)[: rng.integers(0, n)]
        policy = Policy(
            rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3), self.variables, places,
            rng.normal(size=(m, places.size)) * 10.0 ** rng.uniform(-3, 3),
            10.0 ** rng.uniform(-6, 6, places.size),
        )
        u = rng.uniform(size=m)
        return policy, Mixture(u, np.diag(u * (1.0 - u)), 3)

    def play(self, silly, rounds=ROUNDS):
        if silly:
            start = self.silly_start()
        else:
            found = self.game.open(*self.place, self.target, rounds, rounds, FOR_EVER)
            start = found.policy, found.mixture
        return self.game.play(*self.place, *start, self.target, rounds, rounds, FOR_EVER)

    def value(self, t):
        return self.dual.p @ t - 0.25 * t @ self.data.gram.K @ t

    def responses(self, policy):
        """Every allowed set with the multipliers that the policy answers it with."""
        for chosen in allowed_sets(self.rates.weights, self.rates.budgets, self.rates.exact):
            t = policy.t.copy()
            t[policy.free[chosen]] = 0.0
            t[policy.places] += policy.R[chosen].sum(axis=0)
            yield chosen, t

    def status_with(self, j, choice):
        status = self.node.status.copy()
        status[self.free[j]] = choice
        return status


def open_nodes(block, size=12):
    nodes = [State(seed) for seed in range(size * block, size * block + size)]
    return [node for node in nodes if node.open]


@pytest.mark.parametrize("silly", [False, True])
@pytest.mark.parametrize("block", range(15))
def test_bound_is_below_the_enumerated_optimum(block, silly):
    for node in open_nodes(block):
        best = enumerate_node(node.data, node.node.status)
        found = node.play(silly)
        assert found.bound <= best + 1e-6 * max(1.0, abs(best))


@pytest.mark.parametrize("silly", [False, True])
@pytest.mark.parametrize("block", range(15))
def test_every_allowed_set_is_answered_within_the_boxes_and_above_the_bound(block, silly):
    for node in open_nodes(block):
        found = node.play(silly)
        lo, hi = node.dual.lo, node.dual.hi
        for chosen, t in node.responses(found.policy):
            slip = 1e-9 * max(1.0, np.abs(found.policy.t).max())
            assert np.all(t >= lo - slip) and np.all(t <= hi + slip)
            assert abs(t.sum()) <= slip * t.size
            value = node.value(t)
            small = 1e-9 * max(1.0, abs(value))
            assert found.bound <= value + small
            assert np.all(found.bound - found.reduced[chosen] <= value + small)
            assert np.all(found.bound + found.reduced[~chosen] <= value + small)


@pytest.mark.parametrize("silly", [False, True])
@pytest.mark.parametrize("block", range(8))
def test_fixings_are_valid(block, silly):
    for node in open_nodes(block):
        found = node.play(silly)
        for j, reduced in enumerate(found.reduced):
            for choice in (1, -1):
                best = enumerate_node(node.data, node.status_with(j, choice))
                least = found.bound + max(choice * reduced, 0.0)
                assert least <= best + 1e-6 * max(1.0, abs(best))


@pytest.mark.parametrize("block", range(8))
def test_a_decided_policy_answers_as_before(block):
    checked = 0
    for node in open_nodes(block):
        policy = node.play(False).policy
        decision = node.rng.integers(0, 3, node.free.size)
        child = policy.decided(decision == 1, decision == 2)
        left = decision == 0
        assert np.array_equal(child.free, policy.free[left])
        for chosen, t in node.responses(policy):
            if np.all(chosen[decision == 2]) and not np.any(chosen[decision == 1]):
                answer = child.t.copy()
                answer[child.free[chosen[left]]] = 0.0
                answer[child.places] += child.R[chosen[left]].sum(axis=0)
                np.testing.assert_allclose(answer, t, atol=1e-9 * max(1.0, np.abs(t).max()))
                checked += 1
    assert checked > 0


def plain_bound(node):
    """The node's bound without its free anchors."""
    return convex_value(node.data, node.node.status == 1)


def test_bounds_are_worth_their_while():
    """Well above the plain bound on most nodes where that leaves a gap, and often the optimum."""
    better = close = gaps = 0
    for block in range(8):
        for node in open_nodes(block):
            best = enumerate_node(node.data, node.node.status)
            plain = plain_bound(node)
            if np.isfinite(best) and best > 1.02 * plain:
                bound = node.play(False, 40).bound
                gaps += 1
                better += bound > plain + 0.3 * (best - plain)
                close += bound > best - 0.05 * (best - plain)
    assert gaps >= 10
    assert better >= 0.6 * gaps
    assert close >= 0.2 * gaps


@pytest.mark.parametrize("far", [0.0, 1e-9, 1.0, 1e6])
def test_kernels_that_hardly_see_the_anchors(far):
    """Singular between the places, and of another size at the anchors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[40:] *= far
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    data = Instance(X @ X.T, y, np.ones(40), np.ones((1, 20)), np.array([17.0]))
    settings = Settings(begin_with="recourse", chances=())
    alone = bnb.solve(CSVMProblem(data, settings=settings), branching="first", time_limit=10)
    usual = bnb.solve(CSVMProblem(data), branching="first", time_limit=10)
    assert alone.bound <= usual.objective + 1e-6 * abs(usual.objective)
    assert usual.bound <= alone.objective + 1e-6 * abs(alone.objective)


def test_far_from_the_target_answers_are_by_splitting(monkeypatch):
    gone = []
    for way in (_ByProjection, _BySplitting):
        def answer(self, *arguments, way=way, plain=way.answer):
            gone.append(way)
            return plain(self, *arguments)

        monkeypatch.setattr(way, "answer", answer)
    node = next(node for node in open_nodes(0) if node.play(False).policy.places.size)
    found = node.game.open(*node.place, FAR, ROUNDS, ROUNDS, FOR_EVER)
    assert set(gone) == {_ByProjection, _BySplitting}
    for target, way in ((FAR, _BySplitting), (1.05 * found.bound, _ByProjection)):
        gone.clear()
        node.game.play(*node.place, found.policy, found.mixture, target, 3, 3, FOR_EVER)
        assert set(gone) == {way}


@pytest.mark.parametrize("block", range(4))
def test_a_policy_kept_compactly_bounds_as_well(block):
    for node in open_nodes(block):
        found = node.play(False)
        one_round = (1, 1, FOR_EVER)
        # Both from the same memory: a game's certificates go on from where the last ones were.
        bounds = [
            deepcopy(node.game).play(*node.place, policy, found.mixture, np.inf, *one_round).bound
            for policy in (found.policy, found.policy.compact())
        ]
        assert bounds[1] == pytest.approx(bounds[0], rel=1e-5, abs=1e-5)
        assert found.policy.compact().R.nbytes <= 0.5 * found.policy.R.nbytes


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(12))
def test_kernels_and_costs_beyond_single_precision(seed):
    """Answers that overflow are no answers; bounds of other policies stand."""
    data = random_instance(seed).with_matrix()
    kernel = 1e16 * data.gram.K[: data.n, : data.n]
    y, needed = data.p[: data.n], data.weights.sum(axis=1) - data.budgets
    large = Instance(kernel, y, 1e24 * data.cost, data.weights, needed)
    settings = Settings(begin_with="recourse", chances=())
    result = bnb.solve(
        CSVMProblem(large, "smo", settings), branching="first", node_limit=50, time_limit=10
    )
    usual = bnb.solve(CSVMProblem(large), branching="first", time_limit=10)
    assert result.bound <= usual.objective * (1 + 1e-6)
