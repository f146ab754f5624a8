"""Best subset: the answers of brute force, bounds that hold whatever the conditioning."""

import itertools
import os
import signal
import threading

import matplotlib

matplotlib.use("Agg")

import sys

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.utils.estimator_checks import parametrize_with_checks

import bnb
from bnb.subset import BestSubset, SubsetData, relaxed
from bnb.subset.data import condition, invert
from relaxations import Patience


def residual(X, y, columns, ridge=0.0):
    """Least squares by the SVD, on the stacked system."""
    X = np.vstack([X, np.sqrt(ridge) * np.eye(X.shape[1])])[:, list(columns)]
    y = np.append(y, np.zeros(len(X) - len(y)))
    return np.sum((y - X @ np.linalg.lstsq(X, y, rcond=None)[0]) ** 2) if columns else y @ y


def brute(X, y, k, ridge=0.0):
    p = X.shape[1]
    return min(residual(X, y, c, ridge) for c in itertools.combinations(range(p), min(k, p)))


def agrees(result, truth, scale=1.0):
    slack = 1e-4 * truth + 1e-9 * scale
    assert result.optimal, result
    assert truth - 1e-9 * scale - 1e-9 * truth <= result.objective <= truth + slack
    assert result.bound <= truth + 1e-9 * scale


