import csv
import json
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import csvm
from csvm.certification import certify_predictions
from csvm.rates import parse_constraints


def outcome(n_pos, right_pos, n_neg=0, right_neg=0):
    """Points and predictions with these counts."""
    positive = np.arange(n_pos + n_neg) < n_pos
    right = np.concatenate([np.arange(n_pos) < right_pos, np.arange(n_neg) < right_neg])
    return positive, positive == right


def certificate(constraints, *counts, confidence=0.95):
    return certify_predictions(parse_constraints(constraints), *outcome(*counts), confidence)


def tail(n, k, p):
    """P(Bin(n, p) >= k), term by term."""
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


@pytest.mark.parametrize("n, p0, confidence", [(1, 0.5, 0.6), (29, 0.9, 0.95), (40, 0.7, 0.99)])
def test_every_count(n, p0, confidence):
    certified = []
    for k in range(n + 1):
        (rate,) = certificate(f"tpr>={p0}", n, k, confidence=confidence).rates
        assert rate.p_value == pytest.approx(tail(n, k, p0), rel=1e-9)
        if k:  # Clopper and Pearson: the rate at which so many would just be too rare
            assert tail(n, k, rate.lower) == pytest.approx(1 - confidence, rel=1e-6)
        assert rate.certified == (tail(n, k, p0) <= 1 - confidence)
        if abs(rate.lower - p0) > 1e-9:
            assert rate.certified == (rate.lower > p0)
        certified.append(rate.certified)
    # What is certified when the true rate is just p0 happens at most with probability alpha.
    wrong = sum(tail(n, k, p0) - tail(n, k + 1, p0) for k in range(n + 1) if certified[k])
    assert wrong <= 1 - confidence + 1e-12


def test_all_rates_or_none():
    both = certificate(["tpr>=0.8", "tnr>=0.8"], 100, 95, 100, 95)
    assert both.certified and both.p_value == max(r.p_value for r in both.rates)
    one = certificate(["tpr>=0.8", "tnr>=0.8"], 100, 95, 100, 82)
    assert [r.certified for r in one.rates] == [True, False] and not one.certified
    assert "NOT certified" in str(one)


@pytest.mark.parametrize("n, right, p0", [
    (10, 10, 0.9), (40, 38, 0.9), (100, 86, 0.8), (0, 0, 0.9),
])
def test_how_many_more(n, right, p0):
    (rate,) = certificate(f"tpr>={p0}", n, right, 5, 5).rates
    assert not rate.certified and rate.more > 0
    share = right / n if n else 1.0
    total = n + rate.more
    assert tail(total, math.ceil(share * total), p0) <= 0.05
    fewer = total - max(2, rate.more // 10)  # "about": counts are integers
    assert tail(fewer, math.floor(share * fewer), p0) > 0.05


def test_when_more_points_do_not_help():
    (low,) = certificate("tpr>=0.9", 100, 90).rates
    assert low.more is None and "unless more of them are right" in str(low)
    (one,) = certificate("tpr>=1", 100, 100).rates
    assert one.more is None and one.p_value == 1.0 and "a rate of 1" in str(one)


def data(seed=0, n=400):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, "sick", "well")
    return rng.normal(size=(n, 2)) + np.where(y == "sick", 2.0, 0.0)[:, None], y


def test_any_classifier_and_its_positive_class():
    X, y = data()
    X_new, y_new = data(1)
    model = LogisticRegression().fit(X, y)
    well = csvm.certify(model, X_new, y_new, "tpr>=0.8")
    sick = csvm.certify(model, X_new, y_new, "tpr>=0.8", pos_label="sick")
    assert well.rates[0].n == (y_new == "well").sum() and sick.rates[0].n == (y_new == "sick").sum()
    right = (model.predict(X_new) == y_new)[y_new == "sick"].sum()
    assert sick.rates[0].right == right


def test_the_positive_class_of_the_model_inside():
    X, y = data(n=120)
    model = csvm.CSVM(C=32, constraints="tpr>=0.8", threshold="none", pos_label="sick",
                      random_state=0)
    pipeline = make_pipeline(StandardScaler(), model)
    search = GridSearchCV(pipeline, {"csvm__C": [32]}, cv=2)
    X_new, y_new = data(1)
    for fitted in (model.fit(X, y), pipeline.fit(X, y), search.fit(X, y)):
        (rate,) = csvm.certify(fitted, X_new, y_new, "tpr>=0.8").rates
        assert rate.n == (y_new == "sick").sum()


