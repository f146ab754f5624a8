"""What a problem knows beyond its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from relaxations import Pairs, Patience

from ..problem import Evaluation, Goal
from ..subset.search import SubsetSearch
from .lattice import LatticeSearch
from .propagation import Propagator

if TYPE_CHECKING:
    from .miqp import MIQP

Delegate = LatticeSearch | SubsetSearch
"""Searches that can do without relaxations of their own problem."""


@dataclass(frozen=True)
class Rules:
    """Those of a problem that is nothing but its rows; others know more.

    Points and bounds are over all variables: first those that the user knows, then those that
    only the search does.

    Parameters
    ----------
    n : int
        How many variables the user knows.
    """

    n: int

    rows_say_all: ClassVar[bool] = True
    """Whether no rule stops a direction that the rows allow."""

    def extend(self, x: np.ndarray) -> np.ndarray:
        """A user's point with the variables that go with it."""
        return x

    def violation(self, x: np.ndarray) -> float:
        """How far a point is from what the rules ask."""
        return 0.0

    def tighten(self, lb: np.ndarray, ub: np.ndarray) -> bool:
        """Tighten bounds in place; False if there is surely no feasible point."""
        return True

    def snap(self, x: np.ndarray) -> None:
        """Move a point that nearly keeps the rules, in place."""

    def switches(self, lb: np.ndarray, ub: np.ndarray) -> tuple[Pairs, np.ndarray] | None:
        """The switches and the rows that say something else; None: they have to be found."""
        return None

    def fix(
        self, rows: Propagator, x: np.ndarray, lb: np.ndarray, ub: np.ndarray, patience: Patience
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Bounds with every integer fixed near x, or None if that failed."""
        return rows.fix(x, lb, ub, patience)

    def delegate(self, problem: MIQP, goal: Goal) -> tuple[Delegate, Evaluation] | None:
        """A search that does the work better, and what it found to begin with."""
        return None

    @property
    def local_search(self) -> Callable[[np.ndarray, Goal], np.ndarray] | None:
        """Looks for a better solution near one; None if there is no search for this structure."""
        return None
