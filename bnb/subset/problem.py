"""Best-subset regression as a problem for the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..problem import Candidate, Child, Evaluation, Goal, Problem
from . import screen
from .data import SubsetData
from .search import SubsetSearch


class BestSubset(Problem):
    """min ‖y − Xβ‖² + ridge ‖β‖² with at most k of the β_j non-zero.

    There is no intercept: centre X and y, or use `bnb.best_subset`.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    y : ndarray of shape (n,)
    k : int
    ridge : float
    """

    scratch = frozenset({"_search"})

    def __init__(self, X: np.ndarray, y: np.ndarray, k: int, ridge: float = 0.0) -> None:
        self.X, self.y, self.k, self.ridge = X, y, k, ridge
        self._search: SubsetSearch | screen.ScreenedSearch
        if ridge > 0.0 and X.shape[1] > screen.DENSE:
            self._search = screen.ScreenedSearch(X, y, k, ridge)
        else:
            data = SubsetData.from_columns(X, y, ridge)
            self._search = SubsetSearch(data, k, np.zeros(0, dtype=np.int64))

    def __str__(self) -> str:
        n, p = self.X.shape
        return f"BestSubset, {self.k} of {p} columns, {n} rows"

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of X."""
        return self.X.shape[1], self.X.shape[0]

    def check(self, x: np.ndarray) -> tuple[float, float]:
        """Objective, and by how many the non-zeros are too many."""
        if np.shape(x) != (self.X.shape[1],) or not np.all(np.isfinite(x)):
            return np.inf, np.inf
        rest = self.y - self.X @ x
        excess = max(0, int(np.count_nonzero(x)) - self.k)
        return float(rest @ rest + self.ridge * (x @ x)), float(excess)

    def accept(self, x: np.ndarray) -> np.ndarray:
        """Coefficients as they are, if there is one per column."""
        if np.shape(x) != (self.X.shape[1],):
            raise ValueError(f"a solution must have shape ({self.X.shape[1]},), got {np.shape(x)}")
        return x

    def prepare(self, goal: Goal) -> Evaluation:
        """First solutions."""
        found = self._search.prepare(goal)
        found.bound = 0.0
        return found

    def root(self) -> Any:
        """Every column is free."""
        return self._search.root()

    def evaluate(self, state: Any, goal: Goal) -> Evaluation:
        """Search below the node for a slice of work."""
        return self._search.evaluate(state, goal)

    def branch(
        self, state: Any, evaluation: Evaluation, candidate: Candidate
    ) -> Sequence[Child]:
        """What the evaluation left open."""
        return self._search.branch(evaluation)

    def encode(self, state: Any) -> list[list[int]]:
        """The state as JSON data."""
        return self._search.encode(state)

    def decode(self, data: Any) -> Any:
        """The state back from JSON data."""
        return self._search.decode(data)
