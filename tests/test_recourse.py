"""The drop bound with recourse; its bounds against enumeration are in `test_games`."""

import numpy as np
import pytest
from test_csvm_search import convex_value, enumerate_node, random_instance
from test_games import FAR, ROUNDS, RecourseState, open_nodes

import bnb
from csvm.search import CSVMProblem, Instance, Settings
from relaxations.patience import FOR_EVER
from relaxations.svm.bounds.recourse import _ByProjection, _BySplitting


def plain_bound(node):
    """The node's bound without its free anchors."""
    return convex_value(node.data, node.node.status == 1)


def test_bounds_are_worth_their_while():
    """Well above the plain bound on most nodes where that leaves a gap, and often the optimum."""
    better = close = gaps = 0
    for block in range(8):
        for node in open_nodes(RecourseState, block):
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


def test_far_from_the_target_answers_are_by_splitting(monkeypatch):
    gone = []
    for way in (_ByProjection, _BySplitting):
        def answer(self, *arguments, way=way, plain=way.answer):
            gone.append(way)
            return plain(self, *arguments)

        monkeypatch.setattr(way, "answer", answer)
    nodes = open_nodes(RecourseState, 0)
    node = next(node for node in nodes if node.play(False).policy.places.size)
    found = node.game.open(*node.place, FAR, ROUNDS, ROUNDS, FOR_EVER)
    assert set(gone) == {_ByProjection, _BySplitting}
    for target, way in ((FAR, _BySplitting), (1.05 * found.bound, _ByProjection)):
        gone.clear()
        node.game.play(*node.place, found.policy, found.mixture, target, 3, 3, FOR_EVER)
        assert set(gone) == {way}


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
