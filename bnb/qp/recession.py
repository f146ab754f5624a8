"""Whether a convex QP falls without end."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import scipy.optimize
import scipy.sparse as sp

from relaxations import OutOfTimeError, Patience
from relaxations.qp.exact import Row, dot, eliminate, exact_rows

_ZERO = 1e-7
"""What the linear program's answer may be off by; what is smaller is tried as zero."""
_MOST = 60
"""Fractions are exact but slow: directions with more non-zeros are not proven."""


def falls_forever(
    P: sp.csr_matrix, q: np.ndarray, A: sp.csr_matrix, l: np.ndarray, u: np.ndarray,  # noqa: E741
    lb: np.ndarray, ub: np.ndarray, patience: Patience,
) -> bool | None:
    """Whether some direction d keeps Pd = 0, stays feasible for ever and has qᵀd < 0.

    One linear program over the recession cone, cut to a unit box, proposes d. It is proven only
    if a rational d near it has these properties exactly: with the least curvature along d there
    is an optimum, however far away. None if there is such a d up to rounding, but no proof.
    """
    low = np.where(np.isfinite(lb), 0.0, -1.0)
    high = np.where(np.isfinite(ub), 0.0, 1.0)
    upper, lower = np.isfinite(u), np.isfinite(l)
    rows = sp.vstack([A[upper], -A[lower]], format="csr")
    # Pd = 0 in units of its rows: small curvature is as good as any.
    size = abs(P).max(axis=1).toarray().ravel()
    curved = np.flatnonzero(size)
    answer = patience.run(
        lambda: scipy.optimize.linprog(
            q, A_ub=rows, b_ub=np.zeros(rows.shape[0]),
            A_eq=sp.diags(1.0 / size[curved]) @ P[curved], b_eq=np.zeros(len(curved)),
            bounds=np.column_stack([low, high]), method="highs",
            options={"time_limit": patience.seconds()},
        ),
        1e3 * (P.nnz + rows.nnz),
    )
    if answer.status == 1:  # a limit was met
        raise OutOfTimeError
    if answer.status != 0 or not answer.fun < -_ZERO * np.abs(q).max():
        return False
    d = _exact_direction(P, rows, answer.x)
    inside = all((high[j] if value > 0 else low[j]) != 0.0 for j, value in d.items())
    proven = (
        inside
        and dot(exact_rows(q[None, :])[0], d) < 0
        and all(dot(row, d) <= 0 for row in exact_rows(rows))
        and all(dot(row, d) == 0 for row in exact_rows(P[sorted(d)]))
    )
    return True if proven else None


def _exact_direction(P: sp.csr_matrix, rows: sp.csr_matrix, near: np.ndarray) -> Row:
    """A rational direction near `near` along which P and the rows that bind vanish exactly.

    Zero if there is none, or too much to compute.
    """
    near = np.where(np.abs(near) > _ZERO, near, 0.0)
    support = np.flatnonzero(near)
    if len(support) > _MOST:
        return {}
    binding = np.abs(rows @ near) <= _ZERO * (abs(rows) @ np.abs(near))
    equations = sp.vstack([P[support], rows[binding]], format="csc")[:, support]
    d = [Fraction(value).limit_denominator(10**6) for value in near[support].tolist()]
    for pivot, row in eliminate(exact_rows(equations))[0].items():
        d[pivot] = -sum((row[k] * d[k] for k in row.keys() - {pivot}), Fraction(0))
    return {int(j): value for j, value in zip(support, d, strict=True) if value}
