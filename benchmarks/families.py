"""The instances: fixed data, fixed seeds, and a digest by which two people know they ran the same.

linear, rbf   australian, german and biodeg cut to 60, 200 and 400 points (linear: all points too)
paper         RBF at the paper's full size, ten pairs (C, γ), its own targets
budgets       one problem with more and more anchors that may be given up
rates         true positive and true negative rate at once
rates-full    two rates, three, and the true positive rate in three groups, at the paper's full
              size, costs per point
rates-tight   two rates on the noisy three of these sets with budgets of 1 and 3 %
points        one rate at full size with smooth, linear and rough kernels, costs per point
large         thousands of points: random ones, pageBlocks without compression, a linear kernel
portfolios    OR-Library port1 … port5, at most ten assets
subset        best-subset regression on scikit-learn's diabetes data
sparse        best-subset regression on made data, 50 to 500 correlated columns
ridge         the same with 10,000 columns and a ridge; no peer gets it, its matrix is too large
commitment    unit commitment: which of 6 to 20 power plants run in which of 12 or 24 hours
dense         integer least squares, and random MIQPs as miosqp makes them
qplib         mixed-integer convex QPs of QPLIB
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_diabetes, make_classification
from sklearn.preprocessing import StandardScaler

import bnb
import csvm
from bnb.problem import Problem
from bnb.subset import BestSubset
from csvm.search import CSVMProblem, Instance, Settings, slack_costs
from csvm.thresholds import threshold_count

from .formulations import CSVM_FORMULATIONS, Arrays, Reading
from .instances import instance_file, load_portfolio, portfolio_problem, random_portfolio
from .model import PeerModel
from .paper.printed import TARGETS
from .paper.protocol import compress, cut, load

PAPER = (
    ("australian", 32.0, 2.0**-2), ("australian", 32.0, 2.0), ("australian", 2.0, 2.0**-4),
    ("german", 32.0, 2.0**-5), ("german", 32.0, 2.0**-2),
    ("biodeg", 32.0, 2.0**-5), ("biodeg", 32.0, 2.0**-2), ("biodeg", 2.0, 2.0**-3),
    ("wisconsin", 32.0, 2.0**-5), ("wisconsin", 32.0, 2.0**-3),
)
WISCONSIN_BUDGET = 15  # its own target leaves nothing to give up
WEIGHTS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
QPLIB = ("QPLIB_3871", "QPLIB_3980", "QPLIB_3913")
MADE = "made"
RIDGE = 0.1  # a tenth of the squared length of a column
COMPRESSED = 0.2  # share of pageBlocks that k-means keeps, per class
BASE = Settings(chances=(), probes=0, few=-1.0)  # the plain bound, most violated anchor first
SMALL_SHARE = 0.15  # of a sample's anchors may be given up: Hoeffding's term would allow none


@dataclass(frozen=True)
class Benchmark:
    """A problem for us, whose `check` judges every solver's point, and its models for the peers.

    With each model there is the function from its x to a solution of our problem.
    """

    family: str
    name: str
    digest: str
    problem: Callable[[], Problem]
    formulations: Mapping[str, Callable[[], tuple[PeerModel, Reading]]]
    options: Mapping[str, Any]  # for `bnb.solve`
    small_objective: bool = False  # whether peers need it scaled up


def digest(*parts: object) -> str:
    """SHA-256 of numbers and text, numbers to nine digits so that rounding does not matter."""
    state = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            state.update(f"|{part}|".encode())
            continue
        array = np.asarray(part, dtype=float)
        numbers = " ".join("%.9g" % (v + 0.0) for v in array.ravel())
        state.update(f"|{array.shape}|{numbers}|".encode())
    return state.hexdigest()


def made(points: int | None) -> tuple[np.ndarray, np.ndarray]:
    """So many standardised points with noisy labels, every fifth of them positive."""
    X, y = make_classification(points, 20, weights=[0.8], flip_y=0.05, random_state=0)
    return StandardScaler().fit_transform(X), np.where(y > 0, 1.0, -1.0)


@lru_cache(maxsize=4)
def first_fold(name: str) -> tuple[np.ndarray, np.ndarray]:
    """X, y of the first training fold, standardised; the first half trains."""
    data = load(name)
    n = len(data.y)
    end = n - n // data.folds
    part = cut(data, np.arange(end), np.arange(end, n), clusters=n)
    return part.X, part.y


@lru_cache(maxsize=1)
def compressed_fold(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same with k-means centres in place of the points that train, and their weights."""
    X, y = first_fold(name)
    half = len(y) // 2
    centres, labels, weights = compress(X[:half], y[:half], COMPRESSED)
    order = np.argsort(-labels, kind="stable")  # positives first, as in all figures so far
    return np.vstack([centres[order], X[half:]]), np.append(labels[order], y[half:]), weights[order]


