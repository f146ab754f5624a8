"""`solve`: the front door of the search."""

from __future__ import annotations

from typing import Any

from .options import Options
from .problem import Problem
from .result import Result
from .search import Search, one_blas_thread
from .workers import ParallelSearch, width

__all__ = ["solve"]


def solve(problem: Problem, **options: Any) -> Result:
    """Minimise `problem` to proven optimality.

    Parameters
    ----------
    problem : Problem
        What to solve.
    gap, absolute_gap : float
        Stop when ``objective - bound <= max(absolute_gap, gap * |objective|)``.
    time_limit : float
        Seconds.
    node_limit : int, optional
        Nodes to evaluate at most.
    memory_limit : float
        Memory that the process and its workers may have resident at a time, in MiB.
    selection : {"best", "depth", "hybrid"}
        Node selection; "hybrid" dives until there is an incumbent.
    branching : {"pseudocost", "fractional", "first"} or callable
        "pseudocost" starts with strong branching; a callable gets (node, evaluation, candidates)
        and returns a candidate.
    workers : int, optional
        Processes that search parts of the tree, one by default. One is deterministic: same nodes,
        same path. They are started when the search has taken a second.
    executor : concurrent.futures.Executor, optional
        Where `workers` parts are searched at a time instead, by default as many as it has workers;
        for example ``dask.distributed.Client(...).get_executor()``.
    seed : int
        For heuristics that draw at random.
    feasibility : float
        Largest violation, as measured by `Problem.check`, that an incumbent may have.
    start : ndarray, optional
        A solution to start from.
    on_node, on_incumbent : callable, optional
        Called with a `Progress`; may return `bnb.STOP`, or a solution to try. With workers,
        `on_node` is called once per report of theirs.
    verbose : {0, 1, 2}
        Log: silent, with times, or without times (comparable between runs).
    log_stream : file, optional
        Where the log goes; standard output by default.
    checkpoint : path, optional
        File to save the search to every `checkpoint_interval` seconds (less often where a tree is
        so large that writing it takes more than a twentieth of that) and at its end.
    resume : bool
        Continue from `checkpoint` if the file exists.
    keep_tree : bool
        Record every node in `Result.tree`, for pictures.

    Returns
    -------
    Result
    """
    if not isinstance(problem, Problem):
        raise TypeError(
            "problem must be a bnb.Problem, such as bnb.MIQP, bnb.SupportQP or bnb.IndicatorQP, "
            f"got {type(problem).__name__}"
        )
    try:
        checked = Options(**options)
    except TypeError as error:
        known = ", ".join(Options.__dataclass_fields__)
        raise TypeError(f"{error}; the options of bnb.solve are: {known}") from None
    parts = width(checked)
    with one_blas_thread():
        if parts == 1 and checked.executor is None:
            return Search(problem, checked).run()
        return ParallelSearch(problem, checked, parts).run()
