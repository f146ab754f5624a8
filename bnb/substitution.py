"""Remove rows that only say what a variable is: bounds written as rows, and definitions.

Modelling tools write ``sum_squares(X @ b - y)`` as a quadratic form on auxiliary variables
t = Xb − y. The curvature in b, and with it every strengthening that needs it, is then hidden
behind equations. Putting t = Xb − y back brings it to light.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

_PIVOT = 1e-6
"""A variable is computed from its row only if its coefficient is not tiny in that row."""

_EMPTY_ROW = 1e-9
"""A row without variables may miss its bounds by this much (relative) and still be dropped."""


@dataclass(frozen=True)
class Model:
    """min ½ xᵀPx + qᵀx + constant  s.t.  l ≤ Ax ≤ u,  lb ≤ x ≤ ub,  x integer where `integer`.

    Plain data, in the order and with the meaning of the arguments of `bnb.MIQP`.
    """

    P: sp.csr_matrix
    q: np.ndarray
    A: sp.csr_matrix
    l: np.ndarray  # noqa: E741 - the usual name
    u: np.ndarray
    lb: np.ndarray
    ub: np.ndarray
    integer: np.ndarray
    constant: float = 0.0

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for `bnb.MIQP`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Substitution:
    """A smaller model, and the way back: x = T·x_small + offset.

    Attributes
    ----------
    model : Model
        The smaller model; same optimal value.
    T : csr_matrix of shape (n, k)
    offset : ndarray of shape (n,)
    kept : ndarray of shape (k,)
        Which of the original variables are the variables of the smaller model.
    """

    model: Model
    T: sp.csr_matrix
    offset: np.ndarray
    kept: np.ndarray

    def recover(self, x: np.ndarray) -> np.ndarray:
        """All original variables, from a point of the smaller model."""
        full = self.T @ x + self.offset
        full[self.kept] = x  # the same numbers, not only up to rounding
        return full

    def restrict(self, x: np.ndarray) -> np.ndarray:
        """The point of the smaller model that belongs to an original point."""
        return np.asarray(x, dtype=float)[self.kept]


def substitute(model: Model, limit: int = 4_000_000) -> Substitution:
    """Turn singleton rows into bounds and put defined variables into the objective.

    A continuous variable is defined by an equation if that is the only row it is in and no other
    variable of the equation has an equal claim. It is replaced by what the equation says; its
    bounds, if it has any, stay behind as a row.

    Parameters
    ----------
    model : Model
    limit : int
        Non-zeros that the quadratic form may grow to. Definitions with the longest rows are
        left in place when it would grow beyond.

    Returns
    -------
    Substitution
    """
    n = len(model.q)
    model = replace(
        model, P=_clean(model.P), A=_clean(model.A), lb=model.lb.copy(), ub=model.ub.copy()
    )
    T, offset, kept = sp.identity(n, format="csr"), np.zeros(n), np.arange(n)
    while True:
        model = rows_to_bounds(model)
        rows, columns = _definitions(model)
        rows, columns = _affordable(model, rows, columns, max(limit, model.P.nnz))
        if not len(columns):
            return Substitution(model, T, offset, kept)
        model, step, shift, stay = _eliminate(model, rows, columns)
        # One definition may lead to another, so the steps are chained.
        T, offset, kept = sp.csr_matrix(T @ step), offset + T @ shift, kept[stay]


def rows_to_bounds(model: Model) -> Model:
    """Turn rows with one variable into bounds and drop empty rows that hold.

    Rows that contradict each other or the bounds are left in place: to prove a problem
    infeasible is the business of whoever solves it.
    """
    A = _clean(model.A)
    length = np.diff(A.indptr)
    single = np.flatnonzero(length == 1)
    columns, values = A.indices[A.indptr[single]], A.data[A.indptr[single]]
    ends = np.array([model.l[single] / values, model.u[single] / values])
    lb, ub = model.lb.copy(), model.ub.copy()
    np.maximum.at(lb, columns, ends.min(axis=0))
    np.minimum.at(ub, columns, ends.max(axis=0))
    empty = lb > ub
    lb[empty], ub[empty] = model.lb[empty], model.ub[empty]
    drop = (length == 0) & _holds_at_zero(model)
    drop[single[~empty[columns]]] = True
    keep = np.flatnonzero(~drop)
    return replace(model, A=A[keep], l=model.l[keep], u=model.u[keep], lb=lb, ub=ub)


def _clean(matrix: Any) -> sp.csr_matrix:
    """Without stored zeros, which would make a row look longer than it is."""
    clean = sp.csr_matrix(matrix, dtype=float, copy=True)
    clean.sum_duplicates()
    clean.eliminate_zeros()
    return clean


def _holds_at_zero(model: Model) -> np.ndarray:
    slack = [_EMPTY_ROW * np.maximum(1.0, np.abs(end)) for end in (model.l, model.u)]
    return (model.l <= slack[0]) & (model.u >= -slack[1])


def _definitions(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Equations and the variables they define, one each."""
    A = model.A
    m, n = A.shape
    if not A.nnz:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    row = np.repeat(np.arange(m), np.diff(A.indptr))
    only_here = np.bincount(A.indices, minlength=n) == 1
    equation = (model.l == model.u) & (np.diff(A.indptr) > 1)
    largest = abs(A).max(axis=1).toarray().ravel()
    claim = (only_here & ~model.integer)[A.indices] & equation[row]
    claim &= np.abs(A.data) >= _PIVOT * largest[row]
    # A variable with curvature has the better claim: to bring that to light is what this is for.
    curved = np.diff(model.P.indptr) > 0
    chosen = claim & curved[A.indices]
    chosen &= _alone(chosen, row, m)
    rest = claim & ~_any(chosen, row, m)
    chosen |= rest & _alone(rest, row, m)
    return row[chosen], A.indices[chosen].astype(np.int64)


