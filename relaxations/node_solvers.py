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

from .svm_dual import solve_dual

__all__ = ["AutoSolver", "NodeSolver", "OSQPSolver", "SMOSolver", "make_node_solver"]

_LARGE = 1e6  # stands for an infinite end of a multiplier's interval inside OSQP
_EACH_SIDE = 60  # violators taken into a working set from either side
_OUTER = 40


class NodeSolver(Protocol):
    """Maximises D(t) from a feasible t; t and F = p − Kt/2 change in place."""

    def maximise(
        self, K: np.ndarray, diag: np.ndarray, p: np.ndarray, lo: np.ndarray, hi: np.ndarray,
        t: np.ndarray, F: np.ndarray, tol: float, max_steps: int, target: float,
    ) -> tuple[int, float]:
        """Stop at a violation of `tol` or when D(t) exceeds `target`.

        Returns how often F was updated and the violation left.
        """


class SMOSolver:
    """Sequential minimal optimisation in numba."""

    def maximise(
        self, K: np.ndarray, diag: np.ndarray, p: np.ndarray, lo: np.ndarray, hi: np.ndarray,
        t: np.ndarray, F: np.ndarray, tol: float, max_steps: int, target: float,
    ) -> tuple[int, float]:
        """See `NodeSolver`."""
        return solve_dual(  # type: ignore[no-any-return]
            K, diag, p, lo, hi, t, F, tol, max_steps, target
        )


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
    ) -> tuple[int, float]:
        """See `NodeSolver`; `max_steps` is for step-by-step solvers and not used."""
        value = 0.5 * float((p + F) @ t)
        for outer in range(_OUTER):
            W, violation = _working_set(t, F, lo, hi, tol)
            if violation <= tol or value > target:
                return outer, violation
            workspace = self._workspace(len(W))
            change = workspace.solve(K[np.ix_(W, W)], F[W], t[W], lo[W], hi[W], tol) - t[W]
            step = -0.5 * (K[:, W] @ change)
            gain = float(change @ F[W] + 0.5 * change @ step[W])
            if gain <= 1e-9 * (1.0 + abs(value)):
                return outer, violation
            t[W] += change
            F += step
            value += gain
        return _OUTER, _working_set(t, F, lo, hi, tol)[1]


class AutoSolver:
    """SMO, and OSQP for what SMO leaves unfinished."""

    def __init__(self) -> None:
        self._rescue = OSQPSolver()

    def maximise(
        self, K: np.ndarray, diag: np.ndarray, p: np.ndarray, lo: np.ndarray, hi: np.ndarray,
        t: np.ndarray, F: np.ndarray, tol: float, max_steps: int, target: float,
    ) -> tuple[int, float]:
        """See `NodeSolver`."""
        steps, violation = solve_dual(K, diag, p, lo, hi, t, F, tol, max_steps, target)
        if steps >= max_steps and violation > tol:
            more, violation = self._rescue.maximise(
                K, diag, p, lo, hi, t, F, tol, max_steps, target
            )
            steps += more
        return steps, violation


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
            np.zeros(size + 1), np.zeros(size + 1), verbose=False, max_iter=1000, scaling=10,
            adaptive_rho_interval=50, check_termination=25, rho_is_vec=False,
        )

    def solve(
        self, K: np.ndarray, F: np.ndarray, t: np.ndarray, lo: np.ndarray, hi: np.ndarray,
        tol: float,
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
        self._solver.update_settings(
            eps_abs=0.1 * tol, eps_rel=0.1 * tol, polishing=tol < 1e-4
        )
        self._solver.warm_start(x=start, y=np.zeros(self._size + 1))
        raw = self._solver.solve(raise_error=False)
        if raw.x is None or not np.all(np.isfinite(raw.x)):
            return t
        return _restore_sum(unit * raw.x[:n], lo, hi, float(t.sum()))


@njit(nogil=True, cache=True)
def _restore_sum(s: np.ndarray, lo: np.ndarray, hi: np.ndarray, total: float) -> np.ndarray:
    """Clip s + shift to the box with the shift that gives it this sum (up to rounding)."""
    low, high = -1e-3, 1e-3
    out = s.copy()
    for step in range(140):
        if step < 40:  # widen until the shift is bracketed
            shift = low if step % 2 == 0 else high
        else:
            shift = 0.5 * (low + high)
        current = 0.0
        for i in range(s.size):
            out[i] = min(max(s[i] + shift, lo[i]), hi[i])
            current += out[i]
        if step < 40:
            if shift == low and current > total:
                low *= 4.0
            elif shift == high and current < total:
                high *= 4.0
        elif current > total:
            high = shift
        else:
            low = shift
    return out
