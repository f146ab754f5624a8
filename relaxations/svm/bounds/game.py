"""The game that finds a good t for the drop bound.

Which t is best?  ``min_V value(V)`` (see `relaxations.svm.bounds.drop`) is concave in t, so t is
played against V: V answers t with the worst set it finds, t answers the average of the sets seen so
far.  With u_j the frequency of j and C the covariance of the sets, that answer is one more node
dual, in x_j = (1 - u_j) t_j, with kernel K_jk (1 + C_jk / ((1 - u_j)(1 - u_k))) on the free
anchors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...jit import inner, outer
from ...patience import Patience
from ..dual import Dual, Effort, Point, gradient, intercept
from ..gram import Gram, times
from ..solvers import NodeSolver
from .drop import DropBound, Rates, drop_bound

__all__ = [
    "MEMORY",
    "ROWS",
    "SPLIT_STEPS",
    "DropGame",
    "Game",
    "GameBound",
    "Mixture",
    "Played",
    "best_pull",
    "mixed",
    "place_of",
    "spread",
]

MEMORY = 8
"""Mixtures that games without intervals of the intercept remember."""
ROWS = 40
"""Per variable, that an answer may take: any answer gives a valid bound."""
SPLIT_STEPS = 3
"""Of the re-split in a round."""

_SHARES = np.append(0.0, 0.5 ** np.arange(6.0, -0.1, -0.5))[:, None]
_LEAST_PULL = 0.1
_MAX_FREQUENCY = 0.98
_SETS = 12  # that are remembered
_NEGLIGIBLE = 1e-6  # share of the largest multiplier below which one is put to zero
_CERTIFICATE = 20.0  # operations, per pair of free anchors
_OVERHEAD = 1e5  # of a round


@dataclass
class Mixture:
    """Frequencies u and covariance C of the sets seen so far, and how many these were."""

    u: np.ndarray
    C: np.ndarray
    age: int

    @classmethod
    def independent(cls, u: np.ndarray, age: int) -> Mixture:
        """Of anchors that have nothing to do with each other."""
        return cls(u, np.diag(u * (1.0 - u)), age)


@dataclass
class GameBound:
    """A certified bound of a game without intervals of the intercept, and what it rests on.

    Parameters
    ----------
    bound : float
    reduced : ndarray (m,)
        A completion that gives up j costs at least ``bound - reduced_j``, one that enforces j at
        least ``bound + reduced_j``, and either at least ``bound``.
    policy : Any
        What it is certified by, of the game's own kind.
    mixture : Mixture
        Sets that the policy was played against.
    """

    bound: float
    reduced: np.ndarray
    policy: Any
    mixture: Mixture


class Game(Protocol):
    """Raises the bound of nodes by policies that leave the intercept free."""

    operations: float

    def open(
        self, dual: Dual, free: np.ndarray, rates: Rates, target: float, rounds: int,
        stale_rounds: int, patience: Patience,
    ) -> GameBound:
        """The first game, from a policy of its own; parameters as in `play`."""

    def play(
        self, dual: Dual, free: np.ndarray, rates: Rates, policy: Any, mixture: Mixture,
        target: float, rounds: int, stale_rounds: int, patience: Patience,
    ) -> GameBound:
        """Raise the bound of a node by playing a policy against mixtures of sets.

        Parameters
        ----------
        dual : Dual
            Linear term and box of t; the box of every variable contains 0, and that of a variable
            that may be dropped has no end on the side of its label.
        free : ndarray of int (m,)
            Variables that may be dropped.
        rates : Rates
            Over the free variables.
        policy : Any
            Any start, of the game's own kind. What is not feasible in it is mended.
        mixture : Mixture
            Sets seen so far, over the free variables.
        target : float
            Stop when the bound reaches this.
        rounds, stale_rounds : int
            Rounds of the game, and rounds without progress.
        patience : Patience
            When it ends, so does the game.

        Returns
        -------
        GameBound
        """


def place_of(dual: Dual, free: np.ndarray, rates: Rates) -> bytes:
    """What tells a game's node from others: a bound of one says nothing about another."""
    return b"".join(part.tobytes() for part in (dual.lo, dual.hi, free, rates.budgets))