def test_what_cannot_be_certified_is_refused():
    X, y = data()
    model = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match="nothing to certify"):
        csvm.certify(model, X, y, [])
    with pytest.raises(ValueError, match="confidence must be in"):
        csvm.certify(model, X, y, "tpr>=0.9", confidence=1)
    with pytest.raises(TypeError, match="confidence must be a number"):
        csvm.certify(model, X, y, "tpr>=0.9", confidence="high")
    with pytest.raises(ValueError, match="y holds"):
        csvm.certify(model, X, np.where(y == "sick", "dead", y), "tpr>=0.9")
    with pytest.raises(ValueError, match="400 points, y has 3"):
        csvm.certify(model, X, y[:3], "tpr>=0.9")
    with pytest.raises(ValueError, match="pos_label='dead' is none"):
        csvm.certify(model, X, y, "tpr>=0.9", pos_label="dead")
    with pytest.raises(ValueError, match="two classes"):
        csvm.certify(DummyClassifier().fit(X, np.arange(400) % 3), X, y, "tpr>=0.9")


# -- command line -----------------------------------------------------------------------------


def write(path, seed, n):
    X, y = data(seed, n)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "dose", "state"])
        writer.writerows([*map(repr, map(float, x)), label] for x, label in zip(X, y, strict=True))


def typed(folder, line):
    """Run a command as a person types it."""
    words = line.split()
    assert words[0] == "csvm"
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("certify")
    write(path / "train.csv", 0, 160)
    write(path / "new.csv", 1, 400)
    ran = typed(path, "csvm fit train.csv --label state --positive sick --constraint tpr>=0.8 "
                      "--C 1 --gamma 0.5 --threshold hoeffding --quiet --model model.npz")
    assert ran.returncode == 0, ran.stderr
    return path


def test_certified_at_the_command_line(folder):
    ran = typed(folder, "csvm certify new.csv --model model.npz")
    assert ran.returncode == 0 and ran.stderr == ""
    assert ran.stdout.startswith("all rates are certified (confidence 0.95)\n  tpr >= 0.8 is cert")


def test_not_certified_has_its_own_exit_code(folder):
    ran = typed(folder, "csvm certify new.csv --model model.npz --constraint tpr>=0.8 "
                        "--constraint tnr>=0.99 --confidence 0.9 --json")
    assert ran.returncode == 5 and ran.stderr == ""
    found = json.loads(ran.stdout)
    assert found["certified"] is False and found["confidence"] == 0.9 and found["rows"] == 400
    assert [r["certified"] for r in found["rates"]] == [True, False]
    assert found["rates"][1]["asked"] == 0.99 and found["rates"][1]["p_value"] > 0.1
    text = " ".join(typed(folder, "csvm certify -h").stdout.split())
    assert "5 the rates are not certified" in text


def test_rows_that_the_fit_has_seen_are_told(folder):
    ran = typed(folder, "csvm certify train.csv --model model.npz")
    assert "support vectors of the model are among these rows" in ran.stderr


@pytest.mark.parametrize("more, message", [
    ("--constraint recall>=0.9", "did you mean 'tpr'"),
    ("--confidence 2", "confidence must be in (0, 1)"),
])
def test_what_cannot_be_typed(folder, more, message):
    ran = typed(folder, f"csvm certify new.csv --model model.npz {more}")
    assert ran.returncode == 1 and message in ran.stderr and ran.stdout == ""


# -- more rates, and groups -------------------------------------------------------------------


def labelled(n=300, seed=0):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    predicted = np.where(rng.random(n) < 0.9, positive, ~positive)
    return positive, predicted, np.where(rng.random(n) < 0.3, "north", "south")


def one(text, groups=None):
    positive, predicted, _ = labelled()
    (rate,) = certify_predictions(
        parse_constraints(text), positive, predicted, 0.95, groups
    ).rates
    return rate, positive, predicted


def test_shares_of_predictions():
    rate, positive, predicted = one("precision>=0.7")
    assert (rate.n, rate.right) == (predicted.sum(), (positive & predicted).sum())
    rate, positive, predicted = one("npv>=0.7")
    assert (rate.n, rate.right) == ((~predicted).sum(), (~positive & ~predicted).sum())
    rate, positive, predicted = one("accuracy>=0.7")
    assert (rate.n, rate.right) == (300, (positive == predicted).sum())


