"""Feasible classifiers found on the way: greedy releases, alternation, local search.

All of them choose which anchors to keep, solve the convex problem that enforces exactly these, and
read a classifier from its multipliers: slid, or scaled, until the rates hold.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bnb.problem import Goal
from relaxations.jit import inner, outer
from relaxations.patience import Patience
from relaxations.svm.bounds.convex import OVERHEAD
from relaxations.svm.bounds.drop import ROUNDING
from relaxations.svm.dual import Dual, Effort, Point, gradient, intercept, make_feasible
from relaxations.svm.solvers import NodeSolver

from .instance import FREE, GIVEN_UP, Instance
from .settings import Settings

__all__ = ["Finder"]

_SATISFIED = 1.0 - 1e-12
_ROUNDS = 100
_ROWS = 400  # per variable, that a convex problem may take: heuristics need no proof
_TOL = 1e-6  # violation at which one counts as solved
_ROUGH = 1e-4  # the same where only the order of the multipliers matters
_BATCHES = 24  # parts in which a budget is used up
_NEARBY = 1.02  # classifiers that are dearer than this are not worth a descent
_MOST_TIME = 0.2  # share of the time for the first classifiers, after which no more are begun
_DEAREST = 256.0  # largest cost of missing an anchor, in units of the points' mean cost


class Finder:
    """Looks for classifiers of one instance.

    Parameters
    ----------
    instance : Instance
    solver : NodeSolver
    settings : Settings

    Attributes
    ----------
    part : float
        How much of the local search is to be done here; the rest is that of other processes.
    """

    def __init__(self, instance: Instance, solver: NodeSolver, settings: Settings) -> None:
        self._in = instance
        self._solver = solver
        self._settings = settings
        self._unit = float(instance.cost.mean()) if instance.cost.size else 1.0
        self._rounded = 0
        self._around = np.inf  # objective of the classifier that the local search is at
        self._walk: Iterator[tuple[float, np.ndarray]] = iter(())
        self._hint: np.ndarray | None = None  # which anchors to keep, by the last game
        self.operations = 0.0
        self.part = 1.0
        self._last = 0.0  # operations by which the last better classifier was found

    @property
    def spent(self) -> tuple[float, float]:
        """Operations so far, and by when the last better classifier was found."""
        return self.operations, self._last

    @spent.setter
    def spent(self, before: tuple[float, float]) -> None:
        self.operations, self._last = before

    def round(
        self, status: np.ndarray, slack: np.ndarray, t: np.ndarray, goal: Goal
    ) -> list[tuple[str, np.ndarray]]:
        """Now and then, alternation that first gives up what a node's solution misses most."""
        self._rounded += 1
        if self._rounded % self._settings.round_every != 1:
            return []
        kept = self._best_kept(slack, status)
        _, x = self.alternate(kept, t, goal.objective, goal.patience)
        return [] if x is None else [("R", x)]

    def suggest(self, worth: np.ndarray, status: np.ndarray) -> None:
        """Let a descent begin with those free anchors of a node given up that are worth most."""
        self._hint = self._best_kept(worth, status)

    def read(
        self, t: np.ndarray, F: np.ndarray, kept: np.ndarray, hint: float
    ) -> tuple[float, np.ndarray]:
        """The best classifier with the direction of t, and its objective; see `_read`."""
        data = self._in
        value, scale, beta = _read(
            data.p, data.cost, t, data.p - F, data.first, data.weights, data.budgets, kept, hint
        )
        return value, np.append(scale * t[: data.n], beta)

    def alternate(
        self, kept: np.ndarray, t: np.ndarray, bar: float, patience: Patience, tol: float = _TOL
    ) -> tuple[float, np.ndarray | None]:
        """Enforce the kept anchors, solve, keep the best margins instead, and so on.

        Stops when a round does not get below `bar` or the best so far.

        Returns
        -------
        objective, x
            inf and None if nothing is below the bar.
        """
        data, best, best_x = self._in, np.inf, None
        nothing = np.zeros(data.m, np.int8)
        t = t.copy()
        for _ in range(_ROUNDS):
            dual = data.dual(kept)
            F = self._solve(dual, t, min(bar, best), tol, patience)
            value, x = self.read(t, F, kept, intercept(dual, Point(t, F)))
            if not value < min(bar, best - 1e-9 * abs(best)):
                break
            best, best_x = value, x
            if patience.expired():
                break
            margins = data.p[: data.n] * (data.p - F + x[data.n])[: data.n]
            kept = self._best_kept(1.0 - margins[data.first :] + 1e-9, nothing)
        return best, best_x

    def sweep(self, patience: Patience) -> tuple[float, np.ndarray | None]:
        """Alternation from greedy releases, for several costs of missing an anchor.

        With a cost that no multiplier reaches, dearer ones give the same.  Of a limited time most
        is left for the bound.
        """
        data, best, best_x = self._in, np.inf, None
        enough = (1.0 - _MOST_TIME) * patience.seconds()
        for level in self._settings.levels:
            kept, t = np.ones(data.m, np.bool_), np.zeros(data.n + 2)
            largest = self._release(kept, t, level * self._unit, patience)
            value, x = self.alternate(kept, t, best, patience)
            if value < best:
                best, best_x = value, x
            late = patience.expired() or patience.seconds() < enough
            if late or largest < 0.5 * level * self._unit:
                break
        return best, best_x

    def _release(
        self, kept: np.ndarray, t: np.ndarray, cap: float, patience: Patience
    ) -> float:
        """Give up the anchors that cost most, a few at a time, until the budgets are used up.

        Missing a kept anchor costs ``cap``, so that its multiplier tells what it costs also where
        not all can be kept.  ``kept`` and ``t`` change in place; returns the largest multiplier
        that was met.
        """
        data, at, largest = self._in, self._in.anchors(), 0.0
        left = data.budgets - data.weights @ ~kept
        batch = max(1, int(left.sum() / _BATCHES))
        while True:
            dual = data.dual(kept)
            dual.hi[at], dual.lo[at] = np.minimum(dual.hi[at], cap), np.maximum(dual.lo[at], -cap)
            F = self._solve(dual, t, np.inf, _ROUGH, patience)
            force, slack = np.abs(t[at]), np.maximum(self._slack(dual, t, F), 0.0)
            largest = max(largest, float(force.max(initial=0.0)))
            # D falls by about this if j leaves: its slack is no longer paid, and w relaxes.
            saved = force * (slack + 0.25 * force * data.gram.diag[at])
            chosen = _dearest(saved, kept, data.weights, left, batch)
            if not chosen or patience.expired():
                return largest
            kept[chosen] = False
            left -= data.weights[:, chosen].sum(axis=1)

    def improve(
        self, goal: Goal, bound: float, operations: float
    ) -> list[tuple[str, np.ndarray]]:
        """Go on with the local search around the incumbent, with a share of all operations.

        The share follows the gap that is left: that is what a better classifier could gain.
        """
        if goal.incumbent is None or not self.part:
            return []
        settings = self._settings
        gap = (goal.objective - bound) / max(abs(goal.objective), 1e-300)
        most = min(max(settings.local_per_gap * gap, settings.local_share), settings.local_most)
        long = 2.0 * self._last + settings.local_first
        hopeful = min(most * operations, self.part * long)
        work = max(settings.local_share * operations, hopeful)
        if goal.objective < self._around - 1e-9 * abs(goal.objective):
            self._around = goal.objective
            self._walk = self._explore(
                goal.incumbent, goal.objective, goal.patience, goal.seed
            )
        better: list[tuple[str, np.ndarray]] = []
        while self.operations < work and not goal.expired():
            objective, x = next(self._walk, (np.inf, None))
            if x is None:
                break  # there is nothing to change
            if objective < self._around - 1e-9 * abs(objective):
                self._around, self._last = objective, self.operations
                better = [("L", x)]
        return better

    def descend(
        self, x: np.ndarray, objective: float, patience: Patience, swaps: bool = True
    ) -> Iterator[tuple[float, np.ndarray]]:
        """Release an enforced anchor, or exchange one for one given up, while that helps.

        Yields the best classifier so far after every trial, which ends as soon as its dual value
        passes the objective.
        """
        improved = True
        while improved:
            improved = False
            for kept, t in self._neighbours(x, patience, swaps):
                value, found = self.alternate(kept, t, _below(objective), patience)
                if found is not None:
                    objective, x, improved = value, found, True
                yield objective, x
                if improved or patience.expired():
                    break

    def _explore(
        self, x: np.ndarray, objective: float, patience: Patience, seed: int
    ) -> Iterator[tuple[float, np.ndarray]]:
        """Descend; then for ever descend from other starts.

        In turn from what the last game suggests, if there was one meanwhile, and from the best
        classifier with some given-up anchors enforced and others released.
        """
        for better in self.descend(x, objective, patience):
            objective, x = better
            yield better
        rng, suggested = np.random.default_rng(seed), False
        while self._in.m:
            suggested = self._hint is not None and not suggested
            if suggested:
                kept, t = self._hinted(x)
                bar = np.inf  # far off before its descent
            else:
                kept, t = self._redrawn(x, rng, patience)
                bar = _NEARBY * objective
            value, other = self.alternate(kept, t, bar, patience)
            yield objective, x
            if other is None:
                continue
            for found in self.descend(other, value, patience, swaps=suggested):
                if found[0] < _below(objective):
                    objective, x = found
                yield objective, x

    def _hinted(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the last game suggests to keep, once, and multipliers to start from."""
        assert self._hint is not None
        kept, self._hint = self._hint, None
        return kept, np.append(x[: self._in.n], [0.0, 0.0])

    def _redrawn(
        self, x: np.ndarray, rng: np.random.Generator, patience: Patience
    ) -> tuple[np.ndarray, np.ndarray]:
        """What to keep if some anchors that are given up must stay, and multipliers there."""
        kept, t = self._in.kept(x), np.append(x[: self._in.n], [0.0, 0.0])
        lost = np.flatnonzero(~kept)
        size = min(int(rng.integers(2, max(3, lost.size // 2) + 1)), lost.size)
        kept[rng.choice(lost, size, replace=False)] = True
        self._release(kept, t, self._unit * _DEAREST ** rng.random(), patience)
        return kept, t

    def _neighbours(
        self, x: np.ndarray, patience: Patience, swaps: bool
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Which anchors to keep instead, and multipliers to start from."""
        for anchor in self._binding(x):
            yield self._without(x, anchor, patience)
        if swaps:
            kept, t = self._in.kept(x), np.append(x[: self._in.n], [0.0, 0.0])
            for released, enforced in self._pairs(x, self._settings.swap_work // self._in.n):
                other = kept.copy()
                other[released], other[enforced] = False, True
                yield other, t

    def _binding(self, x: np.ndarray) -> np.ndarray:
        """Kept anchors that cost something, first those that by a guess save most: t_j^2 K_jj."""
        at = self._in.anchors()
        saved = np.where(self._in.kept(x), x[at] ** 2 * self._in.gram.diag[at], 0.0)
        return np.argsort(-saved, kind="stable")[: np.count_nonzero(saved)]

    def _without(
        self, x: np.ndarray, released: int, patience: Patience
    ) -> tuple[np.ndarray, np.ndarray]:
        """What is best to keep where this anchor is given up, and the multipliers there."""
        data, kept, t = self._in, self._in.kept(x), np.append(x[: self._in.n], [0.0, 0.0])
        kept[released] = False
        dual = data.dual(kept)
        F = self._solve(dual, t, np.inf, _TOL, patience)
        badness = self._slack(dual, t, F) + 1e-9
        badness[released] = badness.max() + 1.0
        return self._best_kept(badness, np.zeros(data.m, np.int8)), t

    def _slack(self, dual: Dual, t: np.ndarray, F: np.ndarray) -> np.ndarray:
        """1 - y_j f(x_j) of all anchors."""
        at = self._in.anchors()
        return self._in.p[at] * (F[at] - intercept(dual, Point(t, F)))

    def _solve(
        self, dual: Dual, t: np.ndarray, target: float, tol: float, patience: Patience
    ) -> np.ndarray:
        """Maximise from the feasible point nearest to t, in place; the gradient there."""
        make_feasible(t, dual.lo, dual.hi)
        point = Point(t, np.empty_like(t))
        gradient(dual.gram, dual.p, *point)
        effort = Effort(tol, _ROWS * t.size, target)
        rows, _ = self._solver.maximise(dual, point, effort, patience=patience)
        self.operations += OVERHEAD + rows * float(t.size)
        return point.F

    def _best_kept(self, badness: np.ndarray, status: np.ndarray) -> np.ndarray:
        """Give up the worst anchors that the budgets allow; which are kept."""
        kept = status != GIVEN_UP
        left = self._in.budgets - self._in.weights @ ~kept
        kept[_dearest(badness, status == FREE, self._in.weights, left)] = False
        return kept

    def _pairs(self, x: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
        """(released, enforced) within the budgets, the best guess first."""
        data = self._in
        slack = 1.0 - (data.p[: data.n] * data.decision(x))[data.first :]
        pairs, guess = _swap_pairs(
            x[data.first : data.n], slack, data.gram.diag[data.first : data.n], data.weights,
            data.budgets, data.kept(x),
        )
        for a in np.argsort(guess, kind="stable")[:most]:
            yield int(pairs[a, 0]), int(pairs[a, 1])


def _below(objective: float) -> float:
    """What counts as better than this."""
    return objective - 1e-7 * abs(objective)


@inner
def _within_budgets(
    half: np.ndarray, beta: float, p: np.ndarray, first: int, weights: np.ndarray,
    budgets: np.ndarray,
) -> bool:
    """Whether the anchors that ``f = half + beta`` misses fit the budgets."""
    for rate in range(budgets.size):
        missed = 0.0
        for j in range(weights.shape[1]):
            if p[first + j] * (half[first + j] + beta) < _SATISFIED:
                missed += weights[rate, j]
        if missed > budgets[rate] + ROUNDING:
            return False
    return True


@outer
def _read(
    p: np.ndarray, cost: np.ndarray, t: np.ndarray, half: np.ndarray, first: int,
    weights: np.ndarray, budgets: np.ndarray, kept: np.ndarray, hint: float,
) -> tuple[float, float, float]:
    """The best of feasible intercepts near ``hint`` for w given by ``t`` (sliding beta), and of
    (w, beta) scaled until the kept anchors have margin 1 (where both classes are kept).

    Returns
    -------
    objective, scale, beta : float
        The objective is infinite if nothing feasible was found.
    """
    below = -np.inf
    above = np.inf
    if _within_budgets(half, hint, p, first, weights, budgets):
        below = hint
        above = hint
    else:
        for j in range(weights.shape[1]):
            beta = p[first + j] - half[first + j]
            if below < beta < above and _within_budgets(half, beta, p, first, weights, budgets):
                if beta > hint:
                    above = beta
                else:
                    below = beta
    norm = 0.5 * np.dot(t, half)
    best = np.inf
    best_scale = 1.0
    best_beta = 0.0
    for beta in (below, above):
        if np.isfinite(beta):
            value = norm + _slack_cost(p, cost, half, 1.0, beta)
            if value < best:
                best = value
                best_beta = beta
    lowest = np.inf
    highest = -np.inf
    for j in range(weights.shape[1]):
        if kept[j] and p[first + j] > 0.0:
            lowest = min(lowest, half[first + j])
        elif kept[j]:
            highest = max(highest, half[first + j])
    if lowest > highest and np.isfinite(lowest - highest):
        scale = 2.0 / (lowest - highest)
        beta = 1.0 - scale * lowest
        value = scale * scale * norm + _slack_cost(p, cost, half, scale, beta)
        if value < best:
            best = value
            best_scale = scale
            best_beta = beta
    return best, best_scale, best_beta


@inner
def _slack_cost(
    p: np.ndarray, cost: np.ndarray, half: np.ndarray, scale: float, beta: float
) -> float:
    total = 0.0
    for i in range(cost.size):
        total += cost[i] * max(1.0 - p[i] * (scale * half[i] + beta), 0.0)
    return total


def _dearest(
    worth: np.ndarray, allowed: np.ndarray, weights: np.ndarray, left: np.ndarray,
    most: int | None = None,
) -> list[int]:
    """Allowed anchors of positive worth that fit what is left of the budgets together: greedy."""
    rows, room = weights.T.tolist(), (left + ROUNDING).tolist()
    some = np.flatnonzero(allowed & (worth > 0.0))
    chosen: list[int] = []
    for j in some[np.argsort(-worth[some], kind="stable")].tolist():
        if len(chosen) == most:
            break
        if all(weight <= have for weight, have in zip(rows[j], room, strict=True)):
            room = [have - weight for weight, have in zip(rows[j], room, strict=True)]
            chosen.append(j)
    return chosen


def _swap_pairs(
    t: np.ndarray, slack: np.ndarray, diag: np.ndarray, weights: np.ndarray, budgets: np.ndarray,
    kept: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (released, enforced) that respect the budgets, and a guess of what each costs."""
    released, enforced = np.flatnonzero(kept & (t != 0.0)), np.flatnonzero(~kept)
    left = budgets - weights @ ~kept + ROUNDING
    change = weights[:, released, None] - weights[:, None, enforced]
    fits = np.all(change <= left[:, None, None], axis=0)
    out, back = (ids[at] for ids, at in zip((released, enforced), np.nonzero(fits), strict=True))
    guess = slack[back] ** 2 / np.maximum(diag[back], 1e-12) - 0.25 * t[out] ** 2 * diag[out]
    return np.column_stack([out, back]), guess
