"""Two solvers for the node duals of `relaxations.svm_dual`, behind one interface.

Both improve a feasible t in place together with its gradient F, so that warm starts, certified
values and fixings do not depend on which of them is used.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import osqp
import scipy.sparse as sp
from numba import njit

from . import interruptible
from .patience import FOR_EVER, Patience
from .svm_dual import solve_dual

__all__ = ["AutoSolver", "NodeSolver", "OSQPSolver", "SMOSolver", "make_node_solver"]

_LARGE = 1e6  # stands for an infinite end of a multiplier's interval inside OSQP
_EACH_SIDE = 60  # violators taken into a working set from either side
_OUTER = 40
_PATIENCE = 5000
_WORK, _OSQP_WORK = 20_000_000, 150_000_000  # operations between two looks at the clock
_EFFORTS = ((1e-1, 1000), (1e-2, 4000), (1e-4, 20000))
"""(accuracy in units of the tolerance, iterations): harder when a solve hardly gained anything."""


class NodeSolver(Protocol):
    """Maximises D(t) from a feasible t; t and F = p − Kt/2 change in place."""

    def maximise(
        self, K: np.ndarray, diag: np.ndarray, p: np.ndarray, lo: np.ndarray, hi: np.ndarray,
        t: np.ndarray, F: np.ndarray, tol: float, max_steps: int, target: float,
        patience: Patience = FOR_EVER,
    ) -> tuple[int, float]:
        """Stop at a violation of `tol`, when D(t) exceeds `target` or when patience ends.

        Returns how often F was updated and the violation left.
        """


class SMOSolver:
    """Sequential minimal optimisation in numba."""

    def maximise(
        self, K: np.ndarray, diag: np.ndarray, p: np.ndarray, lo: np.ndarray, hi: np.ndarray,
        t: np.ndarray, F: np.ndarray, tol: float, max_steps: int, target: float,
        patience: Patience = FOR_EVER,
    ) -> tuple[int, float]:
        """See `NodeSolver`."""
        return _pair_steps(K, diag, p, lo, hi, t, F, tol, max_steps, target, patience)


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

    def maximise(
        self, K: np.ndarray, diag: np.ndarray, p: np.ndarray, lo: np.ndarray, hi: np.ndarray,
        t: np.ndarray, F: np.ndarray, tol: float, max_steps: int, target: float,
        patience: Patience = FOR_EVER,
    ) -> tuple[int, float]:
        """See `NodeSolver`; `max_steps` is for step-by-step solvers and not used here."""
        value = 0.5 * float((p + F) @ t)
        effort = 0
        for outer in range(_OUTER):
            W, violation = _working_set(t, F, lo, hi, tol)
            if violation <= tol or value > target or patience.expired():
                return outer, violation
            workspace = self._workspace(len(W))
            best = workspace.solve(
                K[np.ix_(W, W)], F[W], t[W], lo[W], hi[W], tol, effort, patience
            )
            change = best - t[W]
            step = -0.5 * (K[:, W] @ change)
            gain = float(change @ F[W] + 0.5 * change @ step[W])
            if gain > 0.0:
                t[W] += change
                F += step
                value += gain
            if gain <= 1e-7 * (1.0 + abs(value)):
                effort += 1
                if effort == len(_EFFORTS):
                    break
        # What is left is below OSQP's accuracy: a few pair steps finish it.
        steps, violation = _pair_steps(
            K, diag, p, lo, hi, t, F, tol, 10 * t.size, target, patience
        )
        return outer + 1 + steps, violation


class AutoSolver:
    """SMO, and OSQP for what SMO leaves unfinished."""

    def __init__(self) -> None:
        self._rescue = OSQPSolver()

    def maximise(
        self, K: np.ndarray, diag: np.ndarray, p: np.ndarray, lo: np.ndarray, hi: np.ndarray,
        t: np.ndarray, F: np.ndarray, tol: float, max_steps: int, target: float,
        patience: Patience = FOR_EVER,
    ) -> tuple[int, float]:
        """See `NodeSolver`."""
        limit = max(max_steps, _PATIENCE)  # steps are cheap where there are few points
        steps, violation = _pair_steps(K, diag, p, lo, hi, t, F, tol, limit, target, patience)
        if steps >= limit and violation > tol:
            more, violation = self._rescue.maximise(
                K, diag, p, lo, hi, t, F, tol, max_steps, target, patience
            )
            steps += more
        return steps, violation


def _pair_steps(
    K: np.ndarray, diag: np.ndarray, p: np.ndarray, lo: np.ndarray, hi: np.ndarray, t: np.ndarray,
    F: np.ndarray, tol: float, max_steps: int, target: float, patience: Patience,
) -> tuple[int, float]:
    """`solve_dual`, which does not look at the clock, in portions."""
    at_once = max(1, _WORK // t.size)
    total = 0
    while True:
        some = min(max_steps - total, at_once)
        steps, violation = solve_dual(K, diag, p, lo, hi, t, F, tol, some, target)
        total += steps
        if steps < some or total >= max_steps or patience.expired():
            return total, violation


def make_node_solver(name: str) -> NodeSolver:
    """The solver called "smo", "osqp" or "auto"."""
    solvers: dict[str, type[SMOSolver] | type[OSQPSolver] | type[AutoSolver]] = {
        "smo": SMOSolver, "osqp": OSQPSolver, "auto": AutoSolver,
    }
    if name not in solvers:
        raise ValueError(f"node_solver must be one of {sorted(solvers)}, got {name!r}")
    return solvers[name]()


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


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
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
