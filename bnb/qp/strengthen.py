"""Stronger relaxations of a mixed-integer QP: perspective terms and diagonal shifts.

`Strengthener` proposes rewritten relaxations, cheap ones first; the caller keeps what raises the
bound and stops when the gap is closed or a proposal no longer pays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from relaxations import (
    QP,
    Convexification,
    Convexifier,
    Lifted,
    Pairs,
    Patience,
    certified_split,
)
from relaxations.qp.convexify import BINARY, PLAIN, SWITCHED

from ..problem import Goal
from ..validation import is_definite, is_diagonal
from .structure import cardinality

if TYPE_CHECKING:
    from .miqp import Box

_MAX_LIFTED = 450
"""Above this an eigenvalue decomposition per step is too slow to pay."""
_MAX_DENSE = 3000
"""Above this many variables the rewritten matrix would be too large to keep dense."""
_STEPS = (50, 50, 50, 50, 50, 50, 100, 100, 200, 300, 300, 400, 400, 500, 500, 500, 500)
_MIN_OPEN = 10
"""With fewer integers open, branching is quicker than looking for a better relaxation."""
_MIN_PROGRESS, _WEAK = 0.2, 200
"""Share of the open gap that so many steps must close to be followed by others."""
_SHRUNK = 0.85
"""Go on with fewer variables when no more than this share is left."""


class Strengthener:
    """Proposes relaxations for one presolved MIQP: `rows` are those not implied by `pairs`.

    The caller may shrink `box` between proposals.
    """

    def __init__(
        self, plain: QP, is_integer: np.ndarray, pairs: Pairs, rows: np.ndarray, box: Box
    ) -> None:
        self._plain, self._pairs, self._box = plain, pairs, box
        self._A = sp.csr_matrix(plain.A[rows])
        self._l, self._u = plain.l[rows], plain.u[rows]
        self._P = sp.csr_matrix(plain.hessian())
        self._binary = is_integer & (box.lb >= 0) & (box.ub <= 1)
        self._switches, self._switch = np.unique(pairs.z, return_inverse=True)
        self._count = cardinality(self._A, self._l, self._u, self._switches)
        self._is_integer = is_integer
        self._seconds = 0.0
        self._bound = -np.inf
        self._cutoff = np.inf

    @property
    def _still(self) -> np.ndarray:
        """Values of the variables that are fixed, zero elsewhere."""
        return np.where(self._box.lb == self._box.ub, self._box.lb, 0.0)

    def take_seconds(self) -> float:
        """Seconds spent on proposals since the last call."""
        spent, self._seconds = self._seconds, 0.0
        return spent

    def tell(self, bound: float, cutoff: float) -> None:
        """What the last proposal led to."""
        self._bound, self._cutoff = bound, cutoff

    def proposals(
        self, relaxed: np.ndarray, goal: Goal
    ) -> Iterator[tuple[QP | None, np.ndarray, np.ndarray | None]]:
        """(relaxation, typical sizes, point to round), from cheap to strong."""
        if self._plain.n > _MAX_DENSE:
            return
        scale = self._typical(relaxed)
        lift = self._lifted_variables()
        worth_steps = 0 < len(lift) <= _MAX_LIFTED and self._open() >= _MIN_OPEN
        if not len(self._pairs) and not worth_steps:
            return
        lifted = self._lifted(lift, scale)
        exact = self._is_diagonal(lift)
        if len(self._pairs):
            split = goal.patience.run(
                lambda: _cheap_split(lifted, exact), 3.0 * float(len(lift)) ** 3
            )
            yield self._with(split, lift, goal.patience), scale, None
        if not worth_steps or exact or np.all(lifted.kind == PLAIN):
            return
        engine = Convexifier(lifted)
        weak = 0
        for steps in _STEPS:
            left = self._lifted_variables()
            if len(left) <= _SHRUNK * len(lift):
                lifted = self._lifted(left, scale)
                engine = engine.restricted(lifted, np.flatnonzero(np.isin(lift, left)))
                lift = left
            before, gap = self._bound, self._cutoff - self._bound
            begin = time.perf_counter()
            for _ in range(steps):
                goal.patience.check()
                engine.run(1)
            split = engine.extract()
            self._seconds += time.perf_counter() - begin
            point = np.zeros(self._plain.n)
            point[lift] = engine.point()
            self._spread(point)
            yield self._with(split, lift, goal.patience), scale, point
            least = _MIN_PROGRESS * min(1.0, steps / _WEAK) * gap
            paid = self._bound - before > least or not np.isfinite(gap)
            weak = 0 if paid else weak + steps
            if weak >= _WEAK or self._open() < _MIN_OPEN:
                return

    def _open(self) -> int:
        """How many integers are not fixed."""
        return int(np.sum(self._is_integer & (self._box.lb < self._box.ub)))

    def _lifted_variables(self) -> np.ndarray:
        used = np.diff(self._P.indptr) > 0
        used[self._pairs.x] = True
        return np.flatnonzero(used & (self._box.lb < self._box.ub))

    def _is_diagonal(self, lift: np.ndarray) -> bool:
        """Whether the perspective of the diagonal is all there is to gain."""
        switched = np.isin(lift, self._pairs.x)
        return bool(np.all(switched)) and is_diagonal(self._P[lift][:, lift])

    def _typical(self, x: np.ndarray) -> np.ndarray:
        """Typical size of each variable: one for binaries, the mean over what is on for x."""
        scale = np.ones(len(x))
        size = np.abs(x[self._pairs.x])
        most = min(self._count[1], len(self._switches))
        on = max(1.0, most * len(size) / max(1, len(self._switches)))
        scale[self._pairs.x] = np.clip(size.sum() / on, 1e-4, 1e4) if size.any() else 1.0
        rest = ~self._binary
        rest[self._pairs.x] = False
        scale[rest] = np.clip(np.abs(x[rest]), 0.1, 1e4)
        return scale

    def _lifted(self, lift: np.ndarray, scale: np.ndarray) -> Lifted:
        n = self._plain.n
        kind = np.where(self._binary[lift], BINARY, PLAIN)
        lb, ub = self._box.lb[lift].copy(), self._box.ub[lift].copy()
        place = np.full(n, -1)
        place[lift] = np.arange(len(lift))
        at = place[self._pairs.x]
        kept = at >= 0
        switch = np.zeros(len(lift), dtype=np.int64)
        kind[at[kept]] = SWITCHED
        switch[at[kept]] = self._switch[kept]
        lb[at[kept]], ub[at[kept]] = self._pairs.low[kept], self._pairs.high[kept]
        A, b = self._equalities(lift)
        P = self._P[lift][:, lift].toarray()
        c = self._plain.q[lift] + self._P[lift] @ self._still
        return Lifted(
            0.5 * P, c, kind, lb, ub, scale[lift], A, b, switch, self._plain.q[self._switches],
            self._count,
        )

    def _equalities(self, lift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Independent equality rows within the lifted variables (fixed ones moved to b)."""
        rows = np.flatnonzero(self._l == self._u)
        outside = np.ones(self._plain.n, dtype=bool)
        outside[lift] = False
        movable = outside & (self._box.lb < self._box.ub)
        block = self._A[rows]
        inside = np.asarray(abs(block)[:, movable].sum(axis=1)).ravel() == 0.0
        has = np.asarray(abs(block)[:, lift].sum(axis=1)).ravel() > 0.0
        rows = rows[inside & has]
        A = self._A[rows][:, lift].toarray()
        b = self._u[rows] - self._A[rows] @ self._still
        if not rows.size:
            return np.zeros((0, len(lift))), np.zeros(0)
        _, R, pivot = scipy.linalg.qr(A.T, mode="economic", pivoting=True)
        diagonal = np.abs(np.diag(R))
        rank = int(np.sum(diagonal > 1e-5 * diagonal[0]))
        keep = np.sort(pivot[:rank])
        return A[keep], b[keep]

    def _with(
        self, split: Convexification | None, lift: np.ndarray, patience: Patience
    ) -> QP | None:
        """The whole problem with the lifted part of its objective replaced."""
        if split is None:
            return None
        n = self._plain.n
        q = self._plain.q.copy()
        q[lift] = split.c  # holds the coupling with fixed variables
        constant = self._plain.constant + split.constant
        constant += 0.5 * float(self._still @ (self._P @ self._still))
        P = np.zeros((n, n))
        P[np.ix_(lift, lift)] = 2.0 * split.Q
        square = np.zeros(n)
        free = self._plain.square > 0.0
        free[self._pairs.x] = False
        if np.any(free):
            square = free_curvature(sp.csr_matrix(P), free, patience)
            P[np.diag_indices(n)] -= 2.0 * square
        d = np.zeros(n)
        d[lift] = split.d
        pairs = self._pairs
        strong = Pairs(pairs.x, pairs.z, pairs.low, pairs.high, d[pairs.x])
        return QP(P, q, self._A, self._l, self._u, square, strong, constant)

    def _spread(self, point: np.ndarray) -> None:
        """Give the switches the values that go with x: rounding looks at them."""
        size = np.abs(point[self._pairs.x])
        np.maximum.at(point, self._pairs.z, size / max(size.max(initial=0.0), 1e-12))


