"""Random mixed-integer QPs of every awkward sort."""

from __future__ import annotations

import numpy as np

import bnb

from .engine import EngineKind, draw_options
from .integers import solve_truth
from .judge import Truth
from .quadratic import Quadratic, verified

SCALES = [1.0, 1.0, 1.0, 1e-6, 1e-3, 1e3, 1e6]


class MixedInteger(EngineKind):
    """`bnb.MIQP`: made around a point that is feasible unless the problem is broken on purpose."""

    def make(self, rng: np.random.Generator) -> dict:
        draft = Draft(rng)
        draft.open_bounds()
        draft.add_rows()
        if rng.random() < 0.4:
            draft.add_switches()
        draft.add_objective()
        if rng.random() < 0.15:
            draft.break_rows()
        draft.duplicate()
        if rng.random() < 0.4:
            draft.rescale()
        return draft.data(draw_options(rng))

    def deep(self, rng: np.random.Generator) -> dict:
        n = int(rng.integers(5, 7))
        F = rng.normal(size=(n, n))
        A = rng.integers(-2, 3, size=(1, n))
        return {
            "P": F @ F.T, "q": 5 * rng.normal(size=n), "A": A, "l": [-np.inf],
            "u": [float(rng.integers(0, 4))], "lb": np.full(n, -3.0), "ub": np.full(n, 3.0),
            "integer": np.arange(n), "binary": [], "constant": 0.0, "near": np.zeros(n),
            "planted": False, "bounded": True, "ray": None, "scip": False,
            "options": draw_options(rng),
        }

    def build(self, data: dict) -> bnb.Problem:
        q, A, low, high = (np.asarray(data[name], float) for name in ("q", "A", "l", "u"))
        return bnb.MIQP(
            data["P"], q, A.reshape(-1, len(q)), low, high,
            lb=np.asarray(data["lb"], float), ub=np.asarray(data["ub"], float),
            integer=data["integer"], binary=data["binary"], constant=data["constant"],
        )

    def audit(self, data: dict, x: np.ndarray) -> tuple[float, float, float]:
        qp = Quadratic.of(data)
        whole = x[_integer(data)]
        broken = np.abs(whole - np.round(whole)).max(initial=0.0)
        return qp.objective(x), qp.terms(x), max(qp.violation(x), float(broken))

    def truth(self, data: dict) -> Truth:
        qp, integer, near = Quadratic.of(data), _integer(data), np.asarray(data["near"], float)
        truth = solve_truth(qp, integer, near, scip=data["scip"])
        if data["planted"]:
            point = verified(qp, near)
            truth.offer(point.value, point.slack)
        truth.bounded = data["bounded"]
        truth.unbounded = data["ray"] is not None and truth.best < np.inf
        return truth


def _integer(data: dict) -> np.ndarray:
    return np.unique(np.asarray([*data["integer"], *data["binary"]], int))