@dataclass(frozen=True)
class FoldProblem:
    """A CSVM on (a part of) the first training fold of a data set.

    The first half trains, the second are anchors. By default as many of these may be given up as
    the paper's target leaves at full size, and a share of them in samples. One rate is the true
    positive rate, the second the true negative rate, the third the accuracy; -3 is the true
    positive rate in each of three groups, to which the points are dealt out in turn.
    """

    data: str  # or random points; see `made`
    C: float
    gamma: float  # 0 for the linear kernel
    points: int | None = None  # how many rows of the fold, if not all
    budget: int | None = None  # how many anchors may be given up
    rates: int = 1
    per_class: bool = True  # C in all for each class, or C for every point
    share: float | None = None  # of each rate that may be given up, in place of `budget`
    compressed: bool = False  # whether k-means centres stand for the training points

    @property
    def name(self) -> str:
        size = "" if self.points is None else f" {self.points} points"
        cost = f"{'C' if self.per_class else 'c'}={self.C:g}"
        kernel = f"γ={self.gamma:.4g}" if self.gamma else "linear"
        budget = "" if self.budget is None else f" budget {self.budget}"
        budget += "" if self.share is None else f" budgets {100 * self.share:g} %"
        what = {1: "", 2: " two rates", 3: " three rates", -3: " three groups"}[self.rates]
        return f"{self.data}{size} {cost} {kernel}{budget}{what}"

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points and labels, those that train first, and the weights of these."""
        if self.compressed:
            X, y, stand_for = compressed_fold(self.data)
        else:
            X, y = made(self.points) if self.data == MADE else first_fold(self.data)
            X, y = X[: self.points], y[: self.points]
            stand_for = np.ones(len(y) // 2)
        # Negative anchors bind nothing unless the true negative rate counts.
        kept = (np.arange(len(y)) < len(stand_for)) | (y > 0) | (self.rates > 1)
        return X[kept], y[kept], stand_for

    def arrays(self) -> Arrays:
        X, y, stand_for = self.rows()
        K = csvm.kernels.rbf(X, gamma=self.gamma) if self.gamma else csvm.kernels.linear(X)
        return Arrays(K, y, *self._constraints(y, stand_for))

    def problem(self, settings: Settings | None = None) -> CSVMProblem:
        """As the estimator sees it: with a linear kernel no matrix is built."""
        if self.gamma:
            return CSVMProblem(Instance(*self.arrays()), settings=settings)
        X, y, stand_for = self.rows()
        instance = Instance(X, y, *self._constraints(y, stand_for), is_factor=True)
        return CSVMProblem(instance, settings=settings)

    def _constraints(
        self, y: np.ndarray, stand_for: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Costs of the training points, weights of the anchors, and what must be reached."""
        half = len(stand_for)
        cost = slack_costs(y[:half], self.C, stand_for, per_class=self.per_class)
        weights = self._weights(y[half:])
        counts = weights.sum(axis=1)
        if self.share is not None:
            return cost, weights, counts - np.maximum(1.0, np.round(self.share * counts))
        if self.budget is not None:
            return cost, weights, counts - self.budget
        if self.points is not None:
            return cost, weights, counts - np.maximum(1.0, np.round(SMALL_SHARE * counts))
        needed = threshold_count(TARGETS[self.data], int(counts[0]), "hoeffding", 0.05)
        return cost, weights, np.array([float(needed)])

    def _weights(self, y: np.ndarray) -> np.ndarray:
        """Which anchors each rate is about."""
        if self.rates < 0:
            groups = np.arange(len(y)) % -self.rates
            return np.array([(y > 0) & (groups == g) for g in range(-self.rates)], dtype=float)
        return np.array([y > 0, y < 0, np.ones(len(y))][: self.rates], dtype=float)

    def instance(self, family: str) -> Benchmark:
        X, y, stand_for = self.rows()
        return Benchmark(
            family, self.name, digest("csvm", self.gamma, X, y, *self._constraints(y, stand_for)),
            self.problem,
            {name: lambda build=build: build(self.arrays())
             for name, build in CSVM_FORMULATIONS.items()},
            {"branching": "first"},
        )


