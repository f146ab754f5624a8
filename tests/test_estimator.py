import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import recall_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import bnb
import csvm
from bnb import Reason, Status, Tolerance
from csvm import CSVM, AnchorWarning, ConstantClassifierWarning, InfeasibleRatesError, kernels
from csvm.estimator import _check_rates, _polish
from csvm.feasibility import Feasibility
from csvm.rates import parse_constraints
from csvm.requirements import RateReport, requirements
from csvm.search import CSVMProblem, Instance
from relaxations.patience import FOR_EVER

pytestmark = [
    pytest.mark.filterwarnings("ignore::csvm.thresholds.AnchorWarning"),
    pytest.mark.filterwarnings("ignore::csvm.estimator.ConstantClassifierWarning"),
]


def data(n=160, seed=0, labels=("healthy", "sick")):
    X, y = make_classification(n, 4, class_sep=0.7, flip_y=0.05, random_state=seed)
    return StandardScaler().fit_transform(X), np.array(labels)[y]


def model(**changes):
    options = {
        "C": 0.5, "gamma": 0.3, "constraints": "tpr>=0.9", "threshold": "none", "random_state": 0,
        "time_limit": 20,
    }
    return CSVM(**{**options, **changes})


def expected_failures(estimator):
    """Class weights cannot overrule a rate; there, nearly all points are to be of class 0."""
    why = "tpr>=0.9 holds whatever the class weights are"
    return {"check_class_weight_classifiers": why} if "tpr" in str(estimator.constraints) else {}


@parametrize_with_checks(
    [CSVM(), CSVM(kernel="linear"), CSVM(constraints="accuracy>=0.1", threshold="none")],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_the_defaults_give_an_accurate_classifier():
    X, y = make_blobs(200, centers=2, random_state=0, cluster_std=0.8)
    assert CSVM(random_state=0).fit(X, y).score(X, y) > 0.9


def test_constant_classifiers_are_told():
    X, y = data()
    with pytest.warns(ConstantClassifierWarning, match="raise C"):
        model(C=0.01).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConstantClassifierWarning)
        model().fit(X, y)


def test_rates_hold_and_the_result_is_proven():
    X, y = data()
    fitted = model().fit(X, y)
    (rate,) = fitted.rates_
    positives = fitted.anchors_[y[fitted.anchors_] == "sick"]
    assert fitted.result_.optimal and fitted.result_.gap <= 1.000001e-4
    assert rate.total == len(positives) and rate.required == np.ceil(0.9 * len(positives))
    assert (fitted.predict(X[positives]) == "sick").sum() >= rate.required
    margins = fitted.decision_function(X[positives])
    assert (margins >= 1 - 1e-6).sum() == rate.counted >= rate.required
    assert set(fitted.given_up_) == set(positives[margins < 1 - 1e-6])
    assert len(set(fitted.anchors_) & set(fitted.support_) - set(positives)) == 0


def test_the_objective_is_that_of_the_model():
    X, y = data(60)
    fitted = model(kernel="linear").fit(X, y)
    w = fitted.dual_coef_[0] @ fitted.support_vectors_
    training = np.setdiff1d(np.arange(60), fitted.anchors_)
    signs = np.where(y == "sick", 1.0, -1.0)
    slack = np.maximum(0.0, 1.0 - signs * fitted.decision_function(X))[training]
    assert np.allclose(fitted.coef_, w)
    n = len(training)  # balanced: C n / (2 n_k) a point, so C n / 2 times the mean of each class
    cost = sum(0.5 * n / 2 * slack[signs[training] == s].mean() for s in (1.0, -1.0))
    assert 0.5 * w @ w + cost == pytest.approx(0.5 * fitted.result_.objective, rel=1e-9)
    with pytest.raises(AttributeError, match="kernel='linear'"):
        model().fit(X, y).coef_  # noqa: B018


def test_no_budget_is_one_convex_problem_and_the_plain_svm_if_anchors_do_not_bind():
    X, y = make_blobs(80, centers=[[-3, 0], [3, 0]], random_state=0)
    anchors = np.abs(X[:, 0]) > 4
    fitted = model(kernel="linear", C=0.5, constraints="tpr>=1").fit(X, y, anchors=anchors)
    assert fitted.result_.nodes == 1 and fitted.given_up_.size == 0
    assert fitted.decision_function(X[anchors & (y == 1)]).min() > 1.01
    svc = SVC(kernel="linear", C=0.5, class_weight="balanced", tol=1e-9)
    svc.fit(X[~anchors], y[~anchors])
    assert np.allclose(fitted.decision_function(X), svc.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"sick": 3.0}])
