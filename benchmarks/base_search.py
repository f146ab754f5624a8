"""The search without the drop bound, by which the bounds are measured: v(S1), most violated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bnb.problem import Candidate, Evaluation, Goal
from csvm.incumbents import read_classifier
from csvm.problem import FREE, CSVMProblem, Node


class BaseSearch(CSVMProblem):
    """Bound a node by leaving its free anchors out; branch on the one violated most."""

    def prepare(self, goal: Goal) -> Evaluation | None:
        """The same incumbents; swaps too, which the other search tries after its root."""
        found = super().prepare(goal)
        if found is not None:
            x = found.solutions[0][1]
            found.solutions.append(("L", self.improve(x, self.check(x)[0])[0]))
        return found

    def evaluate(self, state: Node, goal: Goal) -> Evaluation:
        node = replace(state, status=state.status.copy(), t=state.t.copy())
        if self._propagate(node.status) is None:
            return Evaluation(np.inf)
        free = np.flatnonzero(node.status == FREE)
        bound, t, half, beta = self._convex_solve(node, free, goal)
        if bound >= goal.cutoff:
            return Evaluation(bound)
        objective, scale, shifted = read_classifier(
            self.p, self.cost, t, half, self.first, self.weights, self.budgets, node.status >= 0,
            beta,
        )
        found = []
        if np.isfinite(objective):
            found.append(("N", np.append(scale * t[: self.n], shifted)))
        anchors = self.first + free
        margin = self.p[anchors] * (half[anchors] + beta)
        order = np.argsort(margin)
        violated = [a for a in order if margin[a] < 1.0 - 1e-6]
        candidates = [Candidate(int(free[a])) for a in violated or order]
        return Evaluation(bound, found, candidates, (node, []))
