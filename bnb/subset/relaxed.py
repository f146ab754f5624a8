"""The perspective relaxation of a best subset, and what it decides about single columns.

Let S ⪰ D with D diagonal and positive, G = S − D. For any u,

    βᵀSβ − 2bᵀβ ≥ −uᵀGu + Σ_j (D_j β_j² − 2 r_j β_j),    r = b − Gu,

so with at most k non-zeros it is at least −uᵀGu less the k largest of r_j² / D_j. The same sort
tells what a column that must be in, or out, does to that. The best u comes from the relaxation

    min over 0 ≤ z ≤ 1, Σz ≤ k of  min over β of  βᵀGβ − 2bᵀβ + Σ_j D_j β_j² / z_j,

by projected gradients in z: only the columns with z_j > 0, which are few, enter a linear system.

Which D makes much of the difference. With T = S⁻¹, D may be anything with λ_max(√D T √D) ≤ 1, and
the bound changes by z_j (1 − z_j) r_j² / D_j per unit of log D_j: columns that are neither in nor
out want curvature, the others can do without. So log D climbs along that, and is shifted back by
the largest eigenvalue, smoothed over the nearest ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from relaxations import Patience

_EPS = float(np.finfo(float).eps)
_STEPS = 25
_TOP = 8  # eigenvalues that count as the largest
_SHARP = 30.0  # how much less they count the smaller they are
_STRIDE = 0.5  # first step of log D


class Dense:
    """A matrix S that is written down, its entries at most one."""

    def __init__(self, S: np.ndarray) -> None:
        self._S = S
        self.length = len(S)

    def block(self, on: np.ndarray) -> np.ndarray:
        """The rows and columns `on`."""
        return self._S[np.ix_(on, on)]

    def times(self, on: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Su for a u that is zero but for the entries `on`."""
        return self._S[:, on] @ u


