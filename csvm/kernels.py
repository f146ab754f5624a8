"""Kernel matrices in float64.

Functions of the inner product of two points begin with a plain matrix product.  The Gaussian kernel
is assembled in square tiles that fit the cache, every symmetric block computed once; threads take
tiles, the jitted code holds no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Real

import numpy as np
from numba import config, njit
from scipy.linalg.lapack import dpstrf

from bnb.validation import real_array

__all__ = ["check_psd", "gram", "linear", "low_rank", "poly", "rbf", "resolve_gamma", "sigmoid"]

KERNELS = ("linear", "rbf", "poly", "sigmoid", "precomputed")

Kernel = str | Callable[[np.ndarray, np.ndarray], np.ndarray]

_TILE = 64

_INVERSE_LN2 = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # the last 20 bits are zero: k * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
_TINY = -708.0  # exp of less is not a normal number; it is set to zero
_E = tuple(float(1.0 / np.prod(np.arange(1.0, k + 1.0))) for k in range(14))  # 1 / k!


def linear(X: np.ndarray, Y: np.ndarray | None = None) -> np.ndarray:
    """Linear kernel x'y.

    Parameters
    ----------
    X : ndarray (n, d)
    Y : ndarray (m, d), optional
        X itself by default, which halves the work.

    Returns
    -------
    ndarray (n, m)
    """
    X, other = _points(X, Y)
    return X @ other.T  # a plain product: BLAS is faster than tiles


def rbf(X: np.ndarray, Y: np.ndarray | None = None, *, gamma: float) -> np.ndarray:
    """Gaussian kernel exp(-gamma ||x - y||^2); see `linear` for X and Y."""
    X, other = _points(X, Y)
    columns = np.ascontiguousarray(other.T)
    K = np.empty((len(X), len(other)))
    strips = range(0, len(X), _TILE)
    threads = min(config.NUMBA_NUM_THREADS, len(strips))  # type: ignore[attr-defined]

    def work(first: Sequence[int]) -> None:
        for row in first:
            _strip(X, columns, K, row, Y is None, float(gamma))

    if threads <= 1:
        work(strips)
    else:
        # Strips of a triangle get shorter: dealing them out in turn balances the threads.
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, [strips[k::threads] for k in range(threads)]))
    return K


def poly(
    X: np.ndarray, Y: np.ndarray | None = None, *, gamma: float, degree: int = 3, coef0: float = 0.0
) -> np.ndarray:
    """Polynomial kernel (gamma x'y + coef0)^degree; see `linear` for X and Y."""
    return (gamma * linear(X, Y) + coef0) ** degree


def sigmoid(
    X: np.ndarray, Y: np.ndarray | None = None, *, gamma: float, coef0: float = 0.0
) -> np.ndarray:
    """Sigmoid kernel tanh(gamma x'y + coef0), seldom positive semidefinite; see `linear`."""
    return np.tanh(gamma * linear(X, Y) + coef0)


def resolve_gamma(
    gamma: float | str, X: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """Gamma as scikit-learn reads it: "scale" is 1 / (d var(X)), "auto" is 1 / d.

    Parameters
    ----------
    gamma : {"scale", "auto"} or float
    X : ndarray (n, d)
    weights : ndarray (n,), optional
        How many points each one stands for in the variance.
    """
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / X.shape[1]
        if gamma == "scale":
            middle = np.average(X, axis=0, weights=weights).mean()
            with np.errstate(over="ignore"):
                variance = float(np.average((X - middle) ** 2, axis=0, weights=weights).mean())
            if not np.isfinite(variance):
                raise ValueError(
                    "the variance of X, for gamma='scale', is not finite: scale the features"
                )
            return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        raise ValueError(f"gamma must be 'scale', 'auto' or a number, got {gamma!r}")
    if not (isinstance(gamma, Real) and np.isfinite(gamma) and gamma >= 0):
        raise ValueError(f"gamma must be a finite number >= 0, got {gamma!r}")
    return float(gamma)


def gram(
    kernel: Kernel, X: np.ndarray, Y: np.ndarray | None = None, *, gamma: float = 1.0,
    degree: int = 3, coef0: float = 0.0,
) -> np.ndarray:
    """Kernel matrix by the kernel's name.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable
        "precomputed" returns X; a callable is called with two arrays, like those of `sklearn.svm`.
    X, Y : ndarray
        See `linear`.
    gamma : float
        See `resolve_gamma` for names.
    degree : int
    coef0 : float

    Returns
    -------
    ndarray
    """
    if callable(kernel):
        other = X if Y is None else Y
        K = real_array("what the kernel function returns", kernel(X, other))
        if K.shape != (len(X), len(other)):
            raise ValueError(
                f"the kernel function must return shape {(len(X), len(other))}, got {K.shape}"
            )
        return K
    if kernel == "linear":
        return linear(X, Y)
    if kernel == "rbf":
        return rbf(X, Y, gamma=gamma)
    if kernel == "poly":
        return poly(X, Y, gamma=gamma, degree=degree, coef0=coef0)
    if kernel == "sigmoid":
        return sigmoid(X, Y, gamma=gamma, coef0=coef0)
    if kernel == "precomputed":
        return np.asarray(X, dtype=float)
    raise ValueError(f"kernel must be one of {', '.join(KERNELS)} or callable, got {kernel!r}")


def low_rank(K: np.ndarray, share: float) -> np.ndarray | None:
    """Z with K = ZZ' up to rounding and at most this share of K's columns, if there is one.

    Cholesky's method with pivots, which ends where the rest of the diagonal is rounding.

    Parameters
    ----------
    K : ndarray (n, n)
        Symmetric positive semidefinite.
    share : float
    """
    factor, pivots, rank, _ = dpstrf(K, lower=1)
    if not 0 < rank <= share * len(K):  # without columns it would say nothing of K
        return None
    Z = np.empty((len(K), rank))
    Z[pivots - 1] = np.tril(factor)[:, :rank]
    return Z


def check_psd(K: np.ndarray, name: str = "the kernel matrix") -> None:
    """Refuse a matrix that is not symmetric positive semidefinite up to rounding.

    Parameters
    ----------
    K : ndarray (n, n)
    name : str
        What to call it in the message.

    Raises
    ------
    ValueError
        With the largest asymmetry, or the smallest eigenvalue.
    """
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"{name} must be square, got shape {K.shape}")
    if not np.isfinite(K).all():
        raise ValueError(f"{name} holds NaN or infinity")
    size = max(float(np.abs(K).max(initial=0.0)), np.finfo(float).tiny)
    skew = float(np.abs(K - K.T).max(initial=0.0))
    if skew > 1e-9 * size:
        raise ValueError(f"{name} must be symmetric; K and its transpose differ by {skew:.3g}")
    shift = 1e-10 * size * len(K)
    try:  # a Cholesky factor proves it in a tenth of the time of the eigenvalues
        np.linalg.cholesky(K + shift * np.eye(len(K)))
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(K)[0])
        raise ValueError(
            f"{name} must be positive semidefinite, else nothing can be proven about the optimum; "
            f"its smallest eigenvalue is {smallest:.6g}"
        ) from None


