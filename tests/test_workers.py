"""Searches by several workers: same optima, whoever fails, and nothing lost or counted twice."""

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from joblib import Parallel, delayed, parallel_config
from oracle import brute_force, random_psd
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from test_csvm_search import SEARCHES, enumerate_node, harder_instance, random_instance
from test_engine import Blind, Toy, hard_miqp

import bnb
import csvm
from bnb import Reason, Status, WorkerWarning, checkpoint, memory
from bnb.options import Options
from bnb.problem import Child, Goal, RestartError, Standing, Turn
from bnb.processes import Processes
from bnb.slices import Place
from bnb.subset import BestSubset
from bnb.workers import ParallelSearch
from csvm.__main__ import main
from csvm.jobs import workers
from csvm.search import CSVMProblem
from csvm.search.contest import Searches
from csvm.search.rival import Plan
from csvm.search.settings import SECOND, Chance, Settings
from relaxations.patience import FOR_EVER

ROOT = Path(__file__).parents[1]
needs_signals = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows sends no such signals"
)


class Slow(Blind):
    """Every node is needed, and takes a while."""

    seconds = 0.002

    def evaluate(self, state, goal):
        time.sleep(self.seconds)
        return super().evaluate(state, goal)


class Large(Slow):
    """A process that searches it soon has far more memory than at first."""

    memory = None

    def evaluate(self, state, goal):
        if self.memory is None:
            self.memory = np.ones(50_000_000)
        return super().evaluate(state, goal)


def all_nodes(problem):
    return 2 ** (problem.depth + 1) - 1


def assert_complete(result, problem):
    """Without bounds every node of the tree counts once."""
    assert result.status is Status.OPTIMAL and result.open == 0
    assert result.nodes == all_nodes(problem)
    assert result.objective == problem.value([1] * problem.depth)


def at_once(monkeypatch):
    """Share work from the first nodes on."""
    monkeypatch.setattr("bnb.workers.RAMP_UP", 0.0)
    monkeypatch.setattr("bnb.workers.ALONE", 0.0)


# -- the same optimum -----------------------------------------------------------------------


def random_miqp(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 8))
    P, q = random_psd(rng, n, n), 4 * rng.normal(size=n)
    A, u = rng.integers(-2, 3, (2, n)).astype(float), rng.integers(1, 5, 2).astype(float)
    whole = range(0, n, 1 + int(rng.integers(2)))
    problem = bnb.MIQP(P, q, A, None, u, lb=-1, ub=1, integer=whole)
    least = np.full(2, -np.inf)
    return problem, brute_force(P, q, A, least, u, -np.ones(n), np.ones(n), whole)


def random_lattice(seed):
    rng = np.random.default_rng(seed)
    n = 4
    P, q = random_psd(rng, n, n) + 0.1 * np.eye(n), rng.normal(size=n)
    bounds = np.full(n, 3.0)
    truth = brute_force(P, q, None, np.zeros(0), np.zeros(0), -bounds, bounds, range(n))
    return bnb.MIQP(P, q, integer=range(n), lb=-3, ub=3), truth


def random_support(seed):
    rng = np.random.default_rng(seed)
    n, k = 7, 3
    P, q = random_psd(rng, n, 4) + 0.2 * np.eye(n), rng.normal(size=n)
    problem = bnb.SupportQP(P, q, k, np.ones((1, n)), [1.0], [1.0], lb=0.1, ub=1.0)
    best = np.inf
    for chosen in range(2**n):
        held = [j for j in range(n) if chosen >> j & 1]
        if 0 < len(held) <= k:
            best = min(best, brute_force(
                P[np.ix_(held, held)], q[held], np.ones((1, len(held))), np.ones(1), np.ones(1),
                np.full(len(held), 0.1), np.ones(len(held)), [],
            ))
    return problem, best


def random_indicator(seed):
    rng = np.random.default_rng(seed)
    n, m, k = 3, 7, 4
    P, q = random_psd(rng, n, n) + np.eye(n), rng.normal(size=n)
    G, b = rng.normal(size=(m, n)), rng.normal(size=m)
    best = np.inf
    for chosen in range(2**m):
        rows = [j for j in range(m) if chosen >> j & 1]
        if len(rows) == k:
            best = min(best, brute_force(
                P, q, G[rows], b[rows], np.full(k, np.inf), np.full(n, -np.inf),
                np.full(n, np.inf), [],
            ))
    return bnb.IndicatorQP(P, q, G=G, b=b, groups=[(range(m), k)]), best


