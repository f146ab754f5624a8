import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import csvm
from csvm import GuaranteedClassifier, NotCertifiedWarning
from csvm.candidates import Sample, candidates, compared, first_fitted
from csvm.certification import certify_predictions
from csvm.rates import parse_constraints
from csvm.sequences import (
    Rule,
    fixed_sequence,
    in_order,
    threshold_of_classes,
    umbrella_rank,
    umbrella_threshold,
)

BOTH = ("tpr>=0.6", "tnr>=0.6")


@pytest.mark.filterwarnings("ignore::csvm.guaranteed.NotCertifiedWarning")
@parametrize_with_checks([
    GuaranteedClassifier(), GuaranteedClassifier(LogisticRegression(), constraints=BOTH),
])
def test_scikit_learn(estimator, check):
    check(estimator)


# -- the promise ------------------------------------------------------------------------------
# One feature, normal in both classes: every linear classifier is a threshold with known rates.


def draw(seed, n=300, gap=2.0, digits=None):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.4).astype(int)
    x = rng.normal(size=n) + gap * y
    return (x if digits is None else x.round(digits))[:, None], y


def cut(model):
    """Where the classifier changes its mind, by bisection."""
    low, high = -10.0, 12.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if model.predict([[middle]])[0] == 1 else (middle, high)
    return low


def enough(held, confidence):
    """As often as promised, up to twice the standard error."""
    error = np.sqrt(confidence * (1 - confidence) / len(held))
    return np.mean(held) >= confidence - 2 * error


@pytest.mark.parametrize("confidence", [0.95, 0.7])
def test_one_rate_holds_as_often_as_promised(confidence):
    held = []
    for seed in range(400):
        X, y = draw(seed)
        model = GuaranteedClassifier(
            LogisticRegression(), constraints="tpr>=0.8", confidence=confidence, random_state=seed
        ).fit(X, y)
        assert model.certificate_.certified
        held.append(norm.sf(cut(model) - 2.0) >= 0.8)
    assert enough(held, confidence)
    assert np.mean(held) <= confidence + 0.1  # and not by giving up the other class


def test_equal_scores_do_not_break_the_promise():
    # With one digit after the point, P(x rounds to more than t) is what counts.
    held = []
    for seed in range(300):
        X, y = draw(seed, digits=0)
        model = GuaranteedClassifier(
            LogisticRegression(), constraints="tpr>=0.8", random_state=seed
        ).fit(X, y)
        values = np.arange(-6.0, 9.0)
        mass = np.diff(norm.cdf(np.append(values - 0.5, np.inf) - 2.0))
        held.append(mass[model.predict(values[:, None]) == 1].sum() >= 0.8)
    assert enough(held, 0.95)


def test_two_rates_hold_as_often_as_promised():
    wrong, certified = [], []
    for seed in range(200):
        X, y = draw(seed, gap=1.4)  # at best 0.758 of both
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotCertifiedWarning)
            model = GuaranteedClassifier(
                LogisticRegression(), constraints=["tpr>=0.7", "tnr>=0.7"], random_state=seed
            ).fit(X, y)
        at = cut(model)
        true = norm.sf(at - 1.4) >= 0.7 and norm.cdf(at) >= 0.7
        certified.append(model.certificate_.certified)
        wrong.append(certified[-1] and not true)
    assert enough(~np.array(wrong), 0.95) and 0 < np.mean(certified) < 1


def test_the_accuracy_holds_as_often_as_promised():
    wrong, certified = [], []
    for seed in range(150):
        X, y = draw(seed, gap=1.4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotCertifiedWarning)
            model = GuaranteedClassifier(
                LogisticRegression(), constraints="accuracy>=0.74", random_state=seed
            ).fit(X, y)
        at = cut(model)
        certified.append(model.certificate_.certified)
        true = 0.4 * norm.sf(at - 1.4) + 0.6 * norm.cdf(at)
        wrong.append(certified[-1] and true < 0.74)
    assert enough(~np.array(wrong), 0.95) and 0 < np.mean(certified) < 1


def test_groups_hold_as_often_as_promised():
    held = []
    for seed in range(300):
        X, y = draw(seed, n=500)
        north = np.random.default_rng(seed + 1000).random(500) < 0.4
        X[north & (y == 1)] -= 0.5  # harder
        model = GuaranteedClassifier(
            LogisticRegression(), constraints="tpr[*]>=0.7", random_state=seed
        ).fit(X, y, sensitive_features=np.where(north, "north", "south"))
        assert [r.rate for r in model.certificate_.rates] == ["tpr[north]", "tpr[south]"]
        held.append(norm.sf(cut(model) - 1.5) >= 0.7)  # then south has it, too
    assert enough(held, 0.95)