def test_where_no_rate_binds_it_is_the_svc_on_the_same_points(class_weight, kernel, weighted):
    X, y = data()
    options = {"C": 2.0, "kernel": kernel, "gamma": 0.3, "class_weight": class_weight}
    weights = np.random.default_rng(0).integers(1, 4, 160).astype(float) if weighted else None
    fitted = model(constraints=["tpr>=0.05", "tnr>=0.05"], gap=1e-9, **options)
    fitted.fit(X, y, sample_weight=weights)
    training = np.setdiff1d(np.arange(160), fitted.anchors_)
    if weighted and class_weight == "balanced":  # where a weight of two is not two points for SVC
        sick = y[training] == "sick"
        shares = np.bincount(sick, weights[training])
        ratios = dict(zip(["healthy", "sick"], shares.sum() / (2 * shares), strict=True))
        options["class_weight"] = ratios
    svc = SVC(tol=1e-9, **options)
    svc.fit(X[training], y[training], None if weights is None else weights[training])
    assert np.all(svc.predict(X[fitted.anchors_]) == fitted.predict(X[fitted.anchors_]))
    assert np.allclose(fitted.decision_function(X), svc.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("class_weight, message", [
    ("even", "None, 'balanced' or a dict"), ({"dead": 2.0}, r"names 'dead', which is none of"),
    ({"sick": 0.0}, "must be a number > 0"), ({"sick": np.inf}, "must be a number > 0"),
    ({"sick": True}, "must be a number > 0"),
])
def test_class_weights_are_checked(class_weight, message):
    X, y = data(40)
    with pytest.raises(ValueError, match=message):
        model(class_weight=class_weight).fit(X, y)


def test_only_points_that_some_rate_is_about_are_anchors():
    X, y = data()
    for constraint, label in (("tpr>=0.9", "sick"), ("tnr>=0.9", "healthy")):
        fitted = model(constraints=constraint).fit(X, y)
        assert set(y[fitted.anchors_]) == {label}
        assert len(fitted.anchors_) == pytest.approx(0.5 * np.sum(y == label), abs=1)
    assert set(y[model(constraints="f1>=0.5").fit(X, y).anchors_]) == {"sick", "healthy"}
    assert len(model(constraints=csvm.all_of([1, 5])).fit(X, y).anchors_) == 2
    assert len(model(anchors="second-half").fit(X, y).anchors_) == 80


def enumerated(fitted, X, signs, groups, cost, gamma=0.3):
    """Least objective over all sets of anchors that, right, make every constraint hold."""
    anchors = fitted.anchors_
    training = np.setdiff1d(np.arange(len(X)), anchors)
    best = np.inf
    for z in product([False, True], repeat=len(anchors)):
        kept = np.array(z)
        said = signs.copy()
        said[anchors[~kept]] *= -1
        where = np.arange(len(X)) if fitted.constraints[0].name == "cases" else anchors
        of = None if groups is None else groups[where]
        if not all(c.met(signs[where], said[where], of) for c in fitted.constraints):
            continue
        points = np.r_[training, anchors[kept]]
        weight = np.r_[cost / 2, np.full(kept.sum(), 1e4)]  # anchors kept: as good as hard
        svc = SVC(C=1.0, gamma=gamma, tol=1e-6).fit(X[points], signs[points], sample_weight=weight)
        f = svc.decision_function(X)
        K = kernels.rbf(svc.support_vectors_, gamma=gamma)
        value = svc.dual_coef_[0] @ K @ svc.dual_coef_[0]
        value += cost @ np.maximum(0.0, 1 - signs[training] * f[training])
        if np.all(signs[anchors[kept]] * f[anchors[kept]] > 1 - 1e-3):
            best = min(best, value)
    return best


CONSTRAINTS = [
    (csvm.tpr >= 0.5, csvm.accuracy >= 0.6), (csvm.precision >= 0.8,), (csvm.npv >= 0.8,),
    (csvm.f1 >= 0.8,), (csvm.balanced_accuracy >= 0.75, csvm.tnr >= 0.6),
    (csvm.cost(fn=5, fp=1) <= 0.7,), (csvm.tpr["*"] >= 0.6, csvm.tnr["a"] >= 0.5),
    (csvm.precision["a"] >= 0.7, csvm.f1 >= 0.6), (csvm.at_least(4, of=np.arange(0, 12, 2)),),
    (csvm.precision >= 1,), (csvm.all_of([1, 2, 5]),),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=str)
def test_optimum_equals_enumeration(constraints, seed):
    X, y = data(26, seed)
    groups = np.array(["a", "b"])[np.random.default_rng(seed).integers(0, 2, 26)]
    fitted = model(anchors=0.4, constraints=constraints, gap=1e-7)
    if constraints[0].name == "cases":
        fitted.fit(X, y, anchors=np.arange(10))
    else:
        fitted.fit(X, y, sensitive_features=groups)
    anchors, signs = fitted.anchors_, np.where(y == "sick", 1.0, -1.0)
    training = np.setdiff1d(np.arange(26), anchors)
    members = [signs[training] == s for s in (1, -1)]
    cost = sum(np.where(m, 2 * 0.5 * len(training) / (2 * m.sum()), 0.0) for m in members)
    best = enumerated(fitted, X, signs, groups, cost)
    assert fitted.result_.objective == pytest.approx(best, rel=2e-3)
    said = np.where(fitted.predict(X) == "sick", 1.0, -1.0)
    where = np.arange(26) if constraints[0].name == "cases" else anchors
    asked = [one for c in constraints for one in c.each(groups)]
    for one, rate in zip(asked, fitted.rates_, strict=True):
        assert rate.rate == str(one.rate) and rate.asked == one.p0
        assert one.met(signs[where], said[where], groups[where])
        assert rate.achieved == pytest.approx(one.value(signs[where], said[where], groups[where]))


def test_groups_may_be_a_column_and_are_not_needed_to_predict():
    X, y = data()
    groups = np.where(np.random.default_rng(0).random(160) < 0.4, "north", "south")
    frame = pd.DataFrame(X, columns=list("abcd"))
    plain = model(constraints="tpr[*]>=0.9").fit(frame, y, sensitive_features=groups)
    named = model(constraints="tpr[*]>=0.9").fit(
        frame.assign(region=groups), y, sensitive_features="region"
    )
    assert named.groups_ == ["north", "south"] and named.group_column_ == "region"
    assert named.feature_names_in_.tolist() == list("abcd")
    assert np.array_equal(named.decision_function(frame), plain.decision_function(frame))
    assert np.array_equal(named.predict(frame.assign(region=groups)), plain.predict(frame))
    for name in ("north", "south"):
        members = plain.anchors_[(y == "sick")[plain.anchors_] & (groups[plain.anchors_] == name)]
        assert (plain.predict(frame.iloc[members]) == "sick").mean() >= 0.9
    with pytest.raises(ValueError, match="'area' is no column of X; its columns are a, b"):
        model(constraints="tpr[*]>=0.9").fit(frame, y, sensitive_features="area")
    with pytest.raises(ValueError, match="X is no DataFrame"):
        model(constraints="tpr[*]>=0.9").fit(X, y, sensitive_features="region")
    with pytest.raises(ValueError, match="say who is in which, with sensitive_features"):
        model(constraints="tpr[*]>=0.9").fit(X, y)
    with pytest.raises(ValueError, match=r"tpr\[west\]>=0.9 is about nobody: .* north, south"):
        model(constraints="tpr[west]>=0.9").fit(X, y, sensitive_features=groups)


def test_anchors_are_drawn_from_every_group():
    X, y = data()
    groups = np.where(np.arange(160) % 16 == 0, "few", "many")
    fitted = model(constraints="accuracy[*]>=0.5").fit(X, y, sensitive_features=groups)
    anchors = np.isin(np.arange(160), fitted.anchors_)
    for name in ("few", "many"):
        for label in ("sick", "healthy"):
            cell = (groups == name) & (y == label)
            assert abs(anchors[cell].sum() - 0.5 * cell.sum()) <= 0.5


def test_chosen_cases_are_anchors_and_right():
    X, y = data()
    missed = np.flatnonzero(model().fit(X, y).predict(X) != y)[:6]
    fitted = model(constraints=["tpr>=0.9", csvm.at_least(5, of=missed)]).fit(X, y)
    assert np.isin(missed, fitted.anchors_).all()
    assert (fitted.predict(X[missed]) == y[missed]).sum() >= 5
    with pytest.raises(ValueError, match="is point 500, but there are 160 points"):
        model(constraints=csvm.all_of([3, 500])).fit(X, y)
    with pytest.raises(ValueError, match="1 of them are no anchors"):
        model(constraints=csvm.all_of(missed)).fit(
            X, y, sample_weight=np.where(np.arange(160) == missed[0], 0.0, 1.0)
        )


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_named_callable_and_precomputed_kernels_agree(kernel):
    X, y = data(70)
    options = {"gamma": 0.3, "degree": 2, "coef0": 1.0}
    anchors = np.arange(70) % 3 == 0
    named = model(kernel=kernel, **options).fit(X, y, anchors=anchors)
    K = kernels.gram(kernel, X, **options)
    precomputed = model(kernel="precomputed").fit(K, y, anchors=anchors)
    function = model(kernel=lambda A, B: kernels.gram(kernel, A, B, **options))
    function.fit(X, y, anchors=anchors)
    expected = named.decision_function(X)
    assert np.allclose(precomputed.decision_function(K), expected, atol=1e-7)
    assert np.allclose(function.decision_function(X), expected, atol=1e-7)


def test_kernels_that_are_not_positive_semidefinite_are_refused():
    X, y = data(40)
    with pytest.raises(ValueError, match="smallest eigenvalue"):
        model(kernel="sigmoid", gamma=2.0, coef0=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="square"):
        model(kernel="precomputed").fit(X, y)


def test_either_class_can_be_positive():
    X, y = data()
    sick = model().fit(X, y)
    healthy = model(pos_label="healthy").fit(X, y)
    assert healthy.classes_.tolist() == ["healthy", "sick"]
    members = healthy.anchors_[y[healthy.anchors_] == "healthy"]
    assert (healthy.predict(X[members]) == "healthy").sum() >= healthy.rates_[0].required
    assert (healthy.predict(X) == "healthy").sum() > (sick.predict(X) == "healthy").sum()
    renamed = model().fit(X, np.where(y == "healthy", "z", "a"))
    assert np.allclose(renamed.decision_function(X), -healthy.decision_function(X))
    with pytest.raises(ValueError, match="none of the classes"):
        model(pos_label="dead").fit(X, y)


def test_tnr_of_one_class_is_tpr_of_the_other():
    X, y = data(80)
    one = model(constraints="tnr>=0.9", anchors="second-half").fit(X, y)
    other = model(pos_label="healthy", anchors="second-half").fit(X, y)
    assert one.result_.objective == pytest.approx(other.result_.objective, rel=1e-4)


def test_sample_weights_weigh_costs_and_counts():
    X, y = data(60)
    anchors = np.arange(60) % 2 == 0
    weights = np.random.default_rng(0).integers(1, 4, 60)
    repeated = np.repeat(np.arange(60), weights)
    weighted = model().fit(X, y, sample_weight=weights, anchors=anchors)
    plain = model().fit(X[repeated], y[repeated], anchors=anchors[repeated])
    assert weighted.rates_[0].total == plain.rates_[0].total
    assert weighted.rates_[0].required == plain.rates_[0].required
    # Copies of an anchor may be given up one by one, so repetition can only do better.
    assert plain.result_.objective <= weighted.result_.objective * (1 + 1e-4)


def test_separate_costs():
    X, y = data(80)
    anchors = np.arange(80) % 2 == 0
    signs = y[~anchors] == "sick"
    by_class = model(C=1.0).fit(X, y, anchors=anchors)
    ratios = {"sick": 20 / signs.sum(), "healthy": 20 / (~signs).sum()}
    per_point = model(C=1.0, class_weight=ratios).fit(X, y, anchors=anchors)
    assert per_point.result_.objective == pytest.approx(by_class.result_.objective)
    dear = model(class_weight={"sick": 10.0, "healthy": 0.1}).fit(X, y, anchors=anchors)
    assert recall_score(y, dear.predict(X), pos_label="sick") >= recall_score(
        y, by_class.predict(X), pos_label="sick"
    )


def test_thresholds_and_the_warning():
    X, y = data()
    with pytest.warns(AnchorWarning, match="would be needed"):
        fitted = model(threshold="hoeffding").fit(X, y)
    assert fitted.rates_[0].required == fitted.rates_[0].total
    counts = [model(threshold=t, constraints="tpr>=0.7", alpha=0.2).fit(X, y).rates_[0].required
              for t in ("none", "exact", "hoeffding")]
    assert counts == sorted(counts) and counts[0] < counts[2]


def test_constraints_in_every_spelling():
    X, y = data(60)
    spellings = ["tpr>=0.9", csvm.tpr >= 0.9, ["tpr>=0.9"], (csvm.tpr >= 0.9,)]
    objectives = {model(constraints=c).fit(X, y).result_.objective for c in spellings}
    assert len(objectives) == 1


def test_warm_start_over_neighbouring_parameters():
    X, y = data()
    grid = [{"C": 10.0}, {"C": 20.0}, {"C": 20.0, "gamma": 0.5}]
    path = csvm.fit_path(model(), X, y, grid)
    assert [m.C for m in path] == [10.0, 20.0, 20.0]
    for fitted, changes in zip(path, grid, strict=True):
        cold = model(**changes).fit(X, y)
        assert fitted.result_.objective == pytest.approx(cold.result_.objective, rel=2e-4)
    assert path[0].result_.trace[0].source != "S" == path[1].result_.trace[0].source


# -- rates that contradict each other -------------------------------------------------------


def overlapping():
    """On a line, with a linear kernel: positives at 0, 1, 2, 3, negatives at 2, 3, 4, 5."""
    X = np.array([0, 1, 2, 3, 2, 3, 4, 5], dtype=float)[:, None]
    y = np.repeat([1, -1], 4)
    return np.vstack([X, X]), np.r_[y, y], np.arange(8)


def test_a_path_ends_where_it_is_interrupted(monkeypatch):
    X, y = data()
    solve, calls = bnb.solve, []

    def stopped(*arguments, **options):
        calls.append(1)
        return replace(
            solve(*arguments, **options), bound=-np.inf, status=Status.FEASIBLE,
            reason=Reason.INTERRUPT,
        )

    monkeypatch.setattr(bnb, "solve", stopped)
    model = CSVM(constraints="tpr>=0.7", threshold="none", random_state=0)
    assert model.fit(X, y).result_.reason is Reason.INTERRUPT  # one fit keeps what it has
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        csvm.fit_path(model, X, y, [{"C": 1.0}, {"C": 2.0}])
    assert len(calls) == 1


def test_contradicting_rates_are_explained():
    X, y, anchors = overlapping()
    fit = model(kernel="linear", constraints=("tpr>=1", "tnr>=1"))
    with pytest.raises(InfeasibleRatesError) as caught:
        fit.fit(X, y, anchors=anchors)
    text = str(caught.value)
    assert "tpr>=1 requires 4 of 4 anchors; with tnr>=1 it can reach 2 (0.500)" in text
    assert "tnr>=1 requires 4 of 4 anchors; with tpr>=1 it can reach 2 (0.500)" in text


def test_what_is_said_to_be_reachable_is():
    X, y, anchors = overlapping()
    fitted = model(kernel="linear", constraints=("tpr>=0.5", "tnr>=1")).fit(X, y, anchors=anchors)
    assert [r.counted for r in fitted.rates_] == [2, 4]
    with pytest.raises(InfeasibleRatesError):
        model(kernel="linear", constraints=("tpr>=0.75", "tnr>=1")).fit(X, y, anchors=anchors)


def test_only_the_rates_that_conflict_are_named():
    X, y, anchors = overlapping()
    fit = model(kernel="linear", constraints=("accuracy>=0.5", "tpr>=1", "tnr>=1"))
    with pytest.raises(InfeasibleRatesError) as caught:
        fit.fit(X, y, anchors=anchors)
    assert "accuracy" not in str(caught.value)


def test_one_rate_on_both_classes_can_be_out_of_reach():
    X, y, anchors = overlapping()
    fit = model(kernel="linear", constraints="accuracy>=1")
    with pytest.raises(InfeasibleRatesError, match=r"requires 8 of 8 anchors; it can reach 6 "):
        fit.fit(X, y, anchors=anchors)


@pytest.mark.parametrize("constraints, message", [
    ((csvm.tpr["b"] >= 1, csvm.tnr["a"] >= 1),
     r"tpr\[b\]>=1 requires 2 of 2 anchors; with tnr\[a\]>=1 it can reach 0 \(0.000\)"),
    ("f1>=0.9", r"f1>=0.9 requires 7.2 of 8 \(1.1 for every positive anchor, 0.9 for every "
                r"negative anchor\); it can reach 6.2 \(0.800\)"),
    ("precision>=0.9", None),  # nobody need be called positive
    ("balanced_accuracy>=0.9", r"balanced_accuracy>=0.9 requires 7.2 of 8 .*can reach 6 \(0.750\)"),
    (csvm.cost(fn=2, fp=1) <= 0.1, r"cost\(fn=2,fp=1\)<=0.1 requires 11.2 of 12 .*10 \(0.250\)"),
    (csvm.all_of(np.arange(8)), r"at least 8 of 8 cases requires 8 of 8 anchors; it can reach 6"),
])
def test_conflicts_of_other_measures_are_explained(constraints, message):
    X, y, anchors = overlapping()
    groups = np.tile(["a", "a", "b", "b"], 4)
    fit = model(kernel="linear", constraints=constraints)
    if message is None:
        assert fit.fit(X, y, anchors=anchors, sensitive_features=groups).result_.optimal
        return
    with pytest.raises(InfeasibleRatesError, match=message):
        fit.fit(X, y, anchors=anchors, sensitive_features=groups)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(8))
