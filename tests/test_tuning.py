import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

import csvm
from csvm import CSVM, fit_path, rate_scorer
from csvm.tuning import tune


def data(seed=0, n=160):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1, -1)
    return rng.normal(size=(n, 2)) + 0.9 * (y > 0)[:, None], y


def model(**changes):
    options = {"constraints": "tpr>=0.8", "threshold": "none", "random_state": 0, "time_limit": 5}
    return CSVM(**{**options, **changes})


def test_whoever_misses_a_rate_ranks_behind_all_that_meet_it():
    rng = np.random.default_rng(0)
    positive = rng.random(200) < 0.5
    scorer = rate_scorer(["tpr>=0.8", "tnr>=0.3"], "accuracy")
    asked = scorer.constraints
    meet, miss = [], []
    for _ in range(300):
        predicted = rng.random(200) < np.where(positive, rng.uniform(0.5, 1), rng.random())
        met = all(c.met(positive, predicted) for c in asked)
        (meet if met else miss).append(scorer.score(positive, predicted))
        if met:
            assert meet[-1] == np.mean(positive == predicted)
    assert len(meet) > 20 and len(miss) > 20 and max(miss) < min(meet)
    # Also where one fold of ten misses it: a mean must not hide that.
    assert np.mean([max(miss)] + [1.0] * 9) < min(meet)


def test_nearer_is_better_among_those_that_miss():
    positive = np.arange(100) < 50
    scorer = rate_scorer("tpr>=0.9")
    near = scorer.score(positive, np.arange(100) < 44)
    assert scorer.score(positive, np.zeros(100) > 0) < near < 0


@pytest.mark.parametrize("maximise, expected", [
    ("balanced_accuracy", balanced_accuracy_score), (csvm.f1, f1_score),
    ("tnr", lambda y, p: np.mean(~p[~y])),
    (csvm.cost(fn=5, fp=1), lambda y, p: -np.mean(5 * (y & ~p) + (~y & p))),
])
def test_what_is_maximised(maximise, expected):
    rng = np.random.default_rng(0)
    positive, predicted = rng.random(100) < 0.5, rng.random(100) < 0.7
    found = rate_scorer("tpr>=0.2", maximise).score(positive, predicted)
    assert found == pytest.approx(expected(positive, predicted))


def test_grid_search():
    X, y = data()
    weights = [{1: w, -1: 1.0} for w in (0.2, 1.0, 5.0, 100.0)]
    scorer = rate_scorer("tpr>=0.85", "tnr")
    search = GridSearchCV(SVC(), {"class_weight": weights}, scoring=scorer, cv=3).fit(X, y)
    first = search.cv_results_["rank_test_score"] == 1
    kept = [search.cv_results_[f"split{k}_test_score"][first] for k in range(3)]
    assert np.all(np.array(kept) >= 0)  # met in every fold
    assert search.best_params_["class_weight"][1] > 1.0


def test_groups_come_from_a_column():
    X, y = data(n=240)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["region"] = np.where(np.arange(240) % 2 == 0, "north", "south")
    scorer = rate_scorer("tpr[*]>=0.7", sensitive_features="region")
    search = GridSearchCV(
        model(constraints="tpr[*]>=0.7"), {"C": [0.1, 1.0]}, scoring=scorer, cv=2,
        error_score="raise",
    ).fit(frame, y, sensitive_features="region")
    assert np.isfinite(search.best_score_)
    said = search.best_estimator_.predict(frame)
    whole = scorer(search.best_estimator_, frame, y)
    assert whole == scorer.score(y > 0, said > 0, frame["region"].to_numpy())


def test_the_positive_class_is_that_of_the_estimator():
    X, y = data()
    always = DummyClassifier(strategy="constant", constant=1).fit(X, y)
    assert rate_scorer("tpr>=0.9")(always, X, y) == 0.5
    assert rate_scorer("tpr>=0.9", pos_label=-1)(always, X, y) < 0
    fitted = model(pos_label=-1, constraints="tpr>=0.9").fit(X, y)
    assert fitted.predict(X)[y < 0].mean() < -0.6  # nearly all of them are -1
    assert rate_scorer("tpr>=0.8")(fitted, X, y) > 0