# -- the rules --------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", ["tpr", "tnr"])
@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_is_the_boldest_certified_one(rate, seed):
    """Against all thresholds, tried one after the other until one fails."""
    rng = np.random.default_rng(seed)
    positive = rng.random(150) < 0.5
    scores = (rng.normal(size=150) + positive).round(1)
    groups = np.where(rng.random(150) < 0.5, "a", "b")
    asked = parse_constraints([f"{rate}[a]>=0.6", f"{rate}[b]>=0.7"])
    found = scores > umbrella_threshold(scores, positive, asked, 0.9, groups)
    best = None
    order = np.unique(scores) if rate == "tpr" else np.unique(scores)[::-1]
    for value in order:
        predicted = scores >= value if rate == "tpr" else scores > value
        if not certify_predictions(asked, positive, predicted, 0.9, groups).certified:
            break
        best = predicted
    assert best is not None and np.array_equal(found, best)


@pytest.mark.parametrize("seed", range(6))
def test_rates_of_both_classes_are_certified_wherever_one_threshold_passes(seed):
    """Each rate at half of the level, at the best of all thresholds that pass, if there is any."""
    rng = np.random.default_rng(seed)
    positive = rng.random(200) < 0.5
    scores = rng.normal(size=200) + (1.2 if seed % 2 else 2.5) * positive
    asked = parse_constraints(["tpr>=0.7", "tnr>=0.7"])
    threshold, certificate = threshold_of_classes(scores, positive, asked, 0.9)
    passing = {
        value: np.mean(scores[positive] > value) + np.mean(scores[~positive] <= value)
        for value in scores
        if certify_predictions(asked, positive, scores > value, 0.95).certified
    }
    assert certificate.certified == bool(passing) and certificate.confidence == 0.9
    assert certificate.certified == (seed % 2 == 0)
    if passing:
        kept = np.mean(scores[positive] > threshold) + np.mean(scores[~positive] <= threshold)
        assert kept >= max(passing.values()) - 1e-12


def test_ranks():
    assert umbrella_rank(0.9, 28, 0.05) == 0 and umbrella_rank(0.9, 29, 0.05) == 1


def test_a_sequence_ends_at_the_first_failure():
    positive = np.arange(100) < 50
    asked = parse_constraints("tpr>=0.8")
    calls = {0: 50, 1: 48, 2: 20, 3: 50}  # how many positives each finds

    def predict(candidate):
        assert candidate.model < 3  # nothing is tried behind a failure
        return np.arange(100) < calls[candidate.model]

    sequence = [Rule(model, 0.0) for model in calls]
    taken, certificate = fixed_sequence(sequence, predict, positive, asked, 0.95)
    assert taken.model == 0 and certificate.certified
    taken, certificate = fixed_sequence(
        sequence[2:], predict, positive, asked, 0.95
    )
    assert taken.model == 2 and not certificate.certified


def test_the_safest_comes_first():
    rng = np.random.default_rng(0)
    positive = rng.random(400) < 0.5
    good, bad = rng.normal(size=400) + 3 * positive, rng.normal(size=400) + 0.1 * positive
    order = in_order([bad, good], positive, parse_constraints(["tpr>=0.8", "tnr>=0.8"]), 0.5)
    assert order[0].model == 1 and 1.0 < order[0].threshold < 2.0
    assert {c.model for c in order} == {0, 1} and len(order) == 200


# -- use --------------------------------------------------------------------------------------


def test_it_says_what_is_missing():
    X, y = draw(0, n=60)
    with pytest.warns(NotCertifiedWarning, match=r"tpr >= 0.9 is NOT certified.*more such points"):
        model = GuaranteedClassifier(LogisticRegression(), random_state=0).fit(X, y)
    rate = model.certificate_.rates[0]
    assert rate.n < 29 and rate.n + rate.more == 29 and rate.right == rate.n


def test_only_points_that_a_rate_is_about_are_held_back():
    X, y = draw(0)
    model = GuaranteedClassifier(LogisticRegression(), constraints="tpr>=0.7", random_state=0)
    held = model.fit(X, y).calibration_
    assert np.all(y[held] == 1) and len(held) == round(0.3 * y.sum())
    model.set_params(constraints=["tpr>=0.6", "tnr>=0.6"]).fit(X, y)
    assert 0 < y[model.calibration_].sum() < len(model.calibration_)


def test_as_many_are_held_back_as_a_certificate_needs():
    X, y = draw(0, n=200)
    X, y = X[np.argsort(-y)][:150], np.sort(y)[::-1][:150]
    assert 29 / 0.5 < y.sum() < 29 / 0.3
    model = GuaranteedClassifier(LogisticRegression(), random_state=0).fit(X, y)
    assert len(model.calibration_) == 29 and model.certificate_.rates[0].n == 29
    model.set_params(constraints="tpr>=0.95")  # needs 59, more than half: then it is not tried
    with pytest.warns(NotCertifiedWarning):
        model.fit(X, y)
    assert len(model.calibration_) == round(0.3 * y.sum())
    groups = np.where(np.arange(150) % 3 == 0, "few", "many")
    model.set_params(constraints=["tpr[few]>=0.7", "tpr[many]>=0.7"])
    model.fit(X, y, sensitive_features=groups)
    assert [r.n for r in model.certificate_.rates] == [
        max(9, round(0.3 * (y[groups == g]).sum())) for g in ("few", "many")
    ]


