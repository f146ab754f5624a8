"""Integer least squares: convex QPs in integers without rows, by enumeration of a lattice.

f(x) = f(c) + ‖R(x − c)‖² with R triangular: fixing integers from the last on, what is known of the
sum bounds the rest, and the values of a variable are tried from the nearest to its centre outwards.
In a reduced basis of the lattice (Lenstra, Lenstra and Lovász) few are ever tried. Box constraints
are checked at the end only, so this is for boxes around the centre: see `LatticeSearch.pays`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as la

from relaxations.jit import outer

from ..problem import Candidate, Child, Evaluation, Goal
from ..rounding import EPS as _EPS
from ..rounding import qr_error

_SLICE = 1_000_000.0  # nodes between two looks at the clock: a tenth of a second
_FAR = 2**52
_LARGE = 2.0**30  # coefficients of a basis beyond this are not trusted to floats


@outer
def _reduce(B: np.ndarray, U: np.ndarray) -> bool:
    """LLL on the columns of B, in place, with the same steps on U; False if it does not end."""
    m, n = B.shape
    Q, size = np.zeros((n, m)), np.zeros(n)
    k = 1
    for _ in range(2000 * n):
        if k >= n:
            return True
        # Gram-Schmidt anew: n is small, and errors do not build up.
        for i in range(k + 1):
            for r in range(m):
                Q[i, r] = B[r, i]
            for j in range(i):
                share = 0.0
                for r in range(m):
                    share += Q[j, r] * B[r, i]
                share /= size[j]
                for r in range(m):
                    Q[i, r] -= share * Q[j, r]
            size[i] = 1e-300
            for r in range(m):
                size[i] += Q[i, r] ** 2
        mu = 0.0
        for j in range(k - 1, -1, -1):
            share = 0.0
            for r in range(m):
                share += Q[j, r] * B[r, k]
            share /= size[j]
            whole = np.round(share)
            if whole != 0.0:
                for r in range(m):
                    B[r, k] -= whole * B[r, j]
                for r in range(n):
                    U[r, k] -= whole * U[r, j]
            if j == k - 1:
                mu = share - whole
        if size[k] >= (0.99 - mu * mu) * size[k - 1]:
            k += 1
        else:
            for i in range(m):
                B[i, k], B[i, k - 1] = B[i, k - 1], B[i, k]
            for i in range(n):
                U[i, k], U[i, k - 1] = U[i, k - 1], U[i, k]
            k = max(k - 1, 1)
    return False


def _nearest_plane(R: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Babai's point: integers from the last on, each the nearest to its centre."""
    w = np.zeros(len(c))
    for i in range(len(c) - 1, -1, -1):
        w[i] = np.round(c[i] + R[i, i + 1 :] @ (c - w)[i + 1 :] / R[i, i])
    return w


@outer
def _cut(best: float, scale: tuple[float, float, float, float, float]) -> float:
    """The smallest sum that cannot lead to anything worth having, rounding included."""
    least, theta, shift, relative, absolute = scale
    if best == np.inf:
        return np.inf
    worth = best - max(absolute, relative * abs(best)) - least
    return (np.sqrt(worth / (1.0 - theta)) + shift) ** 2 if worth > 0.0 else 0.0


