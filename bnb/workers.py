"""The supervisor of a search by several workers.

It owns tree, bound, incumbent, limits, log and checkpoint, and deals out open nodes for a slice of
time. Until a worker reports, the nodes that it has stay open here: if it is lost they are dealt out
again, and nothing of what it did has been counted.
"""

from __future__ import annotations

import math
import time
import uuid
import warnings
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, replace
from typing import Any

from relaxations import interruptible

from . import slices
from .branching import PseudoCost
from .options import Options
from .packing import dump, pack, pack_problem
from .problem import Child, Contest, Problem, Standing, Turn
from .processes import Processes
from .queue import Tree
from .result import Reason, Result
from .search import Search
from .slices import Place, Report, Slice

RAMP_UP = 0.3
"""Seconds before processes are started, which takes another: most problems are over by then."""

ALONE = 1.0
"""Seconds of the tree before it is shared: branching rules have learned something by then."""

_SHORTEST, _LONGEST = 0.05, 1.0  # seconds of a slice; new incumbents are told with the next one
_GRACE = 0.5  # seconds to wait for the last reports when a limit is met
_FAILURES = 5  # in a row, per worker, before an executor is given up


class WorkerWarning(UserWarning):
    """A worker was lost; the search goes on without it, and nothing is missing in its result."""


def width(options: Options) -> int:
    """How many parts of the tree are to be searched at a time."""
    executor = options.executor
    if options.workers is not None:
        return int(options.workers)
    if executor is None:
        return 1
    known = getattr(executor, "_max_workers", None)  # of the standard library, and of loky
    if known is None and hasattr(executor, "_client"):  # of dask
        known = sum(executor._client.ncores().values())
    if not known:
        raise ValueError(
            f"workers: {type(executor).__name__} does not say how many workers it has; "
            "give their number"
        )
    return int(known)


@dataclass
class _Flight:
    """A slice that is with a worker."""

    part: Slice
    name: str
    tree: Tree