@pytest.mark.parametrize("estimator", [
    RandomForestClassifier(20, random_state=0), LinearSVC(),
    make_pipeline(StandardScaler(), LogisticRegression()),
])
def test_any_classifier_with_scores(estimator):
    X, y = draw(0, n=400)
    labels = np.array(["sick", "well"])[1 - y]
    model = GuaranteedClassifier(
        estimator, constraints="tpr>=0.7", pos_label="sick", random_state=0
    ).fit(X, labels)
    assert model.certificate_.certified and set(model.classes_) == {"sick", "well"}
    X_new, y_new = draw(1, n=2000)
    predicted = model.predict(X_new) == "sick"
    assert predicted[y_new == 1].mean() > 0.65 and predicted[y_new == 0].mean() < 0.5
    assert np.array_equal(predicted, model.decision_function(X_new) < 0)
    held = model.calibration_
    assert (model.predict(X[held]) == "sick").sum() == model.certificate_.rates[0].right


def test_several_rates_of_csvms():
    X, y = draw(0, n=300)
    base = csvm.CSVM(C=10, threshold="none", time_limit=2, random_state=0)
    sample = Sample(X, y, y == 1, None)
    asked = parse_constraints(["tpr>=0.6", "tnr>=0.5"])
    rising = candidates(base, sample, asked, 0)
    assert [c.p0 for c in rising[0].constraints] == [0.6, 0.5]
    assert np.allclose([c.p0 for c in rising[-1].constraints], [0.8, 0.75])
    model = GuaranteedClassifier(
        make_pipeline(StandardScaler(), base), constraints=asked, random_state=0
    ).fit(X, y)
    assert model.certificate_.certified and isinstance(model.estimator_[-1], csvm.CSVM)


def test_the_default_is_an_svc_and_trees_where_there_are_enough_points():
    X, y = draw(0, n=200)
    asked = parse_constraints("tpr>=0.6")
    (both,) = candidates(None, Sample(X, y, y == 1, None), asked, 0)
    assert isinstance(both, VotingClassifier) and both.fit(X, y).predict_proba(X).shape == (200, 2)
    few = np.flatnonzero(np.cumsum(y) <= 9)
    (alone,) = candidates(None, Sample(X[few], y[few], y[few] == 1, None), asked, 0)
    assert isinstance(alone[-1], SVC)


def test_comparisons_take_some_points_of_each_class():
    X, y = draw(0, n=2000)
    groups = np.where(np.arange(2000) % 2 == 0, "even", "odd")
    rare = np.flatnonzero((y == 0) | (np.cumsum(y) <= 40))
    everybody = Sample(X, y, y == 1, groups).take(rare)
    some = everybody.some(0)
    assert some.positive.sum() == 40 and (~some.positive).sum() == 300
    places = np.searchsorted(everybody.X[:, 0], some.X[:, 0], sorter=np.argsort(everybody.X[:, 0]))
    at = np.argsort(everybody.X[:, 0])[places]
    assert np.array_equal(everybody.y[at], some.y) and np.array_equal(
        everybody.groups[at], some.groups
    )
    assert some.some(0) is some


def test_csvms_that_are_only_compared_get_less_time(monkeypatch):
    X, y = draw(0, n=120)
    limits, fit = [], csvm.CSVM.fit

    def timed(self, *arguments, **more):
        limits.append(self.time_limit)
        return fit(self, *arguments, **more)

    monkeypatch.setattr(csvm.CSVM, "fit", timed)
    base = make_pipeline(StandardScaler(), csvm.CSVM(threshold="none", time_limit=40))
    GuaranteedClassifier(base, constraints=("tpr>=0.5", "tnr>=0.5"), random_state=0).fit(X, y)
    assert limits[:-1] == [2.0] * 6 and limits[-1] == 40


def test_the_positive_class_of_csvms_is_that_of_the_rates():
    X, y = draw(0, n=200)
    labels = np.array(["sick", "well"])[1 - y]
    sample = Sample(X, labels, labels == "sick", None)
    found = candidates(None, sample, parse_constraints(["tpr>=0.6", "tnr>=0.5"]), 0)
    assert len(found) == 3 and all(m[-1].pos_label == "sick" for m in found[1:])


