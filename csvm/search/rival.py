"""Another search of the same problem, beside the one in use."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

import numpy as np

from bnb.problem import Child, Evaluation, Goal

from .settings import Chance, Settings
from .state import State

__all__ = ["Plan", "Rival", "Strategy"]


class Strategy(Protocol):
    """One way to bound and split nodes."""

    games: int

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
    settled : float
        The smallest bound of anything that it has cut off or closed.
    """

    def __init__(self, root: State) -> None:
        self._number = count()
        self._open = [(-np.inf, next(self._number), root)]
        self.work, self.settled = 0.0, np.inf

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
    """Which search is in use, and by what rule others go on beside it and take over.

    Parameters
    ----------
    search : str
        The one in use.
    settings : Settings
    chances : int
        How many the others have had.
    gap, operations, pace : float
        The gap when they had the last, the work of searches in use until then, and by how much the
        gap has gone down with every doubling of that since the one before.
    rivals : dict of str to Rival
        The others, as far as they have come.
    trust : dict of str to float
        Share of the effort that each might make that is left to it.
    places : dict of str to float
        Our gap in units of theirs when they had the last chance.
    """

    search: str
    settings: Settings
    chances: int = 0
    gap: float = 0.0
    operations: float = 0.0
    pace: float = 0.0
    rivals: dict[str, Rival] = field(default_factory=dict)
    trust: dict[str, float] = field(default_factory=dict)
    places: dict[str, float] = field(default_factory=dict)

    @property
    def rival_work(self) -> float:
        """Operations that the others have taken."""
        return sum(rival.work for rival in self.rivals.values())

    def chance(self, operations: float, gap: float) -> Chance | None:
        """The chance that the others have after so much work of the search in use, at this gap.

        None if that has halved its gap since the last one: then it is left alone.
        """
        chances = self.settings.chances
        due = [k for k in range(self.chances, len(chances)) if operations >= chances[k].operations]
        if not due:
            return None
        first = chances[due[0]]
        # Of several that are due at once, as after a long node, the last one stands for all.
        chance = [chances[k] for k in due if chances[k].rivals == first.rivals][-1]
        self.chances = chances.index(chance) + 1
        self.pace = 0.0
        if gap < self.gap < math.inf and 0.0 < self.operations < operations:
            self.pace = (self.gap - gap) / math.log2(operations / self.operations)
        before, self.gap, self.operations = self.gap, gap, operations
        return chance if gap >= 0.5 * before else None

    def effort(self, rival: str, chance: Chance, gap: float, its: float) -> float:
        """Operations that a rival, whose gap is its, may have taken at the end of its turn.

        If it is behind it is trusted less from now on, and far less if it is far behind and does
        not catch up.
        """
        factor = 1.0
        if its > gap:
            place, before = gap / its, self.places.get(rival, 0.0)
            catches_up = place > self.settings.catching_up * before
            factor = self.settings.behind if catches_up else min(self.settings.behind, place)
            self.places[rival] = place
        self.trust[rival] = trust = factor * self.trust.get(rival, 1.0)
        return trust * chance.effort * chance.operations

    def judge(
        self, rival: str, chance: Chance, own: float, other: float, gap: float, work: float
    ) -> bool:
        """Let the rival take over if it will leave enough less of the gap than our own.

        A tree takes about the same off its gap with every doubling of its work, a rival most often
        half as much as a search of cheaper nodes.  So both are compared where several times the
        work will bring them: cheap nodes may come further in the end than a good root.
        """
        mine, its = max(self.operations, 1.0), own + gap - other
        ahead = math.log2(self.settings.ahead * max(work, mine))
        left = gap - self.pace * (ahead - math.log2(mine))
        its_left = its - 0.5 * self.pace * (ahead - math.log2(max(work, 1.0)))
        if not (its <= 0.0 or its_left < (1.0 - chance.share) * left):  # no bounds yet: neither
            return False
        self.search, self.gap, self.pace = rival, 0.0, 0.0
        return True
