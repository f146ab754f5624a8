"""The machine that looks for wrong answers finds those that are planted."""

import json
import sys

import numpy as np
import pytest

import bnb
from benchmarks.fuzz import __main__ as command
from benchmarks.fuzz.cases import KINDS, Case, make_case
from benchmarks.fuzz.judge import Claim, Truth, judge
from benchmarks.fuzz.quadratic import Quadratic
from bnb import Reason, Status


def box_problem():
    """Minimise (x - 1.4)² over the integers -5..5: x = 1, objective -0.9 without the constant."""
    return Case("miqp", "by-hand", {
        "P": [[1.0]], "q": [-1.4], "A": [], "l": [], "u": [], "lb": [-5.0], "ub": [5.0],
        "integer": [0], "binary": [], "constant": 0.0, "near": [0.0], "planted": True,
        "bounded": True, "ray": None, "scip": False, "options": {},
    })


def test_a_right_answer_is_right():
    verdict = box_problem().run()
    assert (verdict.outcome, verdict.faults) == ("optimal", [])


def presolve_only(self, goal):
    self._presolve(goal.patience)


def lying_bound(monkeypatch):
    real = bnb.MIQP.evaluate

    def evaluate(self, state, goal):
        found = real(self, state, goal)
        found.bound += 0.5
        return found

    monkeypatch.setattr(bnb.MIQP, "evaluate", evaluate)
    monkeypatch.setattr(bnb.MIQP, "prepare", presolve_only)


def swapped_objective(monkeypatch):
    real = bnb.MIQP.__init__

    def init(self, P, q, *rest, **options):
        real(self, P, -np.asarray(q, float), *rest, **options)

    monkeypatch.setattr(bnb.MIQP, "__init__", init)


def careless_check(monkeypatch):
    monkeypatch.setattr(
        bnb.MIQP, "check",
        lambda self, x: (0.5 * float(x @ (self.P @ x)) + float(self.q @ x), 0.0),
    )
    monkeypatch.setattr(bnb.MIQP, "snap", lambda self, x, lb, ub: x + 0.4)
    monkeypatch.setattr(
        bnb.MIQP, "prepare",
        lambda self, goal: presolve_only(self, goal) or bnb.Evaluation(-9.0, [("H", [1.4])]),
    )


def early_infeasible(monkeypatch):
    monkeypatch.setattr(bnb.MIQP, "prepare", lambda self, goal: bnb.Evaluation(np.inf))


def says_unbounded(monkeypatch):
    def prepare(self, goal):
        raise bnb.UnboundedError

    monkeypatch.setattr(bnb.MIQP, "prepare", prepare)


def chatter(monkeypatch):
    real = bnb.MIQP.prepare

    def prepare(self, goal):
        print("hello")
        return real(self, goal)

    monkeypatch.setattr(bnb.MIQP, "prepare", prepare)


def crash(monkeypatch):
    def prepare(self, goal):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(bnb.MIQP, "prepare", prepare)


@pytest.mark.parametrize("plant, said", [
    (lying_bound, "bound"),
    (swapped_objective, "is said of x"),
    (careless_check, "violates"),
    (early_infeasible, "infeasible is said"),
    (says_unbounded, "unbounded is said"),
    (chatter, "printed: 'hello'"),
    (crash, "ZeroDivisionError"),
])
def test_planted_errors_are_found_and_replayed(plant, said, monkeypatch, tmp_path, capsys):
    with monkeypatch.context() as patch:
        plant(patch)
        verdict = box_problem().run()
        assert any(said in fault for fault in verdict.faults), verdict
        path = box_problem().save(tmp_path, verdict.faults)
        assert command.main(["--replay", str(path)]) == 1
        assert said in capsys.readouterr().out
    assert command.main(["--replay", str(path)]) == 0  # mended


def test_a_search_ends_at_a_wrong_claim_and_leaves_it_on_the_disk(monkeypatch, tmp_path, capsys):
    early_infeasible(monkeypatch)
    arguments = ["--kind", "miqp", "--problems", "20", "--seed", "3", "--out", str(tmp_path)]
    assert command.main(arguments) == 1
    (path,) = tmp_path.glob("*.json")
    assert f"--replay {path}" in capsys.readouterr().out
    stored = json.loads(path.read_text())
    assert stored["faults"] == Case.load(path).run().faults
    assert command.main([*arguments, "--keep-going"]) == 1
    assert len(list(tmp_path.glob("*.json"))) > 1


