"""A mixed-integer QP as plain data: what files, cvxpy and benchmarks say and `bnb.MIQP` takes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp


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

    @property
    def binary(self) -> np.ndarray:
        """Positions of the integers between zero and one."""
        return np.flatnonzero(self.integer & (self.lb >= 0.0) & (self.ub <= 1.0))

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for `bnb.MIQP`."""
        return {field.name: getattr(self, field.name) for field in fields(Model)}
