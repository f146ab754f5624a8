"""Compiles what a search needs before its clock runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from numba.core import event

import bnb
from bnb import Reason

from ..jobs import workers
from .instance import Instance
from .problem import CSVMProblem
from .settings import Settings

__all__ = ["run", "warm_up"]

_GAMES = ("drop", "recourse")
_LONG = 120.0
# By pairs: the active set is what takes longest to compile, and that is being done.
_ELSEWHERE = """
import sys; sys.path[:] = {path!r}
from bnb.processes import begin; begin({parent})
from csvm.search.compiled import run; run(*{games}, node_solver="smo")
"""


class _Messenger(event.Listener):
    """Says once that something is compiled; what comes from the cache on disk is not.

    Parameters
    ----------
    meanwhile : callable
        Called then, too.
    """

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._said, self._meanwhile = False, meanwhile

    def on_start(self, event: Any) -> None:
        """See `numba.core.event.Listener`."""
        if not self._said:
            self._said = True
            print("csvm: compiling, once for this installation ...", file=sys.stderr, flush=True)
            self._meanwhile()

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


class _Helper:
    """Another process that compiles the games into the cache on disk, on another core.

    Where it cannot be had, or fails, they are compiled here.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """If there is a core for it."""
        if workers(-1).get("workers", 1) < 2 or not sys.executable or hasattr(sys, "frozen"):
            return
        code = _ELSEWHERE.format(path=sys.path, parent=os.getpid(), games=_GAMES)
        nowhere = subprocess.DEVNULL
        with suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=nowhere, stdout=nowhere, stderr=nowhere
            )

    def wait(self) -> None:
        """Until it is done, or has taken longer than that can be worth."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LONG)

    def end(self) -> None:
        """Whatever it is at."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@cache
def warm_up(is_factor: bool) -> None:
    """Solve a tiny problem by every search that there is for such kernels, once a process."""
    helper = _Helper()
    messenger = _Messenger() if is_factor else _Messenger(helper.start)
    try:
        with event.install_listener("numba:compile", messenger):
            run("convex", is_factor=is_factor)
            if not is_factor:
                helper.wait()
                run(*_GAMES)
    finally:
        helper.end()


def run(*searches: str, is_factor: bool = False, node_solver: str = "auto") -> None:
    """Solve a tiny problem by these searches."""
    X, y = np.random.default_rng(0).normal(size=(24, 2)), np.tile([1.0, -1.0], 12)
    kernel = X if is_factor else np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1))
    weights = np.array([y[12:] > 0, y[12:] < 0], dtype=float)
    data = Instance(kernel, y, np.ones(12), weights, np.full(2, 4.0), is_factor=is_factor)
    for search in searches:
        settings = Settings(begin_with=search, chances=())
        problem = CSVMProblem(data, node_solver, settings=settings)
        result = bnb.solve(problem, branching="first", node_limit=20)
        if result.reason is Reason.INTERRUPT:  # that was meant for whoever waits for this
            raise KeyboardInterrupt
