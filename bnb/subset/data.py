"""The data of a best-subset problem as a triangle, and inverses whose error is known.

With A = [X y], columns of length one, everything follows from R in A = QR: for a set of columns
the best fit leaves a residual of 1 / (inverse of the Gram matrix with y)_yy. Inverses of Gram
matrices are nested: columns that are in for good are rows left out, columns that are out for good
are eliminated, and both keep the order of symmetric matrices. So if the inverse T at a node
satisfies

    (1 − θ) T_exact ⪯ T ⪯ (1 + θ) T_exact

then so do all that are derived from it below that node, and one number θ says what rounding can
do to any residual there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from ..rounding import EPS as _EPS
from ..rounding import qr_error


@dataclass(frozen=True)
class SubsetData:
    """min ‖y − Xβ‖² + offset, in coordinates in which the columns of X and y have length one.

    Parameters
    ----------
    R : ndarray of shape (p + 1, p + 1)
        Upper triangle with RᵀR the Gram matrix of the columns and y, the last.
    norm : ndarray of shape (p,)
        Lengths of the columns; zero for columns of zeros, which are never of use.
    unit : float
        yᵀy: a residual of R times this is one of the data.
    offset : float
        Added to residuals.
    column_error, gram_error : float
        R is exact for columns that differ from the data by `column_error` at most, or for a
        Gram matrix with entries that differ by `gram_error` at most.
    noise : float
        A column that others explain but for a rest of this length is a combination of them: that
        is the size which rounding gives to the rest of one that is.
    """

    R: np.ndarray
    norm: np.ndarray
    unit: float
    offset: float = 0.0
    column_error: float = 0.0
    gram_error: float = 0.0
    noise: float = 0.0

    @staticmethod
    def from_columns(X: np.ndarray, y: np.ndarray, ridge: float = 0.0) -> SubsetData:
        """‖y − Xβ‖² + ridge ‖β‖²; more columns than rows, and dependent ones, are allowed."""
        n, p = X.shape
        norm = np.sqrt(np.einsum("ij,ij->j", X, X) + ridge)
        unit = float(y @ y)
        A = np.zeros((n + (p if ridge else 0), p + 1))
        A[:n, :p] = X / np.where(norm > 0.0, norm, 1.0)
        A[:n, p] = y / np.sqrt(unit) if unit > 0.0 else 0.0
        if ridge:
            A[n:, :p] = np.diag(np.sqrt(ridge) / norm)
        R = np.zeros((p + 1, p + 1))
        short = la.qr(A, mode="r", overwrite_a=True, check_finite=False)[0][: p + 1]
        R[: len(short)] = short
        return SubsetData(
            R, norm, unit, column_error=qr_error(len(A), p + 1), noise=10.0 * _EPS * np.sqrt(n + p)
        )

    @staticmethod
    def from_quadratic(S: np.ndarray, b: np.ndarray, constant: float) -> SubsetData | None:
        """βᵀSβ − 2bᵀβ + constant; None where S is not positive definite beyond rounding."""
        p = len(b)
        if not np.all(S.diagonal() > 0.0):
            return None
        norm = np.sqrt(S.diagonal())
        gram = np.eye(p + 1)
        gram[:p, :p] = S / np.outer(norm, norm)
        try:
            factor = la.cho_factor(gram[:p, :p], check_finite=False)
        except la.LinAlgError:
            return None
        explained = float((b / norm) @ la.cho_solve(factor, b / norm, check_finite=False))
        # Any yᵀy above what can be explained will do; twice that keeps R well conditioned.
        unit = 2.0 * explained if explained > 0.0 else 1.0
        gram[:p, p] = gram[p, :p] = b / norm / np.sqrt(unit)
        try:
            R = la.cholesky(gram, check_finite=False)
        except la.LinAlgError:
            return None
        return SubsetData(R, norm, unit, constant - unit, gram_error=_EPS * (p + 7))

    @property
    def p(self) -> int:
        """Number of columns."""
        return len(self.norm)

    def residual(self, columns: np.ndarray) -> tuple[float, np.ndarray]:
        """What the best fit with these columns leaves, and its coefficients for the data."""
        y = self.R[:, -1]
        fit = np.linalg.lstsq(self.R[:, columns], y, rcond=None)[0]
        rest = y - self.R[:, columns] @ fit
        beta = np.zeros(self.p)
        beta[columns] = fit * np.sqrt(self.unit) / self.norm[columns]
        return float(rest @ rest), beta


@dataclass(frozen=True)
class Inverse:
    """The inverse of the Gram matrix of free columns and y, given that others are in.

    Parameters
    ----------
    T : ndarray of shape (f + 1, f + 1)
        y is the last.
    theta : float
        Relative error of T, and of all that is derived from it in the order of matrices.
    """

    T: np.ndarray
    theta: float


def condition(
    data: SubsetData, inside: np.ndarray, free: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The triangle of the columns that are in, the free ones and y; and the free that matter.

    A free column that the others in explain up to rounding cannot help: it is left out. None if
    that is so for one that is in: the same fits are had with fewer columns.
    """
    triangle = _triangle(data, inside, free)
    m = len(inside)
    if np.any(np.abs(triangle.diagonal()[:m]) <= data.noise):
        return None
    tail = triangle[m:, m:-1]
    kept = np.sqrt(np.einsum("ij,ij->j", tail, tail)) > data.noise
    if kept.all():
        return triangle, free
    return _triangle(data, inside, free[kept]), free[kept]