def best_pull(worths: Sequence[Sequence[float]]) -> float:
    """How far to go from one policy to another: best against the last mixtures on a grid of shares.

    Parameters
    ----------
    worths : sequence of sequences of float
        What the first policy, the one half way and the other are worth against each mixture: the
        worth is quadratic on the way, and so known from three places.
    """
    start, half, end = np.array(worths).T
    bend = 2.0 * (start - 2.0 * half + end)
    on_the_way = start + (end - start - bend + bend * _SHARES) * _SHARES
    return max(float(_SHARES[np.argmax(on_the_way.min(axis=1)), 0]), _LEAST_PULL)


def mixed(u: np.ndarray, C: np.ndarray, z: np.ndarray, X: np.ndarray, share: float) -> np.ndarray:
    """Frequencies u with the given share of the mean z; the covariance C with X, in place."""
    away = z - u
    C += share * np.outer(away, away)
    C *= 1.0 - share
    C += share * X
    return np.clip(u + share * away, 0.0, 1.0)


@dataclass
class Played:
    """What a game gave: the best certificate, and what its bound would be at mid-interval."""

    certificate: DropBound
    middle: float


class DropGame:
    """Raises the drop bound of nodes that share a kernel matrix.

    Parameters
    ----------
    solver : NodeSolver
        Solves the answers' duals.
    gram : Gram
        Dense kernel matrix padded by two zero rows.
    answers : Gram
        A copy of it for the answers' kernels: the block of the free anchors changes, and is put
        back.
    """

    def __init__(self, solver: NodeSolver, gram: Gram, answers: Gram) -> None:
        self._solver, self._gram, self._K, self._answers = solver, gram, gram.K, answers
        self.operations = 0.0  # of all games so far, in units of those of an added row

    def soft_start(
        self, dual: Dual, free: np.ndarray, rates: Rates, t: np.ndarray, target: float,
        patience: Patience,
    ) -> Mixture:
        """A start for `play`: the best of a range of soft margins.

        Every free anchor's multiplier is capped at the same level, which is doubled from solve to
        solve, until the drop bound reaches the target; t with the best one is kept (in place).  The
        frequencies are put in proportion to the anchors' slack at that level.
        """
        x, F = t.copy(), np.empty(t.size)
        top, low = dual.hi.copy(), dual.lo.copy()
        anchors = t.size - 2 - free.min()
        S, bars = np.zeros((anchors, anchors)), np.zeros((len(rates.budgets), free.size))
        u = np.zeros(free.size)
        best = -np.inf
        for k in range(-8, 5):
            top[free] = np.minimum(dual.hi[free], 2.0**k)
            low[free] = np.maximum(dual.lo[free], -(2.0**k))
            x[free] = np.clip(x[free], low[free], top[free])
            _close_sum(x)
            gradient(self._gram, dual.p, x, F)
            capped, point = Dual(self._gram, dual.p, low, top), Point(x, F)
            rows, _ = self._solver.maximise(
                capped, point, Effort(1e-3, ROWS * t.size, np.inf), patience=patience
            )
            self._count(free, rows, t.size)
            policy = x.copy()
            policy[-2:] = 0.0
            found = drop_bound(self._K, dual.p, policy, dual.p - F, free, rates, S, bars, 1)
            if found.bound > best:
                best = found.bound
                t[:] = policy
                beta = intercept(capped, point)
                u[:] = np.maximum((F[free] - beta) * np.sign(dual.p[free]), 0.0)
            if best >= target or patience.expired():
                break
        spread(u, rates.weights, rates.budgets)
        return Mixture.independent(u, 0)

    def play(
        self, dual: Dual, free: np.ndarray, rates: Rates, t: np.ndarray, mixture: Mixture,
        S: np.ndarray, target: float, rounds: int, stale_rounds: int, patience: Patience,
    ) -> Played:
        """Raise the drop bound of a node by playing t against the sets.

        Improved in place: the start ``t`` (N,), to that of the best bound (the last two entries
        stay zero), the mixture, and the split ``S`` (M, M) of the quadratic term over all anchors.
        The other parameters are those of `Game.play`.
        """
        K, p = self._K, dual.p
        t[-2:] = 0.0
        now = _Policy.of(self._gram, t)
        best, best_at = None, now
        x = self._start_of_answer(now.t, free, mixture.u)
        bars = np.zeros((len(rates.budgets), free.size))
        memory = np.zeros((_SETS, free.size), np.bool_)
        mark, stale = -np.inf, 0
        for r in range(rounds):
            found = drop_bound(K, p, now.t, now.half, free, rates, S, bars, SPLIT_STEPS)
            if best is None or found.bound > best.bound:
                best, best_at = found, now
            missing = target - best.bound
            if missing <= 0.0 or r == rounds - 1 or patience.expired():
                break
            if best.bound - mark > 0.03 * missing:
                mark, stale = best.bound, 0
            else:
                stale += 1
                if stale >= stale_rounds:
                    break
            average_in(found.chosen, 2.0 / (mixture.age + 4.0), mixture.u, mixture.C)
            mixture.age += 1
            memory[r % _SETS] = found.chosen
            answer = self._answer(dual, free, mixture, x, missing, patience)
            # A step that did not help is taken back: from the best, which now knows one more set.
            pull = _drop_pull(
                K, p, best_at.t, best_at.half, answer.t, answer.half, free, memory,
                min(r + 1, _SETS),
            )
            now = best_at.towards(answer, pull)
            now.forget_negligible(K, free)
        assert best is not None
        t[:] = best_at.t
        at_middle = p.copy()
        at_middle[-2:] = 0.5 * (p[-2] + p[-1])
        middle = drop_bound(K, at_middle, best_at.t, best_at.half, free, rates, S, bars, 1)
        return Played(best, middle.bound)

    def _count(self, free: np.ndarray, rows: int, variables: int) -> None:
        """One round more: an answer that took so many rows, and a certificate."""
        self.operations += rows * float(variables) + _CERTIFICATE * free.size**2 + _OVERHEAD

    def _start_of_answer(self, t: np.ndarray, free: np.ndarray, u: np.ndarray) -> _Policy:
        """``x = (1 - u) t`` with the intercept's variables, and K x / 2."""
        x = t.copy()
        x[free] *= 1.0 - np.minimum(u, _MAX_FREQUENCY)
        _close_sum(x)
        return _Policy.of(self._gram, x)

    def _answer(
        self, dual: Dual, free: np.ndarray, mixture: Mixture, x: _Policy, missing: float,
        patience: Patience,
    ) -> _Policy:
        """The best t against the mixture; x is its last answer, updated."""
        K, diag = self._K, self._gram.diag
        kernel, kernel_diag = self._answers.K, self._answers.diag
        F = np.empty(x.t.size)
        mixed = np.flatnonzero((mixture.u > 0.0) | (x.t[free] != 0.0))
        u, C, anchors = mixture.u[mixed], mixture.C[np.ix_(mixed, mixed)], free[mixed]
        _pose_answer(K, kernel, kernel_diag, dual.p, anchors, u, C, x.t, x.half, F)
        # A violation of tol costs about tol times the mass: a tenth of what is still missing.
        tol = min(max(0.1 * missing / max(np.abs(x.t).sum(), 1e-12), 1e-6), 1e-3)
        rows, _ = self._solver.maximise(
            Dual(self._answers, dual.p, dual.lo, dual.hi), Point(x.t, F),
            Effort(tol, ROWS * F.size, np.inf), patience=patience,
        )
        self._count(free, rows, F.size)
        block = np.ix_(anchors, anchors)
        kernel[block], kernel_diag[anchors] = K[block], diag[anchors]
        # Anew: F has the rounding errors of all the points that the solver has been at.
        times(self._gram, x.t, x.half)
        x.half *= 0.5
        answer = _Policy(np.empty(F.size), np.empty(F.size))
        _expand(K, x.t, x.half, anchors, u, answer.t, answer.half)
        return answer


