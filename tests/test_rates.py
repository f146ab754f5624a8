import copy
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from csvm import rates
from csvm.rates import Constraint, parse_constraints
from csvm.requirements import requirements
from csvm.thresholds import AnchorWarning, threshold_count


def test_algebra_and_text_agree():
    assert (rates.tpr >= 0.9) == Constraint.parse("tpr>=0.9") == Constraint.parse(" tpr ≥ .9 ")
    assert (0.8 <= rates.tnr) == Constraint(rates.tnr, 0.8)  # noqa: SIM300
    assert parse_constraints("accuracy>=1") == [rates.accuracy >= 1]
    assert parse_constraints(("tpr>=0.9", rates.tnr >= 0.5))[1].name == "tnr"
    assert str(rates.tpr >= 0.9) == "tpr>=0.9"
    assert parse_constraints(()) == []


def test_constraints_can_be_copied():
    constraint = rates.tpr >= 0.9
    assert copy.deepcopy(constraint) == constraint == pickle.loads(pickle.dumps(constraint))


@pytest.mark.parametrize("dubious", [
    lambda: (rates.tpr >= 0.8) and (rates.tnr >= 0.99),
    lambda: rates.tpr >= 0.8 or rates.tnr >= 0.99,
    lambda: not (rates.tpr >= 0.8),
    lambda: 0.8 <= rates.tpr <= 0.9,
    lambda: rates.tpr and rates.tnr >= 0.99,
])
def test_rates_and_constraints_have_no_truth_value(dubious):
    """Python would keep one side only, and a rate would be dropped without a word."""
    with pytest.raises(TypeError, match=r"as a list.*constraints=\[csvm.tpr >= 0.8, csvm.tnr"):
        dubious()


@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_numbers_of_numpy_on_either_side(number):
    plain = Constraint(rates.tpr, 0.75)
    assert (rates.tpr >= number(0.75)) == (number(0.75) <= rates.tpr) == plain
    assert type((rates.tpr >= number(0.75)).p0) is float
    with pytest.raises(ValueError, match="bounded from below"):
        number(0.75) >= rates.tpr  # noqa: B015


@pytest.mark.parametrize(
    "text, message",
    [
        ("tpr<=0.9", "bounded from below"),
        ("tpr>0.9", "bounded from below"),
        ("recall>=.9", "did you mean 'tpr'"),
        ("auc>=.9", "known are tpr, tnr, accuracy"),
        ("ppv>=.9", "did you mean 'precision'"),
        ("tpr[north]<=0.9", "bounded from below"),
        ("tpr[a]-tpr[b]<=0.1", "difference between groups"),
        ("abs(tpr[a]-tpr[b])<=0.1", "difference between groups"),
        ("|tpr[a] - tpr[b]| <= 0.1", "difference between groups"),
        ("tpr[a]/tpr[b]>=0.8", "difference between groups"),
        ("tpr[a]>=tpr[b]", "difference between groups"),
        ("cost<=0.3", "say what errors cost"),
        ("cost(5,1)<=0.3", "say what errors cost"),
        ("cost(fn=5,fp=1)>=0.3", "bounded from above"),
        ("cost(fn=0,fp=1)<=0.3", "must be > 0"),
        ("cost(fn=x,fp=1)<=0.3", "cannot read the number 'x'"),
        ("cost(fn=5,fp=1)<=-1", "a number >= 0"),
        ("tpr(fn=5,fp=1)>=0.9", "takes no costs"),
        ("at_least(4,of=[1,2])", "from 1 to the 2 cases"),
        ("tpr>=1.2", r"in \(0, 1\]"),
        ("tpr>=0", r"in \(0, 1\]"),
        ("tpr>=nan", r"in \(0, 1\]"),
        ("tpr>=high", "cannot read the number 'high'"),
        ("tpr 0.9", "cannot read the constraint"),
        ("", "cannot read the constraint"),
    ],
)
def test_errors_say_what_is_wrong(text, message):
    with pytest.raises(ValueError, match=message):
        parse_constraints([text])