@outer
def _walk(
    R: np.ndarray, c: np.ndarray, U: np.ndarray, lb: np.ndarray, ub: np.ndarray, w: np.ndarray,
    top: int, low: int, high: int, best: float,
    scale: tuple[float, float, float, float, float], nodes: float,
) -> tuple:
    """Enumerate below a node, depth first.

    Parameters
    ----------
    R, c : ndarray
        Triangle and centre in the reduced basis.
    U : ndarray
        From the reduced basis to x.
    lb, ub : ndarray
        The box of x.
    w : ndarray
        Values in the reduced basis; those after `top` are fixed.
    top, low, high : int
        The first variable to decide, and between what.
    best : float
        Objective of the incumbent.
    scale : (least, theta, shift, relative gap, absolute gap)
        What makes bounds of sums, and the gap that need not be closed.
    nodes : float
        Nodes to visit at most.

    Returns
    -------
    best, x
        x is empty if the incumbent was not improved.
    closed : float
        Smallest sum of anything that was cut off.
    visited : int
    level, fresh : int, bool
        Where the walk stopped, −1 when it is done, and whether nothing has been tried there. From
        there up to `top`:
    w, first, last, sums, centre
        Values, the ends of what was tried, and the sum before and the centre of each.
    """
    n = len(c)
    w = w.copy()
    first, last = np.zeros(n, np.int64), np.zeros(n, np.int64)
    centre, sums = np.zeros(n), np.zeros(n + 1)
    x = np.empty(0)
    for i in range(n - 1, top, -1):
        e = c[i]
        for j in range(i + 1, n):
            e += R[i, j] / R[i, i] * (c[j] - w[j])
        sums[i] = sums[i + 1] + (R[i, i] * (w[i] - e)) ** 2
    cut, closed = _cut(best, scale), np.inf
    visited = 0
    i = top
    fresh = True
    while visited < nodes:
        bottom, ceiling = -_FAR, _FAR
        if i == top:
            bottom, ceiling = low, high
        if fresh:
            e = c[i]
            for j in range(i + 1, n):
                e += R[i, j] / R[i, i] * (c[j] - w[j])
            centre[i] = e
            value = int(min(max(np.round(e), bottom), ceiling))
            first[i], last[i] = value, value
        else:
            down, up = first[i] - 1, last[i] + 1
            below = centre[i] - down if down >= bottom else np.inf
            above = up - centre[i] if up <= ceiling else np.inf
            if below == np.inf and above == np.inf:
                if i == top:
                    return best, x, closed, visited, -1, False, w, first, last, sums, centre
                i += 1
                continue
            value = down if below <= above else up
        total = sums[i + 1] + (R[i, i] * (value - centre[i])) ** 2
        if total >= cut:  # and so are all that come later
            closed = min(closed, total)
            if i == top:
                return best, x, closed, visited, -1, False, w, first, last, sums, centre
            i += 1
            fresh = False
            continue
        first[i], last[i] = min(first[i], value), max(last[i], value)
        w[i] = value
        sums[i] = total
        visited += 1
        fresh = i > 0
        if i > 0:
            i -= 1
            continue
        point = np.zeros(n)
        inside = True
        for r in range(n):
            for j in range(n):
                point[r] += U[r, j] * w[j]
            inside = inside and lb[r] <= point[r] <= ub[r]
        if inside:
            closed = min(closed, total)
            if scale[0] + total < best:
                best, x = scale[0] + total, point
                cut = _cut(best, scale)
    return best, x, closed, visited, i, fresh, w, first, last, sums, centre


@dataclass(frozen=True)
class Ray:
    """A node: the last values of the reduced basis are fixed, the one before lies between two."""

    fixed: tuple[int, ...]
    low: int
    high: int