@pytest.mark.parametrize("arguments, message", [
    (("recall>=0.9",), "did you mean 'tpr'"),
    (("tpr>=0.9", "recall"), "did you mean 'tpr'"),
    (("tpr>=0.9", csvm.tpr["north"]), "a measure of all points"),
    (("tpr>=0.9", 3), "a measure of all points"),
    (([csvm.all_of([0, 1])],), "known cases"),
])
def test_what_cannot_be_scored(arguments, message):
    with pytest.raises(ValueError, match=message):
        rate_scorer(*arguments)
    with pytest.raises(TypeError, match=r"must name a column of X.* got ndarray"):
        rate_scorer("tpr[*]>=0.9", sensitive_features=np.array(["north", "south"]))


def test_points_without_a_class_cannot_be_scored():
    X, y = data()
    always = DummyClassifier(strategy="constant", constant=1).fit(X, y)
    never = DummyClassifier(strategy="constant", constant=-1).fit(X, y)
    positives, negatives = (X[y > 0], y[y > 0]), (X[y < 0], y[y < 0])
    with pytest.raises(ValueError, match=r"balanced_accuracy cannot be maximised: .* no positives"):
        rate_scorer("tnr>=0.9")(never, *negatives)
    with pytest.raises(ValueError, match=r"tnr cannot be maximised: .* no negatives"):
        rate_scorer("tpr>=0.9", maximise="tnr")(always, *positives)
    with pytest.raises(ValueError, match=r"tpr>=0.9 cannot be told"):
        rate_scorer("tpr>=0.9")(always, *negatives)


# -- paths ------------------------------------------------------------------------------------


def test_a_path_shares_the_kernel_matrix_and_finds_the_same(monkeypatch):
    X, y = data(n=80)
    computed = []
    original = CSVM._kernel

    def counting(self, points, order):
        computed.append(self.gamma)
        return original(self, points, order)

    monkeypatch.setattr(CSVM, "_kernel", counting)
    steps = [{"gamma": g, "C": C} for g in (0.3, 1.0) for C in (0.5, 2.0, 8.0)]
    steps += [{"gamma": 1.0, "C": 8.0, "constraints": "tpr>=0.9"}]
    path = fit_path(model(), X, y, steps)
    assert computed == [0.3, 1.0]
    for step, fitted in zip(steps, path, strict=True):
        alone = clone(model()).set_params(**step).fit(X, y)
        assert fitted.result_.objective == pytest.approx(alone.result_.objective, rel=2e-4)
        assert np.array_equal(fitted.anchors_, alone.anchors_)


def test_other_anchors_need_another_matrix():
    X, y = data(n=80)
    anchors = [np.arange(0, 40), np.arange(30, 70)]
    path = fit_path(model(), X, y, [{"anchors": a} for a in anchors])
    for places, fitted in zip(anchors, path, strict=True):
        alone = model(anchors=places).fit(X, y)
        assert fitted.result_.objective == pytest.approx(alone.result_.objective, rel=2e-4)


def test_tuning_finds_what_a_loop_over_all_parameters_finds():
    X, y = data(n=120)
    costs, gammas = [0.05, 5.0], [0.1, 30.0]
    found = tune(model(), X, y, costs=costs, gammas=gammas)
    scorer, scores = rate_scorer("tpr>=0.8"), {}
    for C in costs:
        for gamma in gammas:
            said = np.zeros(len(y))
            for rest, fold in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
                quick = model(C=C, gamma=gamma, gap=0.01, time_limit=2).fit(X[rest], y[rest])
                said[fold] = quick.predict(X[fold])
            scores[C, gamma] = scorer.score(y > 0, said > 0)
    best = max(scores, key=scores.get)
    assert scores[found.parameters["C"], found.parameters["gamma"]] == pytest.approx(
        scores[best], abs=0.02  # a gap of one per cent leaves room
    )
    assert found.score == pytest.approx(scores[best], abs=0.02)


def test_too_few_points_to_tune():
    X, y = data(n=20)
    y[:] = -1
    y[0] = 1
    with pytest.raises(ValueError, match="at least 2 points, one has 1"):
        tune(model(), X, y)
