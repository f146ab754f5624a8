"""What the parts cost: kernel matrices, node solves, and how a whole search grows with the data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

import bnb
import csvm
from csvm.search import CSVMProblem, Instance, slack_costs
from relaxations.svm.dual import Effort, Point
from relaxations.svm.solvers import make_solver

from .measures import geometric_mean

SCALING_LIMIT = 30.0
_TOLERANCE = 1e-3  # LIBSVM's default; both node solvers get the same
_GAMMA = 0.1


@dataclass(frozen=True)
class Figure:
    """One measured number."""

    part: str
    what: str
    size: int
    value: float
    unit: str


def measure(*, quick: bool) -> Iterator[Figure]:
    """All figures, in the order of the report."""
    for n in (500, 1000) if quick else (500, 1000, 2000, 4000):
        yield from kernel_assembly(n)
    for n in (100, 200) if quick else (100, 200, 400, 800):
        yield from node_solves(n)
    yield from scaling(quick=quick)


def best_of(repeats: int, job: Callable[[], object]) -> float:
    """Shortest wall time: what else runs on the machine only makes it longer."""
    spent = []
    for _ in range(repeats):
        begin = time.perf_counter()
        job()
        spent.append(time.perf_counter() - begin)
    return min(spent)


def kernel_assembly(n: int) -> Iterator[Figure]:
    """Ours and scikit-learn's, same points, 20 columns."""
    X = np.random.default_rng(n).normal(size=(n, 20))
    for name, options in (("rbf", {"gamma": _GAMMA}), ("linear", {})):
        ours = best_of(5, lambda name=name, o=options: csvm.kernels.gram(name, X, **o))
        theirs = best_of(
            5, lambda name=name, o=options: pairwise_kernels(X, metric=name, **o)
        )
        yield Figure("kernel", f"{name}, csvm", n, 1e3 * ours, "ms")
        yield Figure("kernel", f"{name}, scikit-learn", n, 1e3 * theirs, "ms")


def two_clouds(n_train: int, n_anchors: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes in ten dimensions, training points first, then positive anchors."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.tile([1.0, -1.0], n_train)[:n_train], np.ones(n_anchors)])
    return rng.normal(size=(len(y), 10)) + 0.35 * y[:, None], y


def cloud_problem(
    n_train: int, n_anchors: int, budget: int, seed: int, rates: int = 1
) -> CSVMProblem:
    """A CSVM on `two_clouds` with C = 32; the anchors are dealt out to the rates."""
    X, y = two_clouds(n_train, n_anchors, seed)
    cost = slack_costs(y[:n_train], 32.0, per_class=True)
    weights = np.array([np.arange(n_anchors) % rates == rate for rate in range(rates)], dtype=float)
    required = weights.sum(axis=1) - budget // rates
    K = csvm.kernels.rbf(X, gamma=_GAMMA)
    return CSVMProblem(Instance(K, y, cost, weights, required))


def node_solves(n: int) -> Iterator[Figure]:
    """Warm children per second of both node solvers next to one LIBSVM fit of the same points."""
    data = cloud_problem(n - n // 4, n // 4, 5, seed=n).instance
    for name in ("auto", "smo", "osqp"):
        yield Figure("node", f"{name}, warm child", n, 1.0 / _warm_child(data, name), "per s")
    K, y = data.gram.K[:n, :n], data.p[:n]
    fit = best_of(5, lambda: SVC(C=32.0 / n, kernel="precomputed").fit(K, y))
    yield Figure("node", "LIBSVM, cold fit", n, 1.0 / fit, "per s")


def _warm_child(data: Instance, solver_name: str) -> float:
    """Mean time to enforce the most violated anchor, from the parent's solution, ten times."""
    solver = make_solver(solver_name)
    enforced = np.zeros(data.m, dtype=bool)
    point = Point(np.zeros(data.p.size), data.p.copy())
    spent = []
    for _ in range(11):
        begin = time.perf_counter()
        solver.maximise(data.dual(enforced), point, Effort(_TOLERANCE, 200 * data.n, np.inf))
        spent.append(time.perf_counter() - begin)
        # F = p - Kt/2, and the margin of a positive anchor is one where F = beta.
        slack = np.where(enforced, -np.inf, point.F[data.anchors()])
        enforced[np.argmax(slack)] = True
    return float(np.mean(spent[1:]))  # the first is the root, and cold


def scaling(*, quick: bool) -> Iterator[Figure]:
    """Nodes and seconds of whole searches, one size varied at a time, geometric means of seeds."""
    seeds = range(2) if quick else range(5)
    steps = (1, 2) if quick else (1, 2, 4, 8)
    for what, sizes in (
        ("training points", [100 * s for s in steps]), ("anchors", [50 * s for s in steps]),
        ("budget", [2 * s for s in steps]), ("rates", [1, 2] if quick else [1, 2, 4]),
    ):
        for size in sizes:
            known = {"training points": 200, "anchors": 100, "budget": 8, "rates": 1, what: size}
            results = [
                bnb.solve(
                    cloud_problem(known["training points"], known["anchors"], known["budget"], seed,
                                  known["rates"]),
                    branching="first", time_limit=SCALING_LIMIT,
                )
                for seed in seeds
            ]
            open_ = sum(not r.optimal for r in results)
            note = f" ({open_} of {len(results)} open)" if open_ else ""
            for unit, values in (("nodes", [r.nodes for r in results]),
                                 ("s", [r.seconds for r in results])):
                yield Figure("scaling", what + note, size, geometric_mean(values), unit)