def _alone(marked: np.ndarray, row: np.ndarray, m: int) -> np.ndarray:
    """For every entry, whether its row has exactly one marked entry."""
    return (np.bincount(row[marked], minlength=m) == 1)[row]


def _any(marked: np.ndarray, row: np.ndarray, m: int) -> np.ndarray:
    """For every entry, whether its row has a marked entry."""
    return (np.bincount(row[marked], minlength=m) > 0)[row]


def _affordable(
    model: Model, rows: np.ndarray, columns: np.ndarray, limit: int
) -> tuple[np.ndarray, np.ndarray]:
    """Leave out the definitions with the longest rows until the quadratic form stays small."""
    length = np.diff(model.A.indptr)[rows] - 1
    order = np.argsort(length, kind="stable")
    while len(order) and _size_after(model, rows[order], columns[order]) > limit:
        order = order[: len(order) // 2]
    return rows[order], columns[order]


def _size_after(model: Model, rows: np.ndarray, columns: np.ndarray) -> float:
    """An upper bound on the non-zeros of the quadratic form after these substitutions."""
    # Every entry (i, j) of P becomes a block: what i turns into times what j turns into.
    width = np.ones(len(model.q))
    width[columns] = np.diff(model.A.indptr)[rows] - 1
    by_entry = float(width @ ((model.P != 0) @ width))
    # And nothing can be larger than a dense block on all variables that are reached.
    curved = np.diff(model.P.indptr) > 0
    reached = curved.copy()
    reached[model.A[rows[curved[columns]]].indices] = True
    reached[columns] = False
    return min(by_entry, float(reached.sum()) ** 2)


def _eliminate(
    model: Model, rows: np.ndarray, columns: np.ndarray
) -> tuple[Model, sp.csr_matrix, np.ndarray, np.ndarray]:
    """Put the definitions in; returns the model, T, the offset and the positions that stay."""
    n = len(model.q)
    stay = np.setdiff1d(np.arange(n), columns)
    pivot = np.asarray(model.A[rows, columns]).ravel()
    formula = sp.csr_matrix(sp.diags(-1.0 / pivot) @ model.A[rows][:, stay])
    shift = np.zeros(n)
    shift[columns] = model.l[rows] / pivot
    place = np.empty(n, dtype=np.int64)
    place[np.concatenate([stay, columns])] = np.arange(n)
    T = sp.vstack([sp.identity(len(stay), format="csr"), formula], format="csr")[place]

    # The defined variables are in no other row, so the other rows only lose empty columns.
    others = np.setdiff1d(np.arange(model.A.shape[0]), rows)
    bounded = np.isfinite(model.lb[columns]) | np.isfinite(model.ub[columns])
    ranged = columns[bounded]
    smaller = Model(
        P=_symmetric(T.T @ model.P @ T),
        q=T.T @ (model.q + model.P @ shift),
        A=sp.vstack([model.A[others][:, stay], formula[bounded]], format="csr"),
        l=np.concatenate([model.l[others], model.lb[ranged] - shift[ranged]]),
        u=np.concatenate([model.u[others], model.ub[ranged] - shift[ranged]]),
        lb=model.lb[stay],
        ub=model.ub[stay],
        integer=model.integer[stay],
        constant=model.constant
        + float(model.q @ shift)
        + 0.5 * float(shift @ (model.P @ shift)),
    )
    return smaller, T, shift, stay


def _symmetric(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Products are symmetric only up to rounding."""
    return _clean(0.5 * (matrix + matrix.T))
