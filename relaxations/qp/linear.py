"""Separable QPs with many rows: a linear program with tangents, by HiGHS' dual simplex.

Curvature enters as t_j ≥ d_j x_j²/z_j (or x_j² without a switch), and that as tangents: for any a,
d x²/z ≥ d (2ax − a²z). They are valid in every node, so they are kept, and a node begins from the
basis of the last one. The bound is not the linear program's: the multipliers of the rows go through
the certificate, which minimises the curved terms exactly.
"""

from __future__ import annotations

import highspy
import numpy as np
import scipy.sparse as sp

from ..patience import FOR_EVER, Patience
from .certificate import Certifier
from .model import QP, Solution

_MANY_ROWS, _FEW_CURVED = 0.3, 0.5  # per variable
_ROUNDS = 30
_POINTS = 5  # tangents per term to begin with
_WIDE = 1e6
_FAR = 10.0 ** np.arange(-1, 7)  # where terms touch to begin with if their bounds are wider
_MOST = 60  # tangents per term, on average, at which all are forgotten


def is_separable(qp: QP) -> bool:
    """Whether all curvature is that of single variables, in no more than one term each."""
    P = sp.coo_matrix(qp.P)
    held = P.data != 0.0
    mixed = np.any(P.row[held] != P.col[held]) or np.any(np.isin(P.row[held], qp.pairs.x))
    return not bool(mixed)


def suits(qp: QP) -> bool:
    """Whether the simplex method is the right one: many rows, and some curvature, but not much."""
    if qp.A.shape[0] < _MANY_ROWS * qp.n or not is_separable(qp):
        return False
    curved = np.count_nonzero(qp.square + sp.csr_matrix(qp.P).diagonal())
    curved += np.count_nonzero(qp.pairs.d)
    return bool(0 < curved <= _FEW_CURVED * qp.n)


