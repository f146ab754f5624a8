"""The benchmark harness: formulations against enumeration, arithmetic by hand, and the command."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from test_csvm_search import enumerate_node
from test_formulation import instance

import bnb
from benchmarks import __main__ as command
from benchmarks import (
    ablation,
    defaults,
    families,
    groups,
    guarantees,
    measures,
    report,
    runner,
)
from benchmarks.formulations import CSVM_FORMULATIONS, Arrays, attained, tight_constants
from benchmarks.peers import PEERS, PeerError, TooLargeError, answer
from csvm.datasets import DatasetError
from csvm.search import CSVMProblem, Instance
from csvm.store import Store, StoreError

ROOT = Path(bnb.__file__).parents[1]

needs_scip = pytest.mark.skipif(not PEERS["SCIP"].installed, reason="pyscipopt is not installed")


def tiny(seed, rates=1):
    return Arrays(*instance(seed, rates))


def tiny_instance(data):
    return families.Benchmark(
        "tiny", "tiny", families.digest(*data), data.problem,
        {name: lambda b=build: b(data) for name, build in CSVM_FORMULATIONS.items()},
        {"branching": "first"},
    )


# -- other searches ---------------------------------------------------------------------------


@pytest.mark.parametrize("settings, context", [part[1:] for part in ablation.PARTS],
                         ids=[part[0] for part in ablation.PARTS])
def test_every_search_of_the_ablation_has_the_enumerated_optimum(settings, context):
    for seed, rates in ((0, 1), (1, 2)):
        data = tiny(seed, rates)
        with context():
            problem = CSVMProblem(Instance(*data), settings=settings)
            found = bnb.solve(problem, branching="first", time_limit=60)
        assert found.optimal
        assert found.objective == pytest.approx(enumerate_node(data.problem().instance), rel=2e-4)


# -- formulations -----------------------------------------------------------------------------


@needs_scip
@pytest.mark.parametrize("seed, rates", [(0, 1), (1, 2)])
def test_all_formulations_have_the_enumerated_optimum(seed, rates):
    data = tiny(seed, rates)
    best = enumerate_node(data.problem().instance)
    todo = runner.jobs([tiny_instance(data)], [runner.OURS, "SCIP"], 20.0)
    assert {job.formulation for job in todo} == {"own", *CSVM_FORMULATIONS}
    rows = [job.row() for job in todo]
    for row in rows:
        assert row.solved, row
        assert row.objective == pytest.approx(best, rel=2e-4)
        assert row.violation <= runner.FEASIBLE
        assert row.bound <= best * (1 + 1e-6)
    assert runner.cross_check(rows) == []


@pytest.mark.parametrize("seed", range(12))
def test_constants_hold_in_every_classifier_below_the_level(seed):
    """Classifiers that try to break margin j as much as the level allows, by cvxpy."""
    import cvxpy as cp

    from csvm import formulation

    data = tiny(seed)
    level = 1.05 * attained(data)
    constants = tight_constants(data, level)
    L, first = formulation.factor(data.K), len(data.cost)
    w, beta, xi = cp.Variable(L.shape[1]), cp.Variable(), cp.Variable(first, nonneg=True)
    margin = cp.multiply(data.y, L @ w + beta)
    inside = [margin[:first] >= 1 - xi, cp.sum_squares(w) + data.cost @ xi <= level]
    for j in (0, 3, 5):
        worst = cp.Problem(cp.Maximize(1 - margin[first + j]), inside)
        worst.solve(solver=cp.CLARABEL)
        assert constants[j] >= worst.value - 1e-6
        assert constants[j] <= worst.value + 0.01  # and hardly more than needed


def test_a_point_of_each_formulation_is_the_classifier_it_stands_for():
    data = tiny(3)
    problem = data.problem()
    rng = np.random.default_rng(0)
    for build in CSVM_FORMULATIONS.values():
        model, point = build(data)
        x = rng.normal(size=len(model.q))
        solution = point(x)
        n, first = len(data.y), len(data.cost)
        f = 0.5 * data.K @ solution[:n] + solution[n]
        slack = np.maximum(0.0, 1.0 - data.y[:first] * f[:first])
        x[-n : -n + first] = slack
        by_model = 0.5 * x @ (model.P @ x) + model.q @ x + model.constant
        assert problem.check(solution)[0] == pytest.approx(by_model, rel=1e-6)


# -- instances --------------------------------------------------------------------------------


def test_digests_are_stable():
    assert families.digest("a", [1.0, 2.5], -0.0).startswith("f824c8d14070")
    once = next(iter(families.quick())).digest
    assert once == next(iter(families.quick())).digest
    assert families.digest([1.0 + 1e-12]) == families.digest([1.0])
    assert families.digest([1.0 + 1e-7]) != families.digest([1.0])
    assert families.digest([1.0, 2.0]) != families.digest([[1.0, 2.0]])


def test_quick_instances_differ():
    assert len({i.digest for i in families.quick()}) == len(list(families.quick()))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_best_subset_equals_enumeration(k):
    from itertools import combinations

    X, y = load_diabetes(return_X_y=True)
    best = min(
        np.linalg.lstsq(X[:, list(c)], y - y.mean())[1][0] for c in combinations(range(10), k)
    )
    result = bnb.solve(families.subset_problem(X, y, k))
    assert result.optimal and result.objective == pytest.approx(best, rel=1e-4)


# -- arithmetic -------------------------------------------------------------------------------


def test_shifted_mean():
    assert measures.shifted_mean([0.0, 30.0], 10.0) == pytest.approx(10.0)  # sqrt(10 * 40) - 10
    assert measures.shifted_mean([5.0], 1.0) == pytest.approx(5.0)
    assert np.isnan(measures.shifted_mean([], 1.0))


def test_gap():
    assert measures.relative_gap(10.0, 9.0) == pytest.approx(0.1)
    assert measures.relative_gap(np.inf, 1.0) == measures.relative_gap(1.0, -1.0) == 1.0
    assert measures.relative_gap(-9.0, -10.0) == pytest.approx(0.1)
    assert measures.relative_gap(0.0, 0.0) == 0.0


def test_primal_dual_integral():
    trace = [(1.0, 10.0, 5.0), (3.0, 8.0, 6.0)]
    # 1 s at 1, 2 s at 0.5, 1 s at 0.25, then closed.
    assert measures.primal_dual_integral(trace, 4.0, 0.0, 10.0) == pytest.approx(2.25)
    assert measures.primal_dual_integral(trace, 4.0, 0.25, 10.0) == pytest.approx(3.75)
    assert measures.primal_dual_integral([], 4.0, 0.0, 10.0) == pytest.approx(4.0)
    assert measures.primal_dual_integral([], 12.0, 0.5, 10.0) == pytest.approx(10.0)


def test_profile():
    shares = measures.profile(
        {"a": [1.0, 2.0, np.inf, np.inf], "b": [2.0, 1.0, 5.0, np.inf]}, [1.0, 2.0, 100.0]
    )
    assert shares["a"].tolist() == [0.25, 0.5, 0.5]
    assert shares["b"].tolist() == [0.5, 0.75, 0.75]
    # What a licence refused counts neither way.
    shares = measures.profile({"a": [1.0, np.nan], "b": [2.0, 3.0]}, [1.0, 2.0])
    assert shares["a"].tolist() == [1.0, 1.0] and shares["b"].tolist() == [0.5, 1.0]


def outcome(**changes):
    row = runner.Row(
        "f", "problem", "d" * 64, "SCIP", "1", "primal", 10, 5, 60.0, "optimal", 1.0, 0.0, 1.0,
        0.0, 20.0, 2.0, 1.0, True,
    )
    return replace(row, **changes)


def test_two_optima_that_differ_are_named():
    rows = [outcome(), outcome(solver="CPLEX", objective=1.01, bound=1.0)]
    (text,) = runner.cross_check(rows)
    assert "SCIP (primal)" in text and "CPLEX (primal)" in text and "problem" in text
    assert runner.cross_check([outcome(), outcome(solver="CPLEX", objective=1.00009)]) == []


def test_a_bound_above_a_solution_is_a_contradiction():
    rows = [outcome(), outcome(solver="CPLEX", status="limit", objective=np.inf, bound=1.2)]
    (text,) = runner.cross_check(rows)
    assert "bound of CPLEX" in text
    # A point that violates its rows proves nothing.
    rows = [outcome(violation=0.1, status=runner.INACCURATE), outcome(solver="CPLEX", bound=1.2,
                                                                      objective=1.2)]
    assert runner.cross_check(rows) == []


def test_a_peer_is_credited_with_its_best_formulation():
    rows = [
        outcome(status="limit", gap=0.3, seconds=60.0),
        outcome(formulation="tight", seconds=3.0, nodes=5.0),
        outcome(formulation="kernel", seconds=1.0, nodes=50.0),
        outcome(solver="CPLEX", seconds=2.0),
        outcome(solver="COPT", seconds=0.5, nodes=70.0),
    ]
    (mine,) = report.credited(rows).values()
    assert mine["SCIP"].formulation == "kernel"
    assert mine[report.BEST].solver == "COPT"
    (mine,) = report.credited(rows, "nodes").values()
    assert mine["SCIP"].formulation == "tight"


def test_the_report_names_the_versions_that_ran():
    rows = [outcome(solver=runner.OURS, version=v, load=1.0) for v in ("old", "new")]
    assert "- solvers: csvm old, csvm new" in report.machine(rows)


# -- runs -------------------------------------------------------------------------------------


class Wrong:
    """A peer that claims any point is optimal."""

    def __init__(self, x):
        self.x = x

    def __call__(self, peer, model, limit, gap):
        return answer.Answer("optimal", self.x(model), 1.0, 1.0, 0.1)


def test_a_point_that_violates_its_rows_is_not_believed(monkeypatch):
    monkeypatch.setattr(runner, "ask", Wrong(lambda model: np.zeros(len(model.q))))
    row = runner.Job(tiny_instance(tiny(1)), "SCIP", "primal", 1.0).row()
    assert row.status == runner.INACCURATE and not row.solved


@pytest.mark.parametrize("error, status", [
    (TooLargeError("limit 200"), runner.TOO_LARGE), (PeerError("boom"), "failed: boom"),
])
def test_refusals_and_crashes_are_rows_and_are_tried_again(monkeypatch, tmp_path, error, status):
    calls = []

    def refuse(*_):
        calls.append(1)
        raise error

    monkeypatch.setattr(runner, "ask", refuse)
    monkeypatch.setattr(runner, "warm_up", lambda: None)
    todo = [runner.Job(tiny_instance(tiny(1)), "SCIP", "primal", 1.0)]
    for _ in range(2):
        (row,) = runner.run(todo, tmp_path / "r.jsonl")
        assert row.status == status and not row.taken
    assert len(calls) == 2
    assert len(runner.rows_of(tmp_path / "r.jsonl")) == 1


def test_finished_rows_are_not_run_again(monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "warm_up", lambda: None)
    todo = runner.jobs([tiny_instance(tiny(1))], [runner.OURS], 5.0)
    first = runner.run(todo, tmp_path / "r.jsonl")
    monkeypatch.setattr(runner.Job, "run", lambda self: pytest.fail("ran again"))
    again = runner.run(todo, tmp_path / "r.jsonl")
    assert again == first
    (row,) = again
    assert row.solved and row.trajectory and row.integral < 5.0 and row.load >= 0.0
    other = runner.jobs([tiny_instance(tiny(1))], [runner.OURS], 6.0)
    with pytest.raises(pytest.fail.Exception):  # another limit is another run
        runner.run(other, tmp_path / "r.jsonl")


def test_a_file_of_another_version_is_refused(tmp_path):
    with Store(tmp_path / "r.jsonl") as store:
        store.add("key", {}, {"row": {"family": "f"}, "seconds": 1.0})
    with pytest.raises(StoreError, match="other columns"):
        runner.rows_of(tmp_path / "r.jsonl")


@needs_scip
def test_a_worker_that_crashes_is_reported():
    from benchmarks.peers import ask

    model, _ = CSVM_FORMULATIONS["primal"](tiny(1))
    with pytest.raises(PeerError, match="ModuleNotFoundError"):
        ask(replace(PEERS["SCIP"], module="nobody"), model, 1.0, 1e-4)


# -- the command ------------------------------------------------------------------------------


def test_help_as_a_person_types_it():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"], cwd=ROOT, capture_output=True, text=True,
        check=True,
    )
    for word in ("--quick", "--full", "--report", "--families", "--solvers", "--limit", "--out"):
        assert word in done.stdout


@pytest.mark.parametrize("arguments", [
    [], ["--quick", "--full"], ["--quick", "--families", "paper"], ["--report", "--limit", "5"],
    ["--full", "--solvers", "Cplex"],
    ["--quick", "--limit", "0"],
])
def test_wrong_words_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as refusal:
        command.main(arguments)
    assert refusal.value.code == 2
    assert "usage" in capsys.readouterr().err


@pytest.fixture
def small_run(monkeypatch, tmp_path):
    """`--quick` on one tiny problem, without the measured parts."""
    monkeypatch.setattr(command, "quick", lambda: iter([tiny_instance(tiny(1))]))
    monkeypatch.setattr(command, "measure", lambda *, quick: iter(
        [command.Figure("scaling", "anchors", s, s, "s") for s in (1, 2)]
    ))
    monkeypatch.setattr(command, "warm_up", lambda: None)
    monkeypatch.setattr(runner, "warm_up", lambda: None)
    return lambda *more: command.main(["--quick", "--out", str(tmp_path / "out"), *more])


def test_a_run_writes_tables_and_pictures(small_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(PEERS, "SCIP", replace(PEERS["SCIP"], packages=("no-such-package",)))
    assert small_run("--solvers", "csvm", "SCIP") == 0
    assert "not installed, left out: SCIP" in capsys.readouterr().out
    text = (tmp_path / "out" / "summary.md").read_text()
    assert "SCIP (not installed)" in text
    assert tiny_instance(tiny(1)).digest[:12] in text
    for name in ("nodes", "profiles", "scaling"):
        for ending in ("svg", "png"):
            assert (tmp_path / "out" / f"{name}.{ending}").stat().st_size > 1000


def test_the_report_of_stored_rows_is_the_same(small_run, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    assert command.main(["--report", "--out", str(out)]) == 1
    assert "no rows in" in capsys.readouterr().err
    assert small_run("--solvers", "csvm") == 0
    text = (out / "summary.md").read_text()
    (out / "summary.md").unlink()
    monkeypatch.setattr(command, "run", lambda *_: pytest.fail("it must not run anything"))
    assert command.main(["--report", "--out", str(out)]) == 0
    assert (out / "summary.md").read_text() == text


def test_without_any_solver_there_is_nothing_to_do(small_run, monkeypatch, capsys):
    monkeypatch.setitem(PEERS, "SCIP", replace(PEERS["SCIP"], packages=("no-such-package",)))
    assert small_run("--solvers", "SCIP") == 0
    assert "nothing to run" in capsys.readouterr().out


def test_a_stopped_run_says_how_to_go_on(small_run, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", interrupted)
    assert small_run("--solvers", "csvm") == 130
    assert "goes on from here" in capsys.readouterr().out


def test_a_contradiction_fails_the_run(small_run, monkeypatch, capsys):
    def lie(peer, model, limit, gap):
        worse = tiny(1).problem()
        x = np.zeros(len(model.q))
        x[-len(worse.instance.p) + 1 :] = 1.0
        x[len(model.q) - worse.instance.n - 1] = 1.0  # w = 0, beta = 1: feasible, far from optimal
        return answer.Answer("optimal", x, 0.0, 1.0, 0.1)

    monkeypatch.setattr(runner, "ask", lie)
    assert small_run("--solvers", "csvm", "SCIP") == 1
    message = capsys.readouterr().err
    assert "csvm (own) and SCIP (primal) both claim optimality and differ" in message


def test_what_the_defaults_keep(capsys):
    """The promise of the page: CSVM() is no constant classifier."""
    defaults.run("as it comes", ["wisconsin"], 2, {})
    row = capsys.readouterr().out.splitlines()[-1].split("|")
    assert row[1].strip() == "mean" and float(row[2]) >= 0.9 and float(row[3]) >= 0.7


def test_groups_of_german_and_a_threshold_that_has_their_rates():
    try:
        split = groups.make_split("age", 0)
    except DatasetError:
        pytest.skip("german is not here")
    assert set(split.groups) == {"young", "older"} and len(split.y_new) == 300
    said, _ = groups.one_threshold(split)
    found = groups.measure(split, said)
    of = (split.groups_new == "young") & (split.y_new > 0)
    assert found[1] == pytest.approx(np.mean(said[of] == 1))
    assert found[5] == float(min(found[:2]) >= 0.65)


def test_guarantees_are_kept_draw_by_draw(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(guarantees, "TEST", 2000)
    line = ["guarantees", "--draws", "1", "--sources", "500", "--questions", "two groups",
            "--out", str(tmp_path / "rows.jsonl")]
    monkeypatch.setattr(sys, "argv", line)
    assert guarantees.main() == 0
    first = capsys.readouterr()
    assert "500 two groups 0" in first.err and "| GuaranteedClassifier | 1 |" in first.out
    assert guarantees.main() == 0  # from the file
    again = capsys.readouterr()
    assert again.out == first.out and again.err == ""


def test_the_corrected_umbrella_by_hand():
    back = guarantees.Sample(
        np.zeros((200, 1)), np.repeat([0, 1], 100), np.repeat([False, True], 100), None
    )
    found = np.append(np.arange(100) - 60.0, np.arange(100))  # negatives, positives
    asked = guarantees.parse_constraints(["tpr>=0.75", "tnr>=0.75"])
    threshold, claims = guarantees.corrected_umbrella(asked, back, found)
    # At level 0.025, 84 of 100 prove 0.75: positives from 16 on, negatives up to 83 - 60.
    assert not claims and threshold == pytest.approx((16 + 23) / 2)
    threshold, claims = guarantees.corrected_umbrella(asked, back, found + 20 * back.positive)
    assert claims and 23 <= threshold < 36
