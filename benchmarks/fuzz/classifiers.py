"""Random constrained SVMs, as search problems and through the estimator."""

from __future__ import annotations

import math

import numpy as np
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

import bnb
from bnb import Reason, Status
from csvm import CSVM, InfeasibleRatesError
from csvm.search import Chance, CSVMProblem, Instance, Settings

from .engine import SECONDS, EngineKind, Kind, draw_options
from .indicator import smallest_sets
from .judge import CLOSE, Claim, Truth, Verdict, judge
from .quadratic import Quadratic, minimise
from .watch import watched

RATES = ("tpr", "tnr", "accuracy")
MEASURES = (*RATES, "precision", "npv", "f1", "balanced_accuracy", "cost(fn=3,fp=1)")
COUNT = 1e-9  # of the heaviest anchor: what rounding may do to a sum of weights


def draw_points(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes, points that are there twice, labels that contradict each other."""
    y = rng.choice([-1.0, 1.0], n)
    X = rng.normal(size=(n, 2)) + rng.choice([0.3, 0.7, 2.0]) * y[:, None]
    if rng.random() < 0.3:
        X = np.round(X)
    for _ in range(int(rng.integers(0, 3)) if rng.random() < 0.4 else 0):
        a, b = rng.permutation(n)[:2]
        X[a] = X[b]
        y[a] = y[b] * rng.choice([1.0, 1.0, -1.0])
    return X * rng.choice([1.0, 1.0, 1.0, 1e-2, 1e2]), y


def draw_kernel(rng: np.random.Generator) -> dict:
    return {
        "kernel": str(rng.choice(["linear", "rbf", "rbf", "poly"])),
        "gamma": float(10.0 ** rng.uniform(-2, 1)), "degree": int(rng.integers(1, 4)),
        "coef0": float(rng.choice([0.0, 1.0])),
    }


def kernel_matrix(
    X: np.ndarray, kernel: str, gamma: float, degree: int, coef0: float
) -> np.ndarray:
    """By scikit-learn, not by the code under test."""
    if kernel == "linear":
        return linear_kernel(X)
    if kernel == "rbf":
        return rbf_kernel(X, gamma=gamma)
    return polynomial_kernel(X, gamma=gamma, degree=degree, coef0=coef0)


def svm_truth(
    K: np.ndarray, y: np.ndarray, cost: np.ndarray, weights: np.ndarray, required: np.ndarray
) -> Truth:
    """Every smallest set of anchors that is enough, each with the best w and intercept."""
    n, first = len(y), len(cost)
    values, vectors = np.linalg.eigh(K)
    large = values > 1e-13 * max(values.max(), 1e-300)
    L = vectors[:, large] * np.sqrt(values[large])
    unit = weights.max(axis=1, initial=1e-300)
    truth = Truth(bounded=True, complete=True)
    for kept in smallest_sets(
        lambda z: bool(np.all(weights @ z >= required - COUNT * unit)), n - first
    ):
        point = _margins(L, y, cost, np.concatenate([np.ones(first, bool), kept]))
        if point is None:
            truth.complete = False
        elif np.isfinite(point):
            truth.offer(point, 1e-8 * point)
    truth.infeasible = truth.complete and truth.best == np.inf
    return truth


def _margins(L: np.ndarray, y: np.ndarray, cost: np.ndarray, used: np.ndarray) -> float | None:
    """Least objective of a classifier with these margins: verified; None if nobody knows."""
    first, rank = len(cost), L.shape[1]
    rows = y[:, None] * np.column_stack([L, np.ones(len(y))])
    slacks = np.zeros((len(y), first))
    slacks[:first] = np.eye(first)
    size = rank + 1 + first
    P = np.zeros((size, size))
    P[:rank, :rank] = 2.0 * np.eye(rank)
    lb = np.concatenate([np.full(rank + 1, -np.inf), np.zeros(first)])
    qp = Quadratic(
        P, np.concatenate([np.zeros(rank + 1), cost]), np.hstack([rows, slacks])[used],
        np.ones(used.sum()), np.full(used.sum(), np.inf), lb, np.full(size, np.inf),
    )
    point = minimise(qp)
    if point.x is None:
        return np.inf if point.infeasible else None
    plane = point.x[: rank + 1]
    margin = (rows @ plane)[first:][used[first:]].min(initial=1.0)
    if margin <= 0.5:
        return None
    plane = plane / min(margin, 1.0)  # now the anchors have margin one exactly
    short = np.maximum(1.0 - rows[:first] @ plane, 0.0)
    return float(plane[:-1] @ plane[:-1] + cost @ short)


def svm_audit(
    K: np.ndarray, y: np.ndarray, cost: np.ndarray, weights: np.ndarray, required: np.ndarray,
    x: np.ndarray,
) -> tuple[float, float, float]:
    """Objective, its terms, and by how much margins must be relaxed for the counts to hold.

    A margin that another order of summation would give counts as well.
    """
    first, half = len(cost), 0.5 * K @ x[:-1]
    rounding = len(y) * np.finfo(float).eps * (0.5 * np.abs(K) @ np.abs(x[:-1]) + abs(x[-1]))
    margin = y * (half + x[-1])
    short = np.maximum(1.0 - margin - rounding, 0.0)
    # What is judged to a share of the terms must allow for the rounding of those that cancel.
    square = 0.5 * np.abs(x[:-1]) @ (np.abs(half) + rounding / CLOSE)
    violation = 0.0
    for row, need in zip(weights, required, strict=True):
        missing = np.append(short[first:], 0.0)
        enough = [v for v in missing
                  if row @ (short[first:] <= v) >= need - COUNT * max(row.max(), 1e-300)]
        violation = max(violation, min(enough, default=np.inf))
    objective = 0.5 * x[:-1] @ half + cost @ short[:first]
    around = cost @ (1.0 + 0.5 * np.abs(K[:first]) @ np.abs(x[:-1]) + abs(x[-1]))
    return float(objective), float(square + around), float(violation)


SEARCHES = {
    "convex": Settings(),
    "drop": Settings(begin_with="drop", chances=()),
    "recourse": Settings(begin_with="recourse", chances=()),
    "pairs": Settings(begin_with="pairs", chances=()),
    "joint": Settings(begin_with="joint", chances=()),
    "all": Settings(many=0.0, chances=(
        Chance(4e5, 0.5, ("drop",), 0.0), Chance(8e5, 0.0, ("recourse",), 1.0),
        Chance(2e6, 0.0, ("pairs",), 1.0), Chance(4e6, 0.0, ("joint",), 1.0),
    )),
}
"""Small problems are over before another search than the first gets its chance."""


class Classifier(EngineKind):
    """`csvm.search.CSVMProblem`: one to three rates, weights, all searches and node solvers."""

    def make(self, rng: np.random.Generator) -> dict:
        m = int(rng.integers(1, 7))
        return self._draw(rng, m, int(rng.integers(2, 9)))

    def deep(self, rng: np.random.Generator) -> dict:
        return self._draw(rng, 7, 12)

    def _draw(self, rng: np.random.Generator, m: int, first: int) -> dict:
        X, y = draw_points(rng, first + m)
        cost = 10.0 ** rng.uniform(-3, 3) * np.ones(first)
        if rng.random() < 0.5:
            cost *= rng.uniform(0.2, 3.0, first)
        elif rng.random() < 0.5:
            cost[y[:first] > 0] *= 10.0
        members = [y[first:] > 0, y[first:] < 0, np.ones(m, bool)]
        picked = [r for r in rng.permutation(3)[: rng.integers(1, 4)] if members[r].any()] or [2]
        weights = np.array([members[r] for r in picked], float)
        if rng.random() < 0.4:
            weights *= rng.integers(1, 5, m) * rng.choice([1.0, 0.5, 100.0])
        required = np.ceil(rng.uniform(0.3, 1.0, len(picked)) * weights.sum(axis=1))
        required = np.minimum(required, weights.sum(axis=1))
        return {
            "X": X, "y": y, "cost": cost, "weights": weights, "required": required,
            "kernel": draw_kernel(rng), "node_solver": str(rng.choice(["auto", "smo", "osqp"])),
            "search": str(rng.choice(list(SEARCHES))), "options": draw_options(rng, "first"),
        }

    def _arrays(self, data: dict) -> tuple[np.ndarray, ...]:
        K = kernel_matrix(np.asarray(data["X"]), **data["kernel"])
        return K, *(np.asarray(data[name]) for name in ("y", "cost", "weights", "required"))

    def build(self, data: dict) -> bnb.Problem:
        settings = SEARCHES[data.get("search", "convex")]
        if data["kernel"]["kernel"] == "linear" and data["node_solver"] != "smo":
            arrays = (np.asarray(data[name]) for name in ("X", "y", "cost", "weights", "required"))
            instance = Instance(*arrays, is_factor=True)
        else:
            instance = Instance(*self._arrays(data))
        return CSVMProblem(instance, data["node_solver"], settings)

    def shape(self, data: dict) -> tuple[int, ...]:
        return (len(data["y"]) + 1,)

    def audit(self, data: dict, x: np.ndarray) -> tuple[float, float, float]:
        return svm_audit(*self._arrays(data), x)

    def truth(self, data: dict) -> Truth:
        return svm_truth(*self._arrays(data))


class Estimator(Kind):
    """`csvm.CSVM`: what is fitted, counted and promised."""

    def make(self, rng: np.random.Generator) -> dict:
        n = int(rng.integers(8, 16))
        X, y = draw_points(rng, n)
        order = rng.permutation(n)
        anchors = order[: rng.integers(2, 7)]
        y[order[-2:]], y[order[:2]] = [1.0, -1.0], [1.0, -1.0]  # both classes on both sides
        rates = rng.permutation(MEASURES if rng.random() < 0.5 else RATES)[: rng.integers(1, 4)]
        groups = rng.choice(["a", "b"], n) if rng.random() < 0.3 else None
        if groups is not None:  # both classes of both groups among the anchors, if there is room
            groups[order[:4]] = ["a", "a", "b", "b"]
            y[order[:4]] = [1.0, -1.0, 1.0, -1.0]
            anchors = order[: max(4, len(anchors))]
            rates = [f"{rate}[{rng.choice(['a', 'b'])}]" for rate in rates]
        return {
            "X": X, "y": y, "anchors": np.sort(anchors),
            "weight": rng.integers(1, 4, n) if rng.random() < 0.3 else None,
            "groups": groups,
            "asked": {str(rate): float(np.round(rng.uniform(0.2, 1.0), 2)) for rate in rates},
            "threshold": str(rng.choice(["none", "hoeffding"])), "alpha": 0.4,
            "C": float(10.0 ** rng.uniform(-3, 3)),
            "class_weight": _draw_class_weight(rng),
            "kernel": draw_kernel(rng), "node_solver": str(rng.choice(["auto", "smo", "osqp"])),
            "n_jobs": int(rng.choice([1, 1, 1, 2])),
        }

    def run(self, data: dict) -> Verdict:
        X, y, anchors = (np.asarray(data[name]) for name in ("X", "y", "anchors"))
        model = CSVM(
            C=data["C"], class_weight=_class_weight(data), alpha=data["alpha"],
            threshold=data["threshold"],
            constraints=[
                f"{rate}{'<=' if rate.startswith('cost') else '>='}{p0}"
                for rate, p0 in data["asked"].items()
            ],
            node_solver=data["node_solver"], n_jobs=data["n_jobs"], time_limit=SECONDS,
            **data["kernel"],
        )
        faults: list[str] = []
        failure = None
        with watched(faults):
            try:
                model.fit(
                    X, y, sample_weight=data["weight"], anchors=anchors,
                    sensitive_features=data.get("groups"),
                )
            except (InfeasibleRatesError, RuntimeError) as error:
                failure = error
        order = np.concatenate([np.setdiff1d(np.arange(len(y)), anchors), anchors])
        problem = self._problem(data, order)
        claim = self._claim(model, failure, problem, order)
        verdict = judge(claim, svm_truth(*problem), {"time_limit": SECONDS})
        if failure is None:
            inside = model.decision_function(X) * y
            faults += self._rates(model, inside[anchors], data)
        return Verdict(verdict.outcome, faults + verdict.faults)

    def _problem(self, data: dict, order: np.ndarray) -> tuple[np.ndarray, ...]:
        """Kernel, labels, costs, weights and counts from the documentation."""
        y, first = np.asarray(data["y"])[order], len(order) - len(data["anchors"])
        weight = np.ones(len(y)) if data["weight"] is None else np.asarray(data["weight"])[order]
        cost = 2.0 * data["C"] * weight[:first]
        given = _class_weight(data)
        for sign in (1.0, -1.0):
            of = y[:first] == sign
            if given == "balanced":
                cost[of] *= weight[:first].sum() / (2.0 * weight[:first][of].sum())
            elif given is not None:
                cost[of] *= given.get(sign, 1.0)
        groups = data.get("groups")
        groups = None if groups is None else np.asarray(groups)[order][first:]
        rows = [
            _row(rate, p0, y[first:], weight[first:], groups, data)
            for rate, p0 in data["asked"].items()
        ]
        K = kernel_matrix(np.asarray(data["X"])[order], **data["kernel"])
        return K, y, cost, np.array([r[0] for r in rows]), np.array([r[1] for r in rows])

    def _claim(
        self, model: CSVM, failure: Exception | None, problem: tuple, order: np.ndarray
    ) -> Claim:
        """What the fitted model says of itself; a failure says infeasible, or nothing."""
        if failure is not None:
            infeasible = isinstance(failure, InfeasibleRatesError)
            said = str(failure)
            if not infeasible and "none was proven" not in said and "objective above" not in said:
                raise failure
            status = Status.INFEASIBLE if infeasible else Status.NO_SOLUTION
            bound = np.inf if infeasible else -np.inf
            return Claim(status, Reason.EXHAUSTED, np.inf, bound, None, ())
        result = model.result_
        t = np.zeros(len(order))
        t[model.support_] = 2.0 * model.dual_coef_[0]
        x = np.append(t[order], model.intercept_[0])
        claim = Claim(
            result.status, result.reason, result.objective, result.bound, x, x.shape,
            result.seconds,
        )
        claim.recomputed, claim.terms, claim.violation = svm_audit(*problem, x)
        return claim

    def _rates(self, model: CSVM, margins: np.ndarray, data: dict) -> list[str]:
        """The promise: as many anchors as required are classified well."""
        signs = np.asarray(data["y"])[data["anchors"]]
        weight = np.ones(len(signs))
        if data["weight"] is not None:
            weight = np.asarray(data["weight"])[data["anchors"]]
        faults = []
        for rate in model.rates_:
            if rate.rate not in RATES:
                continue  # the audit has checked their rows
            of = {"tpr": signs > 0, "tnr": signs < 0, "accuracy": signs != 0}[rate.rate]
            good = float(weight[of & (margins > 0)].sum())
            if good < rate.required - COUNT * weight.max():
                faults.append(f"{rate.rate}: {good:g} anchors are right, {rate.required:g} asked")
            if abs(rate.achieved * weight[of].sum() - good) > 1e-6:
                faults.append(f"{rate.rate}: {rate.achieved!r} is said to be achieved")
        return faults


def _row(
    rate: str, p0: float, y: np.ndarray, weight: np.ndarray, groups: np.ndarray | None, data: dict
) -> tuple[np.ndarray, float]:
    """n_j and k of a measure, from its definition: it is as asked where sum n_j z_j >= k."""
    name, _, group = rate.rstrip("]").partition("[")
    points = weight * (groups == group if group else np.ones(len(y)))
    if name in RATES:
        row = points * {"tpr": y > 0, "tnr": y < 0, "accuracy": y != 0}[name]
        return row, _count(p0, row.sum(), data["threshold"], data["alpha"])
    positives, negatives = points[y > 0].sum(), points[y < 0].sum()
    n = positives + negatives
    hit, rejected, k = {
        "precision": lambda: (1 - p0, p0, p0 * negatives),  # TP (1 - p0) >= p0 FP
        "npv": lambda: (p0, 1 - p0, p0 * positives),  # TN (1 - p0) >= p0 FN
        "f1": lambda: (2 - p0, p0, p0 * n),  # 2 TP >= p0 (2 TP + FP + FN)
        "balanced_accuracy": lambda: (0.5 * n / positives, 0.5 * n / negatives, p0 * n),
        "cost(fn=3,fp=1)": lambda: (3.0, 1.0, 3 * positives + negatives - p0 * n),
    }[name]()
    units = np.where(y > 0, hit, rejected)
    if data["threshold"] == "hoeffding":
        k += math.sqrt(-0.5 * math.log(data["alpha"]) * (units**2 @ points))
    return units * points, float(min(max(k, 0.0), units @ points))


def _draw_class_weight(rng: np.random.Generator) -> list | str | None:
    """None, "balanced", or the factor of the positives."""
    kind = rng.integers(3)
    return [None, "balanced", [1.0, float(10.0 ** rng.uniform(-2, 2))]][kind]


def _class_weight(data: dict) -> dict | str | None:
    """As the estimator takes it: JSON knows no dictionary with a number as its key."""
    given = data["class_weight"]
    return {given[0]: given[1]} if isinstance(given, list) else given


def _count(p0: float, n: float, threshold: str, alpha: float) -> float:
    """k = ceil(p0* n), as in the documentation."""
    share = p0 + (math.sqrt(-math.log(alpha) / (2.0 * n)) if threshold == "hoeffding" else 0.0)
    return float(min(n, math.ceil(share * n * (1.0 - 1e-9))))
