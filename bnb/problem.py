"""What the search asks of a problem: the only interface between the engine and the mathematics."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from relaxations import Patience

from .digest import UnknownDataError, digest
from .result import Tolerance

State = Any
"""A subproblem, in whatever form the problem likes. The engine only passes it around."""


@dataclass(frozen=True)
class Candidate:
    """One way to split a node.

    Parameters
    ----------
    key : int
        What is branched on; pseudo-costs are learned per key.
    down, up : float
        How far the relaxation has to move in the first and in the second child (for a binary:
        its value and one minus it). Gains are learned per unit of this distance.
    """

    key: int
    down: float = 0.5
    up: float = 0.5


class Child(NamedTuple):
    """A state that `Problem.branch` already has a certified bound of."""

    state: State
    bound: float


@dataclass
class Evaluation:
    """What the problem found out about a node.

    Parameters
    ----------
    bound : float
        Certified lower bound on every solution in the node; ``inf`` if it has none.
    solutions : list of (source letter, x)
        Points to try as incumbents. The engine checks each with `Problem.check`.
    candidates : sequence of Candidate
        Ways to split, in the order preferred by the problem. Empty: the node cannot be split, and
        its bound stands as it is in the final bound.
    data : object
        Whatever `Problem.branch` needs to make warm children.
    seconds : float, optional
        Time spent in relaxation solves; by default all of `Problem.evaluate` counts as such.
    work : dict of str to int
        What was done inside the node besides it: probes, games, convex solves. The search adds it
        up, so that node counts can be read for what they are.
    removed : float
        Smallest bound of anything that deductions from the incumbent took out of the node
        (reduced-cost fixing: the cutoff used); it counts in the final bound.
    nodes : int
        How many nodes of the tree the evaluation went through: more than one where it searches
        below its node on its own.
    """

    bound: float
    solutions: list[tuple[str, np.ndarray]] = field(default_factory=list)
    candidates: Sequence[Candidate] = ()
    data: Any = None
    seconds: float | None = None
    work: dict[str, int] = field(default_factory=dict)
    removed: float = np.inf
    nodes: int = 1


@dataclass
class Goal:
    """What the search wants from an evaluation, so that accuracy can follow need.

    Parameters
    ----------
    cutoff : float
        A node whose bound reaches this is pruned: no need to push the bound further.
    objective : float
        Objective of the incumbent, ``inf`` without one.
    incumbent : ndarray or None
        The incumbent itself.
    deadline : float
        `time.monotonic` value at which the search ends.
    probe : bool
        The evaluation is a strong-branching probe: skip heuristics.
    seed : int
        For whatever the problem draws at random.
    interrupted : callable
        Says whether the user asked to stop.
    tolerance : Tolerance
        What gap the search wants closed.
    nodes : float
        How many nodes may still be counted, for evaluations that go through several.
    """

    cutoff: float = np.inf
    objective: float = np.inf
    incumbent: np.ndarray | None = None
    deadline: float = np.inf
    probe: bool = False
    seed: int = 0
    interrupted: Callable[[], bool] = lambda: False
    tolerance: Tolerance = field(default_factory=Tolerance)
    nodes: float = np.inf

    @property
    def patience(self) -> Patience:
        """The deadline and the interruption, for `relaxations`."""
        return Patience(self.deadline, self.interrupted)

    def expired(self) -> bool:
        """Whether long work inside an evaluation should wind up with what it has."""
        return self.patience.expired()


class RestartError(Exception):
    """Raised by `evaluate` to go on with another tree of the whole problem.

    Parameters
    ----------
    bound : float
        Certified bound on the whole problem.
    solutions : list of (source letter, x)
    children : list of Child
        What is still open in that tree.
    settled : float
        The smallest bound of everything that it has cut off or closed.
    """

    def __init__(
        self, bound: float, solutions: list[tuple[str, np.ndarray]], children: list[Child],
        settled: float,
    ) -> None:
        super().__init__("the search goes on with another tree")
        self.bound, self.solutions = bound, solutions
        self.children, self.settled = children, settled

    def __reduce__(self) -> tuple[Any, ...]:
        """A worker's comes back as it is."""
        return type(self), (self.bound, self.solutions, self.children, self.settled)


class Standing(NamedTuple):
    """How far one of several trees has come.

    Parameters
    ----------
    bound : float
        Certified bound on the whole problem.
    seconds : float
        Time that workers have spent on it.
    open : int
        Its open nodes.
    out : float
        Time that workers are about to spend on it.
    """

    bound: float
    seconds: float
    open: int
    out: float = 0.0


class Contender(NamedTuple):
    """A tree as the search alone has left it; see `Contest`."""

    seconds: float
    children: list[Child]
    settled: float


class Turn(NamedTuple):
    """The tree that a worker takes, and after how many seconds it comes back at the latest."""

    name: str
    seconds: float = math.inf


