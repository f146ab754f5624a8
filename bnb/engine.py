"""The branch-and-bound loop.

The engine knows nodes, bounds and incumbents; all mathematics is behind `bnb.problem.Problem`.
Its promise: the final bound is the smallest certified bound over everything that was ever cut off,
closed or left open, so OPTIMAL can only be said when that bound meets a checked incumbent.
"""

from __future__ import annotations

import _thread
import functools
import json
import math
import queue as thread_queue
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from threadpoolctl import ThreadpoolController

from relaxations import OutOfTimeError, interruptible

from . import checkpoint as checkpoints
from . import memory
from .branching import PseudoCost, UserRule, make_rule
from .log import SearchLog
from .problem import (
    Candidate,
    Child,
    Evaluation,
    Goal,
    Problem,
    RestartError,
    UnboundedError,
)
from .queue import SELECTIONS, Node, NodeQueue
from .result import Reason, Result, Status, Tolerance, TraceRow, relative_gap

STOP = "stop"
"""Returned by a callback to end the search."""


@dataclass(frozen=True)
class Progress:
    """What callbacks see: a snapshot of the search."""

    nodes: int
    open: int
    bound: float
    objective: float
    incumbent: np.ndarray | None
    seconds: float


Callback = Callable[[Progress], Any]


@dataclass(frozen=True)
class Options:
    """Options of `solve`; see there."""

    gap: float = 1e-4
    absolute_gap: float = 1e-9
    time_limit: float = math.inf
    node_limit: int | None = None
    memory_limit: float = math.inf
    selection: str = "best"
    branching: str | UserRule = "pseudocost"
    threads: int = 1
    seed: int = 0
    feasibility: float = 1e-6
    start: np.ndarray | None = None
    on_node: Callback | None = None
    on_incumbent: Callback | None = None
    verbose: int = 0
    log_stream: TextIO | None = None
    checkpoint: str | Path | None = None
    checkpoint_interval: float = 60.0
    resume: bool = False
    keep_tree: bool = False

    def __post_init__(self) -> None:
        for name in ("gap", "absolute_gap", "feasibility"):
            value = _number(name, getattr(self, name))
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
        for name in ("time_limit", "memory_limit", "checkpoint_interval"):
            value = _number(name, getattr(self, name))
            if not value > 0:
                raise ValueError(f"{name} must be > 0, got {value!r}")
        for name, least in (("threads", 1), ("seed", 0), ("node_limit", 1)):
            value = getattr(self, name)
            if name == "node_limit" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
        if isinstance(self.verbose, str) or self.verbose not in (0, 1, 2):
            raise ValueError(f"verbose must be 0, 1 or 2, got {self.verbose!r}")
        if self.selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {SELECTIONS}, got {self.selection!r}")
        for name in ("on_node", "on_incumbent"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ValueError(f"{name} must be callable, got {getattr(self, name)!r}")
        if self.log_stream is not None and not callable(getattr(self.log_stream, "write", None)):
            raise ValueError(f"log_stream must be a text file to write to, got {self.log_stream!r}")
        if self.memory_limit < math.inf and memory.resident_mib() is None:
            raise ValueError("memory_limit: this system does not say how much memory is in use")
        self._check_files()

    def _check_files(self) -> None:
        if self.checkpoint is None:
            if self.resume:
                raise ValueError("resume=True needs checkpoint=PATH, the file to resume from")
            return
        try:
            path = Path(self.checkpoint)
        except TypeError:
            raise ValueError(f"checkpoint must be a path, got {self.checkpoint!r}") from None
        if not path.absolute().parent.is_dir():
            raise ValueError(f"checkpoint: there is no directory {path.parent}")
        if path.is_dir():
            raise ValueError(f"checkpoint: {path} is a directory, it must be a file")


@functools.cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries in use; looking for them takes milliseconds."""
    return ThreadpoolController()


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(value)


def solve(problem: Problem, **options: Any) -> Result:
    """Minimise `problem` to proven optimality.

    Parameters
    ----------
    problem : Problem
        What to solve.
    gap, absolute_gap : float
        Stop when ``objective - bound <= max(absolute_gap, gap * |objective|)``.
    time_limit : float
        Seconds.
    node_limit : int, optional
        Nodes to evaluate at most.
    memory_limit : float
        Memory that the process may have resident at a time, in MiB.
    selection : {"best", "depth", "hybrid"}
        Node selection; "hybrid" dives until there is an incumbent.
    branching : {"pseudocost", "fractional", "first"} or callable
        "pseudocost" starts with strong branching; a callable gets (node, evaluation, candidates)
        and returns a candidate.
    threads : int
        Nodes evaluated at once. One thread is deterministic: same nodes, same path.
    seed : int
        For heuristics that draw at random.
    feasibility : float
        Largest violation, as measured by `Problem.check`, that an incumbent may have.
    start : ndarray, optional
        A solution to start from.
    on_node, on_incumbent : callable, optional
        Called with a `Progress`; may return `bnb.STOP`, or a solution to try.
    verbose : {0, 1, 2}
        Log: silent, with times, or without times (comparable between runs).
    log_stream : file, optional
        Where the log goes; standard output by default.
    checkpoint : path, optional
        File to save the search to every `checkpoint_interval` seconds and at its end.
    resume : bool
        Continue from `checkpoint` if the file exists.
    keep_tree : bool
        Record every node in `Result.tree`, for pictures.

    Returns
    -------
    Result
    """
    if not isinstance(problem, Problem):
        raise TypeError(
            "problem must be a bnb.Problem, such as bnb.MIQP, bnb.SupportQP or bnb.IndicatorQP, "
            f"got {type(problem).__name__}"
        )
    try:
        checked = Options(**options)
    except TypeError as error:
        known = ", ".join(Options.__dataclass_fields__)
        raise TypeError(f"{error}; the options of bnb.solve are: {known}") from None
    # Small matrices: BLAS threads only get in the way of each other and of `threads`.
    with _blas().limit(limits=1, user_api="blas"):
        return _Search(problem, checked).run()


@contextmanager
def _watched_interrupts(threads: int) -> Iterator[None]:
    """Keep Ctrl-C from getting lost between threads that run OSQP.

    OSQP installs a signal handler of its own while it solves; two solves at once can leave it
    behind. A thread that waits for the signal does not depend on handlers.
    """
    known = hasattr(signal, "sigtimedwait") and hasattr(signal, "pthread_sigmask")
    if threads == 1 or not known:  # not on every system
        yield
        return
    over = threading.Event()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    def watch() -> None:
        while not over.is_set():
            if signal.sigtimedwait({signal.SIGINT}, 0.01) is not None:
                _thread.interrupt_main()
            interruptible.put_back_handler()  # other libraries' threads may get the signal

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class _Search:
    """One run: the open nodes, the incumbent and the counters."""

    def __init__(self, problem: Problem, options: Options) -> None:
        self.problem = problem
        self.options = options
        # Taken before the search, which may leave notes in the problem.
        self.fingerprint = problem.fingerprint() if options.checkpoint is not None else ""
        self.tolerance = Tolerance(options.gap, options.absolute_gap)
        self.rule = make_rule(options.branching)
        self.queue = NodeQueue(options.selection)
        self.log = SearchLog(options.verbose, options.log_stream)
        self.in_flight: dict[Future[Evaluation], Node] = {}
        self.x: np.ndarray | None = None
        self.objective = math.inf
        self.violation = math.inf
        self.settled = math.inf  # smallest bound of anything cut off or closed
        self.root_bound = -math.inf
        self.explored = 0.0
        self.nodes = self.pruned = self.probes = self.created = 0
        self.relaxation_seconds = 0.0
        self.work: Counter[str] = Counter()
        self.seconds_before = 0.0
        self.reason: Reason | None = None
        self.unbounded = False
        self.interrupted = False
        self.begun = False
        self.current: Node | None = None  # in hand: neither open nor closed yet
        self.trace: list[TraceRow] = []
        self.tree: list[tuple[int, int, float, str]] = []
        self.started = self.saved = time.monotonic()
        self.deadline = self.started + options.time_limit

    # -- the loop ---------------------------------------------------------------------------

    def run(self) -> Result:
        """Search until the gap is closed or a limit is met, and report."""
        self.log.start(f"Branch and bound: {self.problem}")
        with self._graceful_interrupt():
            try:
                self._begin()
                while self._search() is not None:
                    pass
            except KeyboardInterrupt:
                if self.interrupted:  # asked twice: the user wants out, not a result
                    raise
                self.interrupted = True
            except UnboundedError:
                self.unbounded = True
            except OutOfTimeError:  # from the midst of a node, which stays open
                self.reason = Reason.TIME
        if self.interrupted:
            self.reason = Reason.INTERRUPT
        result = self._result()
        if self.options.checkpoint is not None and self.begun:  # else no node is known to save
            self._save()
        self.log.finish(result)
        return result

    @contextmanager
    def _graceful_interrupt(self) -> Iterator[None]:
        """Let the first Ctrl-C end the search between two nodes; a second one is the usual.

        A process that ignores Ctrl-C (in the background, or a worker of another) goes on doing so.
        """
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if ignored or threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(number: int, frame: Any) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

        previous = signal.signal(signal.SIGINT, on_signal)
        try:
            with _watched_interrupts(self.options.threads):
                yield
        finally:
            signal.signal(signal.SIGINT, previous)

    def _begin(self) -> None:
        if self.options.start is not None:
            self._offer_start()
        path = self.options.checkpoint
        saved: checkpoints.Saved | None = None
        if self.options.resume and path is not None and Path(path).exists():
            saved = checkpoints.read(Path(path), self.fingerprint)
        prepared = self._prepare()
        if saved is not None:
            self._restore(saved)
        else:
            self.root_bound = prepared
            self.queue.push(Node(self.problem.root(), prepared))
        self.begun = True

    def _offer_start(self) -> None:
        try:
            x = self.problem.accept(np.asarray(self.options.start, dtype=float))
        except (TypeError, ValueError) as error:
            raise ValueError(f"start: {error}") from None
        self._offer("S", x)
        if self.x is None:
            raise ValueError("start is not a feasible solution of the problem")

    def _prepare(self) -> float:
        """Let the problem presolve; returns its bound on the whole problem."""
        begin = time.perf_counter()
        found = self.problem.prepare(self._goal())
        if found is None:
            return -math.inf
        spent = time.perf_counter() - begin
        self.relaxation_seconds += spent if found.seconds is None else found.seconds
        self._offer_all(found)
        return found.bound

    def _search(self) -> RestartError | None:
        """Work on the open nodes; a problem that asks for it goes on with another tree."""
        try:
            if self.options.threads == 1:
                self._run_serial()
            else:
                self._run_threads()
        except RestartError as restart:
            self.queue = NodeQueue(self.options.selection)
            self.settled, self.explored, self.current = restart.settled, 0.0, None
            self.root_bound = restart.bound
            for state, bound in restart.children:
                self.created += 1
                weight = 1.0 / len(restart.children)
                self.queue.push(Node(state, bound, number=self.created, weight=weight))
            for source, x in restart.solutions:
                self._offer(source, x)
            return restart
        return None

    def _run_serial(self) -> None:
        while len(self.queue) and not self._finished():
            node = self.queue.pop()
            try:
                if self._worth(node):
                    self._process(node, self._evaluate(self.problem, node, self._goal()))
            except BaseException:
                self.queue.push(node)  # an interrupted node stays open: its bound still counts
                raise
            self._report()

    def _run_threads(self) -> None:
        # The problem itself stays with this thread, which evaluates probes while the others work.
        workers: thread_queue.SimpleQueue[Problem] = thread_queue.SimpleQueue()
        for _ in range(self.options.threads):
            workers.put(self.problem.worker())

        def task(node: Node, goal: Goal) -> Evaluation:
            worker = workers.get()
            try:
                return self._evaluate(worker, node, goal)
            finally:
                workers.put(worker)

        with ThreadPoolExecutor(self.options.threads) as pool:
            try:
                while (len(self.queue) or self.in_flight) and not self._finished():
                    while len(self.queue) and len(self.in_flight) < self.options.threads:
                        node = self.queue.pop()
                        if self._worth(node):
                            self.in_flight[pool.submit(task, node, self._goal())] = node
                    if self.in_flight:
                        done, _ = wait(self.in_flight, timeout=0.2, return_when=FIRST_COMPLETED)
                        for future in sorted(done, key=lambda f: self.in_flight[f].number):
                            evaluation = future.result()
                            self._process(self.in_flight[future], evaluation)
                            del self.in_flight[future]
                    self._report()
            finally:
                for node in self.in_flight.values():
                    self.queue.push(node)
                self.in_flight.clear()

    def _worth(self, node: Node) -> bool:
        if node.bound < self.cutoff:
            return True
        self.pruned += 1
        self._close(node, node.bound, "pruned")
        return False

    def _evaluate(self, problem: Problem, node: Node, goal: Goal) -> Evaluation:
        if node.evaluation is not None:  # probed already by strong branching
            return node.evaluation
        begin = time.perf_counter()
        evaluation = problem.evaluate(node.state, goal)
        if evaluation.seconds is None:
            evaluation.seconds = time.perf_counter() - begin
        return evaluation

    def _process(self, node: Node, evaluation: Evaluation) -> None:
        """Take in an evaluated node: learn, try its solutions, and split or close it."""
        self.nodes += evaluation.nodes
        self.current = node
        if node.evaluation is None:
            self.relaxation_seconds += evaluation.seconds or 0.0
            self.work.update(evaluation.work)
            self.rule.learn(node, evaluation.bound)
            self._offer_all(evaluation)
            self.settled = min(self.settled, evaluation.removed)
        node.bound = max(node.bound, evaluation.bound)
        if node.parent < 0:
            self.root_bound = node.bound
        self._call(self.options.on_node)
        if node.bound >= self.cutoff:
            self._close(node, node.bound, "cut off")
        elif not evaluation.candidates:
            self._close(node, node.bound, "leaf")
        else:
            self._split(node, evaluation)
        self.current = None

    def _split(self, node: Node, evaluation: Evaluation) -> None:
        candidate, children = self.rule.choose(
            node, evaluation, lambda c: self._probe(node, evaluation, c)
        )
        if children is None:
            children = self._children(node, evaluation, candidate)
        for child in children:
            child.weight = node.weight / len(children)
            if child.evaluation is not None:  # a probed child may be pruned without being processed
                self.settled = min(self.settled, child.evaluation.removed)
            self.queue.push(child)
        if not children:
            self.explored += node.weight
        self._record(node, "split")
        node.evaluation = None

    def _children(self, node: Node, evaluation: Evaluation, candidate: Candidate) -> list[Node]:
        children = []
        distances = (candidate.down, candidate.up)
        for side, made in enumerate(self.problem.branch(node.state, evaluation, candidate)):
            state, bound = made if isinstance(made, Child) else (made, node.bound)
            self.created += 1
            origin = (candidate.key, side, distances[min(side, 1)], node.bound)
            bound = max(bound, node.bound)
            children.append(
                Node(state, bound, node.depth + 1, self.created, node.number, origin=origin)
            )
        return children

    def _probe(self, node: Node, evaluation: Evaluation, candidate: Candidate) -> list[Node]:
        """Strong branching: evaluate the children now, and keep what was learned."""
        children = self._children(node, evaluation, candidate)
        goal = self._goal(probe=True)
        for child in children:
            if goal.expired():
                raise OutOfTimeError
            found = self._evaluate(self.problem, child, goal)
            self.probes += 1
            self.relaxation_seconds += found.seconds or 0.0
            self.work.update(found.work)
            self.rule.learn(child, found.bound)
            self._offer_all(found)
            child.bound = max(child.bound, found.bound)
            child.evaluation = found
        return children

    # -- incumbents and bounds --------------------------------------------------------------

    @property
    def cutoff(self) -> float:
        """Bound at which a node is cut off."""
        return self.tolerance.cutoff(self.objective)

    def _goal(self, probe: bool = False) -> Goal:
        limit = self.options.node_limit
        return Goal(
            self.cutoff, self.objective, self.x, self.deadline, probe, self.options.seed,
            lambda: self.interrupted, self.tolerance,
            math.inf if limit is None else max(limit - self.nodes, 1),
        )

    def _offer_all(self, evaluation: Evaluation) -> None:
        for source, x in evaluation.solutions:
            self._offer(source, x)

    def _offer(self, source: str, x: np.ndarray) -> None:
        """Take `x` as incumbent if the original problem says that it is feasible and better."""
        objective, violation = self.problem.check(x)
        if not violation <= self.options.feasibility or not objective < self.objective:
            return
        self.x, self.objective, self.violation = np.array(x), float(objective), float(violation)
        self.queue.found_incumbent()
        self._note(source)
        self._call(self.options.on_incumbent)

    def _close(self, node: Node, bound: float, fate: str) -> None:
        self.settled = min(self.settled, bound)
        self.explored += node.weight
        self._record(node, fate)

    def _record(self, node: Node, fate: str) -> None:
        if self.options.keep_tree:
            self.tree.append((node.number, node.parent, node.bound, fate))

    def _bound(self) -> float:
        if not self.begun:  # presolve may offer solutions before there is a root
            return -math.inf
        flying = min((node.bound for node in self.in_flight.values()), default=math.inf)
        if self.current is not None:
            flying = min(flying, self.current.bound)
        return min(self.settled, flying, self.queue.lowest_bound())

    # -- limits, callbacks, reports ---------------------------------------------------------

    def _finished(self) -> bool:
        options = self.options
        if self.reason is not None or self.interrupted:
            return True
        if self.tolerance.closed(self.objective, self._bound()):
            self.reason = Reason.GAP
        elif time.monotonic() >= self.deadline:
            self.reason = Reason.TIME
        elif options.node_limit is not None and self.nodes >= options.node_limit:
            self.reason = Reason.NODES
        elif self._memory_is_full():
            self.reason = Reason.MEMORY
        return self.reason is not None

    def _memory_is_full(self) -> bool:
        limit = self.options.memory_limit
        return limit < math.inf and (memory.resident_mib() or 0.0) >= limit

    def _seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.started

    def _call(self, callback: Callback | None) -> None:
        if callback is None:
            return
        progress = Progress(
            self.nodes, len(self.queue), min(self._bound(), self.objective), self.objective,
            self._presented(), self._seconds(),
        )
        answer = callback(progress)
        if isinstance(answer, str) and answer == STOP:
            self.reason = Reason.CALLBACK
        elif answer is not None:
            self._offer("U", self.problem.accept(np.asarray(answer, dtype=float)))

    def _presented(self) -> np.ndarray | None:
        return None if self.x is None else np.array(self.problem.present(self.x))

    def _note(self, source: str) -> None:
        bound = min(self._bound(), self.objective)
        row = TraceRow(
            self._seconds(), self.nodes, bound, self.objective, len(self.queue), source
        )
        self.trace.append(row)
        self.log.row(
            source, row.nodes, row.open, self.explored, bound, row.objective, row.seconds
        )

    def _report(self) -> None:
        bound = min(self._bound(), self.objective)
        if not self.trace or bound > self.trace[-1].bound:
            self._note("")
        interval = self.options.checkpoint_interval
        if self.options.checkpoint is not None and time.monotonic() - self.saved > interval:
            self._save()

    def _result(self) -> Result:
        bound = self._bound()
        exhausted = not len(self.queue)
        if self.unbounded:
            status, bound = Status.UNBOUNDED, -math.inf
        elif self.x is not None:
            status = self.tolerance.verdict(self.objective, bound)
            bound = min(bound, self.objective)
            if status is Status.OPTIMAL:
                self.reason = Reason.GAP
        elif exhausted and bound == math.inf:
            status = Status.INFEASIBLE
        else:
            status = Status.NO_SOLUTION
        unproven = status in (Status.FEASIBLE, Status.NO_SOLUTION)
        if unproven and self.reason is None and time.monotonic() >= self.deadline:
            self.reason = Reason.TIME  # the last leaf had no time left for a better bound
        self._note("")
        return Result(
            status=status, reason=self.reason or Reason.EXHAUSTED, x=self._presented(),
            objective=self.objective, bound=bound, gap=relative_gap(self.objective, bound),
            root_bound=self.root_bound, violation=self.violation, nodes=max(self.nodes, 1),
            open=len(self.queue), pruned=self.pruned, probes=self.probes,
            seconds=self._seconds(), relaxation_seconds=self.relaxation_seconds,
            work=dict(self.work),
            trace=self.trace, tree=self.tree,
        )

    # -- checkpoints ------------------------------------------------------------------------

    def _save(self) -> None:
        number = checkpoints.encode_float
        open_nodes = [*self.queue, *self.in_flight.values()]
        data = {
            "version": checkpoints.VERSION,
            "fingerprint": self.fingerprint,
            "nodes": self.nodes, "pruned": self.pruned, "probes": self.probes,
            "created": self.created, "explored": self.explored,
            "settled": number(self.settled), "root_bound": number(self.root_bound),
            "seconds": self._seconds(), "relaxation_seconds": self.relaxation_seconds,
            "work": dict(self.work), "notes": self.problem.notes(),
            "x": None if self.x is None else self.x.tolist(),
            "pseudocosts": self.rule.state() if isinstance(self.rule, PseudoCost) else [],
            "open": [
                [self.problem.encode(n.state), number(n.bound), n.depth, n.number, n.parent,
                 n.weight]
                for n in open_nodes
            ],
        }
        self.saved = time.monotonic()
        try:
            with checkpoints.replacing(Path(str(self.options.checkpoint))) as file:
                file.write(json.dumps(data).encode())
        except OSError as error:  # no reason to lose the search itself
            warnings.warn(
                f"the checkpoint {self.options.checkpoint} could not be written: {error}",
                checkpoints.CheckpointWarning, stacklevel=2,
            )

    def _restore(self, saved: checkpoints.Saved) -> None:
        self.nodes, self.pruned = saved.count("nodes"), saved.count("pruned")
        self.probes, self.created = saved.count("probes"), saved.count("created")
        self.explored, self.settled = saved.seconds("explored"), saved.number("settled")
        self.root_bound = saved.number("root_bound")
        self.seconds_before = saved.seconds("seconds")
        self.relaxation_seconds += saved.seconds("relaxation_seconds")
        self.work.update(saved.work())
        saved.notes(self.problem.recall)
        if isinstance(self.rule, PseudoCost):
            self.rule.restore(saved.pseudocosts())
        for node in saved.open_nodes(self.problem.decode):
            self.queue.push(node)
        x = saved.solution()
        if x is not None:
            self._restore_incumbent(x, saved)

    def _restore_incumbent(self, x: np.ndarray, saved: checkpoints.Saved) -> None:
        try:
            objective, violation = self.problem.check(x)
        except (ValueError, IndexError) as error:
            raise saved.damaged(f"its solution x: {error}") from None
        if not violation <= self.options.feasibility:
            raise saved.damaged(f"its solution x breaks the constraints by {violation:g}")
        if self.tolerance.crossed(objective, min(self.settled, self.queue.lowest_bound())):
            raise saved.damaged("its bounds lie above the objective of its solution x")
        self._offer("S", x)
