"""Compiles what a search needs before its clock runs."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np
from numba.core import event

import bnb
from bnb import Reason

from .instance import Instance
from .problem import BY_GAMES, CSVMProblem
from .settings import Settings

__all__ = ["warm_up"]


class _Messenger(event.Listener):
    """Says once that something is compiled; what comes from the cache on disk is not."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        """See `numba.core.event.Listener`."""
        if not self._said:
            self._said = True
            print("csvm: compiling, once for this installation ...", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


@cache
def warm_up(is_factor: bool, both_classes: bool) -> None:
    """Solve a tiny problem by every search that there is for such a problem, once a process.

    Parameters
    ----------
    is_factor : bool
        For a kernel that is kept as a factor.
    both_classes : bool
        For rates on both classes.
    """
    X, y = np.random.default_rng(0).normal(size=(24, 2)), np.tile([1.0, -1.0], 12)
    kernel = X if is_factor else np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1))
    weights = np.array([y[12:] > 0, y[12:] < 0], dtype=float)[: 1 + both_classes]
    required = np.full(len(weights), 4.0)
    data = Instance(kernel, y, np.ones(12), weights, required, is_factor=is_factor)
    with event.install_listener("numba:compile", _Messenger()):
        for search in ("convex", *BY_GAMES):
            problem = CSVMProblem(data, settings=Settings(begin_with=search, chances=()))
            if problem.notes()["search"] != search:
                continue  # there is no such search for this kind
            result = bnb.solve(problem, branching="first", node_limit=20)
            if result.reason is Reason.INTERRUPT:  # that was meant for whoever waits for this
                raise KeyboardInterrupt