class Ridged:
    """S = XᵀX + D with columns of length one at most, as the rows of Xᵀ."""

    def __init__(self, rows: np.ndarray, D: np.ndarray) -> None:
        self._rows = rows
        self._D = D
        self.length = rows.shape[1]

    def block(self, on: np.ndarray) -> np.ndarray:
        """The rows and columns `on`."""
        some = self._rows[on]
        return some @ some.T + np.diag(self._D[on])

    def times(self, on: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Su for a u that is zero but for the entries `on`."""
        product = self._rows @ (u @ self._rows[on])
        product[on] += self._D[on] * u
        return product


Gram = Dense | Ridged


@dataclass(frozen=True)
class Relaxed:
    """A bound, and what each column adds to it.

    Parameters
    ----------
    bound : float
        Lower bound on βᵀSβ − 2bᵀβ, rounding included.
    score : ndarray
        r_j² / D_j.
    z : ndarray
        The point that the bound comes from.
    inside : int
        So many columns, the first, are in.
    """

    bound: float
    score: np.ndarray
    z: np.ndarray
    inside: int = 0

    def forced(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Bounds with each free column in, and with each free column out."""
        score = self.score[self.inside :]
        order = np.argsort(-score, kind="stable")
        return (
            self.bound + np.maximum(score[order[k - 1]] - score, 0.0),
            self.bound + np.maximum(score - score[order[k]], 0.0),
        )


class Diagonals:
    """Diagonals D with S ⪰ D, by their logarithms up to a shift.

    Parameters
    ----------
    T : ndarray
        The inverse of S.
    theta : float
        Its relative error.
    """

    def __init__(self, T: np.ndarray, theta: float) -> None:
        self._T = T
        self._theta = theta

    def at(self, log: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """D, and how the shift depends on each logarithm: weights that add up to one."""
        size = np.exp(0.5 * log)
        n = len(log)
        lowest = max(0, n - _TOP)
        values, vectors = la.eigh(
            size[:, None] * self._T * size, subset_by_index=[lowest, n - 1], check_finite=False
        )
        weight = np.exp(_SHARP * (values / values[-1] - 1.0))
        largest = values[-1] * (1.0 + 10.0 * _EPS * n)
        D = (1.0 - 3.0 * self._theta) / largest * size**2
        return D, vectors**2 @ (weight / weight.sum())

    def start(self) -> np.ndarray:
        """What a column costs alone, for D of the right proportions."""
        return -np.log(self._T.diagonal())


def evaluate(
    S: Gram, b: np.ndarray, D: np.ndarray, k: int, z: np.ndarray, inside: int = 0
) -> tuple[float, Relaxed]:
    """The value of the relaxation at z, and the bound that its solution gives."""
    on = np.flatnonzero(z)
    scale = np.sqrt(z[on] / D[on])
    G = S.block(on) - np.diag(D[on])
    system = np.eye(len(on)) + scale[:, None] * G * scale
    u = scale * la.solve(system, scale * b[on], assume_a="pos", check_finite=False)
    Su = S.times(on, u)
    r = b - Su
    r[on] += D[on] * u
    weight = float(np.abs(u).sum())
    n = S.length + len(on) + 5.0
    r = np.abs(r) + _EPS * n * (1.0 + 2.0 * weight)  # entries of S and b are at most one
    score = r * r / D
    top = float(score[:inside].sum() + np.partition(score[inside:], -k)[-k:].sum())
    curved = float(u @ Su[on] - D[on] @ (u * u))
    bound = -curved - top - _EPS * n * (2.0 * weight**2 + 2.0 * top)
    return -float(b[on] @ u), Relaxed(bound, score, z, inside)


def relax(
    S: Gram, b: np.ndarray, D: np.ndarray, k: int, z: np.ndarray, goal: float, inside: int = 0
) -> Relaxed:
    """Improve z until the bound reaches the goal or stops rising.

    Parameters
    ----------
    S, b : Gram, ndarray
        Of columns of length one at most.
    D : ndarray
        S ⪰ D.
    k : int
        How many of the free columns may be chosen.
    z : ndarray
        Where to begin.
    goal : float
        A bound that is high enough.
    inside : int
        So many columns, the first, are in.
    """
    z = project(z, k, inside)
    value, found = evaluate(S, b, D, k, z, inside)
    best = found
    step = 1.0 / max(float(found.score.max()), 1e-300)
    for _ in range(_STEPS):
        if best.bound >= goal or value - best.bound <= 0.03 * max(goal - value, 1e-5):
            break
        while True:
            new = project(z + step * found.score, k, inside)
            move = new - z
            there, trial = evaluate(S, b, D, k, new, inside)
            if there <= value - 1e-2 * float(found.score @ move) or step < 1e-12:
                break
            step *= 0.3
        change = trial.score - found.score
        curve = -float(move @ change)
        step = min(float(move @ move) / curve, 1e6 * step) if curve > 0.0 else 4.0 * step
        z, value, found = new, there, trial
        if found.bound > best.bound:
            best = found
    return best


def climb(
    S: Gram, b: np.ndarray, diagonals: Diagonals, k: int, log: np.ndarray, z: np.ndarray,
    goal: float, rounds: int, patience: Patience,
) -> tuple[Relaxed, np.ndarray]:
    """Improve D and z in turn until the goal is reached or decides about many columns.

    Returns the best bound found and the logarithms of its D.
    """
    best: Relaxed | None = None
    kept, first = log, 0.0
    for count in range(rounds):
        D, pull = diagonals.at(log)
        found = relax(S, b, D, k, z if best is None else best.z, goal)
        if best is None:
            first = found.bound
        if best is None or found.bound > best.bound:
            best, kept = found, log
        decided = sum(int(np.sum(part >= goal)) for part in best.forced(k))
        if best.bound >= goal or decided >= 0.25 * len(b) or patience.expired():
            break
        if count >= 4 and best.bound - first < 0.02 * count * (goal - first):  # not worth it
            break
        push = found.z * (1.0 - found.z) * found.score
        total = float(push.sum())
        if total <= 0.0:  # the relaxation is integral: D has no say
            break
        step = push / total - pull
        log = log + _STRIDE / (1.0 + 0.1 * count) * step / np.abs(step).max()
    assert best is not None
    return best, kept


def project(z: np.ndarray, k: int, inside: int = 0) -> np.ndarray:
    """The nearest point with 0 ≤ z ≤ 1 and Σz ≤ k over the free; one for those that are in."""
    if inside:
        return np.concatenate([np.ones(inside), project(z[inside:], k)])
    clipped = np.clip(z, 0.0, 1.0)
    if clipped.sum() <= k:
        return clipped
    low, high = float(z.min()) - 1.0, float(z.max())
    for _ in range(100):
        middle = 0.5 * (low + high)
        total = np.clip(z - middle, 0.0, 1.0).sum()
        if abs(total - k) <= 1e-12 * k:
            break
        low, high = (middle, high) if total > k else (low, middle)
    return np.clip(z - high, 0.0, 1.0)