def regression(seed, n=30, p=9, noise=1.0, correlation=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + correlation * rng.normal(size=(n, 1))
    return X, X @ (rng.normal(size=p) * (rng.random(p) < 0.5)) + noise * rng.normal(size=n)


@pytest.mark.parametrize("seed", range(30))
def test_brute_force(seed):
    X, y = regression(seed, p=4 + seed % 7, noise=[0.1, 1.0, 5.0][seed % 3])
    ridge = [0.0, 0.3, 10.0][seed // 3 % 3]
    for k in range(X.shape[1] + 1):
        result = bnb.best_subset(X, y, k, ridge=ridge, fit_intercept=False)
        agrees(result, brute(X, y, k, ridge), y @ y)
        assert np.count_nonzero(result.x) <= k


@pytest.mark.parametrize("seed", range(10))
def test_intercept(seed):
    X, y = regression(seed)
    X, y = X + 100.0, y - 50.0
    result = bnb.best_subset(X, y, 3)
    agrees(result, brute(X - X.mean(axis=0), y - y.mean(), 3))
    model = bnb.BestSubsetRegressor(k=3).fit(X, y)
    assert np.sum((y - model.predict(X)) ** 2) == pytest.approx(result.objective, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3])
@pytest.mark.parametrize("ridge", [0.0, 1e-6])
def test_nearly_dependent_columns(epsilon, ridge):
    """Duplicates, sums of columns, a constant, and everything between dependent and not."""
    for seed in range(4):
        X, y = regression(seed, p=5)
        rng = np.random.default_rng(100 + seed)
        copies = X[:, [0, 0, 1]] + epsilon * rng.normal(size=(len(y), 3))
        total = X[:, :3].sum(axis=1) + epsilon * rng.normal(size=len(y))
        X = np.column_stack([X, copies, total, np.full(len(y), 1e-8), np.zeros(len(y))])
        for k in (1, 3, 5):
            result = bnb.best_subset(X, y, k, ridge=ridge, fit_intercept=False, node_limit=20_000)
            truth = brute(X, y, k, ridge)
            assert result.bound <= truth * (1 + 1e-9)
            # Where 1e-12 decides, the fits of brute force are no better than ours.
            assert result.objective <= truth * (1 + 1e-4) or 0.0 < epsilon < 1e-8
            assert result.optimal or 0.0 < epsilon < 1e-6


def test_more_columns_than_rows():
    for seed in range(5):
        X, y = regression(seed, n=6, p=9)
        for k in (1, 2, 3):
            agrees(bnb.best_subset(X, y, k, fit_intercept=False), brute(X, y, k))
        agrees(bnb.best_subset(X, y, 4, ridge=0.1, fit_intercept=False), brute(X, y, 4, 0.1))
        perfect = bnb.best_subset(X, y, 6, fit_intercept=False)
        assert perfect.optimal and perfect.objective < 1e-9


def test_trivial_data():
    X, y = regression(0)
    for k in (0, 2, 9):
        nothing = bnb.best_subset(X, 0.0 * y, k)
        assert nothing.optimal and nothing.objective == 0.0 and not nothing.x.any()
    flat = bnb.best_subset(np.ones((5, 3)), np.arange(5.0), 2)
    assert flat.optimal and flat.objective == 10.0 and not flat.x.any()
    exact = bnb.best_subset(X, X[:, [1, 4]] @ [2.0, -3.0], 2, fit_intercept=False)
    assert exact.optimal and np.flatnonzero(exact.x).tolist() == [1, 4]


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_do_not_matter(scale):
    X, y = regression(3)
    sizes = scale ** np.linspace(-1.0, 1.0, X.shape[1])
    plain = bnb.best_subset(X, y, 4)
    scaled = bnb.best_subset(X * sizes, y * scale, 4)
    assert np.array_equal(plain.x != 0.0, scaled.x != 0.0)
    np.testing.assert_allclose(scaled.x * sizes, plain.x * scale, rtol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_errors_are_within_what_is_promised(seed):
    """θ bounds the error of residuals from inverses after any eliminations."""
    from fractions import Fraction

    rng = np.random.default_rng(seed)
    X = rng.integers(-4, 5, (8, 4)).astype(float)
    X[:, 3] = X[:, 2] + rng.integers(-1, 2, 8) * 2.0 ** -(3 * seed)
    y = rng.integers(-9, 10, 8).astype(float)
    data = SubsetData.from_columns(X, y)
    triangle, free = condition(data, np.arange(0), np.arange(4))
    inverse = invert(data, triangle, 0)
    T = inverse.T
    for removed in ([], [0], [3, 1], [1, 0, 2]):
        kept = [j for j in free if j not in removed] + [4]
        block = T[np.ix_(kept, kept)]
        if removed:
            away = T[np.ix_(removed, removed)]
            cross = T[np.ix_(kept, removed)]
            block = block - cross @ np.linalg.solve(away, cross.T)
        found = data.unit / block[-1, -1]
        gram = [[Fraction(a) for a in row] for row in
                np.column_stack([X[:, kept[:-1]], y]).T @ np.column_stack([X[:, kept[:-1]], y])]
        exact = float(_schur(gram))
        assert abs(found - exact) <= inverse.theta * exact


def _schur(gram):
    """The last pivot of Gaussian elimination in rational arithmetic."""
    gram = [row[:] for row in gram]
    for i in range(len(gram) - 1):
        for a in range(i + 1, len(gram)):
            factor = gram[a][i] / gram[i][i]
            gram[a] = [u - factor * v for u, v in zip(gram[a], gram[i], strict=True)]
    return gram[-1][-1]


@pytest.mark.parametrize("weak", [0.0, 0.5, 1e9])
@pytest.mark.parametrize("seed", range(8))
def test_every_way_through_an_evaluation(seed, weak, monkeypatch):
    """Slices of hardly any work: relaxations, halves and leftovers, as with many columns."""
    monkeypatch.setattr("bnb.subset.search._FEW", 3)
    monkeypatch.setattr("bnb.subset.search._MANY", 1)
    monkeypatch.setattr("bnb.subset.search._WEAK", weak)
    monkeypatch.setattr("bnb.subset.search._FIRST", 1.0)
    monkeypatch.setattr("bnb.subset.search._SLICE", 100.0)
    X, y = regression(seed, p=10, noise=4.0, correlation=[0.0, 2.0][seed % 2])
    for k in (2, 4, 7):
        result = bnb.best_subset(X, y, k, fit_intercept=False)
        agrees(result, brute(X, y, k))


# -- many columns ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_screening_agrees_with_brute_force(seed, monkeypatch):
    """As if five columns were many."""
    monkeypatch.setattr("bnb.subset.screen.DENSE", 5)
    monkeypatch.setattr("bnb.subset.screen.FEW", 5)
    n = [8, 30][seed % 2]
    X, y = regression(seed, n=n, p=11, correlation=[0.0, 1.0][seed // 2 % 2])
    X = X * 10.0 ** np.linspace(-1, 1, 11)
    for ridge in (0.01, 1.0, 30.0):
        for k in (0, 1, 3, 9, 11):
            result = bnb.best_subset(X, y, k, ridge=ridge, fit_intercept=False)
            agrees(result, brute(X, y, k, ridge), y @ y)
    assert bnb.best_subset(X, 0.0 * y, 3, ridge=1.0).objective == 0.0


def test_screening_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr("bnb.subset.screen.DENSE", 12)
    monkeypatch.setattr("bnb.subset.screen.FEW", 12)
    X, y = regression(1, n=40, p=30, correlation=2.0)
    problem = BestSubset(X, y, 6, ridge=3.0)
    whole = bnb.solve(problem)
    assert whole.optimal and whole.work["screenings"] > 3
    file, parts = tmp_path / "search.json", 0
    result = None
    while result is None or not result.optimal:
        limit = 1 if result is None else result.nodes + 2
        result = bnb.solve(problem, checkpoint=file, resume=parts > 0, node_limit=limit)
        parts += 1
    assert parts > 2 and result.objective == pytest.approx(whole.objective, rel=1e-4)


def test_thousands_of_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3000))
    y = X[:, [5, 700, 2100]].sum(axis=1) + rng.normal(size=200)
    result = bnb.best_subset(X, y, 3, ridge=40.0, time_limit=60)
    assert result.optimal and np.flatnonzero(result.x).tolist() == [5, 700, 2100]


@pytest.mark.parametrize("seed", range(8))
def test_relaxation_is_below_every_subset(seed):
    """Also with each column forced in and out, and with a diagonal that was pushed about."""
    rng = np.random.default_rng(seed)
    X, y = regression(seed, p=7)
    X, y = X / np.linalg.norm(X, axis=0), y / np.linalg.norm(y)
    S, b, k = X.T @ X, X.T @ y, 3
    values = {c: residual(X, y, c) - 1.0 for c in itertools.combinations(range(7), k)}
    diagonals = relaxed.Diagonals(np.linalg.inv(S), 1e-9)
    best, log = relaxed.climb(
        relaxed.Dense(S), b, diagonals, k, diagonals.start() + rng.normal(size=7),
        rng.random(7), min(values.values()), 10, Patience(),
    )
    assert np.linalg.eigvalsh(S - np.diag(diagonals.at(log)[0]))[0] >= 0.0
    inside, outside = best.forced()
    for chosen, value in values.items():
        assert best.bound <= value
        assert all(inside[j] <= value if j in chosen else outside[j] <= value for j in range(7))
    assert best.bound >= relaxed.evaluate(
        relaxed.Dense(S), b, diagonals.at(diagonals.start())[0], relaxed.Choice.of(k, 7),
        np.full(7, k / 7),
    )[1].bound


@pytest.mark.parametrize("seed", range(40))
def test_relaxation_with_groups(seed):
    """Below every choice with one column of each group, also where one more is forced."""
    rng = np.random.default_rng(seed)
    p, inside, k = 9, seed % 3, 1 + seed % 4
    X = rng.normal(size=(30, p))
    X[:, 1:] += 2.0 * rng.random() * X[:, :-1]
    X /= np.sqrt((X**2).sum(axis=0) + 1.0)
    y = rng.normal(size=30) + 5.0 * X[:, 3]
    y /= np.linalg.norm(y)
    D = 1.0 - (X**2).sum(axis=0)
    S, b = X.T @ X + np.diag(D), X.T @ y
    groups = int(rng.integers(0, k + 1))
    group = np.full(p, -1)
    free = inside + rng.permutation(p - inside)
    group[free[:groups]] = np.arange(groups)
    group[free[groups:]] = rng.integers(-1, max(groups, 1), len(free) - groups) if groups else -1
    values = {}
    for chosen in itertools.combinations(range(inside, p), k):
        if set(range(groups)) <= set(group[list(chosen)]):
            c = [*range(inside), *chosen]
            values[chosen] = -b[c] @ np.linalg.solve(S[np.ix_(c, c)], b[c])
    least = min(values.values())
    best = relaxed.relax(
        relaxed.Dense(S), b, D, relaxed.Choice(k, inside, group, groups), rng.random(p), least
    )
    value = relaxed.evaluate(relaxed.Dense(S), b, D, best.choice, best.z)[0]
    assert value - best.bound <= 0.03 * max(least - value, 1e-5)  # solved, not only bounded
    come, away = best.forced()
    for chosen, true in values.items():
        assert best.bound <= true
        assert all((come if j in chosen else away)[j - inside] <= true for j in range(inside, p))


# -- SupportQP without rows -----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_support_qp(seed):
    rng = np.random.default_rng(seed)
    n = 7
    F = rng.normal(size=(n, n))
    P, q = F @ F.T + 0.1 * np.eye(n), 3 * rng.normal(size=n)
    support = np.arange(n) if seed % 2 else np.array([0, 2, 3, 5, 6])
    others = np.setdiff1d(np.arange(n), support)
    for bound in (np.inf, 1e3, 0.3):
        problem = bnb.SupportQP(P, q, 3, support=support, lb=-bound, ub=bound, constant=1.5,
                                exactly=seed % 3 == 0)
        result = bnb.solve(problem)
        assert result.optimal
        assert ("subtrees" in result.work) == (bound > 1.0)
        assert np.count_nonzero(result.x[support]) <= 3
        if bound < 1.0:
            continue
        values = []
        for chosen in itertools.combinations(support, 3):
            on = [*chosen, *others]
            x = np.linalg.solve(P[np.ix_(on, on)], -q[on])
            values.append(0.5 * q[on] @ x + 1.5)
        assert result.objective == pytest.approx(min(values), rel=1e-4)


# -- the engine's promises ------------------------------------------------------------------


@pytest.fixture(scope="module")
def hard():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 60)) + 2.0 * rng.normal(size=(200, 1))
    y = X @ rng.normal(size=60) + 20.0 * rng.normal(size=200)
    return X - X.mean(axis=0), y - y.mean()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals")
