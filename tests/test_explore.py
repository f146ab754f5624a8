import csv
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pandas as pd
import pytest

import csvm
from csvm.exploration import study, write_page
from csvm.progress import ProgressLine
from csvm.tables import TableModel

TARGETS = ["tpr>=0.95", "tpr>=0.7", "tnr>=0.9"]


def data(n=150, seed=0):
    rng = np.random.default_rng(seed)
    sick = rng.random(n) < 0.4
    X = rng.normal(size=(n, 2)) + 1.5 * sick[:, None]
    return X, np.where(sick, "sick", "well"), np.where(rng.random(n) < 0.5, "north", "south")


def explored(**changes):
    X, y, _ = data()
    options = {"pos_label": "sick", "targets": TARGETS, "folds": 3, "time_limit": 0.3}
    return csvm.explore(X, y, **{**options, **changes})


def test_every_point_is_held_out_once():
    found = explored()
    _, y, _ = data()
    assert [m.name for m in found.methods] == ["CSVM", "SVC, threshold"]
    assert (found.rows, found.positives, found.folds) == (150, (y == "sick").sum(), 3)
    for method in found.methods:
        assert [p.asked for p in method.points] == TARGETS
        for point in method.points:
            tp, fn, tn, fp = point.counts[""]
            assert tp + fn == found.positives and tn + fp == 150 - found.positives
            assert list(point.counts) == [""]


def test_what_is_asked_holds_on_the_points_of_the_fit():
    for method in explored().methods:
        for point, target in zip(method.points, (0.95, 0.7, 0.9), strict=True):
            assert point.own[1 if point.asked.startswith("tnr") else 0] >= target - 1e-9
        assert method.points[0].own[0] >= method.points[1].own[0]


def test_held_out_rates_of_the_thresholds_are_those_of_a_loop():
    """The SVC again, fold by fold, from scikit-learn's parts."""
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    X, y, _ = data()
    positive = (y == "sick").astype(int)
    (point,) = explored(targets=["tpr>=0.8"]).methods[1].points
    table = np.zeros(4, int)
    for rest, fold in StratifiedKFold(3, shuffle=True, random_state=0).split(X, positive):
        sample = study.Sample(X[rest], positive[rest], positive[rest] == 1, None)
        svc = study.tuned_svc(sample, 0)
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        unseen = cross_val_predict(
            clone(svc), X[rest], positive[rest], cv=folds, method="decision_function"
        )
        ordered = np.sort(unseen[positive[rest] == 1])
        cut = ordered[int(np.floor(0.2 * len(ordered) + 1e-9))]
        said = svc.fit(X[rest], positive[rest]).decision_function(X[fold]) >= cut
        true = positive[fold] == 1
        table += [(true & said).sum(), (true & ~said).sum(), (~true & ~said).sum(),
                  (~true & said).sum()]
    assert point.counts[""] == table.tolist()


def test_groups():
    X, y, groups = data()
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(region=groups)
    found = csvm.explore(
        frame, y, sensitive_features="region", pos_label="sick", targets=TARGETS, folds=2,
        time_limit=0.3,
    )
    assert found.groups == ["north", "south"]
    for method in found.methods:
        assert [p.asked for p in method.points] == ["tpr[*]>=0.95", "tpr[*]>=0.7", "tnr[*]>=0.9"]
        for point in method.points:
            parts = np.array([point.counts["north"], point.counts["south"]])
            assert point.counts[""] == parts.sum(axis=0).tolist()


def test_a_run_that_is_stopped_goes_on(tmp_path, monkeypatch):
    kept, done = tmp_path / "work.jsonl", []
    original = study._csvms

    def once(*arguments):
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return original(*arguments)

    monkeypatch.setattr(study, "_csvms", once)
    with pytest.raises(KeyboardInterrupt):
        explored(store=kept)
    lines = kept.read_text().splitlines()
    assert len(lines) == 2  # parameters, one fold
    monkeypatch.setattr(study, "_csvms", original)
    whole = explored(store=kept)
    assert kept.read_text().splitlines()[:2] == lines and len(kept.read_text().splitlines()) == 4
    monkeypatch.setattr(study, "_csvms", once)  # nothing is done again
    assert explored(store=kept) == whole
    monkeypatch.setattr(study, "_csvms", original)
    explored(store=kept, random_state=1)  # other settings are other work
    assert len(kept.read_text().splitlines()) == 8


