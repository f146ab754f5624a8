"""cvxpy problems: right answers, the statuses cvxpy users expect, and no lost strength."""

import itertools
import subprocess
import sys
import warnings

import cvxpy as cp
import numpy as np
import pytest

import bnb
from bnb.cvxpy_solver import _model
from bnb.qp.substitution import substitute


def solve(problem, **options):
    return problem.solve(solver=bnb.CvxpySolver(), **{"time_limit": 20, **options})


def subset_problem(seed=0, m=30, n=8, k=3, big=5.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    y = X[:, :k] @ rng.uniform(0.5, 1.5, k) + 0.7 * rng.normal(size=m)
    b, z = cp.Variable(n), cp.Variable(n, boolean=True)
    objective = cp.Minimize(cp.sum_squares(X @ b - y) + 3)
    return X, y, b, z, cp.Problem(objective, [cp.abs(b) <= big * z, cp.sum(z) <= k])


def best_subset(X, y, k):
    best = np.inf
    for chosen in itertools.combinations(range(X.shape[1]), k):
        part = X[:, chosen]
        fit = part @ np.linalg.lstsq(part, y, rcond=None)[0]
        best = min(best, float(np.sum((y - fit) ** 2)))
    return best


@pytest.mark.parametrize("seed", range(3))
def test_best_subset_equals_enumeration(seed):
    X, y, b, z, problem = subset_problem(seed)
    value = solve(problem, gap=1e-6)
    assert problem.status == cp.OPTIMAL
    assert value == pytest.approx(best_subset(X, y, 3) + 3, rel=1e-5)
    assert value == pytest.approx(np.sum((X @ b.value - y) ** 2) + 3)
    assert set(np.round(z.value, 9)) <= {0.0, 1.0}
    assert np.count_nonzero(np.abs(b.value) > 1e-6) <= 3


def test_residuals_do_not_hide_the_curvature():
    X, _, b, z, problem = subset_problem()
    data, _, _ = problem.get_problem_data(bnb.CvxpySolver())
    small = substitute(_model(data))
    # cvxpy adds a variable for every residual and for every |b|
    assert len(data["q"]) == X.shape[0] + 2 * b.size + z.size
    assert len(small.kept) == b.size + z.size
    where = [j for j in range(len(small.kept)) if not small.model.integer[j]]
    assert np.allclose(small.model.P.toarray()[np.ix_(where, where)], 2 * X.T @ X)
    # and the rows -5z <= b <= 5z are there to be recognised
    engine = bnb.MIQP(**small.model.arguments())
    bnb.solve(engine)
    assert len(engine.links().z) == b.size


def test_knapsack_with_risk():
    rng = np.random.default_rng(1)
    n = 10
    worth, weight = rng.uniform(1, 5, n), rng.integers(1, 6, n)
    F = rng.normal(size=(n, 3))
    S = F @ F.T + np.eye(n)
    x = cp.Variable(n, boolean=True)
    problem = cp.Problem(cp.Maximize(worth @ x - 0.3 * cp.quad_form(x, S)), [weight @ x <= 14])
    best = max(
        worth @ v - 0.3 * v @ S @ v
        for v in map(np.array, itertools.product((0, 1), repeat=n)) if weight @ v <= 14
    )
    assert solve(problem, gap=1e-6) == pytest.approx(best, rel=1e-5)
    assert problem.status == cp.OPTIMAL
    assert weight @ x.value <= 14 + 1e-6


def test_result_is_in_the_statistics():
    *_, problem = subset_problem()
    value = solve(problem)
    stats = problem.solver_stats
    result = stats.extra_stats
    assert stats.solver_name == "BNB"
    assert isinstance(result, bnb.Result)
    assert result.optimal
    assert result.bound <= value <= result.bound + 1e-4 * abs(value) + 1e-9
    assert stats.num_iters == result.nodes >= 1
    assert stats.solve_time == result.seconds > 0
    data, _, _ = problem.get_problem_data(bnb.CvxpySolver())
    assert result.x.shape == data["q"].shape
    assert np.allclose(data["A"] @ result.x, data["b"])


@pytest.mark.parametrize("seed", range(3))
def test_integers_equal_enumeration(seed):
    rng = np.random.default_rng(seed)
    B, c = rng.normal(size=(3, 3)), rng.normal(scale=3.0, size=3)
    x = cp.Variable(3, integer=True)
    t = cp.Variable()
    problem = cp.Problem(
        cp.Minimize(cp.sum_squares(B @ x - c) + cp.square(t) - t),
        [x >= -2, x <= 3, cp.sum(x) == 1, t + x[0] <= 1.2],
    )
    points = [np.array(v) for v in itertools.product(range(-2, 4), repeat=3) if sum(v) == 1]

    def value(v):
        t = min(0.5, 1.2 - v[0])
        return np.sum((B @ v - c) ** 2) + t * t - t

    assert solve(problem, gap=1e-6) == pytest.approx(min(map(value, points)), rel=1e-5, abs=1e-6)
    assert np.array_equal(x.value, np.round(x.value))


def test_maximise_a_concave_function():
    x = cp.Variable(2, integer=True)
    concave = 5 - cp.sum_squares(x - np.array([1.4, 2.7]))
    problem = cp.Problem(cp.Maximize(concave), [cp.sum(x) <= 3])
    assert solve(problem) == pytest.approx(5 - 0.16 - 0.49)
    assert x.value.tolist() == [1, 2]
    # cvxpy hands a minimisation to the solver, and that is what the result is about
    assert problem.solver_stats.extra_stats.objective == pytest.approx(-problem.value)


@pytest.mark.parametrize("bounds", ["rows", "attribute", "nonneg"])
def test_no_integers_at_all(bounds):
    c = np.array([1.0, -2.0, 0.3])
    extra = {"attribute": {"bounds": [0, 1]}, "nonneg": {"nonneg": True}}.get(bounds, {})
    x = cp.Variable(3, **extra)
    rows = [] if bounds == "attribute" else [x >= 0, x <= 1]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - c)), [*rows, cp.sum(x) == 1])
    value = solve(problem, gap=1e-6)
    assert problem.status == cp.OPTIMAL
    assert value == pytest.approx(problem.solve(solver=cp.CLARABEL), rel=1e-4)


