"""Runs jobs (instance, solver, formulation): a row each, finished ones not repeated."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bnb
from csvm.laboratory import laboratory
from csvm.search import compiled
from csvm.store import Store, StoreError

from .families import (
    SUBSET_FAMILIES,
    Benchmark,
    integer_squares,
    sparse_regression,
    subset_problem,
)
from .instances import portfolio_problem, random_portfolio
from .measures import disagreements, primal_dual_integral, relative_gap
from .model import objective_scale
from .peers import PEERS, Answer, Peer, PeerError, TooLargeError, ask

GAP = 1e-4
OURS = "csvm"
FEASIBLE = 1e-4  # largest violation of a point that counts: a row's 1e-6 times M = 100
TOO_LARGE = "too large for the licence"
INACCURATE = "violates its rows"


@dataclass
class Row:
    """A row of the results.

    The objective is recomputed from the solver's point on the original problem, `violation` is
    what that point violates there, and `trajectory` tells whether `integral` comes from bounds over
    time or from the end alone. `load` is the machine's load average when the run began: about one
    where nothing else ran.
    """

    family: str
    instance: str
    digest: str
    solver: str
    version: str
    formulation: str
    variables: int
    rows: int
    limit: float
    status: str
    objective: float = np.inf
    violation: float = np.nan
    bound: float = -np.inf
    gap: float = 1.0
    nodes: float = np.nan
    seconds: float = np.nan
    integral: float = np.nan
    trajectory: bool = False
    relaxation_seconds: float = np.nan
    load: float = np.nan

    @property
    def solved(self) -> bool:
        return self.status == "optimal"

    @property
    def taken(self) -> bool:
        """Whether the solver ran on it at all."""
        return np.isfinite(self.seconds)


@dataclass(frozen=True)
class Job:
    """One run of one solver."""

    instance: Benchmark
    solver: str
    formulation: str
    limit: float

    @property
    def key(self) -> str:
        return json.dumps([self.instance.digest, self.solver, self.formulation, self.limit])

    @property
    def group(self) -> str:
        return self.solver

    def describe(self) -> dict[str, Any]:
        return {"instance": f"{self.instance.family}: {self.instance.name}"}

    def run(self) -> dict[str, Any]:
        begin = time.perf_counter()
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else np.nan  # not on Windows
        row = self.row()
        row.load = load
        return {"row": asdict(row), "seconds": time.perf_counter() - begin}

    def row(self) -> Row:
        if self.solver == OURS:
            return self._run_ours()
        peer = PEERS[self.solver]
        model, point = self.instance.formulations[self.formulation]()
        scale = objective_scale(model) if self.instance.small_objective else 1.0
        row = self._row(peer.version or "", *model.size)
        try:
            answer = ask(peer, model.scaled(scale), self.limit, GAP)
        except TooLargeError:
            row.status = TOO_LARGE
            return row
        except PeerError as error:
            row.status = f"failed: {error}"
            return row
        problem = self.instance.problem()
        if answer.x is not None:
            row.objective, row.violation = problem.check(point(answer.x))
        return _judged(row, answer, scale, peer)

    def _row(self, version: str, variables: int, rows: int) -> Row:
        return Row(
            self.instance.family, self.instance.name, self.instance.digest, self.solver, version,
            self.formulation, variables, rows, self.limit, "",
        )

    def _run_ours(self) -> Row:
        problem = self.instance.problem()
        result = bnb.solve(problem, gap=GAP, time_limit=self.limit, **self.instance.options)
        size = problem.A.shape[::-1] if isinstance(problem, bnb.MIQP) else problem.size
        row = self._row(our_version(), *size)
        row.relaxation_seconds = result.relaxation_seconds
        row.objective, row.violation = result.objective, result.violation
        answer = Answer(
            "limit" if result.reason is bnb.Reason.TIME else result.status.value, result.x,
            result.bound, result.nodes, result.seconds,
            [(r.seconds, r.objective, r.bound) for r in result.trace],
        )
        return _judged(row, answer, 1.0, None)


@functools.cache
def our_version() -> str:
    """The commit, marked where the tree has changes; "unknown" outside a repository."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _judged(row: Row, answer: Answer, scale: float, peer: Peer | None) -> Row:
    """The row with the answer's figures; what it claims is downgraded where the check says no."""
    row.status, row.bound = answer.status, answer.bound / scale
    row.nodes, row.seconds = max(1.0, answer.nodes), answer.seconds  # some do not count the root
    sound = row.violation <= FEASIBLE
    if row.status == "optimal" and not sound:
        row.status = INACCURATE
    row.gap = relative_gap(row.objective if sound else np.inf, row.bound)
    row.trajectory = peer is None or peer.trajectory
    trace = [(s, objective / scale, bound / scale) for s, objective, bound in answer.trace]
    row.integral = primal_dual_integral(
        trace, answer.seconds, 0.0 if row.solved else row.gap, row.limit
    )
    return row


