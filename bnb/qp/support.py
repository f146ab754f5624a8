"""QPs with a limited number of non-zero variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from relaxations import Pairs

from .. import validation
from ..problem import Evaluation, Goal
from ..subset.data import SubsetData
from ..subset.search import SubsetSearch
from .miqp import MIQP
from .rules import Delegate, Rules
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
        k = validation.count("k", k, m, "the variables that count")
        low = validation.vector("lb", lb, n, -np.inf, infinite=True)
        high = validation.vector("ub", ub, n, np.inf, infinite=True)
        validation.interval("lb", low, "ub", high)
        rows = validation.matrix("A", A, (None, n))
        below = validation.vector("l", l, rows.shape[0], -np.inf, infinite=True)
        above = validation.vector("u", u, rows.shape[0], np.inf, infinite=True)
        pick = sp.csr_matrix((np.ones(m), (np.arange(m), selectable)), shape=(m, n))
        floor, ceiling = low[selectable], high[selectable]
        blocks = [
            sp.hstack([rows, sp.csr_matrix((rows.shape[0], m))]),
            sp.hstack([sp.csr_matrix((1, n)), np.ones((1, m))]),
            _link(pick, ceiling),
            _link(pick, floor),
        ]
        tops, bottoms = int(np.isfinite(ceiling).sum()), int(np.isfinite(floor).sum())
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
        self._refuse_unbounded(n, floor, ceiling)
        switches = Pairs(selectable, np.arange(n, n + m), floor, ceiling, np.zeros(m))
        bounds = _when_selected(self, switches)
        always = np.ones(n, dtype=bool)
        always[selectable] = False
        swaps = Swaps.of(self.P[:n, :n], self.q[:n], rows, below, above, *bounds, always, k)
        self.rules = SupportRules(n, switches, k, exactly, rows.shape[0], swaps)

    def _refuse_unbounded(self, n: int, floor: np.ndarray, ceiling: np.ndarray) -> None:
        if np.all(np.isfinite(floor) & np.isfinite(ceiling)):
            return
        block = self.P[:n, :n]
        tiny = 1e-10 * float(abs(block).max())
        if not validation.eigenvalues_exceed(block, np.arange(n), tiny):
            raise ValueError(
                "P is singular, so lb and ub must be finite for every variable that counts: "
                "without either no lower bound can be certified"
            )


@dataclass(frozen=True)
class SupportRules(Rules):
    """At most k of the switches are on, and what is off is zero.

    Parameters
    ----------
    n : int
        How many variables there are; the switches follow.
    links : Pairs
        Which switch belongs to which variable, and its bounds when it is on.
    k : int
    exactly : bool
        Whether k is also the least.
    given : int
        How many rows the user gave; then comes the count, then what the bounds say.
    swaps : Swaps, optional
        Looks for better supports, where that is quick.
    """

    links: Pairs
    k: int
    exactly: bool
    given: int
    swaps: Swaps | None

    def extend(self, x: np.ndarray) -> np.ndarray:
        """Select what is not zero, and what else "exactly" asks for."""
        z = (x[self.links.x] != 0.0).astype(float)
        missing = max(0, self.k - int(z.sum())) if self.exactly else 0
        idle = (z == 0.0) & (self.links.low <= 0.0) & (self.links.high >= 0.0)
        z[np.flatnonzero(idle)[:missing]] = 1.0
        return np.concatenate([x, z])

    def violation(self, x: np.ndarray) -> float:
        """Nothing may be non-zero that is not selected."""
        off = x[self.links.z] < 0.5
        return float(np.abs(x[self.links.x[off]]).max(initial=0.0))

    def tighten(self, lb: np.ndarray, ub: np.ndarray) -> bool:
        """What is not selected is zero, and what cannot be zero is selected."""
        x, z = self.links.x, self.links.z
        needed = (lb[x] > 0.0) | (ub[x] < 0.0)
        if np.any(needed & (ub[z] < 0.5)):
            return False
        lb[z[needed]] = 1.0
        off = ub[z] < 0.5
        lb[x[off]] = ub[x[off]] = 0.0
        on = lb[z] > 0.5
        lb[x[on]] = np.maximum(lb[x[on]], self.links.low[on])
        ub[x[on]] = np.minimum(ub[x[on]], self.links.high[on])
        return bool(np.all(lb <= ub))

    def snap(self, x: np.ndarray) -> None:
        """What is not selected is exactly zero."""
        x[self.links.x[x[self.links.z] < 0.5]] = 0.0

    def switches(self, lb: np.ndarray, ub: np.ndarray) -> tuple[Pairs, np.ndarray]:
        """Nothing has to be found: the switches are known, and the rows that are not theirs."""
        known, x = self.links, self.links.x
        low = np.where(known.low != 0.0, np.maximum(known.low, lb[x]), 0.0)
        high = np.minimum(known.high, ub[x])
        can = low <= high  # what cannot be on is left to the rows
        pairs = Pairs(x[can], known.z[can], low[can], high[can], known.d[can])
        rows = self.given + 1
        if not can.all():
            rows += int(np.isfinite(known.low).sum() + np.isfinite(known.high).sum())
        return pairs, np.arange(rows)

    def delegate(self, problem: MIQP, goal: Goal) -> tuple[Delegate, Evaluation] | None:
        """Without rows, and with bounds that do not matter, this is a best-subset problem."""
        n = self.n
        if self.given:
            return None
        data = SubsetData.from_quadratic(
            0.5 * problem.P[:n, :n].toarray(), -0.5 * problem.q[:n], problem.constant
        )
        if data is None:  # P is singular up to rounding
            return None
        search = SubsetSearch(data, self.k, np.setdiff1d(np.arange(n), self.links.x))
        found = search.prepare(goal)
        found.solutions = [(source, self.extend(x)) for source, x in found.solutions]
        checked = [problem.check(x) for _, x in found.solutions]
        known = [value for value, violation in checked if violation <= 0.0]
        bounds = _when_selected(problem, self.links)
        return (search, found) if known and search.within(min(known), *bounds) else None

    @property
    def local_search(self) -> Callable[[np.ndarray, Goal], np.ndarray] | None:
        """Swaps variables in and out of the support, where that is quick."""
        swaps = self.swaps
        if swaps is None:
            return None
        return lambda x, goal: self.extend(swaps.improve(x[: self.n], goal.expired))


def _when_selected(problem: MIQP, links: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the user's variables, of those that count when they are selected."""
    n = len(problem.q) - len(links.x)
    low, high = problem.lb[:n].copy(), problem.ub[:n].copy()
    low[links.x], high[links.x] = links.low, links.high
    return low, high


def _link(pick: sp.csr_matrix, bound: np.ndarray) -> sp.csr_matrix:
    """Rows x_j − bound_j z_j for the variables with a finite bound."""
    chosen = np.flatnonzero(np.isfinite(bound))
    switch = sp.csr_matrix(
        (-bound[chosen], (np.arange(len(chosen)), chosen)), shape=(len(chosen), len(bound))
    )
    return sp.hstack([pick[chosen], switch], format="csr")