def test_linear_objective_and_matrix_variables():
    cost = np.array([[4.0, 1, 3], [2, 0, 5], [3, 2, 2]])
    x = cp.Variable((3, 3), boolean=True)
    problem = cp.Problem(
        cp.Minimize(cp.sum(cp.multiply(cost, x))), [cp.sum(x, axis=0) == 1, cp.sum(x, axis=1) == 1]
    )
    assert solve(problem) == pytest.approx(5)
    assert np.allclose(x.value, [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize("rows", ["bounds", "parity", "sum"])
def test_infeasible(rows):
    x = cp.Variable(3, integer=True)
    constraints = {
        "bounds": [x >= 2, x <= 1],
        "parity": [2 * x == 1],
        "sum": [x >= 0, x <= 1, cp.sum(x) >= 4],
    }[rows]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x)), constraints)
    assert solve(problem) == np.inf
    assert problem.status == cp.INFEASIBLE
    assert x.value is None


def test_unbounded():
    x = cp.Variable(2, integer=True)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [x <= 4.5])
    assert solve(problem) == -np.inf
    assert problem.status == cp.UNBOUNDED
    problem = cp.Problem(cp.Maximize(cp.sum(x)), [x >= -4.5])
    assert solve(problem) == np.inf


def hard_problem(n=40):
    rng = np.random.default_rng(0)
    B, c = rng.normal(size=(n, n)), rng.normal(scale=10.0, size=n)
    x = cp.Variable(n, integer=True)
    return x, cp.Problem(cp.Minimize(cp.sum_squares(B @ x - c)), [x >= -9, x <= 9])