def test_more_errors():
    with pytest.raises(ValueError, match="bounded from below"):
        rates.tpr <= 0.9  # noqa: B015
    with pytest.raises(ValueError, match="more than once"):
        parse_constraints(["tpr>=0.9", "tpr>=0.8"])
    with pytest.raises(TypeError, match="is written"):
        parse_constraints([0.9])
    for strange in (None, 0.9):
        with pytest.raises(TypeError, match="constraints must be one or several"):
            parse_constraints(strange)


@pytest.mark.parametrize("p0, n, k", [(0.9, 10, 9), (0.07, 100, 7), (0.7, 10, 7), (0.91, 10, 10)])
def test_plain_counts_do_not_suffer_from_rounding(p0, n, k):
    assert threshold_count(p0, n, "none") == k


def test_every_decimal_rate_gives_the_exact_ceiling():
    for n in range(1, 120):
        for percent in range(1, 101):
            assert threshold_count(percent / 100, n, "none") == -(-percent * n // 100)


def test_hoeffding_as_in_the_paper():
    p_star = 0.855 + math.sqrt(math.log(0.05) / (-2 * 135))
    assert threshold_count(0.855, 135, "hoeffding") == math.ceil(p_star * 135) == 130


def test_normal_approximation():
    assert threshold_count(0.9, 100, "normal") == math.ceil(100 * (0.9 + 1.6448536 * 0.03))


@given(st.integers(1, 300), st.floats(0.05, 0.99), st.floats(0.001, 0.4))
def test_exact_count_is_the_smallest_significant_one(n, p0, alpha):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorWarning)
        k = int(threshold_count(p0, n, "exact", alpha))
    if binom.sf(n - 1, n, p0) <= alpha:
        assert binom.sf(k - 1, n, p0) <= alpha < binom.sf(k - 2, n, p0)
    else:
        assert k == n


@given(st.integers(30, 300), st.floats(0.05, 0.9))
def test_the_exact_count_of_weights_lies_between_those_of_integers(n, p0):
    k = threshold_count(p0, n + 0.5, "exact")
    assert threshold_count(p0, n, "exact") - 1 <= k <= threshold_count(p0, n + 1, "exact")
    assert threshold_count(p0, n + 1e-9, "exact") <= threshold_count(p0, n, "exact") + 1e-6


