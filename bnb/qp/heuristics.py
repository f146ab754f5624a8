"""Incumbents for mixed-integer QPs: rounding, diving, swaps and annealing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from relaxations import OutOfTimeError

from ..problem import Goal
from .local_search import BinaryLocalSearch

if TYPE_CHECKING:
    from .miqp import MIQP

Found = list[tuple[str, np.ndarray]]

_ANNEAL_RUNS = 4
_ANNEAL_AGAIN = 32  # nodes after which it goes on, once at every doubling of their number
_MOVES_PER_VARIABLE = 2000
_SWAP_TRIALS, _SWAPS = 60, 240  # that the rows allow, and in all


class Heuristics:
    """Looks for solutions of one MIQP and remembers the best."""

    def __init__(
        self, problem: MIQP, best: float = np.inf, best_x: np.ndarray | None = None
    ) -> None:
        self._problem = problem
        self.best = best
        self.best_x = best_x
        self._searched: np.ndarray | None = None  # the last point that was a local optimum

    def _keep(self, source: str, x: np.ndarray, found: Found) -> None:
        objective, violation = self._problem.check(x)
        if violation <= 1e-6 and objective < self.best:
            self.best, self.best_x = objective, x
            found.append((source, x))

    def at_root(self, x: np.ndarray, goal: Goal) -> Found:
        """Round and dive from the first relaxation, or round and search from there."""
        if goal.incumbent is not None:
            self.best, self.best_x = goal.objective, goal.incumbent
        found = self.round(x, goal)
        if self.best_x is not None and self._problem.rules.local_search is not None:
            return found + self.swap(goal)
        return found + self._dive(x, goal)

    def at_node(self, x: np.ndarray, lb: np.ndarray, ub: np.ndarray, goal: Goal) -> Found:
        """Round the node's relaxation: if it is almost whole or there is no incumbent, else now
        and then.  Annealing goes on, too, ever more rarely."""
        problem = self._problem
        problem.evaluations += 1
        again, rest = divmod(problem.evaluations, _ANNEAL_AGAIN)
        due = rest == 0 and again.bit_count() == 1
        found = self.anneal(goal, [_ANNEAL_RUNS + again]) if due else []
        whole = x[problem.is_integer]
        fractional = np.abs(whole - np.round(whole)) > 1e-4
        due = problem.evaluations % 10 == 0 or self.best_x is None
        if fractional.sum() > 2 and not due:
            return found
        return found + self._round_within(x, lb, ub, goal)

    def round(self, x: np.ndarray, goal: Goal) -> Found:
        """Fix and propagate within the root's bounds, then complete."""
        box = self._problem.root()
        return self._round_within(x, box.lb, box.ub, goal)

    def _round_within(
        self, x: np.ndarray, lb: np.ndarray, ub: np.ndarray, goal: Goal
    ) -> Found:
        found: Found = []
        fixed = self._problem.fix_and_propagate(x, lb, ub, goal.patience)
        if fixed is not None:
            self._complete(*fixed, "R", found, goal)
        return found

    def _complete(
        self, lb: np.ndarray, ub: np.ndarray, source: str, found: Found, goal: Goal
    ) -> None:
        """Give the continuous variables their best values for fixed integers, if there is time."""
        problem = self._problem
        try:
            x = lb if problem.is_integer.all() else problem.complete(lb, ub, goal.patience).x
        except OutOfTimeError:
            return
        self._keep(source, problem.snap(x, lb, ub), found)

    def _dive(self, x: np.ndarray, goal: Goal) -> Found:
        """From the root, fix the most integral third, solve again, and so on."""
        problem = self._problem
        found: Found = []
        lb, ub = problem.root().lb.copy(), problem.root().ub.copy()
        for _ in range(12):
            open_ = np.flatnonzero(problem.is_integer & (lb < ub))
            if not open_.size:
                self._complete(lb, ub, "D", found, goal)
                break
            if goal.expired():
                break
            distance = np.abs(x[open_] - np.round(x[open_]))
            take = open_[np.argsort(distance, kind="stable")[: max(1, len(open_) // 3)]]
            lb[take] = ub[take] = np.clip(np.round(x[take]), lb[take], ub[take])
            if not problem.propagate(lb, ub):
                break
            try:
                solution = problem.relax_plainly(lb, ub, self.best, goal.patience)
            except OutOfTimeError:
                break
            if solution.bound >= self.best:
                break
            x = solution.x
        return found

    def anneal(self, goal: Goal, runs: Iterable[int] = range(_ANNEAL_RUNS)) -> Found:
        """Local search around the best point of a pure binary problem, each run another one."""
        found: Found = []
        problem = self._problem
        box = problem.root()
        movable = box.lb < box.ub
        binary = problem.is_integer & (box.lb >= 0) & (box.ub <= 1)
        if self.best_x is None or not movable.any() or not binary.all():
            return found
        search = BinaryLocalSearch(problem.P, problem.q, problem.A, problem.l, problem.u, movable)
        moves = _MOVES_PER_VARIABLE * int(movable.sum())
        for run in runs:
            if goal.expired():
                break
            best = search.run(self.best_x, moves, goal.seed + run, goal.expired)
            self._keep("L", best, found)
        return found

    def swap(self, goal: Goal) -> Found:
        """Local search around the best point with switches: turn one on, or exchange one that is
        on for one off, first those that promise most."""
        found: Found = []
        search = self._problem.rules.local_search
        if self.best_x is not None and search is not None:
            if self.best_x is not self._searched:
                self._keep("L", search(self.best_x, goal), found)
            self._searched = self.best_x
            return found
        tried: set[tuple[int, int]] = set()
        trials = 0
        around: np.ndarray | None = None
        left: Iterator[tuple[int, int]] = iter(())
        while trials < _SWAP_TRIALS and len(tried) < _SWAPS and not goal.expired():
            if around is not self.best_x:
                around, left = self.best_x, self._swaps()
            pair = next((pair for pair in left if pair not in tried), None)
            if pair is None:
                break
            tried.add(pair)
            trials += self._try_swap(*pair, found, goal)
        return found

    def _swaps(self) -> Iterator[tuple[int, int]]:
        """Who might go off (-1: none) and who on, the best guesses first.

        Without x_j about P_jj x_j² / 2 is lost, and with it about g_j² / (2 P_jj) gained, where g
        is the gradient less that of the variables that are on: rows may hold all of these alike.
        """
        problem, x = self._problem, self.best_x
        assert x is not None
        links = problem.links()
        curve = np.maximum(problem.P.diagonal()[links.x], 1e-12)
        gradient = (problem.P @ x + problem.q)[links.x]
        is_on = x[links.z] > 0.5
        if is_on.any():
            gradient = gradient - gradient[is_on].mean()
        worth = np.where(is_on, 0.5 * curve * x[links.x] ** 2, 0.5 * gradient**2 / curve)
        total = np.bincount(links.z, worth, minlength=x.size)
        on = np.unique(links.z[is_on])
        off = np.unique(links.z[~is_on])
        leaving = np.append(-1, on[np.argsort(total[on], kind="stable")])
        for j in off[np.argsort(-total[off], kind="stable")]:
            for i in leaving:
                yield int(i), int(j)

    def _try_swap(self, out: int, into: int, found: Found, goal: Goal) -> bool:
        """Switch one off (-1: none) and another on, and complete; False if the rows forbid it."""
        problem = self._problem
        assert self.best_x is not None
        box = problem.root()
        lb, ub = box.lb.copy(), box.ub.copy()
        values = np.round(np.clip(self.best_x, lb, ub))
        values[into] = 1.0
        if out >= 0:
            values[out] = 0.0
        whole = problem.is_integer
        lb[whole] = ub[whole] = values[whole]
        if not problem.propagate(lb, ub):
            return False
        self._complete(lb, ub, "L", found, goal)
        return True