def test_csvms_that_are_asked_for_too_much_are_left_out():
    X, y = draw(0, n=200)
    X = np.repeat(X[:100], 2, axis=0)  # twins of both classes: no rates above one half together
    y[::2], y[1::2] = 0, 1
    sample = Sample(X, y, y == 1, None)
    tuned = make_pipeline(StandardScaler(), LogisticRegression())
    hopeless = csvm.CSVM(constraints=["tpr>=0.9", "tnr>=0.9"], threshold="none", random_state=0,
                         kernel="linear", time_limit=2)
    assert [model for model, _ in compared([hopeless, tuned], sample, 1, 0)] == [tuned]
    assert first_fitted([hopeless, tuned], sample).steps[0][0] == "standardscaler"
    with pytest.raises((csvm.InfeasibleRatesError, RuntimeError)):
        compared([hopeless], sample, 1, 0)


def test_the_default_for_groups_may_be_a_csvm():
    X, y = draw(0, n=240)
    frame = pd.DataFrame({"x": X[:, 0], "noise": np.random.default_rng(0).normal(size=240)})
    frame["region"] = np.where(np.arange(240) % 2 == 0, "north", "south")
    model = GuaranteedClassifier(constraints="tpr[*]>=0.6", random_state=0)
    model.fit(frame, y, sensitive_features="region")
    assert len(model.certificate_.rates) == 2 and list(model.feature_names_in_) == ["x", "noise"]
    # The group is not needed to predict, and no harm if it is there.
    assert np.array_equal(model.predict(frame), model.predict(frame[["x", "noise"]]))


@pytest.mark.parametrize("changes, error, message", [
    ({"confidence": 1.5}, ValueError, "confidence must be in"),
    ({"calibration": 0}, ValueError, r"calibration must be in \(0, 1\)"),
    ({"calibration": "much"}, TypeError, "calibration must be a number"),
    ({"constraints": []}, ValueError, "constraints is empty"),
    ({"constraints": "balanced_accuracy>=0.7"}, ValueError, "mean of two shares"),
    ({"constraints": "tpr[*]>=0.7"}, ValueError, "sensitive_features"),
    ({"pos_label": 7}, ValueError, "pos_label=7"),
    ({"estimator": LinearRegression()}, TypeError, "must be a classifier"),
    ({"estimator": make_pipeline(StandardScaler(), LinearRegression())}, TypeError, "classifier"),
    ({"estimator": LogisticRegression}, TypeError, "must be a classifier"),
    ({"estimator": "svc"}, TypeError, "must be a classifier"),
])
def test_what_cannot_be_asked(changes, error, message):
    X, y = draw(0)
    with pytest.raises(error, match=message):
        GuaranteedClassifier(**{"estimator": LogisticRegression()} | changes).fit(X, y)


@pytest.mark.parametrize("alone", [0, 1])
def test_a_group_with_one_positive_or_none_is_not_certified(alone):
    """One positive is held back, so that there is none to compare candidates with."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [150, 60])
    X = rng.normal(size=(210, 3)) + 2.0 * y[:, None]
    groups = np.where(np.arange(210) < 140, "few", "many")
    groups[209] = "few" if alone else "many"
    model = GuaranteedClassifier(constraints="tpr[*]>=0.6", random_state=0)
    with pytest.warns(NotCertifiedWarning, match=rf"NOT certified: {alone} of {alone} right"):
        model.fit(X, y, sensitive_features=groups)
    assert [rate.certified for rate in model.certificate_.rates] == [False, True]
    assert 0.15 < model.predict(X).mean() < 0.9
    if not alone:
        with pytest.raises(ValueError, match=r"tpr\[few\]>=0.6: no point is of that kind"):
            model.set_params(constraints="tpr[few]>=0.6").fit(X, y, sensitive_features=groups)


def test_a_group_that_nobody_is_in_is_told():
    X, y = draw(0)
    groups = np.where(X[:, 0] > 0, "north", "south")
    model = GuaranteedClassifier(LogisticRegression(), constraints="tpr[nort]>=0.7")
    with pytest.raises(ValueError, match=r"tpr\[nort\]>=0.7 is about nobody: .* north, south"):
        model.fit(X, y, sensitive_features=groups)


def test_a_group_too_small_for_anchors_leaves_csvms_out():
    """Two positives of a group may both train: then nothing can be asked of CSVMs about it."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [150, 60])
    X = rng.normal(size=(210, 3)) + 2.0 * y[:, None]
    groups = np.where(np.arange(210) < 206, "large", "small")
    model = GuaranteedClassifier(
        constraints=["tpr[large]>=0.6", "tpr[small]>=0.6"], random_state=0
    )
    with pytest.warns(NotCertifiedWarning, match=r"tpr\[small\] >= 0.6 is NOT certified"):
        model.fit(X, y, sensitive_features=groups)
    assert model.certificate_.rates[0].certified
