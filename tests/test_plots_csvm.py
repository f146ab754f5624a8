import matplotlib
import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from csvm import CSVM, plots

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def fitted():
    X, y = make_moons(120, noise=0.3, random_state=0)
    options = {"C": 40.0, "gamma": 1.0, "threshold": "none", "random_state": 0}
    return X, y, CSVM(constraints="tpr>=0.9", **options).fit(X, y)


def test_anchors_given_up_are_crossed_out(fitted):
    X, y, model = fitted
    ax = plots.decision_regions(model, X, y, resolution=30)
    drawn = {c.get_label(): c.get_offsets() for c in ax.collections}
    assert len(model.given_up_) > 0
    assert np.array_equal(drawn["anchors given up"], X[model.given_up_])
    assert sum(len(v) for k, v in drawn.items() if k.endswith("anchors")) == len(model.anchors_)


def test_regions_need_two_features(fitted):
    X, y, model = fitted
    with pytest.raises(ValueError, match="two features"):
        plots.decision_regions(model, X[:, :1], y)


def test_only_rates_of_all_points_are_drawn(fitted):
    X, y, model = fitted
    axes = [
        plots.roc({"CSVM": model}, X, y, constraints=asked)
        for asked in (["tpr>=0.8", "tnr>=0.5"], ["tpr[a]>=0.8", "tnr[*]>=0.5", "f1>=0.5"])
    ]
    assert ["asked for" in [t.get_text() for t in ax.get_legend().texts] for ax in axes] == [
        True, False
    ]


@pytest.mark.parametrize("pos_label", [None, 0])
def test_every_method_is_at_its_own_rates(fitted, pos_label):
    X, y, model = fitted
    methods = {"SVM": SVC().fit(X, y), "CSVM": model}
    ax = plots.roc(methods, X, y, pos_label=pos_label, constraints=["tpr>=0.9", "tnr>=0.5"])
    positive = y == (1 if pos_label is None else pos_label)
    marks = {line.get_label(): line for line in ax.lines}
    for name, method in methods.items():
        right = (method.predict(X) == y)
        x, height = marks[name].get_data()
        assert height == pytest.approx(right[positive].mean())
        assert x == pytest.approx(1 - right[~positive].mean())


def test_operating_points_have_exact_intervals(fitted):
    X, y, model = fitted
    methods = {"SVM": SVC().fit(X, y), "CSVM": model}
    ax = plots.operating_points(methods, X, y, constraints="tpr>=0.9", confidence=0.9)
    drawn = {bars.get_label(): bars for bars in ax.containers}
    assert set(drawn) == set(methods)
    for name, method in methods.items():
        said = method.predict(X) == 1
        (x,), (height,) = drawn[name].lines[0].get_data()
        assert (x, height) == (said[y == 0].mean(), said[y == 1].mean())
        across, up = drawn[name].lines[2]
        for place, (kind, bars) in enumerate(((0, across), (1, up))):
            ends = bars.get_segments()[0][:, place]
            k, n = int(said[y == kind].sum()), int((y == kind).sum())
            expected = binomtest(k, n).proportion_ci(0.9, method="exact")
            assert ends == pytest.approx([expected.low, expected.high])
            low, high = (ax.get_xlim, ax.get_ylim)[place]()
            assert low <= ends[0] and ends[1] <= high + 1e-9
    with pytest.raises(ValueError, match="confidence must be in"):
        plots.operating_points(methods, X, y, confidence=95)
