"""Another search of the same problem, beside the one in use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

import numpy as np

from bnb.problem import Child, Evaluation, Goal

from .state import State

__all__ = ["Plan", "Rival", "Strategy"]


class Strategy(Protocol):
    """One way to bound and split nodes."""

    games: int

    @property
    def operations(self) -> float:
        """Work of all games that it has played."""

    def evaluate(self, node: State, goal: Goal) -> Evaluation:
        """See `bnb.Problem.evaluate`."""


class Rival:
    """The open nodes of a search that goes on where it stopped, best bound first.

    Parameters
    ----------
    root : State

    Attributes
    ----------
    work : float
        Operations that it has taken so far.
    trust : float
        Share of the effort it might make that is left to it.
    settled : float
        The smallest bound of anything that it has cut off or closed.
    """

    def __init__(self, root: State) -> None:
        self._number = count()
        self._open = [(-np.inf, next(self._number), root)]
        self.work, self.trust = 0.0, 1.0
        self.settled = np.inf

    @property
    def bound(self) -> float:
        """Certified bound on the whole problem."""
        return min(self.settled, self._open[0][0] if self._open else np.inf)

    @property
    def children(self) -> list[Child]:
        """The open nodes with their bounds."""
        return [Child(node, bound) for bound, _, node in self._open]

    def go_on(
        self, search: Strategy, goal: Goal, operations: Callable[[], float], effort: float
    ) -> list[tuple[str, np.ndarray]]:
        """Evaluate a node, and more until so much work is done; returns the solutions found.

        Parameters
        ----------
        search : Strategy
        goal : Goal
        operations : callable
            Counts the work of all searches.
        effort : float
            Operations that the rival may have taken in all.
        """
        found: list[tuple[str, np.ndarray]] = []
        while self._open and not goal.expired():
            entry = heappop(self._open)
            bound, _, node = entry
            before = operations()
            try:
                evaluation = search.evaluate(
                    replace(node, status=node.status.copy(), t=node.t.copy()), goal
                )
            except BaseException:
                heappush(self._open, entry)
                raise
            self.work += operations() - before
            found += evaluation.solutions
            self._take_in(evaluation, bound, goal.cutoff)
            if self.work >= effort:
                break
        return found

    def _take_in(self, evaluation: Evaluation, bound: float, cutoff: float) -> None:
        self.settled = min(self.settled, evaluation.removed)
        bound = max(bound, evaluation.bound)
        if bound >= cutoff or not evaluation.candidates:
            self.settled = min(self.settled, bound)
            return
        for child in evaluation.data:
            heappush(self._open, (max(bound, child.bound), next(self._number), child.state))


@dataclass
class Plan:
    """What the search has learned about itself.

    Parameters
    ----------
    search : str
        The one in use.
    chances : int
        How many the others have had.
    gap : float
        The gap when they had the last.
    rivals : dict of str to Rival
        The others, as far as they have come.
    """

    search: str
    chances: int = 0
    gap: float = 0.0
    rivals: dict[str, Rival] = field(default_factory=dict)

    @property
    def rival_work(self) -> float:
        """Operations that the others have taken."""
        return sum(rival.work for rival in self.rivals.values())

    def use_chance(self, gap: float) -> bool:
        """Count a chance of the others, at this gap.

        False if the search in use has halved its gap since the last one: then it is left alone.
        """
        before, self.gap = self.gap, gap
        self.chances += 1
        return gap >= 0.5 * before

    def give_way(self, name: str) -> None:
        """Another search is in use from now on."""
        self.search, self.gap = name, 0.0
