"""The search itself, on toy problems whose trees are known by hand."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import bnb
from bnb import Candidate, Evaluation, Problem, Reason, Status


class Toy(Problem):
    """Minimise 10 + Σ b_i/2^i over bits b: a full binary tree, best at its leftmost leaf.

    A node is a list of chosen bits. Its bound is 10, or with `tight` its value, and always its
    value at leaves, so that node counts can be worked out by hand.
    """

    def __init__(self, depth=3, tight=False):
        self.depth, self.tight = depth, tight

    def root(self):
        return []

    def value(self, bits):
        return 10.0 + sum(b * 2.0**-i for i, b in enumerate(bits))

    def evaluate(self, state, goal):
        if len(state) == self.depth:
            return Evaluation(self.value(state), [("N", np.array(state, float))])
        bound = self.value(state) if self.tight else 10.0
        return Evaluation(bound, candidates=[Candidate(len(state))])

    def branch(self, state, evaluation, candidate):
        return [[*state, 0], [*state, 1]]

    def check(self, x):
        return (self.value(x), 0.0) if len(x) == self.depth else (np.inf, np.inf)


def test_depth_first_finds_the_first_leaf_and_stops():
    # With exact bounds the leftmost leaf is optimal: root and one node per level.
    result = bnb.solve(Toy(4, tight=True), selection="depth", branching="first")
    assert (result.status, result.nodes, result.objective) == (Status.OPTIMAL, 5, 10.0)


def test_a_bound_equal_to_the_incumbent_cuts_everything_off():
    result = bnb.solve(Toy(3), selection="depth", branching="first")
    assert (result.nodes, result.reason) == (4, Reason.GAP)


class Blind(Toy):
    """No bound at all before the leaves, and the best leaf is the last one."""

    def value(self, bits):
        return 100.0 - sum(b * 2.0 ** (self.depth - i) for i, b in enumerate(bits))

    def evaluate(self, state, goal):
        evaluation = super().evaluate(state, goal)
        if len(state) < self.depth:
            evaluation.bound = -1e9
        return evaluation


@pytest.mark.parametrize("selection", ["best", "depth", "hybrid"])
def test_without_bounds_every_node_is_visited(selection):
    depth = 4
    result = bnb.solve(Blind(depth), selection=selection, branching="first", gap=0.0)
    assert result.nodes == 2 ** (depth + 1) - 1
    assert result.objective == 100.0 - sum(2.0 ** (depth - i) for i in range(depth))
    assert result.status is Status.OPTIMAL


def test_runs_repeat_exactly():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(14, 14))
    P, q = F @ F.T, rng.normal(size=14)
    logs = []
    same = bnb.MIQP(P, 10 * q, integer=range(14), lb=-4, ub=4)
    for problem in (same, same, bnb.MIQP(P, 10 * q, integer=range(14), lb=-4, ub=4)):
        result = bnb.solve(problem, keep_tree=True)
        logs.append((result.nodes, result.probes, result.tree, result.objective))
    assert logs[0] == logs[1] == logs[2]
    assert logs[0][0] > 1


def test_limits_and_reasons():
    problem = Blind(10)
    result = bnb.solve(problem, node_limit=7, branching="first")
    assert (result.reason, result.nodes) == (Reason.NODES, 7)
    assert result.open > 0 and result.bound == -1e9
    assert bnb.solve(problem, time_limit=1e-9).reason is Reason.TIME
    assert bnb.solve(problem, memory_limit=1.0).reason is Reason.MEMORY
    assert bnb.solve(problem, time_limit=1e-9).status is Status.NO_SOLUTION


def test_callbacks_may_stop_and_hand_in_solutions():
    seen = []

    def on_node(progress):
        seen.append(progress.nodes)
        return bnb.STOP if progress.nodes == 3 else None

    result = bnb.solve(Blind(10), on_node=on_node, branching="first")
    assert (result.reason, result.nodes, seen) == (Reason.CALLBACK, 3, [1, 2, 3])
    result = bnb.solve(
        Blind(6), on_node=lambda p: np.ones(6) if p.nodes == 1 else None, node_limit=2
    )
    assert result.objective == Blind(6).value([1] * 6)
    assert any(row.source == "U" for row in result.trace)


def test_user_branching_and_start():
    chosen = []

    def rule(node, evaluation, candidates):
        chosen.append(candidates[0].key)
        return candidates[0]

    result = bnb.solve(Blind(3), branching=rule, start=np.array([1.0, 1, 1]))
    assert chosen and result.trace[0].source == "S"
    with pytest.raises(ValueError, match="start is not a feasible"):
        bnb.solve(Blind(3), start=np.array([1.0]))


def test_a_lying_problem_is_called_invalid():
    class Liar(Toy):
        def evaluate(self, state, goal):
            return Evaluation(1000.0, [("N", np.zeros(self.depth))])

    result = bnb.solve(Liar(2))
    assert result.status is Status.INVALID


def test_an_uncertain_leaf_keeps_its_bound():
    class Vague(Toy):
        """The leaf's bound is weak: the engine must not claim optimality."""

        def evaluate(self, state, goal):
            return Evaluation(5.0, [("N", np.zeros(self.depth))])

    result = bnb.solve(Vague(2))
    assert (result.status, result.bound) == (Status.FEASIBLE, 5.0)


