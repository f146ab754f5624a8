"""Accurate solution of QPs whose fixed variables have been taken out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import clarabel
import numpy as np
import scipy.sparse as sp

from ..patience import FOR_EVER, OutOfTimeError, Patience
from .active_set import INFEASIBLE, OPTIMAL, DualForm
from .certificate import Certifier
from .model import QP, Solution

_FEW, _FEW_ROWS = 60, 120  # free variables, and rows with any of them, for active sets
_ACCURATE = 1e-9  # how far the conditions of optimality may be missed, relative to their terms
_Answer = tuple[np.ndarray, np.ndarray, bool, int]


class ReducedSolver:
    """Solves a QP without pairs accurately, for incumbents and leaves.

    There few variables are left and accuracy counts: an incumbent must be feasible, and a leaf's
    bound cannot be improved by branching. By active sets where few variables are free and their
    block of P is definite, else by interior points.
    """

    def __init__(self, qp: QP) -> None:
        self._qp = qp
        self._certifier = Certifier(qp)
        self._hessian = sp.csc_matrix(qp.hessian())
        self._columns = sp.csc_matrix(qp.A)
        self._settings = clarabel.DefaultSettings()
        self._settings.verbose = False
        self._settings.tol_gap_abs = self._settings.tol_gap_rel = 1e-11
        self._settings.tol_feas = 1e-11
        self._settings.max_threads = 1

    def solve(self, lb: np.ndarray, ub: np.ndarray, patience: Patience = FOR_EVER) -> Solution:
        """Solve with these bounds; variables with lb = ub are constants.

        Raises `OutOfTimeError` when `patience` ends first.
        """
        qp, free = self._qp, np.flatnonzero(lb < ub)
        x, y = np.where(lb == ub, lb, 0.0), np.zeros(len(qp.l))
        nothing = np.zeros(qp.n)
        if self._misses_rows(x, free):
            return Solution(x, y, np.inf, nothing, np.inf, 0)
        iterations = 0
        if free.size:
            for method in self._methods(free):
                point, y, solved, steps = method(free, x, lb, ub, patience)
                iterations += steps
                if self._certifier.infeasible(y, lb, ub):
                    return Solution(x, y, np.inf, nothing, np.inf, iterations)
                if solved:
                    break
            if not np.all(np.isfinite(point)) or not np.all(np.isfinite(y)):
                x, y = np.clip(x, lb, ub), np.zeros(len(y))
                return Solution(x, y, -np.inf, nothing, np.inf, iterations)
            x[free] = np.clip(point, lb[free], ub[free])
        bound, reduced = self._certifier.bound(x, y, lb, ub)
        objective = 0.5 * float(x @ (self._hessian @ x)) + float(qp.q @ x) + qp.constant
        return Solution(x, y, bound, reduced, objective, iterations)

    def _methods(self, free: np.ndarray) -> list[Callable[..., _Answer]]:
        """What to try, in this order."""
        interior: list[Callable[..., _Answer]] = [self._interior_point]
        interior += [partial(self._interior_point, far=True)]
        return [self._active_set, *interior] if len(free) <= _FEW else interior

    def _active_set(
        self, free: np.ndarray, x: np.ndarray, lb: np.ndarray, ub: np.ndarray, patience: Patience,
    ) -> _Answer:
        """As `_interior_point`; not solved where P is not definite or there are many rows."""
        qp = self._qp
        A = self._columns[:, free]
        rows = np.unique(A.indices)
        y, failed = np.zeros(len(qp.l)), (x[free], np.zeros(len(qp.l)), False, 0)
        if len(rows) > _FEW_ROWS:
            return failed
        slope, block = (self._hessian @ x + qp.q)[free], self._hessian[free][:, free].toarray()
        part = A.toarray()[rows]
        form = DualForm.of(block, slope, part)
        if form is None:
            return failed
        shift = (self._columns @ x)[rows]
        low = np.concatenate([lb[free], qp.l[rows] - shift])
        high = np.concatenate([ub[free], qp.u[rows] - shift])
        multiplier = np.zeros(len(low))
        status, point = form.solve(low, high, multiplier)
        y[rows] = multiplier[len(free) :]
        if status == INFEASIBLE:
            return point, y, False, 1  # whether it is so, the certificate says
        # Where P is nearly singular the inverse is not accurate enough for an answer.
        value = np.concatenate([point, part @ point])
        balance = block @ point + slope + multiplier[: len(free)] + part.T @ y[rows]
        off = np.maximum(value - high, low - value)
        accurate = np.all(off <= _ACCURATE * (1.0 + np.abs(value))) and np.all(
            np.abs(balance) <= _ACCURATE * (np.abs(slope).max() + np.abs(multiplier).max())
        )
        return (point, y, True, 1) if status == OPTIMAL and accurate else failed

    def _interior_point(
        self, free: np.ndarray, x: np.ndarray, lb: np.ndarray, ub: np.ndarray,
        patience: Patience, far: bool = False,
    ) -> _Answer:
        """Values of the free variables, row multipliers, whether it worked, and steps.

        With `far` lengths are measured in units of the largest bound: the solver takes problems
        with very large numbers for infeasible.
        """
        qp = self._qp
        rows, sign, G, h, equal = self._cone_rows(free, x, lb, ub)
        unit = max(1.0, np.abs(h).max(initial=0.0)) if far else 1.0
        slope = unit * (self._hessian @ x + qp.q)[free]
        block = unit**2 * sp.triu(self._hessian[free][:, free], format="csc")
        size = max(np.abs(slope).max(), 0.1 * np.abs(block.data).max(initial=0.0))
        factor = 1.0 / size if size > 0.0 else 1.0
        cones = [clarabel.ZeroConeT(equal), clarabel.NonnegativeConeT(len(h) - equal)]
        self._settings.time_limit = patience.seconds()
        work = float(np.sum(np.diff(block.indptr).astype(float) ** 2))
        raw = patience.run(
            clarabel.DefaultSolver(
                factor * block, factor * slope, G, h / unit, cones, self._settings
            ).solve,
            work,
        )
        if raw.status == clarabel.SolverStatus.MaxTime:
            raise OutOfTimeError
        y = np.zeros(len(qp.l))
        kept = rows >= 0
        np.add.at(y, rows[kept], (sign * np.asarray(raw.z))[kept])
        solved = raw.status in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
        return unit * np.asarray(raw.x), y / (factor * unit), solved, int(raw.iterations)

    def _misses_rows(self, x: np.ndarray, free: np.ndarray) -> bool:
        """Whether a row without free variables is broken by more than any tolerance."""
        fixed = np.diff(sp.csr_matrix(self._columns[:, free]).indptr) == 0
        value = self._columns @ x
        slack = 1e-6 * (1.0 + abs(self._columns) @ np.abs(x))
        broken = (value > self._qp.u + slack) | (value < self._qp.l - slack)
        return bool(np.any(broken & fixed))

    def _cone_rows(
        self, free: np.ndarray, x: np.ndarray, lb: np.ndarray, ub: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, sp.csc_matrix, np.ndarray, int]:
        """Rows and bounds as Gx + s = h: (row or −1, sign, G, h, number of equations)."""
        qp = self._qp
        A = sp.csr_matrix(self._columns[:, free])
        used = np.diff(A.indptr) > 0
        shift = self._columns @ x
        equal = np.flatnonzero(used & (qp.l == qp.u))
        above = np.flatnonzero(used & (qp.l < qp.u) & np.isfinite(qp.u))
        below = np.flatnonzero(used & (qp.l < qp.u) & np.isfinite(qp.l))
        identity = sp.identity(len(free), format="csr")
        top, bottom = np.isfinite(ub[free]), np.isfinite(lb[free])
        G = sp.vstack(
            [A[equal], A[above], -A[below], identity[top], -identity[bottom]], format="csc"
        )
        h = np.concatenate([
            (qp.u - shift)[equal], (qp.u - shift)[above], -(qp.l - shift)[below],
            ub[free][top], -lb[free][bottom],
        ])
        bounds = np.full(int(top.sum() + bottom.sum()), -1)
        rows = np.concatenate([equal, above, below, bounds])
        sign = np.concatenate([
            np.ones(len(equal) + len(above)), -np.ones(len(below)), np.ones(len(bounds))
        ])
        return rows, sign, G, h, len(equal)
