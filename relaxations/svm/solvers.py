"""Solvers of the node duals, behind one interface.

All of them improve a feasible t in place together with its gradient F, so that warm starts,
certified values and fixings do not depend on which of them is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import osqp
import scipy.sparse as sp

from .. import interruptible
from ..jit import outer
from ..patience import FOR_EVER, Patience
from .active_set import ActiveSet, climb, copy_set, empty_set
from .dual import Dual, Effort, Point, value
from .gram import block, rows_times
from .smo import climb_by_pairs

__all__ = ["SOLVERS", "AutoSolver", "NodeSolver", "OSQPSolver", "SMOSolver", "make_solver"]

_LARGE = 1e6  # stands for an infinite end of a multiplier's interval inside OSQP
_EACH_SIDE = 60  # violators taken into a working set from either side
_WORK, _OSQP_WORK = 20_000_000, 150_000_000  # operations between two looks at the clock
_EFFORTS = ((1e-1, 1000), (1e-2, 4000), (1e-4, 20000))
"""(accuracy in units of the tolerance, iterations): harder when a solve hardly gained anything."""
_MOST_MEMBERS = 1500  # a factor of so many takes 18 MB, and a step of it two milliseconds
_FEW_MEMBERS = 64  # up to here a step of the active set is cheap
_PAIRS_FIRST = 8  # rows, per variable, that pairs may take before that


class NodeSolver(Protocol):
    """Maximises D(t) from a feasible t; t and F = p − Kt/2 change in place."""

    def maximise(
        self, dual: Dual, point: Point, effort: Effort, held: bool = False,
        patience: Patience = FOR_EVER,
    ) -> tuple[int, float]:
        """Returns the rows added to F and the violation left.

        With `held`, the point is the one that the last solve before `hold` ended at.
        """

    def hold(self) -> None:
        """Keep what was worked out about the point that the last solve ended at."""


class SMOSolver:
    """Sequential minimal optimisation: pairs of variables."""

    def hold(self) -> None:
        """There is nothing to keep."""

    def maximise(
        self, dual: Dual, point: Point, effort: Effort, held: bool = False,
        patience: Patience = FOR_EVER,
    ) -> tuple[int, float]:
        """See `NodeSolver`."""
        return _pairs(dual, point, effort, patience)


class OSQPSolver:
    """OSQP on working sets: the free multipliers and the worst violators of either side.

    Restricting the dual keeps every t feasible, and the hundred or so points that matter make a
    small QP; points at their bounds enter through the gradient.
    """

    def __init__(self) -> None:
        self._workspaces: dict[int, _Workspace] = {}

    def _workspace(self, points: int) -> _Workspace:
        size = 32
        while size < points:
            size *= 2
        if size not in self._workspaces:
            self._workspaces[size] = _Workspace(size)
        return self._workspaces[size]

    def hold(self) -> None:
        """There is nothing to keep."""

    def maximise(
        self, dual: Dual, point: Point, effort: Effort, held: bool = False,
        patience: Patience = FOR_EVER,
    ) -> tuple[int, float]:
        """See `NodeSolver`; ends with pairs, or the active set, for what is below its accuracy."""
        gram, lo, hi, (t, F) = dual.gram, dual.lo, dual.hi, point
        height = value(dual.p, point)
        rows = level = 0
        while True:
            W, violation = _working_set(t, F, lo, hi, effort.tol)
            enough = violation <= effort.tol or height > effort.target
            if enough or rows >= effort.rows or patience.expired():
                return rows, violation
            best = self._workspace(len(W)).solve(
                block(gram, W), F[W], t[W], lo[W], hi[W], effort.tol, level, patience
            )
            change = best - t[W]
            step = -0.5 * rows_times(gram, W, change)
            gain = float(change @ F[W] + 0.5 * change @ step[W])
            if gain > 0.0:
                t[W] += change
                F += step
                height += gain
                rows += len(W)
            if gain <= 1e-7 * (1.0 + abs(height)):
                level += 1
                if level == len(_EFFORTS):
                    break
        last = effort._replace(rows=20 * t.size)
        if gram.Z.shape[1] == 0:
            more, violation = _pairs(dual, point, last, patience)
            rows += more
            if violation <= effort.tol or value(dual.p, point) > effort.target:
                return rows, violation
        members = empty_set(t.size, _most_members(dual))
        more, violation = _members(dual, members, point, last, False, patience)
        return rows + more, violation


class AutoSolver:
    """The active set, which is exact; pairs before it where many points are inside their box.

    From a point that was held a few exact steps lead to the solution, however many are inside.
    """

    def __init__(self) -> None:
        self._rescue = OSQPSolver()
        self._members: ActiveSet | None = None
        self._known = False  # whether these are the members of the point that was solved last
        self._held: ActiveSet | None = None
        self._is_held = False  # whether those are the members of the point that was held

    def hold(self) -> None:
        """Keep the members and their factor; if they are not known the next solve finds them."""
        self._is_held = False
        if self._members is not None and self._known:
            self._keep(self._members)

    def _keep(self, members: ActiveSet) -> None:
        if self._held is None or not _same_room(self._held, len(members.place), len(members.ids)):
            self._held = empty_set(len(members.place), len(members.ids))
        copy_set(members, self._held)
        self._is_held = True

    def maximise(
        self, dual: Dual, point: Point, effort: Effort, held: bool = False,
        patience: Patience = FOR_EVER,
    ) -> tuple[int, float]:
        """See `NodeSolver`."""
        rows, self._known = 0, False
        if not held and dual.gram.Z.shape[1] == 0 and self._many_inside(dual, point):
            first = min(effort.rows, _PAIRS_FIRST * len(dual.p))
            rows, violation = _pairs(dual, point, effort._replace(rows=first), patience)
            if self._done(dual, point, effort, rows, violation):
                return rows, violation
        members = self._room(dual)
        if held and self._is_held and self._held is not None:
            copy_set(self._held, members)
        elif held:
            rows, violation = climb(dual, members, point, effort._replace(rows=0), False)
            self._keep(members)
        more, violation = _members(dual, members, point, effort, held, patience)
        rows, self._known = rows + more, True
        if patience.expired() or self._done(dual, point, effort, rows, violation):
            return rows, violation
        self._known = False
        more, violation = self._rescue.maximise(dual, point, effort, patience=patience)
        return rows + more, violation

    def _many_inside(self, dual: Dual, point: Point) -> bool:
        """Whether steps of the active set are dear, or there is none yet to start from."""
        inside = int(np.sum((point.t > dual.lo) & (point.t < dual.hi)))
        return inside == 0 or inside > _FEW_MEMBERS

    def _done(
        self, dual: Dual, point: Point, effort: Effort, rows: int, violation: float
    ) -> bool:
        enough = violation <= effort.tol or rows >= effort.rows
        return bool(enough or value(dual.p, point) > effort.target)

    def _room(self, dual: Dual) -> ActiveSet:
        variables, capacity = len(dual.p), _most_members(dual)
        if self._members is None or not _same_room(self._members, variables, capacity):
            self._members = empty_set(variables, capacity)
        return self._members


def _same_room(members: ActiveSet, variables: int, capacity: int) -> bool:
    return len(members.place) == variables and len(members.ids) == capacity


def _most_members(dual: Dual) -> int:
    """Room for the members of an active set."""
    rank = dual.gram.Z.shape[1]
    return min(len(dual.p), rank + 2 if rank else _MOST_MEMBERS)


def _pairs(
    dual: Dual, point: Point, effort: Effort, patience: Patience
) -> tuple[int, float]:
    """`climb_by_pairs`, which does not look at the clock, in portions."""
    return _in_portions(
        lambda some, _: climb_by_pairs(dual, point, some), dual, effort, patience
    )


def _members(
    dual: Dual, members: ActiveSet, point: Point, effort: Effort, ready: bool, patience: Patience
) -> tuple[int, float]:
    """`climb` in portions; the members that one ends with are those the next begins with."""
    return _in_portions(
        lambda some, again: climb(dual, members, point, some, ready or again), dual, effort,
        patience,
    )


def _in_portions(
    call: Callable[[Effort, bool], tuple[int, float]], dual: Dual, effort: Effort,
    patience: Patience,
) -> tuple[int, float]:
    at_once = max(100, _WORK // len(dual.p))
    total = 0
    while True:
        some = min(effort.rows - total, at_once)
        rows, violation = call(effort._replace(rows=some), total > 0)
        total += rows
        if rows < some or total >= effort.rows or patience.expired():
            return total, violation


SOLVERS: dict[str, type[SMOSolver] | type[OSQPSolver] | type[AutoSolver]] = {
    "auto": AutoSolver, "smo": SMOSolver, "osqp": OSQPSolver,
}


def make_solver(name: str) -> NodeSolver:
    """The solver called "auto", "smo" or "osqp"."""
    if name not in SOLVERS:
        raise ValueError(f"node_solver must be one of {', '.join(SOLVERS)}, got {name!r}")
    return SOLVERS[name]()


def _working_set(
    t: np.ndarray, F: np.ndarray, lo: np.ndarray, hi: np.ndarray, tol: float
) -> tuple[np.ndarray, float]:
    """What OSQP should move next, and by how much the worst pair violates optimality."""
    up, down = np.flatnonzero(t < hi), np.flatnonzero(t > lo)
    if not up.size or not down.size:
        return up[:0], 0.0
    top, low = F[up].max(), F[down].min()
    up, down = up[F[up] > low + 0.5 * tol], down[F[down] < top - 0.5 * tol]
    free = np.flatnonzero((t > lo) & (t < hi))
    most_up = up[np.argsort(-F[up], kind="stable")[:_EACH_SIDE]]
    most_down = down[np.argsort(F[down], kind="stable")[:_EACH_SIDE]]
    return np.unique(np.concatenate([free, most_up, most_down])), max(float(top - low), 0.0)


class _Workspace:
    """One OSQP set-up for all working sets up to a size; unused places are held at zero.

    max c's − s'Ks/4 over lo ≤ s ≤ hi with a given sum, in units of a typical multiplier.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        pattern = sp.csc_matrix(np.triu(np.ones((size, size))))
        # Entries of the upper triangle in the order of a CSC matrix.
        self._rows = pattern.indices
        self._columns = np.repeat(np.arange(size), np.arange(1, size + 1))
        self._solver = osqp.OSQP()
        self._solver.setup(
            pattern, np.zeros(size),
            sp.csc_matrix(np.vstack([np.ones((1, size)), np.eye(size)])),
            np.zeros(size + 1), np.zeros(size + 1), verbose=False, scaling=10,
            adaptive_rho_interval=50, check_termination=25, rho_is_vec=False,
        )

    def solve(
        self, K: np.ndarray, F: np.ndarray, t: np.ndarray, lo: np.ndarray, hi: np.ndarray,
        tol: float, effort: int, patience: Patience,
    ) -> np.ndarray:
        """The maximiser near t with the same sum as t; t itself if OSQP fails."""
        n = len(t)
        c = F + 0.5 * (K @ t)
        # A typical multiplier: what a single point alone would take, or what there is already.
        unit = max(2.0 * np.abs(c).max() / max(K.max(), 1e-12), np.abs(t).max())
        P = np.eye(self._size)
        P[:n, :n] = 0.5 * unit * K
        q, low, high, start = (np.zeros(self._size + extra) for extra in (0, 1, 1, 0))
        q[:n] = -c
        low[0] = high[0] = t.sum() / unit
        low[1 : n + 1] = np.maximum(lo / unit, -_LARGE)
        high[1 : n + 1] = np.minimum(hi / unit, _LARGE)
        start[:n] = t / unit
        self._solver.update(Px=P[self._rows, self._columns], q=q, l=low, u=high)
        share, limit = _EFFORTS[effort]
        at_once = int(np.clip(_OSQP_WORK // self._size**2, 100, limit))
        self._solver.update_settings(
            eps_abs=share * tol, eps_rel=share * tol, max_iter=at_once,
            polishing=share * tol < 1e-5,
        )
        self._solver.warm_start(x=start, y=np.zeros(self._size + 1))
        for _ in range(0, limit, at_once):  # every portion starts where the last one stopped
            raw = interruptible.solve(self._solver)
            if raw.info.iter < at_once or patience.expired():
                break
        if raw.x is None or not np.all(np.isfinite(raw.x)):
            return t
        return _restore_sum(unit * raw.x[:n], lo, hi, float(t.sum()), share * tol * unit)


@outer
def _restore_sum(
    s: np.ndarray, lo: np.ndarray, hi: np.ndarray, total: float, near: float
) -> np.ndarray:
    """Clip s to the box, and shift what is not at a bound so that the sum is right.

    What is within `near` of a bound is put there exactly: whether a multiplier is at its bound
    decides which conditions of optimality it enters.
    """
    out = s.copy()
    inner = np.zeros(s.size, np.bool_)
    for i in range(s.size):
        out[i] = min(max(s[i], lo[i]), hi[i])
        if out[i] <= lo[i] + near:
            out[i] = lo[i]
        elif out[i] >= hi[i] - near:
            out[i] = hi[i]
        else:
            inner[i] = True
    for _ in range(2):
        if _shift_to_sum(out, lo, hi, total, inner):
            break
        inner[:] = True  # the inner ones alone cannot make up for it
    return out


@outer
def _shift_to_sum(
    out: np.ndarray, lo: np.ndarray, hi: np.ndarray, total: float, inner: np.ndarray
) -> bool:
    """Shift the inner entries, within their box, until the sum is `total`; False if impossible."""
    start = out.copy()
    low, high = -1e-6, 1e-6
    for step in range(160):
        if step < 60:  # widen until the shift is bracketed
            shift = low if step % 2 == 0 else high
        else:
            shift = 0.5 * (low + high)
        current = 0.0
        for i in range(out.size):
            if inner[i]:
                out[i] = min(max(start[i] + shift, lo[i]), hi[i])
            current += out[i]
        if step < 60:
            if step % 2 == 0 and current > total:
                low *= 4.0
            elif step % 2 == 1 and current < total:
                high *= 4.0
        elif current > total:
            high = shift
        else:
            low = shift
    return abs(current - total) <= 1e-12 * (1.0 + np.abs(out).sum())
