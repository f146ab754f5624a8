"""The one form in which every peer gets a problem: a mixed-integer QP with indicator rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

import bnb.qp.model


@dataclass(frozen=True)
class Indicators:
    """z[switch_j] = 1 ⇒ G_j x ≥ h_j."""

    switch: np.ndarray
    G: sp.csr_matrix
    h: np.ndarray


@dataclass(frozen=True)
class PeerModel(bnb.qp.model.Model):
    """A mixed-integer QP; `indicators` come on top where a solver has them."""

    indicators: Indicators | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Variables and rows, indicator rows among them."""
        extra = 0 if self.indicators is None else len(self.indicators.h)
        return len(self.q), self.A.shape[0] + extra

    @property
    def kinds(self) -> np.ndarray:
        """ "B", "I" or "C" per variable."""
        kinds = np.where(self.integer, "I", "C")
        kinds[self.binary] = "B"
        return kinds

    def scaled(self, factor: float) -> PeerModel:
        """The same with the objective times a factor."""
        return replace(
            self, P=sp.csr_matrix(factor * self.P), q=factor * self.q,
            constant=factor * self.constant,
        )

    def split_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Masks of equations, of rows with an upper and of rows with a lower side."""
        equal = self.l == self.u
        return equal, np.isfinite(self.u) & ~equal, np.isfinite(self.l) & ~equal

    def one_sided(self) -> tuple[sp.csr_matrix, np.ndarray, str]:
        """Rows, right-hand sides and senses "E", "L", "G", for solvers without ranges."""
        equal, upper, lower = self.split_rows()
        A = sp.csr_matrix(sp.vstack([self.A[equal], self.A[upper], self.A[lower]]))
        rhs = np.concatenate([self.u[equal], self.u[upper], self.l[lower]])
        return A, rhs, "E" * equal.sum() + "L" * upper.sum() + "G" * lower.sum()

    def triangle(self) -> sp.coo_matrix:
        """Upper triangle of P."""
        return sp.coo_matrix(sp.triu(self.P))


def objective_scale(model: PeerModel) -> float:
    """Brings tiny objectives to a size at which a peer's absolute tolerances mean little."""
    size = max(np.abs(model.q).max(), 0.1 * np.abs(model.P.data).max(initial=0.0))
    return max(1.0, 1e3 / size) if size > 0.0 else 1.0
