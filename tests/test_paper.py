"""The paper's experiments: the algorithm, the store, the cluster, the report, the command."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import numpy as np
import psutil
import pytest
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

import csvm
from benchmarks.__main__ import main
from benchmarks.paper import Data, Protocol, command, load, study, write_report
from benchmarks.paper.algorithm import choose, rates
from benchmarks.paper.methods import Asked, csvms, slid, svm
from benchmarks.paper.printed import METHODS, TABLE_2, TABLE_3, TARGETS
from benchmarks.paper.protocol import cut, random_split
from benchmarks.paper.tabulate import summary, tables
from csvm.jobs import cluster
from csvm.laboratory import Laboratory
from csvm.progress import Estimate, ProgressLine, clock
from csvm.sequences import umbrella_rank
from csvm.store import Store, StoreError

ROOT = Path(csvm.__file__).parents[1]
TINY = Protocol("tiny", outer=2, inner=2, exponents=(-2, 3), splits=2, alpha=0.5)


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(3)
    y = np.where(rng.random(140) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(140, 2)) + 0.5 * y[:, None] * [1.0, 0.5]
    return Data("tiny", X, y)


def in_process(step, tasks):
    """A runner without a store."""
    return [json.loads(json.dumps(task.run())) for task in tasks]


@pytest.fixture(scope="module")
def outcome(sample):
    return study(sample, TINY, in_process)


# -- the algorithm ----------------------------------------------------------------------------


class Loop:
    """Algorithm 1 as a plain loop over estimators of the public interface."""

    def __init__(self, sample, protocol):
        self.X, self.y, self.protocol = sample.X, sample.y, protocol
        self.p0 = None

    def scaled(self, training, validation):
        X = self.X[training]
        mean, scale = X.mean(axis=0), X.std(axis=0)
        return (X - mean) / scale, self.y[training], (self.X[validation] - mean) / scale

    def fit_predict(self, method, parameters, training, validation):
        X, y, X_val = self.scaled(training, validation)
        *costs, gamma = parameters
        anchors = np.arange(len(y) // 2, len(y))
        asked = {"constraints": [f"tpr>={self.p0}"], "alpha": self.protocol.alpha,
                 "anchors": anchors, "threshold": "hoeffding"}
        if method == "SVM":
            model = SVC(C=costs[0], gamma=gamma)
        elif method == "SVM(C+, C-)":
            model = SVC(C=1.0, gamma=gamma, class_weight={1: costs[0], -1: costs[1]})
        elif method == "sliding beta":
            model = csvm.SlidingSVC(SVC(C=costs[0], gamma=gamma), **asked)
        elif self.protocol.costs == "class":
            # C / |I+| and C / |I-| beside ||w||^2 without a half.
            first = y[: len(y) // 2]
            model = csvm.CSVM(C=costs[0] / len(first), gamma=gamma, **asked)
        else:
            model = csvm.CSVM(C=costs[0] / 2, class_weight=None, gamma=gamma, **asked)
        return model.fit(X, y).predict(X_val)

    def run(self, method):
        """TPR and TNR of every outer fold, and the parameters chosen."""
        grid = [2.0**k for k in self.protocol.exponents]
        found = []
        for training, validation in StratifiedKFold(self.protocol.outer).split(self.X, self.y):
            best, chosen = -1.0, None
            for parameters in product(grid, repeat=3 if method == "SVM(C+, C-)" else 2):
                scores = []
                inner = StratifiedKFold(self.protocol.inner)
                for fit, check in inner.split(training, self.y[training]):
                    fit, check = training[fit], training[check]
                    predicted = self.fit_predict(method, parameters, fit, check)
                    scores.append(np.mean(predicted == self.y[check]))
                if np.mean(scores) >= best - 1e-12:
                    best, chosen = np.mean(scores), parameters
            predicted = self.fit_predict(method, chosen, training, validation)
            y = self.y[validation]
            found.append((np.mean(predicted[y > 0] > 0), np.mean(predicted[y < 0] < 0), chosen))
        return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("costs", ["point", "class"])
def test_algorithm_1_equals_a_plain_loop(sample, costs):
    protocol = replace(TINY, costs=costs)
    outcome = study(sample, protocol, in_process)
    loop = Loop(sample, protocol)
    expected = {"SVM": loop.run("SVM")}
    loop.p0 = np.mean([tpr for tpr, _, _ in expected["SVM"]]) + 0.025
    assert outcome.p0 == pytest.approx(loop.p0)
    part = cut(sample, np.arange(70), np.arange(70, 140), 500)
    (rate,) = csvms(part, 1.0, [1.0], Asked.of(loop.p0, protocol))[0].rates_
    assert rate.required < rate.total  # some may be given up
    for method in METHODS:
        rows = expected.get(method) or loop.run(method)
        for fold, chosen, row in zip(outcome.folds, outcome.choices[method], rows, strict=True):
            assert tuple(chosen.values()) == row[2], method
            found = rates(fold, method)
            assert (found["tpr"], found["tnr"]) == pytest.approx(row[:2]), method
    assert all(fit["proven"] for fit in outcome.fits)
    assert len(outcome.fits) == 2 * 2 * 2 * 2 + 2 + 2


def test_of_equal_scores_the_last_wins_despite_rounding():
    assert choose(np.array([[0.5, 0.1 + 0.2], [0.3, 0.5 - 1e-15]])) == (1, 1)


def test_halves_and_standardisation(sample):
    part = cut(sample, np.arange(60), np.arange(60, 90), 500)
    assert part.first == 30 and np.allclose(part.points.mean(axis=0), 0)
    assert np.array_equal(part.X, part.points) and part.X_val.shape == (30, 2)
    given = part.anchored
    assert np.array_equal(given["X"][given["anchors"]], part.X[30:][part.y[30:] > 0])
    assert np.array_equal(given["X"][:30], part.X[:30])


def test_compression_keeps_classes_weights_and_validation_points():
    data = load("wisconsin")
    large = Data("large", np.vstack([data.X, data.X + 0.01]), np.tile(data.y, 2))
    training, held_out = random_split(large.y, 0)
    part = cut(large, training, held_out, 100)
    assert len(part.points) == pytest.approx(100, abs=3) and len(part.X_val) == len(held_out)
    assert part.weights.sum() == len(training)
    for label in (1.0, -1.0):
        assert part.weights[part.labels == label].sum() == (large.y[training] == label).sum()
    half, given = len(part.y) // 2, part.anchored
    assert np.array_equal(given["X"][given["anchors"]], part.X[half:][part.y[half:] > 0])
    assert np.all(given["sample_weight"][given["anchors"]] == 1.0)
    asked = Asked(0.9, 0.05, 60.0, 1e-4, "point")
    for model in (slid(part, svm(part, 0.1, 1.0, 1.0), asked), *csvms(part, 0.1, [1.0], asked)):
        (rate,) = model.rates_  # on points, not on centres
        assert rate.total == (part.y[half:] > 0).sum() and rate.counted >= rate.required


def test_the_criterion_follows_the_smaller_class(sample):
    assert sample.balanced
    assert not Data("rare", sample.X, np.where(np.arange(140) < 41, 1.0, -1.0)).balanced
    assert not Data("edge", sample.X, np.where(np.arange(140) < 42, 1.0, -1.0)).balanced
    assert Data("more", sample.X, np.where(np.arange(140) < 43, 1.0, -1.0)).balanced


@pytest.mark.parametrize("name, anchors, required", [
    ("australian", 135, 130), ("wisconsin", 95, 95),
])
def test_required_counts_are_the_papers(name, anchors, required):
    # p0* = min{1, p0 + sqrt(log(0.05) / (-2 n))}
    rng = np.random.default_rng(0)
    y = np.append(np.tile([1.0, -1.0], (anchors + 1) // 2), np.ones(anchors + 1))[: 2 * anchors]
    y[anchors:] = 1.0
    part = cut(Data("made", rng.normal(size=(len(y), 2)), y), np.arange(len(y)), np.arange(2), 500)
    (rate,) = slid(part, svm(part, 1.0, 1.0, 1.0), Asked(TARGETS[name], 0.05, 1, 1, "point")).rates_
    assert (rate.total, rate.required) == (anchors, required)


def test_the_umbrella_rule_is_the_largest_safe_order_statistic():
    rng = np.random.default_rng(0)
    for p0, n, alpha in ((0.9, 50, 0.05), (0.8, 30, 0.1)):
        k = umbrella_rank(p0, n, alpha)
        scores = np.sort(rng.random((20000, n)), axis=1)  # of positives: TPR = 1 - threshold
        assert np.mean(1.0 - scores[:, k - 1] < p0) <= alpha + 0.01
        assert np.mean(1.0 - scores[:, k] < p0) > alpha - 0.01
    assert umbrella_rank(0.99, 100, 0.05) == 0


def test_printed_numbers_are_complete():
    assert set(TABLE_2) == set(TABLE_3) == set(TARGETS) == set(csvm.datasets.NAMES)
    met = [n for n in TARGETS if TABLE_3[n]["CSVM"]["tpr"][0] >= TARGETS[n]]
    assert sorted(met) == ["australian", "biodeg", "german", "pageBlocks"]


@pytest.mark.parametrize("bad", [{"target": "guess"}, {"target": "paper"}])
def test_targets_that_cannot_be(sample, bad):
    with pytest.raises(ValueError, match="target"):
        study(sample, TINY, in_process, **bad)


# -- storing and resuming ---------------------------------------------------------------------


def test_a_finished_run_repeats_nothing(sample, tmp_path, outcome):
    with Store(tmp_path / "fits.jsonl") as store:
        first = study(sample, TINY, Laboratory(store, 1, ProgressLine(None)))
        lines = (tmp_path / "fits.jsonl").read_text().count("\n")
    assert len(first.fits) == len(outcome.fits) and first.choices == outcome.choices

    def never(step, tasks):
        assert all(task.key in again for task in tasks)
        return [again[task.key] for task in tasks]

    with Store(tmp_path / "fits.jsonl") as again:
        assert len(again) == lines
        study(sample, TINY, never)


def test_other_settings_or_data_share_nothing(sample):
    keys = set()

    def collect(step, tasks):
        new = {task.key for task in tasks}
        assert len(new) == len(tasks) and not keys & new
        keys.update(new)
        return in_process(step, tasks)

    study(sample, TINY, collect)
    study(Data("tiny", sample.X[::-1], sample.y[::-1]), TINY, collect)
    study(sample, replace(TINY, clusters=400), collect)


def test_a_record_cut_short_is_dropped(tmp_path):
    path = tmp_path / "fits.jsonl"
    with Store(path) as store:
        store.add("a", {}, {"seconds": 1.0})
        store.add("b", {}, {"seconds": 2.0})
    path.write_bytes(path.read_bytes()[:-9])
    with Store(path) as store:
        assert "a" in store and "b" not in store
        store.add("b", {}, {"seconds": 3.0})
    with Store(path) as store:
        assert store["b"] == {"seconds": 3.0} and len(store) == 2


def test_a_store_in_use_or_spoilt_is_refused(tmp_path):
    path = tmp_path / "fits.jsonl"
    with Store(path), pytest.raises(StoreError, match="in use"):
        Store(path)
    path.write_text("no record\n")
    with pytest.raises(StoreError, match="line 1"):
        Store(path)


WORK = """
import sys
from benchmarks.paper import Protocol, command
command.QUICK = Protocol("quick", outer=2, inner=2, exponents=(-5, -3, 3, 5), splits=1)
sys.exit(command.main(["--dataset", "wisconsin", "--out", sys.argv[1], "--jobs", sys.argv[2]]))
"""


def start(directory, jobs):
    return subprocess.Popen(
        [sys.executable, "-c", WORK, str(directory), str(jobs)], cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )


def wait_for_records(process, path, least):
    for _ in range(600):
        if path.exists() and path.read_text().count("\n") >= least:
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    raise AssertionError("nothing was stored")


def keys(path):
    return [json.loads(line)["key"] for line in path.read_text().splitlines()]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals")
def test_a_killed_run_goes_on_and_repeats_no_fit(tmp_path):
    path = tmp_path / "fits.jsonl"
    process = start(tmp_path, 1)
    wait_for_records(process, path, 5)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = keys(path)
    interrupted = start(tmp_path, 2)
    wait_for_records(interrupted, path, len(before) + 3)
    os.killpg(interrupted.pid, signal.SIGINT)  # as Ctrl-C does: all processes of the terminal
    _, err = interrupted.communicate(timeout=30)
    assert interrupted.returncode == 130
    assert "goes on from there" in err and "Traceback" not in err
    last = start(tmp_path, 1)
    out, err = last.communicate(timeout=60)
    assert last.returncode == 0, err
    after = keys(path)
    assert after[: len(before)] == before and len(set(after)) == len(after)
    assert "Table 1" in out


def works(process):
    """Whether it is there, and not only as an entry that nobody has asked for."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals")