@dataclass
class _Policy:
    """Multipliers t and K t / 2."""

    t: np.ndarray
    half: np.ndarray

    @classmethod
    def of(cls, gram: Gram, t: np.ndarray) -> _Policy:
        """With K t / 2 computed."""
        half = np.empty(t.size)
        times(gram, t, half)
        return cls(t.copy(), 0.5 * half)

    def towards(self, other: _Policy, share: float) -> _Policy:
        """The policy that lies `share` of the way to the other."""
        return _Policy(
            self.t + share * (other.t - self.t), self.half + share * (other.half - self.half)
        )

    def forget_negligible(self, K: np.ndarray, free: np.ndarray) -> None:
        """Put multipliers of free anchors that are hardly there to zero: idle anchors are cheap."""
        size = np.abs(self.t[free])
        for j in free[(size > 0.0) & (size < _NEGLIGIBLE * size.max())]:
            self.half -= 0.5 * self.t[j] * K[j]
            self.t[j] = 0.0


@outer
def average_in(chosen: np.ndarray, share: float, u: np.ndarray, C: np.ndarray) -> None:
    """Mix a set into the frequencies u and the covariance C with the given share."""
    m = u.size
    away = np.empty(m)
    for j in range(m):
        away[j] = (1.0 if chosen[j] else 0.0) - u[j]
        u[j] += share * away[j]
    for j in range(m):
        for k in range(m):
            C[j, k] = (1.0 - share) * (C[j, k] + share * away[j] * away[k])


