"""The bound by pairs; its bounds against enumeration are in `test_games`."""

import numpy as np
import pytest
from test_csvm_search import convex_value
from test_drop_bound import allowed_sets
from test_games import ROUNDS, PairState, open_nodes

import bnb
from csvm.search import CSVMProblem, Instance, Settings
from relaxations.patience import FOR_EVER
from relaxations.svm.bounds.broken import broken_loss
from relaxations.svm.bounds.drop import Rates
from relaxations.svm.bounds.pairs import PairGame
from relaxations.svm.gram import dense


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
        for search in ("recourse", "pairs", "joint"):
            settings = Settings(begin_with=search, chances=())
            problem = CSVMProblem(data, settings=settings)
            root = bnb.solve(problem, branching="first", node_limit=1)
            full = bnb.solve(problem, branching="first")
            assert root.bound <= full.objective * (1 + 1e-6)
            bounds.append(root.bound)
        assert bounds[1] > 2.0 * bounds[0]
        assert bounds[2] >= bounds[1] * (1 - 1e-6)


def test_anchors_of_one_class_have_no_pairs():
    node = open_nodes(PairState, 0)[0]
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
