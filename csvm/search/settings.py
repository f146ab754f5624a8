"""Every number of the search that could be another one, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["SECOND", "Chance", "Settings"]

SECOND = 7e8
"""Operations that take about a second. Workers are judged by their time, a search alone by its
operations, so that its runs repeat."""


_RIVALS = ("drop", "recourse", "pairs", "joint")


class Chance(NamedTuple):
    """When other searches go on, and when one takes over.

    Parameters
    ----------
    operations : float
        Work of the search so far; see `SECOND`.
    share : float
        What another one has to close of the gap that is left.
    rivals : tuple of str
        The others.
    effort : float
        What each may have worked by then, in units of the same; a node at least.
    """

    operations: float
    share: float
    rivals: tuple[str, ...]
    effort: float


@dataclass(frozen=True)
class Settings:
    """Tunables of the search; `dataclasses.replace` makes the ablation.

    Parameters
    ----------
    accuracy : float
        Violation at which a convex problem counts as solved: far below what the gap asks for.
    rough : float
        The same where a bound only has to refute a piece of the intercept's range.
    probes : int
        Anchors whose enforcement is tried before a node of the convex search is split: with more
        the tree hardly shrinks.
    spare : float
        How many times as many anchors are tried as the split needs: with twice as many the tree is
        a little smaller, and takes longer.
    few : float
        A node of the convex search where no more than this can be given up, all budgets together,
        is split by a cover; nowhere if it is negative.
    many : float
        Where less than this can be given up, all budgets together, recourse and pairs in one policy
        are not tried: pairs alone bound nearly as well there, in a fraction of the time.
    decay : float
        How much less a later child of a split counts: it may give up fewer anchors.
    sharpness : float
        A child that closes a share s of the gap counts as a subtree of size exp(-sharpness s).
    round_every : int
        Nodes of the convex search between two attempts to read an incumbent from one.
    chances : tuple of Chance
        When other searches go on. The first comes after hundredths of a second, for problems that
        the drop bound all but solves at the root. Later they come with every doubling of the work,
        and it takes less and less to take over: which of two bounds will win is seen late. The
        first game by pairs takes seconds, and that of both recourse and pairs goes on from it: so
        these come last.
    behind : float
        Factor on the effort of a search each time that its bound is found to be behind.
    catching_up : float
        Where the ratio of the gaps has not risen by this factor since its last chance, that ratio
        is the factor, if it is smaller.
    ahead : float
        Searches are compared where so many times the work, of the one that has had more, will bring
        them: with less, trees of cheap nodes are given up too early, with more those of dear ones
        come too late.
    begin_with : {"convex", "drop", "recourse", "pairs", "joint"}
        The search that gets the first chance.
    wide : float
        An interval of the intercept that is halved before anchors are split.
    narrow : float
        Below this width a bound that ignores the free anchors is not the width's fault.
    width_share : float
        Halve the intercept where its width costs this share of the gap: the middle gains half of
        what the width costs, so this is nearly all of it.
    first_rounds, rounds, patience : int
        Rounds of the first game, of later ones, and rounds without progress.
    recourse_rounds : int
        Rounds of later games with recourse, or with pairs, each of which takes ten times as long.
    far, far_rounds : float, int
        Where this share of the cutoff is missing, and pairs cannot help, a later game with recourse
        takes so many rounds, and the first one goes on: all nodes below inherit the policy.
    far_first, far_patience : int
        Rounds, and rounds without progress, by which it does.
    start_age, most_age, recourse_age : int
        How many sets the frequencies of a node count for.
    rare, decided : float
        Frequencies below the one are not kept, and above the other are not worth a split.
    local_share : float
        Work of the search for better classifiers, in units of all: a better one saves more than
        that where much is open, and where little is open it is over before.
    local_per_gap, local_most, local_first : float
        As long as better ones are found the share is so many times the gap that is left, up to the
        second of these: where little is open little can be gained. That long is as long again as it
        took to find the last one, and at first so many operations.
    swap_work : int
        Swaps tried around a classifier, times points.
    levels : tuple of float
        Costs of missing an anchor, in units of the points' mean cost, at which anchors are released
        for the first incumbents. The best one differs; together they take tenths of a second.
    """

    accuracy: float = 1e-7
    rough: float = 1e-3
    probes: int = 24
    spare: float = 1.5
    few: float = 1.0
    many: float = 8.0
    decay: float = 0.9
    sharpness: float = 6.0
    round_every: int = 10
    chances: tuple[Chance, ...] = (
        Chance(2e7, 0.5, ("drop",), 0.0), Chance(2e8, 0.5, ("recourse",), 0.0),
        *(Chance(5e8 * 2.0**k, 0.2 * 0.5**k, _RIVALS[: 2 + (k > 2) + (k > 3)], 1.0)
          for k in range(8)),
    )
    behind: float = 0.7
    catching_up: float = 1.25
    ahead: float = 2.0
    begin_with: str = "convex"
    wide: float = 0.5
    narrow: float = 0.01
    width_share: float = 0.45
    first_rounds: int = 60
    rounds: int = 8
    patience: int = 3
    recourse_rounds: int = 3
    far: float = 0.05
    far_rounds: int = 8
    far_first: int = 180
    far_patience: int = 45
    start_age: int = 20
    most_age: int = 40
    recourse_age: int = 20
    rare: float = 1e-3
    decided: float = 0.9
    local_share: float = 0.1
    local_per_gap: float = 10.0
    local_most: float = 0.5
    local_first: float = 2e9
    swap_work: int = 40_000
    levels: tuple[float, ...] = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
