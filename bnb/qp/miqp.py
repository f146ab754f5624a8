"""Mixed-integer convex QPs as a problem for the engine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from relaxations import (
    QP,
    OutOfTimeError,
    Pairs,
    Patience,
    ReducedSolver,
    Solution,
    Workspace,
    workspace_for,
)

from .. import validation
from ..engine import solve
from ..options import STOP
from ..problem import Candidate, Child, Evaluation, Goal, Problem, UnboundedError
from ..result import Result, Status
from . import heuristics
from .lattice import LatticeSearch
from .model import Model
from .propagation import Propagator
from .recession import falls_forever
from .rules import Delegate, Rules
from .strengthen import Strengthener, free_curvature
from .structure import find_structure, round_rows, tighten_coefficients

if TYPE_CHECKING:
    from relaxations.qp.droppable import Memory

_INTEGRAL = 1e-6
_WIDE = 1e6  # bounds beyond this are of little use to certify with: curvature is better
_DOUBT = 1e-9  # share of an objective that its rounding error may take unnoticed
_WHOLE = 2.0**53  # beyond this floats do not hold all integers, and nothing can be split

_NARROW, _MANY = 3.0, 60  # a lattice is for boxes at least that wide, with so many variables

Warm = tuple[np.ndarray, np.ndarray]
"""A point and row multipliers to start a relaxation from."""


@dataclass
class Box:
    """A node: bounds on all variables, the parent's solution to start from, and its drop bound."""

    lb: np.ndarray
    ub: np.ndarray
    warm: Warm | None = None
    memory: Memory | None = None


