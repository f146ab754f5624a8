"""Which candidate to split a node on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .problem import Candidate, Evaluation
from .queue import Node

Probe = Callable[[Candidate], list[Node]]
"""Evaluates the children of a candidate and returns them, evaluated, for later use."""

UserRule = Callable[[Node, Evaluation, Sequence[Candidate]], Candidate]

_MIN_DISTANCE = 1e-6
_RELIABLE, _LOOKAHEAD, _PROBES = 4, 4, 8


class FirstCandidate:
    """The problem's own first choice (most fractional or most violated, where it orders so)."""

    def choose(
        self, node: Node, evaluation: Evaluation, probe: Probe
    ) -> tuple[Candidate, list[Node] | None]:
        """Return the candidate and, if they were already evaluated, its children."""
        return evaluation.candidates[0], None

    def learn(self, node: Node, bound: float) -> None:
        """Take note of the bound a child reached."""


class UserChoice(FirstCandidate):
    """A rule handed in by the user."""

    def __init__(self, rule: UserRule) -> None:
        self._rule = rule

    def choose(
        self, node: Node, evaluation: Evaluation, probe: Probe
    ) -> tuple[Candidate, list[Node] | None]:
        """Ask the user's rule."""
        return self._rule(node, evaluation, evaluation.candidates), None


class MostFractional(FirstCandidate):
    """The candidate whose nearer child is farthest from the relaxation."""

    def choose(
        self, node: Node, evaluation: Evaluation, probe: Probe
    ) -> tuple[Candidate, list[Node] | None]:
        """Largest min(down, up); ties go to the problem's order."""
        return max(evaluation.candidates, key=lambda c: min(c.down, c.up)), None


class PseudoCost(FirstCandidate):
    """Pseudo-costs with a strong-branching start (reliability branching).

    A candidate's score is the product of the bound gains expected in its two children. Gains per
    unit of distance are averaged over the tree; while a candidate has fewer than `_RELIABLE`
    observations on a side its children are evaluated instead of guessed, best guesses first,
    until `_LOOKAHEAD` candidates in a row have not improved on the best, and for `_PROBES`
    candidates at most.
    """

    def __init__(self) -> None:
        self._sum: dict[tuple[int, int], float] = {}
        self._count: dict[tuple[int, int], int] = {}

    def learn(self, node: Node, bound: float) -> None:
        """Average the gain of this child into its key's pseudo-cost."""
        if node.origin is None or not np.isfinite(bound):
            return
        key, side, distance, parent = node.origin
        gain = max(0.0, bound - parent) / max(distance, _MIN_DISTANCE)
        self._sum[key, side] = self._sum.get((key, side), 0.0) + gain
        self._count[key, side] = self._count.get((key, side), 0) + 1

    def choose(
        self, node: Node, evaluation: Evaluation, probe: Probe
    ) -> tuple[Candidate, list[Node] | None]:
        """Highest score, with probes where the pseudo-costs are not yet reliable."""
        if len(evaluation.candidates) == 1:  # nothing to choose
            return evaluation.candidates[0], None
        average = sum(self._sum.values()) / max(1, sum(self._count.values())) or 1.0
        # A gain of zero must not hide the other side's: both sides count from a small floor.
        floor = 1e-6 * abs(node.bound) if np.isfinite(node.bound) and node.bound else 1e-6
        ranked = sorted(
            evaluation.candidates, key=lambda c: self._score(c, average, floor), reverse=True
        )
        best, best_children, best_score = ranked[0], None, -np.inf
        stale = probed = 0
        for candidate in ranked:
            if stale >= _LOOKAHEAD or probed >= _PROBES:
                break
            children: list[Node] | None = None
            if self._observations(candidate) >= _RELIABLE:
                score = self._score(candidate, average, floor)
            else:
                children = probe(candidate)
                probed += 1
                gains = [max(child.bound - node.bound, floor) for child in children]
                score = float(np.prod(np.minimum(gains[:2], 1e12)))
                if any(not np.isfinite(child.bound) for child in children):
                    return candidate, children
            if score > best_score:
                best, best_children, best_score, stale = candidate, children, score, 0
            else:
                stale += 1
        return best, best_children

    def _observations(self, candidate: Candidate) -> int:
        return min(self._count.get((candidate.key, side), 0) for side in (0, 1))

    def _score(self, candidate: Candidate, average: float, floor: float) -> float:
        gains = []
        for side, distance in ((0, candidate.down), (1, candidate.up)):
            count = self._count.get((candidate.key, side), 0)
            unit = self._sum[candidate.key, side] / count if count else average
            gains.append(max(distance * unit, floor))
        return gains[0] * gains[1]

    def state(self) -> list[list[float]]:
        """The observations, as JSON data for a checkpoint."""
        return [[*key, self._sum[key], self._count[key]] for key in self._sum]

    def since(self, rows: list[list[float]]) -> list[list[float]]:
        """The observations made since `state` gave these rows."""
        before = {(int(key), int(side)): (total, count) for key, side, total, count in rows}
        gains = []
        for key, side, total, count in self.state():
            old, seen = before.get((int(key), int(side)), (0.0, 0))
            if count > seen:
                gains.append([key, side, max(total - old, 0.0), count - seen])
        return gains

    def add(self, rows: list[list[float]]) -> None:
        """Take in observations of a checkpoint or of another process."""
        for key, side, total, count in rows:
            place = int(key), int(side)
            self._sum[place] = self._sum.get(place, 0.0) + total
            self._count[place] = self._count.get(place, 0) + int(count)


RULES: dict[str, type[FirstCandidate]] = {
    "first": FirstCandidate,
    "fractional": MostFractional,
    "pseudocost": PseudoCost,
}


def make_rule(branching: str | UserRule) -> FirstCandidate:
    """The rule of that name, or the user's own."""
    if callable(branching):
        return UserChoice(branching)
    if branching not in RULES:
        raise ValueError(
            f"branching must be one of {sorted(RULES)} or a callable, got {branching!r}"
        )
    return RULES[branching]()