def test_reach_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    y = np.tile([1.0, -1.0], 5)
    X = rng.normal(size=(10, 2)) + 0.4 * y[:, None]
    if seed % 3 == 0:
        X[1] = X[0]  # opposite labels at the same point
    K = kernels.linear(X)
    asked = requirements(parse_constraints(("tpr>=1", "tnr>=1")), y, np.ones(10), threshold="none")
    tester = Feasibility(K, y)
    conflict = tester.find_conflict(asked, 10.0)

    def separable(kept):
        f = SVC(kernel="linear", C=1e7, max_iter=200_000).fit(X[kept], y[kept])
        return np.all(y[kept] * f.decision_function(X[kept]) > 1e-3)

    reach = [0, 0]
    for z in product([False, True], repeat=10):
        kept = np.array(z)
        for own in (0, 1):
            other = y == (-1 if own == 0 else 1)
            count = int(kept[~other].sum())
            if kept[other].all() and count > reach[own] and separable(kept):
                reach[own] = count
    if conflict is None:
        assert reach == [5, 5]
    else:
        assert conflict.reach == reach and all(conflict.exact)


def test_no_time_means_no_claim():
    X, y, _ = overlapping()
    asked = requirements(parse_constraints(("tpr>=1", "tnr>=1")), y[:8].astype(float), np.ones(8))
    assert Feasibility(kernels.linear(X[:8]), y[:8]).find_conflict(asked, 0.0) is None