def _cheap_split(lifted: Lifted, diagonal: bool) -> Convexification | None:
    """The exact diagonal of a diagonal matrix, else the smallest eigenvalue for everybody."""
    nothing = np.zeros_like(lifted.Q)
    if diagonal:
        return Convexification(nothing, lifted.c, 0.0, np.diag(lifted.Q).copy())
    n = len(lifted.c)
    if n > 2000 or not np.all(lifted.kind == SWITCHED):
        return certified_split(lifted, np.zeros(n), nothing)
    size = float(np.linalg.eigvalsh(lifted.Q)[0]) * (1.0 - 1e-9)
    return certified_split(lifted, np.full(n, max(size, 0.0)), nothing)


def free_curvature(
    P: sp.csr_matrix, unbounded: np.ndarray, patience: Patience
) -> np.ndarray:
    """Curvature s that can be taken out of P for variables without finite bounds.

    About the largest s with P − 2s·diag(unbounded) ⪰ 0, less a margin; it makes certified bounds
    finite (see `relaxations.qp.certificate`). Zero where P has none to give.
    """
    square = np.zeros(P.shape[0])
    used = np.flatnonzero(np.diff(P.indptr) > 0)
    where = np.flatnonzero(unbounded[used])
    if not where.size:
        return square
    block = P[used][:, used]
    high = 0.5 * float(block.diagonal()[where].min())
    if is_diagonal(block):
        square[used[where]] = 0.25 * block.diagonal()[where]
        return square
    mark = np.zeros(len(used))
    mark[where] = 1.0
    dense = block.toarray()
    floor = 1e-12 * float(np.abs(dense).max())
    for _ in range(30):  # the order of magnitude is all that matters
        high *= 0.5
        less = dense - np.diag(4.0 * high * mark + floor)
        if patience.run(partial(is_definite, less), float(len(used)) ** 3 / 3.0):
            square[used[where]] = high
            break
    return square
