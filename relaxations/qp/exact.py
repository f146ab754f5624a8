"""Linear algebra in exact arithmetic, for what has to be zero and not only small."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

Row = dict[int, Fraction]
"""The non-zeros of a vector."""


def exact_rows(matrix: np.ndarray | sp.spmatrix) -> list[Row]:
    """The rows of a matrix of floats."""
    rows = sp.csr_matrix(matrix)
    return [
        {j: Fraction(a) for j, a in zip(
            rows.indices[first:last].tolist(), rows.data[first:last].tolist(), strict=True
        ) if a}
        for first, last in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
    ]


def dot(one: Row, other: Row) -> Fraction:
    """The inner product."""
    return sum((one[j] * other[j] for j in one.keys() & other.keys()), Fraction(0))


def subtract(row: Row, factor: Fraction, other: Row) -> Row:
    """row − factor·other."""
    result = dict(row)
    for j, value in other.items():
        result[j] = result.get(j, Fraction(0)) - factor * value
    return {j: value for j, value in result.items() if value}


def eliminate(rows: Iterable[Row]) -> tuple[dict[int, Row], list[int]]:
    """Gauss and Jordan's method.

    Returns
    -------
    solved : dict
        Per pivot a row with a one there and zeros at all other pivots.
    dependent : list of int
        The positions of rows that are linear combinations of rows before them.
    """
    solved: dict[int, Row] = {}
    dependent = []
    for number, row in enumerate(rows):
        for pivot in solved.keys() & row.keys():
            row = subtract(row, row[pivot], solved[pivot])
        if not row:
            dependent.append(number)
            continue
        pivot = max(row, key=lambda j: abs(row[j]))
        row = {j: value / row[pivot] for j, value in row.items()}
        for other in [p for p, r in solved.items() if pivot in r]:
            solved[other] = subtract(solved[other], solved[other][pivot], row)
        solved[pivot] = row
    return solved, dependent
