"""The constrained SVM as a branch-and-bound problem on the anchors and the intercept."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bnb.problem import Candidate, Evaluation, Goal, Problem
from relaxations.drop_bound import Certificate, Rates
from relaxations.drop_game import DropGame, Dual, Mixture
from relaxations.node_solvers import make_node_solver
from relaxations.svm_dual import (
    certified_value,
    extrapolate,
    gradient,
    intercept,
    make_feasible,
)

from .incumbents import Searcher, choose_given_up, read_classifier

__all__ = ["CSVMProblem", "Node"]

FREE, ENFORCED, GIVEN_UP = 0, 1, -1

_ROUNDING = 1e-9
_HOPELESS = 1e9  # objectives above this, in units of the problem, count as infeasible
_CHUNKS = 40
_WIDE = 0.5  # an interval of the intercept that is halved before anchors are split
_FIRST_ROUNDS = 60
_ROUNDS = 8
_PATIENCE = 3
_START_AGE, _MAX_AGE = 20, 40  # how many sets the frequencies of a node count for
_BETA_SHARE = 0.45  # the middle gains half of what the width costs: then nearly all of the gap
_NARROW = 0.01
_CANDIDATES = 8
_DECIDED = 0.9
_RARE = 1e-3  # frequencies below this are not kept
_SWAP_WORK = 40_000  # swaps tried around an incumbent, times points


@dataclass
class Node:
    """A subproblem: what is decided about the anchors and the intercept, and a warm start.

    Parameters
    ----------
    status : ndarray of int8 (m,)
        0 free, 1 enforced, -1 given up.
    b_l, b_u : float
        Interval of the intercept.
    t : ndarray (N,)
        Signed multipliers of the last bound, its own or its parent's.
    u : ndarray (m,)
        Frequencies of the anchors in the sets that this bound played against.
    C : ndarray (a, a)
        Covariance of those whose frequency is not zero.
    age : int
        How many sets these were.
    bound, width_cost : float
        The drop bound of this very node, -inf where it is not known yet, and how much higher it
        would be if the interval were its middle alone.
    """

    status: np.ndarray
    b_l: float
    b_u: float
    t: np.ndarray
    u: np.ndarray
    C: np.ndarray
    age: int
    bound: float = -np.inf
    width_cost: float = 0.0

    @property
    def wide(self) -> bool:
        """Whether the interval of the intercept must be halved before anchors are split."""
        return not self.b_u - self.b_l <= _WIDE


class CSVMProblem(Problem):
    """Soft-margin SVM in which enough anchors must have margin one.

        min ||w||^2 + sum_i c_i xi_i   s.t.  y_i f(x_i) >= 1 - xi_i on the training points,
        y_j f(x_j) >= 1 or z_j = 0 on the anchors,  sum_j n_lj z_j >= k_l for every rate l

    A solution is the vector (t, beta) with f = sum_i t_i K(x_i, .) / 2 + beta.

    Parameters
    ----------
    K : ndarray (n, n)
        Positive semidefinite kernel matrix, training points first, then the anchors.
    y : ndarray (n,)
        Labels, +1 or -1.
    cost : ndarray (n - m,)
        Slack costs c_i of the training points.
    weights : ndarray (L, m)
        Weights n_lj >= 0 of the anchors in each rate.
    required : ndarray (L,)
        Weight k_l of the anchors that must have margin one.
    node_solver : {"auto", "smo", "osqp"}
        See `relaxations.node_solvers`.
    """

    scratch = frozenset({"node_solver", "solver", "game", "_split", "_swapped"})

    def __str__(self) -> str:
        return f"CSVM, {self.first} training points, {self.m} anchors, {len(self.budgets)} rates"

    def __init__(
        self,
        K: np.ndarray,
        y: np.ndarray,
        cost: np.ndarray,
        weights: np.ndarray,
        required: np.ndarray,
        node_solver: str = "auto",
    ) -> None:
        self.node_solver = node_solver
        n = y.size
        self.n, self.m, self.first = n, n - cost.size, cost.size
        self.K = np.zeros((n + 2, n + 2))
        self.K[:n, :n] = K
        self.diag = self.K.diagonal().copy()
        self.p = np.append(np.asarray(y, dtype=float), [0.0, 0.0])
        self.cost = np.ascontiguousarray(cost, dtype=float)
        # Counts in units of the heaviest anchor: tolerances must not depend on the user's unit.
        weights = np.asarray(weights, dtype=float)
        unit = weights.max(axis=1)
        unit[unit == 0.0] = 1.0
        self.weights = np.ascontiguousarray(weights / unit[:, None])
        self.budgets = self.weights.sum(axis=1) - np.asarray(required, dtype=float) / unit
        # Where only exactly used budgets need be looked at; see relaxations.drop_bound.
        alone = (self.weights > 0).sum(axis=0) <= 1
        self.exact = np.all((self.weights == 0) | ((self.weights == 1) & alone), axis=1)
        # Of unit weights no fraction can be given up, and only a whole budget can be used up.
        self.budgets[self.exact] = np.floor(self.budgets[self.exact] + _ROUNDING)
        self.lo = np.zeros(n + 2)
        self.hi = np.zeros(n + 2)
        self.lo[: self.first] = np.where(self.p[: self.first] < 0, -self.cost, 0.0)
        self.hi[: self.first] = np.where(self.p[: self.first] > 0, self.cost, 0.0)
        # In units of the data: ||w||^2 is at least 1 / K_ii for a margin of one without intercept.
        # Of solutions above it nothing is claimed, and `check` takes none.
        self.hopeless = _HOPELESS * (1.0 / (self.diag.max() or 1.0) + self.cost.sum())
        self._own_work_space()

    def _own_work_space(self) -> None:
        self.solver = make_node_solver(self.node_solver)
        # Any answer gives a valid bound: in the game the last digits are not worth a rescue.
        answers = make_node_solver("smo") if self.node_solver == "auto" else self.solver
        self.game = DropGame(answers, self.K)
        self._split = np.zeros((self.m, self.m))
        self._swapped = np.inf  # objective around which swaps were tried last

    # -- the engine's side --------------------------------------------------------------------

    def root(self) -> Node:
        """Everything free."""
        status = np.zeros(self.m, np.int8)
        return Node(
            status, -np.inf, np.inf, np.zeros(self.n + 2), np.zeros(self.m), np.zeros((0, 0)), 0
        )

    def prepare(self, goal: Goal) -> Evaluation | None:
        """An incumbent before the search: the best of a sweep over soft margins."""
        self._own_work_space()  # nothing is left from an earlier search, so that runs repeat
        if (self.budgets < -_ROUNDING).any() or not self._propagated_root().any():
            return None  # nothing to search for: infeasible, or all anchors are enforced
        out = np.empty(self.n + 1)
        levels = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1e9)
        value = self.searcher(goal.expired).sweep(levels, 1e-6, out)
        return Evaluation(-np.inf, [("H", out)]) if np.isfinite(value) else None

    def searcher(self, expired: Callable[[], bool] = lambda: False) -> Searcher:
        """What looks for feasible classifiers."""
        return Searcher(
            self.K, self.diag, self.p, self.cost, self.lo, self.hi, self.weights, self.budgets,
            expired,
        )

    def improve(
        self, x: np.ndarray, objective: float, expired: Callable[[], bool] = lambda: False
    ) -> tuple[np.ndarray, float]:
        """A solution at least as good as x, found by swaps of anchors, and its objective."""
        out = x.copy()
        tries = _SWAP_WORK // self.n
        return out, self.searcher(expired).improve_by_swaps(1e-6, tries, out, objective)

    def _propagated_root(self) -> np.ndarray:
        """Which anchors are still free once the budgets have been looked at."""
        status = np.zeros(self.m, np.int8)
        self._propagate(status)
        return status == FREE

    def evaluate(self, state: Node, goal: Goal) -> Evaluation:
        """Bound a node, decide what the bound decides, and look for an incumbent.

        Whatever is taken out of the node on the way cannot beat the cutoff.
        """
        cutoff, bound = goal.cutoff, -np.inf
        node = self._cut_interval(state, cutoff)
        if node.b_l > node.b_u:
            return Evaluation(cutoff, removed=cutoff)
        if not np.isfinite(state.b_u - state.b_l) and np.isfinite(cutoff + node.b_u - node.b_l):
            node, bound = self._shave_interval(node, goal)
        while True:
            if node.bound == -np.inf and not node.wide:
                self._settle(node, goal)
            bound = max(bound, node.bound)
            if bound >= cutoff:
                return Evaluation(bound, removed=cutoff)
            if self._propagate(node.status) is None:
                return Evaluation(np.inf, removed=cutoff)
            free = np.flatnonzero(node.status == FREE)
            # Fewer choices of anchors than intervals (without an incumbent nothing bounds the
            # intercept): decide the anchors first.
            few = not (node.b_u - node.b_l) / _WIDE <= 2.0 ** min(free.size, 30)
            if free.size == 0 or few:
                return self._evaluate_convex(node, free, bound, goal)
            candidates = self._candidates(node, free, cutoff - bound)
            if goal.expired():
                return Evaluation(bound, [], candidates, (node, []), removed=cutoff)
            children = self._test(node, candidates[0].key, goal)
            if len(children) == 2:
                break
            if not children:
                return Evaluation(cutoff, removed=cutoff)
            node = children[0]
        bound = max(bound, min(child.bound for child in children))
        solutions = [] if goal.probe else self._look_around(node, goal)
        return Evaluation(bound, solutions, candidates, (node, children), removed=cutoff)

    def branch(self, state: Node, evaluation: Evaluation, candidate: Candidate) -> list[Node]:
        """Halve the interval of the intercept, or enforce and give up an anchor."""
        node, children = evaluation.data
        if children and candidate == evaluation.candidates[0]:
            return children
        return self._children(node, candidate.key)

    def _children(self, node: Node, key: int) -> list[Node]:
        children = [_part(node), _part(node)]
        if key == self.m:
            children[0].b_u = children[1].b_l = 0.5 * (node.b_l + node.b_u)
        else:
            children[0].status[key], children[1].status[key] = ENFORCED, GIVEN_UP
        return children

    def _test(self, node: Node, key: int, goal: Goal) -> list[Node]:
        """The children that are not refuted.

        Of an anchor only the child that enforces it is tested: the other one mostly is as open as
        the node itself.
        """
        left = []
        for child in self._children(node, key):
            if (key == self.m or child.status[key] == ENFORCED) and not goal.expired():
                self._settle(child, goal)
            if not child.bound >= goal.cutoff:
                left.append(child)
        return left

    def _settle(self, node: Node, goal: Goal) -> None:
        """Bound a node and fix what the bound decides, until it decides no more."""
        bound = -np.inf
        while True:
            left = self._propagate(node.status)
            free = np.flatnonzero(node.status == FREE)
            if left is None:
                node.bound = np.inf
            elif free.size == 0:
                node.bound = max(bound, self._convex_solve(node, free, goal)[0])
            elif self._play(node, free, left, goal) and not goal.expired():
                bound = max(bound, node.bound)
                continue
            node.bound = max(bound, node.bound)
            return

    def check(self, x: np.ndarray) -> tuple[float, float]:
        """Objective, and by how much margins must be relaxed for the counts to hold."""
        n = self.n
        half = 0.5 * self.K[:n, :n] @ x[:n]
        margin = self.p[:n] * (half + x[n])
        slack = np.maximum(1.0 - margin[: self.first], 0.0)
        short = np.maximum(1.0 - margin[self.first :], 0.0)
        order = np.argsort(-short)
        violation = 0.0
        for row, budget in zip(self.weights, self.budgets, strict=True):
            over = np.cumsum(row[order]) > budget + _ROUNDING
            if over.any():
                violation = max(violation, float(short[order[np.argmax(over)]]))
        objective = float(0.5 * x[:n] @ half + self.cost @ slack)
        return objective, violation if objective < self.hopeless else np.inf

    def accept(self, x: np.ndarray) -> np.ndarray:
        """A solution (t, beta) as it is, if its shape is right."""
        if np.shape(x) != (self.n + 1,):
            raise ValueError(f"a solution must have shape ({self.n + 1},), got {np.shape(x)}")
        return x

    def worker(self) -> CSVMProblem:
        """The same data with a work space of its own."""
        other = copy.copy(self)
        other._own_work_space()
        return other

    def encode(self, state: Node) -> Any:
        """Without bound and covariance, which are found again."""
        return {
            "status": state.status.tolist(), "b_l": state.b_l, "b_u": state.b_u,
            "t": state.t.tolist(), "u": state.u.tolist(), "age": state.age,
        }

    def decode(self, data: Any) -> Node:
        """The state back from `encode`."""
        b_l, b_u = float(data["b_l"]), float(data["b_u"])
        status, t, u = (np.array(data[name], dtype=float) for name in ("status", "t", "u"))
        for name, part, size, low, high in (
            ("status", status, self.m, -1, 1), ("t", t, self.n + 2, -1e300, 1e300),
            ("u", u, self.m, 0, 1),
        ):
            if part.shape != (size,) or not np.all((part >= low) & (part <= high)):
                raise ValueError(f"{name} must hold {size} numbers from {low:g} to {high:g}")
        if not b_l <= b_u or np.any(status % 1 != 0) or not data["age"] >= 0:
            raise ValueError("its interval, status or age cannot be")
        kept = u[u > 0.0]
        return Node(
            status.astype(np.int8), b_l, b_u, t, u, np.diag(kept * (1 - kept)),
            min(int(data["age"]), 1),
        )

    # -- parts of an evaluation ---------------------------------------------------------------

    def _cut_interval(self, state: Node, cutoff: float) -> Node:
        """A copy of the node without intercepts that cannot beat the cutoff.

        With ||w||^2 <= UB and the positives' costs summing to C+, some positive point has slack at
        most UB / C+, hence beta >= 1 - UB / C+ - ||w|| max ||phi||; likewise for the negatives.
        """
        b_l, b_u = state.b_l, state.b_u
        if np.isfinite(cutoff):
            reach = np.sqrt(max(cutoff, 0.0) * self.diag.max())  # below 0: an incumbent of norm 0
            positive, negative = self.hi[: self.first].sum(), -self.lo[: self.first].sum()
            if positive > 0:
                b_l = max(b_l, 1.0 - cutoff / positive - reach)
            if negative > 0:
                b_u = min(b_u, cutoff / negative - 1.0 + reach)
        node = _part(state)
        if (b_l, b_u) == (state.b_l, state.b_u):
            node.bound, node.width_cost = state.bound, state.width_cost
        node.b_l, node.b_u = b_l, b_u
        return node

    def _propagate(self, status: np.ndarray) -> np.ndarray | None:
        """Enforce anchors that no longer fit a budget; what is left, None if overdrawn."""
        left = self.budgets - self.weights @ (status == GIVEN_UP)
        if (left < -_ROUNDING).any():
            return None
        too_heavy = (self.weights > left[:, None] + _ROUNDING).any(axis=0)
        status[(status == FREE) & too_heavy] = ENFORCED
        return np.minimum(left, self.weights @ (status == FREE))

    def _dual(self, node: Node) -> Dual:
        """Linear term and box of t.

        Anchors given up need not have margin above one: a classifier that gives them more counts
        them, and belongs to the other child.  So their multipliers have the opposite sign.
        """
        p, lo, hi = self.p.copy(), self.lo.copy(), self.hi.copy()
        anchors = slice(self.first, self.n)
        upward = (node.status >= 0) == (p[anchors] > 0)
        hi[anchors] = np.where(upward, np.inf, 0.0)
        lo[anchors] = np.where(upward, 0.0, -np.inf)
        if np.isfinite(node.b_l):
            p[-2], hi[-2] = node.b_l, np.inf
        if np.isfinite(node.b_u):
            p[-1], lo[-1] = node.b_u, -np.inf
        return Dual(p, lo, hi)

    def _play(self, node: Node, free: np.ndarray, left: np.ndarray, goal: Goal) -> bool:
        """Find the drop bound of a node on a bounded interval, which learns from it.

        Returns whether that decided any anchor.
        """
        cutoff = goal.cutoff
        dual = self._dual(node)
        np.clip(node.t, dual.lo, dual.hi, out=node.t)
        weights = np.ascontiguousarray(self.weights[:, free])
        # Fixing asks what happens without one of them: the others must still use up the budget.
        rates = Rates(weights, left, self.exact & (left < weights.sum(axis=1)))
        variables = free + self.first
        fresh = node.age == 0
        if fresh:
            mixture = self.game.soft_start(dual, variables, rates, node.t, cutoff, goal.patience)
            mixture.age = _START_AGE
        else:
            mixture = _recall(node, free)
        thorough = fresh and not node.wide
        played = self.game.play(
            dual, variables, rates, node.t, mixture, self._split, cutoff,
            _FIRST_ROUNDS if thorough else _ROUNDS, 3 * _PATIENCE if thorough else _PATIENCE,
            goal.patience,
        )
        if not node.wide:  # what is learned on a wide interval is a bad start on a part of it
            _remember(node, free, mixture)
        found = played.certificate
        node.bound, node.width_cost = found.bound, played.middle - found.bound
        if node.bound < cutoff and self._ignores(node, free):
            # Then what is enforced says at least as much by itself.
            plain, node.t, _, _ = self._convex_solve(node, free, goal)
            node.bound = max(node.bound, plain)
        return node.bound < cutoff and self._fix(node, free, found, cutoff)

    def _ignores(self, node: Node, free: np.ndarray) -> bool:
        """Whether the bound puts no multiplier on any free anchor."""
        return not node.t[self.first + free].any()

    def _fix(self, node: Node, free: np.ndarray, found: Certificate, cutoff: float) -> bool:
        """Decide anchors for which the other choice cannot beat the cutoff."""
        ends, reduced = found.ends[:, None], found.reduced
        if_given_up = (ends + np.maximum(-reduced, 0.0)).min(axis=0)
        if_enforced = (ends + np.maximum(reduced, 0.0)).min(axis=0)
        node.status[free[if_given_up >= cutoff]] = ENFORCED
        node.status[free[if_enforced >= cutoff]] = GIVEN_UP
        return bool(node.status[free].any())

    def _shave_interval(self, node: Node, goal: Goal) -> tuple[Node, float]:
        """The node without pieces at both ends that the plain convex bound refutes.

        Also that bound on the whole of it.
        """
        self._propagate(node.status)
        free = np.flatnonzero(node.status == FREE)
        bound = self._convex_solve(_part(node), free, goal, 1e-3)[0]
        for side in (0, 1):
            share = 0.5
            while share > 0.02 and node.b_u - node.b_l > 0.1 * _WIDE and not goal.expired():
                piece, rest = _part(node), _part(node)
                width = share * (node.b_u - node.b_l)
                if side == 0:
                    piece.b_u = rest.b_l = node.b_l + width
                else:
                    piece.b_l = rest.b_u = node.b_u - width
                if self._convex_solve(piece, free, goal, 1e-3)[0] >= goal.cutoff:
                    node = rest
                else:
                    share *= 0.5
        return node, bound

    def _convex_solve(
        self, node: Node, free: np.ndarray, goal: Goal, accuracy: float = 1e-6
    ) -> tuple[float, np.ndarray, np.ndarray, float]:
        """Certified bound of the node without its free anchors, t, K t / 2 and the intercept.

        A coarser accuracy gives a weaker bound, and so does a lack of time.
        """
        dual = self._dual(node)
        p, lo, hi = dual.p, dual.lo, dual.hi
        lo[self.first + free] = 0.0
        hi[self.first + free] = 0.0
        t = node.t
        make_feasible(t, lo, hi)
        F = np.empty_like(t)
        gradient(self.K, p, t, F)
        target = min(goal.cutoff, self.hopeless)
        value = -np.inf
        for _ in range(_CHUNKS):
            before = t.copy()
            steps, violation = self.solver.maximise(
                self.K, self.diag, p, lo, hi, t, F, accuracy, 10 * t.size, target,
                goal.patience,
            )
            proven = certified_value(self.diag, p, t, F, steps + t.size)
            last, value = value, max(value, proven)
            if violation <= accuracy or value >= target or value <= last + 1e-12 * abs(last):
                break
            if goal.expired():
                break
            extrapolate(self.K, p, lo, hi, t, before, F, target)
        if value >= self.hopeless:
            value = np.inf
        return value, t, p - F, intercept(t, F, lo, hi)

    def _evaluate_convex(
        self, node: Node, free: np.ndarray, bound: float, goal: Goal
    ) -> Evaluation:
        """Bound by the node without its free anchors: exact if there are none."""
        value, t, half, hint = self._convex_solve(node, free, goal)
        bound = max(bound, value)
        if bound >= goal.cutoff:
            return Evaluation(bound, removed=goal.cutoff)
        objective, scale, beta = read_classifier(
            self.p, self.cost, t, half, self.first, self.weights, self.budgets, node.status >= 0,
            hint,
        )
        solutions = []
        if np.isfinite(objective):
            solutions.append(("N", np.append(scale * t[: self.n], beta)))
        anchors = self.first + free
        margin = self.p[anchors] * (half[anchors] + hint)
        candidates = [Candidate(int(free[a])) for a in np.argsort(margin)[:_CANDIDATES]]
        return Evaluation(bound, solutions, candidates, (node, []), removed=goal.cutoff)

    def _look_around(self, node: Node, goal: Goal) -> list[tuple[str, np.ndarray]]:
        """Swaps around a new incumbent, else a guess from the node's sets."""
        if goal.incumbent is not None and goal.objective < self._swapped * (1.0 - 1e-9):
            x, self._swapped = self.improve(goal.incumbent, goal.objective, goal.expired)
            return [("L", x)]
        return self._round(node, goal) if node.age else []

    def _round(self, node: Node, goal: Goal) -> list[tuple[str, np.ndarray]]:
        """Give up the anchors that the bound was played against most often."""
        kept = np.empty(self.m, np.bool_)
        choose_given_up(node.u, node.status, self.weights, self.budgets, kept)
        out = np.empty(self.n + 1)
        value = self.searcher(goal.expired).alternate(
            kept, node.t.copy(), goal.objective, 1e-5, out
        )
        return [("R", out)] if np.isfinite(value) else []

    def _candidates(self, node: Node, free: np.ndarray, gap: float) -> list[Candidate]:
        """The intercept while its interval costs much of the gap, else the undecided anchors."""
        if node.wide:
            return [Candidate(self.m)]
        width = node.b_u - node.b_l
        # A bound without multipliers on free anchors cannot tell what the width costs; it wins
        # where the interval is too wide for any other.
        blind = width > _NARROW and self._ignores(node, free)
        smallest = 1e-9 * max(1.0, abs(node.b_l), abs(node.b_u))
        if blind or (width > smallest and node.width_cost > _BETA_SHARE * gap):
            return [Candidate(self.m)]
        # Anchors that are nearly always given up: enforcing one is soon refuted, and giving it up
        # spends the budget, so the tree is a path with short side branches.
        u = node.u[free]
        order = np.argsort(np.where(u < _DECIDED, -u, 0.0), kind="stable")[:_CANDIDATES]
        return [Candidate(int(free[a]), float(u[a]), float(1.0 - u[a])) for a in order]


def _part(node: Node) -> Node:
    """A copy to be narrowed down: what is decided and learned, but no bound of its own."""
    return replace(
        node, status=node.status.copy(), t=node.t.copy(), bound=-np.inf, width_cost=0.0
    )


def _recall(node: Node, free: np.ndarray) -> Mixture:
    """The mixture that the node remembers, over its free anchors."""
    known = np.flatnonzero(node.u > 0.0)
    still = np.flatnonzero(node.status[known] == FREE)
    place = np.searchsorted(free, known[still])
    C = np.zeros((free.size, free.size))
    C[np.ix_(place, place)] = node.C[np.ix_(still, still)]
    return Mixture(node.u[free], C, node.age)


def _remember(node: Node, free: np.ndarray, mixture: Mixture) -> None:
    """Keep what is worth keeping of the mixture."""
    known = np.flatnonzero(mixture.u > _RARE)
    node.u = np.zeros(node.u.size)
    node.u[free[known]] = mixture.u[known]
    node.C = mixture.C[np.ix_(known, known)].astype(np.float32)
    node.age = min(mixture.age, _MAX_AGE)
