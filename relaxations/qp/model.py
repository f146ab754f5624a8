"""A convex QP with perspective terms, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Pairs:
    """Variables x that are zero unless their switch z is one.

    For each pair: ``low * z <= x <= high * z`` with z in [0, 1], and the convex term
    ``d * x**2 / z`` in the objective (``d = 0``: only the link). Several x may share one z.

    Parameters
    ----------
    x, z : ndarray of int
        Positions of the two variables. No x occurs twice.
    low, high : ndarray
        Bounds on x when it is on; ``low <= high``, infinite where d > 0 allows it.
    d : ndarray
        Weights of the perspective terms, >= 0.
    """

    x: np.ndarray
    z: np.ndarray
    low: np.ndarray
    high: np.ndarray
    d: np.ndarray

    @staticmethod
    def none() -> Pairs:
        """No pairs at all."""
        index, value = np.zeros(0, dtype=np.int64), np.zeros(0)
        return Pairs(index, index, value, value, value)

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class QP:
    """min ½ xᵀPx + qᵀx + Σ s_j x_j² + Σ d_m x_m²/z_m + constant,  l ≤ Ax ≤ u.

    Bounds on the variables are not part of it: they change from node to node.

    Parameters
    ----------
    P : ndarray or sparse matrix
        Symmetric positive semidefinite.
    q : ndarray
    A : sparse matrix
    l, u : ndarray
        Row bounds, infinite where there is none.
    square : ndarray
        s ≥ 0: curvature kept apart from P so that variables without finite bounds still have a
        finite certified bound.
    pairs : Pairs
        Switched variables; `square` is zero for them.
    constant : float
    """

    P: np.ndarray | sp.spmatrix
    q: np.ndarray
    A: sp.csr_matrix
    l: np.ndarray  # noqa: E741 - the usual name
    u: np.ndarray
    square: np.ndarray
    pairs: Pairs = field(default_factory=Pairs.none)
    constant: float = 0.0

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.q)

    def hessian(self) -> np.ndarray | sp.spmatrix:
        """P with the separable curvature put back (perspective terms are not in it)."""
        if sp.issparse(self.P):
            return (self.P + sp.diags(2.0 * self.square)).tocsc()
        return self.P + np.diag(2.0 * self.square)

    def dense_hessian(self) -> np.ndarray:
        """The same as an array."""
        hessian = self.hessian()
        return hessian if isinstance(hessian, np.ndarray) else np.asarray(hessian.toarray())


@dataclass
class Solution:
    """An approximate primal-dual point of a node's QP, and what certifies it.

    Attributes
    ----------
    x, y : ndarray
        Primal point and row multipliers (y > 0 pushes against u, y < 0 against l).
    bound : float
        Certified lower bound that y proves, with x or a point near it; ``inf`` if y proves
        infeasibility.
    reduced : ndarray
        What the bound gains at least per unit that a variable (a switch z among them) moves up
        from its lower bound (positive) or down from its upper bound (negative).
    objective : float
        Objective at x, meaningful as far as x is feasible.
    iterations : int
    """

    x: np.ndarray
    y: np.ndarray
    bound: float
    reduced: np.ndarray
    objective: float
    iterations: int
