"""QPs with a limited number of non-zero variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from relaxations import Pairs

from .. import validation
from ..problem import Evaluation, Goal
from ..subset.data import SubsetData
from ..subset.search import SubsetSearch
from .miqp import MIQP
from .swaps import Swaps


class SupportQP(MIQP):
    """min ½ xᵀPx + qᵀx  s.t.  l ≤ Ax ≤ u,  at most k of the x_j non-zero.

    Parameters
    ----------
    P, q, A, l, u
        As in `MIQP`.
    k : int
        How many variables may be selected.
    lb, ub : array or scalar, optional
        Bounds of a variable when it is selected; one that is not selected is zero, whatever its
        bounds. Without finite bounds P must be positive definite.
    support : positions or mask, optional
        The variables that count; all by default. The others are ordinary ones within [lb, ub].
    exactly : bool
        Select exactly k instead of at most k.

    Notes
    -----
    A solution handed in as `start`, or coming out in `Result.x`, is x alone; the binaries z that
    select are internal. With "exactly" and bounds that allow zero, a selected variable may be
    zero.

    Without rows, and with bounds that no good solution reaches, this is a best-subset problem and
    is searched as such, at microseconds a node (`bnb.subset`). All other problems are searched as
    `MIQP`.

    Examples
    --------
    Best subset of two out of three regressors:

    >>> import numpy as np, bnb
    >>> X = np.array([[1.0, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]])
    >>> y = np.array([1.0, 2, 3, 0.1])
    >>> bnb.solve(bnb.SupportQP(X.T @ X, -X.T @ y, 2)).x.round(3)
    array([1., 2., 0.])
    """

    scratch = MIQP.scratch | {"_subset", "_swaps"}

    def __init__(
        self,
        P: Any,
        q: Any,
        k: int,
        A: Any = None,
        l: Any = None,  # noqa: E741 - the usual name
        u: Any = None,
        *,
        lb: Any = None,
        ub: Any = None,
        support: Iterable[int] | np.ndarray | None = None,
        exactly: bool = False,
        constant: float = 0.0,
    ) -> None:
        n = np.size(q)
        everything = np.arange(n) if support is None else support
        selectable = validation.index_set("support", everything, n)
        m = len(selectable)
        if isinstance(k, bool) or int(k) != k or not 0 <= k <= m:
            raise ValueError(f"k must be an integer between 0 and {m}, the variables that count; "
                             f"got {k!r}")
        low = validation.vector("lb", lb, n, -np.inf, infinite=True)
        high = validation.vector("ub", ub, n, np.inf, infinite=True)
        validation.interval("lb", low, "ub", high)
        rows = validation.matrix("A", A, (None, n))
        below = validation.vector("l", l, rows.shape[0], -np.inf, infinite=True)
        above = validation.vector("u", u, rows.shape[0], np.inf, infinite=True)
        pick = sp.csr_matrix((np.ones(m), (np.arange(m), selectable)), shape=(m, n))
        floor, ceiling = low[selectable], high[selectable]
        self.selectable = selectable
        self._n = n
        blocks = [
            sp.hstack([rows, sp.csr_matrix((rows.shape[0], m))]),
            sp.hstack([sp.csr_matrix((1, n)), np.ones((1, m))]),
            _link(pick, ceiling),
            _link(pick, floor),
        ]
        tops, bottoms = int(np.isfinite(ceiling).sum()), int(np.isfinite(floor).sum())
        self._least = int(k) if exactly else 0
        least = float(k) if exactly else -np.inf
        low[selectable], high[selectable] = np.minimum(floor, 0.0), np.maximum(ceiling, 0.0)
        super().__init__(
            sp.block_diag([validation.matrix("P", P, (n, n)), sp.csr_matrix((m, m))]),
            np.concatenate([validation.vector("q", q, n), np.zeros(m)]),
            sp.vstack(blocks, format="csr"),
            np.concatenate([below, [least], np.full(tops, -np.inf), np.zeros(bottoms)]),
            np.concatenate([above, [float(k)], np.zeros(tops), np.full(bottoms, np.inf)]),
            lb=np.concatenate([low, np.zeros(m)]),
            ub=np.concatenate([high, np.ones(m)]),
            binary=np.arange(n, n + m),
            constant=constant,
        )
        self._given = rows.shape[0]  # then comes the count, then the links
        self._links = Pairs(selectable, np.arange(n, n + m), floor, ceiling, np.zeros(m))
        self._refuse_unbounded(floor, ceiling)
        self._subset = self._best_subset(int(k)) if rows.shape[0] == 0 else None
        always = np.ones(n, dtype=bool)
        always[selectable] = False
        self._swaps = Swaps.of(
            self.P[:n, :n], self.q[:n], rows, below, above, *self._selected_bounds(), always,
            int(k),
        )

    def _best_subset(self, k: int) -> SubsetSearch | None:
        """The problem without its bounds; None where P is singular up to rounding."""
        n = self._n
        data = SubsetData.from_quadratic(
            0.5 * self.P[:n, :n].toarray(), -0.5 * self.q[:n], self.constant
        )
        always = np.setdiff1d(np.arange(n), self.selectable)
        return None if data is None else SubsetSearch(data, k, always)

    def _refuse_unbounded(self, floor: np.ndarray, ceiling: np.ndarray) -> None:
        infinite = ~(np.isfinite(floor) & np.isfinite(ceiling))
        if not infinite.any():
            return
        block = self.P[: self._n, : self._n]
        tiny = 1e-10 * float(abs(block).max())
        if not validation.eigenvalues_exceed(block, np.arange(self._n), tiny):
            raise ValueError(
                "P is singular, so lb and ub must be finite for every variable that counts: "
                "without either no lower bound can be certified"
            )

    # -- best subset ------------------------------------------------------------------------

    def _take_over(self, goal: Goal) -> Evaluation | None:
        """A best-subset problem if the bounds do not matter."""
        if self._subset is None:
            return None
        found = self._subset.prepare(goal)
        found.solutions = [(source, self.accept(x)) for source, x in found.solutions]
        checked = [self.check(x) for _, x in found.solutions]
        known = [value for value, violation in checked if violation <= 0.0]
        if not known or not self._subset.within(min(known), *self._selected_bounds()):
            return None
        self._delegate = self._subset
        return found

    def _selected_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = self.lb[: self._n].copy(), self.ub[: self._n].copy()
        low[self.selectable], high[self.selectable] = self._links.low, self._links.high
        return low, high

    @property
    def local_search(self) -> Callable[[np.ndarray, Goal], np.ndarray] | None:
        """Swaps variables in and out of the support, where that is quick."""
        swaps = self._swaps
        if swaps is None:
            return None
        return lambda x, goal: self.accept(swaps.improve(self.present(x), goal.expired))

    # -- as an MIQP -------------------------------------------------------------------------

    def propagate(self, lb: np.ndarray, ub: np.ndarray, rounds: int = 10) -> bool:
        """Rows first; then what is not selected is zero, and what cannot be zero is selected."""
        if not super().propagate(lb, ub, rounds):
            return False
        x, z = self._links.x, self._links.z
        needed = (lb[x] > 0.0) | (ub[x] < 0.0)
        if np.any(needed & (ub[z] < 0.5)):
            return False
        lb[z[needed]] = 1.0
        off = ub[z] < 0.5
        lb[x[off]] = ub[x[off]] = 0.0
        on = lb[z] > 0.5
        lb[x[on]] = np.maximum(lb[x[on]], self._links.low[on])
        ub[x[on]] = np.minimum(ub[x[on]], self._links.high[on])
        return bool(np.all(lb <= ub))

    def _structure(
        self, l: np.ndarray, u: np.ndarray, lb: np.ndarray, ub: np.ndarray,  # noqa: E741
        switchable: np.ndarray,
    ) -> tuple[sp.csr_matrix, np.ndarray, Pairs, np.ndarray]:
        """Nothing has to be found: the switches are known, and the rows that are not theirs."""
        known, x = self._links, self._links.x
        low = np.where(known.low != 0.0, np.maximum(known.low, lb[x]), 0.0)
        high = np.minimum(known.high, ub[x])
        can = low <= high  # what cannot be on is left to the rows
        pairs = Pairs(x[can], known.z[can], low[can], high[can], known.d[can])
        return self.A, u, pairs, np.arange(self._given + 1 if can.all() else len(u))

    def check(self, x: np.ndarray) -> tuple[float, float]:
        """As for `MIQP`, and nothing may be non-zero that is not selected."""
        objective, violation = super().check(x)
        if np.isfinite(violation):
            off = x[self._links.z] < 0.5
            stray = float(np.abs(x[self._links.x[off]]).max(initial=0.0))
            violation = max(violation, stray)
        return objective, violation

    def snap(self, x: np.ndarray, lb: np.ndarray, ub: np.ndarray) -> np.ndarray:
        """As for `MIQP`, and what is not selected is exactly zero."""
        x = super().snap(x, lb, ub)
        x[self._links.x[x[self._links.z] < 0.5]] = 0.0
        return x

    def present(self, x: np.ndarray) -> np.ndarray:
        """x without the binaries."""
        return x[: self._n]

    def accept(self, x: np.ndarray) -> np.ndarray:
        """Select what is not zero (and what else "exactly" asks for)."""
        if np.shape(x) != (self._n,):
            raise ValueError(f"a solution must have shape ({self._n},), got {np.shape(x)}")
        z = (x[self.selectable] != 0.0).astype(float)
        missing = max(0, self._least - int(z.sum()))
        z[np.flatnonzero(z == 0.0)[:missing]] = 1.0
        return np.concatenate([x, z])


def _link(pick: sp.csr_matrix, bound: np.ndarray) -> sp.csr_matrix:
    """Rows x_j − bound_j z_j for the variables with a finite bound."""
    chosen = np.flatnonzero(np.isfinite(bound))
    switch = sp.csr_matrix(
        (-bound[chosen], (np.arange(len(chosen)), chosen)), shape=(len(chosen), len(bound))
    )
    return sp.hstack([pick[chosen], switch], format="csr")