# -- errors, and the promise -----------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"C": 0}, "C must be"),
        ({"C": True}, "C must be a number"),
        ({"C": np.inf}, "C must be finite"),
        ({"constraints": ()}, "constraints is empty"),
        ({"constraints": "tpr<=0.9"}, "bounded from below"),
        ({"gamma": "wide"}, "gamma"),
        ({"kernel": "gauss"}, "kernel must be one of"),
        ({"kernel": "poly", "degree": 0}, "degree"),
        ({"node_solver": "magic"}, "node_solver must be one of"),
        ({"threshold": "bayes"}, "threshold must be one of"),
        ({"alpha": 2.0}, "alpha"),
        ({"anchors": 1.5}, r"in \(0, 1\)"),
        ({"time_limit": 0}, "time_limit"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"n_jobs": 1.5}, "n_jobs must be"),
        ({"n_jobs": True}, "n_jobs must be"),
        ({"gap": -1}, "gap"),
    ],
)
def test_parameters_are_checked_in_fit(changes, message):
    X, y = data(40)
    with pytest.raises(ValueError, match=message):
        model(**changes).fit(X, y)


def test_a_classifier_that_breaks_its_promise_is_not_returned():
    _check_rates([RateReport("tpr", 0.9, 9.0, 10.0, 9.0, 0.9)])
    with pytest.raises(RuntimeError, match="9 are required"):
        _check_rates([RateReport("tpr", 0.9, 9.0, 10.0, 8.0, 1.0)])


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_kernels_that_overflow_are_told(kernel):
    X, y = data(40)
    with pytest.raises(ValueError, match=r"kernel matrix of X holds NaN or infinity; scale the"):
        model(kernel=kernel, gamma=0.0 if kernel == "rbf" else 0.3).fit(X * 1e200, y)
    with pytest.raises(ValueError, match=r"variance of X, .*, is not finite: scale the features"):
        model(kernel=kernel, gamma="scale").fit(X * 1e200, y)