def _points(X: np.ndarray, Y: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Both sets of points as the kernels read them; the same array twice without Y."""
    X = np.ascontiguousarray(real_array("X", X))
    other = X if Y is None else np.ascontiguousarray(real_array("Y", Y))
    if X.ndim != 2 or other.ndim != 2 or X.shape[1] != other.shape[1]:
        raise ValueError(
            f"points must be rows with the same features, got shapes {X.shape} and {other.shape}"
        )
    return X, other


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def _strip(X, YT, K, row, symmetric, gamma):  # type: ignore[no-untyped-def]
    """A strip of K, one tile high from ``row`` on; if symmetric, half and its mirror image."""
    last = min(row + _TILE, K.shape[0])
    values = np.empty((_TILE, _TILE))
    tile = np.empty((YT.shape[0], _TILE))  # contiguous, for vector loads
    work = np.empty(_TILE)
    bits = work.view(np.int64)
    for col in range(row if symmetric else 0, K.shape[1], _TILE):
        width = min(_TILE, K.shape[1] - col)
        for f in range(YT.shape[0]):
            for j in range(width):  # not a slice: numba takes seconds to compile its errors
                tile[f, j] = YT[f, col + j]
        for i in range(row, last):
            out = values[i - row, :width]
            _squared_distances(X[i], tile, out)
            _exp_of_negative(out, gamma, work, bits)
            for j in range(width):
                K[i, col + j] = out[j]
        if symmetric:
            for j in range(width):
                for i in range(row, last):
                    K[col + j, i] = values[i - row, j]


@njit(nogil=True, cache=True, fastmath={"contract"}, inline="always")
def _squared_distances(x, YT, out):  # type: ignore[no-untyped-def]
    """Differences, not norms less inner products: no cancellation, and equal points give 0."""
    out[:] = 0.0
    d = x.size
    for f in range(0, d - 3, 4):
        a, b, c, e = x[f], x[f + 1], x[f + 2], x[f + 3]
        for j in range(out.size):
            p = a - YT[f, j]
            q = b - YT[f + 1, j]
            r = c - YT[f + 2, j]
            s = e - YT[f + 3, j]
            out[j] += (p * p + q * q) + (r * r + s * s)
    for f in range(d - d % 4, d):
        a = x[f]
        for j in range(out.size):
            p = a - YT[f, j]
            out[j] += p * p


@njit(nogil=True, cache=True, fastmath={"contract"}, inline="always")
def _exp_of_negative(out, gamma, work, bits):  # type: ignore[no-untyped-def]
    """out = exp(-gamma out), written so that the compiler uses vector instructions.

    exp(x) = 2^k exp(r) with |r| <= ln(2) / 2, where a Taylor polynomial is exact to rounding.
    ``bits`` is ``work`` seen as integers.
    """
    for j in range(out.size):
        x = max(-gamma * out[j], _TINY)
        shifted = x * _INVERSE_LN2 + _ROUND
        k = shifted - _ROUND
        work[j] = shifted
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        value = _E[13]
        for power in range(12, 1, -1):
            value = value * r + _E[power]
        out[j] = 0.0 if x <= _TINY else 1.0 + (r + r * r * value)
    for j in range(out.size):
        bits[j] = (bits[j] + 1023) << 52
    for j in range(out.size):
        out[j] *= work[j]
