"""The options of a search, checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from . import memory
from .branching import UserRule
from .queue import SELECTIONS

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
    workers: int | None = None
    executor: Executor | None = None
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
        for name, least in (("workers", 1), ("seed", 0), ("node_limit", 1)):
            value = getattr(self, name)
            if name != "seed" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
        if self.executor is not None and not isinstance(self.executor, Executor):
            raise ValueError(
                "executor must be a concurrent.futures.Executor, such as "
                f"dask.distributed.Client(...).get_executor(), got {self.executor!r}"
            )
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


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(value)