@pytest.mark.parametrize("unit", [1e60, 1e-60])
def test_kernels_out_of_the_range_of_arithmetic_are_told(unit):
    X, y = data(40)
    with pytest.raises(ValueError, match=r"largest entry of the kernel matrix is .*; scale the"):
        model(kernel="linear").fit(X * unit, y)


def test_points_whose_kernel_overflows_get_no_class():
    X, y = data(40)
    fitted = model(kernel="poly").fit(X, y)
    with pytest.raises(ValueError, match=r"kernel matrix of X holds NaN or infinity; scale the"):
        fitted.predict(X * 1e200)


def test_tiny_features_give_no_wrong_optimum():
    """Large objectives once were cut off as infeasible though a worse one was the incumbent."""
    X, y = make_classification(40, 4, class_sep=2.0, flip_y=0.0, random_state=1)
    fit = model(kernel="linear", constraints=("tpr>=0.9", "tnr>=0.9"), time_limit=5)
    optimum = fit.fit(1e-3 * X, y).result_.objective
    tiny = fit.fit(1e-8 * X, y).result_
    assert tiny.bound <= 1e10 * optimum * 1.001
    assert not tiny.optimal or tiny.objective == pytest.approx(1e10 * optimum, rel=1e-3)


def ill_conditioned():
    """Features of very different size, which sequential minimal optimisation is slow on."""
    X, y = make_classification(40, 4, class_sep=1.0, flip_y=0.0, random_state=1)
    return X * 10.0 ** np.random.default_rng(1).uniform(0, 2, 4), y


