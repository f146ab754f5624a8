"""The engine as a solver for cvxpy: ``problem.solve(solver=bnb.CvxpySolver())``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy.settings as s
import numpy as np
import scipy.sparse as sp
from cvxpy.reductions.solution import Solution, failure_solution
from cvxpy.reductions.solvers.qp_solvers.qp_solver import QpSolver

from .engine import solve
from .options import Options
from .qp.miqp import MIQP
from .qp.model import Model
from .qp.substitution import Substitution, substitute
from .result import Result, Status

_OFFSET = "bnb_offset"
_VALUES = "bnb_values"

_RESERVED = {
    "start": "the values of the variables are the start (warm_start=True)",
    "verbose": "it is an argument of problem.solve itself",
}
"""Options of `bnb.solve` that cvxpy has its own way for."""

_IGNORED = {"use_quad_obj"}
"""Options that cvxpy takes for itself but passes on as well."""


class CvxpySolver(QpSolver):
    """Certified branch and bound for convex QPs with boolean or integer variables.

    Pass an instance as the solver; options are those of `bnb.solve`.

    Notes
    -----
    Statuses are those that cvxpy gives for other mixed-integer solvers: ``optimal`` only with a
    proof, ``user_limit`` when a limit or Ctrl-C ended the search with a solution (the values are
    there), ``infeasible_inaccurate`` when it ended without one (nothing is proven then),
    ``infeasible`` and ``unbounded`` when that is proven.

    ``problem.solver_stats.extra_stats`` is the `Result`, with certified bound, gap and trace; its
    ``x`` is cvxpy's stacked vector. cvxpy turns a maximisation into a minimisation of the negated
    objective, and the `Result` is about that. ``num_iters`` is the number of nodes. There are no
    dual values.

    With ``warm_start=True``, the default of cvxpy, values that the variables already have are
    tried as first incumbent.

    Examples
    --------
    >>> import cvxpy as cp, bnb
    >>> x = cp.Variable(2, integer=True)
    >>> problem = cp.Problem(cp.Minimize(cp.sum_squares(x - [1.2, 0.4])), [cp.sum(x) >= 2])
    >>> value = problem.solve(solver=bnb.CvxpySolver(), gap=1e-6, time_limit=10)
    >>> print(problem.status, x.value)
    optimal [1. 1.]
    """

    MIP_CAPABLE = True
    BOUNDED_VARIABLES = True

    def name(self) -> str:
        """Name shown by cvxpy."""
        return "BNB"

    def import_solver(self) -> None:
        """Nothing to import: it is here."""

    def cite(self, data: Any) -> str:
        """cvxpy prints this on request."""
        return ""

    def apply(self, problem: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Standard form, with the constant of the objective and the values of the variables."""
        data, inverse = super().apply(problem)
        data[_OFFSET] = float(np.sum(inverse[s.OFFSET]))
        data[_VALUES] = _stacked_values(problem.variables)
        return data, inverse

    def solve_via_data(
        self, data: dict[str, Any], warm_start: bool, verbose: bool, solver_opts: dict[str, Any],
        solver_cache: Any = None,
    ) -> Result:
        """Solve the standard form."""
        options = _options(solver_opts)
        smaller = substitute(_model(data))
        problem = MIQP(**smaller.model.arguments())
        if warm_start:
            tolerance = options.get("feasibility", Options.feasibility)
            options["start"] = _start(problem, smaller, data[_VALUES], tolerance)
        result = solve(problem, verbose=int(verbose), **options)
        return result if result.x is None else replace(result, x=smaller.recover(result.x))

    def invert(self, solution: Result, inverse_data: Any) -> Solution:
        """The result in cvxpy's terms."""
        attributes = {
            s.SOLVE_TIME: solution.seconds,
            s.NUM_ITERS: solution.nodes,
            s.EXTRA_STATS: solution,
        }
        status = _status(solution)
        if status not in s.SOLUTION_PRESENT:
            return failure_solution(status, attributes)
        primal = {inverse_data[self.VAR_ID]: solution.x}
        # None, not {}: older versions of cvxpy take that for "no duals"
        return Solution(status, solution.objective, primal, None, attributes)


def _status(result: Result) -> str:
    if result.status is Status.FEASIBLE:
        return str(s.USER_LIMIT)
    return str({
        Status.OPTIMAL: s.OPTIMAL,
        Status.INFEASIBLE: s.INFEASIBLE,
        Status.UNBOUNDED: s.UNBOUNDED,
        Status.NO_SOLUTION: s.INFEASIBLE_INACCURATE,
    }.get(result.status, s.SOLVER_ERROR))


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """The options for `bnb.solve`; unknown ones are refused by name."""
    options = {name: value for name, value in given.items() if name not in _IGNORED}
    known = set(Options.__dataclass_fields__) - set(_RESERVED)
    for name in options:
        if name in _RESERVED:
            raise TypeError(f"CvxpySolver has no option {name!r}: {_RESERVED[name]}")
        if name not in known:
            raise TypeError(
                f"CvxpySolver has no option {name!r}; its options are: {', '.join(sorted(known))}"
            )
    return options


def _model(data: dict[str, Any]) -> Model:
    """Equations and inequalities of the standard form as one set of rows."""
    n = len(data[s.Q])
    integer = np.zeros(n, dtype=bool)
    integer[np.asarray([*data[s.BOOL_IDX], *data[s.INT_IDX]], dtype=int)] = True
    low = _bounds(data.get(s.LOWER_BOUNDS), -np.inf, n)
    high = _bounds(data.get(s.UPPER_BOUNDS), np.inf, n)
    binary = np.asarray(data[s.BOOL_IDX], dtype=int)
    low[binary], high[binary] = np.maximum(low[binary], 0.0), np.minimum(high[binary], 1.0)
    P = sp.csr_matrix(data[s.P])
    return Model(
        P=0.5 * (P + P.T),
        q=np.asarray(data[s.Q], dtype=float).ravel(),
        A=sp.csr_matrix(sp.vstack([sp.csr_matrix(data[s.A]), sp.csr_matrix(data[s.F])])),
        l=np.concatenate([data[s.B], np.full(len(data[s.G]), -np.inf)]).astype(float),
        u=np.concatenate([data[s.B], data[s.G]]).astype(float),
        lb=low,
        ub=high,
        integer=integer,
        constant=data[_OFFSET],
    )


def _bounds(values: Any, default: float, n: int) -> np.ndarray:
    return np.full(n, default) if values is None else np.array(values, dtype=float).ravel()


def _stacked_values(variables: Any) -> np.ndarray:
    """What the variables hold, in the order of the standard form; NaN where there is nothing."""
    parts = [
        np.full(v.size, np.nan) if v.value is None else _dense(v.value).ravel(order="F")
        for v in variables
    ]
    return np.concatenate(parts).astype(float) if parts else np.zeros(0)


def _dense(value: Any) -> np.ndarray:
    return np.asarray(value.toarray() if sp.issparse(value) else value)


def _start(
    problem: MIQP, smaller: Substitution, values: np.ndarray, tolerance: float
) -> np.ndarray | None:
    """The present values of the variables, if they are complete and feasible."""
    if len(values) != smaller.size:
        return None
    x = smaller.restrict(values)
    if not np.isfinite(x).all():
        return None
    x[problem.is_integer] = np.round(x[problem.is_integer])
    x = np.clip(x, problem.lb, problem.ub)
    return x if problem.check(x)[1] <= tolerance else None
