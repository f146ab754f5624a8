"""Multipliers that balance variables without end exactly.

A variable that may grow for ever and has no curvature of its own gives a finite bound only if its
slope has the right sign, or is zero if it has no bounds at all. A rounding error is as bad as any
other there. So multipliers are moved by a hair: the slopes of half-bounded variables to where
their sign is beyond doubt, and those of free ones so close to zero that a real, if not a
floating-point, vector of multipliers within a known distance makes them vanish.

One thing is taken on trust. Where P is singular up to rounding, as XᵀX is with more columns than
rows, there may be no such vector, since P and q are themselves rounded. They are then taken to be
known no better than that: a slope that is zero within its rounding error is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from .exact import eliminate, exact_rows

UNIT = 2.0**-52
_ROUNDS = 6
_MARGIN = 256.0
"""How far beyond its rounding error a slope is moved."""
_TRUST = 1e-9
"""Rounding errors above this share of the slopes' terms are no longer taken for zero."""
_MOST = 500
"""With more variables out of balance the linear algebra would take longer than the node."""
_MOST_EXACT = 50
"""The same for exact arithmetic."""


@dataclass
class Balanced:
    """Multipliers with their slopes; what holds does so for some real ones near `x` and `y`.

    Attributes
    ----------
    x, y : ndarray
        The point of linearisation and the row multipliers.
    slope, error : ndarray
        Slopes, and how far the true ones may be from them.
    x_radius, y_radius : ndarray
        How far the real multipliers may be from x and y.
    """

    x: np.ndarray
    y: np.ndarray
    slope: np.ndarray
    error: np.ndarray
    x_radius: np.ndarray
    y_radius: np.ndarray


