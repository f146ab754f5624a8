"""Checks of what users hand in: every message names the argument and says what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

_LARGEST = 1e100  # entry of an objective: sums of its products must stay finite


def real_array(name: str, value: Any) -> np.ndarray:
    """An array of floats."""
    try:
        _refuse_complex(value)
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from None


def _refuse_complex(value: Any) -> None:
    """Else numpy would cut them to their real part."""
    if np.iscomplexobj(value):
        raise ValueError("complex ones are not supported")


def vector(
    name: str, value: Any, n: int, default: float | None = None, infinite: bool = False
) -> np.ndarray:
    """A float vector of length n; a scalar is repeated, None becomes the default."""
    if value is None:
        if default is None:
            raise ValueError(f"{name} is required")
        return np.full(n, float(default))
    array = real_array(name, value)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {array.shape}")
    if np.isnan(array).any():
        raise ValueError(f"{name} contains NaN at position {int(np.argmax(np.isnan(array)))}")
    if not infinite and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return array.copy()


def count(name: str, value: Any, most: int | None = None, of: str = "") -> int:
    """A number of things, at most `most` of them; a float will do if it is whole."""
    number = isinstance(value, (Integral, float, np.floating)) and not isinstance(value, bool)
    top = np.finfo(float).max if most is None else most
    if not number or not 0 <= value <= top or value != int(value):
        wanted = ">= 0" if most is None else f"between 0 and {most}, {of}"
        raise ValueError(f"{name} must be an integer {wanted}; got {value!r}")
    return int(value)


def matrix(name: str, value: Any, shape: tuple[int | None, int]) -> sp.csr_matrix:
    """A sparse float matrix of that shape; None becomes zero, without rows if they are free."""
    try:
        _refuse_complex(value)
        array = sp.csr_matrix((shape[0] or 0, shape[1]) if value is None else value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a matrix of numbers: {error}") from None
    rows = array.shape[0] if shape[0] is None else shape[0]
    if array.shape != (rows, shape[1]):
        raise ValueError(f"{name} must have shape ({rows}, {shape[1]}), got {array.shape}")
    if not np.isfinite(array.data).all():
        raise ValueError(f"{name} must be finite, it holds NaN or infinity")
    array.sort_indices()
    return array


def convex_matrix(name: str, value: Any, n: int) -> sp.csr_matrix:
    """A symmetric positive semidefinite matrix."""
    array = matrix(name, value, (n, n))
    size = np.abs(array.data).max(initial=0.0)
    if size > _LARGEST:
        raise ValueError(
            f"{name} holds entries up to {size:.3g}, too large to calculate with; scale the "
            f"problem so that they are below {_LARGEST:g}"
        )
    skew = array - array.T
    if np.abs(skew.data).max(initial=0.0) > 1e-9 * max(size, 1e-300):
        raise ValueError(f"{name} must be symmetric")
    if skew.count_nonzero():
        array = sp.csr_matrix(0.5 * (array + array.T))
    used = np.flatnonzero(np.diff(array.indptr))
    if used.size:
        floor = -1e-13 * size * len(used)  # rounding, no more
        if not eigenvalues_exceed(array, used, floor):
            smallest = float(np.linalg.eigvalsh(array[used][:, used].toarray())[0])
            if smallest < floor:
                raise ValueError(
                    f"{name} must be positive semidefinite (a convex objective); its smallest "
                    f"eigenvalue is {smallest:.3g}"
                )
    return array


def eigenvalues_exceed(array: sp.csr_matrix, used: np.ndarray, floor: float) -> bool:
    """Whether the block of these rows and columns has no eigenvalue at or below `floor`."""
    block = array[used][:, used]
    if is_diagonal(block):
        return bool(np.all(block.diagonal() > floor))
    return is_definite(block.toarray() - floor * np.eye(len(used)))


def index_set(name: str, value: Iterable[int] | np.ndarray | None, n: int) -> np.ndarray:
    """Sorted distinct positions in range(n), from positions or a boolean mask."""
    if value is None:
        return np.zeros(0, dtype=np.int64)
    array = np.asarray(value if isinstance(value, np.ndarray) else list(value))
    if array.dtype == bool:
        if array.shape != (n,):
            raise ValueError(f"{name}: a mask must have shape ({n},), got {array.shape}")
        return np.flatnonzero(array)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must hold integer positions or be a boolean mask")
    array = np.unique(array.astype(np.int64))
    if array.size and (array[0] < 0 or array[-1] >= n):
        bad = array[0] if array[0] < 0 else array[-1]
        raise ValueError(f"{name} holds position {bad}, out of range 0..{n - 1}")
    return array


INFINITE = 1e20
"""Bounds of this size or more mean that there is none, as everywhere with such problems."""


def interval(low_name: str, low: np.ndarray, high_name: str, high: np.ndarray) -> None:
    """low <= high, and neither infinite on the wrong side; `INFINITE` becomes infinite in place."""
    low[low <= -INFINITE] = -np.inf
    high[high >= INFINITE] = np.inf
    wrong = low > high
    if wrong.any():
        j = int(np.argmax(wrong))
        raise ValueError(
            f"{low_name}[{j}] = {low[j]:g} is above {high_name}[{j}] = {high[j]:g}"
        )
    if (low >= INFINITE).any() or (high <= -INFINITE).any():
        raise ValueError(
            f"{low_name} must be < inf and {high_name} > -inf; {INFINITE:g} counts as infinite"
        )


def is_diagonal(matrix: sp.csr_matrix) -> bool:
    """Whether nothing but the diagonal is non-zero."""
    return (matrix - sp.diags(matrix.diagonal())).count_nonzero() == 0


def is_definite(dense: np.ndarray) -> bool:
    """Whether a symmetric matrix is positive definite, up to the rounding of a factorisation."""
    try:
        np.linalg.cholesky(dense)
    except np.linalg.LinAlgError:
        return False
    return True