class LatticeSearch:
    """min ½ xᵀPx + qᵀx + constant over integers in a box around the minimum without both.

    Made by `of`, which returns None where this is not the way.
    """

    def __init__(
        self, R: np.ndarray, U: np.ndarray, centre: np.ndarray, box: tuple[np.ndarray, np.ndarray],
        least: float, theta: float, shift: float,
    ) -> None:
        self.R, self.U, self.centre, self.box = R, U, centre, box
        self.least, self.theta, self.shift = least, theta, shift

    @staticmethod
    def of(
        P: np.ndarray, q: np.ndarray, constant: float, lb: np.ndarray, ub: np.ndarray,
        tolerance: float,
    ) -> LatticeSearch | None:
        """Reduce the lattice and bound all rounding.

        None if P is so close to singular that bounds would have a larger relative error than the
        tolerance.
        """
        n = len(q)
        size = np.sqrt(0.5 * P.diagonal())
        if n < 2 or not np.all(size > 0.0):
            return None
        try:
            R = la.cholesky(0.5 * P)
        except la.LinAlgError:
            return None
        c = la.cho_solve((R, False), -0.5 * q)
        B, U = R.copy(), np.eye(n)
        if not _reduce(B, U):
            return None
        back = np.round(np.linalg.inv(U))
        if max(np.abs(U).max(), np.abs(back).max()) > _LARGE or not np.array_equal(
            U @ back, np.eye(n)
        ):
            return None
        reduced = la.qr(R @ U, mode="r")[0]
        lengths = np.linalg.norm(reduced, axis=0)
        unit = reduced / lengths
        inverse = la.solve_triangular(unit, np.eye(n))
        spread = float(np.linalg.norm(inverse))
        given = float(np.linalg.norm(la.solve_triangular(R / size, np.eye(n))))
        column = np.linalg.norm(np.abs(R) @ np.abs(U), axis=0) / lengths
        theta = 2.0 * np.sqrt(n) * qr_error(n, n) * spread + _EPS * (  # the reduced triangle
            n * (n + 2) * given**2  # Cholesky
            + 2.0 * n**1.5 * float(column.max()) * spread  # the product before it
            + 4.0 * (n + 3) * float(np.linalg.norm(np.abs(unit) @ np.abs(inverse)))  # sums
        )
        slope = 2.0 * (0.5 * P @ c) + q
        noise = _EPS * (n + 2) * (np.abs(P) @ np.abs(c) + np.abs(q))
        ahead = la.solve_triangular(R, np.eye(n)).T
        off = 0.5 * float(np.linalg.norm(ahead @ slope) + np.linalg.norm(np.abs(ahead) @ noise))
        shift = off + float(lengths @ (_EPS * (n + 2) * (np.abs(back) @ np.abs(c))))
        terms = 0.5 * float(np.abs(c) @ np.abs(P) @ np.abs(c)) + float(np.abs(q) @ np.abs(c))
        least = 0.5 * float(c @ P @ c) + float(q @ c) + constant
        least -= 2.0 * off**2 + _EPS * (n + 4) * (terms + abs(constant))
        if not theta <= tolerance:
            return None
        return LatticeSearch(reduced, U, back @ c, (lb, ub), least, theta, shift)

    def pays(self, goal: Goal) -> bool:
        """Whether the point that rounding from the centre leads to lies in the box.

        If not, much may be tried outside: then only if one slice of work is enough for all.
        """
        nearest = self.U @ _nearest_plane(self.R, self.centre)
        inside = np.all((self.box[0] <= nearest) & (nearest <= self.box[1]))
        return bool(inside) or not self.evaluate(self.root(), goal).data

    def start(self, P: np.ndarray, q: np.ndarray) -> np.ndarray:
        """A point from rounding, improved one variable at a time."""
        lb, ub = self.box
        x = np.clip(np.round(self.U @ self.centre), lb, ub)
        curve = P.diagonal()
        for _ in range(100 * len(q)):
            slope = P @ x + q
            there = np.clip(np.round(x - slope / curve), lb, ub)
            gain = -(slope * (there - x) + 0.5 * curve * (there - x) ** 2)
            j = int(np.argmax(gain))
            if gain[j] <= 1e-12 * (1.0 + abs(slope[j])):
                break
            x[j] = there[j]
        return x

    def root(self) -> Ray:
        """Nothing is fixed."""
        return Ray((), -_FAR, _FAR)

    def evaluate(self, state: Ray, goal: Goal) -> Evaluation:
        """Enumerate for a slice of work."""
        n = len(self.centre)
        top = n - 1 - len(state.fixed)
        w = np.zeros(n)
        w[top + 1 :] = state.fixed
        tolerance = goal.tolerance
        # A little less than the gap, for the objective is computed in another way in the end.
        scale = (self.least, self.theta, self.shift, 0.99 * tolerance.relative,
                 0.99 * tolerance.absolute)
        _, x, closed, visited, *rest = _walk(
            self.R, self.centre, self.U, *self.box, w, top, state.low, state.high, goal.objective,
            scale, min(float(goal.nodes), _SLICE),
        )
        children = self._left(state, top, *rest)
        bound = min([self._value(closed), *(child.bound for child in children)])
        return Evaluation(
            bound, [("N", x)] if len(x) else [], [Candidate(0)] if children else (), children,
            removed=self._value(closed), nodes=max(visited, 1), work={"walks": 1},
        )

    def _left(
        self, state: Ray, top: int, level: int, fresh: bool, w: np.ndarray, first: np.ndarray,
        last: np.ndarray, sums: np.ndarray, centre: np.ndarray,
    ) -> list[Child]:
        """On every level, the values below and above those that were tried."""
        children = []
        for i in range(level, top + 1) if level >= 0 else ():
            low, high = (state.low, state.high) if i == top else (-_FAR, _FAR)
            fixed = tuple(int(v) for v in w[i + 1 :])
            if fresh and i == level:
                children.append(Child(Ray(fixed, low, high), self._value(sums[i + 1])))
                continue
            for a, b, near in ((low, int(first[i]) - 1, centre[i] - first[i] + 1.0),
                               (int(last[i]) + 1, high, last[i] + 1.0 - centre[i])):
                if a <= b:
                    total = sums[i + 1] + (self.R[i, i] * max(near, 0.0)) ** 2
                    children.append(Child(Ray(fixed, a, b), self._value(total)))
        return children

    def _value(self, total: float) -> float:
        """A certified bound on the objective of all points whose sum is at least this."""
        root = max(np.sqrt(total) - self.shift, 0.0)
        return self.least + (1.0 - self.theta) * root**2 * (1.0 - 4.0 * _EPS)

    def branch(self, evaluation: Evaluation) -> Sequence[Child]:
        """What the evaluation left open."""
        return evaluation.data

    def encode(self, state: Ray) -> list[Any]:
        """The node as JSON data."""
        return [list(state.fixed), state.low, state.high]

    def decode(self, data: Any) -> Ray:
        """The node back, checked."""
        fixed, low, high = data
        numbers = [*fixed, low, high]
        if len(fixed) >= len(self.centre) or not all(type(v) is int for v in numbers):
            raise ValueError("a node must hold integers, fewer than there are variables")
        return Ray(tuple(fixed), low, high)