@pytest.mark.parametrize("branching", ["first", "pseudocost"])
def test_what_deductions_removed_stays_in_the_bound(branching):
    class Remover(Toy):
        """The children are emptied by deductions from the incumbent, which was in one of them."""

        def evaluate(self, state, goal):
            if state:
                return Evaluation(np.inf, removed=goal.cutoff)
            return Evaluation(5.0, [("H", np.zeros(self.depth))], [Candidate(0)])

    result = bnb.solve(Remover(), branching=branching)
    assert result.status is Status.OPTIMAL
    assert 9.99 < result.bound < result.objective == 10.0


def test_infeasible_points_are_refused():
    class Cheat(Toy):
        def check(self, x):
            return 0.0, 1e-3

    result = bnb.solve(Cheat(2))
    assert result.x is None and result.status is not Status.OPTIMAL


@pytest.mark.parametrize("option, value", [
    ("gap", -1), ("gap", float("nan")), ("time_limit", 0), ("workers", 0), ("workers", 1.5),
    ("executor", 2),
    ("selection", "worst"), ("branching", "magic"), ("node_limit", 0), ("feasibility", -1e-3),
])
def test_bad_options_name_the_option(option, value):
    with pytest.raises(ValueError, match=option):
        bnb.solve(Toy(), **{option: value})


def test_unknown_option_lists_the_known_ones():
    with pytest.raises(TypeError, match="time_limit"):
        bnb.solve(Toy(), timelimit=3)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals")
def test_a_process_that_ignores_interrupts_goes_on_doing_so():
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result = bnb.solve(Toy(), on_node=lambda _: os.kill(os.getpid(), signal.SIGINT))
        assert result.optimal and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals")
def test_interrupt_gives_the_best_so_far():
    class Slow(Blind):
        def evaluate(self, state, goal):
            time.sleep(0.002)
            return super().evaluate(state, goal)

    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    result = bnb.solve(Slow(20), selection="depth", branching="first")
    assert result.reason is Reason.INTERRUPT
    assert result.x is not None and result.status is Status.FEASIBLE
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_log_is_silent_by_default_and_readable_when_asked(capsys):
    bnb.solve(Toy())
    assert capsys.readouterr().out == ""
    result = bnb.solve(Blind(4), verbose=1, branching="first")
    text = capsys.readouterr().out
    assert "Search report" in text and "optimal (gap closed)" in text
    assert f"nodes      {result.nodes}" in text


def test_logs_without_times_are_equal(capsys):
    texts = []
    for _ in range(2):
        bnb.solve(Blind(5), verbose=2, branching="first")
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] and "seconds" not in texts[0]


def hard_miqp(seed=0, n=24):
    """A problem that takes a few hundred nodes."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, n))
    return bnb.MIQP(F @ F.T, 5 * rng.normal(size=n), integer=range(n), lb=-5, ub=5)


def test_checkpoint_and_resume_reach_the_same_optimum(tmp_path):
    whole = bnb.solve(hard_miqp())
    file = tmp_path / "search.json"
    part = bnb.solve(hard_miqp(), node_limit=20, checkpoint=file)
    assert part.status is not Status.OPTIMAL and whole.nodes > 25
    rest = bnb.solve(hard_miqp(), checkpoint=file, resume=True)
    assert rest.status is Status.OPTIMAL
    assert rest.objective == pytest.approx(whole.objective, rel=1e-4)
    assert rest.nodes > part.nodes
    assert not list(tmp_path.glob("*.tmp"))


def test_checkpoint_of_other_data_or_damaged_is_refused(tmp_path):
    file = tmp_path / "search.json"
    bnb.solve(hard_miqp(), node_limit=5, checkpoint=file)
    with pytest.raises(ValueError, match="different problem"):
        bnb.solve(hard_miqp(1), checkpoint=file, resume=True)
    file.write_text(file.read_text()[:100])
    with pytest.raises(ValueError, match="not a whole checkpoint"):
        bnb.solve(hard_miqp(), checkpoint=file, resume=True)
    with pytest.raises(ValueError, match="checkpoint"):
        bnb.solve(hard_miqp(), resume=True)


def test_a_checkpoint_of_another_problem_is_refused_even_if_that_is_unbounded(tmp_path):
    file = tmp_path / "search.json"
    bnb.solve(bnb.MIQP(None, [1.0], lb=0, integer=[0]), checkpoint=file)
    with pytest.raises(ValueError, match="different problem"):
        bnb.solve(bnb.MIQP(None, [-1.0], lb=0, integer=[0]), checkpoint=file, resume=True)


def test_kill_and_resume(tmp_path):
    """kill −9 in the middle, then resume from what the last checkpoint holds."""
    file = tmp_path / "search.json"
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import test_engine as t, bnb\n"
        f"bnb.solve(t.hard_miqp(), checkpoint={str(file)!r}, checkpoint_interval=0.05,"
        " on_node=lambda p: t.time.sleep(0.02))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parent.parent)
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    process.kill()
    process.wait()
    saved = json.loads(file.read_text().splitlines()[0])
    assert saved["open"], "the run was over before it was killed"
    result = bnb.solve(hard_miqp(), checkpoint=file, resume=True)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(bnb.solve(hard_miqp()).objective, rel=1e-4)
