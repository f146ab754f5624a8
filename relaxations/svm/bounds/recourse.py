"""The drop bound with recourse: what giving up anchors costs if the rest of t may answer.

The drop bound (`relaxations.svm.bounds.drop`) takes t_j away when anchor j is given up and leaves
the rest of t as it is.  Here a *policy* says in advance where the force of every free anchor goes:
to places A that can never be dropped (training points, enforced anchors), R_ja to place a, with
``sum_a R_ja = t_j``.  If the set V is given up, t becomes

    t^V = t - sum_{j in V} delta_j,      delta_j = t_j e_j - R_j.

``sum(t^V) = 0`` for every V, so no interval of the intercept is needed.  If the *robust boxes*
``lo_a <= t_a + sum_{j in V} R_ja <= hi_a`` hold for every V that the budgets allow, t^V is dual
feasible for the completion V, and with F = p - K t / 2 its value is

    D(t^V) = D(t) - sum_V a_j - sum_{j,k in V} B_jk
    a_j = <F, delta_j>,      B_jk = delta_j'K delta_k / 4.

**Certificates.**  Two bounds on the largest loss, both of the form const + sum over V of l_j, of
which the better is taken.  The re-split of `relaxations.svm.bounds.drop.resplit_loss`, best for
small budgets; and the *moment* bound, best for large ones, of `relaxations.svm.bounds.moments`.

**The game.**  The least value over V is concave in (t, R), so the policy is played against a
mixture of sets with frequencies u and covariance C: a round finds an answer to the mixture, and
goes as far towards it as the last sets allow.  There are two ways to answer, by projections and by
splitting.  The first game tries both.  Later ones, each of a few rounds, go by splitting where much
is open, since there a better bound counts, and by projections near the target, where many nodes do.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...jit import inner, outer
from ...patience import Patience
from ..dual import Dual, Effort, Point, intercept
from ..gram import Gram
from ..order import descending
from ..solvers import NodeSolver
from .drop import ROUNDING, Rates, allowed_loss, empty_losses, resplit_loss, starts_of, with_loss
from .game import MEMORY, ROWS, SPLIT_STEPS, GameBound, Mixture, best_pull, mixed, place_of, spread
from .moments import RANK, TINY, moment_loss, rounding, work
from .robust import largest_sums
from .splitting import MAX_FREQUENCY, Prices, Splitting, unit_of

__all__ = ["Policy", "RecourseGame", "RecourseTable"]

_EPS = np.finfo(np.float64).eps
_NEAR = 0.25  # points whose margin is off by less than this are worth being places
_FULL = 0.8  # share of a box beyond which recourse to it is made dearer whatever its price
_RIDGE, _LEAST_RIDGE, _MOST_RIDGE = 0.3, 1e-3, 1e4  # in units of the anchors' mean diagonal
_FAR = 0.08  # of the target: gaps beyond which the dearer way to answer pays
_CLEARLY = 0.8  # share of the other's gap that the dearer way may leave
_ANSWER_STEPS = 6  # the mixture changes in between
_GROW = 15  # rounds after which more places and anchors may take part
_AT_ONCE = 16.0  # operations of a matrix product that take as long as one of an added row


@dataclass
class Policy:
    """Multipliers and recourse.

    Parameters
    ----------
    t : ndarray (N,)
        Multipliers while nothing is given up.
    free : ndarray of int (m,)
        Variables that may be dropped.
    places : ndarray of int (k,)
        Variables that take over.
    R : ndarray (m, k)
        What each place takes over of each free variable; rows sum to t[free].
    ridge : ndarray (k,)
        How dear the places are to projections, in units of the kernel's diagonal.
    prices : Prices, optional
        Of the last answer by splitting.
    """

    t: np.ndarray
    free: np.ndarray
    places: np.ndarray
    R: np.ndarray
    ridge: np.ndarray
    prices: Prices | None = None

    def decided(self, enforced: np.ndarray, given_up: np.ndarray) -> Policy:
        """The same policy once some free variables (masks over ``free``) are decided.

        Its bound is no worse: sets that contradict the decisions no longer count.
        """
        t = self.t.copy()
        t[self.free[given_up]] = 0.0
        t[self.places] += self.R[given_up].sum(axis=0)
        left = ~(enforced | given_up)
        return Policy(
            t, self.free[left], self.places, self.R[left], self.ridge, self.prices
        )

    def compact(self) -> Policy:
        """In a fraction of the memory, to be kept with a node; the next game mends the rounding."""
        used = self.t[self.free] != 0.0  # without a multiplier there is nothing to take over
        return Policy(
            self.t, self.free[used], self.places, self.R[used].astype(np.float32), self.ridge,
            self.prices,
        )

    def towards(self, other: Policy, share: float) -> Policy:
        """The policy that lies ``share`` of the way to the other, which has the same places."""
        return Policy(
            self.t + share * (other.t - self.t), self.free, self.places,
            self.R + share * (other.R - self.R), other.ridge, other.prices,
        )

    def with_places(self, extra: np.ndarray, ridge: float) -> Policy:
        """The same policy with more places to go."""
        R = np.hstack([self.R, np.zeros((self.free.size, extra.size))])
        return Policy(
            self.t, self.free, np.append(self.places, extra), R,
            np.append(self.ridge, np.full(extra.size, ridge)), self.prices,
        )


class RecourseGame:
    """Raises the drop bound with recourse of nodes that share a kernel matrix.

    Parameters
    ----------
    solver : NodeSolver
        Solves soft margins, and answers by projection.
    gram : Gram
        Dense kernel matrix.
    answers : Gram
        A copy of it for the answers' kernels: the block of the free anchors changes, and is put
        back.
    anchors : ndarray of int (M,)
        Variables that are free in some node.
    """

    def __init__(
        self, solver: NodeSolver, gram: Gram, answers: Gram, anchors: np.ndarray
    ) -> None:
        self.solver, self.gram, self.answers = solver, gram, answers
        self.row = np.full(gram.diag.size, -1)
        self.row[anchors] = np.arange(anchors.size)
        # Both certificates go on from where they were, also in other nodes.
        self.split = np.zeros((anchors.size, anchors.size))
        self.factor = np.random.default_rng(0).normal(size=(anchors.size, RANK))
        self.moments_pay = True
        self.first: GameBound | None = None  # what the first game gave, and where
        self.first_at = b""
        self.operations = 0.0  # of all games so far, in units of those of an added row

    def open(
        self, dual: Dual, free: np.ndarray, rates: Rates, target: float, rounds: int,
        stale_rounds: int, patience: Patience,
    ) -> GameBound:
        """The first game, from the best of a range of soft margins.

        Both ways to answer are tried, and the better of the policies is gone on from: by splitting
        where much is open, or where that has come clearly further.
        """
        table = RecourseTable(self, dual, free, rates)
        start = table.soft_start(target, patience)
        few = min(rounds, _GROW)
        best = table.play(*start, target, few, stale_rounds, patience, _ByProjection)
        if best.bound >= target or patience.expired():
            return best
        other = table.play(*start, target, few, stale_rounds, patience, _BySplitting)
        pays = target - other.bound < _CLEARLY * (target - best.bound)
        best = max(best, other, key=lambda one: one.bound)
        way: _Way | None = _BySplitting if pays else None
        later = table.play(best.policy, best.mixture, target, max(rounds - few, 1), stale_rounds,
                           patience, way)
        self.first = max(best, later, key=lambda one: one.bound)
        self.first_at = place_of(dual, free, rates)
        return self.first

    def play(
        self, dual: Dual, free: np.ndarray, rates: Rates, policy: Policy, mixture: Mixture,
        target: float, rounds: int, stale_rounds: int, patience: Patience,
    ) -> GameBound:
        """See `relaxations.svm.bounds.game.Game`."""
        return RecourseTable(self, dual, free, rates).play(
            policy, mixture, target, rounds, stale_rounds, patience)


class RecourseTable:
    """One node's game, with the free variables sorted by rate, as the certificates want them."""

    def __init__(self, game: RecourseGame, dual: Dual, free: np.ndarray, rates: Rates) -> None:
        order = np.lexsort((free, *(rates.weights[::-1] == 0.0)))
        self._order, self._back = order, np.argsort(order)
        self._game, self._dual, self._free = game, dual, free[order]
        self._K, self._diag = game.gram.K, game.gram.diag
        self._row = game.row[self._free]
        self._rates = Rates(
            np.ascontiguousarray(rates.weights[:, order]), rates.budgets, rates.exact
        )
        self._is_free = np.zeros(dual.p.size, np.bool_)
        self._is_free[free] = True
        self._KFF = self._K[np.ix_(self._free, self._free)]
        self._unit = unit_of(self._diag, free)
        self._set_places(np.zeros(0, np.int64))

    def _set_places(self, places: np.ndarray) -> None:
        self._places = places
        self._KFA = self._K[np.ix_(self._free, places)]
        self._KAA = self._K[np.ix_(places, places)]

    def _count(self, rows: int, products: float) -> None:
        """One round more: so many rows added, operations of matrix products, and a certificate."""
        n, m, k = float(self._is_free.size), float(self._free.size), float(self._places.size)
        products += 2.0 * m * k * (m + k) + m**3
        self._game.operations += work(self._free.size) + (rows + 2.0 * n) * n + products / _AT_ONCE

    # -- starts ---------------------------------------------------------------------------------

    def soft_start(self, target: float, patience: Patience) -> tuple[Policy, Mixture]:
        """A policy and a mixture to begin with: the best of a range of soft margins.

        Every free variable is capped at the same level, which is doubled from solve to solve.  The
        frequencies are in proportion to the slacks at the best one.
        """
        p, free = self._dual.p, self._free
        x, F = np.zeros(p.size), p.copy()
        best, best_policy, best_u = -np.inf, None, np.zeros(free.size)
        for k in range(-8, 6):
            lo, hi = self._dual.lo.copy(), self._dual.hi.copy()
            lo[free], hi[free] = np.maximum(lo[free], -(2.0**k)), np.minimum(hi[free], 2.0**k)
            capped, point = Dual(self._game.gram, p, lo, hi), Point(x, F)
            rows, _ = self._game.solver.maximise(
                capped, point, Effort(1e-3, ROWS * x.size, np.inf), patience=patience
            )
            beta = intercept(capped, point)
            u = np.maximum((F[free] - beta) * np.sign(p[free]), 0.0)
            spread(u, self._rates.weights, self._rates.budgets)
            policy = self._projected(x, self._worthwhile(x, F, beta))
            bound = self._moment_bound(_Terms.of(self, policy), u, 1).bound
            self._count(rows, float(policy.places.size) ** 3)
            if bound > best:
                best, best_policy, best_u = bound, policy, u
            if best >= target or patience.expired() or (bound < best and k > 0):
                break
        assert best_policy is not None
        u = best_u[self._back]
        return self._outward(best_policy), Mixture.independent(u, 3)

    def _worthwhile(self, x: np.ndarray, F: np.ndarray, beta: float) -> np.ndarray:
        """Variables that can take something over at little or no price; all if there are none."""
        lo, hi = self._dual.lo, self._dual.hi
        usable = ~self._is_free & (lo < hi)
        cheap = (np.abs(F - beta) < _NEAR) | ((x > lo + 1e-9) & (x < hi - 1e-9))
        return np.flatnonzero(usable & cheap if (usable & cheap).any() else usable)

    def _projected(self, t: np.ndarray, places: np.ndarray) -> Policy:
        """A policy with these multipliers, whose recourse follows projections on the places."""
        self._set_places(places)
        ridge = np.full(places.size, _RIDGE * self._unit)
        R = np.zeros((self._free.size, places.size))
        if places.size:
            R = t[self._free, None] * self._project(ridge)[0]
        return self._repair(Policy(t.copy(), self._free, places, R, ridge))

    def _inward(self, policy: Policy) -> Policy:
        """A policy from outside: rows in the game's order, usable places, and made feasible."""
        row = np.full(self._is_free.size, policy.free.size)
        row[policy.free] = np.arange(policy.free.size)
        places = policy.places
        usable = ~self._is_free[places] & (self._dual.lo[places] < self._dual.hi[places])
        R = np.vstack([policy.R, np.zeros((1, places.size))])[row[self._free]][:, usable]
        self._set_places(places[usable])
        return self._repair(Policy(
            policy.t.copy(), self._free, places[usable], R, policy.ridge[usable], policy.prices
        ))

    def _outward(self, policy: Policy) -> Policy:
        """The policy with the rows in the caller's order."""
        back = self._back
        return Policy(
            policy.t, self._free[back], policy.places, policy.R[back], policy.ridge, policy.prices
        )

    # -- the game -------------------------------------------------------------------------------

    def play(
        self, policy: Policy, mixture: Mixture, target: float, rounds: int, stale_rounds: int,
        patience: Patience, way: _Way | None = None,
    ) -> GameBound:
        """See `RecourseGame.play`; ``way`` says how to answer, by default it follows the gap."""
        order, back = self._order, self._back
        u, C = np.clip(mixture.u[order], 0.0, 1.0), mixture.C[np.ix_(order, order)]
        age = mixture.age
        now = best_at = _Terms.of(self, self._inward(policy))
        best, z = None, u
        mark, stale = -np.inf, 0
        memory = deque[_Found](maxlen=MEMORY)
        answers: _ByProjection | _BySplitting | None = None
        for r in range(rounds):
            found = self._certificate(now, z, r % 5 == 0)
            if best is None or found.bound > best.bound:
                best, best_at = found, now
            missing = target - best.bound
            if missing <= 0.0 or r == rounds - 1 or not now.policy.places.size:
                break
            if patience.expired():
                break
            if r == 0 or best.bound - mark > 0.03 * min(missing, abs(mark)):
                mark, stale = best.bound, 0
            else:
                stale += 1
                if stale >= stale_rounds:
                    break
            z = found.z
            u = mixed(u, C, z, found.X, 2.0 / (age + 4.0))
            age += 1
            memory.append(found)
            if way is None:
                way = _BySplitting if missing > _FAR * abs(target) else _ByProjection
            if answers is None or r % _GROW == 0:
                best_at = self._grown(best_at, u, way is _BySplitting)
                answers = way(self, best_at.policy, u)
            other = _Terms.of(self, self._repair(answers.answer(best_at.policy, u, C, patience)))
            way_there = best_at, best_at.towards(other, 0.5), other
            pull = best_pull([[at.expected(seen) for at in way_there] for seen in memory])
            answers.pulled(pull)
            # A step that did not help is taken back: from the best, which now knows one more set.
            now = best_at.towards(other, pull)
        assert best is not None
        if answers is not None:
            answers.leave(best_at.policy)
        return GameBound(
            best.bound, best.reduced[back], self._outward(best_at.policy),
            Mixture(u[back], C[np.ix_(back, back)], age),
        )

    def _mean(self, policy: Policy, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean multipliers against the frequencies, their gradient and intercept."""
        x = policy.t.copy()
        x[self._free] *= 1.0 - u
        x[policy.places] += u @ policy.R
        point = Point(x, self._dual.p - 0.5 * (self._K @ x))
        return x, point.F, intercept(self._dual, point)

    def _grown(self, terms: _Terms, u: np.ndarray, misplaced: bool) -> _Terms:
        """The same policy with all the places that are worthwhile now.

        Where only places move, those whose multiplier is not where it ought to be are, too.
        """
        policy = self._with_more_places(terms.policy, *self._mean(terms.policy, u), misplaced)
        return terms if policy is terms.policy else _Terms.of(self, policy)

    def _with_more_places(
        self, policy: Policy, x: np.ndarray, F: np.ndarray, beta: float, misplaced: bool
    ) -> Policy:
        """See `_grown`; with the mean multipliers, their gradient and intercept."""
        new = np.setdiff1d(self._worthwhile(x, F, beta), policy.places)
        if misplaced:
            lo, hi = self._dual.lo, self._dual.hi
            off = np.where(beta < F, x < hi - 1e-9, x > lo + 1e-9) & ~self._is_free & (lo < hi)
            new = np.setdiff1d(np.union1d(new, np.flatnonzero(off)), policy.places)
        if not new.size:
            return policy
        self._set_places(np.append(policy.places, new))
        return policy.with_places(new, _RIDGE * self._unit)

    def _project(self, ridge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ridge projections rho on the affine hull of the places, and the residuals' products.

        The latter count the ridge, which stands for the price of room in the boxes.
        """
        factor = cho_factor(self._KAA + np.diag(ridge), lower=True, check_finite=False)
        right = np.vstack([self._KFA, np.ones(ridge.size)]).T
        solved = cho_solve(factor, right, check_finite=False).T
        e, rho = solved[-1], solved[:-1]
        extra = (1.0 - rho.sum(axis=1)) / e.sum()
        rho = rho + extra[:, None] * e
        # K_AA with the ridge times rho_k is K_Ak + extra_k, and rho_j sums to one: of the products
        # rho_j'K_AA rho_k and -rho_j'K_Ak only extra_k is left.
        residuals = self._KFF - self._KFA @ rho.T + extra
        return rho, 0.5 * (residuals + residuals.T)

    def _pushes(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper bounds on the sums of R over any set, and on their negatives, for each place."""
        rates, short = self._rates, np.zeros(self._rates.budgets.size, np.bool_)
        idle = np.asarray(~R.any(axis=1))
        used = with_loss(idle, rates, short)
        weights, columns = np.ascontiguousarray(rates.weights[:, used]), R[used].T.copy()
        up, down = np.empty(R.shape[1]), np.empty(R.shape[1])
        short_rates, starts = Rates(weights, rates.budgets, short), starts_of(weights)
        largest_sums(columns, 1.0, short_rates, starts, up)
        largest_sums(columns, -1.0, short_rates, starts, down)
        return up, down

    def _repair(self, policy: Policy) -> Policy:
        """A policy near this one whose robust boxes hold for every allowed set.

        Places that sets push by more than the width of their box give to others; if that does not
        do, everything is scaled down.
        """
        lo, hi, free, places = self._dual.lo, self._dual.hi, self._free, policy.places
        t, R = policy.t.copy(), policy.R.copy()
        t[free] = np.clip(t[free], lo[free], hi[free]) if places.size else 0.0
        R[t[free] == 0.0] = 0.0
        width = (hi - lo)[places]
        up, down = self._pushes(R)
        for _ in range(4):
            bad = up + down > 0.999 * width
            room = np.where(bad, 0.0, np.minimum(np.maximum(width - up - down, 0.0), 1e3))
            if not room.sum() > 0.0:  # then all get the same, and everything is scaled down
                R += _even(t[free] - R.sum(axis=1), places.size)
                up, down = self._pushes(R)
                break
            if bad.any():
                R *= np.where(bad, 0.98 * width / np.maximum(up + down, TINY), 1.0)
            missing = t[free] - R.sum(axis=1)
            if not bad.any() and np.abs(missing).max() <= 1e-12 * np.abs(t[free]).max():
                break
            R += missing[:, None] * (room / room.sum())
            up, down = self._pushes(R)
        return self._scaled_down(replace(policy, t=t, R=R), up, down)

    def _scaled_down(self, policy: Policy, up: np.ndarray, down: np.ndarray) -> Policy:
        """The policy times the first of a row of factors that makes it feasible.

        Up and down are its pushes, up to what rounding leaves missing in the sums of its rows.
        """
        lo, hi, free, places = self._dual.lo, self._dual.hi, self._free, policy.places
        missing = policy.t[free] - policy.R.sum(axis=1)
        R = policy.R + _even(missing, places.size)
        most = np.abs(missing).sum() / max(places.size, 1)  # that a set may add to a push
        up, down = up + most, down + most
        fill = (up + down) / np.maximum((hi - lo)[places], TINY)
        factor = min(1.0, 0.98 / max(fill.max(initial=0.0), TINY))
        for _ in range(40):
            t = factor * policy.t
            low, high = lo.copy(), hi.copy()
            low[places] += factor * down
            high[places] -= factor * up
            if _balance(t, low, high, self._is_free):
                return replace(policy, t=t, R=factor * R)
            factor *= 0.7
        return replace(policy, t=np.zeros(t.size), R=np.zeros(R.shape))

    # -- certificates ---------------------------------------------------------------------------

    def _certificate(self, terms: _Terms, z: np.ndarray, both: bool) -> _Found:
        """The better of the two certificates, or of the one that was better last time."""
        if not both and self._game.moments_pay:
            return self._moment_bound(terms, z, 3)
        if not both:
            return self._split_bound(terms)
        moments, split = self._moment_bound(terms, z, 3), self._split_bound(terms)
        self._game.moments_pay = moments.bound >= split.bound
        return moments if self._game.moments_pay else split

    def _moment_bound(self, terms: _Terms, z: np.ndarray, passes: int) -> _Found:
        """The moment bound, from the mean z on; the factor of the covariance is improved."""
        rates, m, active = self._rates, self._free.size, terms.active
        loss, X, value = np.zeros(m), np.zeros((m, m)), terms.value
        if active.size:
            a, B = _less_than_budget(terms.a, terms.B, rates, active)
            rows = self._row[active]
            factor = self._game.factor[rows]
            z = z.copy()

            def climb(delta: np.ndarray, steps: int) -> np.ndarray:
                _climb(a, B, active, rates, delta, z, steps)
                return z[active]

            loss[active], constant = moment_loss(a, B, z[active], factor, passes, climb)
            value -= constant
            self._game.factor[rows] = factor
            X[np.ix_(active, active)] = factor @ factor.T
        mu = np.zeros(rates.budgets.size)
        bound = value - allowed_loss(loss, rates, mu)
        return _Found(bound, loss - mu @ rates.weights, z, X)

    def _split_bound(self, terms: _Terms) -> _Found:
        """The bound by re-splitting the quadratic term; see `relaxations.svm.bounds.drop`."""
        rates, m = self._rates, self._free.size
        short = np.zeros(rates.budgets.size, np.bool_)
        idle = np.ones(m, np.bool_)
        idle[terms.active] = False
        used = with_loss(idle, rates, short)
        B, a = np.zeros((m, m)), np.zeros(m)
        B[np.ix_(terms.active, terms.active)] = terms.B
        a[terms.active] = terms.a
        B, a = B[np.ix_(used, used)], a[used]
        diagonal = B.diagonal().copy()
        np.fill_diagonal(B, 0.0)
        weights = np.ascontiguousarray(rates.weights[:, used])
        rows = np.ix_(self._row[used], self._row[used])
        split = self._game.split[rows]
        k, L = used.size, rates.budgets.size
        found = empty_losses(k, L)
        bound, _ = resplit_loss(
            (terms.value, 0.0, a + diagonal, B, np.sqrt(np.maximum(diagonal, 0.0)), np.zeros(k),
             np.zeros(2)),
            split, np.zeros((L, k)), Rates(weights, rates.budgets, short), starts_of(weights),
            SPLIT_STEPS, found,
        )
        self._game.split[rows] = split
        z, reduced = np.zeros(m), -found.mu[0] @ rates.weights
        reduced[used] += found.loss[0]
        z[used] = found.chosen
        return _Found(bound, reduced, z, np.zeros((m, m)))


class _BySplitting:
    """Answers by `relaxations.svm.bounds.splitting`, t and R together.

    In the free variables that have something to say: those without a multiplier whose margin is met
    in the mean stay without.
    """

    def __init__(self, table: RecourseTable, policy: Policy, u: np.ndarray) -> None:
        self._table = table
        _, F, beta = table._mean(policy, u)
        free, p = table._free, table._dual.p
        wanted = (policy.t[free] != 0.0) | ((F[free] - beta) * p[free] > 0.0)
        self._rows = rows = np.flatnonzero(wanted if wanted.any() else ~wanted)
        weights = np.ascontiguousarray(table._rates.weights[:, rows])
        with np.errstate(over="ignore", invalid="ignore"):
            self._splitting = Splitting(
                table._dual, policy.places, free[rows], policy.t, policy.R[rows], u[rows],
                Rates(weights, table._rates.budgets, table._rates.exact), policy.prices,
            )
        m, k = float(rows.size), float(policy.places.size)
        self._first_work = 9.0 * k**3
        self._work = 9.0 * m**3 + _ANSWER_STEPS * m * k * (4.0 * m + 2.0 * k + 200.0)

    def answer(self, last: Policy, u: np.ndarray, C: np.ndarray, patience: Patience) -> Policy:
        """A policy that answers the mixture, not yet feasible."""
        rows = self._rows
        with np.errstate(over="ignore", invalid="ignore"):
            t, R, _ = self._splitting.answer(u[rows], C[np.ix_(rows, rows)], _ANSWER_STEPS)
        self._table._count(0, self._first_work + self._work)
        self._first_work = 0.0
        if not (np.isfinite(t).all() and np.isfinite(R).all()):
            return last  # costs that single precision cannot hold
        everywhere = np.zeros((last.free.size, last.places.size))
        everywhere[rows] = R
        return replace(last, t=t, R=everywhere)

    def pulled(self, pull: float) -> None:
        """The prices remember enough."""

    def leave(self, policy: Policy) -> None:
        """Leave what the next answers may begin with."""
        policy.prices = self._splitting.prices.compact()


class _ByProjection:
    """Answers whose recourse follows ridge projections of the anchors on the places.

    With R_j = t_j rho_j an answer is one more node dual, in which the free anchors' kernel is
    K_jk + G_jk C_jk / ((1 - u_j)(1 - u_k)), G_jk the inner product of the residuals of phi_j and
    phi_k after projection, and the boxes of the places are narrower by what the recourse may need.
    If that is measured by the deviation over the mixture, the best rho_j are ridge projections on
    the affine hull of the places: one whose narrowed box binds at price lambda_a, with need s_a and
    variance v_a, has the ridge 2 lambda_a s_a / v_a.  They follow these values from round to round.
    """

    def __init__(self, table: RecourseTable, policy: Policy, u: np.ndarray) -> None:
        self._table, self._reach, self._round = table, 0.5, 0
        self._ridge = policy.ridge

    def answer(self, last: Policy, u: np.ndarray, C: np.ndarray, patience: Patience) -> Policy:
        """The best policy of this kind that is not much larger than the last one.

        The boxes of the places are narrowed by what the last multipliers need with the new
        directions, so the answer must stay near; it is not yet feasible.
        """
        table, reach = self._table, self._reach
        free, places, p = table._free, last.places, table._dual.p
        kept = 1.0 - np.minimum(u, MAX_FREQUENCY)
        rho, G = table._project(self._ridge)
        size = np.abs(last.t[free])
        typical = size.sum() / max(np.count_nonzero(size > 1e-9 * size.max()), 1)
        cap = ((1.0 + reach) * size + reach * typical) * kept
        lo, hi = table._dual.lo.copy(), table._dual.hi.copy()
        lo[free], hi[free] = np.maximum(lo[free], -cap), np.minimum(hi[free], cap)
        x = last.t.copy()
        x[free] *= kept
        x[places] += u @ last.R
        self._reserve(last.t[free, None] * rho, u, lo, hi, x)
        answers, block = table._game.answers, np.ix_(free, free)
        answers.K[block] = table._KFF + G * C / np.outer(kept, kept)
        answers.diag[free] = answers.K[free, free]
        narrowed, point = Dual(answers, p, lo, hi), Point(x, p - 0.5 * (answers.K @ x))
        rows, _ = table._game.solver.maximise(
            narrowed, point, Effort(1e-3, ROWS * x.size, np.inf), patience=patience
        )
        answers.K[block], answers.diag[free] = table._KFF, table._diag[free]
        m, k = float(free.size), float(places.size)
        table._count(rows, k**3 / 3.0 + 2.0 * m * k * (m + k))
        t = x.copy()
        t[free] /= kept
        R = t[free, None] * rho
        t[places] -= u @ R
        price = (point.F - intercept(narrowed, point))[places]
        self._ridge = self._next_ridge(
            R, u, C, price, lo[places] >= x[places], hi[places] <= x[places]
        )
        return replace(last, t=t, R=R)

    def pulled(self, pull: float) -> None:
        """How much larger than the last policy the next answer may be."""
        self._round += 1
        if pull >= 0.5:
            self._reach = min(1.5 * self._reach, 4.0)
        elif pull < 0.2:
            self._reach = max(0.7 * self._reach, 0.02)

    def leave(self, policy: Policy) -> None:
        """Leave what the next answers may begin with; prices would be of an older policy."""
        policy.ridge, policy.prices = self._ridge, None

    def _reserve(
        self, R: np.ndarray, u: np.ndarray, lo: np.ndarray, hi: np.ndarray, x: np.ndarray
    ) -> None:
        """Narrow the boxes of the places by what R needs, as far as x can be kept in them."""
        table = self._table
        places = table._places
        below, above = self._needs(R, u)
        share = np.minimum(1.0, 0.9 * (hi - lo)[places] / np.maximum(below + above, TINY))
        for part in (1.0, 0.5, 0.25, 0.0):
            low, high, start = lo.copy(), hi.copy(), x.copy()
            low[places] += part * share * below
            high[places] -= part * share * above
            if _balance(start, low, high, table._is_free) or part == 0.0:
                lo[:], hi[:], x[:] = low, high, start
                return

    def _needs(self, R: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far sets may push each place below and above its mean."""
        up, down = self._table._pushes(R)
        mean = u @ R
        return np.maximum(down + mean, 0.0), np.maximum(up - mean, 0.0)

    def _next_ridge(
        self, R: np.ndarray, u: np.ndarray, C: np.ndarray, price: np.ndarray, at_lo: np.ndarray,
        at_hi: np.ndarray,
    ) -> np.ndarray:
        """Ridges a little nearer to what the prices of the boxes ask for."""
        table, ridge, step = self._table, self._ridge, 1.0 + 3.0 / (1.0 + self._round / 5.0)
        below, above = self._needs(R, u)
        cost = np.where(at_hi, np.maximum(price, 0.0) * above, 0.0)
        cost += np.where(at_lo, np.maximum(-price, 0.0) * below, 0.0)
        variance = np.einsum("ja,ja->a", C @ R, R)
        wanted = np.clip(2.0 * cost / np.maximum(variance, TINY),
                         _LEAST_RIDGE * table._unit, _MOST_RIDGE * table._unit)
        fill = (below + above) / (table._dual.hi - table._dual.lo)[table._places] / _FULL
        wanted = np.where(fill > 1.0, np.maximum(wanted, ridge * fill**2), wanted)
        return np.clip(ridge**0.7 * wanted**0.3, ridge / step, ridge * step)


_Way = type[_ByProjection] | type[_BySplitting]


@dataclass
class _Found:
    """A certificate (see `GameBound`), and where the loss is large: mean and covariance."""

    bound: float
    reduced: np.ndarray
    z: np.ndarray
    X: np.ndarray


class _Terms:
    """What the certificates need to know of a policy.

    ``plain`` is D(t), ``value`` the same less a bound on all rounding errors; ``a`` and ``B`` are
    over the ``active`` rows of the free variables, those with a multiplier.
    """

    def __init__(
        self, game: RecourseTable, policy: Policy, active: np.ndarray, half: np.ndarray,
        on_free: np.ndarray, on_places: np.ndarray,
    ) -> None:
        self._game, self.policy, self.active, self.half = game, policy, active, half
        self.on_free, self.on_places = on_free, on_places
        t, free, p = policy.t, game._free[active], game._dual.p
        s, R, F = t[free], policy.R[active], p - half
        self.a = s * F[free] - R @ F[policy.places]
        self.B = 0.25 * (s[:, None] * on_free[:, active].T - R @ on_places.T)
        self.plain = t @ (p - 0.5 * half)
        self.value = self.plain - rounding(p, game._diag, np.abs(t).sum() + np.abs(R).sum())

    @classmethod
    def of(cls, game: RecourseTable, policy: Policy) -> _Terms:
        """Computed afresh: K t / 2, and K delta_j on the free variables and on the places."""
        active = np.flatnonzero(policy.t[game._free])
        s, R = policy.t[game._free[active], None], policy.R[active]
        return cls(
            game, policy, active, 0.5 * (game._K @ policy.t),
            s * game._KFF[active] - R @ game._KFA.T, s * game._KFA[active] - R @ game._KAA,
        )

    def towards(self, other: _Terms, share: float) -> _Terms:
        """Those of the policy that lies ``share`` of the way to the other's, by linearity.

        Each such step adds a rounding error of its own, far less than `value` allows for.
        """
        active = np.union1d(self.active, other.active)
        rows = np.searchsorted(active, self.active), np.searchsorted(active, other.active)

        def between(mine: np.ndarray, its: np.ndarray) -> np.ndarray:
            both = np.zeros((active.size, mine.shape[1]))
            both[rows[0]] = (1.0 - share) * mine
            both[rows[1]] += share * its
            return both

        return _Terms(
            self._game, self.policy.towards(other.policy, share), active,
            (1.0 - share) * self.half + share * other.half,
            between(self.on_free, other.on_free), between(self.on_places, other.on_places),
        )

    def expected(self, found: _Found) -> float:
        """What the policy is worth against a mixture."""
        i = self.active
        z, X = found.z[i], found.X[np.ix_(i, i)]
        return float(self.plain - self.a @ z - z @ self.B @ z - np.vdot(self.B, X))


def _even(missing: np.ndarray, places: int) -> np.ndarray:
    """What is missing of each row, in even parts."""
    return np.outer(missing, np.full(places, 1.0 / max(places, 1)))


def _less_than_budget(
    a: np.ndarray, B: np.ndarray, rates: Rates, active: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Linear and quadratic loss plus kappa w'v (r - w'v) for every rate.

    That is not negative for the sets within the budgets and zero where they are used up, so it may
    be added; kappa takes the mean off the quadratic term, which makes that easier to dominate.
    """
    for row, budget in zip(rates.weights, rates.budgets, strict=True):
        w = row[active]
        total = w.sum()
        if total > 0.0:
            kappa = max(w @ B @ w, 0.0) / total**2
            a, B = a + kappa * budget * w, B - kappa * np.outer(w, w)
    return a, B


@outer
def _balance(t: np.ndarray, lo: np.ndarray, hi: np.ndarray, is_free: np.ndarray) -> bool:
    """Clip t to its box and restore ``sum(t) = 0``, in place; the free variables stay.

    What is missing goes to variables inside their box first, in proportion to their room.
    """
    mass = TINY
    for i in range(t.size):
        if not is_free[i]:
            if lo[i] > hi[i]:
                return False
            t[i] = min(max(t[i], lo[i]), hi[i])
        mass += abs(t[i])
    for phase in range(4):
        short = -t.sum()
        if abs(short) <= 4.0 * _EPS * t.size * mass:
            return True
        total = 0.0
        for i in range(t.size):
            if not is_free[i] and (phase >= 2 or lo[i] < t[i] < hi[i]):
                total += min(hi[i] - t[i] if short > 0.0 else t[i] - lo[i], 1e3)
        if total > 0.0:
            share = min(abs(short) / total, 1.0)
            for i in range(t.size):
                if not is_free[i] and (phase >= 2 or lo[i] < t[i] < hi[i]):
                    if short > 0.0:
                        t[i] = min(t[i] + share * min(hi[i] - t[i], 1e3), hi[i])
                    else:
                        t[i] = max(t[i] - share * min(t[i] - lo[i], 1e3), lo[i])
    return abs(t.sum()) <= 4.0 * _EPS * t.size * mass


@outer
def _climb(
    a: np.ndarray, B: np.ndarray, active: np.ndarray, rates: Rates, delta: np.ndarray,
    z: np.ndarray, steps: int,
) -> None:
    """Conditional-gradient steps of z on the loss (a + delta)'z - z'(delta - B)z."""
    m = active.size
    loss, chosen, away = np.zeros(z.size), np.empty(z.size), np.empty(z.size)
    x = np.empty(m)
    for _ in range(steps):
        for k in range(m):
            x[k] = z[active[k]]
        product = np.dot(B, x)
        for k in range(m):
            loss[active[k]] = a[k] + delta[k] - 2.0 * (delta[k] * x[k] - product[k])
        _top_set(loss, rates, chosen)
        for j in range(z.size):
            away[j] = chosen[j] - z[j]
        slope = np.dot(loss, away)
        if slope <= 0.0:
            return
        for k in range(m):
            x[k] = away[active[k]]
        product = np.dot(B, x)
        for k in range(m):
            product[k] = delta[k] * x[k] - product[k]
        step = min(1.0, 0.5 * slope / max(np.dot(x, product), TINY))
        for j in range(z.size):
            z[j] += step * away[j]


@inner
def _top_set(loss: np.ndarray, rates: Rates, chosen: np.ndarray) -> None:
    """Write an allowed set of large loss as a 0-1 vector: greedy."""
    weights, budgets, exact = rates
    left = np.empty(budgets.size)
    for rate in range(budgets.size):
        left[rate] = budgets[rate] + ROUNDING
    for j in descending(loss):
        fits = True
        wanted = loss[j] > 0.0
        for rate in range(budgets.size):
            if weights[rate, j] > 0.0:
                fits = fits and weights[rate, j] <= left[rate]
                wanted = wanted or exact[rate]
        chosen[j] = 1.0 if fits and wanted else 0.0
        if fits and wanted:
            for rate in range(budgets.size):
                left[rate] -= weights[rate, j]
