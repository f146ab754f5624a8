"""The best policy with recourse against a mixture of sets, by alternating directions.

Against sets with mean u and covariance C a policy (`relaxations.svm.bounds.recourse`) is worth

    D(x) - sum_jk C_jk delta_j'K delta_k / 4,      x = t - sum_j u_j delta_j,

in the mean multipliers x: of a free anchor x_j = (1 - u_j) t_j, of a place x_a = t_a + u'R_a.  It
must keep ``sum(x) = 0``, ``sum_a R_ja = t_j``, and x_a + (v - u)'R_a inside its box for every
allowed v.  All other variables stay what they are.

The quadratic function has its own copy of (x, t, R), the boxes have two, one for each end, and
scaled prices draw them together:

- R for given t is a division in the eigenvectors of C and K_AA, because delta enters by the product
  of the two; what the penalties hide of K_AA counts as a multiple of the identity;
- (x, t) for given R is a linear system of the size of the free anchors, the places eliminated by
  the same eigenvectors;
- the copies of the boxes are projections, `relaxations.svm.bounds.robust`.

Pairs of anchors whose force goes nowhere when they are broken (`relaxations.svm.bounds.joint`) are
more *forces*: their multipliers stand beside those of the free anchors, with a frequency and a
covariance like theirs, but without R.

A few steps at a time, from where the last answer ended, are enough: mixtures change slowly, and
every policy, once mended, gives a valid bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.linalg.lapack import dpstrf

from ..dual import Dual
from .drop import Rates, starts_of
from .robust import project, spans_of

__all__ = ["MAX_FREQUENCY", "Prices", "Splitting", "unit_of"]

MAX_FREQUENCY = 0.98
"""Beyond it an anchor counts as given up nearly always, and 1 - u must not vanish."""

_PENALTY = 2.0  # on copies that differ, for boxes and kernel of size one
_HIDDEN = 0.02  # of the penalty: eigenvalues of the kernel that need not be told apart
_LIKE = 100.0  # times the usual size of a kernel, beyond which single precision is not enough
_ON_X, _ON_SUMS = 0.25, 5.0  # the same for x and t, and for sums of R, in units of R's
_NO_PAIRS, _NO_FORCE = np.zeros((0, 2), int), np.zeros(0)


@dataclass
class Prices:
    """Scaled prices at which the copies agree, for the next answer to begin with.

    Parameters
    ----------
    places, free : ndarray of int (k,), (m,)
        Variables.
    R : ndarray (2, k, m)
        Of recourse, at the upper and the lower ends.
    x : ndarray (2, k)
        Of the places.
    t, sums : ndarray (m,)
        Of the signs of t, and of what recourse sums to.
    """

    places: np.ndarray
    free: np.ndarray
    R: np.ndarray
    x: np.ndarray
    t: np.ndarray
    sums: np.ndarray

    def of(self, places: np.ndarray, free: np.ndarray) -> Prices:
        """Those of other places and free variables, zero where none is known."""
        a, at_a = _common(self.places, places)
        j, at_j = _common(self.free, free)
        R, x = np.zeros((2, places.size, free.size)), np.zeros((2, places.size))
        t, sums = np.zeros(free.size), np.zeros(free.size)
        for end in range(2):
            R[end][np.ix_(at_a, at_j)] = self.R[end][np.ix_(a, j)]
        x[:, at_a], t[at_j], sums[at_j] = self.x[:, a], self.t[j], self.sums[j]
        return Prices(places, free, R, x, t, sums)

    def compact(self) -> Prices:
        """In half the memory, to be kept with a node."""
        return Prices(self.places, self.free, self.R.astype(np.float32), self.x, self.t, self.sums)


def _common(known: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _, i, j = np.intersect1d(known, wanted, assume_unique=True, return_indices=True)
    return i, j


class _Spectrum:
    """A matrix as ``E diag(values) E' + rest (1 - E E')``, good to about the tolerance."""

    def __init__(self, K: np.ndarray, tolerance: float, precision: type) -> None:
        factor, order, rank, _ = dpstrf(K, tol=tolerance, lower=1)
        L = np.empty((K.shape[0], rank))
        L[order - 1] = np.tril(factor[:, :rank])
        values, V = eigh(L.T @ L, check_finite=False)
        kept = values > tolerance
        values = values[kept]
        self._E = ((L @ V[:, kept]) / np.sqrt(values)).astype(precision)
        self._values = values.astype(precision)
        left = K.shape[0] - values.size
        self._rest = max(float(np.trace(K) - values.sum()), 0.0) / max(left, 1)

    def divide(self, rows: np.ndarray, factor: float | np.ndarray, shift: float) -> np.ndarray:
        """Rows times the inverse of ``factor K + shift``, of one factor or one for each row."""
        rows = rows.astype(self._E.dtype, copy=False)
        base = factor * self._rest + shift
        more = 1.0 / (factor * self._values + shift) - 1.0 / base
        return rows / base + ((rows @ self._E) * more) @ self._E.T


def _factor(matrix: np.ndarray, lift: float) -> tuple[np.ndarray, bool]:
    """A Cholesky factor, if need be of a matrix with more on its diagonal: a more careful step."""
    one = np.eye(len(matrix))
    for more in (0.0, *(lift * 10.0 ** np.arange(12.0))):
        try:
            return cho_factor(matrix + more * one, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    return cho_factor(more * one, check_finite=False)  # no step at all


def unit_of(diag: np.ndarray, free: np.ndarray) -> float:
    """The size of the free variables' kernel, or what counts as small in the whole."""
    return max(float(diag[free].mean()), 1e-6 * float(diag.max()), 1e-30)