def test_workers_do_not_outlive_a_killed_run(tmp_path):
    process = start(tmp_path, 2)
    wait_for_records(process, tmp_path / "fits.jsonl", 1)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    end = time.monotonic() + 20
    while (alive := [worker for worker in workers if works(worker)]) and time.monotonic() < end:
        time.sleep(0.1)
    for worker in alive:
        worker.kill()
    assert len(workers) >= 2 and not alive


# -- cluster ----------------------------------------------------------------------------------


def test_a_dask_cluster_gives_the_same(sample, tmp_path, outcome):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as local, cluster(local.scheduler_address) as cores, Store(tmp_path / "f.jsonl") as store:
        assert cores == 2
        found = study(sample, TINY, Laboratory(store, cores, ProgressLine(None)))
    assert found.choices == outcome.choices and found.p0 == outcome.p0
    assert summary(found) == summary(outcome)


def test_no_scheduler_is_said(tmp_path, capsys):
    code = main(["paper", "--dataset", "wisconsin", "--out", str(tmp_path),
                 "--scheduler", "tcp://127.0.0.1:9"])
    assert code == 1 and "no dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err


# -- report -----------------------------------------------------------------------------------


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attributes):
        self.found += [v for k, v in attributes if k in ("src", "href", "srcset", "data")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else(outcome, tmp_path):
    page = write_report([outcome], tmp_path).read_text()
    parser = Links()
    parser.feed(page)
    assert not parser.open
    inside = [v for v in parser.found if v.startswith("#") or v.startswith("data:image/svg+xml")]
    assert parser.found == inside and len([v for v in inside if v.startswith("data:")]) == 3
    style = re.search(r"<style>(.*?)</style>", page, flags=re.DOTALL)[1]
    assert "url(" not in style and "@import" not in style and "<script" not in page


def test_a_search_without_any_bound_is_drawn_too(outcome, tmp_path):
    """A fit whose time was up before its root had a bound has an infinite gap."""
    worst = {**outcome.fits[0], "gap": np.inf, "proven": False}
    page = write_report([replace(outcome, fits=[*outcome.fits, worst])], tmp_path)
    assert "inf %" in page.read_text()


def test_tables_parse(outcome, tmp_path):
    write_report([outcome], tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert all(table.title in text for table in tables([outcome]))
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1
    with (tmp_path / "methods.csv").open() as file:
        (row,) = [r for r in csv.DictReader(file) if r["method"] == "CSVM"]
    values = [rates(fold, "CSVM")["tpr"] for fold in outcome.folds]
    assert float(row["tpr_mean"]) == pytest.approx(np.mean(values))
    assert float(row["tpr_std"]) == pytest.approx(np.std(values, ddof=1))
    assert row["paper_tpr_mean"] == "" and float(row["gamma"]) == outcome.fixed["CSVM"]["gamma"]
    with (tmp_path / "searches.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["proven"] == row["fits"] == str(len(outcome.fits))


def test_the_estimate_weighs_by_group():
    estimate = Estimate([("slow", 10.0)], ["fast"] * 10 + ["slow"] * 3, jobs=2)
    assert estimate.left() is None
    for seconds in (30.0, 30.0, 1.0, 1.0):  # the first two include the workers' start
        estimate.finish("fast", seconds)
    assert estimate.left() == pytest.approx((6 * 1.0 + 3 * 10.0) / 2)
    assert [clock(s) for s in (7, 75, 4000)] == ["7 s", "1 min 15 s", "1 h 07 min"]


# -- command line -----------------------------------------------------------------------------


@pytest.fixture
def tiny_quick(monkeypatch):
    tiny = Protocol("quick", outer=2, inner=2, exponents=(-5, 5), splits=2)
    monkeypatch.setattr(command, "QUICK", tiny)
    monkeypatch.setattr(command, "FULL", replace(tiny, name="full", outer=3))


def test_the_command_as_a_person_types_it(tiny_quick, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("CSVM_DATA", raising=False)  # wisconsin comes with scikit-learn
    monkeypatch.chdir(tmp_path)
    assert main(["paper", "--dataset", "wisconsin", "--quick", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    assert "Table 1" in out and "Table 3" in out and "TPR, paper" in out
    assert "wisconsin, step 1 of 5, SVM and SVM(C+, C-): 8 of 8" in err
    for name in ("report.html", "report.md", "methods.csv", "searches.csv"):
        assert (tmp_path / "results" / "paper" / name).stat().st_size > 0
    assert main(["paper", "--dataset", "wisconsin", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    assert "| wisconsin | 20 | 100.00 % |" in out and "from the store" in err
    assert main(["paper", "--dataset", "wisconsin", "--jobs", "1", "--target", "paper"]) == 0
    assert "| 0.973 |" in capsys.readouterr().out


def test_full_may_name_the_data_sets(tiny_quick, sample, tmp_path, monkeypatch, capsys):
    small = {name: Data(name, sample.X, sample.y) for name in ("votes", "wisconsin")}
    monkeypatch.setattr(command, "load", small.__getitem__)
    run = ["paper", "--dataset", *small, "--jobs", "1", "--out", str(tmp_path)]
    for full, folds in (["wisconsin"], ("quick", "full")), ([], ("full", "full")):
        assert main([*run, "--full", *full]) == 0
        text = (tmp_path / "report.md").read_text()
        for name, protocol in zip(small, folds, strict=True):
            line = next(p for p in text.split("\n\n") if p.startswith(f"Protocol {protocol}"))
            assert f"{name} {2 if protocol == 'quick' else 3} × 2" in line


def test_full_must_be_among_the_data_sets(capsys):
    assert main(["paper", "--dataset", "wisconsin", "--full", "votes"]) == 1
    assert "--full names votes, which --dataset leaves out" in capsys.readouterr().err


@pytest.mark.parametrize("wrong, message", [
    (["--full", "iris"], "--full: invalid choice: 'iris'"),
    (["--dataset", "iris"], "--dataset: invalid choice: 'iris'"),
    (["--jobs", "0"], "--jobs: must be > 0"),
    (["--time-limit", "soon"], "--time-limit: invalid number value: 'soon'"),
    (["--quick", "--full"], "not allowed with"),
    (["--target", "high"], "--target: invalid choice"),
])
def test_wrong_usage_names_the_argument(wrong, message, capsys):
    with pytest.raises(SystemExit) as exit:
        main(["paper", *wrong])
    assert exit.value.code == 2 and message in capsys.readouterr().err


def test_missing_data_and_directories_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CSVM_DATA", str(tmp_path))

    def offline(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(csvm.datasets, "fetch_openml", offline)
    assert main(["paper", "--dataset", "votes", "--out", str(tmp_path / "out")]) == 1
    err = capsys.readouterr().err
    assert "votes is not on this computer" in err and "CSVM_DATA" in err
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    code = main(["paper", "--dataset", "wisconsin", "--out", str(tmp_path / "file")])
    assert code == 1 and "--out" in capsys.readouterr().err
