import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from csvm import CSVM
from csvm.__main__ import main
from csvm.demo import ASKED, compare
from csvm.tables import TableModel, read_table
from csvm.tuning import COSTS, WIDTHS


def rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    sick = np.arange(n) % 2 == 0
    X = rng.normal(size=(n, 2)) * [1.0, 100.0] + np.where(sick, 1.0, -1.0)[:, None] * [0.8, 80.0]
    return [
        {"age": repr(float(a)), "dose": repr(float(d)), "state": "sick" if s else "well"}
        for (a, d), s in zip(X, sick, strict=True)
    ]


def write(path, table):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0])
        writer.writeheader()
        writer.writerows(table)
    return str(path)


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "data.csv", rows())


@pytest.fixture
def fit(tmp_path, data):
    """Runs `csvm fit` on a file with further arguments."""
    path = str(tmp_path / "model.npz")

    def run(*more, source=data):
        options = ["--label", "state", "--positive", "sick", "--threshold", "none", "--quiet"]
        if "--tuned" not in more:
            options += ["--C", "1", "--gamma", "scale"]
        more = [word for word in more if word != "--tuned"]
        return main(["fit", source, *options, "--model", path, *more])

    run.path = path
    return run


def test_fit_predict_evaluate(fit, tmp_path, capsys, data):
    assert fit("--constraint", "tpr>=0.95") == 0
    out, err = capsys.readouterr()
    assert "optimal" in out and "tpr >= 0.95: 29 of 30 anchors required" in out and err == ""
    other = write(tmp_path / "other.csv", rows(seed=1))
    assert main(["predict", other, "--model", fit.path]) == 0
    predicted = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert len(predicted) == 120 and {r["prediction"] for r in predicted} == {"sick", "well"}
    assert all((float(r["decision"]) > 0) == (r["prediction"] == "well") for r in predicted)
    assert main(["evaluate", other, "--model", fit.path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    hits = [
        r["prediction"] == s["state"] for r, s in zip(predicted, rows(seed=1), strict=True)
    ]
    assert found["accuracy"] == pytest.approx(np.mean(hits))
    assert found["tpr"] == pytest.approx(np.mean(hits[::2]))
    assert found["constraints"][0]["met"] == (found["tpr"] >= 0.95)
    assert main(["evaluate", other, "--model", fit.path]) == 0
    assert "positive class sick" in capsys.readouterr().out


def test_groups(fit, tmp_path, capsys):
    table = [{**row, "region": "nord" if k % 3 else "süd"} for k, row in enumerate(rows())]
    source = write(tmp_path / "groups.csv", table)
    asked = ("--constraint", "tpr[*]>=0.9", "--constraint", "precision>=0.6")
    assert fit(*asked, "--group", "region", source=source) == 0
    out = capsys.readouterr().out
    assert "tpr[nord] >= 0.9: 18 of 20 anchors" in out and "tpr[süd] >= 0.9: 9 of 10" in out
    assert TableModel.load(fit.path).columns == ["age", "dose"]
    assert main(["predict", write(tmp_path / "b.csv", rows(seed=1)), "--model", fit.path]) == 0
    capsys.readouterr()
    assert main(["evaluate", source, "--model", fit.path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["constraints"]
    assert [row["rate"] for row in found] == ["tpr[nord]", "tpr[süd]", "precision"]
    assert all(row["met"] == (row["found"] >= row["asked"]) for row in found)
    assert main(["evaluate", str(tmp_path / "b.csv"), "--model", fit.path]) == 0
    out, err = capsys.readouterr()
    assert "tpr[*]>=0.9 cannot be told without the column region" in err
    assert "tpr[nord]" not in out and "precision>=0.6 is" in out
    assert fit(*asked, source=source) == 1
    assert "these columns hold text: region" in capsys.readouterr().err
    assert fit(*asked, "--drop", "region", source=source) == 1
    assert "say who is in which" in capsys.readouterr().err
    assert fit("--constraint", "at_least(2,of=[1,2,3])", source=source) == 1
    assert "at least 2 of 3 cases can only be asked from Python" in capsys.readouterr().err
    assert fit(*asked, "--group", "area", source=source) == 1
    assert "has no column 'area'" in capsys.readouterr().err


def test_json_is_alone_on_standard_output_and_progress_on_the_other(fit, data, capsys):
    options = ["--label", "state", "--threshold", "none", "--model", fit.path, "--json"]
    options += ["--C", "1", "--gamma", "scale"]
    assert main(["fit", data, *options]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["status"] == "optimal" and found["rates"][0]["counted"] >= 27
    assert "Branch and bound" in err


def test_C_and_gamma_are_tuned_unless_given(fit, data, capsys):
    assert fit("--tuned", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["C"] in COSTS and found["gamma"] in [w / 2 for w in WIDTHS]
    assert fit("--tuned", "--json", "--gamma", "0.7") == 0
    assert json.loads(capsys.readouterr().out)["gamma"] == 0.7
    assert fit("--tuned", "--json", "--C", "3") == 0
    assert json.loads(capsys.readouterr().out)["C"] == 3
    assert fit("--tuned", "--json", "--C", "3", "--kernel", "linear") == 0
    assert capsys.readouterr().err == ""  # one candidate: nothing to choose
    options = ["--label", "state", "--threshold", "none", "--model", fit.path]
    assert main(["fit", data, *options]) == 0
    out, err = capsys.readouterr()
    assert "tuning: 12 of 12" in err and "C = " in out


def test_rates_that_no_parameters_meet_on_held_out_folds_are_told(fit, tmp_path, capsys):
    def shuffle(table):
        for row, state in zip(table, np.random.default_rng(0).permutation(120), strict=True):
            row["state"] = "sick" if state % 2 else "well"

    source = changed(tmp_path, shuffle)
    rates = ["--constraint", "tpr>=0.9", "--constraint", "tnr>=0.9"]
    fit("--tuned", *rates, "--gamma", "1", "--time-limit", "0.5", source=source)
    assert "met the rates on held-out folds" in capsys.readouterr().err


def test_output_file(fit, tmp_path, data, capsys):
    fit()
    capsys.readouterr()
    path = tmp_path / "out.csv"
    assert main(["predict", data, "--model", fit.path, "--output", str(path)]) == 0
    assert capsys.readouterr().out == "" and len(path.read_text().splitlines()) == 121
    assert main(["predict", data, "--model", fit.path, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["prediction"]) == 120


def test_parquet_says_the_same_as_csv(fit, tmp_path, data, capsys):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = rows()
    columns = {
        "age": [float(r["age"]) for r in table], "dose": [float(r["dose"]) for r in table],
        "state": [r["state"] for r in table],
    }
    path = tmp_path / "data.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    assert read_table(path).columns == read_table(data).columns
    fit()
    first = TableModel.load(fit.path).model.decision_function(np.zeros((1, 2)))
    fit(source=str(path))
    assert TableModel.load(fit.path).model.decision_function(np.zeros((1, 2))) == first
    path.write_text("no parquet")
    assert fit(source=str(path)) == 1
    assert "is no Parquet file" in capsys.readouterr().err


def changed(tmp_path, change):
    table = rows()
    change(table)
    return write(tmp_path / "changed.csv", table)


def blank(table):
    table[3]["age"] = ""
    table[7]["age"] = "NA"


def text(table):
    for row in table:
        row["city"] = "Seville"


def one_class(table):
    for row in table:
        row["state"] = "sick"


def three_classes(table):
    table[0]["state"] = "dead"


def no_label(table):
    table[5]["state"] = ""


def infinite(table):
    table[5]["age"] = "inf"


def all_constant(table):
    for row in table:
        row["age"] = row["dose"] = "1"


def hardly_any_sick(table):
    for row in table[1:]:
        row["state"] = "well"


@pytest.mark.parametrize(
    "change, message",
    [
        (blank, r"values are missing in age (2 of 120 rows)"),
        (text, "these columns hold text: city"),
        (one_class, "must have two classes, it has 1: sick"),
        (three_classes, "must have two classes, it has 3"),
        (no_label, "the label 'state' is missing in 1 of 120 rows"),
        (infinite, "infinite"),
        (all_constant, "all columns are constant"),
        (hardly_any_sick, "there are no positive anchors; give more points"),
    ],
)
def test_data_that_cannot_be_used(fit, tmp_path, capsys, change, message):
    assert fit(source=changed(tmp_path, change)) == 1
    out, err = capsys.readouterr()
    assert message in err and "Traceback" not in err and out == ""


def test_ways_out(fit, tmp_path, capsys):
    assert fit("--drop-missing", source=changed(tmp_path, blank)) == 0
    assert "2 of 120 rows with missing values left out" in capsys.readouterr().err
    assert fit("--drop", "city", source=changed(tmp_path, text)) == 0
    assert TableModel.load(fit.path).columns == ["age", "dose"]


def test_constant_columns_are_left_out(fit, tmp_path, capsys):
    def constant(table):
        for row in table:
            row["ward"] = "7"

    assert fit(source=changed(tmp_path, constant)) == 0
    assert "column ward is constant and left out" in capsys.readouterr().err
    assert TableModel.load(fit.path).columns == ["age", "dose"]


def test_too_few_anchors_are_told(fit, capsys):
    assert fit("--threshold", "hoeffding") == 0
    assert "at least 150 anchors would be needed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more, message",
    [
        (["--constraint", "recall>=0.9"], "did you mean 'tpr'"),
        (["--label", "outcome"], "has no column 'outcome'; its columns are age, dose, state"),
        (["--positive", "dead"], "none of the classes sick, well"),
        (["--drop", "height"], "has no column 'height'"),
        (["--C", "-1"], "C must be"),
        (["--anchors", "2"], "in (0, 1)"),
        (["--drop", "age", "--drop", "dose"], "no columns are left"),
    ],
)
def test_options_that_cannot_be_used(fit, capsys, more, message):
    assert fit(*more) == 1
    assert message in capsys.readouterr().err


def test_contradicting_rates_have_their_own_exit_code(tmp_path, capsys):
    table = [{"x": str(i // 2), "state": "sick" if i % 2 else "well"} for i in range(40)]
    source = write(tmp_path / "twins.csv", table)
    options = ["--label", "state", "--kernel", "linear", "--threshold", "none", "--quiet"]
    options += ["--C", "1"]
    rates = ["--constraint", "tpr>=1", "--constraint", "tnr>=1", "--anchors", "second-half"]
    assert main(["fit", source, *options, *rates, "--model", str(tmp_path / "m.npz")]) == 4
    assert "contradict each other" in capsys.readouterr().err
    assert not (tmp_path / "m.npz").exists()


def test_files_that_cannot_be_read(fit, tmp_path, capsys, data):
    assert fit(source=str(tmp_path / "nothing.csv")) == 1
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("a,b\n1,2\n1\n")
    assert fit(source=str(ragged)) == 1
    assert "row 3: 1 values for 2 columns" in capsys.readouterr().err
    wrong = {"": "is empty", "a,b\n": "has no rows", "a,a\n1,2\n": "distinct"}
    for content, message in wrong.items():
        ragged.write_text(content)
        assert fit(source=str(ragged)) == 1
        assert message in capsys.readouterr().err
    ragged.write_bytes(b"\xff\xfe\x00")
    assert fit(source=str(ragged)) == 1
    assert "UTF-8" in capsys.readouterr().err
    assert main(["predict", data, "--model", data]) == 2
    assert "not a model of csvm" in capsys.readouterr().err


def edit_table(change):
    def edit(path):
        with np.load(path) as file:
            stored = dict(file)
        text = json.loads(str(stored["model"]))
        change(text["table"])
        np.savez(path, **{**stored, "model": np.array(json.dumps(text))})

    return edit


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("damage, message", [
    (lambda path: path.write_bytes(path.read_bytes()[:-500]), "damaged"),
    (lambda path: path.write_bytes(b""), "damaged"),
    (lambda path: path.unlink(), "No such file"),
    (edit_table(lambda table: table.pop("label")), "table lacks label"),
    (edit_table(lambda table: table.update(mean=[0.0])), "mean must be 2 numbers"),
    (edit_table(lambda table: table.update(scale=[1.0, 0.0])), "scale must be positive"),
    (edit_table(lambda table: table.update(scale=[1.0, "2"])), "scale must be a number"),
    (edit_table(lambda table: table.update(columns=["age", "age"])), "2 different names"),
    (edit_table(lambda table: table.update(columns="ab")), "2 different names"),
    (edit_table(lambda table: table.update(label="age")), "label must be"),
])
def test_model_files_that_cannot_be_used(fit, data, capsys, command, damage, message):
    fit()
    capsys.readouterr()
    damage(Path(fit.path))
    assert main([command, data, "--model", fit.path]) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and len(err.splitlines()) == 1


def test_models_are_not_mixed_up(fit, tmp_path, data, capsys):
    fit()
    with pytest.raises(ValueError, match="written by the command line"):
        CSVM.load(fit.path)
    X = np.random.default_rng(0).normal(size=(40, 2))
    plain = tmp_path / "plain.npz"
    CSVM(C=20.0, threshold="none").fit(X, X[:, 0] > 0).save(plain)
    assert main(["predict", data, "--model", str(plain)]) == 2
    assert "use csvm.CSVM.load" in capsys.readouterr().err


def test_predicting_needs_the_columns(fit, tmp_path, capsys):
    fit()
    source = write(tmp_path / "less.csv", [{"age": "1"}])
    assert main(["predict", source, "--model", fit.path]) == 1
    assert "has no column 'dose'" in capsys.readouterr().err


def test_demo(tmp_path, capsys):
    picture = tmp_path / "demo.png"
    assert main(["demo", "--json", "--picture", str(picture)]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert list(found["methods"])[::3] == ["SVM", "CSVM"] and len(found["methods"]) == 4
    assert found["status"] == "optimal" and "Search report" in err
    assert [row["rate"] for row in found["certificate"]] == list(found["methods"]["CSVM"])
    assert found["certified"] == all(row["certified"] for row in found["certificate"])
    assert picture.stat().st_size > 10_000


def test_the_story_of_the_demo_is_what_the_run_showed():
    outcome = compare(20.0, verbose=0)
    assert outcome.model.result_.optimal
    for name, (a, b, c) in outcome.lines.items():  # the lines in the picture have the rates told
        called = outcome.X @ [a, b] + c > -1e-9
        for one in (one for each in ASKED for one in each.each(outcome.sizes)):
            value = one.value(outcome.y, called, outcome.sizes)
            assert value == pytest.approx(outcome.rates[name][str(one.rate)])
    assert all(rate.achieved >= 0.65 for rate in outcome.model.rates_)
    for worst, said in ((0.5, "No threshold of the SVM"), (0.7, "Some threshold of the SVM")):
        assert said in replace(outcome, best_threshold=worst).story()
    assert f"{outcome.rates['CSVM']['tpr[small]']:.3f}" in outcome.story()
    assert str(outcome.certificate) in outcome.story()


def test_usage_errors_and_the_module_as_a_program():
    ran = subprocess.run([sys.executable, "-m", "csvm", "fit"], capture_output=True, text=True)
    assert ran.returncode == 2 and "usage: csvm fit" in ran.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--jobs", "0"], "n_jobs must be"),
        (["--scheduler", "nowhere"], "no dask scheduler answers at nowhere"),
        (["--checkpoint", "."], "--checkpoint: . is a directory"),
        (["--model", "."], "--model: . is a directory"),
    ],
)
def test_fit_refuses_what_it_cannot_use_before_the_tuning(
    data, tmp_path, capsys, monkeypatch, given, message
):
    if given[0] == "--scheduler":
        pytest.importorskip("distributed")

    def tune(*_, **__):
        raise AssertionError("the tuning has begun")

    monkeypatch.setattr("csvm.__main__.tune", tune)
    assert main(["fit", data, "--label", "state", "--model", str(tmp_path / "m.json"), *given]) == 1
    assert message in capsys.readouterr().err