@pytest.mark.parametrize("threshold", ["hoeffding", "normal", "exact"])
def test_warning_names_the_number_of_anchors_needed(threshold):
    with pytest.warns(AnchorWarning, match="would be needed") as caught:
        assert threshold_count(0.95, 20, threshold) == 20
    needed = int(str(caught[0].message).split("at least ")[1].split()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threshold_count(0.95, needed, threshold)
    with pytest.warns(AnchorWarning):
        threshold_count(0.95, needed - 1, threshold)


def test_a_rate_of_one_cannot_be_certified():
    with pytest.warns(AnchorWarning, match="no number of anchors"):
        assert threshold_count(1.0, 500) == 500
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert threshold_count(1.0, 500, "none") == 500


def test_requirements_weigh_the_anchors():
    y = np.array([1, 1, -1, -1, 1])
    weights = np.array([2.0, 1.0, 4.0, 1.0, 1.0])
    asked = parse_constraints(["tpr>=0.5", "tnr>=0.5", "accuracy>=0.5"])
    found = requirements(asked, y, weights, threshold="none")
    assert [r.required for r in found] == [2, 3, 5]
    assert found[0].weights.tolist() == [2, 1, 0, 0, 1]
    assert found[1].weights.tolist() == [0, 0, 4, 1, 0]
    fractions = requirements(asked[:1], y, weights / 3, threshold="none")
    assert fractions[0].required == pytest.approx(2 / 3)


# -- groups, cases and other measures ---------------------------------------------------------

MEASURES = [
    rates.tpr, rates.tnr, rates.accuracy, rates.precision, rates.npv, rates.f1,
    rates.balanced_accuracy, rates.cost(fn=5, fp=2),
]


def ask(rate, p0):
    return rate <= p0 if rate.name == "cost" else rate >= p0


@pytest.mark.parametrize("text", [
    "tpr[north]>=0.9", "tpr[*]>=0.85", "f1>=0.7", "balanced_accuracy[a b]>=0.123456789012",
    "cost(fn=5.0,fp=1.5)<=0.3", "cost(fn=5.0,fp=1.0)[x]<=0.0", "tpr[age<=25]>=0.5",
    "precision[a[1]]>=0.5", "at_least(2,of=[1,5,7])",
])
def test_text_reads_back(text):
    assert Constraint.parse(text).text == text
    assert Constraint.parse(Constraint.parse(text).text) == Constraint.parse(text)


def test_groups_in_the_algebra():
    assert (rates.tpr["north"] >= 0.9) == Constraint.parse("tpr[north]>=0.9")
    assert (rates.tpr[1] >= 0.9) == Constraint.parse("tpr[1] >= 0.9")
    assert (rates.cost(fn=5, fp=1)["a"] <= 0.3) == Constraint.parse("cost(fn=5, fp=1)[a] <= 0.3")
    assert len(parse_constraints(["tpr>=0.9", "tpr[*]>=0.8", "tpr[a]>=0.85"])) == 3
    with pytest.raises(ValueError, match=r"tpr\[a\] is constrained more than once"):
        parse_constraints(["tpr[a]>=0.9", "tpr[a]>=0.8"])
    with pytest.raises(ValueError, match="already"):
        rates.tpr["a"]["b"]


@pytest.mark.parametrize("dubious", [
    lambda: rates.tpr["a"] - rates.tpr["b"],
    lambda: rates.tpr["a"] / rates.tpr["b"],
    lambda: rates.tpr["a"] >= rates.tpr["b"],
    lambda: rates.tpr["a"] <= rates.tpr["b"],
    lambda: 1 - rates.tpr,
])
def test_differences_are_refused_with_a_reason(dubious):
    with pytest.raises(TypeError, match=r"bounds one of them from above.*tpr\['\*'\] >= 0.85"):
        dubious()


def test_cases():
    mask = np.array([False, True, True, False, True])
    two = rates.at_least(2, of=mask)
    assert two == rates.at_least(2, of=[4, 1, 2]) and two.rate.cases == (1, 2, 4)
    assert rates.all_of(mask) == rates.at_least(3, of=mask) == rates.all_of([1, 2, 4])
    assert str(two) == "at least 2 of 3 cases" and not two.on_new_data
    y = np.array([1, 1, -1, -1, -1])
    assert two.value(y, [1, 1, 1, 1, -1]) == pytest.approx(2 / 3)
    assert two.met(y, [1, 1, 1, 1, -1]) and not two.met(y, [1, -1, 1, -1, -1])
    for bad in ([0.5], [[1]], [1, 1], [], [-1], [False, False]):
        with pytest.raises(ValueError, match="of "):
            rates.at_least(1, of=bad)
    for count in (0, 4, 1.5):
        with pytest.raises(ValueError, match="count must be"):
            rates.at_least(count, of=mask)
    with pytest.raises(ValueError, match="is point 4, but there are 3 points"):
        two.value([1, 1, -1], [1, 1, -1])


@pytest.mark.parametrize("p0", [0.3, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("rate", MEASURES, ids=str)
def test_the_row_says_what_the_measure_says(rate, p0):
    """For all confusion tables: sum n_j z_j >= k if and only if the measure is as asked."""
    for positives, negatives in [(1, 1), (3, 5), (7, 4), (0, 4), (4, 0)]:
        if rate.name == "balanced_accuracy" and 0 in (positives, negatives):
            continue
        if (rate.name, 0) in [("tpr", positives), ("tnr", negatives)]:
            continue
        y = np.repeat([1.0, -1.0], [positives, negatives])
        (row,) = requirements([ask(rate, p0)], y, np.ones(len(y)), threshold="none")
        assert np.all(row.weights >= 0)
        for tp in range(positives + 1):
            for tn in range(negatives + 1):
                right = np.concatenate([
                    np.arange(positives) < tp, np.arange(negatives) < tn
                ])
                enough = row.weights[right].sum() >= row.required - 1e-9
                assert enough == ask(rate, p0).met(y, np.where(right, y, -y))
                assert row.value(right) == pytest.approx(
                    ask(rate, p0).value(y, np.where(right, y, -y)), nan_ok=True
                )


@pytest.mark.parametrize("seed", range(5))
def test_values_are_those_of_scikit_learn(seed):
    from sklearn import metrics

    rng = np.random.default_rng(seed)
    y, said, weights = rng.integers(0, 2, 40), rng.integers(0, 2, 40), rng.integers(1, 4, 40)
    group = rng.choice(["a", "b"], 40)
    of = group == "a"
    expected = {
        "tpr": metrics.recall_score, "accuracy": metrics.accuracy_score,
        "precision": metrics.precision_score, "f1": metrics.f1_score,
        "balanced_accuracy": metrics.balanced_accuracy_score,
    }
    flipped = {"tnr": metrics.recall_score, "npv": metrics.precision_score}
    for rate in MEASURES[:-1]:
        for members, about in ((np.ones(40, bool), rate), (of, rate["a"])):
            truth, answer = y[members], said[members]
            if rate.name in flipped:
                truth, answer = 1 - truth, 1 - answer
            score = {**expected, **flipped}[rate.name]
            for all_of_them, used in ((None, None), (weights, weights[members])):
                assert (about >= 0.5).value(y, said, group, all_of_them) == pytest.approx(
                    score(truth, answer, sample_weight=used)
                )
    errors = y != said
    expected_cost = (5 * (errors & (y == 1)) + 2 * (errors & (y == 0))).mean()
    assert (MEASURES[-1] <= 1).value(y, said) == pytest.approx(expected_cost)


def test_every_group_is_as_good_as_its_worst():
    y, said = [1, 1, 1, 1, -1], [1, -1, 1, 1, -1]
    group = np.array([1, 1, 2, 2, 3])
    every = rates.tpr["*"] >= 0.8
    assert every.value(y, said, group) == 0.5 and not every.met(y, said, group)
    assert [str(c) for c in every.each(group)] == ["tpr[1]>=0.8", "tpr[2]>=0.8", "tpr[3]>=0.8"]
    assert every.each(group)[1].counts(y, said, group) == (2, 2)
    assert (rates.cost(fn=2, fp=1)["*"] <= 1).value(y, said, group) == 1.0
    assert np.isnan((rates.tpr["3"] >= 0.8).value(y, said, group))
    with pytest.raises(ValueError, match="cannot be told"):
        (rates.tpr["3"] >= 0.8).met(y, said, group)
    with pytest.raises(ValueError, match="say who is in which, with sensitive_features"):
        every.value(y, said)
    with pytest.raises(ValueError, match="ask each"):
        every.counts(y, said, group)
    with pytest.raises(ValueError, match="group of 1 points is missing"):
        every.value(y, said, [1, None, 2, 2, 3])
    with pytest.raises(ValueError, match="one group for each of the 5 points"):
        every.value(y, said, [1, 2])


@pytest.mark.parametrize("changes, message", [
    ({"y_true": [1, np.nan, -1]}, "y_true holds NaN at position 1"),
    ({"y_pred": [1, -1, None]}, "y_pred holds NaN at position 2"),
    ({"y_pred": ["sick", "well", "well"]}, "y_pred must hold numbers"),
    ({"y_true": [1, 1j, -1]}, "complex"),
    ({"y_true": [1, -1]}, "equally long"),
    ({"sample_weight": 2.0}, r"sample_weight must have shape \(3,\), got \(\)"),
    ({"sample_weight": [1.0]}, r"sample_weight must have shape \(3,\), got \(1,\)"),
    ({"sample_weight": [1, -1, 1]}, "finite and >= 0"),
    ({"sample_weight": [1, np.nan, 1]}, "finite and >= 0"),
])
@pytest.mark.parametrize("constraint", [rates.tpr >= 0.5, rates.tpr["*"] >= 0.5], ids=str)
def test_points_that_a_measure_cannot_be_told_of(constraint, changes, message):
    points = {"y_true": [1, 1, -1], "y_pred": [1, -1, -1], "groups": ["a", "a", "b"]}
    with pytest.raises(ValueError, match=message):
        constraint.value(**points | changes)


def test_counts_are_of_the_points_that_a_share_is_of():
    y, said = [1, 1, 1, -1, -1], [1, 1, -1, 1, -1]
    found = {str(r): ask(r, 0.5).counts(y, said) for r in MEASURES}
    assert found == {
        "tpr": (2, 3), "tnr": (1, 2), "accuracy": (3, 5), "precision": (2, 3), "npv": (1, 2),
        "f1": None, "balanced_accuracy": None, "cost(fn=5,fp=2)": None,
    }


@pytest.mark.parametrize("rate", MEASURES[3:], ids=str)
@pytest.mark.parametrize("threshold", ["hoeffding", "normal", "exact"])
def test_tests_of_other_measures_ask_for_more_and_never_for_more_than_all(rate, threshold):
    y = np.repeat([1.0, -1.0], [150, 250])
    p0 = 1.5 if rate.name == "cost" else 0.6
    plain, tested = (
        requirements([ask(rate, p0)], y, np.ones(400), threshold=t)[0]
        for t in ("none", threshold)
    )
    assert plain.required < tested.required < tested.weights.sum()
    few = np.repeat([1.0, -1.0], [2, 2])
    with pytest.warns(AnchorWarning, match="all of them are required"):
        (row,) = requirements(
            [ask(rate, 0.0 if rate.name == "cost" else 0.95)], few, np.ones(4), threshold=threshold
        )
    assert row.required == pytest.approx(row.weights.sum())


@pytest.mark.parametrize("rate", MEASURES[3:], ids=str)
def test_hoeffding_holds_for_other_measures(rate):
    """Where every point is right with a chance at which the measure is just as asked."""
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], [120, 200])
    chance = np.where(y > 0, 0.8, 0.7)
    table = rates.Confusion(96, 24, 140, 60)
    constraint = ask(rate, rate.value(table))
    (row,) = requirements([constraint], y, np.ones(320), threshold="hoeffding", alpha=0.2)
    right = rng.random((4000, 320)) < chance
    passed = (right @ row.weights >= row.required).mean()
    assert 0.0 < passed <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 4000)


