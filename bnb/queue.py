"""Open nodes, and the order in which they are taken."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .problem import Evaluation

SELECTIONS = ("best", "depth", "hybrid")


@dataclass
class Node:
    """A subproblem waiting in the tree.

    `weight` is the node's share of the tree (the root has 1, children share their parent's), and
    `origin` says which split made it: (key, child number, distance, parent's bound), from which
    pseudo-costs learn.
    """

    state: Any
    bound: float
    depth: int = 0
    number: int = 0
    parent: int = -1
    weight: float = 1.0
    origin: tuple[int, int, float, float] | None = None
    evaluation: Evaluation | None = None


class NodeQueue:
    """A heap of open nodes.

    Parameters
    ----------
    selection : {"best", "depth", "hybrid"}
        Lowest bound first; deepest first (ties by bound); or deepest first until there is an
        incumbent and lowest bound first from then on.
    """

    def __init__(self, selection: str) -> None:
        self._hybrid = selection == "hybrid"
        self._diving = selection != "best"
        self._heap: list[tuple[tuple[float, float], int, Node]] = []
        self._bounds: list[tuple[float, int]] = []  # nodes leave it only when they come up
        self._open: set[int] = set()

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Node]:
        return (node for _, _, node in self._heap)

    def _key(self, node: Node) -> tuple[float, float]:
        return (-node.depth, node.bound) if self._diving else (node.bound, -node.depth)

    def push(self, node: Node) -> None:
        """Add a node; its number must be new."""
        self._open.add(node.number)
        heapq.heappush(self._heap, (self._key(node), node.number, node))
        heapq.heappush(self._bounds, (node.bound, node.number))

    def pop(self) -> Node:
        """Take the next node."""
        _, number, node = heapq.heappop(self._heap)
        self._open.discard(number)
        return node

    def found_incumbent(self) -> None:
        """Tell a hybrid queue that diving is over."""
        if self._hybrid and self._diving:
            self._diving = False
            self._heap = [(self._key(node), number, node) for _, number, node in self._heap]
            heapq.heapify(self._heap)

    def lowest_bound(self) -> float:
        """Smallest bound of an open node, ``inf`` when there is none."""
        while self._bounds and self._bounds[0][1] not in self._open:
            heapq.heappop(self._bounds)
        return self._bounds[0][0] if self._bounds else float("inf")


class Tree:
    """The open nodes of a tree, and what is known of all that is no longer open.

    Parameters
    ----------
    selection : str
        See `NodeQueue`.

    Attributes
    ----------
    queue : NodeQueue
        The nodes that are waiting.
    away : dict of int to Node
        By their numbers, those that workers have: open as long as nobody reports on them.
    settled : float
        Smallest bound of anything cut off or closed.
    root_bound : float
        Bound of the first node.
    explored : float
        Share of the tree that is closed.
    """

    def __init__(self, selection: str) -> None:
        self.queue = NodeQueue(selection)
        self.away: dict[int, Node] = {}
        self.settled, self.root_bound, self.explored = math.inf, -math.inf, 0.0

    def __iter__(self) -> Iterator[Node]:
        yield from self.queue
        yield from self.away.values()

    @property
    def open(self) -> int:
        """Number of open nodes."""
        return len(self.queue) + len(self.away)

    def settle(self, bound: float) -> None:
        """Something with this bound is cut off or closed."""
        self.settled = min(self.settled, bound)

    def bound(self) -> float:
        """The smallest bound of everything ever cut off, closed or left open."""
        away = min((node.bound for node in self.away.values()), default=math.inf)
        return min(self.settled, away, self.queue.lowest_bound())