def test_limits_and_callbacks(hard):
    seen = []
    result = bnb.solve(BestSubset(*hard, 20), node_limit=5000, on_node=seen.append)
    assert result.reason is bnb.Reason.NODES and 5000 <= result.nodes <= 5010
    assert seen[-1].nodes == result.nodes and result.open > 0
    result = bnb.solve(BestSubset(*hard, 20), time_limit=0.5)
    assert result.reason is bnb.Reason.TIME and result.seconds < 1.5
    assert 0.0 < result.bound < result.objective
    result = bnb.solve(BestSubset(*hard, 20), on_node=lambda _: bnb.STOP)
    assert result.reason is bnb.Reason.CALLBACK
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    assert bnb.solve(BestSubset(*hard, 20), time_limit=20).reason is bnb.Reason.INTERRUPT


def test_resume(hard, tmp_path):
    X, y = hard[0][:, :40], hard[1]
    whole = bnb.solve(BestSubset(X, y, 8))
    assert whole.optimal and whole.nodes > 500
    file = tmp_path / "search.json"
    result = bnb.solve(BestSubset(X, y, 8), checkpoint=file, node_limit=100)
    parts = 1
    while not result.optimal:
        limit = result.nodes + 300
        result = bnb.solve(BestSubset(X, y, 8), checkpoint=file, resume=True, node_limit=limit)
        parts += 1
    assert parts > 2 and result.nodes >= 0.5 * whole.nodes
    assert result.objective == pytest.approx(whole.objective, rel=1e-4)
    with pytest.raises(ValueError, match="different problem"):
        bnb.solve(BestSubset(X, y, 9), checkpoint=file, resume=True)