class Contest(ABC):
    """Several trees of the whole problem, of which one is the search's and others go on beside it.

    For problems that cannot know beforehand which of several ways to search them is best. Workers
    take slices of the trees as `next` says.

    Attributes
    ----------
    leader : str
        The tree that the search goes by.
    """

    leader: str

    @abstractmethod
    def contenders(self) -> dict[str, Contender]:
        """The trees there are at the beginning; of the leader's only the time counts."""

    @abstractmethod
    def next(self, standing: Mapping[str, Standing], cutoff: float) -> Turn:
        """Which tree to go on with, which may be a new one; the leader may change."""

    @abstractmethod
    def notes(self, name: str) -> Any:
        """What a worker has to `Problem.recall` to search this tree."""


class UnboundedError(Exception):
    """Raised by `prepare` or `evaluate` when the problem is proven to have no finite optimum."""


class Problem(ABC):
    """A minimisation problem for `bnb.solve`.

    Four methods are needed. The others have defaults: override `prepare` for work done once,
    `present` and `accept` when the user's solutions are only a part of yours, `encode` and
    `decode` when a state is not plain JSON (they serve checkpoints). Workers get problems and
    states pickled: leave out in ``__getstate__`` what cannot be, such as solver workspaces.

    All attributes count as the problem's data: a checkpoint of a problem with other data is
    refused. Name in `scratch` those that a search changes. Code is not compared: do not resume
    after a change of the methods.
    """

    scratch: ClassVar[frozenset[str]] = frozenset()
    """Attributes that do not decide the answer, such as what evaluations note down for speed."""

    def __str__(self) -> str:
        """What is solved, for the log."""
        return type(self).__name__

    @abstractmethod
    def root(self) -> State:
        """The whole problem as a state."""

    @abstractmethod
    def evaluate(self, state: State, goal: Goal) -> Evaluation:
        """Bound a node, look for solutions, and say how it could be split.

        Long work should look at `goal.expired()` and wind up, or raise `bnb.OutOfTimeError`: the
        node then stays open and the search ends.
        """

    @abstractmethod
    def branch(
        self, state: State, evaluation: Evaluation, candidate: Candidate
    ) -> Sequence[State | Child]:
        """Split a node; together the children hold every solution of the node worth having.

        A child may come with a bound of its own, as a `Child`.
        """

    @abstractmethod
    def check(self, x: np.ndarray) -> tuple[float, float]:
        """Objective of `x` and its largest violation of the original constraints (0 is best).

        A violation above the search's ``feasibility`` tolerance refuses the point.
        """

    def prepare(self, goal: Goal) -> Evaluation | None:
        """Presolve and root heuristics, called once before the search.

        Solutions and bound of the answer are used; the root is split only after `evaluate`.
        """
        return None

    def present(self, x: np.ndarray) -> np.ndarray:
        """The part of a solution that the user asked for."""
        return x

    def accept(self, x: np.ndarray) -> np.ndarray:
        """A user's solution in the problem's own terms: the inverse of `present`."""
        return x

    def contest(self, workers: int) -> Contest | None:
        """How so many workers choose between several trees of the problem, where there are."""
        return None

    def notes(self) -> Any:
        """What the problem has learned about its own search, as JSON data for a checkpoint."""
        return None

    def recall(self, notes: Any) -> None:
        """Take `notes` back when a search is resumed; a ValueError says what is wrong."""
        return None

    def encode(self, state: State) -> Any:
        """The state as JSON data."""
        return state

    def decode(self, data: Any) -> State:
        """The state back from JSON data."""
        return data

    def fingerprint(self) -> str:
        """Identifies the problem, for checkpoints: its class and all that decides its answer.

        Nothing has to be declared for it, so nothing can be forgotten: an attribute that is
        missing from `scratch` can only make a checkpoint be refused.

        Raises
        ------
        UnknownDataError
            An attribute is of a kind that cannot be compared, such as a function.
        """
        try:
            return f"{self}, data {digest([type(self), self._data()])[:32]}"
        except UnknownDataError as error:
            raise UnknownDataError(
                f"a {type(self).__name__} cannot be checkpointed, since there is no telling "
                f"whether it is the same problem on resume: of its attributes, {error}. Name "
                "the attribute in `scratch` if it does not decide the answer, or override "
                "`fingerprint`"
            ) from None

    def _data(self) -> dict[str, Any]:
        """The attributes of the classes, unless they are methods and the like, and the instance."""
        data: dict[str, Any] = {}
        for owner in reversed(type(self).__mro__):
            data |= {name: value for name, value in vars(owner).items()
                     if not (name.startswith("__") or hasattr(value, "__get__"))}
        data |= vars(self)
        names = data.keys() - self.scratch - {"scratch", "_abc_impl"}
        return {name: data[name] for name in sorted(names)}
