"""The drop bound with recourse and by pairs in one policy.

Where anchors of both classes may be given up and the labels are noisy, what makes a solution dear
are anchors of opposite classes near each other.  Training points, whose multipliers are capped,
cannot take over all their force (`relaxations.svm.bounds.recourse`); pairs of them can act on each
other (`relaxations.svm.bounds.pairs`), but not in place of what recourse does.  Here some of the
force is of the one kind and some of the other: with v the 0-1 vector of the set V that is given up,
d_p = e_j - e_k for the pair p = (j, k), and e_p = 1 if V contains j or k, else 0,

    t^V = t - sum_j v_j delta_j + sum_p s_p (1 - e_p) d_p,      delta_j = t_j e_j - R_j,  s_p >= 0.

The first two terms are a policy with recourse; each of the others has sum zero and the signs of its
anchors, which have no caps, and vanishes if one of them is given up.  So t^V is dual feasible for
the completion V if the policy with recourse is: pairs ask for no room in any box.  With
x = t + sum_p s_p d_p and F = p - K x / 2 its value is

    D(t^V) = D(x) - a'phi - phi'B phi,      phi = (v, e),
    a_f = <F, g_f>,      B_fg = g_f'K g_g / 4,      g = (delta_j, s_p d_p),

the form of the bound by pairs, in which v_j is a pair with one end: so is the certificate.

**The game** is that of recourse, with frequencies and covariance of phi.  The first one goes on
from the better of the first games with recourse and by pairs; its answers are by splitting
(`relaxations.svm.bounds.splitting`), where pairs are more forces beside those of the free anchors.
Later games leave it where forces go: with R_j = t_j rho_j and rho_j as it is, and no t_j larger
than it is, no place needs more room than it has (but for rates whose budget has to be used up: such
policies are scaled down), so that all robust boxes become boxes, and coordinate ascent finds the
answer in a fraction of the time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from ...patience import Patience
from ..dual import Dual, Point, intercept
from .broken import broken_loss, climb
from .drop import Rates
from .game import MEMORY, GameBound, Mixture, best_pull, mixed, place_of
from .moments import RANK, moment_loss, rounding, work
from .pairs import PairGame, PairPolicy, ascend
from .partners import Partners, force_of
from .recourse import Policy, RecourseGame, RecourseTable
from .splitting import MAX_FREQUENCY, Prices, Splitting

__all__ = ["JointGame", "JointPolicy"]

_MOST = 500  # pairs in a game
_ROUNDS = 40  # of the first game, after those of the other two
_GROW = 20  # rounds after which other pairs may come in
_PATIENCE = 15  # rounds of the first game without progress
_START_AGE = 5  # sets that the mixture of the game that is gone on from counts for
_ANSWER_STEPS = 6  # the mixture changes in between
_STEPS = 10  # per variable, that an answer may take: any answer gives a valid bound
_ACCURACY = 1e-7  # of an answer, in units of the value
_PASSES = 3
_AT_ONCE = 16.0  # operations of a matrix product that take as long as one of an added row


@dataclass
class JointPolicy:
    """A policy with recourse, and the forces of pairs.

    Parameters
    ----------
    base : Policy
        Multipliers and recourse.
    free : ndarray of int (m,)
        Variables that may be dropped.
    ends : ndarray of int (P, 2)
        The positive and the negative variable of each pair; at least one of them is free.
    push : ndarray (P,)
        Forces s_p >= 0.
    broken : ndarray (P,)
        How often the mixture that was played against breaks each pair.
    factor : ndarray (P, RANK)
        Of the last certificate's covariance; a start where a pair has not pushed yet.
    """

    base: Policy
    free: np.ndarray
    ends: np.ndarray
    push: np.ndarray
    broken: np.ndarray
    factor: np.ndarray

    @classmethod
    def with_recourse(cls, base: Policy) -> JointPolicy:
        """Without pairs."""
        none = np.zeros(0)
        return cls(base, base.free, np.zeros((0, 2), int), none, none, np.zeros((0, RANK)))

    @classmethod
    def by_pairs(cls, policy: PairPolicy) -> JointPolicy:
        """Without recourse."""
        free, none = policy.free, np.zeros(0)
        base = Policy(policy.t, free, np.zeros(0, int), np.zeros((free.size, 0)), none)
        some = policy.some(policy.push > 0.0)
        return cls(base, free, some.ends, some.push, some.u, some.factor)

    @property
    def pairs_alone(self) -> PairPolicy:
        """The same without recourse."""
        return PairPolicy(
            self.base.t, self.free, self.ends, self.push, self.broken, self.factor.astype(float)
        )

    def decided(self, enforced: np.ndarray, given_up: np.ndarray) -> JointPolicy:
        """The same policy once some free variables (masks over ``free``) are decided.

        It answers every set that agrees with the decisions as before.
        """
        size = self.base.t.size
        is_in, is_out, is_free = np.zeros((3, size), np.bool_)
        left = self.free[~(enforced | given_up)]
        is_in[self.free[enforced]] = is_out[self.free[given_up]] = is_free[left] = True
        base = self.base.decided(is_in[self.base.free], is_out[self.base.free])
        kept = ~is_out[self.ends].any(axis=1)
        settled = kept & ~is_free[self.ends].any(axis=1)
        base.t += force_of(self.ends[settled], self.push[settled], size)
        return replace(self.some(kept & ~settled), base=base, free=left)

    def compact(self) -> JointPolicy:
        """In a fraction of the memory, to be kept with a node: without idle pairs."""
        policy = self.some(self.push > 0.0)
        return replace(policy, base=self.base.compact(), factor=policy.factor.astype(np.float32))

    def some(self, pairs: np.ndarray) -> JointPolicy:
        """With these pairs alone."""
        return replace(
            self, ends=self.ends[pairs], push=self.push[pairs], broken=self.broken[pairs],
            factor=self.factor[pairs],
        )


class JointGame:
    """Raises the bound with recourse and by pairs of nodes that share a kernel matrix.

    Parameters
    ----------
    recourse : RecourseGame
    pairs : PairGame
        They play the beginning of the first game, unless they have.
    """

    def __init__(self, recourse: RecourseGame, pairs: PairGame) -> None:
        self.recourse, self._pairs = recourse, pairs
        self.operations = 0.0  # of all games so far, in units of those of an added row

    def open(
        self, dual: Dual, free: np.ndarray, rates: Rates, target: float, rounds: int,
        stale_rounds: int, patience: Patience,
    ) -> GameBound:
        """The first game, from the better of those with recourse and by pairs."""
        how = dual, free, rates, target, rounds, stale_rounds, patience
        first = self._begin(*how)
        if first.bound >= target or patience.expired():
            return first
        mixture = replace(first.mixture, age=min(first.mixture.age, _START_AGE))
        table = _Table(self, dual, free, rates)
        found = table.play(first.policy, mixture, target, _ROUNDS, _PATIENCE, patience, grows=True)
        return max(found, first, key=lambda one: one.bound)

    def _begin(
        self, dual: Dual, free: np.ndarray, rates: Rates, target: float, rounds: int,
        stale_rounds: int, patience: Patience,
    ) -> GameBound:
        """The better of the first games with recourse and by pairs."""
        begun = []
        for game in (self.recourse, self._pairs):
            first = game.first
            if first is None or game.first_at != place_of(dual, free, rates):
                first = game.open(dual, free, rates, target, rounds, stale_rounds, patience)
            make = JointPolicy.by_pairs if game is self._pairs else JointPolicy.with_recourse
            begun.append(replace(first, policy=make(first.policy)))
            if first.bound >= target or patience.expired():
                break
        return max(begun, key=lambda one: one.bound)

    def play(
        self, dual: Dual, free: np.ndarray, rates: Rates, policy: JointPolicy, mixture: Mixture,
        target: float, rounds: int, stale_rounds: int, patience: Patience,
    ) -> GameBound:
        """See `relaxations.svm.bounds.game.Game`.

        Without pairs it is the game with recourse, without places that by pairs.
        """
        how = mixture, target, rounds, stale_rounds, patience
        if not policy.push.size:
            found = self.recourse.play(dual, free, rates, policy.base, *how)
            return replace(found, policy=JointPolicy.with_recourse(found.policy))
        if not policy.base.places.size:
            found = self._pairs.play(dual, free, rates, policy.pairs_alone, *how)
            return replace(found, policy=JointPolicy.by_pairs(found.policy))
        return _Table(self, dual, free, rates).play(policy, *how)


class _Table(RecourseTable):
    """One node's game, with the pairs that take part just now.

    The 0-1 numbers phi are the free variables, in the order of the game with recourse, then the
    pairs.
    """

    def __init__(self, game: JointGame, dual: Dual, free: np.ndarray, rates: Rates) -> None:
        super().__init__(game.recourse, dual, free, rates)
        self._joint, self._recourse, self._m = game, game.recourse, free.size
        # That some budgets have to be used up is more than pairs make use of.
        some = np.zeros(rates.budgets.size, np.bool_)
        self._loose = Rates(self._rates.weights, rates.budgets, some)
        self._at = np.full(dual.p.size, -1)  # place among the free variables
        self._at[self._free] = np.arange(free.size)
        self._partners = Partners(dual, self._is_free)

    def _take(self, ends: np.ndarray, factor: np.ndarray) -> None:
        """Let these pairs take part, and no others; with factors of their covariance."""
        self._pairs = ends
        single = np.column_stack([np.arange(self._m), np.full(self._m, -1)])
        self._ends = np.vstack([single, self._at[ends]])  # of all numbers
        self._factor = np.vstack([self._recourse.factor[self._row], factor])

    # -- the game -------------------------------------------------------------------------------

    def play(  # type: ignore[override]
        self, policy: JointPolicy, mixture: Mixture, target: float, rounds: int,
        stale_rounds: int, patience: Patience, grows: bool = False,
    ) -> GameBound:
        """See `JointGame.play`; in the first game the policy ``grows``."""
        policy = policy.some(self._partners.possible(policy.ends, policy.push))
        self._take(policy.ends, policy.factor)
        u = np.append(np.clip(mixture.u[self._order], 0.0, 1.0), policy.broken)
        best_at = _Terms(self, self._inward(policy.base), policy.push)
        best = self._certified(best_at, u)
        recourse_alone = grows and not len(policy.ends)
        C = mixture.C[np.ix_(self._order, self._order)] if recourse_alone else self._covariance(u)
        age, stale = mixture.age, 0
        memory = deque([best], MEMORY)
        answers: _BySplitting | _ByAscent | None = None
        for r in range(1, rounds):
            if best.bound >= target or patience.expired() or stale >= stale_rounds:
                break
            if grows and r % _GROW == 1:
                best_at, u, C = self._enlarged(best_at, u, C)
                if not best_at.base.places.size:
                    break  # nobody can take anything over
                answers = _BySplitting(self, best_at, u)
                found = self._certified(best_at, u)
                best = max(best, found, key=lambda one: one.bound)
                memory = deque([found], MEMORY)
            elif answers is None:
                answers = _ByAscent(self, best_at)
            seen = memory[-1]
            u = mixed(u, C, seen.z, seen.factor @ seen.factor.T, 2.0 / (age + 4.0))
            age += 1
            other = answers.answer(best_at, u, C)
            way = best_at, best_at.towards(other, 0.5), other
            pull = best_pull([[at.expected(one) for at in way] for one in memory])
            # A step that did not help is taken back: from the best, which knows one more set.
            now = best_at.towards(other, pull)
            found, stale = self._certified(now, seen.z), stale + 1
            memory.append(found)
            if found.bound > best.bound:
                best, best_at, stale = found, now, 0
        base = self._outward(best_at.base)
        base.prices = None if answers is None else answers.prices
        return GameBound(
            best.bound, best.reduced[self._back],
            JointPolicy(base, self._free[self._back], self._pairs, best_at.push, u[self._m:],
                        self._factor[self._m:]),
            Mixture.independent(u[: self._m][self._back], age),
        )

    def _covariance(self, u: np.ndarray) -> np.ndarray:
        """That of the last certificate, with no less than the variances on its diagonal."""
        C = self._factor @ self._factor.T
        C += np.diag(np.maximum(u * (1.0 - u) - C.diagonal(), 0.0))
        return C

    def _enlarged(
        self, terms: _Terms, u: np.ndarray, C: np.ndarray
    ) -> tuple[_Terms, np.ndarray, np.ndarray]:
        """The same policy with more places and pairs, and the mixture over these."""
        x, F, beta = self._joint_mean(terms, u)
        base = self._with_more_places(terms.base, x, F, beta, True)
        kept = np.ones(F.size)
        kept[self._free] = 1.0 - u[: self._m]
        # Recourse alone has found other ways: the nearest begin.
        near = 1.0 / self._partners.square
        gain = self._partners.gains(F, kept) if len(self._pairs) else near
        new = self._partners.promising(gain, self._pairs, _MOST - len(self._pairs))
        j, k = self._at[new].T
        rows = np.vstack([self._recourse.factor[self._row], np.zeros((1, RANK))])
        factor = np.vstack([self._factor[self._m:], rows[j] - rows[k]])
        self._take(np.vstack([self._pairs, new]), factor)
        push = np.append(terms.push, np.zeros(len(new)))
        return _Terms(self, base, push), *_with_pairs(u, C, self._at[new])

    def _joint_mean(self, terms: _Terms, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean multipliers against the frequencies, their gradient and intercept."""
        x = terms.base.t.copy()
        x[self._free] *= 1.0 - u[: self._m]
        x[terms.base.places] += u[: self._m] @ terms.base.R
        x += force_of(self._pairs, terms.push * (1.0 - u[self._m:]), x.size)
        point = Point(x, self._dual.p - 0.5 * (self._K @ x))
        return x, point.F, intercept(self._dual, point)

    # -- certificates ---------------------------------------------------------------------------

    def _certified(self, terms: _Terms, u: np.ndarray) -> _Found:
        """The moment bound in phi, from the mean u on; the factor of the covariance is improved."""
        which, a, B = terms.which, terms.a, terms.B
        given_up, reduced, ends = u[: self._m].copy(), np.zeros(self._m), self._ends[which]
        factor, loss, constant = np.zeros((u.size, RANK)), np.zeros(which.size), 0.0
        now, rows = u[which], self._factor[which]
        if which.size:

            def move(delta: np.ndarray, steps: int) -> np.ndarray:
                climb(a, B, ends, self._loose, delta, now, given_up, steps)
                return now

            loss, constant = moment_loss(a, B, now, rows, _PASSES, move)
            self._factor[which] = factor[which] = rows
        bound = terms.value - constant - broken_loss(loss, ends, self._loose, reduced)
        kept = np.append(1.0 - given_up, 1.0)  # the last is for what is not free
        z = 1.0 - kept[self._ends].prod(axis=1)
        z[which] = now
        self._joint.operations += work(which.size)
        return _Found(bound, reduced, z, factor)