def test_a_node_solver_that_cannot_finish_is_replaced():
    X, y = ill_conditioned()
    fit = model(kernel="linear", C=1e4, constraints="tpr>=1")
    auto = fit.fit(X, y).result_
    assert auto.optimal
    with pytest.warns(ConvergenceWarning, match="node_solver='smo'.*scale the features"):
        smo = fit.set_params(node_solver="smo").fit(X, y).result_
    assert smo.optimal and smo.objective == pytest.approx(auto.objective, rel=1e-4)


def test_nothing_found_says_when_and_why():
    X, y = make_classification(40, 4, class_sep=2.0, flip_y=0.0, random_state=1)
    fit = model(kernel="linear", constraints=("tpr>=0.9", "tnr>=0.9"), time_limit=0.5)
    with pytest.raises(RuntimeError, match=r"ended after \S+ s: time limit") as caught:
        fit.fit(1e-20 * X, y)
    assert "none was proven not to exist" in str(caught.value)


def polished(**changes):
    """A search on a small problem, as if it had ended otherwise, and what polishing makes of it."""
    X, y = data(40)
    signs = np.where(y == "sick", 1.0, -1.0)
    K, hits = kernels.rbf(X, gamma=0.3), (signs[20:] > 0).astype(float)
    problem = CSVMProblem(
        Instance(K, signs, np.ones(20), hits[None, :], np.array([hits.sum() - 2]))
    )
    result = bnb.solve(problem, branching="first", gap=1e-6)
    given = replace(result, **{k: v(result.objective) for k, v in changes.items()})
    return given, _polish(problem, given, 1e-4, FOR_EVER)


