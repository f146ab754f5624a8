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
from csvm.rates import AnchorWarning, Constraint, parse_constraints, requirements, threshold_count


def test_algebra_and_text_agree():
    assert (rates.tpr >= 0.9) == Constraint.parse("tpr>=0.9") == Constraint.parse(" tpr ≥ .9 ")
    assert (0.8 <= rates.tnr) == Constraint("tnr", 0.8)  # noqa: SIM300
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
    plain = Constraint("tpr", 0.75)
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


@pytest.mark.parametrize("p0, n, k", [(0.9, 10, 9), (0.07, 100, 7), (0.7, 10, 7), (0.91, 10, 10)])
def test_plain_counts_do_not_suffer_from_rounding(p0, n, k):
    assert threshold_count(p0, n, "none") == k


def test_every_decimal_rate_gives_the_exact_ceiling():
    for n in range(1, 120):
        for percent in range(1, 101):
            assert threshold_count(percent / 100, n, "none") == -(-percent * n // 100)


def test_hoeffding_as_in_the_paper():
    p_star = 0.855 + math.sqrt(math.log(0.05) / (-2 * 135))
    assert threshold_count(0.855, 135) == math.ceil(p_star * 135) == 130


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


def test_requirements_need_anchors_of_the_class():
    with pytest.raises(ValueError, match="no positive anchors"):
        requirements([rates.tpr >= 0.5], np.array([-1, -1]), np.ones(2))


def test_bad_options():
    with pytest.raises(ValueError, match="threshold must be one of"):
        threshold_count(0.5, 10, "bayes")
    with pytest.raises(ValueError, match="alpha"):
        threshold_count(0.5, 10, alpha=0.0)
    with pytest.raises(ValueError, match="sum to an integer"):
        threshold_count(0.5, 10.5, "exact")
