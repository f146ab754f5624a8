"""How many processes a search may use: `n_jobs` in joblib's words, in the engine's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from typing import Any

from joblib import Parallel, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend

from bnb.processes import begin


def workers(n_jobs: int | None) -> dict[str, Any]:
    """Options of `bnb.solve` for this many jobs.

    Inside a job of somebody else, such as a grid search that runs several, it is one: whoever
    started that has dealt out the processors.
    """
    backend, _ = get_active_backend()
    if backend.nesting_level or parent_process() is not None:
        return {}
    jobs = effective_n_jobs(n_jobs)
    if hasattr(backend, "client"):  # of dask, which answers for the whole cluster
        jobs = min(jobs, n_jobs) if n_jobs is not None and n_jobs > 0 else jobs
        return {"workers": jobs, "executor": backend.client.get_executor()}
    return {"workers": jobs}


def parallel(n_jobs: int, **options: Any) -> Parallel:
    """Joblib's runner on the cluster in use, or on processes that end with this one."""
    backend, _ = get_active_backend()
    if not hasattr(backend, "client"):
        options |= {"backend": "loky", "initializer": begin, "initargs": (os.getpid(),)}
    return Parallel(n_jobs=n_jobs, **options)


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
