"""Best-subset models as data for solvers that want X, y and k."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from ..model import PeerModel
from .answer import PeerError


@dataclass(frozen=True)
class Regression:
    """min ‖y − Xβ‖² + rest with at most k non-zeros: X is a triangle."""

    X: np.ndarray
    y: np.ndarray
    k: int
    rest: float

    def point(self, beta: np.ndarray) -> np.ndarray:
        """The model's own variables: coefficients, then switches."""
        return np.concatenate([beta, (beta != 0.0).astype(float)])


def regression(model: PeerModel) -> Regression:
    """The data of a model that `bnb.SupportQP` wrote: columns, then as many switches."""
    p = len(model.binary)
    if len(model.q) != 2 * p or not np.array_equal(model.binary, np.arange(p, 2 * p)):
        raise PeerError("takes best-subset problems only")
    count = np.flatnonzero(np.diff(model.A.indptr) == p)
    if len(count) != 1:
        raise PeerError("takes best-subset problems only")
    S, b = 0.5 * model.P[:p, :p].toarray(), -0.5 * model.q[:p]
    X = la.cholesky(S)
    y = la.solve_triangular(X, b, trans=1)
    return Regression(X, y, int(model.u[count[0]]), model.constant - float(y @ y))