def jobs(instances: Iterable[Benchmark], solvers: list[str], limit: float) -> list[Job]:
    """Ours and every installed peer in every formulation that it can read."""
    found = []
    for instance in instances:
        for solver in solvers:
            if solver == OURS:
                found.append(Job(instance, OURS, "own", limit))
                continue
            if PEERS[solver].subset and instance.family not in SUBSET_FAMILIES:
                continue
            for formulation in instance.formulations:
                if formulation != "indicator" or PEERS[solver].indicators:
                    found.append(Job(instance, solver, formulation, limit))
    return found


def rows_of(path: Path) -> list[Row]:
    """All rows of a file of results."""
    if not path.exists():
        return []
    with Store(path) as store:
        return [_row(result) for result in store.values()]


def run(todo: list[Job], path: Path) -> list[Row]:
    """Run what has no finished row yet, keeping it in the file; all rows that belong to the jobs.

    Refusals and failures are tried again: a licence or a new version may have come since.
    """
    with laboratory(path) as work:
        if any(job.key not in work.store for job in todo):
            warm_up()
        found = work(
            "runs", todo, finished=lambda result: _row(result).taken,
            tell=lambda result: print(_line(_row(result)), flush=True),
        )
    return [_row(result) for result in found]


def _row(result: dict[str, Any]) -> Row:
    try:
        return Row(**result["row"])
    except (KeyError, TypeError):
        raise StoreError("a result has other columns than today's: use another --out") from None


def warm_up() -> None:
    """Compile before any clock runs."""
    bnb.solve_miqp([[1.0]], [0.0], binary=[0])
    bnb.solve(portfolio_problem(*random_portfolio(20, 20), 0.9, k=5), time_limit=60)
    bnb.solve(integer_squares(6))
    bnb.solve(subset_problem(*sparse_regression(60, 0.9, 1.0, 10), 10), time_limit=60)
    for is_factor in (False, True):
        compiled.warm_up(is_factor, both_classes=True)


def _line(row: Row) -> str:
    head = f"{row.instance} | {row.solver} {row.formulation}: {row.status}"
    if not row.taken:
        return head
    return (f"{head}, {row.objective:.8g}, gap {100 * row.gap:.3f} %, {row.nodes:.0f} nodes, "
            f"{row.seconds:.2f} s")


def cross_check(rows: list[Row]) -> list[str]:
    """Every contradiction between two rows of the same instance."""
    found = []
    for digest in dict.fromkeys(row.digest for row in rows):
        mine = [row for row in rows if row.digest == digest and row.taken]
        answers = [
            (f"{row.solver} ({row.formulation})", row.solved,
             row.objective if row.violation <= FEASIBLE else np.inf, row.bound)
            for row in mine
        ]
        found += [f"{mine[0].instance}: {text}" for text in disagreements(answers, GAP)]
    return found