def test_polishing_can_close_the_gap_and_says_so():
    given, found = polished(
        status=lambda _: Status.FEASIBLE, reason=lambda _: Reason.TIME, bound=lambda v: 0.99995 * v
    )
    assert (found.status, found.reason, found.bound) == (Status.OPTIMAL, Reason.GAP, given.bound)
    _, found = polished(
        status=lambda _: Status.FEASIBLE, reason=lambda _: Reason.TIME, bound=lambda v: 0.9998 * v
    )
    assert (found.status, found.reason) == (Status.FEASIBLE, Reason.TIME)
    assert found.gap == pytest.approx(2e-4, rel=0.01)


def test_polishing_below_the_bound_is_a_contradiction_not_a_proof():
    _, found = polished(bound=lambda v: 1.001 * v)
    assert found.status is Status.INVALID
    _, found = polished(status=lambda _: Status.INVALID)
    assert found.status is Status.INVALID


def test_polishing_knows_the_absolute_gap():
    result = polished()[0]
    small = replace(result, status=Status.FEASIBLE, objective=1e-9, bound=0.0)
    better = small.improved(result.x, 5e-10, 0.0, Tolerance(relative=1e-4))
    assert better.optimal and better.gap == 1.0


# -- company ---------------------------------------------------------------------------------


def test_grid_search_pipeline_clone_pickle():
    X, y = data(90)
    pipeline = make_pipeline(StandardScaler(), model())
    search = GridSearchCV(pipeline, {"csvm__C": [5.0, 20.0]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.5
    best = search.best_estimator_
    assert np.array_equal(pickle.loads(pickle.dumps(best)).predict(X), best.predict(X))
    assert clone(model(constraints=(csvm.tpr >= 0.8,))).constraints == (csvm.tpr >= 0.8,)


def test_grid_search_slices_precomputed_kernels():
    X, y = data(90)
    search = GridSearchCV(model(kernel="precomputed"), {"C": [5.0, 20.0]}, cv=2)
    assert search.fit(kernels.rbf(X, gamma=0.3), y).best_score_ > 0.5


def test_data_frames():
    X, y = data(60)
    frame = pd.DataFrame(X, columns=list("abcd"))
    fitted = model().fit(frame, pd.Series(y))
    assert fitted.feature_names_in_.tolist() == list("abcd")
    assert np.array_equal(fitted.predict(frame), model().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame.rename(columns={"a": "z"}))


def test_breast_cancer_end_to_end():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    fitted = CSVM(C=32.0, gamma=2**-5, pos_label=0, constraints="tpr>=0.85", random_state=0)
    fitted.fit(X, y)
    assert fitted.result_.optimal
    assert recall_score(y, fitted.predict(X), pos_label=0) > 0.95


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1.0, 1e6])
def test_rates_do_not_depend_on_the_unit_of_the_weights(unit):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.where(rng.random(60) > 0.5, 1, -1)
    model = csvm.CSVM(
        C=1.0 / unit, constraints=["tpr>=0.9"], threshold="none", anchors=np.arange(30)
    )
    model.fit(X, y, sample_weight=np.full(60, unit))
    anchors = X[:30][y[:30] == 1]
    assert np.mean(model.predict(anchors) == 1) >= 0.9
    plain = clone(model).set_params(C=1.0).fit(X, y)
    assert model.result_.objective == pytest.approx(plain.result_.objective, rel=2e-4)


