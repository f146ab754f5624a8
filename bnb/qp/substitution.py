"""Undo what modelling tools do to a problem: bounds as rows, and auxiliary variables.

They write ``sum_squares(X @ b - y)`` as a quadratic form on auxiliary variables t = Xb − y, and
``abs(b) <= M * z`` as ±b ≤ s ≤ M·z. The curvature in b and the switches z, and with them every
strengthening that needs them, are then hidden. Removing t and s brings them to light.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .model import Model

_PIVOT = 1e-6
"""A variable is computed from its row only if its coefficient is not tiny in that row."""

_EMPTY_ROW = 1e-9
"""A row without variables may miss its bounds by this much (relative) and still be dropped."""

_DENSE, _MOST_DENSE = 0.1, 50_000_000
"""Share of entries above which a matrix is treated as a full one, if it is not larger than this."""


@dataclass(frozen=True)
class _Formula:
    """Some variables are an affine function of the others: x = T·x_small + shift."""

    T: sp.csr_matrix
    shift: np.ndarray
    stay: np.ndarray

    def recover(self, x: np.ndarray) -> np.ndarray:
        full = self.T @ x + self.shift
        full[self.stay] = x  # the same numbers, not only up to rounding
        return full


@dataclass(frozen=True)
class _Between:
    """Some variables lie anywhere between functions of the others; they get the nearest end.

    The value of variable ``columns[owner[i]]`` is the largest of ``sign·(rows[i]·x + shift[i])``
    over its rows i, times ``sign``: the largest lower end, or the smallest upper end.
    """

    columns: np.ndarray
    stay: np.ndarray
    rows: sp.csr_matrix
    shift: np.ndarray
    owner: np.ndarray
    sign: np.ndarray

    def recover(self, x: np.ndarray) -> np.ndarray:
        value = np.full(len(self.columns), -np.inf)
        np.maximum.at(value, self.owner, self.sign[self.owner] * (self.rows @ x + self.shift))
        full = np.empty(len(self.columns) + len(x))
        full[self.columns] = np.where(np.isfinite(value), self.sign * value, 0.0)
        full[self.stay] = x
        return full


@dataclass(frozen=True)
class Substitution:
    """A smaller model with the same optimal value, and the way back.

    Attributes
    ----------
    model : Model
        The smaller model.
    kept : ndarray of shape (k,)
        Which of the original variables are the variables of the smaller model.
    size : int
        The number of original variables.
    steps : tuple
        What was done, in order.
    """

    model: Model
    kept: np.ndarray
    size: int
    steps: tuple[_Formula | _Between, ...] = ()

    def recover(self, x: np.ndarray) -> np.ndarray:
        """All original variables, from a point of the smaller model."""
        for step in reversed(self.steps):
            x = step.recover(x)
        return np.array(x, dtype=float)

    def restrict(self, x: np.ndarray) -> np.ndarray:
        """The point of the smaller model that belongs to an original point."""
        return np.asarray(x, dtype=float)[self.kept]


def substitute(model: Model, limit: int = 4_000_000) -> Substitution:
    """Turn singleton rows into bounds and remove auxiliary variables.

    Two kinds of continuous variables are removed:

    - Those defined by an equation: it is the only row they are in, and no other variable of
      it has an equal claim. They are replaced by what the equation says; their bounds, if they
      have any, stay behind as a row.
    - Those that cost nothing and only pass inequalities on, as s in ``±b ≤ s ≤ M·z``, which is
      what a modelling tool makes of ``|b| ≤ M·z``: the inequalities are joined, if that takes
      no more room than before.

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
    model = rows_to_bounds(replace(model, P=_clean(model.P)))
    kept = np.arange(n)
    steps: list[_Formula | _Between] = []
    while True:
        rows, columns = _definitions(model)
        rows, columns = _affordable(model, rows, columns, max(limit, model.P.nnz))
        step: _Formula | _Between | None
        if len(columns):
            model, step = _eliminate(model, rows, columns)
        else:
            model, step = _join(model)
        if step is None:
            return Substitution(model, kept, n, tuple(steps))
        # One removal may make room for another.
        model, kept = rows_to_bounds(model), kept[step.stay]
        steps.append(step)


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
) -> tuple[Model, _Formula]:
    """Put the definitions in."""
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
        P=_form_after(model.P, T),
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
    return smaller, _Formula(T, shift, stay)


@dataclass(frozen=True)
class _End:
    """One end of a variable's interval: values·x[columns] + shift."""

    columns: np.ndarray
    values: np.ndarray
    shift: float


