"""A subproblem of the search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relaxations.svm.bounds.game import Mixture
from relaxations.svm.bounds.joint import JointPolicy
from relaxations.svm.bounds.pairs import PairPolicy
from relaxations.svm.bounds.recourse import Policy

from .instance import FREE

__all__ = ["State"]


@dataclass
class State:
    """What is decided about the anchors and the intercept, and a warm start.

    Parameters
    ----------
    status : ndarray of int8 (m,)
        0 free, 1 enforced, -1 given up.
    t : ndarray (N,)
        Signed multipliers of the last bound, its own or its parent's.
    b_l, b_u : float
        Interval of the intercept.
    bound : float
        The best bound known of this very node, -inf where there is none yet.
    inherited : float
        The best bound of the nodes that it is a part of.
    width_cost : float
        How much higher it would be if the interval were its middle alone.
    u : ndarray (m,)
        Frequencies of the anchors in the sets that the drop bound played against.
    C : ndarray (a, a)
        Covariance of those whose frequency is not zero.
    gain : ndarray (m,)
        By how much enforcing each anchor raises the bound of a game at least, where positive.
    age : int
        How many sets these were.
    policy : Policy, PairPolicy or JointPolicy, optional
        Of the bound with recourse, by pairs or both, its own or its parent's.
    settled : bool
        Whether that bound has been found for this very node.
    """

    status: np.ndarray
    t: np.ndarray
    b_l: float
    b_u: float
    u: np.ndarray
    C: np.ndarray
    gain: np.ndarray
    age: int = 0
    bound: float = -np.inf
    width_cost: float = 0.0
    policy: Policy | PairPolicy | JointPolicy | None = None
    settled: bool = False
    inherited: float = -np.inf

    @classmethod
    def root(cls, anchors: int, variables: int) -> State:
        """Everything free."""
        return cls(
            np.zeros(anchors, np.int8), np.zeros(variables), -np.inf, np.inf, np.zeros(anchors),
            np.zeros((0, 0)), np.zeros(anchors),
        )

    def part(self) -> State:
        """A copy to be narrowed down: what is decided and learned, but no bound of its own."""
        return replace(
            self, status=self.status.copy(), t=self.t.copy(), bound=-np.inf, width_cost=0.0,
            settled=False, inherited=max(self.inherited, self.bound),
        )

    def with_status(self, anchor: int, status: int) -> State:
        """The part in which this is decided about one anchor."""
        part = self.part()
        part.status[anchor] = status
        return part

    @property
    def free(self) -> np.ndarray:
        """The anchors that nothing is decided about."""
        return np.flatnonzero(self.status == FREE)

    def recall(self, free: np.ndarray) -> Mixture:
        """The mixture that the node remembers, over its free anchors."""
        known = np.flatnonzero(self.u > 0.0)
        still = np.flatnonzero(self.status[known] == FREE)
        place = np.searchsorted(free, known[still])
        C = np.zeros((free.size, free.size))
        C[np.ix_(place, place)] = self.C[np.ix_(still, still)]
        return Mixture(self.u[free], C, self.age)

    def remember(self, free: np.ndarray, mixture: Mixture, rare: float, most_age: int) -> None:
        """Keep what is worth keeping of the mixture."""
        known = np.flatnonzero(mixture.u > rare)
        self.u = np.zeros(self.u.size)
        self.u[free[known]] = mixture.u[known]
        self.C = mixture.C[np.ix_(known, known)].astype(np.float32)
        self.age = min(mixture.age, most_age)

    def encode(self) -> Any:
        """As JSON data, without bound and covariance, which are found again."""
        used = np.flatnonzero(self.t)
        return {
            "status": self.status.tolist(), "b_l": self.b_l, "b_u": self.b_u,
            "places": used.tolist(), "t": self.t[used].tolist(), "u": self.u.tolist(),
            "age": self.age,
        }

    @classmethod
    def decode(cls, data: Any, anchors: int, variables: int) -> State:
        """The node back from `encode`; a ValueError says what is wrong with it."""
        b_l, b_u, age = float(data["b_l"]), float(data["b_u"]), int(data["age"])
        if not (b_l <= b_u and age >= 0):
            raise ValueError("its interval or age cannot be")
        status = _numbers(data, "status", anchors, -1, 1)
        u = _numbers(data, "u", anchors, 0, 1)
        values = _numbers(data, "t", len(data["t"]), -1e300, 1e300)
        places = _numbers(data, "places", len(values), 0, variables - 1)
        if np.any(status % 1 != 0) or np.any(places % 1 != 0):
            raise ValueError("status and places must be whole numbers")
        t = np.zeros(variables)
        t[places.astype(int)] = values
        kept = u[u > 0.0]
        return cls(
            status.astype(np.int8), t, b_l, b_u, u, np.diag(kept * (1 - kept)), np.zeros(anchors),
            min(age, 1),
        )


def _numbers(data: Any, name: str, size: int, low: float, high: float) -> np.ndarray:
    """So many numbers within limits."""
    array = np.array(data[name], dtype=float)
    if array.shape != (size,) or not np.all((array >= low) & (array <= high)):
        raise ValueError(f"{name} must hold {size} numbers from {low:g} to {high:g}")
    return array
