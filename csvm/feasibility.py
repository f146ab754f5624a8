"""Can the rates hold together?  And if not: which contradict each other, and how far can each go?

Anchors S can all have margin one if and only if a hyperplane of the feature space separates the
positives from the negatives in S, that is, unless their convex hulls meet.  A point in both hulls
is a combination of few anchors T, at least one of which must be given up.  So the largest rate is
found by a small integer program over z with one row sum_T z <= |T| - 1 for every such T, generated
as needed.  No constant M is involved.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from relaxations.patience import FOR_EVER, OutOfTimeError, Patience

from .formulation import factor
from .requirements import Requirement

_LONG = 2e8  # operations of an integer program, as far as anybody knows
_NEAR = 1e-9  # hulls closer than this, relative to the points' size, are taken to meet


class _UndecidedError(Exception):
    """Time ran out, or the linear programs are too ill-conditioned to tell."""


class InfeasibleRatesError(ValueError):
    """The rates asked for contradict each other on the anchors."""


@dataclass(frozen=True)
class Conflict:
    """A smallest set of rates that cannot hold together."""

    rates: list[Requirement]
    reach: list[float]  # the most anchors (or weight) each can count while the others hold
    exact: list[bool]  # whether so many can be reached; else it is only certain that no more can
    best: list[float]  # the value of each measure there, NaN where it is not known

    def __str__(self) -> str:
        lines = ["the rates cannot be reached on these anchors:"]
        if len(self.rates) > 1:
            lines = ["the rates contradict each other on these anchors:"]
        for rate, reach, exact, best in zip(
            self.rates, self.reach, self.exact, self.best, strict=True
        ):
            value = reach / rate.weights.sum() if rate.constraint.rate.is_share else best
            shown = "" if np.isnan(value) else f" ({value:.3f})"
            others = " and ".join(str(r.constraint) for r in self.rates if r is not rate)
            lines.append(
                f"  {rate.constraint} requires {rate.required:g} of {rate.weights.sum():g} "
                f"{rate.unit}; {f'with {others} ' if others else ''}it can reach "
                f"{'' if exact else 'at most '}{reach:g}{shown}"
            )
        lines.append("Ask for less, choose another kernel, or give other anchors.")
        return "\n".join(lines)


@dataclass
class Feasibility:
    """Answers questions about the separability of anchors, and remembers what it learned."""

    kernel: np.ndarray  # K of the anchors; or Z with K = ZZ', if `is_factor`
    y: np.ndarray  # their labels, +1 or -1
    is_factor: bool = False
    hopeless: float = 1e9  # an ||w||^2 that is as good as infinite
    _sets: list[np.ndarray] = field(default_factory=list)
    _points: np.ndarray | None = None
    _patience: Patience = FOR_EVER

    def find_conflict(self, asked: Sequence[Requirement], seconds: float) -> Conflict | None:
        """A smallest set of rates proven to contradict each other; None if none was proven."""
        self._patience = Patience(time.monotonic() + seconds)
        try:
            if self._everything_is_separable():
                return None
            for size in range(1, len(asked) + 1):
                for rates in combinations(asked, size):
                    if self._proven_infeasible(rates):
                        reach = [self._reach(rates, rate) for rate in rates]
                        return Conflict(list(rates), *map(list, zip(*reach, strict=True)))
        except (_UndecidedError, OutOfTimeError):
            pass
        return None

    def _everything_is_separable(self) -> bool:
        """Surely so if only one class is there, or if the kernel matrix is positive definite."""
        if np.all(self.y > 0) or np.all(self.y < 0):
            return True
        everybody = np.arange(len(self.y))
        if self.is_factor:
            return self._common_point(everybody) is None
        size = float(np.abs(self.kernel).max())
        try:
            self._patience.check()
            shifted = self.kernel.copy()
            shifted[np.diag_indices_from(shifted)] -= 1e-8 * size
            self._patience.run(lambda: np.linalg.cholesky(shifted), len(shifted) ** 3 / 3)
        except np.linalg.LinAlgError:
            return self._common_point(everybody) is None
        return True

    def _proven_infeasible(self, rates: Sequence[Requirement]) -> bool:
        """Whether no z meets the rates."""
        few = -np.ones(len(self.y))
        while True:
            z = self._best_z(few, rates)
            if z is None:
                return True
            if not self._learn(z):
                return False

    def _reach(
        self, rates: Sequence[Requirement], rate: Requirement
    ) -> tuple[float, bool, float]:
        """Most weight that one rate can count while the others hold.

        Also whether that is exact, and then the measure.
        """
        others = [r for r in rates if r is not rate]
        reach = rate.required
        try:
            while True:
                z = self._best_z(rate.weights, others)
                assert z is not None  # the others are no conflict by themselves
                reach = min(reach, float(rate.weights[z].sum()))
                if not self._learn(z):
                    return reach, True, rate.value(z)
        except (_UndecidedError, OutOfTimeError):
            return reach, False, np.nan

    def _seconds_left(self) -> float:
        self._patience.check()
        return self._patience.seconds()

    def _best_z(self, gain: np.ndarray, rates: Sequence[Requirement]) -> np.ndarray | None:
        """Mask of z that maximises the gain under the rates and what was learned, or None."""
        m = len(self.y)
        rows = [r.weights for r in rates]
        low = [r.required - 1e-9 * max(1.0, r.required) for r in rates]
        high = [np.inf] * len(rates)
        for members in self._sets:
            row = np.zeros(m)
            row[members] = 1.0
            rows.append(row)
            low.append(-np.inf)
            high.append(len(members) - 1.0)
        constraints = LinearConstraint(sp.csr_matrix(np.array(rows).reshape(-1, m)), low, high)
        limit = self._seconds_left()
        found = self._patience.run(
            lambda: milp(
                -gain, constraints=constraints, integrality=np.ones(m), bounds=Bounds(0, 1),
                options={"time_limit": limit, "mip_rel_gap": 0.0},
            ),
            _LONG,
        )
        if found.status == 2:
            return None
        if found.status != 0:
            raise _UndecidedError
        return found.x > 0.5

    def _learn(self, z: np.ndarray) -> bool:
        """Sets of anchors in z whose hulls meet, disjoint ones at once; False if z is separable."""
        left = np.flatnonzero(z)
        found = False
        while True:
            common = self._common_point(left)
            if common is None:
                return found
            self._sets.append(common)
            found = True
            left = np.setdiff1d(left, common)

    def _common_point(self, members: np.ndarray) -> np.ndarray | None:
        """Few members with a point in both classes' hulls; None if the classes are separable.

        A vertex of {mu >= 0, sum mu y phi = 0, sum mu y = 0, sum mu = 2} has at most rank + 2
        positive entries.
        """
        y = self.y[members]
        if np.all(y > 0) or np.all(y < 0):
            return None
        if self._points is None:
            rows, columns = self.kernel.shape
            self._points = self._patience.run(
                lambda: _whitened(self.kernel if self.is_factor else factor(self.kernel)),
                5.0 * rows * columns**2,
            )
        A = np.vstack([(y[:, None] * self._points[members]).T, y[None, :], np.ones((1, len(y)))])
        b = np.zeros(len(A))
        b[-1] = 2.0
        limit = self._seconds_left()
        found = self._patience.run(
            lambda: linprog(
                np.zeros(len(y)), A_eq=A, b_eq=b, method="highs-ds",
                options={"primal_feasibility_tolerance": _NEAR, "time_limit": limit},
            ),
            100.0 * A.size,
        )
        if found.status == 2:
            return None
        if found.status != 0 or not self._meet(members, found.x):
            raise _UndecidedError
        return members[found.x > 1e-9]

    def _meet(self, members: np.ndarray, mu: np.ndarray) -> bool:
        """Whether the two points that mu says are one are too near for anybody to keep them apart.

        Points of the two hulls at a distance d ask for ||w|| >= 2 / d.
        """
        signed = mu * self.y[members]
        if self.is_factor:
            difference = signed @ self.kernel[members]
            diagonal = np.einsum("ij,ij->i", self.kernel[members], self.kernel[members])
            square = float(difference @ difference)
        else:
            block = self.kernel[np.ix_(members, members)]
            diagonal, square = block.diagonal(), float(signed @ block @ signed)
        rounding = len(mu) * np.finfo(float).eps * float(mu @ np.sqrt(diagonal)) ** 2
        return bool(max(square, 0.0) + rounding <= 4.0 / self.hopeless)


def _whitened(L: np.ndarray) -> np.ndarray:
    """Coordinates in which the points have mean 0 and unit variance in every direction.

    Whether hulls meet does not depend on the coordinates; how well a computer can tell does.
    """
    U, size, _ = np.linalg.svd(L - L.mean(axis=0), full_matrices=False)
    return np.sqrt(len(L)) * U[:, size > 1e-10 * size.max(initial=0.0)]
