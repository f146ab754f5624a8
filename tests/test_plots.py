"""Pictures: what is drawn is what happened."""

import matplotlib

matplotlib.use("Agg")

import sys

import numpy as np
import pytest
from matplotlib import pyplot

import bnb
from bnb.plots import check_format, save
from bnb.result import TraceRow


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    n = 8
    B = rng.normal(size=(n, n))
    problem = bnb.MIQP(B.T @ B, B.T @ rng.normal(scale=5.0, size=n), integer=range(n), lb=-3, ub=3)
    found = bnb.solve(problem, keep_tree=True, branching="fractional")
    assert found.optimal and len(found.tree) > 5
    return found


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def labels(ax):
    return {text.get_text() for text in ax.get_legend().get_texts()}


def line(ax, label):
    return next(found for found in ax.lines if found.get_label() == label)


def test_gap_shows_bound_and_incumbent(result):
    ax = bnb.plot_gap(result)
    assert {"gap", "bound", "incumbent"} <= labels(ax)
    bounds = line(ax, "bound").get_ydata()
    assert bounds[-1] == pytest.approx(result.bound)
    assert line(ax, "incumbent").get_ydata()[-1] == pytest.approx(result.objective)
    low, high = ax.get_ylim()
    assert low < result.bound <= result.objective < high
    assert "optimal" in ax.get_title(loc="left")


def test_every_source_is_explained(result):
    ax = bnb.plot_gap(result)
    letters = {row.source for row in result.trace if row.source}
    assert letters
    assert letters <= {text[0] for text in labels(ax) if text[1:2] == ":"}
    assert {text.get_text() for text in ax.texts} <= letters


def test_maximise_is_turned_over(result):
    ax = bnb.plot_gap(result, maximize=True)
    assert line(ax, "bound").get_ydata()[-1] == pytest.approx(-result.bound)
    low, high = ax.get_ylim()
    assert low < -result.objective <= -result.bound < high


def test_poor_first_incumbents_do_not_flatten_the_rest(result):
    first = TraceRow(0.0, 0, -np.inf, 1e9, 0, "H")
    changed = bnb.Result(**{**vars(result), "trace": [first, *result.trace]})
    low, high = bnb.plot_gap(changed).get_ylim()
    assert high - low < 1e4
    assert low < result.bound <= result.objective < high


def test_search_without_solution_can_be_drawn():
    problem = bnb.MIQP(None, [1.0, 1.0], [[1, 1], [1, 1]], [2, -np.inf], [np.inf, 1], lb=0, ub=1,
                       integer=[0, 1])
    found = bnb.solve(problem, keep_tree=True)
    assert found.status is bnb.Status.INFEASIBLE
    assert "infeasible" in bnb.plot_gap(found).get_title(loc="left")


@pytest.mark.parametrize("height", ["bound", "depth"])
def test_tree_shows_every_node_once(result, height):
    ax = bnb.plot_tree(result, height=height)
    points = np.concatenate([group.get_offsets() for group in ax.collections[1:]])
    assert len(points) == len(result.tree)
    assert len(np.unique(points.round(9), axis=0)) == len(points)
    edges = ax.collections[0].get_segments()
    assert len(edges) == len(result.tree) - 1
    for (_, start), (_, end) in edges:
        assert end >= start - 1e-9  # bounds only rise, and depth does
    counts = [int(text.split("(")[1][:-1].replace(",", "")) for text in labels(ax) if "(" in text]
    assert sum(counts) == len(result.tree)


def test_tree_of_a_stopped_search_shows_what_is_open():
    tree = [(0, -1, 1.0, "split"), (1, 0, 2.0, "split"), (2, 0, np.inf, "cut off"),
            (3, 1, 4.0, "leaf")]
    found = bnb.Result(bnb.Status.FEASIBLE, bnb.Reason.NODES, None, 4.0, 1.0, 0.75, 1.0, 0.0, 4, 1,
                       0, 0, 1.0, 1.0, tree=tree)
    assert labels(bnb.plot_tree(found)) == {
        "split (2)", "solved (1)", "infeasible (1)", "incumbent"
    }
    found.tree = tree[:3]
    assert "children still open (1)" in labels(bnb.plot_tree(found))


def test_own_axes_are_used(result):
    _, axes = pyplot.subplots(1, 2)
    assert bnb.plot_gap(result, axes[0]) is axes[0]
    assert bnb.plot_tree(result, ax=axes[1]) is axes[1]
    assert len(pyplot.get_fignums()) == 1


def test_what_cannot_be_drawn_is_said(result):
    bare = bnb.Result(**{**vars(result), "tree": [], "trace": []})
    with pytest.raises(ValueError, match="keep_tree=True"):
        bnb.plot_tree(bare)
    with pytest.raises(ValueError, match="no trace"):
        bnb.plot_gap(bare)
    with pytest.raises(ValueError, match="'bound' or 'depth'"):
        bnb.plot_tree(result, height="x")
    with pytest.raises(ValueError, match=r"must end in one of"):
        check_format("picture.doc")


def test_missing_matplotlib_is_said(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'csvm\[plots\]'"):
        bnb.plot_gap(result)


def test_saved_files_are_pictures(result, tmp_path):
    for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
        check_format(name)
        save(bnb.plot_gap(result), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
