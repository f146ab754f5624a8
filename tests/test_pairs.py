"""The bound by pairs against enumeration."""

import numpy as np
import pytest
from test_csvm_search import convex_value, enumerate_node
from test_drop_bound import allowed_sets
from test_recourse import State as RecourseState

import bnb
from csvm.search import CSVMProblem, Instance, Settings
from relaxations.patience import FOR_EVER
from relaxations.svm.bounds.broken import broken_loss
from relaxations.svm.bounds.drop import Rates
from relaxations.svm.bounds.game import Mixture
from relaxations.svm.bounds.pairs import PairGame, PairPolicy
from relaxations.svm.gram import dense

ROUNDS = 6


class State(RecourseState):
    """A random node of a random problem, and its game by pairs."""

    def __init__(self, seed):
        super().__init__(seed)
        if self.open:
            self.game = PairGame(self.data.gram)
            self.target = 1e4 if seed % 2 else 1e2  # how exact the answers are

    def silly_start(self):
        """A policy that no search would start with: any t, any pairs, and forces of any sign."""
        rng, n = self.rng, self.dual.p.size
        pairs = int(rng.integers(0, 30))
        ends = rng.integers(0, n, (pairs, 2))
        policy = PairPolicy(
            rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3), self.variables, ends,
            rng.normal(size=pairs) * 10.0 ** rng.uniform(-3, 3), rng.uniform(size=pairs),
            rng.normal(size=(pairs, 12)),
        )
        u = rng.uniform(size=self.free.size)
        return policy, Mixture(u, np.diag(u * (1.0 - u)), 3)

    def responses(self, policy):
        """Every allowed set with the multipliers that the policy answers it with."""
        for chosen in allowed_sets(self.rates.weights, self.rates.budgets, self.rates.exact):
            yield chosen, answer(policy, chosen)


def answer(policy, chosen):
    gone = np.zeros(policy.t.size, bool)
    gone[policy.free[chosen]] = True
    t = policy.t.copy()
    for (j, k), s in zip(policy.ends, policy.push, strict=True):
        if not gone[j] and not gone[k]:
            t[j] += s
            t[k] -= s
    return t


def open_nodes(block, size=12):
    nodes = [State(seed) for seed in range(size * block, size * block + size)]
    return [node for node in nodes if node.open]


@pytest.mark.parametrize("silly", [False, True])
@pytest.mark.parametrize("block", range(15))
def test_bound_is_below_the_enumerated_optimum(block, silly):
    for node in open_nodes(block):
        best = enumerate_node(node.data, node.node.status)
        assert node.play(silly).bound <= best + 1e-6 * max(1.0, abs(best))


@pytest.mark.parametrize("silly", [False, True])
@pytest.mark.parametrize("block", range(15))
def test_every_allowed_set_is_answered_within_the_boxes_and_above_the_bound(block, silly):
    for node in open_nodes(block):
        found = node.play(silly)
        for chosen, t in node.responses(found.policy):
            hi, lo = node.dual.hi.copy(), node.dual.lo.copy()
            hi[node.variables[chosen]] = lo[node.variables[chosen]] = 0.0
            slip = 1e-9 * max(1.0, np.abs(found.policy.t).max(), found.policy.push.max(initial=0.0))
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
                same = answer(child, chosen[left])
                np.testing.assert_allclose(same, t, atol=1e-9 * max(1.0, np.abs(t).max()))
                checked += 1
    assert checked > 0


