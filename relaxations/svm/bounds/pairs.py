"""The drop bound by pairs: force between anchors of opposite classes, while both are kept.

Where anchors of both classes may be given up and the labels are noisy, what makes a solution dear
are anchors of opposite classes near each other.  Training points, whose multipliers are capped,
cannot take over their force (`relaxations.svm.bounds.recourse`); but if one of two such anchors is
given up, the other needs none.  So here every unit of force on a free anchor stands against another
anchor, free or enforced.  With d_p = e_j - e_k for the pair p = (j, k) and the 0-1 number e_p that
says whether V contains j or k, the multipliers are

    t^V = t + sum_p s_p (1 - e_p) d_p,      s_p >= 0,      t zero on the free anchors.

A term has sum zero and the signs of its anchors, which have no caps.  So t^V is dual feasible for
the completion V if t is, whatever V is: there are no boxes to keep and no interval of the
intercept.  With x = t + sum_p s_p d_p and F = p - K x / 2 its value is

    D(t^V) = D(x) - sum_p a_p e_p - sum_pq B_pq e_p e_q
    a_p = s_p <F, d_p>,      B_pq = s_p s_q d_p'K d_q / 4,

the drop bound's form, in pairs that are *broken* instead of anchors that are given up.

**Certificate.**  The moment bound (`relaxations.svm.bounds.moments`) in broken pairs leaves
const + sum_p l_p e_p.  Since max(v_j, v_k) <= e_p <= min(1, v_j + v_k) for the 0-1 vector v of V,
any 0 <= y_p <= l_p^+ gives

    sum_p l_p e_p <= sum_p (l_p^+ - y_p) + sum_j L_j v_j

where L_j sums y_p over the pairs of j, less its part of the negative l_p; `broken_loss` chooses y
and bounds the last sum by prices of the budgets.

**The game** is that of `relaxations.svm.bounds.recourse`: (t, s) is played against a mixture of
sets, here with frequencies u_p and covariance C_pq of broken pairs.  The best answer maximises a
node dual with one coordinate for each pair beside those of t; its kernel is (1 - u_p) K d_p between
the two kinds and ((1 - u_p)(1 - u_q) + C_pq) d_p'K d_q between pairs.
In the first game pairs come in every now and then, those whose force would grow against the mean.
Later games, of a few rounds each, go on with those that push: new ones would take too many.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from ...jit import outer
from ...patience import Patience
from ..dual import Dual, make_feasible
from ..gram import Gram
from .broken import broken_loss, climb
from .drop import Rates
from .game import MEMORY, GameBound, Mixture, best_pull, mixed, place_of
from .moments import RANK, moment_loss, rounding, work
from .partners import Partners, force_of
from .splitting import MAX_FREQUENCY

__all__ = ["PairGame", "PairPolicy", "ascend"]

_MOST = 800  # pairs in a game: with more it takes more rounds, and each longer
_GROW = 15  # rounds after which other pairs may come in
_STEPS = 10  # per variable, that an answer may take: any answer gives a valid bound
_ACCURACY = 1e-7  # of an answer, in units of the target
_PASSES = 3


@dataclass
class PairPolicy:
    """Multipliers and the forces of pairs.

    Parameters
    ----------
    t : ndarray (N,)
        Multipliers of what cannot be dropped; zero on the free variables.
    free : ndarray of int (m,)
        Variables that may be dropped.
    ends : ndarray of int (P, 2)
        The positive and the negative variable of each pair; at least one of them is free.
    push : ndarray (P,)
        Forces s_p >= 0.
    u : ndarray (P,)
        How often the mixture that was played against breaks each pair.
    factor : ndarray (P, RANK)
        Of the last certificate's covariance, which stands for that of the mixture, too; a start
        where a pair has not pushed yet.
    """

    t: np.ndarray
    free: np.ndarray
    ends: np.ndarray
    push: np.ndarray
    u: np.ndarray
    factor: np.ndarray

    @classmethod
    def empty(cls, size: int, free: np.ndarray) -> PairPolicy:
        """No forces at all."""
        none = np.zeros(0)
        return cls(np.zeros(size), free, np.zeros((0, 2), int), none, none, np.zeros((0, RANK)))

    def decided(self, enforced: np.ndarray, given_up: np.ndarray) -> PairPolicy:
        """The same policy once some free variables (masks over ``free``) are decided.

        It answers every set that agrees with the decisions as before.
        """
        left = ~(enforced | given_up)
        is_free, gone = np.zeros((2, self.t.size), np.bool_)
        is_free[self.free[left]] = True
        gone[self.free[given_up]] = True
        kept = ~gone[self.ends].any(axis=1)
        settled = kept & ~is_free[self.ends].any(axis=1)
        t = self.t + force_of(self.ends[settled], self.push[settled], self.t.size)
        return replace(self.some(kept & ~settled), t=t, free=self.free[left])

    def compact(self) -> PairPolicy:
        """In a fraction of the memory, to be kept with a node: without idle pairs."""
        policy = self.some(self.push > 0.0)
        return replace(policy, factor=policy.factor.astype(np.float32))

    def some(self, pairs: np.ndarray) -> PairPolicy:
        """With these pairs alone."""
        return replace(
            self, ends=self.ends[pairs], push=self.push[pairs], u=self.u[pairs],
            factor=self.factor[pairs],
        )


class PairGame:
    """Raises the bound by pairs of nodes that share a kernel matrix.

    Parameters
    ----------
    gram : Gram
        Dense kernel matrix.
    """

    def __init__(self, gram: Gram) -> None:
        self.gram = gram
        # Where the factors of new pairs begin.
        self.start = np.random.default_rng(0).normal(size=(gram.diag.size, RANK))
        self.first: GameBound | None = None  # what the first game gave, and where
        self.first_at = b""
        self.operations = 0.0  # of all games so far, in units of those of an added row

    def open(
        self, dual: Dual, free: np.ndarray, rates: Rates, target: float, rounds: int,
        stale_rounds: int, patience: Patience,
    ) -> GameBound:
        """The first game, from the best of a range of caps.

        All rounds are played; after ``stale_rounds`` without progress other pairs come in.
        """
        table = _Table(self, dual, free, rates)
        policy, u = table.soft_start(target, patience)
        mixture = Mixture.independent(u, 0)
        self.first = table.play(
            policy, mixture, target, rounds, stale_rounds, patience, grows=True)
        self.first_at = place_of(dual, free, rates)
        return self.first

    def play(
        self, dual: Dual, free: np.ndarray, rates: Rates, policy: PairPolicy, mixture: Mixture,
        target: float, rounds: int, stale_rounds: int, patience: Patience,
    ) -> GameBound:
        """See `relaxations.svm.bounds.game.Game`."""
        table = _Table(self, dual, free, rates)
        return table.play(policy, mixture, target, rounds, stale_rounds, patience)


class _Table:
    """One node's game, with the pairs that take part just now."""

    def __init__(self, game: PairGame, dual: Dual, free: np.ndarray, rates: Rates) -> None:
        self.dual, self.K, self._game, self._free = dual, game.gram.K, game, free
        # That some budgets have to be used up is more than pairs make use of.
        self._rates = Rates(rates.weights, rates.budgets, np.zeros(rates.budgets.size, np.bool_))
        self._is_free = np.zeros(dual.p.size, np.bool_)
        self._is_free[free] = True
        self._row = np.full(dual.p.size, -1)
        self._row[free] = np.arange(free.size)
        self._base = np.flatnonzero(~self._is_free & (dual.lo < dual.hi))
        self._partners = Partners(dual, self._is_free)

    def _inward(self, policy: PairPolicy) -> PairPolicy:
        """A policy from outside, made feasible."""
        possible = self._partners.possible(policy.ends, policy.push)
        return replace(
            policy.some(possible), t=self._feasible(policy.t.copy()), free=self._free)

    def _take(self, policy: PairPolicy) -> None:
        """Let the pairs of a policy take part, and no others."""
        j, k = policy.ends.T
        self.policy, self.ends = policy, self._row[policy.ends]
        self.Kd, self.pd = self.K[:, j] - self.K[:, k], self.dual.p[j] - self.dual.p[k]
        self.dKd = self.Kd[j] - self.Kd[k]
        self._factor = policy.factor.astype(np.float64)
        self._C = self._factor @ self._factor.T
        self._C += np.diag(np.maximum(policy.u * (1.0 - policy.u) - self._C.diagonal(), 0.0))

    def _let_in(self, push: np.ndarray, u: np.ndarray, often: np.ndarray, gain: np.ndarray) -> None:
        """Let pairs of large gain take part, too, so many for an anchor."""
        policy, size = self.policy, push.size
        new = self._partners.promising(gain, policy.ends, _MOST - size)
        start, kept, before = self._game.start, self._kept(often), self._C
        self._take(replace(
            policy, ends=np.vstack([policy.ends, new]),
            push=np.append(push, np.zeros(len(new))),
            u=np.append(u, 1.0 - kept[new].prod(axis=1)),
            factor=np.vstack([self._factor, start[new[:, 0]] - start[new[:, 1]]]),
        ))
        variance = self.policy.u * (1.0 - self.policy.u)  # of the new ones nothing else is known
        self._C = np.diag(variance)
        self._C[:size, :size] = before

    def _kept(self, often: np.ndarray) -> np.ndarray:
        """How often every variable is kept."""
        kept = np.ones(self._row.size)
        kept[self._free] = 1.0 - np.clip(often, 0.0, 1.0)
        return kept

    def _enlarged(
        self, terms: _Terms, u: np.ndarray, often: np.ndarray
    ) -> tuple[_Terms, np.ndarray]:
        """The same policy with pairs that would gain much against the mean, and frequencies."""
        x = terms.t + force_of(self.policy.ends, terms.s * (1.0 - u), terms.t.size)
        gain = self._partners.gains(self.dual.p - 0.5 * (self.K @ x), self._kept(often))
        self._let_in(terms.s, u, often, gain)
        return _Terms(self, terms.t, self.policy.push), self.policy.u

    # -- starts ---------------------------------------------------------------------------------

    def soft_start(self, target: float, patience: Patience) -> tuple[PairPolicy, np.ndarray]:
        """A policy to begin with, and how often anchors are given up there.

        Every force between near anchors is capped at the same level, which is doubled from answer
        to answer as long as the bound rises.
        """
        self._take(PairPolicy.empty(self.dual.p.size, self._free))
        none, near = np.zeros(0), 1.0 / self._partners.square
        self._let_in(none, none, np.zeros(self._free.size), near)
        at = _Terms(self, self.policy.t, self.policy.push)
        seldom = np.full(at.s.size, 0.05), np.zeros(self._free.size)
        best, last = self._certificate(at, *seldom), at
        for k in range(-8, 8):
            last = _Terms(self, *self._answer(last, np.zeros(at.s.size), 2.0**k, target))
            found = self._certificate(last, *seldom)
            if found.bound > best.bound:
                best, at = found, last
            elif k > 0:
                break
            if found.bound >= target or patience.expired():
                break
        return self._policy(at, best.z), best.given_up

    def _policy(self, terms: _Terms, u: np.ndarray) -> PairPolicy:
        return replace(self.policy, t=terms.t, push=terms.s, u=u, factor=self._factor)

    # -- the game -------------------------------------------------------------------------------

    def play(
        self, policy: PairPolicy, mixture: Mixture, target: float, rounds: int,
        stale_rounds: int, patience: Patience, grows: bool = False,
    ) -> GameBound:
        """See `PairGame.play`; ``grows`` lets other pairs come in."""
        self._take(self._inward(policy))
        often, age = mixture.u, mixture.age
        best_at, u = _Terms(self, self.policy.t, self.policy.push), self.policy.u
        best = self._certificate(best_at, u, often)
        memory, stale = deque([best], MEMORY), 0
        for r in range(1, rounds):
            if best.bound >= target or patience.expired():
                break
            if not grows and stale >= stale_rounds:
                break
            if grows and (r % _GROW == 0 or stale >= stale_rounds):
                best_at, u = self._enlarged(best_at, u, often)
                found, stale = self._certificate(best_at, u, often), 0
                best = max(best, found, key=lambda one: one.bound)
                memory = deque([found], MEMORY)
            seen, share = memory[-1], 2.0 / (age + 4.0)
            u = mixed(u, self._C, seen.z, seen.factor @ seen.factor.T, share)
            often = often + share * (seen.given_up - often)
            age += 1
            other = _Terms(self, *self._answer(best_at, u, np.inf, target))
            way = best_at, best_at.towards(other, 0.5), other
            pull = best_pull([[at.expected(one) for at in way] for one in memory])
            # A step that did not help is taken back: from the best, which knows one more set.
            now = best_at.towards(other, pull)
            found, stale = self._certificate(now, seen.z, seen.given_up), stale + 1
            memory.append(found)
            if found.bound > best.bound:
                best, best_at, stale = found, now, 0
        return GameBound(
            best.bound, best.reduced, self._policy(best_at, u),
            Mixture.independent(often, age),
        )

    def _feasible(self, t: np.ndarray) -> np.ndarray:
        """Multipliers near t, zero on the free variables, that are in their boxes, of sum zero."""
        lo, hi = (np.where(self._is_free, 0.0, end) for end in (self.dual.lo, self.dual.hi))
        make_feasible(t, lo, hi)
        return t

    def _answer(
        self, last: _Terms, u: np.ndarray, cap: float, target: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best (t, s) against the mixture, from the last one on."""
        base, a, P, dual = self._base, self._base.size, u.size, self.dual
        kept = 1.0 - np.minimum(u, MAX_FREQUENCY)
        Q = np.empty((a + P, a + P))
        Q[:a, :a] = self.K[np.ix_(base, base)]
        Q[:a, a:] = self.Kd[base] * kept
        Q[a:, :a] = Q[:a, a:].T
        Q[a:, a:] = self.dKd * (np.outer(kept, kept) + self._C)
        Q *= 0.5
        lo = np.append(dual.lo[base], np.zeros(P))
        hi = np.append(dual.hi[base], np.full(P, cap))
        x = np.append(last.t[base], np.minimum(last.s, cap))
        slope = np.append(dual.p[base], self.pd * kept) - Q @ x
        steps = ascend(Q, slope, lo, hi, a, x, _STEPS * x.size, _ACCURACY * abs(target))
        self._count(steps, x.size)
        t = np.zeros(last.t.size)
        t[base] = x[:a]
        return self._feasible(t), x[a:]

    def _count(self, steps: int, size: int) -> None:
        """One round more: so many steps in so many variables, and a certificate."""
        self._game.operations += work(self.policy.push.size) + (float(steps) + 2.0 * size) * size

    # -- certificates ---------------------------------------------------------------------------

    def _certificate(self, terms: _Terms, z: np.ndarray, often: np.ndarray) -> _Found:
        """The moment bound in broken pairs, from the mean z and how often anchors go on."""
        active, a, B, rates = terms.active, terms.a, terms.B, self._rates
        reduced, given_up = np.zeros(often.size), often.copy()
        mean, factor = z.copy(), np.zeros((z.size, RANK))
        loss, constant, ends = np.zeros(active.size), 0.0, self.ends[active]
        if active.size:
            now, rows = z[active], self._factor[active]

            def move(delta: np.ndarray, steps: int) -> np.ndarray:
                climb(a, B, ends, rates, delta, now, given_up, steps)
                return now

            loss, constant = moment_loss(a, B, now, rows, _PASSES, move)
            self._factor[active] = factor[active] = rows
            idle = terms.s <= 0.0
            kept = np.append(1.0 - given_up, 1.0)  # the last is for what is not free
            mean[idle] = 1.0 - kept[self.ends[idle]].prod(axis=1)
            mean[active] = now
        bound = terms.value - constant - broken_loss(loss, ends, rates, reduced)
        return _Found(bound, reduced, mean, factor, given_up)


@dataclass
class _Found:
    """A certificate (see `GameBound`), and where the loss is large.

    The latter as mean and factor of the covariance of broken pairs, and how often anchors are
    given up.
    """

    bound: float
    reduced: np.ndarray
    z: np.ndarray
    factor: np.ndarray
    given_up: np.ndarray


class _Terms:
    """What the certificate needs to know of a policy (t, s).

    ``plain`` is D(x), ``value`` the same less a bound on all rounding errors; ``a`` and ``B`` are
    over the ``active`` pairs, those that push.
    """

    def __init__(self, table: _Table, t: np.ndarray, s: np.ndarray) -> None:
        self._table, self.t, self.s = table, t, s
        p, K, pd = table.dual.p, table.K, table.pd
        half, on_pairs, pushed = 0.5 * (K @ t), 0.5 * (t @ table.Kd), 0.5 * (table.dKd @ s)
        self.active = active = np.flatnonzero(s > 0.0)
        self.a = (s * (pd - on_pairs - pushed))[active]
        self.B = 0.25 * np.outer(s[active], s[active]) * table.dKd[np.ix_(active, active)]
        self.plain = t @ (p - 0.5 * half) + s @ (pd - on_pairs - 0.5 * pushed)
        self.value = self.plain - rounding(p, K.diagonal(), np.abs(t).sum() + 2.0 * s.sum())

    def towards(self, other: _Terms, share: float) -> _Terms:
        """Those of the policy that lies ``share`` of the way to the other's."""
        return _Terms(
            self._table, self.t + share * (other.t - self.t), self.s + share * (other.s - self.s)
        )

    def expected(self, found: _Found) -> float:
        """What the policy is worth against a mixture."""
        z, factor = found.z[self.active], found.factor[self.active]
        return float(
            self.plain - self.a @ z - z @ self.B @ z - np.vdot(factor, self.B @ factor)
        )


@outer
def ascend(
    Q: np.ndarray, slope: np.ndarray, lo: np.ndarray, hi: np.ndarray, a: int, x: np.ndarray,
    steps: int, accuracy: float,
) -> int:
    """Raise the concave quadratic with this slope at x, in place; returns the steps it took.

    The best first of two kinds of steps: pairs of the first ``a`` coordinates, whose sum stays, and
    each of the others.
    """
    for step in range(steps):
        best, at, move = 0.0, -1, 0.0
        for p in range(a, x.size):
            if Q[p, p] > 0.0:
                d = min(max(x[p] + slope[p] / Q[p, p], lo[p]), hi[p]) - x[p]
                gain = d * (slope[p] - 0.5 * Q[p, p] * d)
                if gain > best:
                    best, at, move = gain, p, d
        i, j = -1, -1
        for k in range(a):
            if x[k] < hi[k] and (i < 0 or slope[k] > slope[i]):
                i = k
            if x[k] > lo[k] and (j < 0 or slope[k] < slope[j]):
                j = k
        both = 0.0
        if i >= 0 and j >= 0 and slope[i] > slope[j]:
            curve = max(Q[i, i] + Q[j, j] - 2.0 * Q[i, j], 1e-12)
            d = min((slope[i] - slope[j]) / curve, min(hi[i] - x[i], x[j] - lo[j]))
            both = d * (slope[i] - slope[j] - 0.5 * curve * d)
            if both > best:
                move = d
        if max(best, both) < accuracy or max(best, both) <= 0.0:
            return step
        if both > best:
            x[i] += move
            x[j] -= move
            for k in range(x.size):
                slope[k] -= move * (Q[i, k] - Q[j, k])
        else:
            x[at] += move
            for k in range(x.size):
                slope[k] -= move * Q[at, k]
    return steps
