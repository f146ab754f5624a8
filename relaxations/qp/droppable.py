"""Bounds of strictly convex QPs some of whose rows may be given up: the drop bound.

The dual of min ½x'Px + q'x, Hx ≥ h, is that of an SVM, p't − t'Kt/4, with K = 2HP⁻¹H',
p = h + HP⁻¹q and an intercept of zero, so `relaxations.svm.bounds` does the work. It takes K and p
for exact. They are not: P⁻¹ is known up to the residual of its computation, products are rounded.
With V for the computed inverse and w = |H|'|t| + |q| both together cost no more than a small share
of ½ w'|V|w, whichever rows are given up; that is subtracted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..patience import Patience
from ..svm.bounds.drop import Rates
from ..svm.bounds.game import DropGame, Mixture
from ..svm.dual import Dual
from ..svm.gram import dense
from ..svm.solvers import SMOSolver

_EPS = float(np.finfo(float).eps)
_DOUBT = 1e-8  # share by which the inverse may be off
_FIRST_ROUNDS, _ROUNDS = 60, 8  # of the first game and of those that have a start
_PATIENCE = 3  # rounds without progress
_START_AGE, _AGE = 20, 40  # how many sets the frequencies count for


class Memory(NamedTuple):
    """Multipliers and frequencies to begin a game with."""

    t: np.ndarray
    u: np.ndarray


class Decided(NamedTuple):
    """What a game has shown.

    Parameters
    ----------
    bound : float
        Certified.
    enforce, give_up : ndarray of int
        Rows for which the other choice does not beat the cutoff.
    memory : Memory
        For nodes below.
    """

    bound: float
    enforce: np.ndarray
    give_up: np.ndarray
    memory: Memory


class Droppable:
    """min ½x'Px + q'x + constant, Hx ≥ h, of which the last m rows may be given up.

    Parameters
    ----------
    inverse : ndarray (n, n)
        Of P, in units in which its diagonal is about one.
    doubt : float
        Share of ½ w'|V|w that a bound is less sure of.
    q, H, h, constant
        In the same units.
    m : int
    """

    def __init__(
        self, inverse: np.ndarray, doubt: float, q: np.ndarray, H: np.ndarray, h: np.ndarray,
        constant: float, m: int,
    ) -> None:
        self._size, self._H, self._h, self._q = np.abs(inverse), np.abs(H), np.abs(h), np.abs(q)
        self._doubt, self._m, self._first = doubt, m, len(h) - m
        self._constant = constant - 0.5 * float(q @ inverse @ q)
        K = np.zeros((len(h) + 2, len(h) + 2))
        K[:-2, :-2] = 2.0 * (H @ inverse @ H.T)
        self._gram = dense(0.5 * (K + K.T))
        self._p = np.append(h + H @ (inverse @ q), [0.0, 0.0])
        self._game = DropGame(SMOSolver(), self._gram, dense(self._gram.K.copy()))
        self._split = np.zeros((m, m))

    @staticmethod
    def of(
        P: np.ndarray, q: np.ndarray, H: np.ndarray, h: np.ndarray, constant: float, m: int
    ) -> Droppable | None:
        """None if P is not definite beyond doubt."""
        diagonal = P.diagonal()
        if not np.all(diagonal > 0.0):
            return None
        scale = 2.0 ** -np.round(0.5 * np.log2(diagonal))  # powers of two: nothing is rounded
        P = P * np.outer(scale, scale)
        rounding = 8.0 * len(q) * _EPS
        least = float(np.linalg.eigvalsh(P)[0]) - rounding * float(np.linalg.norm(P))
        if not least > 0.0:
            return None
        V = np.linalg.inv(P)
        V = 0.5 * (V + V.T)
        # y'P⁻¹y ≤ y'Vy / (1 − share), for with y = Pw it says that w'Pw ≤ w'PVPw / (1 − share).
        error = np.linalg.norm(P @ V @ P - P) + rounding * np.linalg.norm(
            np.abs(P) @ np.abs(V) @ np.abs(P)
        )
        share = float(error) / least
        if not share <= _DOUBT:
            return None
        return Droppable(V, 2.0 * share + rounding, scale * q, H * scale, h, constant, m)

    def play(
        self, must: np.ndarray, may: np.ndarray, counts: np.ndarray, needs: np.ndarray,
        memory: Memory | None, cutoff: float, patience: Patience,
    ) -> Decided:
        """Raise the bound of a node and see what it decides.

        Parameters
        ----------
        must, may : ndarray of bool (m,)
            Rows that are enforced, and rows that are not given up; more than the former.
        counts, needs : ndarray (g, m), (g,)
            Rows of a total count of `needs` have to hold.
        memory : Memory, optional
            Of the node above.
        cutoff : float
        """
        dual, free = self._dual(may), np.flatnonzero(may & ~must)
        rates, rows = _rates(counts, counts @ may - needs, free), self._first + free
        target = cutoff - self._constant
        t = np.zeros(self._p.size) if memory is None else np.clip(memory.t, dual.lo, dual.hi)
        if memory is None:
            mixture = self._game.soft_start(dual, rows, rates, t, target, patience)
            mixture.age, rounds = _START_AGE, _FIRST_ROUNDS
        else:
            u = memory.u[free]
            mixture, rounds = Mixture.independent(u, _AGE), _ROUNDS
        found = self._game.play(
            dual, rows, rates, t, mixture, self._split, target, rounds, _PATIENCE, patience
        ).certificate
        u = np.zeros(self._m)
        u[free] = mixture.u
        if np.any(t < dual.lo) or np.any(t > dual.hi):  # then it proves nothing
            return Decided(-np.inf, free[:0], free[:0], Memory(np.zeros(t.size), u))
        least = self._constant - self._risk(t[:-2]) + found.ends[:, None]
        without = (least + np.maximum(-found.reduced, 0.0)).min(axis=0)
        with_it = (least + np.maximum(found.reduced, 0.0)).min(axis=0)
        return Decided(
            float(least.min()), free[without >= cutoff], free[with_it >= cutoff], Memory(t, u)
        )

    def _dual(self, may: np.ndarray) -> Dual:
        """With multipliers on all rows that are not given up."""
        lo, hi = np.zeros(self._p.size), np.zeros(self._p.size)
        hi[: self._first] = np.inf
        hi[self._first : -2] = np.where(may, np.inf, 0.0)
        hi[-2], lo[-1] = np.inf, -np.inf
        return Dual(self._gram, self._p, lo, hi)

    def _risk(self, t: np.ndarray) -> float:
        """What K, p and the constant may be off by, in units of the objective."""
        w = np.abs(t) @ self._H + self._q
        linear = abs(self._constant) + float(self._h @ np.abs(t))
        return 0.5 * self._doubt * float(w @ self._size @ w) + 8.0 * _EPS * linear


def _rates(counts: np.ndarray, left: np.ndarray, free: np.ndarray) -> Rates:
    """Which sets of the free rows may be given up.

    Where rows count one, in no other group, only sets that use up what is left need be looked at,
    if that is less than all of them.
    """
    alone = np.count_nonzero(counts, axis=0) <= 1
    units = np.all((counts == 0.0) | ((counts == 1.0) & alone), axis=1) & (left == np.round(left))
    weights = np.ascontiguousarray(counts[:, free])
    return Rates(weights, left, units & (left < weights.sum(axis=1)))