def from_miqp(problem: bnb.MIQP) -> tuple[PeerModel, Reading]:
    """The problem as the engine holds it; a peer's x is a solution as it is."""
    return PeerModel(**problem.model.arguments()), lambda x: x


def miqp_instance(
    family: str, name: str, problem: bnb.MIQP, options: Mapping[str, Any] | None = None, *,
    small_objective: bool = False,
) -> Benchmark:
    """An instance of the general engine; peers get the same matrices."""
    P, A = sp.coo_matrix(problem.P), sp.coo_matrix(problem.A)
    return Benchmark(
        family, name,
        digest("miqp", P.row, P.col, P.data, problem.q, A.row, A.col, A.data, problem.l, problem.u,
               problem.lb, problem.ub, problem.is_integer),
        lambda: problem, {"plain": lambda: from_miqp(problem)}, options or {}, small_objective,
    )


def linear() -> Iterator[Benchmark]:
    for data in ("australian", "german", "biodeg"):
        for points in (60, 200, 400, None):
            yield FoldProblem(data, 32.0, 0.0, points).instance("linear")


def rbf() -> Iterator[Benchmark]:
    for data in ("australian", "german", "biodeg"):
        for points in (60, 200, 400):
            yield FoldProblem(data, 32.0, 2.0**-4, points).instance("rbf")


def paper() -> Iterator[Benchmark]:
    for data, C, gamma in PAPER:
        budget = WISCONSIN_BUDGET if data == "wisconsin" else None
        yield FoldProblem(data, C, gamma, budget=budget).instance("paper")


def budgets() -> Iterator[Benchmark]:
    for budget in (1, 3, 6, 12, 24):
        yield FoldProblem("australian", 32.0, 2.0**-2, 200, budget).instance("budgets")


def rates() -> Iterator[Benchmark]:
    for data in ("australian", "german", "biodeg", "wisconsin"):
        yield FoldProblem(data, 32.0, 2.0**-4, 200, rates=2).instance("rates")


def rates_full() -> Iterator[Benchmark]:
    for data in ("wisconsin", "australian", "german", "biodeg"):
        for rates in (2, 3, -3):
            for sample in _at_full_size(data, rates, (0.05, 0.1)):
                yield sample.instance("rates-full")


def rates_tight() -> Iterator[Benchmark]:
    for data in ("australian", "german", "biodeg"):
        for sample in _at_full_size(data, 2, (0.01, 0.03)):
            yield sample.instance("rates-tight")


def _at_full_size(data: str, rates: int, shares: tuple[float, ...]) -> Iterator[FoldProblem]:
    gamma = 1.0 / first_fold(data)[0].shape[1]
    for c in (1.0, 8.0):
        for share in shares:
            yield FoldProblem(data, c, gamma, rates=rates, per_class=False, share=share)


def points() -> Iterator[Benchmark]:
    for data in ("wisconsin", "australian", "german", "biodeg"):
        for c, gamma in ((2.0, 2.0**-5), (32.0, 2.0**-5), (2.0, 2.0**-2), (2.0, 0.0)):
            budget = WISCONSIN_BUDGET if data == "wisconsin" else None
            yield FoldProblem(data, c, gamma, budget=budget, per_class=False).instance("points")


def large() -> Iterator[Benchmark]:
    for points in (2_000, 5_000):
        yield FoldProblem(MADE, 1.0, 0.05, points, per_class=False, share=0.05).instance("large")
    yield FoldProblem(MADE, 1.0, 0.0, 20_000, per_class=False, share=0.05).instance("large")
    for C in (1.0, 32.0):
        for gamma in (2.0**-5, 2.0**-3, 2.0**-1):
            yield FoldProblem("pageBlocks", C, gamma).instance("large")


def portfolios() -> Iterator[Benchmark]:
    files = {f"port{k}": instance_file(f"port{k}.txt") for k in range(1, 6)}
    markets = {name: load_portfolio(path) for name, path in files.items() if path is not None}
    if not markets:  # without the OR-Library, markets of the same kind; their names say so
        markets = {f"factor{n}": random_portfolio(n, n) for n in (30, 60, 90)}
    for name, market in markets.items():
        for weight in WEIGHTS:
            yield miqp_instance(
                "portfolios", f"{name} λ={weight}", portfolio_problem(*market, weight),
                small_objective=True,
            )


