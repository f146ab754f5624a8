"""The kernel matrix, as it is or as a product of factors, behind one interface.

A kernel of small rank d (the linear one, a Nyström map) is kept as Z with K = ZZ': n x d numbers
in place of n x n, and products that take n d steps in place of n times the non-zeros of t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import inner, outer

__all__ = ["Gram", "add_rows", "block", "dense", "entry", "factored", "rows_times", "times"]

# Sums may be added up in any order, which is what vector units need; nothing else is loosened.
_FAST = {"reassoc", "contract", "nsz"}


class Gram(NamedTuple):
    """K itself, or Z with K = ZZ'; the other one is empty.

    Parameters
    ----------
    K : ndarray (N, N) or (0, 0)
    Z : ndarray (N, d) or (N, 0)
    T : ndarray (d, N) or (0, N)
        Z', row by row: products with Z run along these.
    diag : ndarray (N,)
        The diagonal of K.
    """

    K: np.ndarray
    Z: np.ndarray
    T: np.ndarray
    diag: np.ndarray


def dense(K: np.ndarray) -> Gram:
    """The matrix as it is; no copy is made of a contiguous one."""
    K = np.ascontiguousarray(K, dtype=float)
    nothing = np.zeros((len(K), 0))
    return Gram(K, nothing, nothing.T.copy(), K.diagonal().copy())


def factored(Z: np.ndarray) -> Gram:
    """The matrix ZZ', which is never written down."""
    Z = np.ascontiguousarray(Z, dtype=float)
    return Gram(np.zeros((0, 0)), Z, Z.T.copy(), np.einsum("ij,ij->i", Z, Z))


@inner(fastmath=_FAST)
def entry(gram: Gram, i: int, j: int) -> float:
    """K_ij."""
    if gram.Z.shape[1] == 0:
        return gram.K[i, j]
    total = 0.0
    for k in range(gram.Z.shape[1]):
        total += gram.Z[i, k] * gram.Z[j, k]
    return total


@inner(fastmath=_FAST)
def add_rows(gram: Gram, index: np.ndarray, factor: np.ndarray, out: np.ndarray) -> None:
    """Add ``sum_a factor_a K[index_a]`` to ``out``."""
    if gram.Z.shape[1] == 0:
        for a in range(index.size):
            row = gram.K[index[a]]
            weight = factor[a]
            for k in range(out.size):
                out[k] += weight * row[k]
        return
    rank = gram.Z.shape[1]
    w = np.zeros(rank)
    for a in range(index.size):
        for k in range(rank):
            w[k] += factor[a] * gram.Z[index[a], k]
    for k in range(0, rank - 3, 4):  # four at a time: out is read and written less often
        w0, w1, w2, w3 = w[k], w[k + 1], w[k + 2], w[k + 3]
        z0, z1, z2, z3 = gram.T[k], gram.T[k + 1], gram.T[k + 2], gram.T[k + 3]
        for i in range(out.size):
            out[i] += w0 * z0[i] + w1 * z1[i] + w2 * z2[i] + w3 * z3[i]
    for k in range(rank - rank % 4, rank):
        w0, z0 = w[k], gram.T[k]
        for i in range(out.size):
            out[i] += w0 * z0[i]


@outer
def times(gram: Gram, t: np.ndarray, out: np.ndarray) -> None:
    """Write ``K t``, skipping the zeros of ``t``."""
    index = np.empty(t.size, np.int64)
    factor = np.empty(t.size)
    count = 0
    for i in range(t.size):
        out[i] = 0.0
        if t[i] != 0.0:
            index[count] = i
            factor[count] = t[i]
            count += 1
    add_rows(gram, index[:count], factor, out)


def block(gram: Gram, index: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
    """K between these variables, or between them and others."""
    others = index if others is None else others
    if gram.Z.shape[1] == 0:
        return gram.K[np.ix_(index, others)]
    return gram.Z[index] @ gram.Z[others].T


def rows_times(gram: Gram, index: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """``sum_a factor_a K[index_a]``."""
    if gram.Z.shape[1] == 0:
        return factor @ gram.K[index]
    return gram.Z @ (factor @ gram.Z[index])
