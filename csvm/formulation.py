"""The paper's own formulation with big constants M1 and M2, for comparison and for other solvers.

(CSVM0) is the primal, in coordinates of a factor of K; (CSVM) is the partial dual in the kernel.
Both have the optimum of the model without constants as long as neither constant binds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from bnb.qp.model import Model

if TYPE_CHECKING:  # hundreds of modules, which most users never need
    import cvxpy as cp

    from bnb import MIQP

__all__ = ["BigM", "factor", "kernel_csvm", "kernel_csvm_cvxpy", "primal_csvm", "primal_csvm_cvxpy"]


@dataclass(frozen=True)
class BigM(Model):
    """A CSVM with big constants; its integers are the z.

    Parameters
    ----------
    intercept : int
        Position of beta.
    """

    intercept: int = 0

    def problem(self) -> MIQP:
        """The same for `bnb.solve`."""
        from bnb import MIQP

        return MIQP(**self.arguments())


def factor(K: np.ndarray) -> np.ndarray:
    """A matrix L with as many columns as K has rank, and LL' = K up to rounding."""
    values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    kept = values > values[-1] * len(K) * np.finfo(float).eps
    return vectors[:, kept] * np.sqrt(values[kept])


def primal_csvm(
    K: np.ndarray, y: np.ndarray, cost: np.ndarray, weights: np.ndarray, required: np.ndarray, *,
    M1: float = 100.0, attained: float = np.inf,
) -> BigM:
    """(CSVM0) as matrices; the variables are w, beta, xi, z.

    Parameters
    ----------
    K : ndarray (n, n)
        Kernel matrix, training points first, then the anchors.
    y : ndarray (n,)
        Labels, +1 or -1.
    cost : ndarray (n - m,)
        Slack costs C+ and C- of the training points.
    weights : ndarray (L, m)
        Weights of the anchors in each rate.
    required : ndarray (L,)
        Weight of the anchors that must be well classified.
    M1 : float
        By how much a margin may be violated where z_j = 0.
    attained : float
        An objective known to be attained. It bounds every variable, which solvers that certify
        their bounds need; infinite for none.
    """
    L = factor(K)
    n, first = len(y), len(cost)
    m = n - first
    r = L.shape[1]
    rows = sp.hstack([
        sp.csr_matrix(y[:, None] * L), sp.csr_matrix(y[:, None].astype(float)),
        _block(n, 0, sp.eye(first)), _block(n, first, -M1 * sp.eye(m)),
    ])
    A = sp.csr_matrix(sp.vstack([rows, _counts(weights, r + 1 + first)]))
    low = np.concatenate([np.ones(first), np.full(m, 1.0 - M1), required])
    P = sp.diags(np.concatenate([np.full(r, 2.0), np.zeros(1 + n)]))
    q = np.concatenate([np.zeros(r + 1), cost, np.zeros(m)])
    beta, xi = _ranges(K, y, cost, attained)
    w = np.full(r, np.sqrt(attained))
    lb = np.concatenate([-w, [beta[0]], np.zeros(n)])
    ub = np.concatenate([w, [beta[1]], xi, np.ones(m)])
    z = np.arange(r + 1 + n) > r + first
    high = np.full(len(low), np.inf)
    return BigM(sp.csr_matrix(P), q, A, low, high, lb, ub, z, intercept=r)


def kernel_csvm(
    K: np.ndarray, y: np.ndarray, cost: np.ndarray, weights: np.ndarray, required: np.ndarray, *,
    M1: float = 100.0, M2: float = 100.0, attained: float = np.inf,
) -> BigM:
    """(CSVM) as matrices; the variables are lambda, mu, beta, xi, z.

    Parameters
    ----------
    K, y, cost, weights, required, M1, attained
        See `primal_csvm`.
    M2 : float
        Largest multiplier mu_j of an anchor.
    """
    n, first = len(y), len(cost)
    m = n - first
    signed = y[:, None] * K * y[None, :]
    rows = sp.hstack([
        sp.csr_matrix(signed), sp.csr_matrix(y[:, None].astype(float)),
        _block(n, 0, sp.eye(first)), _block(n, first, -M1 * sp.eye(m)),
    ])
    balance = sp.hstack([sp.csr_matrix(y[None, :].astype(float)), sp.csr_matrix((1, 1 + n))])
    link = sp.hstack([
        sp.csr_matrix((m, first)), sp.eye(m), sp.csr_matrix((m, 1 + first)), -M2 * sp.eye(m)
    ])
    A = sp.csr_matrix(sp.vstack([rows, balance, link, _counts(weights, n + 1 + first)]))
    low = np.concatenate([
        np.ones(first), np.full(m, 1.0 - M1), [0.0], np.full(m, -np.inf), required
    ])
    high = np.concatenate([
        np.full(n, np.inf), [0.0], np.zeros(m), np.full(len(required), np.inf)
    ])
    P = sp.block_diag([sp.csr_matrix(2.0 * signed), sp.csr_matrix((1 + n, 1 + n))])
    q = np.concatenate([np.zeros(n + 1), cost, np.zeros(m)])
    beta, xi = _ranges(K, y, cost, attained)
    lb = np.concatenate([np.zeros(n), [beta[0]], np.zeros(n)])
    ub = np.concatenate([0.5 * cost, np.full(m, M2), [beta[1]], xi, np.ones(m)])
    z = np.arange(n + 1 + n) > n + first
    return BigM(sp.csr_matrix(P), q, A, low, high, lb, ub, z, intercept=n)


