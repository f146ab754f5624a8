"""A problem is as new for every search: solving one object twice is the same run twice."""

import numpy as np
import pytest

import bnb
from csvm import kernels
from csvm.search import CSVMProblem, Instance


def csvm(seed, node_solver="auto"):
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], 120)
    K = kernels.rbf(rng.normal(size=(120, 4)) + 0.5 * y[:, None], gamma=0.3)
    positive = (y[60:] > 0).astype(float)
    required = np.array([np.ceil(0.85 * positive.sum())])
    data = Instance(K, y, np.ones(60), positive[None, :], required)
    return CSVMProblem(data, node_solver)


def quadratic(seed, n=12):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, n))
    return F @ F.T + 0.1 * np.eye(n), 5.0 * rng.normal(size=n), rng


def integers(seed):
    P, q, rng = quadratic(seed)
    A = rng.normal(size=(3, 12))
    return bnb.MIQP(P, q, A=A, u=np.ones(3), integer=range(12), lb=-3, ub=3)


def binaries(seed):
    P, q, _ = quadratic(seed)
    return bnb.MIQP(P, q, A=np.ones((1, 12)), u=[4.0], binary=range(12))


def support(seed):
    P, q, _ = quadratic(seed)
    return bnb.SupportQP(P, q, 4, lb=-5, ub=5)


def indicators(seed):
    P, q, rng = quadratic(seed, 3)
    G, b = rng.normal(size=(14, 3)), 2.0 + rng.random(14)
    return bnb.IndicatorQP(P, q, G=G, b=b, groups=[(range(14), 8)], lb=-50, ub=50)


def story(problem, **options):
    """All of a search that a clock does not enter."""
    result = bnb.solve(problem, node_limit=60, **options)
    trace = [(r.nodes, r.bound, r.objective, r.open, r.source) for r in result.trace]
    return result.nodes, result.probes, result.root_bound, result.x.tolist(), trace


@pytest.mark.parametrize("node_solver", ["auto", "smo", "osqp"])
@pytest.mark.parametrize("seed", range(2))
def test_constrained_svm(seed, node_solver):
    problem = csvm(seed, node_solver)
    first = story(problem, branching="first")
    assert first[0] > 10
    assert story(problem, branching="first") == first


@pytest.mark.parametrize("make", [integers, binaries, support, indicators])
@pytest.mark.parametrize("seed", range(3))
def test_ready_made_problems(make, seed):
    problem = make(seed)
    assert story(problem) == story(problem)