class ParallelSearch(Search):
    """A search whose tree is dealt out to workers, once that pays.

    Parameters
    ----------
    problem : Problem
    options : Options
    parts : int
        Slices that are out at a time.
    """

    def __init__(self, problem: Problem, options: Options, parts: int) -> None:
        super().__init__(problem, options)
        self.parts = parts
        self.key = ""
        pack_problem(problem)  # better now than after the ramp-up
        if callable(options.branching):
            dump(options.branching)
        self.flying: dict[Future[Any], _Flight] = {}
        self.places: dict[tuple[str, int], Place] = {}
        self.span = _SHORTEST
        self.rate = 1.0  # nodes evaluated in a second by the search alone
        self.rates: dict[str, float] = {}  # and by a worker, of each tree
        self.failures = 0  # in a row
        self.alone_until = math.inf
        self.contest: Contest | None = None
        self.trees: dict[str, Tree] = {}
        self.spent: dict[str, float] = {}

    # -- alone, then together ---------------------------------------------------------------

    def run(self) -> Result:
        """See `Search.run`; processes start while the problem is still presolved."""
        if self.options.executor is not None:
            self.executor: Executor = self.options.executor
            return super().run()
        self.executor = processes = Processes(self.parts)
        processes.start_in(RAMP_UP, slices.meet, dump(type(self.problem)))
        try:
            return super().run()
        finally:
            processes.shutdown()

    def _explore(self) -> None:
        steps, begin = 0, time.monotonic()
        self.alone_until = min(self.alone_until, begin + ALONE)  # also after a restart
        while self._goes_on() and time.monotonic() < self.alone_until:
            self._step()
            self._report()
            steps += 1
        if not self._goes_on():
            return
        if steps:
            self.rate = steps / max(time.monotonic() - begin, 1e-3)
        try:
            self._share()
        finally:
            self._bring_back()
            slices.forget(self.key)
        if self.failures:  # the executor is no longer of use
            super()._explore()

    def _goes_on(self) -> bool:
        return bool(self.tree.queue) and not self._finished()

    def _share(self) -> None:
        self.key = uuid.uuid4().hex  # after a restart it is another problem
        self.payload = pack_problem(self.problem)
        try:
            ready = [
                self.executor.submit(slices.keep, self.key, self.payload) for _ in range(self.parts)
            ]
        except Exception as error:
            return self._give_up(error)
        self._go_on_until(ready)
        self._open_contest()
        while self.tree.open and not self._finished() and self.failures < self._most_failures:
            self._hand_out()
            for future in wait(self.flying, timeout=0.1, return_when=FIRST_COMPLETED).done:
                self._take_in(future)
            interruptible.put_back_handler()  # workers may be threads of this process
            self._report()
        if self.reason is not Reason.GAP:
            for future in wait(self.flying, timeout=_GRACE).done:
                self._take_in(future)

    def _go_on_until(self, ready: list[Future[None]]) -> None:
        """Search on while workers get ready."""
        while self._goes_on() and not all(future.done() for future in ready):
            self._step()
            self._report()

    @property
    def _most_failures(self) -> int:
        return _FAILURES * self.parts

    # -- several trees ----------------------------------------------------------------------

    def _open_contest(self) -> None:
        """Give every tree of the problem its place."""
        self.contest = self.problem.contest(self.parts)
        self.trees, self.spent = {self._leader: self.tree}, {self._leader: 0.0}
        if self.contest is None:
            return
        for name, known in self.contest.contenders().items():
            self.spent[name] = known.seconds
            if name != self._leader:
                self.trees[name] = tree = Tree(self.options.selection)
                tree.settled = known.settled
                self._plant(tree, known.children)

    @property
    def _leader(self) -> str:
        return "" if self.contest is None else self.contest.leader

    def _next_turn(self) -> Turn:
        """Which tree a worker should go on with; the best becomes that of the search."""
        if self.contest is None:
            return Turn("")
        out = dict.fromkeys(self.trees, 0.0)
        for flight in self.flying.values():
            out[flight.name] += flight.part.seconds
        standing = {
            name: Standing(tree.bound(), self.spent[name], tree.open, out[name])
            for name, tree in self.trees.items()
        }
        turn = self.contest.next(standing, self.cutoff)
        leading = self.trees[self.contest.leader]
        if leading is not self.tree:
            self.tree, leading.root_bound = leading, leading.bound()
        if turn.name not in self.trees:
            self.trees[turn.name], self.spent[turn.name] = Tree(self.options.selection), 0.0
            self._plant(self.trees[turn.name], [Child(self.problem.root(), -math.inf)])
        return turn if self.trees[turn.name].queue else Turn(self.contest.leader)

    # -- out and in -------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """Deal nodes to the workers that have none, for as long as there are any."""
        if len(self.flying) == self.parts:
            return
        starved = False
        for idle in range(self.parts - len(self.flying), 0, -1):
            turn = self._next_turn()
            left = self._nodes_left()
            queue = self.trees[turn.name].queue
            if not queue or left <= 0:
                starved = True
                break
            share = math.ceil(len(queue) / idle)
            seconds = min(self.span, turn.seconds)
            rate = self.rates.get(turn.name, self.rate)
            count = max(1, min(share, math.ceil(rate * seconds)))
            flight = self._flight(turn.name, count, seconds, max(left / idle, 1.0))
            if not self._submit(flight):
                break
        grow = 0.5 if starved and self.flying else 1.2
        self.span = min(max(self.span * grow, _SHORTEST), _LONGEST)

    def _nodes_left(self) -> float:
        limit = self.options.node_limit
        if limit is None:
            return math.inf
        out = sum(flight.part.options.node_limit or 0 for flight in self.flying.values())
        return limit - self.nodes - out

    def _flight(self, name: str, count: int, seconds: float, node_limit: float) -> _Flight:
        tree = self.trees[name]
        nodes = [pack(tree.queue.pop()) for _ in range(count)]
        tree.away.update((node.number, node) for node in nodes)
        options = replace(
            self.options, workers=1, executor=None, start=None, on_node=None, on_incumbent=None,
            verbose=0, log_stream=None, checkpoint=None, resume=False,
            time_limit=max(self.deadline - time.monotonic(), 1e-3),
            node_limit=None if node_limit == math.inf else int(node_limit),
            memory_limit=max(self._memory_for_worker(), 1.0),
            seed=self.options.seed + self.created,  # workers should not all draw the same
        )
        known = None if self.x is None else (self.x, self.objective, self.violation)
        pseudocosts = self.rule.state() if isinstance(self.rule, PseudoCost) else []
        notes = None if self.contest is None else self.contest.notes(name)
        part = Slice(
            self.key, None, notes, options, nodes, known, self.created, pseudocosts, seconds
        )
        return _Flight(part, name, tree)

    def _submit(self, flight: _Flight) -> bool:
        try:
            future = self.executor.submit(slices.run, flight.part)
        except Exception as error:
            self._lose(flight, error)
            return False
        self.flying[future] = flight
        return True

    def _take_in(self, future: Future[Any]) -> None:
        flight = self.flying.pop(future)
        try:
            report = future.result()
        except Exception as error:
            return self._lose(flight, error)
        if report is None:  # a worker that has just come
            flight.part = replace(flight.part, problem=self.payload)
            self._submit(flight)
        else:
            self.failures = 0
            self._absorb(flight, report)

    def _absorb(self, flight: _Flight, report: Report) -> None:
        """Count what a worker has done; from now on its nodes are no longer with it."""
        tree, first = flight.tree, flight.part.created
        shift = self.created - first
        self.created += report.created
        kept = set(report.kept)
        for node in flight.part.nodes:
            del tree.away[node.number]
            if node.number in kept:
                tree.queue.push(node)

        def number(old: int) -> int:
            return old + shift if old > first else old

        for node in report.left:
            tree.queue.push(replace(node, number=number(node.number), parent=number(node.parent)))
        tree.settle(report.settled)
        tree.explored += report.explored
        tree.root_bound = max(tree.root_bound, report.root_bound)
        self.spent[flight.name] += report.seconds
        self.relaxation_seconds += report.relaxation_seconds
        self.work.update(report.work)
        self.probes += report.probes
        self.pruned += report.pruned
        self.nodes += report.nodes
        self.rows += [(number(a), number(b), bound, fate) for a, b, bound, fate in report.rows]
        if isinstance(self.rule, PseudoCost):
            self.rule.add(report.pseudocosts)
        if report.steps:
            now = report.steps / max(report.seconds, 1e-3)
            self.rates[flight.name] = 0.5 * (self.rates.get(flight.name, now) + now)
        self._remember(report.place)
        if report.error is not None:
            raise report.error from RuntimeError(f"in a worker:\n{report.trace}")
        if report.solution is not None:
            self._offer(*report.solution)
        self.reason = self.reason or report.reason
        self._call(self.options.on_node)

    def _lose(self, flight: _Flight, error: Exception) -> None:
        """The nodes of a worker that is gone are open as before."""
        self.failures += 1
        self._return(flight)
        if self.failures >= self._most_failures:
            return self._give_up(error)
        warnings.warn(
            f"a worker was lost ({type(error).__name__}: {error}); the {len(flight.part.nodes)} "
            "nodes that it had are searched again", WorkerWarning, stacklevel=2,
        )

    def _give_up(self, error: Exception) -> None:
        self.failures = self._most_failures
        warnings.warn(
            f"workers fail again and again ({type(error).__name__}: {error}): the search goes on "
            "in this process alone", WorkerWarning, stacklevel=2,
        )

    def _return(self, flight: _Flight) -> None:
        for node in flight.part.nodes:
            flight.tree.queue.push(flight.tree.away.pop(node.number))

    def _bring_back(self) -> None:
        """Whatever the workers still have stays open."""
        for future, flight in self.flying.items():
            future.cancel()
            self._return(flight)
        self.flying.clear()

    # -- memory -----------------------------------------------------------------------------

    def _remember(self, place: Place) -> None:
        """How much memory each process has; those that are gone are no longer among the last."""
        name = place.host, place.process
        self.places.pop(name, None)
        self.places[name] = place
        while len(self.places) > self.parts:
            del self.places[next(iter(self.places))]

    def _memory_elsewhere(self) -> list[float]:
        here = Place.here()
        return [p.mib for name, p in self.places.items() if name != (here.host, here.process)]

    def _memory_for_worker(self) -> float:
        """What the others leave to one: to the largest, since any of them may take a slice."""
        limit, elsewhere = self.options.memory_limit, self._memory_elsewhere()
        if not elsewhere:  # threads of this process, or nobody has reported yet
            return limit
        return limit - super()._memory_in_use() - (sum(elsewhere) - max(elsewhere))

    def _memory_in_use(self) -> float:
        return super()._memory_in_use() + sum(self._memory_elsewhere())
