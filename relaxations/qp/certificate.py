r"""Certified lower bounds from any multipliers.

For any point x̂ and any row multipliers y, convexity gives for every feasible x

    f(x) ≥ c − ½ x̂ᵀPx̂ − Σ_i max(y_i u_i, y_i l_i) + Σ_j min_{x_j} (g_j x_j + s_j x_j²),
    g = Px̂ + q + Aᵀy,

the minimum taken over the variable's bounds (Neumaier and Shcherbina's way to pay for a dual
residual). A switch z with its variables x_m, m ∈ M(z), is minimised jointly: the pair's terms are
homogeneous in (x, z), so the minimum is at an end of z's interval, with value
z·(g_z − Σ_{m∈M(z)} h_m), h_m = max_{low ≤ t ≤ high} (−g_m t − d_m t²).
Nothing is assumed of x̂ and y: a bad pair only gives a weak bound. The rounding error of the
evaluation is bounded and subtracted. Where a variable has neither an end nor curvature, x̂ and y are
first balanced exactly (`relaxations.qp.balance`); if that fails there is no bound.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from .balance import UNIT as _UNIT
from .balance import Balanced, Balancer
from .model import QP

_NOISE = (1e-8, 1e-5, 1.0)
"""If multipliers cannot be balanced, those below this share of the largest are taken for zeros."""


def _times(slope: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """slope * bound with 0 * inf = 0."""
    with np.errstate(invalid="ignore"):
        return np.where(slope == 0.0, 0.0, slope * bound)


def _box_minimum(
    slope: np.ndarray, square: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """min over low <= t <= high of slope*t + square*t**2, per entry."""
    curved = square > 0.0
    end = np.where(slope >= 0.0, low, high)
    bent = np.where(curved, slope, 0.0)
    t = np.clip(-bent / np.where(curved, 2.0 * square, 1.0), low, high)
    t = np.where(curved, t, 0.0)
    return np.where(curved, (bent + square * t) * t, _times(slope, end))


def _reach(
    square: np.ndarray, slope: np.ndarray, error: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """How far from zero the minimiser may lie for any slope within its error."""
    end = np.where(slope > error, np.abs(low), np.abs(high))
    end = np.where(np.abs(slope) <= error, np.maximum(np.abs(low), np.abs(high)), end)
    curved = square > 0.0
    free = (np.abs(slope) + error) / np.where(curved, square, 1.0)
    return np.where(curved, np.minimum(np.maximum(np.abs(low), np.abs(high)), free), end)


class Certifier:
    """Evaluates certified bounds for one QP under changing variable bounds."""

    def __init__(self, qp: QP) -> None:
        self._qp = qp
        self._absP = abs(qp.P)
        self._At = sp.csr_matrix(qp.A.T)
        pairs = qp.pairs
        self._single = np.ones(qp.n, dtype=bool)
        self._single[pairs.x] = False
        self._is_switch = np.zeros(qp.n, dtype=bool)
        self._is_switch[pairs.z] = True
        self._no_upper = ~np.isfinite(qp.u)
        self._no_lower = ~np.isfinite(qp.l)
        self._slacks = self._slack_columns()
        self._balancer = Balancer(qp.P, qp.q, self._At, qp.l, qp.u)
        self._row_balancer = Balancer(
            sp.csr_matrix((qp.n, qp.n)), np.zeros(qp.n), self._At, qp.l, qp.u
        )

    def _slack_columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(variable, row, coefficient) of variables without curvature that stand in one row."""
        qp = self._qp
        curved = np.asarray(self._absP.sum(axis=0)).ravel() + qp.square > 0.0
        alone = (np.diff(self._At.indptr) == 1) & ~curved & self._single & ~self._is_switch
        columns = np.flatnonzero(alone)
        first = self._At.indptr[columns]
        rows = self._At.indices[first]
        _, keep = np.unique(rows, return_index=True)  # one slack per row is enough
        return columns[keep], rows[keep], self._At.data[first][keep]

    def bound(
        self, x: np.ndarray, y: np.ndarray, lb: np.ndarray, ub: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Certified lower bound proved by (x, y), and the reduced costs behind it."""
        qp = self._qp
        flat = qp.square == 0.0
        found = self._cleaned(self._balancer, x, y, lb, ub, flat)
        if found is None:
            return -np.inf, np.zeros(qp.n)
        x, curved = found.x, qp.P @ found.x
        quadratic = 0.5 * float(x @ curved)
        # ½ x̂ᵀPx̂ for the real x̂, which is not quite x.
        risk = float((np.abs(curved) + self._absP @ found.x_radius) @ found.x_radius)
        rows, row_risk = self._row_terms(found)
        values, reduced, variable_risk = self._variables(
            found.slope, qp.square, qp.pairs.d, found.error, lb, ub
        )
        risk += row_risk + variable_risk
        total = qp.constant - quadratic - rows.sum() + values.sum()
        # Large parts of x̂ along which P is flat cancel in x̂ᵀPx̂ only up to their own rounding.
        terms = 0.5 * float(np.abs(x) @ (self._absP @ np.abs(x)))
        size = abs(qp.constant) + terms + np.abs(rows).sum() + np.abs(values).sum()
        bound = total - risk - _UNIT * (qp.n + len(y)) * size
        return (float(bound) if not np.isnan(bound) else -np.inf), reduced

    def infeasible(self, y: np.ndarray, lb: np.ndarray, ub: np.ndarray) -> bool:
        """Whether y proves that no x within the bounds meets the rows (a Farkas certificate)."""
        qp = self._qp
        nothing = np.zeros(qp.n)
        y = self._admissible(np.nan_to_num(y), nothing, lb, ub)[0]
        size = np.abs(y).max(initial=0.0)
        if size == 0.0 or not self._may_prove(y, lb, ub):
            return False
        found = self._cleaned(
            self._row_balancer, nothing, y / size, lb, ub, np.ones(qp.n, dtype=bool)
        )
        if found is None:
            return False
        rows, risk = self._row_terms(found)
        values, _, variable_risk = self._variables(
            found.slope, nothing, np.zeros(len(qp.pairs)), found.error, lb, ub
        )
        total = values.sum() - rows.sum()
        allowance = risk + variable_risk + _UNIT * (qp.n + len(y)) * (
            np.abs(values).sum() + np.abs(rows).sum()
        )
        # Rows hold to within a tolerance in practice: a hair's breadth is no proof.
        return bool(total > allowance + 1e-9 * (1.0 + np.abs(rows).sum()))

    def _may_prove(self, y: np.ndarray, lb: np.ndarray, ub: np.ndarray) -> bool:
        """A quick look at whether y is worth balancing: variables without end cost nothing."""
        qp, single = self._qp, self._single
        slope = (self._At @ y)[single]
        values = _times(slope, np.where(slope >= 0.0, lb[single], ub[single]))
        rows = np.maximum(_times(y, qp.u), _times(y, qp.l))
        best = values[np.isfinite(values)].sum() - rows.sum()
        return bool(best > 0.0) or len(qp.pairs) > 0

    def _row_terms(self, found: Balanced) -> tuple[np.ndarray, float]:
        """max(y u, y l) per row, and what the distance of the real y may add to their sum."""
        qp = self._qp
        rows = np.maximum(_times(found.y, qp.u), _times(found.y, qp.l))
        ends = np.maximum(
            np.where(self._no_upper, 0.0, np.abs(qp.u)), np.where(self._no_lower, 0.0, np.abs(qp.l))
        )
        return rows, float(ends @ found.y_radius)

    def _cleaned(
        self, balancer: Balancer, x: np.ndarray, y: np.ndarray, lb: np.ndarray, ub: np.ndarray,
        flat: np.ndarray,
    ) -> Balanced | None:
        """As `_balanced`; if that fails, for multipliers without what may be noise."""
        found = self._balanced(balancer, x, y, lb, ub, flat)
        for noise in _NOISE:
            small = (y != 0.0) & (np.abs(y) <= noise * np.abs(y).max(initial=0.0))
            if found is None and np.any(small):
                y = np.where(small, 0.0, y)
                found = self._balanced(balancer, x, y, lb, ub, flat)
        return found

    def _balanced(
        self, balancer: Balancer, x: np.ndarray, y: np.ndarray, lb: np.ndarray, ub: np.ndarray,
        flat: np.ndarray,
    ) -> Balanced | None:
        """Slopes at x and y, or at multipliers near them if variables without end need it."""
        y, columns, held = self._admissible(y, balancer.q, lb, ub)
        slope, error = balancer.slopes(x, y)
        # Think of y as the real number that balances these: the other errors cover the rounding.
        slope[columns] = error[columns] = 0.0
        endless = self._single & flat & (np.isinf(lb) | np.isinf(ub))
        if np.any(endless):
            endless[columns] = False
            free = endless & np.isinf(lb) & np.isinf(ub)
            sign = np.where(endless & ~free, np.where(np.isinf(ub), 1.0, -1.0), 0.0)
            wrong = (free & (error > 0.0)) | (sign * slope < error * np.abs(sign))
            if np.any(wrong):
                return balancer.balance(x, y, free, sign, columns, held)
        return Balanced(x, y, slope, error, np.zeros(len(x)), np.zeros(len(y)))

    def _admissible(
        self, y: np.ndarray, q: np.ndarray, lb: np.ndarray, ub: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Clip signs where a row, or a slack variable in it, has no bound to push against.

        Returns the multipliers, the slack variables whose slope they balance to zero, and which
        rows do so.
        """
        y = np.where(self._no_upper, np.minimum(y, 0.0), y)
        y = np.where(self._no_lower, np.maximum(y, 0.0), y)
        columns, rows, coefficient = self._slacks
        slope = q[columns] + coefficient * y[rows]
        slope = np.where(np.isinf(ub[columns]), np.maximum(slope, 0.0), slope)
        slope = np.where(np.isinf(lb[columns]), np.minimum(slope, 0.0), slope)
        endless = np.isinf(ub[columns]) | np.isinf(lb[columns])
        noise = 64 * _UNIT * (np.abs(q[columns]) + np.abs(coefficient * y[rows]))
        zero = (slope == 0.0) | (endless & (np.abs(slope) <= noise))
        y[rows[zero]] = -q[columns[zero]] / coefficient[zero]
        held = np.zeros(len(y), dtype=bool)
        held[rows[zero]] = True
        return y, columns[zero], held

    def _variables(
        self, slope: np.ndarray, square: np.ndarray, d: np.ndarray, error: np.ndarray,
        lb: np.ndarray, ub: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Minimum of the separable part per variable, reduced costs, and the rounding at risk."""
        pairs = self._qp.pairs
        if len(pairs):
            on = -_box_minimum(slope[pairs.x], d, pairs.low, pairs.high)
            pair_reach = _reach(
                d, slope[pairs.x], error[pairs.x], pairs.low, pairs.high
            )
            pair_error = _times(error[pairs.x], pair_reach) + 8 * _UNIT * np.abs(on)
            np.subtract.at(slope, pairs.z, on)
            np.add.at(error, pairs.z, pair_error)
        values = np.zeros(len(slope))
        single = self._single
        reach = _reach(square, slope, error, lb, ub)
        values[single] = _box_minimum(slope[single], square[single], lb[single], ub[single])
        reduced = np.where(single & (square == 0.0), slope, 0.0)
        risk = float(_times(error[single], reach[single]).sum())
        return values, reduced, risk