@outer
def _pose_answer(
    K: np.ndarray, kernel: np.ndarray, kernel_diag: np.ndarray, p: np.ndarray, free: np.ndarray,
    u: np.ndarray, C: np.ndarray, x: np.ndarray, half: np.ndarray, F: np.ndarray,
) -> None:
    """Write the kernel and the gradient F of the answer's dual in x = (1 - u) t.

    ``kernel`` and ``kernel_diag`` are copies of K and its diagonal of which the block of the free
    anchors is overwritten; ``half`` is K x / 2.
    """
    m = free.size
    z = np.empty(m)
    for a in range(m):
        z[a] = 1.0 - min(u[a], _MAX_FREQUENCY)
    for a in range(m):
        j = free[a]
        for b in range(a + 1):
            k = free[b]
            kernel[j, k] = K[j, k] * (1.0 + C[a, b] / (z[a] * z[b]))
            kernel[k, j] = kernel[j, k]
        kernel_diag[j] = kernel[j, j]
    for i in range(x.size):
        F[i] = p[i] - half[i]
    for j in free:
        for k in free:
            F[j] -= 0.5 * (kernel[j, k] - K[j, k]) * x[k]


@outer
def _expand(
    K: np.ndarray, x: np.ndarray, half_x: np.ndarray, free: np.ndarray, u: np.ndarray,
    t: np.ndarray, half_t: np.ndarray,
) -> None:
    """Write t = x / (1 - u) on the free anchors, x elsewhere, and K t / 2."""
    n = t.size
    for i in range(n):
        t[i] = x[i] if i < n - 2 else 0.0
        half_t[i] = half_x[i]
    for a in range(free.size):
        j = free[a]
        if x[j] != 0.0:
            extra = x[j] * (1.0 / (1.0 - min(u[a], _MAX_FREQUENCY)) - 1.0)
            t[j] += extra
            row = K[j]
            for i in range(n):
                half_t[i] += 0.5 * extra * row[i]


