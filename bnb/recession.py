"""Whether a convex QP falls without end."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import scipy.sparse as sp

from relaxations import OutOfTimeError, Patience


def falls_forever(
    P: sp.csr_matrix, q: np.ndarray, A: sp.csr_matrix, l: np.ndarray, u: np.ndarray,  # noqa: E741
    lb: np.ndarray, ub: np.ndarray, patience: Patience,
) -> bool:
    """Whether some direction d keeps Pd = 0, stays feasible for ever and has qᵀd < 0.

    One linear program over the recession cone, cut to a unit box.
    """
    low = np.where(np.isfinite(lb), 0.0, -1.0)
    high = np.where(np.isfinite(ub), 0.0, 1.0)
    upper, lower = np.isfinite(u), np.isfinite(l)
    rows = sp.vstack([A[upper], -A[lower]], format="csr")
    answer = patience.run(
        lambda: scipy.optimize.linprog(
            q, A_ub=rows, b_ub=np.zeros(rows.shape[0]), A_eq=P, b_eq=np.zeros(P.shape[0]),
            bounds=np.column_stack([low, high]), method="highs",
            options={"time_limit": patience.seconds()},
        ),
        1e3 * (P.nnz + rows.nnz),
    )
    if answer.status == 1:  # a limit was met
        raise OutOfTimeError
    return bool(answer.status == 0 and answer.fun < -1e-7 * max(1.0, np.abs(q).max()))