def test_limit_with_a_solution_gives_values():
    x, problem = hard_problem()
    with pytest.warns(UserWarning, match="inaccurate"):
        value = solve(problem, node_limit=2)
    assert problem.status == cp.settings.USER_LIMIT
    assert value == pytest.approx(problem.objective.value)
    assert np.abs(x.value).max() <= 9
    result = problem.solver_stats.extra_stats
    assert (result.status, result.reason) == (bnb.Status.FEASIBLE, bnb.Reason.NODES)
    assert result.bound < value


def test_limit_without_a_solution(monkeypatch):
    def nothing(problem, **options):
        return bnb.Result(bnb.Status.NO_SOLUTION, bnb.Reason.TIME, None, np.inf, 1.0, np.inf, 1.0,
                          np.inf, 5, 4, 0, 0, 1.0, 1.0)

    monkeypatch.setattr("bnb.cvxpy_solver.solve", nothing)
    x, problem = hard_problem(3)
    with pytest.warns(UserWarning, match="inaccurate"):
        solve(problem)
    assert problem.status == cp.INFEASIBLE_INACCURATE  # as Gurobi and COPT are reported
    assert x.value is None


def test_contradiction_is_an_error(monkeypatch):
    def wrong(problem, **options):
        return bnb.Result(bnb.Status.INVALID, bnb.Reason.EXHAUSTED, np.zeros(3), 0.0, 1.0, 0.0, 1.0,
                          0.0, 5, 0, 0, 0, 1.0, 1.0)

    monkeypatch.setattr("bnb.cvxpy_solver.solve", wrong)
    _, problem = hard_problem(3)
    with pytest.raises(cp.SolverError):
        solve(problem)


def test_values_are_the_start():
    x, problem = hard_problem(6)
    solve(problem)
    best = x.value.copy()

    def first():
        return problem.solver_stats.extra_stats.trace[0]

    solve(problem)
    assert first().source == "S"
    assert first().objective == pytest.approx(problem.value)
    solve(problem, warm_start=False)
    assert first().source != "S"
    x.value = np.full(6, 50.0)  # clipped to the bounds, where it is a start again
    solve(problem)
    assert np.array_equal(x.value, best)


def test_parameters_are_followed():
    x = cp.Variable(2, integer=True)
    p = cp.Parameter(2)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - p)), [x >= 0, x <= 5])
    for value in ([1.2, 3.8], [4.4, 0.4]):
        p.value = np.array(value)
        solve(problem)
        assert np.array_equal(x.value, np.round(value))


def test_unknown_options_are_named():
    _, problem = hard_problem(3)
    with pytest.raises(TypeError, match=r"no option 'TimeLimit'; its options are: .*time_limit"):
        solve(problem, TimeLimit=3)
    with pytest.raises(TypeError, match="no option 'start': the values of the variables"):
        solve(problem, start=np.zeros(3))
    with pytest.raises(ValueError, match="gap must be"):
        solve(problem, gap=-1)


def test_verbose_shows_the_search_log(capsys):
    _, problem = hard_problem(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solve(problem, verbose=True)
    assert "Branch and bound: " in capsys.readouterr().out
    solve(problem)
    assert capsys.readouterr().out == ""


def test_other_cones_are_refused():
    x = cp.Variable(2, integer=True)
    problem = cp.Problem(cp.Minimize(cp.norm2(x - 0.3)), [x >= -1])
    with pytest.raises(cp.SolverError):
        solve(problem)


def test_import_of_the_package_does_not_import_cvxpy():
    code = "import sys, bnb; assert 'CvxpySolver' in dir(bnb); print('cvxpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=bnb.__path__[0] + "/..")
    assert done.stdout.strip() == "False"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = bnb.nothing