@inner
def _rest(
    K: np.ndarray, p: np.ndarray, s: np.ndarray, half_s: np.ndarray, t: np.ndarray,
    half_t: np.ndarray, free: np.ndarray, chosen: np.ndarray,
) -> tuple[float, float, float]:
    """Linear, quadratic and intercept part of t once the chosen anchors are gone.

    For s = t they are p't, t'Kt / 4 and sum(t) of what is left; else the quadratic part is the
    mixed term s'Kt / 4.
    """
    linear = 0.0
    quadratic = 0.0
    sigma = 0.0
    for i in range(t.size):
        linear += p[i] * t[i]
        quadratic += 0.5 * s[i] * half_t[i]
        sigma += t[i]
    for a in range(free.size):
        if chosen[a]:
            j = free[a]
            linear -= p[j] * t[j]
            sigma -= t[j]
            quadratic -= 0.5 * (s[j] * half_t[j] + t[j] * half_s[j])
            for b in range(free.size):
                if chosen[b]:
                    quadratic += 0.25 * s[j] * t[free[b]] * K[j, free[b]]
    return linear, quadratic, sigma


@outer
def _drop_pull(
    K: np.ndarray, p: np.ndarray, t: np.ndarray, half_t: np.ndarray, answer: np.ndarray,
    half_answer: np.ndarray, free: np.ndarray, memory: np.ndarray, count: int,
) -> float:
    """How far to go from t towards the answer: best against the last sets on a grid of shares."""
    n = t.size
    b_l = p[n - 2]
    b_u = p[n - 1]
    best = -np.inf
    best_pull = 0.0
    terms = np.empty((count, 7))
    for s in range(count):
        l0, q0, s0 = _rest(K, p, t, half_t, t, half_t, free, memory[s])
        l1, q1, s1 = _rest(K, p, answer, half_answer, answer, half_answer, free, memory[s])
        _, q01, _ = _rest(K, p, t, half_t, answer, half_answer, free, memory[s])
        terms[s, 0], terms[s, 1], terms[s, 2], terms[s, 3] = l0, q0, s0, l1
        terms[s, 4], terms[s, 5], terms[s, 6] = q1, s1, q01
    for k in range(7):
        pull = 0.5 ** k if k < 6 else 0.0
        keep = 1.0 - pull
        worst = np.inf
        for s in range(count):
            l0, q0, s0, l1 = terms[s, 0], terms[s, 1], terms[s, 2], terms[s, 3]
            q1, s1, q01 = terms[s, 4], terms[s, 5], terms[s, 6]
            sigma = keep * s0 + pull * s1
            value = keep * l0 + pull * l1 - keep * keep * q0 - pull * pull * q1
            value -= 2.0 * keep * pull * q01 + max(b_l * sigma, b_u * sigma)
            worst = min(worst, value)
        if worst > best:
            best = worst
            best_pull = pull
    return max(best_pull, 0.02)


@outer
def spread(u: np.ndarray, weights: np.ndarray, budgets: np.ndarray) -> None:
    """Scale u so that it uses up the first budget it meets, every entry within [0.01, 0.9]."""
    base = np.maximum(u, 1e-9)
    factor = 1.0
    for _ in range(60):
        for j in range(u.size):
            u[j] = min(max(factor * base[j], 0.01), 0.9)
        ratio = np.inf
        for rate in range(budgets.size):
            ratio = min(ratio, budgets[rate] / max(np.dot(weights[rate], u), 1e-12))
        if abs(ratio - 1.0) < 0.01:
            break
        factor *= ratio


@outer
def _close_sum(x: np.ndarray) -> None:
    """Let the intercept's variables, the last two of x, restore ``sum(x) = 0``."""
    n = x.size
    x[n - 2:] = 0.0
    sigma = x.sum()
    x[n - 2] = max(-sigma, 0.0)
    x[n - 1] = min(-sigma, 0.0)