class LinearWorkspace:
    """Solves a separable QP under changing variable bounds; see `suits`."""

    def __init__(self, qp: QP) -> None:
        square = qp.square + 0.5 * sp.csr_matrix(qp.P).diagonal()
        nothing = sp.csr_matrix((qp.n, qp.n))
        self._qp = QP(nothing, qp.q, qp.A, qp.l, qp.u, square, qp.pairs, qp.constant)
        self._certifier = Certifier(self._qp)
        pairs, alone = qp.pairs, np.flatnonzero(square)
        curved = np.flatnonzero(pairs.d)
        # One term per curved variable: where it is, its switch (−1: none) and its weight.
        self._x = np.concatenate([pairs.x[curved], alone])
        self._z = np.concatenate([pairs.z[curved], np.full(len(alone), -1)])
        self._d = np.concatenate([pairs.d[curved], square[alone]])
        self._m = len(qp.l)
        self._solver: highspy.Highs | None = None

    def _build(self, lb: np.ndarray, ub: np.ndarray) -> highspy.Highs:
        qp, terms = self._qp, len(self._x)
        links, low, high = self._links()
        rows = sp.csr_matrix(sp.vstack([qp.A, links]))
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = qp.n + terms, rows.shape[0]
        program.col_cost_ = np.concatenate([qp.q, np.ones(terms)])
        program.col_lower_ = np.concatenate([lb, np.zeros(terms)])
        program.col_upper_ = np.concatenate([ub, np.full(terms, np.inf)])
        program.row_lower_ = np.concatenate([qp.l, low])
        program.row_upper_ = np.concatenate([qp.u, high])
        matrix = sp.csr_matrix((rows.data, rows.indices, rows.indptr),
                               shape=(rows.shape[0], qp.n + terms))
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = matrix.indptr
        program.a_matrix_.index_ = matrix.indices
        program.a_matrix_.value_ = matrix.data
        solver = highspy.Highs()
        for name, value in (("output_flag", False), ("solver", "simplex"), ("threads", 1),
                            ("presolve", "off")):
            solver.setOptionValue(name, value)
        solver.passModel(program)
        self._start(solver, lb, ub)
        return solver

    def _links(self) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
        """low z ≤ x ≤ high z, where these are finite."""
        pairs, n = self._qp.pairs, self._qp.n
        blocks, ends = [sp.csr_matrix((0, n))], [np.zeros((0, 2))]
        for bound, side in ((pairs.high, (-np.inf, 0.0)), (pairs.low, (0.0, np.inf))):
            some = np.flatnonzero(np.isfinite(bound))
            rows = np.arange(len(some))
            blocks.append(
                sp.csr_matrix((np.ones(len(some)), (rows, pairs.x[some])), (len(some), n))
                - sp.csr_matrix((bound[some], (rows, pairs.z[some])), (len(some), n))
            )
            ends.append(np.tile(side, (len(some), 1)))
        sides = np.concatenate(ends)
        return sp.csr_matrix(sp.vstack(blocks)), sides[:, 0], sides[:, 1]

    def _start(self, solver: highspy.Highs, lb: np.ndarray, ub: np.ndarray) -> None:
        """A few tangents for every term."""
        low, high = lb[self._x], ub[self._x]
        known = (low > -_WIDE) & (high < _WIDE)
        near, far = np.flatnonzero(known), np.flatnonzero(~known)
        for share in np.linspace(0.0, 1.0, _POINTS):
            self._touch(solver, near, (1.0 - share) * low[near] + share * high[near])
        for value in np.concatenate([_FAR, -_FAR]):
            self._touch(solver, far, np.full(len(far), value))

    def _touch(self, solver: highspy.Highs, terms: np.ndarray, at: np.ndarray) -> None:
        """Add the tangents of these terms at these values of x (of x/z)."""
        if not len(terms):
            return
        x, z, d = self._x[terms], self._z[terms], self._d[terms]
        switched = z >= 0
        # Entries of t, x and, where there is one, the switch.
        column = np.stack([self._qp.n + terms, x, z], axis=1)
        value = np.stack([np.ones(len(terms)), -2.0 * d * at, d * at * at], axis=1)
        kept = np.ones(column.shape, dtype=bool)
        kept[:, 2] = switched
        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))[:-1]])
        solver.addRows(
            len(terms), np.where(switched, 0.0, -d * at * at), np.full(len(terms), np.inf),
            int(kept.sum()), starts.astype(np.int32), column[kept].astype(np.int32), value[kept],
        )

    def solve(
        self, lb: np.ndarray, ub: np.ndarray, *, cutoff: float = np.inf, slack: float = 0.0,
        warm: tuple[np.ndarray, np.ndarray] | None = None, patience: Patience = FOR_EVER,
    ) -> Solution:
        """Solve the node with these bounds, as accurately as the search needs.

        As `Workspace.solve`; the basis is warm without `warm`.
        """
        n = self._qp.n
        most = len(self._qp.l) + 2 * n + _MOST * len(self._x)
        if self._solver is None or self._solver.getNumRow() > most:
            self._solver = self._build(lb, ub)
        solver = self._solver
        solver.changeColsBounds(n, np.arange(n, dtype=np.int32), lb, ub)
        best: Solution | None = None
        before: tuple[np.ndarray, np.ndarray, float] | None = None  # the last round's answer
        iterations = 0
        for _ in range(_ROUNDS):
            solver.setOptionValue("time_limit", solver.getRunTime() + max(patience.seconds(), 1e-3))
            solver.run()
            iterations += 1
            if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                if best is None and before is not None:
                    bound, reduced = self._certifier.bound(*before[:2], lb, ub)
                    best = Solution(*before[:2], bound, reduced, before[2], iterations)
                return best or self._without(lb, ub, iterations)
            answer = solver.getSolution()
            values = np.array(answer.col_value)
            x, t = np.clip(values[:n], lb, ub), values[n:]
            objective, terms = self._objective(x)
            missed = np.flatnonzero(terms - t > 1e-9 * (1.0 + terms))
            # The program's own value says when a certificate is worth its time.
            value = solver.getInfo().objective_function_value + self._qp.constant
            done = value >= cutoff or objective - value <= slack or not len(missed)
            y = -np.array(answer.row_dual)[: self._m]
            if done or iterations == _ROUNDS or patience.expired():
                bound, reduced = self._certifier.bound(x, y, lb, ub)
                if best is None or bound > best.bound:
                    best = Solution(x, y, bound, reduced, objective, iterations)
                enough = best.bound >= cutoff or objective - best.bound <= slack
                if enough or not len(missed) or patience.expired():
                    break
            before = (x, y, objective)
            z = np.where(self._z[missed] < 0, 1.0, x[self._z[missed]])
            self._touch(solver, missed, x[self._x[missed]] / np.maximum(z, 1e-9))
        assert best is not None
        best.iterations = iterations
        return best

    def _objective(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective at x, and the curved terms."""
        z = np.where(self._z < 0, 1.0, x[self._z])
        squares = self._d * x[self._x] ** 2
        terms = np.divide(squares, z, out=squares.copy(), where=z > 1e-9)
        return float(self._qp.q @ x + terms.sum()) + self._qp.constant, terms

    def _without(self, lb: np.ndarray, ub: np.ndarray, iterations: int) -> Solution:
        """No point: infeasible if a ray passes our own certificate, else no news."""
        assert self._solver is not None
        n, bound = self._qp.n, -np.inf
        if self._solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            _, known, ray = self._solver.getDualRay()  # type: ignore[attr-defined]
            if known:
                y = np.array(ray)[: self._m]
                if any(self._certifier.infeasible(s * y, lb, ub) for s in (-1.0, 1.0)):
                    bound = np.inf
        x = np.clip(np.zeros(n), lb, ub)
        return Solution(x, np.zeros(self._m), bound, np.zeros(n), np.inf, iterations)
