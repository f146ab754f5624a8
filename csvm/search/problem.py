"""The constrained SVM as a problem for `bnb.solve`."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import bnb
from bnb.problem import Candidate, Child, Evaluation, Goal, Problem, RestartError
from relaxations.svm.bounds.convex import ConvexBound
from relaxations.svm.bounds.game import DropGame
from relaxations.svm.solvers import SMOSolver, make_solver

from .convex import ConvexSearch
from .drop import DropSearch
from .incumbents import Finder
from .instance import Instance
from .node import Node
from .settings import Settings

__all__ = ["CSVMProblem"]


@dataclass
class _Plan:
    """What the search has learned about itself, shared by all threads."""

    drop: bool = False  # whether the drop search has won
    chances: int = 0  # how many it has had
    swapped: float = np.inf  # objective around which swaps were tried last


class CSVMProblem(Problem):
    """Searches an `Instance`, by the plain convex bound or by the drop bound.

    The search begins with the convex bound.  After some work the drop bound is tried on the root,
    and again after more; if it has come further the search begins anew with it.

    Parameters
    ----------
    instance : Instance
    node_solver : {"auto", "smo", "osqp"}
        See `relaxations.svm.solvers`.
    settings : Settings, optional
    """

    scratch = frozenset({"_plan", "_bound", "_convex", "_drop", "finder"})

    def __init__(
        self, instance: Instance, node_solver: str = "auto", settings: Settings | None = None
    ) -> None:
        # Pairs need rows of the matrix; the other solvers take it as it comes.
        self.instance = instance.with_matrix() if node_solver == "smo" else instance
        self.node_solver = node_solver
        self.settings = settings or Settings()
        self._plan = _Plan(self.settings.drop_first)
        self._own_work_space()

    def _own_work_space(self) -> None:
        solver = make_solver(self.node_solver)
        settings, data = self.settings, self.instance
        self._bound = ConvexBound(solver, data.hopeless)
        self.finder = Finder(data, solver, settings)
        self._convex = ConvexSearch(data, self._bound, self.finder, settings)
        # Any answer gives a valid bound: in the game the last digits are not worth an exact solver.
        answers = SMOSolver() if self.node_solver == "auto" else solver
        self._drop = None if data.is_factor else DropSearch(
            data, self._convex, DropGame(answers, data.gram), settings
        )

    def __str__(self) -> str:
        return f"CSVM, {self.instance.n} points, {self.instance.m} of them anchors"

    @property
    def size(self) -> tuple[int, int]:
        """Points and anchors."""
        return self.instance.n, self.instance.m

    def root(self) -> Node:
        """Everything free."""
        return Node.root(self.instance.m, self.instance.n + 2)

    def prepare(self, goal: Goal) -> Evaluation | None:
        """An incumbent before the search: the best of a sweep over soft margins."""
        self._plan = _Plan(self.settings.drop_first)
        self._own_work_space()
        root = self.root()
        if self.instance.propagate(root.status) is None or not root.free.size:
            return None  # nothing to search for: infeasible, or all anchors are enforced
        if goal.incumbent is not None:
            return None
        _, x = self.finder.sweep(goal.patience)
        return None if x is None else Evaluation(-np.inf, [("H", x)])

    def evaluate(self, state: Node, goal: Goal) -> Evaluation:
        """Bound a node, decide what can be decided, and split it."""
        node = replace(state, status=state.status.copy(), t=state.t.copy())
        drop = self._plan.drop or np.isfinite(node.b_u - node.b_l)
        if self._drop is not None and drop:
            found = self._drop.evaluate(node, goal)
        else:
            self._give_chance(state, goal)
            found = self._convex.evaluate(node, goal)
        if not goal.probe and found.candidates:
            found.solutions += self._swap(goal)
        return found

    def _give_chance(self, state: Node, goal: Goal) -> None:
        """Let the drop search show what it can; begin anew with it if it has come further."""
        plan, chances = self._plan, self.settings.chances
        if self._drop is None or plan.chances == len(chances) or not np.isfinite(goal.cutoff):
            return
        solves, nodes = chances[plan.chances]
        if self._bound.solves < solves or goal.expired():
            return
        plan.chances += 1
        rival = CSVMProblem(
            self.instance, self.node_solver, replace(self.settings, drop_first=True)
        )
        left = max(goal.patience.seconds(), 1e-3)
        result = bnb.solve(
            rival, branching="first", node_limit=nodes, start=goal.incumbent, time_limit=left,
            gap=goal.tolerance.relative, absolute_gap=goal.tolerance.absolute,
        )
        if result.reason is bnb.Reason.INTERRUPT:
            raise KeyboardInterrupt
        if result.bound > state.bound:
            plan.drop = True
            raise RestartError(result.bound, [] if result.x is None else [("H", result.x)])

    def _swap(self, goal: Goal) -> list[tuple[str, np.ndarray]]:
        """Swaps around a new incumbent."""
        if goal.incumbent is None or not goal.objective < self._plan.swapped * (1.0 - 1e-9):
            return []
        self._plan.swapped, x = self.finder.swaps(goal.incumbent, goal.objective, goal.patience)
        return [("L", x)]

    def branch(self, state: Node, evaluation: Evaluation, candidate: Candidate) -> list[Child]:
        """The children that the evaluation has made."""
        return list(evaluation.data)

    def check(self, x: np.ndarray) -> tuple[float, float]:
        """Objective, and by how much margins must be relaxed for the counts to hold."""
        return self.instance.check(x)

    def accept(self, x: np.ndarray) -> np.ndarray:
        """A solution (t, beta) as it is, if its shape is right."""
        if np.shape(x) != (self.instance.n + 1,):
            raise ValueError(
                f"a solution must have shape ({self.instance.n + 1},), got {np.shape(x)}"
            )
        return x

    def worker(self) -> CSVMProblem:
        """The same data and plan with a work space of its own."""
        other = copy.copy(self)
        other._own_work_space()
        return other

    def encode(self, state: Node) -> Any:
        """See `Node.encode`."""
        return state.encode()

    def decode(self, data: Any) -> Node:
        """See `Node.decode`."""
        return Node.decode(data, self.instance.m, self.instance.n + 2)