def _precision(diag: np.ndarray, free: np.ndarray, places: np.ndarray) -> type:
    """Single where that will do: products take half the time, and no answer needs the digits.

    It will not where variables have kernels of quite another size: digits cancel.
    """
    sizes = diag[np.append(free, places)]
    return np.float32 if sizes.max() < _LIKE * np.median(diag[places]) else np.float64


class Splitting:
    """Answers to slowly changing mixtures.

    Parameters
    ----------
    dual : Dual
        With a dense kernel matrix.
    places, free : ndarray of int (k,), (m,)
        Variables that take over, and those that may be dropped, sorted by rate.
    t : ndarray (N,)
        Multipliers to begin with.
    R : ndarray (m, k)
        Recourse to begin with.
    u : ndarray (m,)
        Mean of the first mixture.
    rates : Rates
        Over the free variables.
    prices : Prices, optional
        To begin with.
    ends : ndarray of int (P, 2), optional
        The positive and the negative variable of each pair.
    push : ndarray (P,), optional
        Their forces to begin with.
    """

    def __init__(
        self, dual: Dual, places: np.ndarray, free: np.ndarray, t: np.ndarray, R: np.ndarray,
        u: np.ndarray, rates: Rates, prices: Prices | None, ends: np.ndarray = _NO_PAIRS,
        push: np.ndarray = _NO_FORCE,
    ) -> None:
        K, self._places, self._free, self._m = dual.gram.K, places, free, free.size
        self._precision = _precision(dual.gram.diag, free, places)
        self._KFF, self._KFA = K[np.ix_(free, free)], self._short(K[np.ix_(free, places)])
        self._ends = np.stack([dual.hi[places], -dual.lo[places]])
        self._t_lo = np.append(dual.lo[free], np.zeros(push.size))
        self._t_hi = np.append(dual.hi[free], np.full(push.size, np.inf))
        self._rest = t.copy()
        self._rest[free] = self._rest[places] = 0.0
        linear = dual.p - 0.5 * (K @ self._rest)
        self._p_free, self._p_places = linear[free], linear[places]
        if push.size:
            self._add_pairs(K, linear, ends)
        self._is_row = np.arange(self._t_lo.size) < free.size
        # Only sets within the budgets, whether or not they use them up: near enough for answers.
        self._rates = Rates(rates.weights, rates.budgets, np.zeros(rates.budgets.size, np.bool_))
        self._spans, self._starts = spans_of(rates.weights), starts_of(rates.weights)

        self._set_penalty(unit_of(dual.gram.diag, free), (dual.hi - dual.lo)[places])
        # So many diagonal entries may be off: all together they must stay below the penalty.
        hidden = min(_HIDDEN, 1.0 / max(places.size, 1)) * self._on_R
        self._spectrum = _Spectrum(K[np.ix_(places, places)], hidden, self._precision)
        self._eliminate()
        self._t, self._R = np.append(t[free], push), R.T.copy()
        x = t[places] + self._R @ np.minimum(u[: free.size], MAX_FREQUENCY)
        self._t_copy = self._t
        self._x_copies, self._R_copies = np.stack([x, -x]), np.stack([self._R, -self._R])
        if prices is None:
            prices = Prices(places[:0], free[:0], np.zeros((2, 0, 0)), np.zeros((2, 0)),
                            np.zeros(0), np.zeros(0))
        self.prices = prices.of(places, free)
        self._of_signs = np.append(self.prices.t, np.zeros(push.size))
        self._box_prices = np.zeros((2, places.size))
        self._theta = np.zeros((2, places.size, rates.budgets.size))

    def _add_pairs(self, K: np.ndarray, linear: np.ndarray, ends: np.ndarray) -> None:
        """Let pairs be forces, too: kernel rows and linear terms of e_j - e_k."""
        j, k = ends.T
        Kd = K[:, j] - K[:, k]
        mixed = Kd[self._free]
        self._KFF = np.block([[self._KFF, mixed], [mixed.T, Kd[j] - Kd[k]]])
        self._KFA = np.vstack([self._KFA, self._short(Kd[self._places].T)])
        self._p_free = np.append(self._p_free, linear[j] - linear[k])

    def _short(self, values: np.ndarray) -> np.ndarray:
        return values.astype(self._precision, copy=False)

    def _set_penalty(self, unit: float, widths: np.ndarray) -> None:
        """Between what the kernel and what the boxes ask for: prices are of size one."""
        widths = widths[np.isfinite(widths)]
        width = float(np.median(widths)) if widths.size else 1.0 / unit
        self._on_R = _PENALTY * math.sqrt(unit / width)
        self._on_x, self._on_sums = _ON_X * self._on_R, _ON_SUMS * self._on_R

    def _eliminate(self) -> None:
        """What the system of `_move_x` needs to know of the places."""
        self._half = self._spectrum.divide(0.5 * self._KFA, 0.5, 2.0 * self._on_x)
        self._half_sums = self._half.sum(axis=1)
        self._schur = 0.5 * self._half @ self._KFA.T
        self._level = self._spectrum.divide(np.ones(self._places.size), 0.5, 2.0 * self._on_x)

    def answer(
        self, u: np.ndarray, C: np.ndarray, steps: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The answer to the mixture; the boxes nearly hold.

        Parameters
        ----------
        u, C : ndarray (m + P,), (m + P, m + P)
            Mean and covariance: of free variables given up, then of pairs broken.
        steps : int

        Returns
        -------
        t, R, push : ndarray (N,), (m, k), (P,)
        """
        m = self._m
        often = np.minimum(u, MAX_FREQUENCY)
        self._u, self._kept, self._C = often[:m].copy(), 1.0 - often, C
        variances, U = eigh(C[:m, :m], check_finite=False)
        self._U = self._short(U)
        self._factors = 0.5 * self._short(np.maximum(variances, 0.0))[:, None]
        self._even = self._spectrum.divide(
            np.ones((1, self._places.size)), self._factors, 2.0 * self._on_R
        )
        self._even *= (self._on_sums / (1.0 + self._on_sums * self._even.sum(axis=1)))[:, None]
        both = np.outer(self._kept, self._kept)
        system = 0.5 * self._KFF * (both + C) - self._schur * both
        np.fill_diagonal(system, system.diagonal() + self._on_x + self._on_sums * self._is_row)
        self._system = _factor(system, self._on_x + self._on_sums)
        for _ in range(steps):
            self._move_R()
            self._move_x()
            self._move_copies()
        R = 0.5 * (self._R_copies[0] - self._R_copies[1])
        R[:, self._t_copy[:m] == 0.0] = 0.0
        t = self._rest.copy()
        t[self._free] = self._t_copy[:m]
        t[self._places] = 0.5 * (self._x_copies[0] - self._x_copies[1]) - R @ self._u
        return t, R.T, self._t_copy[m:]

    def _move_R(self) -> None:
        """R for given t: one system for each eigenvector of C."""
        U, m = self._U, self._m
        target = self._R_copies[0] - self._R_copies[1] - self.prices.R.sum(axis=0)
        right = self._factors * ((U.T * self._short(self._t[:m])) @ self._KFA[:m])
        if self._t.size > m:
            pushed = self._short(0.5 * self._C[:m, m:] * self._t[m:])
            right += U.T @ (pushed @ self._KFA[m:])
        right += self._on_R * (self._short(target) @ U).T
        right += self._on_sums * (U.T @ self._short(self._t[:m] - self.prices.sums))[:, None]
        found = self._spectrum.divide(right, self._factors, 2.0 * self._on_R)
        found -= self._even * found.sum(axis=1)[:, None]
        self._R = found.T @ U.T

    def _move_x(self) -> None:
        """x and t for given R, and the intercept, which keeps their sum."""
        prices, kept, copies, m = self.prices, self._kept, self._x_copies, self._m
        right = kept * self._p_free
        right += 0.5 * np.einsum("jk,jk->j", self._C[:, :m], self._KFA @ self._R)
        right += self._on_x * (self._t_copy - self._of_signs)
        right[:m] += self._on_sums * (self._R.sum(axis=0) + prices.sums)
        x = self._p_places + self._on_x * (copies[0] - copies[1] - prices.x.sum(axis=0))
        level = kept * (self._short(self._is_row) - self._half_sums)
        both = np.column_stack([right - kept * (self._half @ self._short(x)), level])
        t, slope = cho_solve(self._system, both, check_finite=False).T
        x = self._spectrum.divide(x, 0.5, 2.0 * self._on_x)
        counted = kept * self._is_row  # those of pairs are zero
        sums = self._rest.sum() + counted @ t + x.sum() - (kept * t) @ self._half_sums
        slopes = counted @ slope - (kept * slope) @ self._half_sums + self._level.sum()
        beta = sums / slopes
        self._t = t - beta * slope
        self._x = x - self._short(kept * self._t) @ self._half - beta * self._level

    def _move_copies(self) -> None:
        """The copies of the boxes, and the prices of the difference.

        The copy of the lower ends is that of the upper ends of -x and -R.
        """
        prices = self.prices
        for end, sign in enumerate((1.0, -1.0)):
            x = sign * (self._x + prices.x[end])
            R = sign * (self._R + prices.R[end])
            project(
                x, R, self._ends[end], self._u, self._rates, self._spans, self._starts,
                self._on_x / self._on_R, self._box_prices[end], self._theta[end],
            )
            self._x_copies[end], self._R_copies[end] = x, R
            prices.x[end] += self._x - sign * x
            prices.R[end] += self._R - sign * R
        self._t_copy = np.clip(self._t + self._of_signs, self._t_lo, self._t_hi)
        self._of_signs += self._t - self._t_copy
        prices.t = self._of_signs[: self._m]
        prices.sums += self._R.sum(axis=0) - self._t[: self._m]