def primal_csvm_cvxpy(
    K: np.ndarray, y: np.ndarray, cost: np.ndarray, weights: np.ndarray, required: np.ndarray, *,
    M1: float = 100.0,
) -> cp.Problem:
    """(CSVM0) as a cvxpy problem with variables named w, beta, xi, z; see `primal_csvm`."""
    import cvxpy as cp

    L, first = factor(K), len(cost)
    w, beta = cp.Variable(L.shape[1], name="w"), cp.Variable(name="beta")
    xi, z = cp.Variable(first, name="xi"), cp.Variable(len(y) - first, boolean=True, name="z")
    margin = cp.multiply(y, L @ w + beta)
    return cp.Problem(
        cp.Minimize(cp.sum_squares(w) + cost @ xi),
        [
            margin[:first] >= 1 - xi,
            xi >= 0,
            margin[first:] >= 1 - M1 * (1 - z),
            weights @ z >= required,
        ],
    )


def kernel_csvm_cvxpy(
    K: np.ndarray, y: np.ndarray, cost: np.ndarray, weights: np.ndarray, required: np.ndarray, *,
    M1: float = 100.0, M2: float = 100.0,
) -> cp.Problem:
    """(CSVM) as a cvxpy problem with variables lambda, mu, beta, xi, z; see `kernel_csvm`."""
    import cvxpy as cp

    first = len(cost)
    m = len(y) - first
    lam, mu = cp.Variable(first, name="lambda"), cp.Variable(m, name="mu")
    beta, xi = cp.Variable(name="beta"), cp.Variable(first, name="xi")
    z = cp.Variable(m, boolean=True, name="z")
    signed = cp.multiply(y, cp.hstack([lam, mu]))
    margin = cp.multiply(y, K @ signed + beta)
    return cp.Problem(
        cp.Minimize(cp.sum_squares(factor(K).T @ signed) + cost @ xi),
        [
            margin[:first] >= 1 - xi,
            xi >= 0,
            margin[first:] >= 1 - M1 * (1 - z),
            weights @ z >= required,
            cp.sum(signed) == 0,
            lam >= 0,
            lam <= 0.5 * cost,
            mu >= 0,
            mu <= M2 * z,
        ],
    )


def _ranges(
    K: np.ndarray, y: np.ndarray, cost: np.ndarray, attained: float
) -> tuple[tuple[float, float], np.ndarray]:
    """Bounds of beta and of xi in solutions at least as good as `attained`.

    The positives' slacks cost at most that much, so one of them has xi <= attained / (their total
    cost), and beta >= 1 - xi - ||w|| ||phi||; likewise for the negatives.
    """
    reach = np.sqrt(attained) * np.sqrt(K.diagonal().max())
    labels = y[: len(cost)]
    low = 1.0 - attained / cost[labels > 0].sum() - reach
    high = attained / cost[labels < 0].sum() - 1.0 + reach
    return (low, high), attained / cost


def _block(rows: int, first: int, block: sp.spmatrix) -> sp.csr_matrix:
    """The block in rows from `first` on, zeros elsewhere."""
    above = sp.csr_matrix((first, block.shape[1]))
    below = sp.csr_matrix((rows - first - block.shape[0], block.shape[1]))
    return sp.csr_matrix(sp.vstack([above, block, below]))


def _counts(weights: np.ndarray, before: int) -> sp.csr_matrix:
    """The rows sum_j n_lj z_j, with z behind `before` other variables."""
    return sp.csr_matrix(sp.hstack([sp.csr_matrix((len(weights), before)), weights]))
