"""Tasks on all cores or on a cluster, each finished one stored at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from joblib import Parallel, delayed, parallel_config

from ..progress import Progress
from ..store import Store
from .tasks import Task

__all__ = ["Runner", "cluster"]


@contextmanager
def cluster(address: str) -> Iterator[int]:
    """Let joblib use the dask cluster at this address; gives its number of cores."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(
            "a cluster needs dask.distributed: pip install 'csvm[cluster]'"
        ) from None
    try:
        client = Client(address, timeout="5s")
    except (OSError, ValueError) as error:
        raise RuntimeError(f"no dask scheduler answers at {address}: {error}") from None
    with client, parallel_config(backend="dask"):
        cores = sum(client.ncores().values())
        if cores == 0:
            raise RuntimeError(f"the dask scheduler at {address} has no workers")
        yield cores


class Runner:
    """Does what is not in the store yet.

    Parameters
    ----------
    store : Store
    jobs : int
        Tasks at once.
    progress : Progress
    """

    def __init__(self, store: Store, jobs: int, progress: Progress) -> None:
        self.store = store
        self.jobs = jobs
        self.progress = progress

    def __call__(self, step: str, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """Results of the tasks, in their order.

        Parameters
        ----------
        step : str
            What to call the work in the progress line.
        tasks : sequence of Task
        """
        keys = [task.key for task in tasks]
        missing = [
            (key, task) for key, task in zip(keys, tasks, strict=True) if key not in self.store
        ]
        known = [
            (task.group, self.store[key]["seconds"])
            for key, task in zip(keys, tasks, strict=True) if key in self.store
        ]
        # One task per batch: a batch would be lost as a whole when the run is killed.
        parallel = Parallel(n_jobs=self.jobs, batch_size=1, return_as="generator_unordered")
        names = dict(missing)
        left = [task.group for _, task in missing]
        with self.progress.step(step, known, left, self.jobs) as advance:
            with _interrupts_ignored():
                finished = parallel(delayed(_run)(key, task) for key, task in missing)
            for key, result in finished:
                self.store.add(key, names[key].describe(), result)
                advance(names[key].group, result["seconds"])
        return [self.store[key] for key in keys]


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
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


def _run(key: str, task: Task) -> tuple[str, dict[str, Any]]:
    return key, task.run()