def random_subset(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 8)) @ (np.eye(8) + 0.5)
    y = X[:, :3].sum(axis=1) + rng.normal(size=30)
    best = np.inf
    for chosen in range(2**8):
        columns = [j for j in range(8) if chosen >> j & 1]
        if len(columns) == 3:
            rest = y - X[:, columns] @ np.linalg.lstsq(X[:, columns], y, rcond=None)[0]
            best = min(best, rest @ rest)
    return BestSubset(X, y, 3), best


def random_csvm(seed):
    data = random_instance(seed)
    return CSVMProblem(data, settings=SEARCHES["all"]), enumerate_node(data.with_matrix())


KINDS = {
    "miqp": random_miqp, "lattice": random_lattice, "support": random_support,
    "indicator": random_indicator, "subset": random_subset, "csvm": random_csvm,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", range(4))
def test_the_optimum_is_that_of_brute_force(kind, block, two_workers, monkeypatch):
    monkeypatch.setattr("bnb.workers._SHORTEST", 1e-6)  # so that there is much to share
    monkeypatch.setattr("bnb.workers._LONGEST", 1e-6)
    monkeypatch.setattr("bnb.qp.lattice._SLICE", 3.0)
    monkeypatch.setattr("bnb.subset.search._FIRST", 1.0)
    monkeypatch.setattr("bnb.subset.search._SLICE", 1.0)
    for seed in range(1000 + 5 * block, 1005 + 5 * block):
        problem, truth = KINDS[kind](seed)
        options = {"branching": "first"} if kind == "csvm" else {}
        one = bnb.solve(problem, gap=1e-7, **options)
        two = bnb.solve(problem, gap=1e-7, **options, **two_workers)
        assert one.status is two.status
        if np.isfinite(truth):
            assert two.status is Status.OPTIMAL
            assert two.objective == pytest.approx(truth, rel=1e-5, abs=1e-6)
            assert two.objective == pytest.approx(one.objective, rel=1e-6, abs=1e-7)
            assert two.bound <= two.objective


ANY_MOMENT = Settings(probes=0, chances=tuple(
    Chance(2e5 * 2.0**k, 0.2 * 0.5**k, ("drop", "recourse", "pairs", "joint"), 1.0)
    for k in range(8)
))


@pytest.mark.parametrize("seed", range(3))
def test_searches_that_take_over_side_by_side(seed, two_workers, monkeypatch):
    """Slices of a node each, trees that change places, and lost answers: the same optimum."""
    monkeypatch.setattr("bnb.workers._SHORTEST", 1e-6)
    monkeypatch.setattr("bnb.workers._LONGEST", 1e-6)
    leaders = []
    end = Searches._end

    def watch(self, *arguments):
        end(self, *arguments)
        leaders.append(self.leader)

    monkeypatch.setattr(Searches, "_end", watch)
    truth = bnb.solve(
        CSVMProblem(harder_instance(seed), settings=SEARCHES["base"]), branching="first", gap=1e-6
    )
    for more in (two_workers, {"executor": Flaky(seed)}):
        problem = CSVMProblem(harder_instance(seed), settings=ANY_MOMENT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WorkerWarning)
            result = bnb.solve(problem, branching="first", gap=1e-6, **more)
        assert result.optimal and truth.optimal
        assert result.objective == pytest.approx(truth.objective, rel=3e-6)
        assert max(result.bound, result.root_bound) <= truth.objective * (1 + 1e-9)
    assert leaders


def test_a_rival_takes_no_longer_than_its_effort_and_looks_for_no_classifiers():
    plan = Plan("convex", Settings(chances=(Chance(SECOND, 0.5, ("drop",), 0.5),)))
    contest = Searches(plan, 0.0, {"convex", "drop"}, workers=4)
    standing = {"convex": Standing(0.0, 2.0, 9), "drop": Standing(0.0, 0.0, 1)}
    assert contest.next(standing, 1.0) == Turn("drop", 0.5)
    standing["drop"] = Standing(0.0, 0.2, 5, out=0.1)
    assert contest.next(standing, 1.0) == Turn("drop", pytest.approx(0.2))
    standing["drop"] = Standing(0.0, 0.2, 5, out=0.3)
    assert contest.next(standing, 1.0) == Turn("convex")
    assert [contest.notes(name)["part"] for name in ("convex", "drop")] == [0.25, 0.0]
    problem = CSVMProblem(harder_instance(1))
    value, x = problem.finder.sweep(FOR_EVER)
    goal, spent = Goal(incumbent=x, objective=value), problem.finder.operations
    problem.recall(contest.notes("drop"))
    assert problem.finder.improve(goal, 0.0, 100.0 * spent) == []
    assert problem.finder.operations == spent
    problem.recall(contest.notes("convex"))
    problem.finder.improve(goal, 0.0, 100.0 * spent)
    assert problem.finder.operations > spent


class Restarting(Blind):
    """Goes on with another tree of the whole problem after some evaluations."""

    left = 20

    def evaluate(self, state, goal):
        self.left -= 1
        if self.left == 0:
            raise RestartError(-1e9, [], [Child([0], -1e9), Child([1], -1e9)], np.inf)
        return super().evaluate(state, goal)


def test_a_worker_may_ask_to_go_on_with_another_tree(two_workers):
    problem = Restarting(5)
    result = bnb.solve(problem, branching="first", gap=0.0, **two_workers)
    assert result.optimal
    assert result.objective == problem.value([1] * 5)


def test_a_worker_may_use_what_the_others_leave():
    search = ParallelSearch(Toy(3), Options(memory_limit=1e5), 3)
    assert search._memory_for_worker() == 1e5  # nobody has reported
    for process, mib in ((1, 100.0), (2, 900.0), (3, 300.0)):
        search._remember(Place("elsewhere", process, mib))
    here = memory.resident_mib()
    assert search._memory_for_worker() == pytest.approx(1e5 - here - 400.0, abs=50.0)
    assert search._memory_in_use() == pytest.approx(here + 1300.0, abs=50.0)


@pytest.mark.parametrize("selection", ["best", "depth", "hybrid"])
def test_every_node_is_searched_once(selection, two_workers):
    problem = Blind(7)
    result = bnb.solve(
        problem, selection=selection, branching="first", gap=0.0, keep_tree=True, **two_workers
    )
    assert_complete(result, problem)
    numbers = [row[0] for row in result.tree]
    assert len(numbers) == len(set(numbers)) == result.nodes
    assert {row[1] for row in result.tree} <= {-1, *numbers}
    bounds = [row.bound for row in result.trace]
    assert bounds == sorted(bounds)
    assert result.root_bound == -1e9


def test_one_worker_is_deterministic():
    one, same = bnb.solve(hard_miqp()), bnb.solve(hard_miqp(), workers=1)
    assert (one.nodes, one.probes, one.bound, one.objective) == (
        same.nodes, same.probes, same.bound, same.objective
    )


def test_pseudocosts_are_learned_together(two_workers):
    two = bnb.solve(hard_miqp(), **two_workers)
    one = bnb.solve(hard_miqp())
    assert two.probes <= 3 * one.probes  # not every slice begins anew


def test_problems_and_nodes_are_pickled_whole():
    for make in KINDS.values():
        problem = make(7)[0]
        goal = bnb.Goal(tolerance=bnb.Tolerance())
        problem.prepare(goal)
        twin = pickle.loads(pickle.dumps(problem))
        state = problem.root()
        copied = pickle.loads(pickle.dumps(state))
        ours, theirs = problem.evaluate(state, goal), twin.evaluate(copied, goal)
        assert theirs.bound == pytest.approx(ours.bound, rel=1e-3, abs=1e-6)


# -- failing executors ----------------------------------------------------------------------


class Flaky(Executor):
    """Every third call is lost, before or after it did its work."""

    _max_workers = 2

    def __init__(self, first):
        self._calls, self._lost = first, 0

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self._calls += 1
        answer = None if self._calls % 6 == 0 else fn(*args, **kwargs)
        if self._calls % 3 == 0:
            self._lost += 1
            future.set_exception(BrokenExecutor("gone"))
        else:
            future.set_result(answer)
        return future


@pytest.mark.parametrize("first", range(6))
def test_lost_slices_are_searched_again_and_counted_once(first, monkeypatch):
    at_once(monkeypatch)
    problem, pool = Slow(7), Flaky(first)
    with pytest.warns(WorkerWarning, match="a worker was lost"):
        result = bnb.solve(problem, branching="first", gap=0.0, executor=pool)
    assert pool._lost > 0
    assert_complete(result, problem)


def test_lost_slices_of_several_searches(monkeypatch):
    at_once(monkeypatch)
    for seed in range(1000, 1010):
        problem, truth = random_csvm(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WorkerWarning)
            result = bnb.solve(problem, branching="first", gap=1e-7, executor=Flaky(seed))
        if np.isfinite(truth):
            assert result.objective == pytest.approx(truth, rel=1e-5, abs=1e-7)
            assert result.optimal


class Broken(Executor):
    """Takes nothing, or fails at everything."""

    _max_workers = 2

    def __init__(self, takes):
        self.takes = takes

    def submit(self, fn, /, *args, **kwargs):
        if not self.takes:
            raise RuntimeError("closed")
        future = Future()
        future.set_exception(OSError("no such host"))
        return future


@pytest.mark.filterwarnings("ignore:a worker was lost")
@pytest.mark.parametrize("takes", [False, True])
def test_without_workers_the_search_goes_on_alone_and_says_so(takes, monkeypatch):
    at_once(monkeypatch)
    problem = Blind(6)
    with pytest.warns(WorkerWarning, match="goes on in this process alone"):
        result = bnb.solve(problem, branching="first", gap=0.0, executor=Broken(takes))
    assert_complete(result, problem)


class Forgetful(ThreadPoolExecutor):
    """A new worker for every call, so that none has the problem."""

    def submit(self, fn, /, *args, **kwargs):
        from bnb import slices

        if fn is slices.run:
            slices.forget(args[0].key)
        return super().submit(fn, *args, **kwargs)


def test_workers_that_come_later_get_the_problem(monkeypatch):
    at_once(monkeypatch)
    problem = Blind(6)
    with Forgetful(1) as pool:
        result = bnb.solve(problem, branching="first", gap=0.0, executor=pool, workers=1)
    assert_complete(result, problem)


def in_a_worker():
    return threading.current_thread() is not threading.main_thread()


class Wrong(Slow):
    def evaluate(self, state, goal):
        if len(state) == 4 and in_a_worker():
            raise ZeroDivisionError("in the fourth level")
        return super().evaluate(state, goal)


class Odd(Exception):
    """Cannot be pickled."""

    def __init__(self, what, where):
        super().__init__(what)
        self.where = where, threading.Lock()


class Odder(Slow):
    def evaluate(self, state, goal):
        if len(state) == 4 and in_a_worker():
            raise Odd("what", "where")
        return super().evaluate(state, goal)


def test_errors_of_the_problem_are_raised(two_workers):
    with pytest.raises(ZeroDivisionError, match="fourth level") as caught:
        bnb.solve(Wrong(6), branching="first", **two_workers)
    assert "in evaluate" in str(caught.value.__cause__)
    with pytest.raises(RuntimeError, match="Odd"):
        bnb.solve(Odder(6), branching="first", **two_workers)


def test_what_cannot_be_sent_is_refused():
    problem = Toy()
    problem.lock = threading.Lock()
    with pytest.raises(TypeError, match="workers: this Toy cannot be sent"):
        bnb.solve(problem, workers=2)


def test_executors_of_unknown_width_need_a_number(monkeypatch):
    at_once(monkeypatch)
    monkeypatch.delattr(Flaky, "_max_workers")
    with pytest.raises(ValueError, match="workers: Flaky does not say how many"):
        bnb.solve(Toy(), executor=Flaky(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WorkerWarning)
        assert bnb.solve(Blind(5), executor=Flaky(0), workers=2, branching="first").optimal


# -- limits and callbacks -------------------------------------------------------------------


def test_node_limit_is_kept(two_workers):
    for limit in (1, 2, 3, 7, 20, 64):
        result = bnb.solve(Blind(8), branching="first", node_limit=limit, **two_workers)
        assert (result.nodes, result.reason) == (limit, Reason.NODES)


def test_time_limit(two_workers):
    problem = Slow(14)
    begin = time.monotonic()
    result = bnb.solve(problem, branching="first", time_limit=1.0, **two_workers)
    assert result.reason is Reason.TIME and time.monotonic() - begin < 2.0
    assert 100 < result.nodes < all_nodes(problem) and result.open > 2


def test_memory_of_all_processes_counts(two_workers):
    here = psutil.Process().memory_info().rss / 2**20
    result = bnb.solve(Blind(10), branching="first", memory_limit=here / 2, **two_workers)
    assert result.reason is Reason.MEMORY


def test_callbacks_stop_and_help(two_workers):
    seen = []
    result = bnb.solve(
        Blind(10), branching="first", on_node=lambda p: seen.append(p) or (
            bnb.STOP if p.nodes > 60 else None
        ), **two_workers,
    )
    assert result.reason is Reason.CALLBACK and result.open > 0
    assert [p.nodes for p in seen] == sorted(p.nodes for p in seen)
    best = np.ones(6)
    helped = bnb.solve(
        Blind(6), branching="first", on_node=lambda _: best, gap=0.0, **two_workers
    )
    assert helped.optimal and helped.trace[-1].objective == Blind(6).value(best)


def test_a_rule_of_the_user_goes_along(two_workers):
    result = bnb.solve(
        hard_miqp(), branching=lambda node, evaluation, candidates: candidates[-1], **two_workers
    )
    assert result.optimal


def saved(file):
    return json.loads(file.read_text().splitlines()[0])


def test_checkpoints_of_a_shared_search(tmp_path, two_workers):
    problem, file = Blind(8), tmp_path / "search.json"
    part = bnb.solve(problem, branching="first", gap=0.0, node_limit=100, checkpoint=file,
                     checkpoint_interval=1e-3, **two_workers)
    assert part.nodes == 100 and len(saved(file)["open"]) == part.open
    for more in ({}, two_workers):
        copy = tmp_path / "copy.json"
        copy.write_bytes(file.read_bytes())
        rest = bnb.solve(problem, branching="first", gap=0.0, checkpoint=copy, resume=True, **more)
        assert_complete(rest, problem)


# -- processes ------------------------------------------------------------------------------


def children():
    """Processes of this one, but for those that look after shared memory for its whole life."""
    return [
        child for child in psutil.Process().children(recursive=True)
        if "resource_tracker" not in " ".join(child.cmdline())
    ]


@pytest.mark.parametrize("kind", [Slow, Large])
def test_processes(kind, monkeypatch):
    at_once(monkeypatch)
    before = children()
    problem = kind(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = bnb.solve(problem, branching="first", gap=0.0, workers=2)
    assert_complete(result, problem)
    assert children() == before


class Presolved(Slow):
    """Its presolve waits for processes."""

    def prepare(self, goal):
        end = time.monotonic() + 20.0
        while not children() and time.monotonic() < end:
            time.sleep(0.05)
        self.seen = bool(children())
        return super().prepare(goal)


def test_processes_start_during_the_presolve_and_end_with_the_search():
    before, problem = children(), Presolved(8)
    result = bnb.solve(problem, branching="first", gap=0.0, workers=2)
    assert problem.seen
    assert_complete(result, problem)
    assert children() == before


def test_a_short_search_starts_no_processes(monkeypatch):
    monkeypatch.setattr("bnb.workers.RAMP_UP", 60.0)
    monkeypatch.setattr(Processes, "_call", lambda *_: pytest.fail("started"))
    problem = Slow(2)
    assert_complete(bnb.solve(problem, branching="first", gap=0.0, workers=2), problem)


@needs_signals
@pytest.mark.parametrize("seed", range(3))
def test_killed_processes_are_replaced(seed, monkeypatch):
    at_once(monkeypatch)
    problem, draw = Slow(9), random.Random(seed)
    pools, over = [], threading.Event()
    made = Processes.__init__
    monkeypatch.setattr(
        Processes, "__init__", lambda self, count: (pools.append(self), made(self, count))[1]
    )
    killed = []

    def kill():
        while not over.wait(draw.uniform(0.5, 1.5)):
            alive = [
                pid for pool in (pools[0]._pools if pools else ())
                for pid in (pool._processes if pool else None) or ()
            ]
            if alive and len(killed) < 3:
                killed.append(draw.choice(alive))
                os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = bnb.solve(problem, branching="first", gap=0.0, workers=2)
    finally:
        over.set()
        killer.join()
    assert killed
    assert_complete(result, problem)
    assert not children()


SCRIPT = """
import sys, time
import numpy as np
import bnb, bnb.workers
sys.path.insert(0, {tests!r})
from test_engine import Blind
bnb.workers.RAMP_UP = bnb.workers.ALONE = 0.0

class Mine(Blind):  # not to be imported by others
    def evaluate(self, state, goal):
        time.sleep(0.002)
        return super().evaluate(state, goal)

print("ready", flush=True)
result = bnb.solve(Mine({depth}), branching="first", gap=0.0, workers=2, **{options!r})
print(result.reason.name, result.status.name, result.nodes, flush=True)
"""


def run_script(depth, **options):
    script = SCRIPT.format(tests=str(Path(__file__).parent), depth=depth, options=options)
    return subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )


def test_a_script_needs_no_main_guard_and_its_classes_go_along(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT.format(tests=str(Path(__file__).parent), depth=6, options={}))
    run = subprocess.run(
        [sys.executable, str(file)], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120,
    )
    assert run.stdout.splitlines()[-1] == "GAP OPTIMAL 127", run.stderr
    assert run.stderr == ""


@needs_signals
def test_interrupts_of_a_terminal_end_the_search_with_a_result():
    process = run_script(16)
    assert process.stdout.readline() == "ready\n"
    time.sleep(6.0)
    begin = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, err = process.communicate(timeout=60)
    assert out.startswith("INTERRUPT"), err
    assert int(out.split()[-1]) > 100
    assert "Traceback" not in err
    assert time.monotonic() - begin < 5.0


def test_a_search_killed_as_a_whole_is_resumed(tmp_path):
    file, problem = tmp_path / "search.json", Slow(10)
    process = run_script(10, checkpoint=str(file), checkpoint_interval=0.2)
    assert process.stdout.readline() == "ready\n"
    while not file.exists() or saved(file)["nodes"] < 150:
        assert process.poll() is None
        time.sleep(0.05)
    workers_of_it = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(workers_of_it, timeout=20)
    assert not alive  # workers do not outlive their supervisor
    at_the_end = saved(file)
    # The script's class has another name.
    checkpoint.write(file, "", at_the_end | {"fingerprint": problem.fingerprint()})
    result = bnb.solve(problem, branching="first", gap=0.0, checkpoint=file, resume=True)
    assert at_the_end["nodes"] < all_nodes(problem)
    assert_complete(result, problem)


# -- dask -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
    ) as cluster, distributed.Client(cluster) as client:
        yield client


def test_dask_searches_one_tree(client, monkeypatch):
    at_once(monkeypatch)
    problem = Slow(8)
    result = bnb.solve(problem, branching="first", gap=0.0, executor=client.get_executor())
    assert_complete(result, problem)


@needs_signals
def test_dask_loses_a_worker(client, monkeypatch):
    at_once(monkeypatch)
    problem = Slow(9)
    pids = list(client.run(os.getpid).values())
    timer = threading.Timer(0.7, os.kill, (pids[0], signal.SIGKILL))
    timer.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = bnb.solve(problem, branching="first", gap=0.0, executor=client.get_executor())
    timer.join()
    assert_complete(result, problem)


def two_rates(n=60, seed=0):
    return make_classification(n, 4, flip_y=0.2, random_state=seed)


def test_an_estimator_uses_the_cluster(client, monkeypatch):
    at_once(monkeypatch)
    X, y = two_rates(100)
    seen = spy_on_solve(monkeypatch)
    model = csvm.CSVM(C=2, constraints=["tpr>=0.6", "tnr>=0.5"], random_state=0)
    alone = model.fit(X, y).result_
    with parallel_config(backend="dask"):
        together = model.set_params(n_jobs=2).fit(X, y).result_
    assert seen[-1]["workers"] == 2 and seen[-1]["executor"] is not None
    assert together.objective == pytest.approx(alone.objective, rel=1e-3)


# -- estimators and the command line --------------------------------------------------------


def spy_on_solve(monkeypatch):
    seen = []
    solve = bnb.solve

    def spy(problem, **options):
        seen.append(options)
        return solve(problem, **options)

    monkeypatch.setattr(bnb, "solve", spy)
    return seen


def test_n_jobs_are_processes(monkeypatch):
    seen = spy_on_solve(monkeypatch)
    X, y = two_rates()
    for n_jobs, wanted in ((None, 1), (1, 1), (3, 3)):
        csvm.CSVM(C=2, constraints="tpr>=0.6", random_state=0, n_jobs=n_jobs).fit(X, y)
        assert seen[-1]["workers"] == wanted and seen[-1].get("executor") is None


def test_nested_jobs_are_one():
    assert Parallel(n_jobs=2)(delayed(workers)(4) for _ in range(2)) == [{}, {}]
    inside = Parallel(n_jobs=2, backend="threading")(delayed(workers)(4) for _ in range(2))
    assert inside == [{}, {}]
    assert workers(4) == {"workers": 4}
    X, y = two_rates()
    model = csvm.CSVM(constraints="tpr>=0.6", random_state=0, n_jobs=2)
    search = GridSearchCV(model, {"C": [1.0, 4.0]}, n_jobs=2, cv=2, error_score="raise").fit(X, y)
    assert search.best_estimator_.n_jobs == 2


def test_a_fit_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    X, y = two_rates(160, seed=3)
    file = tmp_path / "fit.json"
    model = csvm.CSVM(C=4, constraints=["tpr>=0.6", "tnr>=0.6"], random_state=0, gap=1e-6)
    whole = model.fit(X, y).result_
    seen = spy_on_solve(monkeypatch)
    solve = bnb.solve
    monkeypatch.setattr(bnb, "solve", lambda p, **o: solve(p, **o, node_limit=3))
    model.set_params(checkpoint=file)
    part = model.fit(X, y).result_
    assert not part.optimal and file.exists()
    monkeypatch.setattr(bnb, "solve", solve)
    with pytest.raises(ValueError, match=r"checkpoint: .*fit\.json was written by a fit"):
        csvm.CSVM(C=5, constraints=["tpr>=0.6"], random_state=0, checkpoint=file).fit(X, y)
    rest = model.fit(X, y).result_
    assert seen[-1]["resume"] and rest.optimal and rest.nodes > part.nodes >= 3
    assert rest.objective == pytest.approx(whole.objective, rel=1e-5)
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_are_no_part_of_a_model_file(tmp_path):
    X, y = two_rates()
    model = csvm.CSVM(constraints="tpr>=0.6", random_state=0, checkpoint=tmp_path / "fit.json")
    model.fit(X, y).save(tmp_path / "model.npz")
    assert csvm.CSVM.load(tmp_path / "model.npz").checkpoint is None


def test_a_checkpoint_that_cannot_be_is_refused(tmp_path):
    X, y = two_rates()
    for place in (tmp_path, tmp_path / "no" / "file.json", 3):
        with pytest.raises(ValueError, match="checkpoint"):
            csvm.CSVM(constraints="tpr>=0.6", random_state=0, checkpoint=place).fit(X, y)


@pytest.fixture
def table(tmp_path):
    X, y = two_rates(80)
    file = tmp_path / "table.csv"
    rows = [",".join([*(f"{v:.6f}" for v in x), "yes" if c else "no"])
            for x, c in zip(X, y, strict=True)]
    file.write_text("\n".join(["a,b,c,d,label", *rows]) + "\n")
    return file


def fit_command(table, tmp_path, *more):
    return main([
        "fit", str(table), "--label", "label", "--model", str(tmp_path / "model.npz"), "--C", "2",
        "--gamma", "0.5", "--constraint", "tpr>=0.6", "--quiet", *more,
    ])


def test_the_command_line_takes_jobs_and_checkpoints(table, tmp_path, monkeypatch, capsys):
    seen = spy_on_solve(monkeypatch)
    file = tmp_path / "fit.json"
    assert fit_command(table, tmp_path, "--jobs", "2", "--checkpoint", str(file)) == 0
    assert seen[-1]["workers"] == 2 and seen[-1]["checkpoint"] == str(file)
    assert not file.exists()
    assert fit_command(table, tmp_path) == 0
    assert seen[-1]["workers"] == 1 and seen[-1]["checkpoint"] is None
    assert fit_command(table, tmp_path, "--checkpoint", str(tmp_path / "no" / "f.json")) == 1
    assert "--checkpoint" in capsys.readouterr().err
    assert fit_command(table, tmp_path, "--jobs", "0") == 1
    assert "n_jobs" in capsys.readouterr().err


def test_the_command_line_uses_a_cluster(table, tmp_path, monkeypatch, client, capsys):
    seen = spy_on_solve(monkeypatch)
    address = client.scheduler.address
    assert fit_command(table, tmp_path, "--scheduler", address) == 0
    assert seen[-1]["workers"] == 2 and seen[-1]["executor"] is not None
    assert fit_command(table, tmp_path, "--scheduler", "tcp://127.0.0.1:1") == 1
    assert "no dask scheduler answers" in capsys.readouterr().err