@pytest.mark.parametrize("changes, message", [
    ({"targets": []}, "targets is empty"),
    ({"targets": ["accuracy>=0.9"]}, "targets must be like"),
    ({"targets": ["tpr>=2"]}, r"in \(0, 1\]"),
    ({"targets": ["tpr>=0.9", "tpr>=0.9"]}, "targets must differ"),
    ({"folds": 1}, "folds must be from 2 to"),
    ({"folds": 2.5}, "folds must be from 2 to"),
    ({"folds": "2"}, "folds must be from 2 to"),
    ({"random_state": None}, "random_state must be an integer"),
    ({"pos_label": "dead"}, "pos_label='dead'"),
])
def test_what_cannot_be_explored(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        explored(**changes)


def test_labels_that_cannot_be_explored():
    X, y, _ = data()
    for strange in (np.where(np.arange(len(y)) < 3, np.nan, 1.0), None, y[:-1], np.c_[y, y]):
        with pytest.raises(ValueError, match=r"[yY]|inconsistent"):
            csvm.explore(X, strange, targets=TARGETS, folds=2)


# -- the page and the command line ------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("explore")
    X, y, groups = data()
    with (path / "data & more.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "dose", "region", "state"])
        for x, group, label in zip(X, groups, y, strict=True):
            writer.writerow([*map(repr, map(float, x)), group, label])
    return path


def typed(folder, line):
    words = shlex.split(line)
    assert words[0] == "csvm"
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, timeout=300
    )


COMMAND = (
    "csvm explore 'data & more.csv' --label state --positive sick --group region --folds 2 "
    "--time-limit 0.2 --out page.html"
)


@pytest.fixture(scope="module")
def page(folder):
    ran = typed(folder, COMMAND)
    assert ran.returncode == 0, ran.stderr
    assert "exploring: 3 of 3" in ran.stderr and "page written to page.html" in ran.stdout
    return folder / "page.html"


def embedded(page):
    text = page.read_text()
    return json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_needs_nothing_else(page):
    text = page.read_text().replace("http://www.w3.org/2000/svg", "")
    assert "://" not in text and "data &amp; more.csv" in text


def test_the_command_again_takes_everything_from_the_store(folder, page):
    before = page.read_text()
    ran = typed(folder, COMMAND + " --json")
    assert ran.returncode == 0 and "3 of 3 from the store" in ran.stderr
    assert json.loads(ran.stdout)["groups"] == ["north", "south"] and page.read_text() == before


def test_the_command_in_the_page_fits_what_it_shows(folder, page):
    methods = embedded(page)["methods"]
    (point,) = [p for p in methods[0]["points"] if p["asked"] == "tpr[*]>=0.9"]
    ran = typed(folder, point["command"] + " --quiet --time-limit 5")
    assert ran.returncode in (0, 3), ran.stderr  # 3: not proven within the time limit
    model = TableModel.load(folder / "model.npz").model
    assert [r.rate for r in model.rates_] == ["tpr[north]", "tpr[south]"]
    assert f"--C {model.C:g} --gamma {model.gamma:.4g}" in point["command"]


def test_where_it_cannot_write(folder):
    ran = typed(folder, COMMAND.replace("page.html", "nowhere/page.html"))
    assert ran.returncode == 1 and "--out" in ran.stderr and "not a directory" in ran.stderr


def test_text_in_the_data_does_not_become_part_of_the_page(tmp_path):
    found = explored(targets=["tpr>=0.8"])
    path = write_page(found, tmp_path / "p.html", title="</script><b>", command="csvm </script>")
    text = path.read_text()
    assert text.count("</script>") == 2 and "<b>" not in text.split("<script")[0]
    assert embedded(path)["title"] == "</script><b>"


def test_progress_is_optional(capsys):
    explored(targets=["tpr>=0.8"], progress=ProgressLine(sys.stderr))
    assert "exploring: 4 of 4" in capsys.readouterr().err


# -- in a browser -----------------------------------------------------------------------------


class Browser:
    """Chromium by the WebDriver protocol, which needs no package."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.url = f"http://127.0.0.1:{port}/session"
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1400"]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": flags},
                  "goog:loggingPrefs": {"browser": "ALL"}}
        for _ in range(100):
            try:
                answer = self.call("POST", "", {"capabilities": {"alwaysMatch": wanted}})
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        self.url += "/" + answer["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def move_to(self, selector):
        """The mouse, as a person moves it."""
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        move = {"type": "pointerMove", "duration": 50, "x": 0, "y": 0, "origin": found}
        self.call("POST", "/actions", {
            "actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]
        })

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()


@pytest.fixture
def browser():
    if shutil.which("chromedriver") is None:
        pytest.skip("needs Chromium and its chromedriver")
    made = Browser()
    yield made
    made.close()


def test_the_page_in_a_browser(browser, page):
    browser.call("POST", "/url", {"url": page.as_uri()})
    data = embedded(page)
    points = sum(len(m["points"]) for m in data["methods"])
    dots = "return document.querySelectorAll('.dot').length"
    assert browser.run(dots) == 3 * points  # all points, north, south
    # Moving over a point shows its rates, table, cost and command.
    last = len(data["methods"][1]["points"]) - 1  # drawn last, so that no other lies above it
    browser.move_to(f'.dot[data-m="1"][data-k="{last}"][data-group=""] .hit')
    point = data["methods"][1]["points"][last]
    tp, fn, tn, fp = point["counts"][""]["table"]
    text = browser.run("return document.getElementById('detail').innerText")
    assert f"asked for {point['asked']}" in text and "north" in text and "south" in text
    assert f"{100 * tp / (tp + fn):.1f} %" in text
    cells = browser.run(
        "return [...document.querySelectorAll('#confusion td')].map(c => c.textContent)"
    )
    assert cells == ["positive", str(tp), str(fn), "negative", str(fp), str(tn)]
    assert browser.run("return document.getElementById('command').textContent") == point["command"]
    assert browser.run("return document.querySelectorAll('.dot.on').length") == 3
    # Other prices are another cost.
    browser.run(
        "const price = document.getElementById('fn'); price.value = '10';"
        "price.dispatchEvent(new Event('input'))"
    )
    cost = browser.run("return document.getElementById('cost').textContent")
    assert cost == f"{100 * (10 * fn + fp) / (tp + fn + tn + fp):.1f}"
    hidden = "return getComputedStyle(document.querySelector('.own')).display"
    assert browser.run(hidden) == "none"
    browser.run("document.getElementById('own').click()")
    assert browser.run(hidden) != "none"
    for width in (1280, 1200, 1000, 600):
        browser.call("POST", "/window/rect", {"width": width, "height": 1400})
        wide = "return [document.documentElement, document.getElementById('detail')]"
        assert browser.run(f"{wide}.every(one => one.scrollWidth <= one.clientWidth)"), width
    log = browser.call("POST", "/se/log", {"type": "browser"})
    assert [entry for entry in log if entry["level"] == "SEVERE"] == []