def test_f1_is_tested_by_its_share():
    rate, positive, predicted = one("f1>=0.8")
    assert (rate.n, rate.right) == ((positive | predicted).sum(), (positive & predicted).sum())
    share = rate.right / rate.n
    assert 2 * share / (1 + share) == pytest.approx(f1_score(positive, predicted))
    assert rate.p_value == pytest.approx(tail(rate.n, rate.right, 0.8 / 1.2), rel=1e-9)
    assert rate.certified == (rate.lower >= 0.8)
    least = rate.lower / (2 - rate.lower)
    assert tail(rate.n, rate.right, least) == pytest.approx(0.05, rel=1e-6)


def test_rates_of_groups():
    positive, predicted, groups = labelled()
    rate, *_ = one("tpr[north]>=0.7", groups)
    north = groups == "north"
    assert rate.rate == "tpr[north]" and rate.n == (positive & north).sum()
    assert rate.right == (positive & predicted & north).sum()


def test_every_group_from_a_column():
    X, y = data()
    frame = pd.DataFrame(X, columns=["age", "dose"])
    model = LogisticRegression().fit(frame, y)
    frame["region"] = np.where(np.arange(400) % 3 == 0, "north", "south")
    found = csvm.certify(model, frame, y, "tpr[*]>=0.5", sensitive_features="region")
    assert [r.rate for r in found.rates] == ["tpr[north]", "tpr[south]"]
    assert sum(r.n for r in found.rates) == (y == "well").sum()
    with pytest.raises(ValueError, match="is about a group"):
        csvm.certify(model, frame[["age", "dose"]], y, "tpr[north]>=0.5")
    with pytest.raises(ValueError, match=r"about nobody: the groups .* are north, south"):
        csvm.certify(model, frame, y, "tpr[nort]>=0.5", sensitive_features="region")


@pytest.mark.parametrize("constraint, reason", [
    ("balanced_accuracy>=0.8", "mean of two shares"),
    ("cost(fn=5,fp=1)<=0.3", "two kinds of errors"),
    (csvm.at_least(3, of=[0, 1, 2]), "known cases"),
])
def test_what_has_no_exact_test(constraint, reason):
    X, y = data()
    with pytest.raises(ValueError, match=reason):
        csvm.certify(LogisticRegression().fit(X, y), X, y, [constraint])


def test_groups_at_the_command_line(folder):
    lines = (folder / "new.csv").read_text().splitlines()
    regions = ["region", *("north" if i % 3 else "south" for i in range(len(lines) - 1))]
    (folder / "regions.csv").write_text(
        "".join(f"{line},{region}\n" for line, region in zip(lines, regions, strict=True))
    )
    ran = typed(folder, "csvm certify regions.csv --model model.npz --group region "
                        "--constraint tpr[*]>=0.7")
    assert ran.returncode == 0 and "tpr[north] >= 0.7 is certified" in ran.stdout
    assert "tpr[south] >= 0.7 is certified" in ran.stdout


class Predicts:
    classes_ = np.array([0, 1])

    def __init__(self, values):
        self.values = values

    def predict(self, X):
        return self.values


def test_predictions_of_another_shape_or_of_no_class():
    X, y = np.zeros((90, 1)), np.repeat([0, 1], 45)
    flat = csvm.certify(Predicts(y), X, y, "tpr>=0.9")
    column = csvm.certify(Predicts(y[:, None]), X, y, "tpr>=0.9")
    assert str(flat) == str(column) and column.rates[0].right == 45
    for strange in (np.full(90, 7), np.full(90, np.nan)):
        with pytest.raises(ValueError, match="none of its classes"):
            csvm.certify(Predicts(strange), X, y, "tnr>=0.9")


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_classes_are_told(missing):
    X, y = data()
    labels = y.astype(object)
    labels[:3] = missing
    with pytest.raises(ValueError, match="y: the class of 3 points is missing"):
        csvm.certify(LogisticRegression().fit(X, y), X, labels, "tpr>=0.9")


def test_missing_groups_of_pandas_are_told():
    pd = pytest.importorskip("pandas")
    X, y = np.zeros((90, 1)), np.repeat([0, 1], 45)
    groups = pd.array(["a", None] * 45, dtype="string")
    with pytest.raises(ValueError, match="the group of 45 points is missing"):
        csvm.certify(Predicts(y), X, y, "tpr[a]>=0.5", sensitive_features=groups)