class MIQP(Problem):
    """min ½ xᵀPx + qᵀx + constant  s.t.  l ≤ Ax ≤ u,  lb ≤ x ≤ ub,  some x integer.

    Parameters
    ----------
    P : array or sparse matrix of shape (n, n), or None
        Symmetric positive semidefinite; None for a linear objective.
    q : array of shape (n,)
    A : array or sparse matrix of shape (m, n), optional
    l, u : array of shape (m,), optional
        Row bounds, infinite where there is none; equal for equations.
    lb, ub : array of shape (n,) or scalar, optional
        Bounds of the variables; none by default, [0, 1] for binaries.
    binary, integer : positions or boolean masks, optional
        Which variables are restricted to {0, 1} and to integers.
    constant : float
        Added to the objective.

    Notes
    -----
    Rows x_j ≤ u_j z_j with binary z_j are recognised as switches and get perspective terms, pure
    binaries get a diagonal shift, both by `relaxations.qp.convexify`. Integer least squares
    (integers alone, no rows, a wide box around the minimum) is searched as a lattice.

    Examples
    --------
    >>> import numpy as np, bnb
    >>> problem = bnb.MIQP(np.eye(2), [-1.4, -0.4], integer=[0, 1], lb=-5, ub=5)
    >>> bnb.solve(problem).x
    array([1., 0.])
    """

    scratch = frozenset({
        "_box", "_pairs", "_rows", "_propagator", "_plain_qp", "_strong_qp", "_scale", "_plain",
        "_reduced", "_strong", "_removed", "_bottomless", "_seconds", "evaluations", "_delegate",
    })

    def __init__(
        self,
        P: Any,
        q: Any,
        A: Any = None,
        l: Any = None,  # noqa: E741 - the usual name
        u: Any = None,
        *,
        lb: Any = None,
        ub: Any = None,
        binary: Iterable[int] | np.ndarray | None = None,
        integer: Iterable[int] | np.ndarray | None = None,
        constant: float = 0.0,
    ) -> None:
        n = np.size(q)
        if n == 0:
            raise ValueError("q must hold at least one variable")
        self.q = validation.vector("q", q, n)
        self.P = validation.convex_matrix("P", P, n)
        self.A = validation.matrix("A", A, (None, n))
        m = self.A.shape[0]
        self.l = validation.vector("l", l, m, -np.inf, infinite=True)
        self.u = validation.vector("u", u, m, np.inf, infinite=True)
        validation.interval("l", self.l, "u", self.u)
        self.binary = validation.index_set("binary", binary, n)
        self.is_integer = np.zeros(n, dtype=bool)
        self.is_integer[validation.index_set("integer", integer, n)] = True
        self.is_integer[self.binary] = True
        self.lb = validation.vector("lb", lb, n, -np.inf, infinite=True)
        self.ub = validation.vector("ub", ub, n, np.inf, infinite=True)
        validation.interval("lb", self.lb, "ub", self.ub)
        self.lb[self.binary] = np.maximum(self.lb[self.binary], 0.0)
        self.ub[self.binary] = np.minimum(self.ub[self.binary], 1.0)
        self.constant = float(validation.vector("constant", constant, 1)[0])
        self.rules = Rules(n)
        self._box: Box | None = None
        self._pairs = Pairs.none()
        self._plain_qp: QP | None = None
        self._strong_qp: QP | None = None
        self._scale = np.ones(n)
        self._plain: Workspace | None = None
        self._reduced: ReducedSolver | None = None
        self._strong: Workspace | None = None
        self._removed = np.inf  # the cutoff that fixings at the root relied on
        self._bottomless = False
        self._seconds = 0.0
        self.evaluations = 0
        self._delegate: Delegate | None = None  # a search that is better suited to the structure

    @property
    def model(self) -> Model:
        """The problem as plain data."""
        return Model(
            self.P, self.q, self.A, self.l, self.u, self.lb, self.ub, self.is_integer,
            self.constant,
        )

    # -- the original problem ---------------------------------------------------------------

    def check(self, x: np.ndarray) -> tuple[float, float]:
        """Objective and largest violation (absolute, or relative to bounds above one).

        Where large terms cancel, so that rounding decides about the objective, it is the largest
        that it may be.
        """
        if np.shape(x) != self.q.shape or not np.all(np.isfinite(x)):
            return np.inf, np.inf
        rows = self.A @ x
        violation = 0.0
        for value, low, high in ((rows, self.l, self.u), (x, self.lb, self.ub)):
            with np.errstate(invalid="ignore"):
                over = (value - high) / np.maximum(1.0, np.abs(high))
                under = (low - value) / np.maximum(1.0, np.abs(low))
            for part in (over[np.isfinite(high)], under[np.isfinite(low)]):
                violation = max(violation, float(part.max(initial=0.0)))
        whole = x[self.is_integer]
        violation = max(violation, float(np.abs(whole - np.round(whole)).max(initial=0.0)),
                        self.rules.violation(x))
        objective = 0.5 * float(x @ (self.P @ x)) + float(self.q @ x) + self.constant
        size = np.abs(x)
        terms = 0.5 * float(size @ (abs(self.P) @ size)) + float(np.abs(self.q) @ size)
        doubt = len(x) * np.finfo(float).eps * terms
        return objective + (doubt if doubt > _DOUBT * (1.0 + abs(objective)) else 0.0), violation

    def __str__(self) -> str:
        return (
            f"{type(self).__name__}, {len(self.q)} variables "
            f"({int(self.is_integer.sum())} integer), {self.A.shape[0]} rows"
        )

    def present(self, x: np.ndarray) -> np.ndarray:
        """The variables that the user knows."""
        return x[: self.rules.n]

    def accept(self, x: np.ndarray) -> np.ndarray:
        """A user's solution, if its shape is right, with the variables that go with it."""
        if np.shape(x) != (self.rules.n,):
            raise ValueError(f"a solution must have shape ({self.rules.n},), got {np.shape(x)}")
        return self.rules.extend(x)

    # -- presolve ---------------------------------------------------------------------------

    def prepare(self, goal: Goal) -> Evaluation:
        """Presolve, first incumbents, and the strongest relaxation that pays."""
        self._seconds = 0.0
        # Nothing is left from an earlier search, so that runs repeat.
        self._plain = self._reduced = self._strong = self._strong_qp = self._delegate = None
        self._removed = np.inf
        self.evaluations = 0
        taken = self.rules.delegate(self, goal) or self._as_lattice(goal)
        if taken is not None:
            self._delegate, first = taken
            return first
        if not self._presolve(goal.patience):
            return Evaluation(np.inf)
        assert self._box is not None and self._plain_qp is not None
        falls = self._recession(goal.patience)
        if falls:
            return self._unbounded_or_infeasible(goal)
        self._bottomless = falls is None
        begin = time.perf_counter()
        root = self.plain.solve(
            self._box.lb, self._box.ub, slack=self._slack(goal, np.inf), patience=goal.patience
        )
        self._seconds += time.perf_counter() - begin
        if root.bound == np.inf:
            return Evaluation(np.inf)
        self._box.warm = (root.x, root.y)
        finder = heuristics.Heuristics(self)
        solutions = finder.at_root(root.x, goal)
        bound = self._strengthen(root, finder, solutions, goal)
        return Evaluation(min(bound, self._removed), solutions, seconds=self._seconds)

    def _as_lattice(self, goal: Goal) -> tuple[Delegate, Evaluation] | None:
        """Integers alone, without rows, in a box around the minimum are a lattice."""
        if self.A.shape[0] or not self.is_integer.all() or np.any(self.ub - self.lb < _NARROW):
            return None
        if len(self.q) > _MANY:
            return None
        P = self.P.toarray()
        lattice = LatticeSearch.of(
            P, self.q, self.constant, np.ceil(self.lb - _INTEGRAL),
            np.floor(self.ub + _INTEGRAL), 0.5 * max(goal.tolerance.relative, 1e-6),
        )
        if lattice is None:
            return None
        start = lattice.start(P, self.q)
        objective = min(goal.objective, self.check(start)[0])
        if not lattice.pays(replace(goal, objective=objective)):
            return None
        return lattice, Evaluation(lattice.least, [("R", start)])

    def _presolve(self, patience: Patience) -> bool:
        """Tighten bounds and coefficients and find switches; False if proven infeasible."""
        lb, ub = self.lb.copy(), self.ub.copy()
        lb[self.is_integer] = np.ceil(lb[self.is_integer] - _INTEGRAL)
        ub[self.is_integer] = np.floor(ub[self.is_integer] + _INTEGRAL)
        l, u = round_rows(self.A, self.l, self.u, self.is_integer)  # noqa: E741
        if np.any(lb > ub) or np.any(l > u):
            return False
        self._propagator = Propagator(self.A, l, u, self.is_integer)
        if not patience.run(lambda: self.propagate(lb, ub, rounds=50), 50.0 * self.A.nnz):
            return False
        self._box = Box(lb, ub)
        A, u = self._find_switches(l, u)
        square = free_curvature(self.P, (lb < -_WIDE) | (ub > _WIDE), patience)
        self._plain_qp = QP(
            self.P - sp.diags(2.0 * square), self.q, A, l, u, square, constant=self.constant
        )
        return True

    def _find_switches(
        self, l: np.ndarray, u: np.ndarray  # noqa: E741
    ) -> tuple[sp.csr_matrix, np.ndarray]:
        """Set the switches and the rows that these leave; returns tightened rows."""
        lb, ub = self._presolved().lb, self._presolved().ub
        known = self.rules.switches(lb, ub)
        if known is not None:
            self._pairs, self._rows = known
            return self.A, u
        switchable = self.is_integer & (lb >= 0) & (ub <= 1)
        A, u = tighten_coefficients(self.A, l, u, lb, ub, switchable)
        found = find_structure(A, l, u, lb, ub, switchable, self.is_integer)
        self._pairs, self._rows = found.pairs, found.rows
        return A, u

    def _strengthen(
        self, first: Solution, finder: heuristics.Heuristics,
        solutions: list[tuple[str, np.ndarray]], goal: Goal,
    ) -> float:
        """Replace the plain relaxation by a stronger one while that closes the gap."""
        assert self._box is not None and self._plain_qp is not None
        builder = Strengthener(
            self._plain_qp, self.is_integer, self._pairs, self._rows, self._box
        )
        best = first
        if best.bound >= self._cutoff(finder, goal):
            return best.bound
        solutions += finder.anneal(goal)
        try:
            for qp, scale, point in builder.proposals(first.x, goal):
                self._seconds += builder.take_seconds()
                last = best
                if qp is not None:
                    best = self._try_relaxation(qp, scale, best, finder, goal)
                if best is not last:
                    solutions += finder.round(best.x, goal)
                if self.rules.local_search is not None:
                    solutions += finder.swap(goal)
                elif point is not None:
                    solutions += finder.round(point, goal)
                cutoff = self._cutoff(finder, goal)
                if not self._fix_at_root(best, cutoff):
                    return cutoff
                builder.tell(best.bound, cutoff)
                if best.bound >= cutoff or goal.expired():
                    break
        except OutOfTimeError:  # the relaxation there is has to do
            return best.bound
        if self._strong_qp is not None:  # the box may be smaller than when it was made
            self._strong = self._workspace(self._strong_qp, self._scale)
        if best.bound < self._cutoff(finder, goal):
            solutions += finder.swap(goal)
        return best.bound

    def _try_relaxation(
        self, qp: QP, scale: np.ndarray, best: Solution, finder: heuristics.Heuristics, goal: Goal,
    ) -> Solution:
        """Solve the root with another relaxation and keep it if it is better: the best solution."""
        assert self._box is not None
        workspace = self._workspace(qp, scale)
        begin = time.perf_counter()
        found = workspace.solve(
            self._box.lb, self._box.ub, cutoff=self._cutoff(finder, goal),
            slack=self._slack(goal, finder.best), warm=_fitting(self._box.warm, qp),
            patience=goal.patience,
        )
        self._seconds += time.perf_counter() - begin
        if not found.bound > best.bound:
            return best
        self._strong, self._strong_qp, self._scale = workspace, qp, scale
        self._box.warm = (found.x, found.y)
        return found

    def _workspace(self, qp: QP, scale: np.ndarray) -> Workspace:
        """A workspace for the nodes of the presolved problem."""
        box = self._presolved()
        return workspace_for(qp, scale, box.lb, box.ub)

    def _fix_at_root(self, found: Solution, cutoff: float) -> bool:
        """Shrink the whole problem's box by reduced costs; False if nothing is left of it."""
        box = self._presolved()
        lb, ub = box.lb.copy(), box.ub.copy()
        if self._fix_by_reduced_costs(found, lb, ub, cutoff):
            self._removed = min(self._removed, cutoff)
            if not self.propagate(lb, ub):
                return False
            box.lb[:], box.ub[:] = lb, ub
        return True

    def _cutoff(self, finder: heuristics.Heuristics, goal: Goal) -> float:
        return goal.tolerance.cutoff(min(finder.best, goal.objective))

    def _slack(self, goal: Goal, objective: float) -> float:
        """How accurate a bound is worth having: a tenth of what the gap asks for."""
        known = min(objective, goal.objective)
        return 0.1 * goal.tolerance.slack(known) if np.isfinite(known) else 1e-6

    def _recession(self, patience: Patience) -> bool | None:
        """Whether the continuous relaxation falls without end along some feasible direction.

        None if it does so up to rounding only.
        """
        return self.rules.rows_say_all and self._falls(self._presolved(), patience)

    def _falls(self, box: Box, patience: Patience) -> bool | None:
        """The same for rows and these bounds."""
        endless = np.flatnonzero(np.isinf(box.lb) | np.isinf(box.ub))
        if not endless.size:
            return False
        if validation.eigenvalues_exceed(self.P, endless, 1e-8 * float(abs(self.P).max())):
            return False  # every direction of theirs is curved
        return falls_forever(self.P, self.q, self.A, self.l, self.u, box.lb, box.ub, patience)

    def _unbounded_or_infeasible(self, goal: Goal) -> Evaluation:
        """With a direction to fall along for ever, all depends on whether there is any point."""
        found = self._point_within(self._presolved(), goal)
        if found.x is not None:
            raise UnboundedError
        return Evaluation(np.inf if found.status is Status.INFEASIBLE else -np.inf)

    def _point_within(self, box: Box, goal: Goal) -> Result:
        """Looks for any solution within these bounds."""
        points = copy(self)
        # Of all points one near zero: without an objective a search has no reason to end.
        points.P, points.q = sp.identity(len(self.q), format="csr"), np.zeros(len(self.q))
        points.lb, points.ub = box.lb, box.ub
        return first_solution(points, goal)

    # -- the search -------------------------------------------------------------------------

    def root(self) -> Any:
        """The presolved bounds, or whatever a delegate begins with."""
        if self._delegate is not None:
            return self._delegate.root()
        return self._presolved()

    def _presolved(self) -> Box:
        return self._box if self._box is not None else Box(self.lb, self.ub)

    def evaluate(self, state: Any, goal: Goal) -> Evaluation:
        """Propagate, solve the relaxation, fix by reduced costs, and look for solutions."""
        if self._delegate is not None:
            answer = self._delegate.evaluate(state, goal)
            answer.solutions = [(source, self.accept(x)) for source, x in answer.solutions]
            return answer
        self._seconds = 0.0
        box = self._presolved()
        lb, ub = np.maximum(state.lb, box.lb), np.minimum(state.ub, box.ub)
        if np.any(lb > ub) or not self.propagate(lb, ub):
            return Evaluation(np.inf, removed=self._removed)
        found, removed = self._bound(lb, ub, state.warm, goal)
        removed = min(removed, self._removed)
        if found.bound >= goal.cutoff:
            return Evaluation(found.bound, seconds=self._seconds, removed=removed)
        solutions: list[tuple[str, np.ndarray]] = []
        if self._is_leaf(lb, ub):
            solutions.append(("N", self.snap(found.x, lb, ub)))
            return Evaluation(found.bound, solutions, seconds=self._seconds, removed=removed)
        # Where there is no bound to hope for, splitting would never end.
        hopeless = found.bound == -np.inf and self._bottomless
        candidates = [] if hopeless else self._candidates(found.x, lb, ub)
        if not goal.probe:
            finder = heuristics.Heuristics(self, goal.objective, goal.incumbent)
            solutions = finder.at_node(found.x, lb, ub, goal)
        data = Box(lb, ub, (found.x, found.y))
        return Evaluation(
            found.bound, solutions, candidates, data, seconds=self._seconds, removed=removed
        )

    def _is_leaf(self, lb: np.ndarray, ub: np.ndarray) -> bool:
        return bool(np.all(lb[self.is_integer] == ub[self.is_integer]))

    def _bound(
        self, lb: np.ndarray, ub: np.ndarray, warm: Warm | None, goal: Goal
    ) -> tuple[Solution, float]:
        """Solve the relaxation and fix by reduced costs, again if that leaves no integer open.

        Returns the solution and the cutoff that fixings relied on, ``inf`` if there were none.
        """
        found = self._relax(lb, ub, warm, goal)
        if found.bound >= goal.cutoff or not self._fix_by_reduced_costs(found, lb, ub, goal.cutoff):
            return found, np.inf
        if not self.propagate(lb, ub):
            found.bound = np.inf
        elif self._is_leaf(lb, ub):
            leaf = self.complete(lb, ub, goal.patience)
            leaf.bound = max(leaf.bound, found.bound)
            found = leaf
        return found, goal.cutoff

    def _relax(
        self, lb: np.ndarray, ub: np.ndarray, warm: Warm | None, goal: Goal
    ) -> Solution:
        """The strong relaxation; at a leaf the plain one, which is exact there."""
        if self._is_leaf(lb, ub):
            return self.complete(lb, ub, goal.patience)
        begin = time.perf_counter()
        relaxation, qp = (
            (self._strong, self._strong_qp) if self._strong is not None
            else (self.plain, self._plain_qp)
        )
        assert relaxation is not None and qp is not None
        found = relaxation.solve(
            lb, ub, cutoff=goal.cutoff, slack=self._slack(goal, np.inf), warm=_fitting(warm, qp),
            patience=goal.patience,
        )
        self._seconds += time.perf_counter() - begin
        if found.bound == -np.inf:  # variables without end ask for accuracy
            sharp = self.complete(lb, ub, goal.patience)
            found = sharp if sharp.bound > -np.inf else found
        return found

    @property
    def plain(self) -> Workspace:
        """The relaxation as it was given, made when first needed."""
        if self._plain is None:
            assert self._plain_qp is not None
            self._plain = workspace_for(self._plain_qp, np.ones(self._plain_qp.n))
        return self._plain

    def relax_plainly(
        self, lb: np.ndarray, ub: np.ndarray, cutoff: float, patience: Patience
    ) -> Solution:
        """The relaxation as it was given, for heuristics."""
        begin = time.perf_counter()
        found = self.plain.solve(lb, ub, cutoff=cutoff, slack=1e-3 * abs(cutoff), patience=patience)
        self._seconds += time.perf_counter() - begin
        return found

    def complete(self, lb: np.ndarray, ub: np.ndarray, patience: Patience) -> Solution:
        """Best values of the continuous variables for fixed integers, accurately."""
        begin = time.perf_counter()
        if self._reduced is None:
            assert self._plain_qp is not None
            self._reduced = ReducedSolver(self._plain_qp)
        found = self._reduced.solve(lb, ub, patience)
        self._seconds += time.perf_counter() - begin
        return found

    def propagate(self, lb: np.ndarray, ub: np.ndarray, rounds: int = 10) -> bool:
        """Tighten bounds in place; False if there is surely no feasible point."""
        rules = self.rules
        return (rules.tighten(lb, ub) and self._propagator.tighten(lb, ub, rounds)
                and rules.tighten(lb, ub))

    def fix_and_propagate(
        self, x: np.ndarray, lb: np.ndarray, ub: np.ndarray, patience: Patience
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Bounds with every integer fixed near x, or None if that failed."""
        fixed = self.rules.fix(self._propagator, x, lb, ub, patience)
        return fixed if fixed is not None and self.propagate(*fixed) else None

    def snap(self, x: np.ndarray, lb: np.ndarray, ub: np.ndarray) -> np.ndarray:
        """Round what must be whole and clip to the bounds."""
        x = np.clip(x, lb, ub)
        x[self.is_integer] = np.round(x[self.is_integer])
        self.rules.snap(x)
        return x

    def links(self) -> Pairs:
        """Which binaries switch which variables on and off."""
        return self._pairs

    def _fix_by_reduced_costs(
        self, found: Solution, lb: np.ndarray, ub: np.ndarray, cutoff: float
    ) -> bool:
        """Shrink integer intervals whose far end would lift the bound over the cutoff."""
        room = cutoff - found.bound
        if not np.isfinite(room):
            return False
        changed = False
        for j in np.flatnonzero(self.is_integer & (lb < ub) & (found.reduced != 0.0)):
            steps = np.floor(room / abs(found.reduced[j]) + _INTEGRAL)
            if found.reduced[j] > 0.0 and lb[j] + steps < ub[j]:
                ub[j], changed = lb[j] + steps, True
            elif found.reduced[j] < 0.0 and ub[j] - steps > lb[j]:
                lb[j], changed = ub[j] - steps, True
        return changed

    def _candidates(self, x: np.ndarray, lb: np.ndarray, ub: np.ndarray) -> list[Candidate]:
        """Fractional integers, most fractional first; if there are none, any that is not fixed."""
        open_ = np.flatnonzero(self.is_integer & (lb < ub) & (np.abs(x) < _WHOLE))
        part = x[open_] - np.floor(x[open_])
        part = np.clip(part, 0.0, 1.0)
        fraction = np.minimum(part, 1.0 - part)
        order = np.argsort(-fraction, kind="stable")
        chosen = [i for i in order if fraction[i] > _INTEGRAL] or list(order)
        return [Candidate(int(open_[i]), float(part[i]), float(1.0 - part[i])) for i in chosen]

    def branch(
        self, state: Any, evaluation: Evaluation, candidate: Candidate
    ) -> Sequence[Box | Child]:
        """Round the variable down in one child and up in the other."""
        if self._delegate is not None:
            return self._delegate.branch(evaluation)
        box: Box = evaluation.data
        j = candidate.key
        value = float(np.clip(np.floor(box.warm[0][j] + _INTEGRAL),  # type: ignore[index]
                              box.lb[j], box.ub[j] - 1.0))
        down, up = Box(box.lb, box.ub.copy(), box.warm), Box(box.lb.copy(), box.ub, box.warm)
        down.ub[j] = value
        up.lb[j] = value + 1.0
        return [down, up]

    # -- workers and checkpoints ------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """All but the workspaces, which every process makes for itself."""
        return {**self.__dict__, "_plain": None, "_reduced": None, "_strong": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._strong_qp is not None:
            self._strong = self._workspace(self._strong_qp, self._scale)

    def encode(self, state: Any) -> Any:
        """Only the bounds that differ from the original ones."""
        if self._delegate is not None:
            return self._delegate.encode(state)
        data = {}
        for name, now, then in (("lb", state.lb, self.lb), ("ub", state.ub, self.ub)):
            changed = np.flatnonzero(now != then)
            data[name] = [changed.tolist(), now[changed].tolist()]
        return data

    def decode(self, data: Any) -> Any:
        """Bounds back from a checkpoint."""
        if self._delegate is not None:
            return self._delegate.decode(data)
        lb, ub = self.lb.copy(), self.ub.copy()
        for name, array in (("lb", lb), ("ub", ub)):
            positions, values = data[name]
            places = validation.index_set(f"{name} of the node", positions, len(array))
            if len(places) != len(positions):
                raise ValueError(f"{name} of the node names a position twice")
            array[positions] = validation.vector(f"{name} of the node", values, len(places))
        slack = 1e-6 * (1.0 + np.abs(np.where(np.isfinite(self.lb), self.lb, 0.0)))
        room = 1e-6 * (1.0 + np.abs(np.where(np.isfinite(self.ub), self.ub, 0.0)))
        if np.any(lb < self.lb - slack) or np.any(ub > self.ub + room) or np.any(lb > ub):
            raise ValueError("bounds of the node are not within those of the problem")
        return Box(lb, ub)


def first_solution(problem: MIQP, goal: Goal, **options: Any) -> Result:
    """A search that ends with its first solution, in the time that is left."""
    left = max(goal.patience.seconds(), 1e-3)
    return solve(problem, time_limit=left, on_incumbent=lambda _: STOP, **options)


def _fitting(warm: Warm | None, qp: QP) -> Warm | None:
    """The start, if its multipliers belong to the rows of this relaxation."""
    return warm if warm is not None and len(warm[1]) == len(qp.l) else None


def solve_miqp(
    P: Any, q: Any, A: Any = None, l: Any = None, u: Any = None, *,  # noqa: E741
    lb: Any = None, ub: Any = None, binary: Any = None, integer: Any = None, **options: Any,
) -> Result:
    """Build an `MIQP` and solve it; `options` are those of `bnb.solve`."""
    return solve(MIQP(P, q, A, l, u, lb=lb, ub=ub, binary=binary, integer=integer), **options)