@pytest.mark.parametrize("block", range(4))
def test_a_policy_kept_compactly_bounds_as_well(block):
    for node in open_nodes(block):
        found = node.play(False)
        bounds = [
            node.game.play(*node.place, policy, found.mixture, np.inf, 1, 1, FOR_EVER).bound
            for policy in (found.policy, found.policy.compact())
        ]
        assert bounds[1] == pytest.approx(bounds[0], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", range(60))
def test_the_loss_of_broken_pairs_is_bounded(seed):
    rng = np.random.default_rng(seed)
    m, pairs = 7, int(rng.integers(0, 20))
    weights = rng.choice([0.0, 1.0, 1.0, 0.5], (int(rng.integers(1, 4)), m))
    budgets = rng.uniform(0.0, 0.6) * weights.sum(axis=1)
    ends = np.array([rng.permutation(m)[:2] for _ in range(pairs)], int).reshape(-1, 2)
    ends[rng.random(pairs) < 0.2, rng.integers(2)] = -1
    loss, reduced = rng.normal(0.3, 1.0, pairs), np.empty(m)
    rates = Rates(weights, budgets, np.zeros(budgets.size, bool))
    most = broken_loss(loss, ends, rates, reduced)
    tight = -np.inf
    for chosen in allowed_sets(weights, budgets, rates.exact):
        gone = np.append(chosen, False)
        lost = loss[gone[ends].any(axis=1)].sum()
        assert lost <= most + 1e-9
        assert np.all(lost <= most - np.maximum(-reduced[chosen], 0.0) + 1e-9)
        assert np.all(lost <= most - np.maximum(reduced[~chosen], 0.0) + 1e-9)
        tight = max(tight, lost)
    assert most <= tight + 0.75 * np.abs(loss).sum() + 1e-9


def opposed(seed, pairs, budget):
    """Anchors of opposite classes next to each other, far from the others; few training points."""
    rng = np.random.default_rng(seed)
    centres = 4.0 * rng.normal(size=(pairs, 3))
    X = np.vstack([rng.normal(size=(10, 3)), centres, centres + 0.3 * rng.normal(size=(pairs, 3))])
    y = np.append(rng.choice([-1.0, 1.0], 10), np.repeat([1.0, -1.0], pairs))
    kernel = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(-1))
    weights = np.array([y[10:] > 0, y[10:] < 0], dtype=float)
    return Instance(kernel, y, np.full(10, 0.1), weights, np.full(2, pairs - budget))


def test_pairs_see_what_recourse_does_not():
    """Where training points can take over little the root bound is more than twice as good."""
    for seed in range(5):
        data = opposed(seed, 8, 1.0)
        bounds = []
        for search in ("recourse", "pairs"):
            settings = Settings(begin_with=search, chances=())
            problem = CSVMProblem(data, settings=settings)
            root = bnb.solve(problem, branching="first", node_limit=1)
            full = bnb.solve(problem, branching="first")
            assert root.bound <= full.objective * (1 + 1e-6)
            bounds.append(root.bound)
        assert bounds[1] > 2.0 * bounds[0]


@pytest.mark.parametrize("far", [0.0, 1e-9, 1.0, 1e6])
def test_kernels_that_hardly_see_the_anchors(far):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[40:] *= far
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    anchors = y[40:]
    weights = np.array([anchors > 0, anchors < 0], dtype=float)
    data = Instance(X @ X.T, y, np.ones(40), weights, weights.sum(axis=1) - 2.0)
    settings = Settings(begin_with="pairs", chances=())
    alone = bnb.solve(CSVMProblem(data, settings=settings), branching="first", time_limit=10)
    usual = bnb.solve(CSVMProblem(data), branching="first", time_limit=10)
    assert alone.bound <= usual.objective + 1e-6 * abs(usual.objective)
    assert usual.bound <= alone.objective + 1e-6 * abs(alone.objective)


def test_anchors_of_one_class_have_no_pairs():
    node = open_nodes(0)[0]
    labels = np.sign(node.dual.p)
    one = node.dual._replace(p=np.abs(node.dual.p), lo=np.maximum(node.dual.lo, 0.0))
    found = node.game.open(
        one, node.variables, node.rates, np.inf, ROUNDS, ROUNDS, FOR_EVER)
    assert found.policy.push.size == 0 and np.isfinite(found.bound)
    data = replace_labels(node.data, labels)
    assert not data.rates_both_classes


def replace_labels(data, labels):
    kernel = data.gram.K[: data.n, : data.n]
    return Instance(
        kernel, np.append(labels[: data.first], np.ones(data.m)), data.cost, np.ones((1, data.m)),
        np.array([data.m - 1.0]),
    )


def test_plain_bound_where_nothing_can_be_paired():
    """Pairs that are the same point twice have no direction."""
    K = np.ones((8, 8))
    y = np.tile([1.0, -1.0], 4)
    weights = np.array([y[4:] > 0, y[4:] < 0], dtype=float)
    data = Instance(K, y, np.ones(4), weights, np.ones(2))
    game, status = PairGame(dense(data.gram.K)), np.zeros(4, np.int8)
    found = game.open(
        data.dual(status >= 0), data.anchors(), data.rates(np.arange(4), data.propagate(status)),
        np.inf, ROUNDS, ROUNDS, FOR_EVER)
    assert found.policy.push.size == 0
    assert found.bound <= convex_value(data, status > 0) + 1e-9