@dataclass
class _Found:
    """A certificate (see `GameBound`), and where the loss is large: mean and factor of phi's."""

    bound: float
    reduced: np.ndarray
    z: np.ndarray
    factor: np.ndarray


class _Terms:
    """What the certificate needs to know of a policy.

    ``plain`` is D(x), ``value`` the same less a bound on all rounding errors; ``a`` and ``B`` are
    over ``which`` of the numbers phi: free variables with a multiplier, and pairs that push. Where
    forces go to the same places as before, ``directions`` knows their products.
    """

    def __init__(
        self, table: _Table, base: Policy, push: np.ndarray, directions: _ByAscent | None = None
    ) -> None:
        self._table, self.base, self.push, self._directions = table, base, push, directions
        free, p = table._free, table._dual.p
        single, pairs = np.flatnonzero(base.t[free]), np.flatnonzero(push > 0.0)
        self.which = np.append(single, table._m + pairs)
        x = base.t + force_of(table._pairs, push, p.size)
        half = 0.5 * (table._K @ x)
        if directions is None:
            self.a, self.B = self._products(single, pairs, p - half)
        else:
            force = np.append(base.t[free[single]], push[pairs])
            self.a, self.B = directions.products(single, pairs, force, p - half)
        self.plain = float(x @ (p - 0.5 * half))
        mass = np.abs(base.t).sum() + np.abs(base.R).sum() + 2.0 * push.sum()
        self.value = self.plain - rounding(p, table._diag, mass)
        table._joint.operations += float(p.size) ** 2

    def _products(
        self, single: np.ndarray, pairs: np.ndarray, F: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """``a`` and ``B`` from the rows g_f."""
        table, base, free = self._table, self.base, self._table._free[single]
        G = np.zeros((self.which.size, base.t.size))
        rows = np.arange(single.size)
        G[rows, free] = base.t[free]
        G[: single.size, base.places] -= base.R[single]
        j, k = table._pairs[pairs].T
        rows = np.arange(single.size, self.which.size)
        G[rows, j], G[rows, k] = self.push[pairs], -self.push[pairs]
        used = np.flatnonzero(G.any(axis=0))
        G = G[:, used]
        size = used.size * self.which.size * float(used.size + self.which.size)
        table._joint.operations += size / _AT_ONCE
        return G @ F[used], 0.25 * (G @ table._K[np.ix_(used, used)]) @ G.T

    def towards(self, other: _Terms, share: float) -> _Terms:
        """Those of the policy that lies ``share`` of the way to the other's."""
        push = self.push + share * (other.push - self.push)
        base = self.base.towards(other.base, share)
        return _Terms(self._table, base, push, other._directions)

    def expected(self, found: _Found) -> float:
        """What the policy is worth against a mixture."""
        z, factor = found.z[self.which], found.factor[self.which]
        return float(
            self.plain - self.a @ z - z @ self.B @ z - np.vdot(factor, self.B @ factor)
        )


class _BySplitting:
    """Answers with all that is free, by `relaxations.svm.bounds.splitting`.

    In the free variables that have something to say, as with recourse, and all the pairs.
    """

    def __init__(self, table: _Table, terms: _Terms, u: np.ndarray) -> None:
        self._table, base, m = table, terms.base, table._m
        _, F, beta = table._joint_mean(terms, u)
        free, rates = table._free, table._rates
        wanted = (base.t[free] != 0.0) | ((F[free] - beta) * table._dual.p[free] > 0.0)
        self._rows = rows = np.flatnonzero(wanted if wanted.any() else ~wanted)
        self._some = np.append(rows, np.arange(m, u.size))
        weights = np.ascontiguousarray(rates.weights[:, rows])
        with np.errstate(over="ignore", invalid="ignore"):
            self._splitting = Splitting(
                table._dual, base.places, free[rows], base.t, base.R[rows], u[self._some],
                Rates(weights, rates.budgets, rates.exact), base.prices, table._pairs, terms.push,
            )
        k, forces = float(base.places.size), float(self._some.size)
        self._work = 9.0 * rows.size**3 + forces**3 / 3.0 + 2.0 * forces**2 * k
        self._work += _ANSWER_STEPS * rows.size * k * (4.0 * forces + 2.0 * k + 200.0)
        table._joint.operations += 9.0 * k**3 / _AT_ONCE

    @property
    def prices(self) -> Prices:
        """For the next game to begin with."""
        return self._splitting.prices.compact()

    def answer(self, last: _Terms, u: np.ndarray, C: np.ndarray) -> _Terms:
        """A policy that answers the mixture."""
        table, base, some = self._table, last.base, self._some
        table._joint.operations += self._work / _AT_ONCE
        with np.errstate(over="ignore", invalid="ignore"):
            t, R, push = self._splitting.answer(u[some], C[np.ix_(some, some)], _ANSWER_STEPS)
        if not all(np.isfinite(part).all() for part in (t, R, push)):
            return last  # costs that single precision cannot hold
        everywhere = np.zeros((base.free.size, base.places.size))
        everywhere[self._rows] = R
        return _Terms(table, table._repair(replace(base, t=t, R=everywhere)), push)


class _ByAscent:
    """Answers that leave it where forces go, and make none of free variables larger.

    Of every force l_f is lost, once f happens, and e_f is what it adds while it does not:
    e_j - rho_j and e_j of a free variable, d_p and d_p of a pair.
    """

    prices = None

    def __init__(self, table: _Table, terms: _Terms) -> None:
        self._table, base, dual, K = table, terms.base, table._dual, table._K
        self._single = np.flatnonzero(base.t[table._free])
        self._free, self._places = table._free[self._single], base.places
        self._some = np.append(self._single, np.arange(table._m, len(table._ends)))
        self._fixed = fixed = np.flatnonzero(~table._is_free & (dual.lo < dual.hi))
        cap = base.t[self._free]
        self._rho = base.R[self._single] / cap[:, None]
        self._set_boxes(dual, *table._pushes(base.R), cap)
        j, k = table._pairs.T
        both = K[:, j] - K[:, k]
        Ke = np.hstack([K[:, self._free], both])
        Kl = np.hstack([K[:, self._free] - K[:, self._places] @ self._rho.T, both])
        self._KB, self._Ke, self._Kl = K[np.ix_(fixed, fixed)], Ke[fixed], Kl[fixed]
        self._ee, self._el = self._kept(Ke), self._kept(Kl)
        self._ll, self._pe, self._pl = self._lost(Kl), self._kept(dual.p), self._lost(dual.p)
        n, f = float(dual.p.size), float(self._some.size)
        table._joint.operations += n * f * (self._places.size + f) / _AT_ONCE

    def _set_boxes(self, dual: Dual, up: np.ndarray, down: np.ndarray, cap: np.ndarray) -> None:
        """Of what cannot be dropped, less the room that sets may need, and of the forces."""
        lo, hi, pairs = dual.lo.copy(), dual.hi.copy(), len(self._table._pairs)
        lo[self._places] += down
        hi[self._places] -= up
        self._lo = np.concatenate([lo[self._fixed], np.minimum(cap, 0.0), np.zeros(pairs)])
        self._hi = np.concatenate([hi[self._fixed], np.maximum(cap, 0.0), np.full(pairs, np.inf)])

    def _kept(self, values: np.ndarray) -> np.ndarray:
        """``<e_f, .>`` of all forces."""
        j, k = self._table._pairs.T
        return np.concatenate([values[self._free], values[j] - values[k]])

    def _lost(self, values: np.ndarray) -> np.ndarray:
        """``<l_f, .>`` of all forces."""
        lost = self._kept(values)
        lost[: self._single.size] -= self._rho @ values[self._places]
        return lost

    def products(
        self, single: np.ndarray, pairs: np.ndarray, force: np.ndarray, F: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """``a`` and ``B`` of a policy whose forces go there."""
        some = np.append(np.searchsorted(self._single, single), self._single.size + pairs)
        B = 0.25 * np.outer(force, force) * self._ll[np.ix_(some, some)]
        return force * self._lost(F)[some], B

    def answer(self, last: _Terms, u: np.ndarray, C: np.ndarray) -> _Terms:
        """A policy that answers the mixture, from the last one on."""
        table, base, b = self._table, last.base, self._fixed.size
        often, s = np.minimum(u[self._some], MAX_FREQUENCY), self._single.size
        x = np.concatenate([base.t[self._fixed], base.t[self._free], last.push])
        x = np.clip(x, self._lo, self._hi)
        Q = np.empty((x.size, x.size))
        Q[:b, :b] = self._KB
        Q[:b, b:] = self._Ke - self._Kl * often
        Q[b:, :b] = Q[:b, b:].T
        mean = self._el * often
        Q[b:, b:] = self._ee - mean - mean.T
        Q[b:, b:] += self._ll * (np.outer(often, often) + C[np.ix_(self._some, self._some)])
        Q *= 0.5
        slope = np.append(table._dual.p[self._fixed], self._pe - often * self._pl) - Q @ x
        accuracy = _ACCURACY * max(abs(last.value), 1.0)
        steps = ascend(Q, slope, self._lo, self._hi, b + s, x, _STEPS * x.size, accuracy)
        table._joint.operations += (steps + 4.0 * x.size) * x.size
        t, R = np.zeros(base.t.size), np.zeros(base.R.shape)
        t[self._fixed], t[self._free] = x[:b], x[b: b + s]
        R[self._single] = t[self._free, None] * self._rho
        base = table._scaled_down(replace(base, t=t, R=R), *table._pushes(R))
        return _Terms(table, base, x[b + s:], self)


def _with_pairs(
    u: np.ndarray, C: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance with more pairs, of independent anchors (-1 for one that is kept)."""
    often = np.append(u, 0.0)[ends]  # of the last, which -1 is, nothing
    broken = 1.0 - (1.0 - often).prod(axis=1)
    new = np.arange(u.size, u.size + len(ends))
    C = np.pad(C, (0, len(ends)))
    C[new, new] = broken * (1.0 - broken)
    for side in range(2):
        free = ends[:, side] >= 0
        both = often[free, side] * (1.0 - broken[free])
        C[new[free], ends[free, side]] = C[ends[free, side], new[free]] = both
    return np.append(u, broken), C
