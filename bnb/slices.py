"""A worker's part: search on from some open nodes for a while, and report.

Between two slices a worker keeps nothing but problems, so any process may search any slice, and one
that is lost takes nothing along but the time it has spent.
"""

from __future__ import annotations

import os
import pickle
import platform
import threading
import time
import traceback
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relaxations import OutOfTimeError

from . import memory
from .branching import PseudoCost
from .options import Options
from .packing import pack, portable, unpack_problem
from .problem import Problem
from .queue import Node
from .result import Reason
from .search import Search, one_blas_thread

_KEPT = 2  # problems that a process keeps: more than one search may use it


@dataclass(frozen=True)
class Slice:
    """Open nodes, and all that it takes to search on from them.

    Parameters
    ----------
    key : str
        Which problem.
    problem : bytes or None
        The problem itself, for a worker that does not have it.
    notes : object
        For `Problem.recall`.
    options : Options
        With the time and the nodes that are left.
    nodes : list of Node
        Packed.
    incumbent : (x, objective, violation) or None
    created : int
        Nodes that were ever made, to number the new ones.
    pseudocosts : list
        What `PseudoCost.state` gave.
    seconds : float
        When to come back; a node that is under way is finished first.
    """

    key: str
    problem: bytes | None
    notes: Any
    options: Options
    nodes: list[Node]
    incumbent: tuple[np.ndarray, float, float] | None
    created: int
    pseudocosts: list[list[float]]
    seconds: float


@dataclass(frozen=True)
class Place:
    """The process that did the work, and the memory it has resident."""

    host: str
    process: int
    mib: float

    @staticmethod
    def here() -> Place:
        """This process."""
        return Place(platform.node(), os.getpid(), memory.resident_mib() or 0.0)


@dataclass
class Report:
    """What became of the nodes of a slice.

    Parameters
    ----------
    place : Place
    left : list of Node
        New open nodes, packed.
    kept : list of int
        Numbers of the given nodes that are still open.
    settled, root_bound, explored
        As in `Tree`, of this slice alone.
    nodes, pruned, probes, created, steps : int
        Counted; `steps` are evaluations.
    seconds, relaxation_seconds : float
    work : Counter
    pseudocosts : list
        Observations made.
    solution : (source, x) or None
        The best, if it is better than the incumbent.
    rows : list
        Of `Result.tree`.
    reason : Reason or None
        TIME or MEMORY, if that ended it.
    error : Exception or None
        Raised by the problem.
    trace : str
        Where.
    """

    place: Place
    left: list[Node] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    settled: float = np.inf
    root_bound: float = -np.inf
    explored: float = 0.0
    nodes: int = 0
    pruned: int = 0
    probes: int = 0
    created: int = 0
    steps: int = 0
    seconds: float = 0.0
    relaxation_seconds: float = 0.0
    work: Counter[str] = field(default_factory=Counter)
    pseudocosts: list[list[float]] = field(default_factory=list)
    solution: tuple[str, np.ndarray] | None = None
    rows: list[tuple[int, int, float, str]] = field(default_factory=list)
    reason: Reason | None = None
    error: Exception | None = None
    trace: str = ""


class _Shelf:
    """The problems that this process has, a copy for every thread that needs one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: OrderedDict[str, bytes] = OrderedDict()
        self._idle: dict[str, list[Problem]] = {}

    def put(self, key: str, data: bytes) -> None:
        with self._lock:
            self._bytes[key] = data
            self._bytes.move_to_end(key)
            while len(self._bytes) > _KEPT:
                self._idle.pop(self._bytes.popitem(last=False)[0], None)

    def take(self, key: str) -> Problem | None:
        with self._lock:
            data = self._bytes.get(key)
            if data is None:
                return None
            self._bytes.move_to_end(key)
            idle = self._idle.get(key)
            if idle:
                return idle.pop()
        return unpack_problem(data)

    def give_back(self, key: str, problem: Problem) -> None:
        with self._lock:
            if key in self._bytes:
                self._idle.setdefault(key, []).append(problem)

    def forget(self, key: str) -> None:
        with self._lock:
            self._bytes.pop(key, None)
            self._idle.pop(key, None)


_shelf = _Shelf()
forget = _shelf.forget


def meet(kind: bytes) -> None:
    """Import what problems of this class need, while there is nothing to do yet."""
    pickle.loads(kind)


def keep(key: str, problem: bytes) -> None:
    """Let this process have the problem, ready to be searched."""
    _shelf.put(key, problem)
    _shelf.give_back(key, unpack_problem(problem))


def run(part: Slice) -> Report | None:
    """Search the slice; None if the problem is not known here."""
    memory.keep_freed()
    if part.problem is not None:
        _shelf.put(part.key, part.problem)
    problem = _shelf.take(part.key)
    if problem is None:
        return None
    with one_blas_thread():
        report = _SliceSearch(problem, part).report()
    _shelf.give_back(part.key, problem)
    return report


class _SliceSearch(Search):
    """The search below the nodes of a slice."""

    def __init__(self, problem: Problem, part: Slice) -> None:
        super().__init__(problem, part.options)
        self.end = self.started + part.seconds
        self.steps = 0
        self.begun = True
        self.given = {node.number for node in part.nodes}
        self.created = self.first = part.created
        if part.incumbent is not None:
            self.x, self.objective, self.violation = part.incumbent
            self.tree.queue.found_incumbent()
        self.known = self.objective
        for node in part.nodes:
            self.tree.queue.push(node)
        if part.notes is not None:
            problem.recall(part.notes)
        if isinstance(self.rule, PseudoCost):
            self.rule.add(part.pseudocosts)
            self.before = part.pseudocosts

    def _explore(self) -> None:
        while self.tree.queue and not self._finished():
            self._step()
            self.steps += 1
            if time.monotonic() >= self.end:
                break

    def report(self) -> Report:
        """Search, and say what came of it."""
        error: Exception | None = None
        trace = ""
        try:
            self._explore()
        except KeyboardInterrupt:  # that is for the supervisor to hear
            pass
        except OutOfTimeError:
            self.reason = Reason.TIME
        except Exception as raised:
            error, trace = portable(raised), traceback.format_exc()
        open_nodes = [node for node in self.tree.queue if self._worth(node)]
        gains = self.rule.since(self.before) if isinstance(self.rule, PseudoCost) else []
        return Report(
            Place.here(),
            left=[pack(node) for node in open_nodes if node.number not in self.given],
            kept=[node.number for node in open_nodes if node.number in self.given],
            settled=self.tree.settled, root_bound=self.tree.root_bound,
            explored=self.tree.explored, nodes=self.nodes, pruned=self.pruned, probes=self.probes,
            created=self.created - self.first, steps=self.steps,
            seconds=time.monotonic() - self.started,
            relaxation_seconds=self.relaxation_seconds, work=self.work, pseudocosts=gains,
            solution=(self.source, self.x)
            if self.x is not None and self.objective < self.known else None,
            rows=self.rows, error=error, trace=trace,
            reason=self.reason if self.reason in (Reason.TIME, Reason.MEMORY) else None,
        )