def test_counts_of_a_short_run(tmp_path, capsys):
    kinds = ["miqp", "support", "indicator", "csvm"]
    command.main([
        "--kind", *kinds, "--problems", "20", "--seconds", "600", "--out", str(tmp_path),
        "--keep-going",
    ])
    text = capsys.readouterr().out
    table = text[text.rindex("kind "):].splitlines()[1:5]
    assert [line.split()[:2] for line in table] == [[kind, "5"] for kind in sorted(kinds)]
    for line in table:
        assert sum(int(word.strip(",")) for word in line.split()[4:] if word[0].isdigit()) == 5
    assert "20 problems in" in text
    assert not list((tmp_path / "running").iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_a_problem_depends_on_seed_kind_and_number_alone(kind):
    first = make_case(kind, 1, 5)
    make_case(kind, 1, 4)
    assert make_case(kind, 1, 5) == first
    assert make_case(kind, 2, 5) != first
    assert make_case(kind, 1, 6) != first


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("kill", "refusal")])
def test_stored_problems_are_the_same_problems(kind, tmp_path):
    case = make_case(kind, 1, 2)
    assert Case.load(case.save(tmp_path, [])) == case


def test_resumed_searches_are_compared(monkeypatch):
    """A resume that forgets the open nodes is found."""
    real = bnb.checkpoint.read

    def forget(path, fingerprint):
        return {**real(path, fingerprint), "open": [], "settled": 1e9, "x": None}

    found = []
    with monkeypatch.context() as patch:
        patch.setattr(bnb.checkpoint, "read", forget)
        for index in range(8):
            found += make_case("resume", 0, index).run().faults
    assert any("resumed" in fault for fault in found)


def claim(status, objective=1.0, bound=1.0, x=(1.0,)):
    point = None if x is None else np.array(x)
    return Claim(status, Reason.GAP, objective, bound, point, (1,), 0.0, objective, 1.0, 0.0)


@pytest.mark.parametrize("said, truth, right", [
    (claim(Status.OPTIMAL), Truth(1.0), True),
    (claim(Status.OPTIMAL, 1.00009), Truth(1.0), True),
    (claim(Status.OPTIMAL, 1.0002), Truth(1.0), False),
    (claim(Status.OPTIMAL), Truth(1.0, unbounded=True), False),
    (claim(Status.FEASIBLE, 5.0, 1.0), Truth(1.0), True),
    (claim(Status.FEASIBLE, 5.0, 1.0001), Truth(1.0), False),
    (claim(Status.INFEASIBLE, np.inf, np.inf, None), Truth(1.0), False),
    (claim(Status.INFEASIBLE, np.inf, np.inf, None), Truth(), True),
    (claim(Status.UNBOUNDED, np.inf, -np.inf, None), Truth(1.0, bounded=True), False),
    (claim(Status.UNBOUNDED, np.inf, -np.inf, None), Truth(infeasible=True), False),
    (claim(Status.UNBOUNDED, np.inf, -np.inf, None), Truth(1.0, unbounded=True), True),
    (claim(Status.NO_SOLUTION, np.inf, -np.inf, None), Truth(1.0), True),
    (claim(Status.NO_SOLUTION, np.inf, 2.0, None), Truth(1.0), False),
    (claim(Status.INVALID, 1.0, 1.0), Truth(1.0), False),
    (claim(Status.OPTIMAL, x=(1.0, 2.0)), Truth(1.0), False),
    (claim(Status.FEASIBLE, 1.0, 1.1), Truth(), False),
])
def test_verdicts(said, truth, right):
    assert (judge(said, truth, {}).faults == []) is right


def test_killed_searches_go_on(monkeypatch):
    case = make_case("kill", 0, 0)
    assert case.run().faults == []
    monkeypatch.setattr(sys, "executable", "/bin/false")  # then there is nothing to kill
    assert any("was to be killed" in fault for fault in case.run().faults)


def test_violations_are_judged_up_to_the_rounding_of_their_terms():
    qp = Quadratic.of({"q": [0.0, 0.0], "A": [[1.0, 1.0]], "u": [1.0]})
    assert qp.violation(np.array([1e10, -1e10 + 1.0 + 2e-6])) == 0.0  # 1e10 + 1 is right to 2e-6
    assert qp.violation(np.array([2.0, -1.0 + 2e-6])) == pytest.approx(2e-6)
    assert qp.violation(np.array([1e10, -1e10 + 1.1])) == pytest.approx(0.1, rel=1e-3)