class Balancer:
    """Balances the slopes Px + q + Aᵀy of one QP by changing x and y.

    Parameters
    ----------
    P, q, At : arrays of shape (n, n), (n,) and (n, m)
    l, u : ndarray of shape (m,)
        Bounds of the rows: a row without an upper one takes no y > 0, nor one without a lower
        one y < 0.
    """

    def __init__(
        self, P: np.ndarray | sp.spmatrix, q: np.ndarray, At: sp.csr_matrix,
        l: np.ndarray, u: np.ndarray,  # noqa: E741
    ) -> None:
        self.q = q
        self._P, self._At = P, At
        self._absP, self._absAt = abs(P), abs(At)
        self._curved = np.asarray(self._absP.sum(axis=1)).ravel() > 0.0
        self._least = np.where(np.isinf(l), 0.0, -np.inf)
        self._most = np.where(np.isinf(u), 0.0, np.inf)

    def slopes(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes, and bounds on their rounding errors."""
        slope = self._P @ x + self.q + self._At @ y
        size = self._absP @ np.abs(x) + np.abs(self.q) + self._absAt @ np.abs(y)
        return slope, 16 * UNIT * size

    def balance(
        self, x: np.ndarray, y: np.ndarray, free: np.ndarray, sign: np.ndarray,
        zero: np.ndarray, held: np.ndarray,
    ) -> Balanced | None:
        """Multipliers near x and y with which no variable without end has a wrong slope.

        Parameters
        ----------
        x, y : ndarray
            The multipliers to start from.
        free : ndarray of bool
            Variables without bounds: their slopes must vanish.
        sign : ndarray
            +1 where a slope must not be negative, −1 where not positive, else 0.
        zero : ndarray of int
            Variables whose slopes vanish already.
        held : ndarray of bool
            Rows whose multipliers must not change, since these variables rely on them.

        Returns
        -------
        Balanced or None
            None if none were found.
        """
        chosen = np.zeros(len(x), dtype=bool)
        found = self._search(x, y, free, sign, held, chosen)
        if found is None and chosen.sum() <= _MOST_EXACT:
            # Perhaps what was out of balance can be so only together: then all must vanish, and
            # those that are combinations of others do so with them. Multipliers that are zero
            # stay so: there may be fewer combinations otherwise.
            implied = self._dependent(y != 0.0, zero, np.flatnonzero(chosen))
            found = self._search(
                x, y, chosen & ~implied, np.where(chosen, 0.0, sign), held | (y == 0.0),
                chosen.copy(),
            )
            if found is not None:
                found.slope[implied] = found.error[implied] = 0.0
        if found is not None:
            found.slope[zero] = found.error[zero] = 0.0
        return found

    def _search(
        self, x: np.ndarray, y: np.ndarray, free: np.ndarray, sign: np.ndarray, held: np.ndarray,
        chosen: np.ndarray,
    ) -> Balanced | None:
        """One attempt; `chosen` collects the variables that were out of balance."""
        x, y = x.copy(), y.copy()
        worst, known = np.inf, -1
        for _ in range(_ROUNDS):
            slope, error = self.slopes(x, y)
            inexact = free & (error > 0.0)  # else every term is zero
            off = (free & (np.abs(slope) > 4.0 * error)) | (sign * slope < error * np.abs(sign))
            chosen |= off | inexact
            if not np.any(off):
                return self._prove(x, y, slope, error, inexact, sign, held)
            last, worst = worst, float(np.abs(slope[off]).max())
            grown, known = chosen.sum() > known, int(chosen.sum())
            if known > _MOST or not (grown or worst < 0.5 * last):
                return None
            self._move(x, y, chosen, (sign * _MARGIN * error - slope)[chosen], held)
        return None

    def _dependent(self, rows: np.ndarray, zero: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Chosen variables whose slopes, for any x and any y on these rows, combine others'."""
        columns = np.concatenate([zero, chosen])
        columns = columns[~self._curved[columns]]
        terms = sp.hstack([self._At[columns][:, rows], self.q[columns][:, None]])
        dependent = np.array(eliminate(exact_rows(terms))[1], dtype=int)
        implied = np.zeros(len(self.q), dtype=bool)
        implied[columns[dependent]] = True
        implied[zero] = False
        return implied

    def _move(
        self, x: np.ndarray, y: np.ndarray, chosen: np.ndarray, change: np.ndarray,
        held: np.ndarray,
    ) -> None:
        """Change x and y as little as possible so that the chosen slopes change by that much."""
        M, rows, columns = self._adjustable(y, chosen, held)
        step = np.linalg.lstsq(M, change, rcond=1e-11)[0]
        y[rows] = np.clip(y[rows] + step[: len(rows)], self._least[rows], self._most[rows])
        x[columns] += step[len(rows):]

    def _adjustable(
        self, y: np.ndarray, chosen: np.ndarray, held: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The multipliers that may move either way, and how they move the chosen slopes."""
        loose = ~held & ((y != 0.0) | (np.isinf(self._least) & np.isinf(self._most)))
        At, P = self._At[chosen], self._P[chosen]
        used = np.zeros(len(y), dtype=bool)
        used[At.indices] = True
        rows = np.flatnonzero(loose & used)
        columns = np.flatnonzero(np.asarray(abs(P).sum(axis=0)).ravel())
        dense = P[:, columns].toarray() if sp.issparse(P) else P[:, columns]
        return np.hstack([At[:, rows].toarray(), dense]), rows, columns

    def _prove(
        self, x: np.ndarray, y: np.ndarray, slope: np.ndarray, error: np.ndarray,
        free: np.ndarray, sign: np.ndarray, held: np.ndarray,
    ) -> Balanced | None:
        """Show that slopes of free variables vanish for some real multipliers near x and y."""
        radius = self._distance(y, np.abs(slope) + error, free, held)
        if radius is None:
            trusted = _TRUST * (np.abs(self.q) + self._absAt @ np.abs(y)).max()
            if np.any(free & self._curved & (error > trusted)):
                return None
            radius = self._distance(y, np.abs(slope) + error, free & ~self._curved, held)
            if radius is None:
                return None
        x_radius, y_radius = radius
        error = error + 1.1 * (self._absP @ x_radius + self._absAt @ y_radius)
        slope, error = np.where(free, 0.0, slope), np.where(free, 0.0, error)
        turned = (y - y_radius < self._least) | (y + y_radius > self._most)
        if np.any(turned) or np.any(sign * slope < error * np.abs(sign)):
            return None
        return Balanced(x, y, slope, error, x_radius, y_radius)

    def _distance(
        self, y: np.ndarray, rest: np.ndarray, free: np.ndarray, held: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """How far x and y may have to move to make the slopes of free variables vanish.

        With B regular, BR = I − E and ‖E‖ ≤ ½, the solution of Bδ = r has |δ| ≤ 2 |R| ‖r‖.
        """
        x_radius, y_radius = np.zeros(len(rest)), np.zeros(len(y))
        size = int(free.sum())
        if size == 0:
            return x_radius, y_radius
        M, rows, columns = self._adjustable(y, free, held)
        if M.shape[1] < size:
            return None
        basis = np.sort(scipy.linalg.qr(M, mode="r", pivoting=True)[1][:size])
        B = M[:, basis]
        try:
            R = np.linalg.inv(B)
        except np.linalg.LinAlgError:
            return None
        E = np.abs(np.eye(size) - B @ R) + (size + 2) * UNIT * (np.abs(B) @ np.abs(R))
        if not E.sum(axis=1).max() <= 0.5:
            return None
        radius = np.zeros(M.shape[1])
        radius[basis] = 2.1 * np.abs(R).sum(axis=1) * rest[free].max()
        y_radius[rows], x_radius[columns] = radius[: len(rows)], radius[len(rows):]
        return x_radius, y_radius