def subset() -> Iterator[Benchmark]:
    X, y = load_diabetes(return_X_y=True)
    for columns in (10, 64):
        for k in (2, 4, 6, 8):
            problem = subset_problem(products(X) if columns == 64 else X, y, k)
            yield miqp_instance("subset", f"diabetes {columns} columns k={k}", problem)


def subset_problem(X: np.ndarray, y: np.ndarray, k: int) -> bnb.SupportQP:
    """min ‖y − Xβ‖² with at most k non-zeros, y centred.

    Solvers need bounds. β = 0 costs yᵀy, so (β − b)ᵀXᵀX(β − b) ≤ yᵀy − ‖y − Xb‖² at the optimum,
    with b the least-squares solution: |β_j − b_j| ≤ √(that · (XᵀX)⁻¹_jj).
    """
    y = y - y.mean()
    S = X.T @ X
    inverse = np.linalg.inv(S)
    b = inverse @ (X.T @ y)
    reach = np.sqrt((b @ S @ b) * inverse.diagonal())
    return bnb.SupportQP(
        2.0 * S, -2.0 * X.T @ y, k, lb=b - reach, ub=b + reach, constant=float(y @ y)
    )


def sparse() -> Iterator[Benchmark]:
    for p in (50, 100, 200, 500):
        for correlation in (0.5, 0.9):
            for ratio in (1.0, 5.0):
                for k in (5, 10):
                    problem = subset_problem(*sparse_regression(p, correlation, ratio, k), k)
                    name = f"{p} columns ρ={correlation} SNR {ratio:g} k={k}"
                    yield miqp_instance("sparse", name, problem)


def ridge() -> Iterator[Benchmark]:
    for correlation in (0.5, 0.9):
        for ratio in (1.0, 5.0):
            for k in (5, 10):
                X, y = sparse_regression(10_000, correlation, ratio, k)
                y = y - y.mean()
                yield Benchmark(
                    "ridge", f"10000 columns ρ={correlation} SNR {ratio:g} k={k} ridge {RIDGE}",
                    digest("ridge", RIDGE, k, X[:, :100], y), partial(BestSubset, X, y, k, RIDGE),
                    {}, {},
                )


