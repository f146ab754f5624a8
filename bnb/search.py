"""The branch-and-bound loop.

The engine knows nodes, bounds and incumbents; all mathematics is behind `bnb.problem.Problem`.
Its promise: the final bound is the smallest certified bound over everything that was ever cut off,
closed or left open, so OPTIMAL can only be said when that bound meets a checked incumbent.
"""

from __future__ import annotations

import functools
import math
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from relaxations import OutOfTimeError

from . import checkpoint as checkpoints
from . import memory
from .branching import PseudoCost, make_rule
from .log import SearchLog
from .options import STOP, Callback, Options, Progress
from .packing import unpack
from .problem import (
    Candidate,
    Child,
    Evaluation,
    Goal,
    Problem,
    RestartError,
    UnboundedError,
)
from .queue import Node, Tree
from .result import Reason, Result, Status, Tolerance, TraceRow, relative_gap

_SAVING = 20.0  # times as long as writing a checkpoint took, until the next one at least


@functools.cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries in use; looking for them takes milliseconds."""
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Small matrices: BLAS threads only get in the way of each other and of other workers."""
    return _blas().limit(limits=1, user_api="blas")


class Search:
    """One run: the tree, the incumbent and the counters."""

    def __init__(self, problem: Problem, options: Options) -> None:
        self.problem = problem
        self.options = options
        # Taken before the search, which may leave notes in the problem.
        self.fingerprint = problem.fingerprint() if options.checkpoint is not None else ""
        self.tolerance = Tolerance(options.gap, options.absolute_gap)
        self.rule = make_rule(options.branching)
        self.tree = Tree(options.selection)
        self.log = SearchLog(options.verbose, options.log_stream)
        self.x: np.ndarray | None = None
        self.objective = math.inf
        self.violation = math.inf
        self.source = "S"  # of the incumbent
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
        self.rows: list[tuple[int, int, float, str]] = []
        self.started = self.saved = time.monotonic()
        self.save_seconds = 0.0  # that the last checkpoint took
        self.deadline = self.started + options.time_limit

    # -- the loop ---------------------------------------------------------------------------

    def run(self) -> Result:
        """Search until the gap is closed or a limit is met, and report."""
        self.log.start(f"Branch and bound: {self.problem}")
        with self._graceful_interrupt():
            try:
                self._begin()
                while not self._search():
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
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    def _begin(self) -> None:
        if self.options.start is not None:
            self._offer_start()
        path = self.options.checkpoint
        saved: dict[str, Any] | None = None
        if self.options.resume and path is not None and Path(path).exists():
            saved = checkpoints.read(Path(path), self.fingerprint)
        prepared = self._prepare()
        if saved is not None:
            try:
                self._restore(saved)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise ValueError(f"resume: {path} does not fit the problem: {error}") from error
        else:
            self.tree.root_bound = prepared
            self.tree.queue.push(Node(self.problem.root(), prepared))
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

    def _search(self) -> bool:
        """Work on the open nodes; False if the problem asks to go on with another tree."""
        try:
            self._explore()
        except RestartError as restart:
            self._begin_anew(restart)
            return False
        return True

    def _begin_anew(self, restart: RestartError) -> None:
        self.tree, self.current = Tree(self.options.selection), None
        self.tree.settled, self.tree.root_bound = restart.settled, restart.bound
        self._plant(self.tree, restart.children)
        for source, x in restart.solutions:
            self._offer(source, x)

    def _plant(self, tree: Tree, children: list[Child]) -> None:
        """Open nodes of a tree of the whole problem."""
        for state, bound in children:
            self.created += 1
            weight = 1.0 / len(children)
            tree.queue.push(Node(state, bound, number=self.created, weight=weight))

    def _explore(self) -> None:
        while self.tree.queue and not self._finished():
            self._step()
            self._report()

    def _step(self) -> None:
        """Take the next node, and evaluate and split it if it is worth it."""
        node = unpack(self.tree.queue.pop())
        try:
            if self._worth(node):
                self._process(node, self._evaluate(node, self._goal()))
        except BaseException:
            self.tree.queue.push(node)  # an interrupted node stays open: its bound still counts
            raise

    def _worth(self, node: Node) -> bool:
        if node.bound < self.cutoff:
            return True
        self.pruned += 1
        self._close(node, node.bound, "pruned")
        return False

    def _evaluate(self, node: Node, goal: Goal) -> Evaluation:
        if node.evaluation is not None:  # probed already by strong branching
            return node.evaluation
        begin = time.perf_counter()
        evaluation = self.problem.evaluate(node.state, goal)
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
            self.tree.settle(evaluation.removed)
        node.bound = max(node.bound, evaluation.bound)
        if node.number == 0:
            self.tree.root_bound = min(node.bound, evaluation.removed)
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
                self.tree.settle(child.evaluation.removed)
            self.tree.queue.push(child)
        if not children:
            self.tree.explored += node.weight
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
            found = self._evaluate(child, goal)
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
        self.source = source
        self.tree.queue.found_incumbent()
        self._note(source)
        self._call(self.options.on_incumbent)

    def _close(self, node: Node, bound: float, fate: str) -> None:
        self.tree.settle(bound)
        self.tree.explored += node.weight
        self._record(node, fate)

    def _record(self, node: Node, fate: str) -> None:
        if self.options.keep_tree:
            self.rows.append((node.number, node.parent, node.bound, fate))

    def _bound(self) -> float:
        if not self.begun:  # presolve may offer solutions before there is a root
            return -math.inf
        known = self.tree.bound()
        return known if self.current is None else min(known, self.current.bound)

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
        return limit < math.inf and self._memory_in_use() >= limit

    def _memory_in_use(self) -> float:
        return memory.resident_mib() or 0.0

    def _seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.started

    def _call(self, callback: Callback | None) -> None:
        if callback is None:
            return
        progress = Progress(
            self.nodes, self.tree.open, min(self._bound(), self.objective), self.objective,
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
            self._seconds(), self.nodes, bound, self.objective, self.tree.open, source
        )
        self.trace.append(row)
        self.log.row(
            source, row.nodes, row.open, self.tree.explored, bound, row.objective, row.seconds
        )

    def _report(self) -> None:
        bound = min(self._bound(), self.objective)
        if not self.trace or bound > self.trace[-1].bound:
            self._note("")
        # A large tree takes long to write: let that be a small part of the time.
        interval = max(self.options.checkpoint_interval, _SAVING * self.save_seconds)
        if self.options.checkpoint is not None and time.monotonic() - self.saved > interval:
            self._save()

    def _result(self) -> Result:
        bound = self._bound()
        exhausted = not self.tree.open
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
            root_bound=self.tree.root_bound, violation=self.violation, nodes=max(self.nodes, 1),
            open=self.tree.open, pruned=self.pruned, probes=self.probes,
            seconds=self._seconds(), relaxation_seconds=self.relaxation_seconds,
            work=dict(self.work),
            trace=self.trace, tree=self.rows,
        )

    # -- checkpoints ------------------------------------------------------------------------

    def _save(self) -> None:
        begin = time.monotonic()
        number = checkpoints.encode_float
        tree = self.tree
        data = {
            "nodes": self.nodes, "pruned": self.pruned, "probes": self.probes,
            "created": self.created, "explored": tree.explored,
            "settled": number(tree.settled), "root_bound": number(tree.root_bound),
            "seconds": self._seconds(), "relaxation_seconds": self.relaxation_seconds,
            "work": dict(self.work), "notes": self.problem.notes(),
            "x": None if self.x is None else self.x.tolist(),
            "pseudocosts": self.rule.state() if isinstance(self.rule, PseudoCost) else [],
            "open": [
                [self.problem.encode(unpack(n).state), number(n.bound), n.depth, n.number, n.parent,
                 n.weight]
                for n in tree
            ],
        }
        try:
            checkpoints.write(Path(str(self.options.checkpoint)), self.fingerprint, data)
        except OSError as error:  # no reason to lose the search itself
            warnings.warn(
                f"the checkpoint {self.options.checkpoint} could not be written: {error}",
                checkpoints.CheckpointWarning, stacklevel=2,
            )
        self.saved = time.monotonic()
        self.save_seconds = self.saved - begin

    def _restore(self, saved: dict[str, Any]) -> None:
        self.nodes, self.pruned = saved["nodes"], saved["pruned"]
        self.probes, self.created = saved["probes"], saved["created"]
        tree = self.tree
        tree.explored, tree.settled = saved["explored"], float(saved["settled"])
        tree.root_bound = float(saved["root_bound"])
        self.seconds_before = saved["seconds"]
        self.relaxation_seconds += saved["relaxation_seconds"]
        self.work.update(saved["work"])
        self.problem.recall(saved["notes"])
        if isinstance(self.rule, PseudoCost):
            self.rule.add(saved["pseudocosts"])
        for state, bound, *numbers in saved["open"]:
            tree.queue.push(Node(self.problem.decode(state), float(bound), *numbers))
        if saved["x"] is not None:
            self._restore_incumbent(np.array(saved["x"], dtype=float))

    def _restore_incumbent(self, x: np.ndarray) -> None:
        """It was checked before, but maybe by other code."""
        objective, violation = self.problem.check(x)
        if not violation <= self.options.feasibility:
            raise ValueError(f"its solution x breaks the constraints by {violation:g}")
        if self.tolerance.crossed(objective, self.tree.bound()):
            raise ValueError("its bounds lie above the objective of its solution x")
        self._offer("S", x)
