"""One OSQP workspace that lives across the nodes of a search."""

from __future__ import annotations

import numpy as np
import osqp
import scipy.sparse as sp

from .. import interruptible
from ..patience import FOR_EVER, Patience
from .certificate import Certifier
from .model import QP, Solution

_INFINITY = 1e20
_LADDER = ((1e-4, 500), (1e-6, 2000), (1e-8, 6000))
"""(accuracy, iterations): each rung starts from where the last one stopped."""


def _time_limit(patience: Patience) -> float:
    """A time limit for OSQP: none in effect without a deadline, so that runs repeat."""
    return min(max(patience.seconds(), 1e-3), 1e9)


class OSQPWorkspace:
    """Solves a QP without pairs under changing variable bounds.

    The matrix is factorised once: bounds enter as rows, a single step size ρ serves all rows (so
    that fixing a variable does not change the factor), and ρ adapts at fixed iteration counts,
    never by the clock, so that runs repeat.
    """

    def __init__(self, qp: QP) -> None:
        if len(qp.pairs):
            raise ValueError("OSQPWorkspace takes QPs without pairs")
        self._qp = qp
        self._certifier = Certifier(qp)
        self._hessian = sp.csc_matrix(qp.hessian())
        # OSQP's tolerances are absolute: bring the objective to unit size.
        size = max(np.abs(qp.q).max(), 0.1 * np.abs(self._hessian.data).max(initial=0.0))
        self._factor = 1.0 / size if size > 0.0 else 1.0
        rows = sp.vstack([qp.A, sp.identity(qp.n)], format="csc")
        self._m = qp.A.shape[0]
        self._low = np.clip(np.concatenate([qp.l, np.zeros(qp.n)]), -_INFINITY, _INFINITY)
        self._high = np.clip(np.concatenate([qp.u, np.zeros(qp.n)]), -_INFINITY, _INFINITY)
        self._solver = osqp.OSQP()
        self._solver.setup(
            sp.triu(self._factor * self._hessian, format="csc"), self._factor * qp.q, rows,
            np.full(len(self._low), -_INFINITY), np.full(len(self._high), _INFINITY),
            verbose=False, rho_is_vec=False, adaptive_rho=True, adaptive_rho_interval=50,
            check_termination=25, polishing=False, warm_starting=True, scaling=10,
        )

    def solve(
        self, lb: np.ndarray, ub: np.ndarray, *, cutoff: float = np.inf, slack: float = 0.0,
        warm: tuple[np.ndarray, np.ndarray] | None = None, patience: Patience = FOR_EVER,
    ) -> Solution:
        """As `Workspace.solve`."""
        # Either end may lie beyond what OSQP takes for infinite; certificates use the true ones.
        self._low[self._m:] = np.clip(lb, -_INFINITY, _INFINITY)
        self._high[self._m:] = np.clip(ub, -_INFINITY, _INFINITY)
        self._solver.update(l=self._low, u=self._high)
        if warm is not None:
            self._warm(warm)
        best: Solution | None = None
        iterations = 0
        for accuracy, limit in _LADDER:
            self._solver.update_settings(
                eps_abs=accuracy, eps_rel=accuracy, max_iter=limit, eps_prim_inf=accuracy,
                eps_dual_inf=1e-2 * accuracy, time_limit=_time_limit(patience),
            )
            raw = interruptible.solve(self._solver)
            iterations += raw.info.iter
            if self._proves_infeasible(raw, lb, ub):
                return self._without_point(np.inf, lb, ub, iterations)
            if raw.x is None or not np.all(np.isfinite(raw.x)):
                self._solver.warm_start(
                    x=np.zeros(self._qp.n), y=np.zeros(self._m + self._qp.n)
                )
                continue
            x = np.clip(raw.x, lb, ub)
            y = np.array(raw.y[: self._m]) / self._factor
            found = self._certify(x, y, lb, ub, iterations)
            if best is None or found.bound > best.bound:
                best = found
            enough = best.bound >= cutoff or abs(found.objective - best.bound) <= slack
            if enough or patience.expired():
                break
        # Every rung failed: no news, and the search branches on.
        return best or self._without_point(-np.inf, lb, ub, iterations)

    def _without_point(
        self, bound: float, lb: np.ndarray, ub: np.ndarray, iterations: int
    ) -> Solution:
        n = self._qp.n
        x = np.clip(np.zeros(n), lb, ub)
        return Solution(x, np.zeros(self._m), bound, np.zeros(n), np.inf, iterations)

    def _warm(self, warm: tuple[np.ndarray, np.ndarray]) -> None:
        x, y = warm
        slope = self._hessian @ x + self._qp.q + self._qp.A.T @ y  # what the bounds must balance
        self._solver.warm_start(
            x=np.ascontiguousarray(x),
            y=np.ascontiguousarray(self._factor * np.concatenate([y, -slope])),
        )

    def _proves_infeasible(self, raw: object, lb: np.ndarray, ub: np.ndarray) -> bool:
        """OSQP's word is not enough: its certificate must pass ours."""
        ray = getattr(raw, "prim_inf_cert", None)
        if ray is None or len(ray) == 0 or not np.all(np.isfinite(ray)):
            return False
        y = np.asarray(ray[: self._m])
        return self._certifier.infeasible(y, lb, ub)

    def _certify(
        self, x: np.ndarray, y: np.ndarray, lb: np.ndarray, ub: np.ndarray, iterations: int
    ) -> Solution:
        bound, reduced = self._certifier.bound(x, y, lb, ub)
        objective = 0.5 * float(x @ (self._hessian @ x)) + float(self._qp.q @ x)
        return Solution(x, y, bound, reduced, objective + self._qp.constant, iterations)
