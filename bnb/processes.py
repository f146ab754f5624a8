"""Processes of this machine as an executor."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager, suppress
from typing import Any

from loky import ProcessPoolExecutor

_ENVIRONMENT = {"LOKY_MAX_MEMORY_LEAK_SIZE": "1e18"}
"""loky takes a process that has grown by 300 MB for one that leaks, and replaces it; a search grows
with its tree, and `memory_limit` is what bounds it."""


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Processes started here leave Ctrl-C, which reaches all of a terminal's, to this one.

    They would otherwise die with a page of tracebacks each.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def begin(parent: int) -> None:
    """What a process does first: leave Ctrl-C to its parent, and end when that is gone.

    A parent that was killed cannot end its children, and loky's would wait for minutes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Processes(Executor):
    """So many processes, each in a pool of its own: one that dies does not take the others along.

    Parameters
    ----------
    count : int
    """

    def __init__(self, count: int) -> None:
        self._pools: list[ProcessPoolExecutor | None] = [None] * count
        self._pending = [0] * count
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def start_in(self, seconds: float, fn: Callable[..., Any], *args: Any) -> None:
        """Let all of them call the function after a while, whatever this one is busy with then."""
        self._timer = threading.Timer(seconds, self._start, (fn, *args))
        self._timer.daemon = True
        self._timer.start()

    def _start(self, fn: Callable[..., Any], *args: Any) -> None:
        if hasattr(signal, "pthread_sigmask"):  # of this thread, and inherited: see `begin`
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        with suppress(Exception):  # whoever submits something will hear of it
            for place in range(len(self._pools)):
                self._call(place, fn, *args)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Let the process with least to do call the function."""
        place = min(range(len(self._pools)), key=self._pending.__getitem__)
        future = self._call(place, fn, *args, **kwargs)
        self._pending[place] += 1
        future.add_done_callback(lambda _: self._done(place))
        return future

    def _call(self, place: int, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        with self._lock:
            pool = self._pools[place]
            if pool is not None:
                try:
                    return pool.submit(fn, *args, **kwargs)
                except BrokenExecutor:
                    pool.shutdown(wait=False)
            pool = ProcessPoolExecutor(
                max_workers=1, initializer=begin, initargs=(os.getpid(),), env=_ENVIRONMENT
            )
            self._pools[place] = pool
            with interrupts_ignored():  # the process starts with the first call
                return pool.submit(fn, *args, **kwargs)

    def _done(self, place: int) -> None:
        self._pending[place] -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, whatever they are at: to let them leave by themselves takes longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        for pool in filter(None, self._pools):
            pool.shutdown(wait=wait, kill_workers=True)
