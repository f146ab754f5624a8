"""Whether a convex QP falls without end."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import scipy.optimize
import scipy.sparse as sp

_ZERO = 1e-7
"""What the linear program's answer may be off by; what is smaller is tried as zero."""
_MOST = 60
"""Fractions are exact but slow: directions with more non-zeros are not proven."""

Row = dict[int, Fraction]


def falls_forever(
    P: sp.csr_matrix, q: np.ndarray, A: sp.csr_matrix, l: np.ndarray, u: np.ndarray,  # noqa: E741
    lb: np.ndarray, ub: np.ndarray,
) -> bool:
    """Whether some direction d keeps Pd = 0, stays feasible for ever and has qᵀd < 0.

    One linear program over the recession cone, cut to a unit box, proposes d. It counts only if
    a rational d near it has these properties exactly: with the least curvature along d there is
    an optimum, however far away.
    """
    low = np.where(np.isfinite(lb), 0.0, -1.0)
    high = np.where(np.isfinite(ub), 0.0, 1.0)
    upper, lower = np.isfinite(u), np.isfinite(l)
    rows = sp.vstack([A[upper], -A[lower]], format="csr")
    # Pd = 0 in units of its rows: small curvature is as good as any.
    size = np.asarray(abs(P).max(axis=1).todense()).ravel()
    curved = np.flatnonzero(size)
    scaled = sp.diags(1.0 / size[curved]) @ P[curved]
    answer = scipy.optimize.linprog(
        q, A_ub=rows, b_ub=np.zeros(rows.shape[0]), A_eq=scaled, b_eq=np.zeros(len(curved)),
        bounds=np.column_stack([low, high]), method="highs",
    )
    if answer.status != 0 or not answer.fun < 0.0:
        return False
    d = _exact_direction(P, rows, answer.x)
    return d is not None and (
        _dot(dict(enumerate(map(Fraction, q.tolist()))), d) < 0
        and all(low[j] <= np.sign(value) <= high[j] for j, value in d.items())
        and all(_dot(row, d) <= 0 for row in _rows(rows, d))
        and all(_dot(row, d) == 0 for row in _rows(P, d))
    )


def _exact_direction(P: sp.csr_matrix, rows: sp.csr_matrix, near: np.ndarray) -> Row | None:
    """A rational direction near `near` for which Pd and the rows that bind vanish exactly."""
    near = np.where(np.abs(near) > _ZERO, near, 0.0)
    support = np.flatnonzero(near)
    if not 0 < len(support) <= _MOST:
        return None
    binding = rows[np.abs(rows @ near) <= _ZERO * (abs(rows) @ np.abs(near))]
    equations = _reduce([*_rows(P, support), *_rows(binding, support)])
    d = {int(j): Fraction(float(near[j])).limit_denominator(10**6) for j in support}
    for pivot, row in equations.items():  # each says what the pivot is in terms of the others
        d[pivot] = -sum((row[j] * d[j] for j in row.keys() - {pivot}), Fraction(0))
    return d


def _rows(matrix: sp.csr_matrix, support: np.ndarray | Row) -> list[Row]:
    """The rows that have an entry in the support, as exact numbers."""
    block = sp.csr_matrix(matrix[:, sorted(support)])
    names = sorted(support)
    return [
        {int(names[k]): Fraction(a) for k, a in zip(
            block.indices[first:last].tolist(), block.data[first:last].tolist(), strict=True
        ) if a}
        for first, last in zip(block.indptr[:-1], block.indptr[1:], strict=True) if last > first
    ]


def _reduce(rows: list[Row]) -> dict[int, Row]:
    """Gauss-Jordan: per pivot a row with a one there and nothing at the other pivots."""
    solved: dict[int, Row] = {}
    for row in rows:
        for pivot in solved.keys() & row.keys():
            row = _subtract(row, row[pivot], solved[pivot])
        if not row:
            continue
        pivot = max(row, key=lambda j: abs(row[j]))
        row = {j: value / row[pivot] for j, value in row.items()}
        for other in [p for p, r in solved.items() if pivot in r]:
            solved[other] = _subtract(solved[other], solved[other][pivot], row)
        solved[pivot] = row
    return solved


def _subtract(row: Row, factor: Fraction, other: Row) -> Row:
    """row − factor·other without zeros."""
    result = dict(row)
    for j, value in other.items():
        result[j] = result.get(j, Fraction(0)) - factor * value
    return {j: value for j, value in result.items() if value}


def _dot(row: Row, d: Row) -> Fraction:
    return sum((row[j] * d[j] for j in row.keys() & d.keys()), Fraction(0))
