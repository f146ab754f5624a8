"""Which of the searches workers go on with: the rule of `Plan`, for trees side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bnb.problem import Contender, Contest, Standing

from .rival import Plan
from .settings import SECOND, Chance

__all__ = ["Searches"]


class _Turn(NamedTuple):
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
    """

    def __init__(self, plan: Plan, own: float, usable: set[str]) -> None:
        self._plan, self._own, self._usable = plan, own, usable
        self._before = 0.0  # seconds that the leader had taken before it counted as the leader
        self._waiting: list[tuple[str, Chance]] = []
        self._turn: _Turn | None = None

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

    def next(self, standing: Mapping[str, Standing], cutoff: float) -> str:
        """A rival whose turn it is, until it has made its effort; else the leader."""
        if not np.isfinite(cutoff):
            return self.leader
        if self._turn is not None and _is_over(self._turn, standing):
            self._end_turn(self._turn, standing, cutoff)
        if self._turn is None and not self._waiting:
            self._look_for_chance(standing[self.leader], cutoff)
        if self._turn is None and self._waiting:
            self._begin_turn(*self._waiting.pop(0), standing, cutoff)
        if self._turn is None or _is_provided_for(self._turn, standing):
            return self.leader
        return self._turn.rival

    def _look_for_chance(self, own: Standing, cutoff: float) -> None:
        operations = SECOND * (own.seconds - self._before)
        chance = self._plan.chance(operations, max(cutoff - own.bound, 0.0))
        if chance is not None:
            self._waiting = [
                (name, chance) for name in chance.rivals
                if name != self.leader and name in self._usable
            ]

    def _begin_turn(
        self, name: str, chance: Chance, standing: Mapping[str, Standing], cutoff: float
    ) -> None:
        bound, seconds, *_ = standing.get(name, Standing(-np.inf, 0.0, 1))
        gap = max(cutoff - standing[self.leader].bound, 0.0)
        effort = self._plan.effort(name, chance, gap, cutoff - bound if seconds > 0.0 else 0.0)
        self._turn = _Turn(name, chance, max(effort / SECOND, seconds + 1e-9))  # a slice at least

    def _end_turn(self, turn: _Turn, standing: Mapping[str, Standing], cutoff: float) -> None:
        self._turn = None
        leader, rival = standing[self.leader], standing[turn.rival]
        gap = max(cutoff - leader.bound, 0.0)
        if self._plan.judge(turn.rival, turn.chance, leader.bound, rival.bound, gap):
            self._waiting = []
            self._before += rival.seconds - leader.seconds  # the clock of leaders goes on

    def notes(self, name: str) -> Any:
        """A worker searches in one way and leaves others alone."""
        return {"search": name, "chances": len(self._plan.settings.chances)}


def _is_over(turn: _Turn, standing: Mapping[str, Standing]) -> bool:
    rival = standing[turn.rival]
    return rival.seconds >= turn.until or not rival.open


def _is_provided_for(turn: _Turn, standing: Mapping[str, Standing]) -> bool:
    """Whether workers are about to make the rest of the rival's effort."""
    rival = standing.get(turn.rival)
    return rival is not None and rival.out > 0.0 and rival.seconds + rival.out >= turn.until
