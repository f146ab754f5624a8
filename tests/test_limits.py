"""Limits are kept, interruptions answered and damage reported, whatever a problem is doing."""

import ctypes
import json
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification
from test_engine import Blind, Toy, hard_miqp

import bnb
import csvm
from bnb import CheckpointWarning, OutOfTimeError, Reason, Status
from bnb.__main__ import main
from bnb.memory import resident_mib
from csvm.search import CSVMProblem, Instance, compiled
from relaxations.patience import Patience

ROOT = Path(__file__).parents[1]
SLACK = 1.5
"""Seconds over a limit that a loaded machine is forgiven; the cases below took 5 or more."""


# -- the clock ------------------------------------------------------------------------------


def definite(n, seed=0):
    F = np.random.default_rng(seed).normal(size=(n, n))
    return F @ F.T / n + 0.01 * np.eye(n)


def support(n):
    """Without bounds, so that curvature has to be found for the certificate."""
    return bnb.SupportQP(definite(n), np.random.default_rng(1).normal(size=n), n // 12)


def many_rows(n, m):
    rng = np.random.default_rng(2)
    A = rng.normal(size=(m, n))
    return bnb.MIQP(definite(n), rng.normal(size=n), A, None, 0.1 * np.abs(A).sum(axis=1),
                    integer=range(n), lb=-5, ub=5)


def binaries(n):
    """Annealing and convexification, both long."""
    q = 10 * np.random.default_rng(3).normal(size=n)
    return bnb.MIQP(definite(n), q, np.ones((1, n)), [n // 4], [n // 4], binary=range(n))


PROBLEMS = {
    "support": lambda: support(700),
    "rows": lambda: many_rows(600, 3000),
    "dense": lambda: bnb.MIQP(definite(1600), np.ones(1600), integer=range(1600), lb=-5, ub=5),
    "binaries": lambda: binaries(400),
}


def warm_up():
    """Compile everything: no limit can be kept while numba compiles."""
    for problem in (support(12), many_rows(8, 20), binaries(12)):
        bnb.solve(problem, node_limit=5)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_time_limit(name):
    warm_up()
    problem = PROBLEMS[name]()
    begin = time.monotonic()
    result = bnb.solve(problem, time_limit=1.0)
    assert time.monotonic() - begin < 1.0 + SLACK
    assert result.reason is Reason.TIME


def two_rates(n):
    X, y = make_classification(n, 20, weights=[0.8], flip_y=0.05, random_state=0)
    return X, y


@pytest.mark.slow
@pytest.mark.parametrize("n, options", [
    (3000, dict(constraints=["tpr>=0.8", "tnr>=0.7"])),
    (1500, dict(constraints=["tpr>=0.8"], kernel="linear", node_solver="osqp", n_jobs=2)),
])
def test_time_limit_of_an_estimator(n, options):
    X, y = two_rates(120)
    model = csvm.CSVM(C=10, time_limit=2.0, random_state=0, **options)
    model.set_params(constraints=["tpr>=0.6"]).fit(X, y)
    model.set_params(constraints=options["constraints"])
    X, y = two_rates(n)
    begin = time.monotonic()
    model.fit(X, y)
    assert time.monotonic() - begin < 2.0 + SLACK + 1.0  # and the kernel matrix


INTERRUPTED = """
import os, sys, threading, time
sys.path.insert(0, {tests!r})
import test_limits as t
t.warm_up()
problem = t.PROBLEMS[{name!r}]()
print("ready", flush=True)
result = t.bnb.solve(problem, time_limit=60)
print(result.reason.name, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals")
@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_interrupts_are_answered(name):
    script = INTERRUPTED.format(tests=str(Path(__file__).parent), name=name)
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[1], stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    lines = [process.stdout.readline()]
    if lines[0] == "Solver interrupted\n":  # OSQP's own words
        lines.append(process.stdout.readline())
    assert lines[-1] == "INTERRUPT\n"
    assert time.monotonic() - begin < 1.0 + SLACK
    process.wait()


def test_long_calls_are_left_behind():
    with pytest.raises(OutOfTimeError):
        Patience(time.monotonic() + 0.2).run(lambda: time.sleep(1.0), 1e9)
    stop = time.monotonic() + 0.2
    with pytest.raises(OutOfTimeError):
        Patience(interrupted=lambda: time.monotonic() > stop).run(lambda: time.sleep(1.0), 1e9)
    with pytest.raises(OutOfTimeError):  # cannot be done in time: not even begun
        Patience(time.monotonic() + 1.0).run(pytest.fail, 1e13)
    with pytest.raises(ZeroDivisionError):
        Patience().run(lambda: 1 / 0, 1e9)
    assert Patience().run(lambda: 7, 1e9) == 7


def test_a_node_out_of_time_stays_open(two_workers):
    class Long(Blind):
        def evaluate(self, state, goal):
            if state:
                raise OutOfTimeError
            return super().evaluate(state, goal)

    for more in ({}, two_workers):
        result = bnb.solve(Long(3), branching="first", **more)
        assert (result.reason, result.open) == (Reason.TIME, 2)
        assert (result.status, result.bound) == (Status.NO_SOLUTION, -1e9)


def test_probes_end_with_the_time_limit():
    class Slow(Blind):
        def evaluate(self, state, goal):
            time.sleep(0.1 if state else 0.0)
            found = super().evaluate(state, goal)
            found.candidates = [bnb.Candidate(k) for k in range(8)] if found.candidates else []
            return found

    begin = time.monotonic()
    result = bnb.solve(Slow(4), time_limit=0.3)
    assert result.reason is Reason.TIME and result.open == 1
    assert time.monotonic() - begin < 0.8  # 16 probes are 1.6 s


# -- memory and systems ---------------------------------------------------------------------


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"),
    reason="not the GNU C library",
)
def test_workers_keep_freed_memory_where_dask_would_have_it_given_back():
    code = ("import resource, sys, numpy as np\n"
            "from bnb.memory import keep_freed\n"
            "if sys.argv[1] == 'keep': keep_freed()\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
            "for _ in range(200): np.ones(100_000)\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)")
    faults = {
        what: int(subprocess.run(
            [sys.executable, "-c", code, what], capture_output=True, text=True, check=True,
            env={**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}, cwd=ROOT,
        ).stdout) for what in ("keep", "not")
    }
    assert 10 * faults["keep"] < faults["not"]


def test_memory_limit_is_about_what_is_resident_now():
    before = resident_mib()
    ballast = np.ones(60 * 2**20)  # 480 MiB, and gone
    assert resident_mib() > before + 400
    del ballast
    assert bnb.solve(Blind(4), memory_limit=before + 300, branching="first").optimal
    assert bnb.solve(Blind(10), memory_limit=1.0).reason is Reason.MEMORY


def test_memory_limit_is_refused_where_memory_is_unknown(monkeypatch):
    monkeypatch.setattr("bnb.memory.resident_mib", lambda: None)
    with pytest.raises(ValueError, match="memory_limit"):
        bnb.solve(Toy(), memory_limit=100.0)
    assert bnb.solve(Toy()).optimal


def test_nothing_is_needed_that_only_some_systems_have():
    missing = "for name in ('resource', 'fcntl'): sys.modules[name] = None"
    script = (
        f"import sys\n{missing}\nimport numpy as np, bnb, csvm.__main__, csvm.store\n"
        "problem = bnb.MIQP(np.eye(2), [-1.4, -0.4], integer=[0, 1], lb=-5, ub=5)\n"
        "assert bnb.solve(problem, workers=2, memory_limit=1e6).x.tolist() == [1, 0]\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[1], capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


# -- options --------------------------------------------------------------------------------


@pytest.mark.parametrize("option, value", [
    ("verbose", "junk"), ("verbose", 3), ("seed", "x"), ("seed", -1), ("seed", 0.5),
    ("node_limit", True), ("node_limit", 2.5), ("on_node", 3), ("on_incumbent", "stop"),
    ("log_stream", "log.txt"), ("checkpoint", 3), ("checkpoint", "."), ("start", "abc"),
])
def test_bad_options(option, value):
    with pytest.raises(ValueError, match=option):
        bnb.solve(Toy(), **{option: value})


def test_numpy_integers_are_integers():
    result = bnb.solve(Blind(6), node_limit=np.int64(5), workers=np.int64(2), seed=np.int32(1))
    assert result.reason is Reason.NODES


@pytest.mark.parametrize("problem", [None, 3, Toy])
def test_not_a_problem(problem):
    with pytest.raises(TypeError, match=r"problem must be a bnb\.Problem"):
        bnb.solve(problem)


def csvm_problem():
    X, y = make_classification(40, 3, n_informative=3, n_redundant=0, flip_y=0.2, random_state=0)
    weights, required = np.ones((1, 20)), np.array([15.0])
    return CSVMProblem(Instance(X @ X.T, 2.0 * y - 1.0, np.ones(20), weights, required))


@pytest.mark.parametrize("make, shape", [
    (lambda: bnb.MIQP(np.eye(2), np.ones(2), binary=[0]), r"\(2,\)"), (csvm_problem, r"\(41,\)"),
])
def test_start_of_a_wrong_shape(make, shape):
    with pytest.raises(ValueError, match=f"start: a solution must have shape {shape}"):
        bnb.solve(make(), start=np.zeros(7))


# -- checkpoints ----------------------------------------------------------------------------


def test_a_search_survives_a_checkpoint_that_cannot_be_written(tmp_path):
    place = tmp_path / "gone"
    place.mkdir()
    with pytest.warns(CheckpointWarning, match="could not be written"):
        result = bnb.solve(
            Blind(5), branching="first", checkpoint=place / "search.json",
            checkpoint_interval=1e-9, on_node=lambda p: place.rmdir() if p.nodes == 1 else None,
        )
    assert result.optimal


def test_a_killed_writer_leaves_one_file_that_is_written_over(tmp_path, monkeypatch):
    file = tmp_path / "search.json"
    for _ in range(2):
        with monkeypatch.context() as patch, pytest.raises(SystemExit):
            patch.setattr(os, "replace", lambda *_: sys.exit())
            patch.setattr(Path, "unlink", lambda *_, **__: None)
            bnb.solve(Toy(), checkpoint=file)
    assert [path.name for path in tmp_path.iterdir()] == ["search.json.tmp"]
    bnb.solve(Toy(), checkpoint=file)
    assert [path.name for path in tmp_path.iterdir()] == ["search.json"]


def edited(change):
    def damage(text):
        line, checksum = text.splitlines()
        data = json.loads(line)
        assert data["open"]
        change(data)
        return f"{json.dumps(data)}\n{checksum}\n"

    return damage


DAMAGE = {
    "no open nodes": edited(lambda data: data["open"].clear()),  # it would be a proof
    "a node less": edited(lambda data: data["open"].pop()),
    "a bound raised": edited(lambda data: data["open"][0].__setitem__(1, 1e9)),
    "a key less": edited(lambda data: data.pop("settled")),
    "a digit": lambda text: text.replace("1", "2", 1),
    "no checksum": lambda text: text.splitlines()[0],
    "cut short": lambda text: text[:100],
    "more": lambda text: text + "\n",
    "empty": lambda text: "",
    "something else": lambda text: '{"version": 1}\n',
    "no text": lambda text: "\0",
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    file = tmp_path_factory.mktemp("saved") / "search.json"
    bnb.solve(hard_miqp(), node_limit=20, checkpoint=file)
    return file.read_text()


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_checkpoints_are_refused(saved, tmp_path, damage):
    file = tmp_path / "search.json"
    text = DAMAGE[damage](saved)
    assert text != saved
    file.write_text(text)
    with pytest.raises(ValueError, match=r"resume: .*search\.json .*its checksum does not match"):
        bnb.solve(hard_miqp(), checkpoint=file, resume=True)
    assert file.read_text() == text


@pytest.mark.parametrize("answer, said", [
    ((0.0, 1.0), "x breaks the constraints by 1"), ((-1e9, 0.0), "bounds lie above the objective"),
])
def test_the_solution_of_a_checkpoint_is_checked_again(tmp_path, monkeypatch, answer, said):
    """Where the code has changed since, the checksum cannot tell."""
    file = tmp_path / "search.json"
    bnb.solve(Toy(), checkpoint=file)
    monkeypatch.setattr(Toy, "check", lambda self, x: answer)
    with pytest.raises(ValueError, match=rf"resume: .*search\.json does not fit .*{said}"):
        bnb.solve(Toy(), checkpoint=file, resume=True)


@pytest.mark.parametrize("name, value", [
    ("status", [2] * 20), ("status", [0] * 3), ("status", [0.5] * 20), ("t", [0.0]),
    ("t", [math.nan] * 42), ("u", [3.0] * 20), ("u", "x"), ("b_l", math.nan), ("b_l", "x"),
    ("age", -1), ("age", None),
])
def test_states_that_cannot_be_are_refused(name, value):
    problem = csvm_problem()
    data = problem.encode(problem.root())
    problem.decode(data)
    with pytest.raises((TypeError, ValueError)):
        problem.decode({**data, name: value})


def test_command_line_says_one_line(tmp_path, capsys):
    model, file = tmp_path / "model.lp", tmp_path / "search.json"
    model.write_text("minimize\n obj: - x [ ] / 2\nsubject to\n c: x <= 3.5\ngeneral\n x\nend\n"
                     .replace(" [ ] / 2", ""))
    assert main([str(model), "--quiet", "--checkpoint", str(file)]) == 0
    file.write_text(file.read_text().replace("1", "2", 1))
    capsys.readouterr()
    for extra in ([str(file)], [str(tmp_path)]):
        assert main([str(model), "--quiet", "--resume", "--checkpoint", *extra]) == 2
        err = capsys.readouterr().err
        assert err.startswith("bnb: error:") and err.count("\n") == 1


def test_command_line_goes_on_without_its_checkpoint(tmp_path, capsys, monkeypatch):
    model = tmp_path / "model.lp"
    model.write_text("minimize\n obj: - x\nsubject to\n c: x <= 3.5\ngeneral\n x\nend\n")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with warnings.catch_warnings():
        assert main([str(model), "--quiet", "--checkpoint", str(tmp_path / "s.json")]) == 0
    out, err = capsys.readouterr()
    assert "optimal" in out and err.startswith("bnb: warning: the checkpoint")
    assert err.count("\n") == 1 and [p.name for p in tmp_path.iterdir()] == ["model.lp"]


def test_an_interrupt_while_searches_are_compiled_is_not_lost(monkeypatch):
    """The search that compiles ends with a result, as any does: nobody wants that one."""
    solve = bnb.solve

    def interrupted(problem, **options):
        return solve(problem, **options, on_node=lambda _: os.kill(os.getpid(), signal.SIGINT))

    monkeypatch.setattr(bnb, "solve", interrupted)
    compiled.warm_up.cache_clear()
    with pytest.raises(KeyboardInterrupt):
        compiled.warm_up(False, True)