@pytest.mark.parametrize("size, told", [(1.0, True), (1e17, False)])
def test_a_conflict_is_told_only_where_rounding_leaves_no_doubt(size, told):
    """Two equal points of both classes; but entries of 1e17 may be off by more than a margin."""
    y = np.array([1.0, -1.0])
    asked = requirements(parse_constraints("accuracy>=1"), y, np.ones(2), threshold="none")
    found = Feasibility(np.full((2, 2), size), y).find_conflict(asked, 5.0)
    assert (found is not None) == told


def test_margins_that_rounding_decides_about_are_not_promised():
    """Entries of 1e18: the same point gets another sign in another order of summation."""
    X = 100.0 * np.array([[-2, -2], [-2, -2], [-2, -3], [-1, -3], [-4, -4], [-2, -1], [-4, -1],
                          [-3, -1], [0, 3], [-1, -3], [2, 1], [4, 3], [-1, -2]])
    y = np.array([1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 1, -1, -1])
    model = CSVM(
        constraints=["accuracy>=0.6", "tpr>=0.6"], C=33.3, kernel="poly", gamma=3.9323125656690396,
        threshold="none",
    )
    # Whether one is found at all depends on that order, too.
    with pytest.raises(RuntimeError, match=r"scale the features|none was proven not to exist"):
        model.fit(X, y, anchors=np.array([0, 2, 3, 6, 7, 11]))


def test_compiling_is_told_once():
    """Two functions stand for all of them."""
    script = (
        "from csvm.search import compiled\n"
        "from numba import njit\n"
        "with compiled.event.install_listener('numba:compile', compiled._Messenger()):\n"
        "    njit(lambda x: x + 1)(1); njit(lambda x: x + 2)(1)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
    )
    assert run.stderr.count("compiling") == 1 and run.stdout == ""


COMPILED_BY_A_FIT = """
import sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from csvm import CSVM
from csvm.search import compiled

def versions():
    return {
        (name, key): len(value.signatures) for name, module in list(sys.modules.items())
        if name.startswith(("csvm.search", "relaxations.svm"))
        for key, value in vars(module).items() if isinstance(value, Dispatcher)
    }

compiled.warm_up(%r, %r)
before = versions()
rng = np.random.default_rng(1)
X, y = rng.normal(size=(120, 3)), rng.random(120) < 0.5
asked = ["tpr>=0.6", "tnr>=0.6"][: 1 + %r]
CSVM(kernel=%r, constraints=asked, threshold="none", random_state=0, time_limit=30).fit(X, y)
print([at for at, n in versions().items() if n != before[at]], sum(before.values()) > 4)
"""


@pytest.mark.parametrize("both_classes", [True, False])
@pytest.mark.parametrize(("is_factor", "kernel"), [(False, "rbf"), (True, "linear")])
def test_a_fit_compiles_nothing_else(is_factor, kernel, both_classes):
    run = subprocess.run(
        [sys.executable, "-c",
         COMPILED_BY_A_FIT % (is_factor, both_classes, both_classes, kernel)],
        capture_output=True, text=True, check=True,
    )
    assert run.stdout == "[] True\n"


def test_a_fit_compiles_before_its_clock_runs(monkeypatch):
    """Else a first fit would give back what compiling left it time for."""
    order = []
    monkeypatch.setattr(csvm.estimator, "warm_up", lambda is_factor, _: order.append(is_factor))
    monkeypatch.setattr(
        csvm.estimator, "Patience", lambda deadline: order.append("clock") or FOR_EVER
    )
    X, y = data()
    for kernel in ("linear", "rbf"):
        CSVM(kernel=kernel, pos_label="sick", random_state=0).fit(X, y)
    assert order[:2] == [True, "clock"] and False in order