def _triangle(data: SubsetData, inside: np.ndarray, free: np.ndarray) -> np.ndarray:
    places = np.concatenate([inside, free, [data.p]])
    return la.qr(data.R[:, places], mode="r", check_finite=False)[0][: len(places)]


def least_residual(data: SubsetData, triangle: np.ndarray) -> float:
    """A certified lower bound on what a fit with all columns of the triangle leaves."""
    size = len(triangle)
    if np.any(triangle.diagonal() == 0.0):
        return 0.0
    spread = float(np.linalg.norm(_inverted(triangle)))
    return max(0.0, 1.0 - _data_error(data, size, spread)) * float(triangle[-1, -1] ** 2)


def _inverted(triangle: np.ndarray) -> np.ndarray:
    return la.solve_triangular(triangle, np.eye(len(triangle)), check_finite=False)


def _data_error(data: SubsetData, size: int, spread: float) -> float:
    """Relative error of what `condition` returns; `spread` is the norm of its inverse."""
    columns = 2.0 * (data.column_error + qr_error(data.p + 1, size)) * np.sqrt(size) * spread
    return float(columns + data.gram_error * size * spread**2)


def invert(data: SubsetData, triangle: np.ndarray, inside: int) -> Inverse | None:
    """The inverse of what `condition` returned; None if it is singular up to rounding."""
    size = len(triangle)
    if np.any(triangle.diagonal() == 0.0):
        return None
    whole = _inverted(triangle)
    spread = float(np.linalg.norm(whole))  # at least one over the smallest singular value
    W = whole[inside:, inside:]
    tail = triangle[inside:, inside:]
    off = float(np.linalg.norm(tail @ W - np.eye(len(W))))
    off += _EPS * size * float(np.linalg.norm(np.abs(tail) @ np.abs(W)))
    T = W @ W.T
    stretch = float(np.sum((tail * np.sqrt(T.diagonal())) ** 2))  # one over the least eigenvalue
    f = len(W)
    theta = (
        _data_error(data, size, spread)
        + _EPS * (2 * size + 3) * size * spread**2  # leaves, from the Gram matrix
        + 3.0 * off  # inversion
        + _EPS * (5 * f + 8) * f * stretch  # elimination of columns
    )
    return Inverse(T, theta) if theta < 0.5 else None