def test_workers_and_repetition(hard, two_workers):
    X, y = hard[0][:, :40], hard[1]
    one, two = bnb.solve(BestSubset(X, y, 8)), bnb.solve(BestSubset(X, y, 8), **two_workers)
    assert two.optimal and two.objective == pytest.approx(one.objective, rel=1e-4)
    again = bnb.solve(BestSubset(X, y, 8))
    assert (again.nodes, again.objective, again.bound) == (one.nodes, one.objective, one.bound)


def test_start_is_used(hard):
    X, y = hard
    best = bnb.best_subset(X, y, 3)
    trace = bnb.best_subset(X, y, 3, start=best.x).trace
    assert trace[0].source == "S"
    with pytest.raises(ValueError, match="not a feasible"):
        bnb.best_subset(X, y, 2, start=best.x)


# -- paths and the estimator ----------------------------------------------------------------


def test_path():
    X, y = load_diabetes(return_X_y=True)
    path = bnb.best_subset(X, y, range(11))
    assert all(found.optimal for found in path) and path.k.tolist() == list(range(11))
    values = [found.objective for found in path]
    assert values == sorted(values, reverse=True)
    assert path[0].objective == pytest.approx(np.sum((y - y.mean()) ** 2))
    n = len(y)
    assert path.aic[3] == pytest.approx(n * np.log(values[3] / n) + 2 * 4)
    assert path.bic[3] == pytest.approx(n * np.log(values[3] / n) + np.log(n) * 4)
    ax = path.plot()
    drawn = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(drawn["BIC"].get_ydata(), path.bic)
    marked = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 1]
    assert marked == [path.k[path.aic.argmin()], path.k[path.bic.argmin()]]
    with pytest.raises(ValueError, match="checkpoint goes with a single k"):
        bnb.best_subset(X, y, [1, 2], checkpoint="search.json")


