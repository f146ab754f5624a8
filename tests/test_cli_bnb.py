"""The command line, as a person types it."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import bnb
from bnb.__main__ import main

ROOT = Path(bnb.__file__).parents[1]

MODEL = """\
{sense}
 obj: {linear} [ {sign} 2 apples ^ 2 {sign} 2 pears ^ 2 ] / 2
subject to
 basket: apples + pears <= {basket}
 one: pears - 3 fresh <= 0
bounds
 apples <= 9
 pears <= 9
general
 apples
binary
 fresh
end
"""
# (apples - 1.6)^2 + (pears - 2.2)^2 without its constant: apples = 2, pears = 2.2
MINIMUM = 4 - 3.2 * 2 - 2.2**2


def write(tmp_path, sense="minimize", basket="6"):
    linear, sign = "- 3.2 apples - 4.4 pears +", ""
    if sense == "maximize":
        linear, sign = "3.2 apples + 4.4 pears +", "-"
    path = tmp_path / "fruit.lp"
    text = MODEL.format(sense=sense, linear=linear, sign=sign, basket=basket)
    path.write_text(text.replace("[  2", "[ 2").replace(" ^ 2  2", " ^ 2 + 2"))
    return str(path)


def write_hard(tmp_path, n=40):
    """A dense integer least-squares problem, out of reach in a few seconds."""
    rng = np.random.default_rng(0)
    B = rng.normal(size=(n, n))
    P, q = B.T @ B, B.T @ rng.normal(scale=10.0, size=n)
    lines = ["NAME hard", "ROWS", " N obj", " L c", "COLUMNS", " M 'MARKER' 'INTORG'"]
    lines += [f" x{j} obj {q[j]} c 1" for j in range(n)]
    lines += [" M 'MARKER' 'INTEND'", "RHS", " RHS c 100", "BOUNDS"]
    lines += [f" {kind} BND x{j} {value}" for j in range(n) for kind, value in (("LO", -9),
                                                                             ("UP", 9))]
    lines += ["QUADOBJ"] + [f" x{i} x{j} {P[i, j]}" for i in range(n) for j in range(i, n)]
    path = tmp_path / "hard.mps"
    path.write_text("\n".join([*lines, "ENDATA", ""]))
    return str(path)


def command(*arguments):
    return [sys.executable, "-m", "bnb", *arguments]


def environment():
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def run(*arguments, cwd=None):
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment(), timeout=60, cwd=cwd
    )


def test_a_person_solves_a_file(tmp_path):
    write(tmp_path)
    done = run("fruit.lp", "--time-limit", "60", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Nodes     Open" in done.stdout
    assert "Status     optimal (gap closed)" in done.stdout
    lines = done.stdout.splitlines()
    assert ["apples", "2"] in [line.split() for line in lines]
    assert ["fresh", "1"] in [line.split() for line in lines]
    value = next(line.split()[1] for line in lines if line.startswith("Objective"))
    assert float(value) == pytest.approx(MINIMUM)


def test_bad_input_is_one_line(tmp_path):
    done = run(str(tmp_path / "nothing.mps"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("bnb: error: ")
    assert "no such file" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals")
def test_interrupt_reports_the_best_so_far(tmp_path):
    model, solution = write_hard(tmp_path), tmp_path / "best.json"
    process = subprocess.Popen(
        command(model, "--time-limit", "50", "--solution", str(solution)), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line[:2].strip() in set("HRDLN"):  # the row of the first incumbent
                break
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "feasible (interrupted)" in out
    report = json.loads(solution.read_text())
    assert report["reason"] == "interrupted"
    assert report["objective"] >= report["bound"]
    problem = bnb.read(model)
    value, violation = problem.check(np.array([report["solution"][k] for k in problem.names]))
    assert violation <= 1e-6
    assert value == pytest.approx(report["objective"])


# The rest runs in this process: the same code without the start of an interpreter.


def test_json_and_maximise(tmp_path, capsys):
    assert main([write(tmp_path, "maximize"), "--json"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert "Maximisation" in err
    assert "Nodes     Open" in err
    assert report["sense"] == "maximize"
    assert report["objective"] == pytest.approx(-MINIMUM)
    assert report["bound"] >= report["objective"] - 1e-12
    assert report["solution"] == pytest.approx({"apples": 2, "pears": 2.2, "fresh": 1}, abs=1e-5)


def test_quiet_prints_only_the_result(tmp_path, capsys):
    assert main([write(tmp_path), "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("Status     optimal")


def test_solution_files(tmp_path, capsys):
    values, report = tmp_path / "v.csv", tmp_path / "r.json"
    model = write(tmp_path)
    assert main([model, "--solution", str(values)]) == 0
    assert main([model, "--solution", str(report)]) == 0
    rows = list(csv.reader(values.read_text().splitlines()))
    assert rows[0] == ["name", "value"]
    assert [row[0] for row in rows[1:]] == ["apples", "pears", "fresh"]
    assert float(rows[1][1]) == 2
    assert json.loads(report.read_text())["status"] == "optimal"


def test_limits_and_other_ends(tmp_path, capsys):
    assert main([write_hard(tmp_path), "--nodes", "3", "--quiet"]) == 1
    assert "node limit" in capsys.readouterr().out
    assert main([write(tmp_path, basket="-1"), "--quiet"]) == 3
    assert "infeasible" in capsys.readouterr().out
    free = tmp_path / "free.lp"
    free.write_text("minimize\n obj: x + y\nsubject to\nbounds\n -inf <= x <= 4.5\n"
                    " -inf <= y <= 4.5\ngeneral\n y\nend\n")
    assert main([str(free), "--quiet", "--time-limit", "5"]) == 3
    assert "unbounded" in capsys.readouterr().out


def test_search_options_are_passed_on(tmp_path, capsys, monkeypatch):
    seen = {}

    def spy(problem, **options):
        seen.update(options)
        return bnb.solve(problem, **options)

    monkeypatch.setattr("bnb.__main__.solve", spy)
    saved = tmp_path / "search.json"
    arguments = [write(tmp_path), "--gap", "1e-3", "--workers", "2", "--selection", "hybrid",
                 "--branching", "fractional", "--seed", "7", "--checkpoint", str(saved),
                 "--time-limit", "9", "--nodes", "50", "--memory", "9000", "--quiet"]
    assert main(arguments) == 0
    assert saved.exists()
    wanted = {"gap": 1e-3, "workers": 2, "selection": "hybrid", "branching": "fractional",
              "seed": 7, "checkpoint": str(saved), "time_limit": 9.0, "node_limit": 50,
              "memory_limit": 9000.0, "resume": False}
    assert {name: seen[name] for name in wanted} == wanted


def test_checkpoint_and_resume(tmp_path, capsys):
    model, saved = write_hard(tmp_path, 12), str(tmp_path / "search.json")
    assert main([model, "--nodes", "5", "--checkpoint", saved, "--quiet"]) == 1
    capsys.readouterr()
    assert main([model, "--checkpoint", saved, "--resume", "--json", "--quiet"]) == 0
    resumed = json.loads(capsys.readouterr().out)
    assert main([model, "--json", "--quiet"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert resumed["nodes"] > 5
    assert resumed["objective"] == pytest.approx(whole["objective"], rel=1e-4)


def test_plot(tmp_path, capsys):
    picture = tmp_path / "gap.svg"
    assert main([write(tmp_path), "--plot", str(picture), "--quiet"]) == 0
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gap", "-1"], "gap must be"),
        (["--workers", "0"], "workers must be"),
        (["--time-limit", "0"], "time_limit must be > 0"),
        (["--resume"], "needs checkpoint"),
        (["--solution", "x.txt"], "must end in .json or .csv"),
        (["--solution", "no/such/place/x.json"], "no such directory"),
        (["--plot", "x.doc"], "must end in one of"),
    ],
)
def test_bad_values(tmp_path, capsys, arguments, message):
    assert main([write(tmp_path), "--quiet", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_bad_usage(tmp_path, capsys):
    for arguments in ([], [write(tmp_path), "--selection", "worst"], ["a.mps", "--nodes", "x"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_foreign_checkpoint_is_refused(tmp_path, capsys):
    saved = tmp_path / "search.json"
    saved.write_text("{}")
    assert main([write(tmp_path), "--checkpoint", str(saved), "--resume", "--quiet"]) == 2
    assert "not a whole checkpoint" in capsys.readouterr().err


def test_never_a_traceback(tmp_path, capsys, monkeypatch):
    def broken(problem, **options):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("bnb.__main__.solve", broken)
    assert main([write(tmp_path), "--quiet"]) == 4
    assert "internal error, ZeroDivisionError: oops" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        main([write(tmp_path), "--quiet", "--debug"])
