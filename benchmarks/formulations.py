"""The CSVM as other solvers get it: four ways, one optimum.

kernel     (CSVM) of the paper, variables λ, μ, β, ξ, z, with M₁ = M₂ = 100
primal     (CSVM0) in coordinates of a factor of K, with M₁ = 100
tight      the same with the smallest M_j that we can certify, and bounds on all variables
indicator  the same with z_j = 1 ⇒ y_j f(x_j) ≥ 1 in place of a big constant
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from bnb.problem import Goal
from csvm import formulation
from csvm.search import CSVMProblem, Instance
from relaxations.patience import FOR_EVER
from relaxations.svm.bounds.convex import ConvexBound
from relaxations.svm.solvers import SMOSolver

from .model import Indicators, PeerModel

Reading = Callable[[np.ndarray], np.ndarray]
"""From a solver's x to a solution (t, β) of `CSVMProblem`."""

_ROUNDS = 8
_MARGIN = 1e-6  # what the level is raised by, relatively: rounding and the heuristics' accuracy


class Arrays(NamedTuple):
    """The data of a CSVM; see `csvm.search.Instance`."""

    K: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    weights: np.ndarray
    required: np.ndarray

    def problem(self) -> CSVMProblem:
        return CSVMProblem(Instance(*self))


def kernel(data: Arrays) -> tuple[PeerModel, Reading]:
    n = len(data.y)

    def point(x: np.ndarray) -> np.ndarray:
        return np.append(2.0 * data.y * x[:n], x[n])

    return PeerModel(**formulation.kernel_csvm(*data).arguments()), point


def primal(data: Arrays) -> tuple[PeerModel, Reading]:
    return _triangular(data, formulation.primal_csvm(*data))


def tight(data: Arrays) -> tuple[PeerModel, Reading]:
    level = attained(data)
    model, point = _triangular(
        data, formulation.primal_csvm(*data, M1=0.0, attained=level)
    )
    M = np.maximum(tight_constants(data, level), 0.0)
    anchors = np.arange(len(data.cost), len(data.y))
    change = sp.csr_matrix((-M, (anchors, model.binary)), shape=model.A.shape)
    low = model.l.copy()
    low[anchors] = 1.0 - M
    return replace(model, A=sp.csr_matrix(model.A + change), l=low), point


def indicator(data: Arrays) -> tuple[PeerModel, Reading]:
    model, point = _triangular(data, formulation.primal_csvm(*data, M1=0.0))
    n, first = len(data.y), len(data.cost)
    kept = np.concatenate([np.arange(first), np.arange(n, model.A.shape[0])])
    rows = sp.csr_matrix(model.A[first:n])
    rows.eliminate_zeros()
    return replace(
        model, A=sp.csr_matrix(model.A[kept]), l=model.l[kept], u=model.u[kept],
        indicators=Indicators(model.binary, rows, np.ones(n - first)),
    ), point


CSVM_FORMULATIONS: dict[str, Callable[[Arrays], tuple[PeerModel, Reading]]] = {
    "primal": primal, "tight": tight, "indicator": indicator, "kernel": kernel,
}


def attained(data: Arrays) -> float:
    """The objective of our heuristics' classifier, before any search."""
    problem = data.problem()
    found = problem.prepare(Goal())
    if found is None:
        raise ValueError("no anchor may be given up, or the heuristics found nothing: no level")
    x = found.solutions[0][1]
    found = problem.finder.descend(x, problem.check(x)[0], FOR_EVER)
    return min((objective for objective, _ in found), default=problem.check(x)[0])


def tight_constants(data: Arrays, level: float) -> np.ndarray:
    """M_j such that 1 − y_j f(x_j) ≤ M_j in every classifier of objective ≤ `level`.

    Leave out all anchors and ask for 1 − y_j f(x_j) ≥ M instead: y_j f(x_j) ≤ 1 − M. The dual of
    that convex problem is the node dual of `relaxations.svm.dual` with p_j = y_j (1 − M) and a
    multiplier t_j = −y_j τ, τ ≥ 0. Its objective is linear in M for fixed t,

        D_M(t) = Σ_I p_i t_i − ¼ tᵀKt − (1 − M) τ,

    and bounds from below every classifier that violates margin j by M or more (anchors enforced
    on top of that only raise the objective). So where D_M(t) = level, a classifier that violates
    it by more than M costs more than `level`: any feasible t with τ > 0 proves

        M_j = 1 + (level − Σ_I p_i t_i + ¼ tᵀKt) / τ.

    We maximise D_M at the M found last, which gives the next M; this is Newton's method on the
    convex function M ↦ max_t D_M(t), and converges to the smallest M that this argument can prove.
    """
    instance = Instance(*data)
    level += _MARGIN * abs(level)
    return np.array([_tight_constant(instance, j, level) for j in range(instance.m)])


def _tight_constant(instance: Instance, anchor: int, level: float) -> float:
    j = instance.first + anchor
    dual = instance.dual(np.zeros(instance.m, dtype=bool))
    sign = dual.p[j]
    dual.lo[j], dual.hi[j] = (-np.inf, 0.0) if sign > 0 else (0.0, np.inf)
    bound = ConvexBound(SMOSolver(), np.inf)
    t = np.zeros(dual.p.size)
    best = np.inf
    constant = 2.0 * np.sqrt(level * instance.gram.diag[j]) + 2.0
    for _ in range(_ROUNDS):
        dual.p[j] = sign * (1.0 - constant)
        solved = bound.apply(dual, t, np.inf, FOR_EVER, 1e-6)
        t = solved.t
        tau = -sign * t[j]
        if tau <= 0.0:
            constant *= 2.0  # below what the plain SVM already violates: a wider one is needed
            continue
        found = constant + (level - solved.bound) / tau
        if found >= best - 1e-4 * abs(best):
            return min(best, found)
        best = constant = found
    if not np.isfinite(best):
        raise ValueError(f"no constant certified for anchor {anchor}")
    return best


def _triangular(data: Arrays, built: formulation.BigM) -> tuple[PeerModel, Reading]:
    """The model with w turned so that the factor of K is triangular, and the way back.

    L = RᵀQᵀ with orthogonal Q: in w' = Qᵀw the objective is the same and the rows are the rows of
    Rᵀ, a Cholesky factor of K, half of it zeros. Gurobi needs half the time with that.
    """
    L = formulation.factor(data.K)
    n, rank = L.shape
    Q, R = np.linalg.qr(L.T)
    A = sp.lil_matrix(built.A)
    A[:n, :rank] = data.y[:, None] * np.tril(R.T)
    # The columns of L are orthogonal, so Kt/2 = Lw is solved by t = 2 L (LᵀL)⁻¹ w.
    back = 2.0 * L / (L**2).sum(axis=0) @ Q

    def point(x: np.ndarray) -> np.ndarray:
        return np.append(back @ x[:rank], x[rank])

    return PeerModel(**built.arguments() | {"A": sp.csr_matrix(A)}), point