def sparse_regression(
    p: int, correlation: float, ratio: float, k: int, n: int = 1000
) -> tuple[np.ndarray, np.ndarray]:
    """Columns with correlations ρ^|i−j|, y the sum of k evenly spaced ones and noise.

    `ratio` is the signal-to-noise ratio var(Xβ) / σ². The columns are centred, of length one.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    for j in range(1, p):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1.0 - correlation**2) * X[:, j]
    signal = X[:, np.linspace(0, p - 1, k).round().astype(int)].sum(axis=1)
    y = signal + np.sqrt(signal.var() / ratio) * rng.normal(size=n)
    X = X - X.mean(axis=0)
    return X / np.linalg.norm(X, axis=0), y


def products(X: np.ndarray) -> np.ndarray:
    """The columns, their squares (not of the binary one, the second) and products, standardised."""
    pairs = [(i, j) for i in range(10) for j in range(i, 10) if (i, j) != (1, 1)]
    Z = np.column_stack([X, *(X[:, i] * X[:, j] for i, j in pairs)])
    Z -= Z.mean(axis=0)
    return Z / np.linalg.norm(Z, axis=0)


def commitment() -> Iterator[Benchmark]:
    for units, hours in ((6, 12), (10, 24), (20, 24)):
        yield miqp_instance(
            "commitment", f"{units} units {hours} hours", commitment_problem(units, hours)
        )


def commitment_problem(units: int, hours: int) -> bnb.MIQP:
    """Outputs, whether a unit is on, and whether it starts: in that order, hour by hour.

    A unit that is on has a least output, fixed and quadratic costs; starting costs too. The
    demand follows the day.
    """
    rng = np.random.default_rng(0)
    top = rng.uniform(50.0, 200.0, units)
    low = top * rng.uniform(0.3, 0.5, units)
    fixed, price = rng.uniform(100.0, 400.0, units), rng.uniform(10.0, 25.0, units)
    curve, start = rng.uniform(0.005, 0.05, units), rng.uniform(100.0, 500.0, units)
    day = np.sin(2.0 * np.pi * (np.arange(hours) - 6.0) / 24.0)
    demand = top.sum() * (0.5 + 0.25 * day + 0.05 * rng.random(hours))
    m = units * hours
    one, none = sp.identity(m), sp.csr_matrix((m, m))
    before = sp.kron(sp.identity(units), sp.eye(hours, k=-1))
    A = sp.vstack([
        sp.hstack([one, -sp.diags(np.repeat(top, hours)), none]),
        sp.hstack([one, -sp.diags(np.repeat(low, hours)), none]),
        sp.hstack([sp.kron(np.ones((1, units)), sp.identity(hours)),
                   sp.csr_matrix((hours, 2 * m))]),
        sp.hstack([none, one - before, -one]),
    ])
    free, zero = np.full(m, np.inf), np.zeros(m)
    costs = [np.repeat(part, hours) for part in (price, fixed, start)]
    return bnb.MIQP(
        sp.diags(np.concatenate([np.repeat(2.0 * curve, hours), zero, zero])),
        np.concatenate(costs), A, np.concatenate([-free, zero, demand, -free]),
        np.concatenate([zero, free, demand, zero]), lb=0.0,
        ub=np.concatenate([np.repeat(top, hours), np.ones(2 * m)]), binary=np.arange(m, 3 * m),
    )


def dense() -> Iterator[Benchmark]:
    for n in (15, 25, 35):
        yield miqp_instance("dense", f"integer least squares n={n}", integer_squares(n))
    for n in (30, 60, 100):
        yield miqp_instance("dense", f"random MIQP n={n}", random_miqp(n))


def integer_squares(n: int) -> bnb.MIQP:
    """min ‖F(x − t)‖² over integers in [−10, 10], F and t random, t in [−5, 5]."""
    rng = np.random.default_rng(0)
    F, t = rng.normal(size=(n, n)), rng.uniform(-5.0, 5.0, n)
    b = F @ t
    return bnb.MIQP(
        2.0 * F.T @ F, -2.0 * F.T @ b, integer=range(n), lb=-10, ub=10, constant=float(b @ b)
    )


def random_miqp(n: int) -> bnb.MIQP:
    """n variables, a quarter of them integers in [−5, 5], and n rows, all with 70 % non-zeros."""
    rng = np.random.default_rng(0)
    F, A = (rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.7) for _ in range(2))
    chosen = np.sort(rng.choice(n, n // 4, replace=False))
    lb, ub = np.full(n, -np.inf), np.full(n, np.inf)
    lb[chosen], ub[chosen] = -5.0, 5.0
    return bnb.MIQP(
        F @ F.T, rng.normal(size=n), A, rng.random(n) - 2.0, rng.random(n) + 2.0, lb=lb, ub=ub,
        integer=chosen,
    )


def qplib() -> Iterator[Benchmark]:
    for name in QPLIB:
        path = instance_file(f"{name}.mps")
        if path is not None:
            yield miqp_instance("qplib", name, bnb.read(path))


FAMILIES: dict[str, Callable[[], Iterator[Benchmark]]] = {
    "linear": linear, "rbf": rbf, "paper": paper, "budgets": budgets, "rates": rates,
    "rates-full": rates_full, "rates-tight": rates_tight, "points": points, "large": large,
    "portfolios": portfolios, "subset": subset, "sparse": sparse, "ridge": ridge,
    "commitment": commitment, "dense": dense, "qplib": qplib,
}
SUBSET_FAMILIES = ("subset", "sparse")


def quick() -> Iterator[Benchmark]:
    """Two minutes in all, on data that everybody has."""
    for points, gamma in ((60, 0.0), (60, 2.0**-4)):
        yield FoldProblem("wisconsin", 32.0, gamma, points).instance("quick")
    yield FoldProblem("wisconsin", 32.0, 2.0**-4, 60, rates=2).instance("quick")
    yield FoldProblem("wisconsin", 32.0, 2.0**-5, budget=WISCONSIN_BUDGET).instance("quick")
    yield miqp_instance(
        "quick", "factor20 λ=0.9", portfolio_problem(*random_portfolio(20, 20), 0.9, k=5),
        small_objective=True,
    )
    yield miqp_instance(
        "quick", "diabetes 10 columns k=4", subset_problem(*load_diabetes(return_X_y=True), 4)
    )