@pytest.mark.parametrize("arguments, message", [
    (dict(X=[1.0, 2.0]), "X must have rows and columns"),
    (dict(y=[1.0]), r"y must have shape \(3,\)"),
    (dict(y=[1.0, 2.0, np.nan]), "y must be finite"),
    (dict(X=[[1.0, 2.0], [3.0, 4.0], [5.0, 7j]]), "X must hold numbers: complex"),
    (dict(y=[1.0, 2.0, 3j]), "y must hold numbers: complex"),
    (dict(k=3), "k must be an integer between 0 and 2"),
    (dict(k=[1, 1.5]), "k must be an integer"),
    (dict(k=True), "k must be an integer"),
    (dict(ridge=-1.0), "ridge must be a finite number >= 0"),
])
def test_refusals(arguments, message):
    base = dict(X=[[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], y=[1.0, 2.0, 3.0], k=1)
    with pytest.raises(ValueError, match=message):
        bnb.best_subset(**(base | arguments))


def test_whole_floats_count_as_integers_everywhere():
    X, y = regression(0)
    expected = bnb.best_subset(X, y, 3).x
    np.testing.assert_array_equal(bnb.best_subset(X, y, 3.0).x, expected)
    np.testing.assert_array_equal(bnb.best_subset(X, y, [3.0])[0].x, expected)
    np.testing.assert_array_equal(bnb.BestSubsetRegressor(k=3.0).fit(X, y).coef_, expected)
    for k in (2.5, True, "3", np.inf, np.nan, None):
        with pytest.raises(ValueError, match="k must be an integer"):
            bnb.BestSubsetRegressor(k=k).fit(X, y)


@parametrize_with_checks([bnb.BestSubsetRegressor(), bnb.BestSubsetRegressor(k=2, ridge=0.1)])
def test_estimator(estimator, check):
    check(estimator)


def test_several_targets():
    X, _ = regression(0)
    Y = np.column_stack([regression(seed)[1] for seed in (0, 1)])
    model = bnb.BestSubsetRegressor(k=3, ridge=0.5).fit(X, Y)
    assert model.coef_.shape == model.support_.shape == (2, 9) and len(model.result_) == 2
    for target in (0, 1):
        alone = bnb.BestSubsetRegressor(k=3, ridge=0.5).fit(X, Y[:, target])
        np.testing.assert_allclose(alone.coef_, model.coef_[target])
        np.testing.assert_allclose(alone.predict(X), model.predict(X)[:, target])
    with pytest.raises(ValueError, match="k must be an integer >= 0"):
        bnb.BestSubsetRegressor(k=-1).fit(X, Y)


def test_a_column_far_from_zero_that_varies_is_no_constant():
    z = np.tile([0.0, 1.0, 0.0, 1.0], 250)
    found = bnb.best_subset(np.c_[1e12 + z], z, 1)
    assert found.optimal and found.objective < 1e-9
    constant = bnb.best_subset(np.c_[np.full(1000, 0.1)], z, 1)
    assert constant.optimal and constant.objective == pytest.approx(250.0)


@pytest.mark.parametrize("scale", [1e155, 1e-155, 1e-170])
@pytest.mark.parametrize("what", ["X", "y"])
def test_numbers_without_squares_are_refused(scale, what):
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = X[:, 0].copy()
    with pytest.raises(ValueError, match=f"{what} has a column .* scale it"):
        bnb.best_subset(X * (scale if what == "X" else 1.0), y * (scale if what == "y" else 1.0), 1)
