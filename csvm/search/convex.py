"""The search by the plain convex bound: split on the anchors that its solution violates.

Leaving the free anchors out gives a convex problem, exact in a few active-set steps after its
parent's.  If the anchors it violates fit the budgets the node is solved.  Else it is split by a
chain of them (`bnb.chains`).  Enforcing each is tried before the split; those that the incumbent
refutes are given up for good.

Where hardly any anchor may still be given up a node is split by a cover instead: violated anchors
are enforced one after the other until the incumbent refutes it, and one of them must be given up.
"""

from __future__ import annotations

import numpy as np

from bnb.chains import Chains
from bnb.problem import Candidate, Child, Evaluation, Goal
from relaxations.svm.bounds.convex import ConvexBound, Solved
from relaxations.svm.dual import Dual

from .incumbents import Finder
from .instance import ENFORCED, FREE, GIVEN_UP, Instance
from .settings import Settings
from .state import State

__all__ = ["ConvexSearch"]

_VIOLATED = 1e-7  # margins shorter than this are rounding


class ConvexSearch:
    """Bounds and splits nodes by leaving their free anchors out."""

    def __init__(
        self, instance: Instance, bound: ConvexBound, finder: Finder, settings: Settings
    ) -> None:
        self._in, self._bound, self.finder, self._settings = instance, bound, finder, settings
        self.games = 0  # it plays none

    def evaluate(self, node: State, goal: Goal) -> Evaluation:
        """Bound a node, decide what trials decide, and split it into children already solved."""
        while True:
            left = self._in.propagate(node.status)
            if left is None:
                return Evaluation(np.inf, removed=goal.cutoff)
            solved = self.solve(node, goal)
            node.t, node.bound = solved.t, max(node.bound, solved.bound)
            if node.bound >= goal.cutoff:
                return Evaluation(node.bound, removed=goal.cutoff)
            violated = self._violated(node.status, solved, left)
            if not violated.size:
                return self._leaf(node, solved, goal)
            if left.sum() <= self._settings.few:
                return self._cover(node, solved, violated, left, goal)
            trials = self._try(node, solved, Chains(self._in.weights, left), violated, goal)
            refuted = [j for j, trial in trials.items() if trial.bound >= goal.cutoff]
            node.status[refuted] = GIVEN_UP
            if not (refuted and self._decides(node.status)):
                break
        children = self._split(node, violated, trials, goal)
        bound = max(node.bound, min(child.bound for child in children))
        slack = self._slack(solved)
        solutions = [] if goal.probe else self.finder.round(node.status, slack, node.t, goal)
        return Evaluation(bound, solutions, [Candidate(0)], children, removed=goal.cutoff)

    def solve(self, node: State, goal: Goal, accuracy: float | None = None) -> Solved:
        """The node without its free anchors."""
        dual = self._in.dual(node.status == ENFORCED, node.b_l, node.b_u)
        return self._bound.apply(
            dual, node.t, goal.cutoff, goal.patience, accuracy or self._settings.accuracy
        )

    def _slack(self, solved: Solved) -> np.ndarray:
        """1 - y_j f(x_j) of all anchors."""
        at = self._in.anchors()
        return self._in.p[at] * (solved.F[at] - solved.beta)

    def _violated(self, status: np.ndarray, solved: Solved, left: np.ndarray) -> np.ndarray:
        """Free anchors of the rates that do not allow all that are violated to be given up.

        The most violated first.
        """
        slack, free = self._slack(solved), np.flatnonzero(status == FREE)
        violated = free[slack[free] > _VIOLATED]
        rates = self._in.weights[self._in.overdrawn(violated, left)]
        violated = violated[np.any(rates[:, violated] > 0.0, axis=0)]
        return violated[np.argsort(-slack[violated], kind="stable")]

    def _solution(self, solved: Solved) -> list[tuple[str, np.ndarray]]:
        """The classifier of a node whose violated anchors fit the budgets."""
        kept = self._slack(solved) <= _VIOLATED
        return [("N", self.finder.read(solved.t, solved.F, kept, solved.beta)[1])]

    def _leaf(self, node: State, solved: Solved, goal: Goal) -> Evaluation:
        """The violated anchors fit the budgets; out of time it may not be solved and stays open."""
        found, open_ = self._solution(solved), goal.expired()
        return Evaluation(
            node.bound, found, [Candidate(0)] if open_ else [],
            [_solved(node.part(), solved)] if open_ else [], removed=goal.cutoff,
        )

    def _cover(
        self, node: State, solved: Solved, violated: np.ndarray, left: np.ndarray, goal: Goal
    ) -> Evaluation:
        """Split by which is the first anchor of a cover that is given up.

        The most violated anchor is enforced, and again, until the incumbent refutes what is left,
        or its violated anchors fit the budgets.
        """
        rest, dual = node.part(), self._in.dual(node.status == ENFORCED, node.b_l, node.b_u)
        children: list[Child] = []
        while violated.size and solved.bound < goal.cutoff and not goal.expired():
            anchor = int(violated[0])
            children.append(_solved(rest.with_status(anchor, GIVEN_UP), solved))
            rest.status[anchor] = ENFORCED
            self._bound.hold()
            _enforce(dual, self._in.first + anchor)
            solved = self._go_on(dual, solved, goal)
            violated = self._violated(rest.status, solved, left)
        if solved.bound >= goal.cutoff:
            return Evaluation(node.bound, [], [Candidate(0)], children, removed=goal.cutoff)
        found, removed = [] if violated.size else self._solution(solved), solved.bound
        if goal.expired():  # what is left may not be solved
            children.append(_solved(rest, solved))
            removed = goal.cutoff  # trials may have relied on it
        return Evaluation(node.bound, found, [Candidate(0)], children, removed=removed)

    def _go_on(self, dual: Dual, solved: Solved, goal: Goal) -> Solved:
        """Solve again with more anchors in the dual."""
        return self._bound.apply_from(
            solved, dual, goal.cutoff, goal.patience, self._settings.accuracy
        )

    def _decides(self, status: np.ndarray) -> bool:
        """Whether what is left of the budgets enforces an anchor, or is overdrawn."""
        after = status.copy()
        return self._in.propagate(after) is None or bool(np.any(after != status))

    def _try(
        self, node: State, solved: Solved, chains: Chains, violated: np.ndarray, goal: Goal
    ) -> dict[int, Solved]:
        """Enforce violated anchors one at a time, for every rate that they overdraw."""
        trials: dict[int, Solved] = {}
        dual = self._in.dual(node.status == ENFORCED, node.b_l, node.b_u)
        self._bound.hold()
        for j in chains.trials(violated, self._settings.spare, self._settings.probes):
            if goal.expired():
                break
            variable = self._in.first + j
            _enforce(dual, variable)
            trials[j] = self._go_on(dual, solved, goal)
            dual.lo[variable] = dual.hi[variable] = 0.0
        return trials

    def _split(
        self, node: State, violated: np.ndarray, trials: dict[int, Solved], goal: Goal
    ) -> list[Child]:
        """By the chain of anchors, all of one rate, whose children promise the smallest trees."""
        left = self._in.budgets - self._in.weights @ (node.status == GIVEN_UP)
        bounds = {j: trial.bound for j, trial in trials.items() if node.status[j] != GIVEN_UP}
        chain = Chains(self._in.weights, left).best(
            bounds, node.bound, goal.cutoff, self._settings.sharpness, self._settings.decay
        )
        if not chain:  # out of time: nothing was tried
            chain = [next(j for j in violated.tolist() if node.status[j] != GIVEN_UP)]
        return self._children(node, chain, trials)

    def _leftover(self, node: State, chain: list[int]) -> np.ndarray | None:
        """The status with the whole chain given up, None if the budgets forbid it."""
        status = node.status.copy()
        status[chain] = GIVEN_UP
        return None if self._in.propagate(status.copy()) is None else status

    def _children(
        self, node: State, chain: list[int], trials: dict[int, Solved]
    ) -> list[Child]:
        children = []
        for k, j in enumerate(chain):
            child = node.part()
            child.status[chain[:k]] = GIVEN_UP
            child.status[j] = ENFORCED
            child.bound = node.bound
            if j in trials:
                child.t, child.bound = trials[j].t, max(node.bound, trials[j].bound)
            children.append(Child(child, child.bound))
        status = self._leftover(node, chain)
        if status is not None:
            child = node.part()
            child.status, child.bound = status, node.bound
            children.append(Child(child, child.bound))
        return children


def _enforce(dual: Dual, variable: int) -> None:
    """Let an anchor that was left out have a multiplier."""
    side = dual.hi if dual.p[variable] > 0.0 else dual.lo
    side[variable] = np.copysign(np.inf, dual.p[variable])


def _solved(node: State, solved: Solved) -> Child:
    """A child whose convex problem is solved."""
    node.t, node.bound = solved.t, max(node.inherited, solved.bound)
    return Child(node, node.bound)
