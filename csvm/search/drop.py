"""The search by the drop bound: split on the intercept and on the anchors dropped most often.

The bound needs a narrow interval of the intercept; see docs/bounds.md.
"""

from __future__ import annotations

import numpy as np

from bnb.problem import Candidate, Child, Evaluation, Goal
from relaxations.svm.bounds.drop import DropBound
from relaxations.svm.bounds.game import DropGame

from .convex import ConvexSearch
from .instance import ENFORCED, FREE, GIVEN_UP, Instance
from .settings import Settings
from .state import State

__all__ = ["DropSearch"]


class DropSearch:
    """Bounds and splits nodes on intervals of the intercept."""

    def __init__(
        self, instance: Instance, convex: ConvexSearch, game: DropGame, settings: Settings
    ) -> None:
        self._in, self._convex, self._game, self._settings = instance, convex, game, settings
        self._split = np.zeros((instance.m, instance.m))
        self.games = 0

    def evaluate(self, node: State, goal: Goal) -> Evaluation:
        """Bound a node, decide what the bound decides, and test the children of its best split.

        Whatever is taken out of the node on the way cannot beat the cutoff.
        """
        cutoff, bound = goal.cutoff, -np.inf
        unbounded = not np.isfinite(node.b_u - node.b_l)
        node = self._cut_interval(node, cutoff)
        if node.b_l > node.b_u:
            return Evaluation(cutoff, removed=cutoff)
        if unbounded and np.isfinite(cutoff + node.b_u - node.b_l):
            node, bound = self._shave_interval(node, goal)
        while True:
            if node.bound == -np.inf and not self._wide(node):
                self._settle(node, goal)
            bound = max(bound, node.bound)
            if bound >= cutoff:
                return Evaluation(bound, removed=cutoff)
            if self._in.propagate(node.status) is None:
                return Evaluation(np.inf, removed=cutoff)
            if not self._suits(node):
                node.bound = bound
                return self._convex.evaluate(node, goal)
            key = self._choose(node, cutoff - bound)
            if goal.expired():
                children = [Child(c, bound) for c in self._children(node, key)]
                return Evaluation(bound, [], [Candidate(key)], children, removed=cutoff)
            children = self._test(node, key, goal)
            if len(children) == 2:
                break
            if not children:
                return Evaluation(cutoff, removed=cutoff)
            node = children[0].state
        bound = max(bound, min(child.bound for child in children))
        return Evaluation(bound, [], [Candidate(key)], children, removed=cutoff)

    def _suits(self, node: State) -> bool:
        """Whether there are more choices of anchors than intervals of the intercept.

        Without an incumbent nothing bounds the intercept: then the anchors are decided first.
        """
        width, free = node.b_u - node.b_l, node.free.size
        return free > 0 and bool(width / self._settings.wide <= 2.0 ** min(free, 30))

    def _wide(self, node: State) -> bool:
        return not node.b_u - node.b_l <= self._settings.wide

    def _children(self, node: State, key: int) -> list[State]:
        if key < self._in.m:
            return [node.with_status(key, ENFORCED), node.with_status(key, GIVEN_UP)]
        low, high = node.part(), node.part()
        low.b_u = high.b_l = 0.5 * (node.b_l + node.b_u)
        return [low, high]

    def _test(self, node: State, key: int, goal: Goal) -> list[Child]:
        """The children that are not refuted.

        Of an anchor only the child that enforces it is tested: the other one mostly is as open as
        the node itself.
        """
        left = []
        for child in self._children(node, key):
            if (key == self._in.m or child.status[key] == ENFORCED) and not goal.expired():
                self._settle(child, goal)
            if not child.bound >= goal.cutoff:
                left.append(Child(child, child.bound))
        return left

    def _settle(self, node: State, goal: Goal) -> None:
        """Bound a node and fix what the bound decides, until it decides no more."""
        bound = -np.inf
        while True:
            left = self._in.propagate(node.status)
            if left is None:
                node.bound = np.inf
            elif node.free.size == 0:
                solved = self._convex.solve(node, goal)
                node.t, node.bound = solved.t, solved.bound
            elif self._play(node, left, goal) and not goal.expired():
                bound = max(bound, node.bound)
                continue
            node.bound = max(bound, node.bound)
            return

    def _cut_interval(self, state: State, cutoff: float) -> State:
        """A copy of the node without intercepts that cannot beat the cutoff.

        With ||w||^2 <= UB and the positives' costs summing to C+, some positive point has slack at
        most UB / C+, hence beta >= 1 - UB / C+ - ||w|| max ||phi||; likewise for the negatives.
        """
        data, b_l, b_u = self._in, state.b_l, state.b_u
        if np.isfinite(cutoff):
            reach = np.sqrt(max(cutoff, 0.0) * data.gram.diag.max())
            positive, negative = data.hi[: data.first].sum(), -data.lo[: data.first].sum()
            if positive > 0:
                b_l = max(b_l, 1.0 - cutoff / positive - reach)
            if negative > 0:
                b_u = min(b_u, cutoff / negative - 1.0 + reach)
        node = state.part()
        if (b_l, b_u) == (state.b_l, state.b_u):
            node.bound, node.width_cost = state.bound, state.width_cost
        node.b_l, node.b_u = b_l, b_u
        return node

    def _shave_interval(self, node: State, goal: Goal) -> tuple[State, float]:
        """The node without pieces at both ends that the plain convex bound refutes.

        Also that bound on the whole of it.
        """
        self._in.propagate(node.status)
        rough, wide = self._settings.rough, self._settings.wide
        bound = self._convex.solve(node, goal, rough).bound
        for side in (0, 1):
            share = 0.5
            while share > 0.02 and node.b_u - node.b_l > 0.1 * wide and not goal.expired():
                piece, rest = node.part(), node.part()
                width = share * (node.b_u - node.b_l)
                if side == 0:
                    piece.b_u = rest.b_l = node.b_l + width
                else:
                    piece.b_l = rest.b_u = node.b_u - width
                if self._convex.solve(piece, goal, rough).bound >= goal.cutoff:
                    node = rest
                else:
                    share *= 0.5
        return node, bound

    def _play(self, node: State, left: np.ndarray, goal: Goal) -> bool:
        """Find the drop bound of a node on a bounded interval, which learns from it.

        Returns whether that decided any anchor.
        """
        settings, free, cutoff = self._settings, node.free, goal.cutoff
        dual = self._in.dual(node.status != GIVEN_UP, node.b_l, node.b_u)
        np.clip(node.t, dual.lo, dual.hi, out=node.t)
        rates, variables = self._in.rates(free, left), self._in.anchors(free)
        fresh = node.age == 0
        if fresh:
            mixture = self._game.soft_start(dual, variables, rates, node.t, cutoff, goal.patience)
            mixture.age = settings.start_age
        else:
            mixture = node.recall(free)
        self.games += 1
        wide = self._wide(node)
        thorough = fresh and not wide
        played = self._game.play(
            dual, variables, rates, node.t, mixture, self._split, cutoff,
            settings.first_rounds if thorough else settings.rounds,
            (3 if thorough else 1) * settings.patience, goal.patience,
        )
        if not wide:  # what is learned on a wide interval is a bad start on a part of it
            node.remember(free, mixture, settings.rare, settings.most_age)
        found = played.certificate
        node.bound, node.width_cost = found.bound, played.middle - found.bound
        if node.bound < cutoff and self._ignores(node):
            # Then what is enforced says at least as much by itself.
            plain = self._convex.solve(node, goal)
            node.t, node.bound = plain.t, max(node.bound, plain.bound)
        return node.bound < cutoff and self._fix(node, free, found, cutoff)

    def _ignores(self, node: State) -> bool:
        """Whether the bound puts no multiplier on any free anchor."""
        return not node.t[self._in.anchors(node.free)].any()

    def _fix(self, node: State, free: np.ndarray, found: DropBound, cutoff: float) -> bool:
        """Decide anchors for which the other choice cannot beat the cutoff."""
        ends, reduced = found.ends[:, None], found.reduced
        if_given_up = (ends + np.maximum(-reduced, 0.0)).min(axis=0)
        if_enforced = (ends + np.maximum(reduced, 0.0)).min(axis=0)
        node.status[free[if_given_up >= cutoff]] = ENFORCED
        node.status[free[if_enforced >= cutoff]] = GIVEN_UP
        return bool(np.any(node.status[free] != FREE))

    def _choose(self, node: State, gap: float) -> int:
        """The intercept while its interval costs much of the gap, else an undecided anchor."""
        if self._wide(node):
            return self._in.m
        width = node.b_u - node.b_l
        # A bound without multipliers on free anchors cannot tell what the width costs; it wins
        # where the interval is too wide for any other.
        blind = width > self._settings.narrow and self._ignores(node)
        smallest = 1e-9 * max(1.0, abs(node.b_l), abs(node.b_u))
        if blind or (width > smallest and node.width_cost > self._settings.width_share * gap):
            return self._in.m
        # Anchors that are nearly always given up: enforcing one is soon refuted, and giving it up
        # spends the budget, so the tree is a path with short side branches.
        u = node.u[node.free]
        return int(node.free[np.argmax(np.where(u < self._settings.decided, u, 0.0))])
