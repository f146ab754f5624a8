import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from csvm import all_of
from csvm.sliding import SlidingSVC, slide
from csvm.thresholds import AnchorWarning


def random_case(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(3, 12))
    y = rng.choice([-1.0, 1.0], m)
    y[:2] = 1.0, -1.0
    decision = np.round(rng.normal(size=m) + 0.5 * y, 1)  # rounding makes ties
    rows = np.array([y > 0, y < 0, np.ones(m, bool)], dtype=float)
    picked = rng.permutation(3)[: rng.integers(1, 4)]
    weights = rows[picked] * rng.integers(1, 3, m)
    required = np.ceil(rng.uniform(0.3, 1.0, len(picked)) * weights.sum(axis=1))
    return decision, y, weights, required


def holds(a, b, decision, y, weights, required, margin=1.0):
    return np.all(weights @ (y * (a * decision + b) >= margin - 1e-9) >= required - 1e-9)


@given(st.integers(0, 10**6))
def test_smallest_shift_that_holds(seed):
    decision, y, weights, required = random_case(seed)
    found = slide(decision, y, weights, required, scale=False)
    grid = np.concatenate([[0.0], y - decision])
    fits = [abs(b) for b in grid if holds(1.0, b, decision, y, weights, required)]
    if found is None:
        assert not fits
    else:
        assert found[0] == 1.0 and holds(*found, decision, y, weights, required)
        assert abs(found[1]) <= min(fits) + 1e-9


@given(st.integers(0, 10**6))
def test_smallest_scale_that_holds(seed):
    decision, y, weights, required = random_case(seed)
    found = slide(decision, y, weights, required)
    gaps = []
    for high in decision[y > 0]:
        for low in decision[y < 0]:
            kept = np.where(y > 0, decision >= high, decision <= low)
            if high > low and np.all(weights @ kept >= required):
                gaps.append(high - low)
    if found is None:
        assert not gaps
    else:
        assert holds(*found, decision, y, weights, required)
        if found[0] != 1.0:
            assert found[0] == pytest.approx(2.0 / max(gaps))


def test_nothing_to_do_leaves_the_hyperplane():
    decision, y = np.array([2.0, 1.5, -3.0]), np.array([1.0, 1.0, -1.0])
    assert slide(decision, y, np.ones((1, 3)), np.array([3.0])) == (1.0, 0.0)


def data(n=300, seed=0):
    X, y = make_classification(n, 6, class_sep=0.6, flip_y=0.1, random_state=seed)
    return X, np.where(y == 1, "sick", "healthy")


def test_rates_hold_on_the_anchors_and_the_shift_is_the_smallest():
    X, y = data(1200)
    model = SlidingSVC(constraints="tpr>=0.8", random_state=0).fit(X, y)
    (rate,) = model.rates_
    positives = model.anchors_[y[model.anchors_] == "sick"]
    hits = (model.predict(X[positives]) == "sick").sum()
    assert hits == rate.required == rate.counted and rate.achieved == hits / rate.total
    base = model.estimator_.decision_function(X)
    assert np.allclose(model.decision_function(X), base + model.shift_)
    assert model.shift_ > 0


def test_either_class_can_be_positive():
    X, y = data(1200)
    model = SlidingSVC(constraints="tpr>=0.9", pos_label="healthy", random_state=0).fit(X, y)
    members = model.anchors_[y[model.anchors_] == "healthy"]
    assert (model.predict(X[members]) == "healthy").sum() >= model.rates_[0].required
    assert model.shift_ < 0


@pytest.mark.parametrize("copy", [lambda model: model, clone])
@pytest.mark.parametrize("sample_weight", [None, np.ones(1200)])
def test_a_frozen_svc_is_used_as_it_is_and_survives_cloning(copy, sample_weight):
    X, y = data(1200)
    svc = SVC(kernel="linear").fit(X[:100], y[:100])
    model = copy(SlidingSVC(FrozenEstimator(svc), constraints="tpr>=0.8", random_state=0))
    model.fit(X, y, sample_weight)
    assert np.allclose(model.decision_function(X) - model.shift_, svc.decision_function(X))
    with pytest.raises(ValueError, match="knows the classes"):
        model.fit(X, np.where(y == "sick", "ill", "well"))


def test_groups_and_cases():
    X, y = data(1200)
    groups = np.where(np.arange(1200) % 3, "a", "b")
    case = int(np.flatnonzero(y == "sick")[0])
    model = SlidingSVC(constraints=["tpr[*]>=0.8", all_of([case])], random_state=0)
    model.fit(X, y, sensitive_features=groups)
    assert case in model.anchors_ and model.predict(X[[case]]) == "sick"
    for name in "ab":
        of = model.anchors_[(groups == name)[model.anchors_]]
        assert (model.predict(X[of]) == "sick").mean() >= 0.8


def test_an_unfitted_svc_is_not_touched():
    X, y = data(1200)
    svc = SVC(C=3.0)
    model = SlidingSVC(svc, constraints="tpr>=0.8").fit(X, y)
    assert not hasattr(svc, "classes_") and model.estimator_.C == 3.0
    assert clone(model).estimator.C == 3.0


def test_rates_that_cannot_hold_together():
    X, y = data()
    model = SlidingSVC(SVC(kernel="linear"), constraints=("tpr>=1", "tnr>=1"), threshold="none")
    with pytest.raises(ValueError, match=r"no position.*tpr>=1, tnr>=1"):
        model.fit(X, y)


def test_sample_weights_count():
    X, y = data(400)
    model = SlidingSVC(constraints="tpr>=0.8", threshold="none", anchors="second-half")
    light = model.fit(X, y).rates_[0]
    heavy = model.fit(X, y, sample_weight=np.full(400, 3.0)).rates_[0]
    assert heavy.total == 3 * light.total


@pytest.mark.filterwarnings(f"ignore::{AnchorWarning.__module__}.AnchorWarning")
@parametrize_with_checks([SlidingSVC()])
def test_scikit_learn(estimator, check):
    check(estimator)