def test_requirements_of_groups_and_cases():
    y = np.array([1, 1, 1, -1, -1, 1])
    group = np.array(["n", "s", "n", "n", "s", "s"])
    asked = parse_constraints(["tpr[*]>=0.5", "tnr[s]>=1", rates.at_least(1, of=[12, 15])])
    found = requirements(
        asked, y, 2 * np.ones(6), threshold="none", groups=group, positions=np.arange(10, 16)
    )
    assert [str(r.constraint) for r in found] == [
        "tpr[n]>=0.5", "tpr[s]>=0.5", "tnr[s]>=1", "at least 1 of 2 cases"
    ]
    assert [r.weights.tolist() for r in found] == [
        [2, 0, 2, 0, 0, 0], [0, 2, 0, 0, 0, 2], [0, 0, 0, 0, 2, 0], [0, 0, 1, 0, 0, 1]
    ]
    assert [r.required for r in found] == [2, 2, 2, 1]
    with pytest.raises(ValueError, match=r"no positive anchors in the group 'w' .*anchors: n, s"):
        requirements([rates.tpr["w"] >= 0.5], y, np.ones(6), groups=group)
    with pytest.raises(ValueError, match="no negative anchors"):
        requirements([rates.balanced_accuracy >= 0.5], np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="1 of them are no anchors"):
        requirements(asked[2:], y, np.ones(6), positions=np.arange(13, 19))


def test_requirements_need_anchors_of_the_class():
    with pytest.raises(ValueError, match="no positive anchors"):
        requirements([rates.tpr >= 0.5], np.array([-1, -1]), np.ones(2))


def test_bad_options():
    with pytest.raises(ValueError, match="threshold must be one of"):
        threshold_count(0.5, 10, "bayes")
    with pytest.raises(ValueError, match="alpha"):
        threshold_count(0.5, 10, alpha=0.0)


def test_exact_threshold_of_large_weights_takes_no_memory_per_point():
    n = 10**12
    assert threshold_count(0.9, n, "exact", 0.05) == pytest.approx(
        threshold_count(0.9, n, "normal", 0.05), rel=1e-9
    )


@pytest.mark.parametrize("alpha", [None, "x", 0, 1])
def test_alpha_is_a_number_between_zero_and_one(alpha):
    with pytest.raises(ValueError, match="alpha must be in"):
        threshold_count(0.9, 10, "exact", alpha)
