"""Which of the searches workers go on with: the rule of `Plan`, for trees side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bnb.problem import Contender, Contest, Standing, Turn

from .rival import Plan
from .settings import SECOND, Chance

__all__ = ["Searches"]


class _Bout(NamedTuple):
    """A rival goes on."""

    rival: str
    chance: Chance
    until: float  # seconds that it may have taken then


class Searches(Contest):
    """The search in use and its rivals.

    Parameters
    ----------
    plan : Plan
        What was decided so far; it is kept up to date.
    own : float
        Operations that the search in use has taken.
    usable : set of str
        Names of the searches that the instance allows.
    workers : int
    """

    def __init__(self, plan: Plan, own: float, usable: set[str], workers: int) -> None:
        self._plan, self._own, self._usable, self._workers = plan, own, usable, workers
        self._before = 0.0  # seconds that the leader had taken before it counted as the leader
        self._waiting: list[tuple[str, Chance]] = []
        self._bout: _Bout | None = None

    @property
    def leader(self) -> str:  # type: ignore[override]
        """The search in use."""
        return self._plan.search

    def contenders(self) -> dict[str, Contender]:
        """See `bnb.problem.Contest`."""
        known = {
            name: Contender(rival.work / SECOND, rival.children, rival.settled)
            for name, rival in self._plan.rivals.items()
        }
        return {**known, self.leader: Contender(self._own / SECOND, [], np.inf)}

    def next(self, standing: Mapping[str, Standing], cutoff: float) -> Turn:
        """A rival whose turn it is, until it has made its effort; else the leader."""
        if not np.isfinite(cutoff):
            return Turn(self.leader)
        if self._bout is not None and _is_over(self._bout, standing):
            self._end(self._bout, standing, cutoff)
        if self._bout is None and not self._waiting:
            self._look_for_chance(standing[self.leader], cutoff)
        if self._bout is None and self._waiting:
            self._begin(*self._waiting.pop(0), standing, cutoff)
        if self._bout is None or (left := _effort_left(self._bout, standing)) <= 0.0:
            return Turn(self.leader)
        return Turn(self._bout.rival, left)

    def _look_for_chance(self, own: Standing, cutoff: float) -> None:
        operations = SECOND * (own.seconds - self._before)
        chance = self._plan.chance(operations, max(cutoff - own.bound, 0.0))
        if chance is not None:
            self._waiting = [
                (name, chance) for name in chance.rivals
                if name != self.leader and name in self._usable
            ]

    def _begin(
        self, name: str, chance: Chance, standing: Mapping[str, Standing], cutoff: float
    ) -> None:
        bound, seconds, *_ = standing.get(name, Standing(-np.inf, 0.0, 1))
        gap = max(cutoff - standing[self.leader].bound, 0.0)
        effort = self._plan.effort(name, chance, gap, cutoff - bound if seconds > 0.0 else 0.0)
        self._bout = _Bout(name, chance, max(effort / SECOND, seconds + 1e-9))  # a node at least

    def _end(self, bout: _Bout, standing: Mapping[str, Standing], cutoff: float) -> None:
        self._bout = None
        leader, rival = standing[self.leader], standing[bout.rival]
        gap = max(cutoff - leader.bound, 0.0)
        work = SECOND * rival.seconds
        if self._plan.judge(bout.rival, bout.chance, leader.bound, rival.bound, gap, work):
            self._waiting = []
            self._before += rival.seconds - leader.seconds  # the clock of leaders goes on

    def notes(self, name: str) -> Any:
        """A worker searches in one way and leaves others alone.

        Better classifiers are the leader's business: the gap of a rival says nothing about them.
        """
        part = 1.0 / self._workers if name == self.leader else 0.0
        return {"search": name, "chances": len(self._plan.settings.chances), "part": part}


def _is_over(bout: _Bout, standing: Mapping[str, Standing]) -> bool:
    rival = standing[bout.rival]
    return rival.seconds >= bout.until or not rival.open


def _effort_left(bout: _Bout, standing: Mapping[str, Standing]) -> float:
    """Seconds of the rival's effort that no worker is about to make."""
    rival = standing.get(bout.rival)
    return bout.until if rival is None else bout.until - rival.seconds - rival.out