def _join(model: Model) -> tuple[Model, _Between | None]:
    """Remove variables that only pass inequalities on (Fourier–Motzkin, where it is cheap)."""
    A, by_column = model.A, model.A.tocsc()
    idle = ~model.integer & (model.q == 0.0) & (np.diff(model.P.indptr) == 0)
    idle &= np.diff(by_column.indptr) > 0
    used = np.zeros(A.shape[0], dtype=bool)
    length, equation = np.diff(A.indptr), model.l == model.u
    found: list[tuple[int, list[_End], list[_End]]] = []
    for j in np.flatnonzero(idle).tolist():
        if len(found) == len(model.q) - 1:
            break  # a problem keeps at least one variable
        rows = by_column.indices[by_column.indptr[j] : by_column.indptr[j + 1]]
        if used[rows].any() or equation[rows].any():
            continue
        ends = _ends(model, j, rows)
        if ends is None or _room(*ends) > length[rows].sum():
            continue
        used[rows] = True
        found.append((j, *ends))
    if not found:
        return model, None
    return _without(model, found, np.flatnonzero(~used))


def _ends(model: Model, j: int, rows: np.ndarray) -> tuple[list[_End], list[_End]] | None:
    """What the rows say about variable j: x_j ≥ every lower end and ≤ every upper end."""
    nothing = np.zeros(0, dtype=np.int64)
    lower = [_End(nothing, nothing * 0.0, model.lb[j])] if np.isfinite(model.lb[j]) else []
    upper = [_End(nothing, nothing * 0.0, model.ub[j])] if np.isfinite(model.ub[j]) else []
    for i in rows:
        entries = slice(model.A.indptr[i], model.A.indptr[i + 1])
        columns, values = model.A.indices[entries], model.A.data[entries]
        rest = columns != j
        a = float(values[~rest][0])
        if abs(a) < _PIVOT * np.abs(values).max():
            return None
        for side, end in ((upper, model.u[i]), (lower, model.l[i])):
            if np.isfinite(end):
                if a < 0:
                    side = lower if side is upper else upper
                side.append(_End(columns[rest], -values[rest] / a, end / a))
    return lower, upper


def _room(lower: list[_End], upper: list[_End]) -> int:
    """Entries of the joined rows."""
    return sum(len(low.columns) + len(high.columns) for low in lower for high in upper)


def _without(
    model: Model, found: list[tuple[int, list[_End], list[_End]]], others: np.ndarray
) -> tuple[Model, _Between]:
    """Every lower end at most every upper end, in place of the rows of these variables."""
    n = len(model.q)
    joined, low_ends, owner, sign = [], [], [], []
    for k, (_, lower, upper) in enumerate(found):
        joined += [
            _End(np.concatenate([low.columns, high.columns]),
                 np.concatenate([low.values, -high.values]), high.shift - low.shift)
            for low in lower for high in upper
        ]
        ends = lower or upper
        low_ends += ends
        owner += [k] * len(ends)
        sign.append(1.0 if lower else -1.0)
    columns = np.array([j for j, _, _ in found])
    stay = np.setdiff1d(np.arange(n), columns)
    limits = np.array([end.shift for end in joined])
    smaller = replace(
        model, P=model.P[stay][:, stay], q=model.q[stay], lb=model.lb[stay], ub=model.ub[stay],
        integer=model.integer[stay],
        A=sp.vstack([model.A[others], _matrix(joined, n)], format="csr")[:, stay],
        l=np.concatenate([model.l[others], np.full(len(joined), -np.inf)]),
        u=np.concatenate([model.u[others], limits]),
    )
    shift = np.array([end.shift for end in low_ends])
    rows = _matrix(low_ends, n)[:, stay]
    return smaller, _Between(columns, stay, rows, shift, np.array(owner, dtype=int),
                             np.array(sign))


def _matrix(ends: list[_End], n: int) -> sp.csr_matrix:
    if not ends:
        return sp.csr_matrix((0, n))
    start = np.cumsum([0] + [len(end.columns) for end in ends])
    columns = np.concatenate([end.columns for end in ends])
    values = np.concatenate([end.values for end in ends])
    matrix = sp.csr_matrix((values, columns, start), shape=(len(ends), n))
    matrix.sum_duplicates()
    return matrix


def _form_after(P: sp.csr_matrix, T: sp.csr_matrix) -> sp.csr_matrix:
    """The quadratic form TᵀPT, symmetric to the last digit."""
    curved = np.flatnonzero(np.diff(P.indptr))
    rows = T[curved]
    reached = np.unique(rows.indices)
    rows = rows[:, reached]
    entries = rows.shape[0] * rows.shape[1]
    if _DENSE * entries < rows.nnz and entries <= _MOST_DENSE:
        rows = rows.toarray()  # sparse products of full matrices take a hundred times longer
    block = sp.csr_matrix(rows.T @ (P[curved][:, curved] @ rows))
    place = sp.csr_matrix(
        (np.ones(len(reached)), (np.arange(len(reached)), reached)),
        shape=(len(reached), T.shape[1]),
    )
    return _clean(place.T @ (0.5 * (block + block.T)) @ place)