class Draft:
    """A problem in the making; `near` stays feasible until `break_rows`."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        n = self.n = int(rng.integers(1, 7))
        share = rng.dirichlet([1.0, 1.0, 1.0])
        kinds = rng.choice(3, size=n, p=share)  # binary, integer, continuous
        if rng.random() < 0.1:  # large enough for the heuristics of pure binaries
            n = self.n = int(rng.integers(7, 12))
            kinds = np.zeros(n, int)
        self.binary, self.integer = kinds == 0, kinds == 1
        self.near = np.where(self.binary, rng.integers(0, 2, n), rng.integers(-3, 4, n)) + 0.0
        reach = rng.integers(0, 3, (2, n)) + (kinds == 2) * rng.integers(0, 5, (2, n))
        self.lb = np.where(self.binary, 0.0, self.near - reach[0])
        self.ub = np.where(self.binary, 1.0, self.near + reach[1])
        self.planted, self.bounded = True, True
        self.ray: np.ndarray | None = None

    def open_bounds(self) -> None:
        """Infinite bounds, on integers too, and very wide ones."""
        rng, n = self.rng, self.n
        if rng.random() < 0.5:
            return
        wide = np.inf if rng.random() < 0.7 else 10.0 ** rng.integers(4, 13)
        below, above = rng.random((2, n)) < rng.choice([0.3, 0.7, 1.0])
        self.lb[below & ~self.binary] = -wide
        self.ub[above & ~self.binary] = wide

    def add_rows(self) -> None:
        """Equations, one-sided rows, ranges and rows that ask for nothing."""
        rng, n = self.rng, self.n
        m = int(rng.integers(0, 5))
        self.A = rng.integers(-3, 4, size=(m, n)).astype(float)
        if rng.random() < 0.3:
            self.A = np.round(rng.normal(size=(m, n)), 3)
        self.A[rng.random((m, n)) < rng.choice([0.0, 0.3, 0.6])] = 0.0
        value = self.A @ self.near
        kind = rng.choice(5, size=m, p=[0.2, 0.35, 0.2, 0.2, 0.05])
        self.l = np.where(kind == 0, value, value - rng.integers(0, 4, m))
        self.u = np.where(kind == 0, value, value + rng.integers(0, 4, m))
        self.l[(kind == 1) | (kind == 4)] = -np.inf
        self.u[(kind == 2) | (kind == 4)] = np.inf

    def add_switches(self) -> None:
        """Rows x ≤ u z and x ≥ l z, with a needlessly large constant where there is no bound."""
        rng = self.rng
        others = np.flatnonzero(~self.binary)
        for z, x in zip(np.flatnonzero(self.binary), rng.permutation(others), strict=False):
            if self.near[z] == 0.0 != self.near[x]:
                continue
            big = float(rng.choice([10.0, 1e3, 1e6]))
            for bound, low, high in ((self.ub[x], -np.inf, 0.0), (self.lb[x], 0.0, np.inf)):
                side = bound if np.isfinite(bound) else np.copysign(big, bound)
                row = np.zeros(self.n)
                row[x], row[z] = 1.0, -side
                if low <= row @ self.near <= high:
                    self._append(row, low, high)

    def add_objective(self) -> None:
        """P of any rank; q such that the dual is feasible, or falling along a ray."""
        rng, n = self.rng, self.n
        rank = int(rng.integers(0, n + 1))
        F = rng.integers(-2, 3, size=(rank, n)).astype(float)
        if rng.random() < 0.4:
            F = rng.normal(size=(rank, n))
        if rng.random() < 0.3:
            F *= 10.0 ** rng.integers(-4, 3)
        free = np.flatnonzero(~self.binary)
        if rng.random() < 0.08 and free.size:
            self._fall(F, free)
            return
        self.P = F.T @ F
        away = rng.normal(size=n) * rng.choice([0.0, 1.0, 5.0])
        price = rng.normal(size=len(self.A)) * (rng.random(len(self.A)) < 0.5)
        price = np.clip(price, *np.where(np.isfinite([self.u, self.l]), [[-9.0], [9.0]], 0.0))
        cost = rng.normal(size=n) * rng.choice([0.1, 1.0, 10.0])
        cost = np.clip(cost, *np.where(np.isfinite([self.ub, self.lb]), [[-99.0], [99.0]], 0.0))
        self.q = -self.P @ (self.near + away) + self.A.T @ price + cost

    def _fall(self, F: np.ndarray, free: np.ndarray) -> None:
        """A direction of whole numbers without curvature along which nothing stops the fall."""
        rng, ray = self.rng, np.zeros(self.n)
        chosen = rng.permutation(free)[:2]
        ray[chosen] = rng.choice([-1.0, 1.0], size=len(chosen))
        first, other = chosen[0], chosen[-1]
        F[:, first] = 0.0 if first == other else -F[:, other] * ray[first] * ray[other]
        self.P = F.T @ F
        self.ub[ray > 0], self.lb[ray < 0] = np.inf, -np.inf
        slope = self.A @ ray
        self.u[slope > 0], self.l[slope < 0] = np.inf, -np.inf
        self.q = np.round(rng.normal(size=self.n), 3)
        self.q -= ray * (self.q @ ray + float(rng.choice([0.01, 1.0, 10.0]))) / (ray @ ray)
        self.ray, self.bounded = ray, False

    def break_rows(self) -> None:
        """Rows that contradict each other, the bounds, or integrality; maybe."""
        rng = self.rng
        self.planted, self.ray = False, None  # a new row may be in its way
        way = rng.integers(3)
        row = rng.integers(-3, 4, self.n).astype(float)
        value = float(row @ self.near)
        if way == 0:  # two rows apart
            gap = float(rng.choice([1e-3, 1.0, 100.0]))
            self._append(row, -np.inf, value)
            self._append(row, value + gap, np.inf)
        elif way == 1:  # a fraction, out of reach of integers
            self._append(2.0 * row, 2.0 * value + 1.0, 2.0 * value + 1.0)
        else:
            self._append(row, value + 40.0, value + 60.0)

    def _append(self, row: np.ndarray, low: float, high: float) -> None:
        self.A = np.vstack([self.A, row])
        self.l, self.u = np.append(self.l, low), np.append(self.u, high)

    def duplicate(self) -> None:
        """The same row or the same variable twice."""
        rng = self.rng
        if len(self.A) and rng.random() < 0.15:
            i = int(rng.integers(len(self.A)))
            self._append(self.A[i], self.l[i], self.u[i])
        if self.n > 1 and rng.random() < 0.15 and self.ray is None:
            a, b = rng.permutation(self.n)[:2]
            if (self.binary[a], self.integer[a]) != (self.binary[b], self.integer[b]):
                return
            shift = self.A[:, b] * self.near[b] - self.A[:, a] * self.near[b]
            self.A[:, b] = self.A[:, a]
            self.l, self.u = self.l - shift, self.u - shift
            self.P[b], self.P[:, b] = self.P[a], self.P[:, a]
            self.P[b, b] = self.P[a, a]
            self.P[a, b] = self.P[b, a] = self.P[a, a]
            # The same cost could undo the proof that the fall has an end.
            self.bounded = False
            self.q[b] = self.q[a]

    def rescale(self) -> None:
        """Other units for the objective, for rows and for continuous variables."""
        rng, n = self.rng, self.n
        objective = rng.choice(SCALES)
        rows = rng.choice(SCALES, size=len(self.A)) if rng.random() < 0.5 else np.ones(len(self.A))
        units = np.ones(n)
        if rng.random() < 0.5:
            continuous = ~(self.binary | self.integer)
            units[continuous] = rng.choice([*SCALES, 1e8])
        self.P = self.P * objective / np.outer(units, units)
        self.q = self.q * objective / units
        self.A = rows[:, None] * self.A / units
        self.l, self.u = self.l * rows, self.u * rows
        self.lb, self.ub, self.near = self.lb * units, self.ub * units, self.near * units
        if self.ray is not None:
            self.ray = self.ray * units

    def data(self, options: dict) -> dict:
        rng = self.rng
        empty = not self.P.any() and rng.random() < 0.7
        return {
            "P": None if empty else self.P, "q": self.q, "A": self.A, "l": self.l, "u": self.u,
            "lb": self.lb, "ub": self.ub, "integer": np.flatnonzero(self.integer),
            "binary": np.flatnonzero(self.binary),
            "constant": float(rng.choice([0.0, 0.0, 3.5, -1000.0])), "near": self.near,
            "planted": self.planted, "bounded": self.bounded, "ray": self.ray,
            "scip": bool(rng.random() < 0.05), "options": options,
        }
