"""The search by recourse, pairs or both: split on the anchors that the game drops most often.

The intercept stays free.  A node plays the game, decides what its bound decides, and goes on as the
child that is left where the other one is refuted; see docs/bounds.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bnb.problem import Candidate, Child, Evaluation, Goal
from relaxations.svm.bounds.game import Game

from .convex import ConvexSearch
from .instance import ENFORCED, FREE, GIVEN_UP, Instance
from .settings import Settings
from .state import State

__all__ = ["RecourseSearch"]


class RecourseSearch:
    """Bounds and splits nodes by a game whose policies leave the intercept free."""

    def __init__(
        self, instance: Instance, convex: ConvexSearch, game: Game, settings: Settings
    ) -> None:
        self._in, self._convex, self._game, self._settings = instance, convex, game, settings
        self.games = 0
        self._first: State | None = None  # for nodes that come without a policy

    def evaluate(self, node: State, goal: Goal) -> Evaluation:
        """Bound a node, decide what the bound decides, and test the children of its best split."""
        cutoff = goal.cutoff
        if node.policy is None or not node.settled:
            self._settle(node, goal)
        while True:
            if node.bound >= cutoff:
                return Evaluation(node.bound, removed=cutoff)
            if not node.free.size or goal.expired() or node.policy is None:
                return self._convex.evaluate(node, goal)
            anchor = self._choose(node)
            enforced, given_up = (node.with_status(anchor, s) for s in (ENFORCED, GIVEN_UP))
            enforced.bound = given_up.bound = node.bound
            self._settle(enforced, goal)
            if enforced.bound < cutoff:
                break
            node = given_up
            self._settle(node, goal)
        children = [Child(child, child.bound) for child in (enforced, given_up)]
        return Evaluation(node.bound, [], [Candidate(anchor)], children, removed=cutoff)

    def _choose(self, node: State) -> int:
        """Often given up, and certified to cost much if it is enforced.

        Enforcing it is soon refuted; giving it up spends the budget.
        """
        return int(node.free[np.argmax(self._worth(node)[node.free])])

    def _worth(self, node: State) -> np.ndarray:
        """How often each anchor is given up, times what enforcing it is certified to cost."""
        return node.u * np.maximum(node.gain, 0.0)

    def _settle(self, node: State, goal: Goal) -> None:
        """Bound a node and fix what the bound decides, until it decides no more."""
        node.settled = True
        while True:
            left = self._in.propagate(node.status)
            if left is None:
                node.bound = np.inf
                return
            plain = self._convex.solve(node, goal)
            node.t, node.bound = plain.t, max(node.bound, plain.bound)
            if node.bound >= goal.cutoff or not node.free.size or goal.expired():
                return
            if not self._play(node, left, goal):
                return

    def _pays_longer(self, bound: float, cutoff: float) -> bool:
        """Whether a longer game pays: much is open, and pairs cannot close it."""
        missing = cutoff - bound
        return not self._in.rates_both_classes and missing > self._settings.far * abs(cutoff)

    def _play(self, node: State, left: np.ndarray, goal: Goal) -> bool:
        """Find the bound, which the node learns from; returns whether it decided any anchor."""
        data, settings, free, cutoff = self._in, self._settings, node.free, goal.cutoff
        dual = data.dual(node.status != GIVEN_UP)
        rates, variables = data.rates(free, left), data.anchors(free)
        self.games += 1
        if node.policy is None and self._first is not None:
            first = self._first
            node.policy, node.u, node.C, node.age = first.policy, first.u, first.C, first.age
        game = self._game
        if node.policy is None:
            found = game.open(
                dual, variables, rates, cutoff, settings.first_rounds, 3 * settings.patience,
                goal.patience,
            )
            if self._pays_longer(found.bound, cutoff):
                found = game.play(
                    dual, variables, rates, found.policy, found.mixture, cutoff,
                    settings.far_first, settings.far_patience, goal.patience,
                )
        else:
            status = node.status[node.policy.free - data.first]
            policy = node.policy.decided(status == ENFORCED, status == GIVEN_UP)
            far = self._pays_longer(max(node.bound, node.inherited), cutoff)
            found = game.play(
                dual, variables, rates, policy, node.recall(free), cutoff,
                settings.far_rounds if far else settings.recourse_rounds,
                settings.patience, goal.patience,
            )
        node.policy = found.policy.compact()
        node.remember(free, found.mixture, settings.rare, settings.recourse_age)
        if self._first is None and found.bound < cutoff and not goal.expired():
            self._first = replace(node)  # a game that ended early has not come far
        node.gain = np.zeros(data.m)
        node.gain[free] = found.reduced
        self._convex.finder.suggest(self._worth(node), node.status)
        node.bound = max(node.bound, found.bound)
        if node.bound >= cutoff:
            return False
        node.status[free[found.bound + np.maximum(-found.reduced, 0.0) >= cutoff]] = ENFORCED
        node.status[free[found.bound + np.maximum(found.reduced, 0.0) >= cutoff]] = GIVEN_UP
        return bool(np.any(node.status[free] != FREE))
