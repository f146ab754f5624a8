"""The constrained SVM as a problem for `bnb.solve`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bnb.problem import Candidate, Child, Evaluation, Goal, Problem, RestartError
from relaxations.svm.bounds.convex import ConvexBound
from relaxations.svm.bounds.game import DropGame, Game
from relaxations.svm.bounds.joint import JointGame
from relaxations.svm.bounds.pairs import PairGame
from relaxations.svm.bounds.recourse import RecourseGame
from relaxations.svm.gram import dense
from relaxations.svm.solvers import NodeSolver, SMOSolver, make_solver

from .contest import Searches
from .convex import ConvexSearch
from .drop import DropSearch
from .incumbents import Finder
from .instance import Instance
from .recourse import RecourseSearch
from .rival import Plan, Rival, Strategy
from .settings import Settings
from .state import State

__all__ = ["BY_GAMES", "CSVMProblem"]

BY_GAMES = ("drop", "recourse", "pairs", "joint")
_OF_BOTH_CLASSES = ("pairs", "joint")


class CSVMProblem(Problem):
    """Searches an `Instance`: by the plain convex bound, the drop bound, or that with recourse.

    The search begins with the first of them.  After some work, and again after more, another one
    goes on beside it; once that has come further it takes over.

    Parameters
    ----------
    instance : Instance
    node_solver : {"auto", "smo", "osqp"}
        See `relaxations.svm.solvers`.
    settings : Settings, optional
    """

    scratch = frozenset({
        "_plan", "_earlier", "_contested", "_solver", "_bound", "_convex", "_searches", "_games",
        "finder",
    })

    def __init__(
        self, instance: Instance, node_solver: str = "auto", settings: Settings | None = None
    ) -> None:
        # Pairs need rows of the matrix; the other solvers take it as it comes.
        self.instance = instance.with_matrix() if node_solver == "smo" else instance
        self.node_solver = node_solver
        self.settings = settings or Settings()
        self._plan = self._first_plan()
        self._earlier = 0.0  # operations of the process that this problem comes from
        self._contested = False  # who goes on is decided elsewhere
        self._own_work_space()

    def _first_plan(self) -> Plan:
        name = self.settings.begin_with
        return Plan(name if self._has(name) else "convex", self.settings)

    def _own_work_space(self) -> None:
        self._solver = make_solver(self.node_solver)
        self._bound = ConvexBound(self._solver, self.instance.hopeless)
        self.finder = Finder(self.instance, self._solver, self.settings)
        self._convex = ConvexSearch(self.instance, self._bound, self.finder, self.settings)
        self._searches: dict[str, Strategy] = {"convex": self._convex}
        self._games: dict[str, DropGame | Game] = {}  # one goes on from two others

    def _has(self, name: str) -> bool:
        """Whether the instance can be searched so: games need the matrix.

        With a factor in its place anchors outnumber its rank, and dropping them is too costly, with
        recourse or without. Pairs need anchors of both classes.
        """
        if name == "convex":
            return True
        possible = name not in _OF_BOTH_CLASSES or self.instance.rates_both_classes
        return name in BY_GAMES and not self.instance.is_factor and possible

    def _competes(self, name: str) -> bool:
        """Whether the search may show what it can do beside others."""
        many = self.instance.budgets.sum() >= self.settings.many
        return self._has(name) and (many or name != "joint")

    def _make(self, name: str) -> Strategy:
        """A search by games, which need the matrix, and most of them a copy that they write to."""
        data = self.instance.with_matrix()
        game = self._game(name, data)
        if name == "drop":
            return DropSearch(data, self._convex, game, self.settings)
        return RecourseSearch(data, self._convex, game, self.settings)

    def _game(self, name: str, data: Instance) -> Any:
        """A game, made when it is first needed."""
        if name not in self._games:
            if name == "drop":
                self._games[name] = DropGame(
                    self._answers(), data.gram, dense(data.gram.K.copy()))
            elif name == "pairs":
                self._games[name] = PairGame(data.gram)
            elif name == "recourse":
                self._games[name] = RecourseGame(
                    self._answers(), data.gram, dense(data.gram.K.copy()), data.anchors())
            else:
                recourse, pairs = self._game("recourse", data), self._game("pairs", data)
                self._games[name] = JointGame(recourse, pairs)
        return self._games[name]

    def _answers(self) -> NodeSolver:
        """Any answer gives a valid bound: the last digits are not worth an exact solver."""
        return SMOSolver() if self.node_solver == "auto" else self._solver

    def _by(self, name: str) -> Strategy:
        """The search of that name, made when it is first needed."""
        if name not in self._searches:
            self._searches[name] = self._make(name)
        return self._searches[name]

    def __str__(self) -> str:
        return f"CSVM, {self.instance.n} points, {self.instance.m} of them anchors"

    @property
    def size(self) -> tuple[int, int]:
        """Points and anchors."""
        return self.instance.n, self.instance.m

    def root(self) -> State:
        """Everything free."""
        return State.root(self.instance.m, self.instance.n + 2)

    def prepare(self, goal: Goal) -> Evaluation | None:
        """An incumbent before the search: the best of greedy releases."""
        self._plan, self._earlier, self._contested = self._first_plan(), 0.0, False
        self._own_work_space()
        root = self.root()
        if self.instance.propagate(root.status) is None or not root.free.size:
            return None  # nothing to search for: infeasible, or all anchors are enforced
        if goal.incumbent is not None:
            return None
        _, x = self.finder.sweep(goal.patience)
        return None if x is None else Evaluation(-np.inf, [("H", x)])

    def evaluate(self, state: State, goal: Goal) -> Evaluation:
        """Bound a node, decide what can be decided, and split it."""
        node = replace(state, status=state.status.copy(), t=state.t.copy())
        before = self._counters()
        solutions = self._give_chance(node, goal)
        found = self._search(node, goal).evaluate(node, goal)
        found.solutions += solutions
        if not goal.probe and found.candidates:
            found.solutions += self.finder.improve(goal, found.bound, self._operations())
        found.work = {what: n - before[what] for what, n in self._counters().items()}
        return found

    def _counters(self) -> dict[str, int]:
        games = sum(search.games for search in self._searches.values())
        return {"convex solves": self._bound.solves, "games": games}

    def _search(self, node: State, goal: Goal) -> Strategy:
        """The search that is in use; a node on an interval of the intercept needs the drop bound.

        Without an incumbent only the convex search has something to aim at.
        """
        name = "drop" if np.isfinite(node.b_u - node.b_l) else self._plan.search
        if name in ("recourse", *_OF_BOTH_CLASSES) and not np.isfinite(goal.cutoff):
            name = "convex"
        return self._by(name)

    def _operations(self) -> float:
        """Work done so far, that of rivals included; see `settings.SECOND`."""
        games = sum(game.operations for game in self._games.values())
        return self._earlier + self._bound.operations + games

    def _give_chance(self, node: State, goal: Goal) -> list[tuple[str, np.ndarray]]:
        """Let other searches go on, and give way to one that has come further.

        Returns solutions that the others have found.
        """
        plan = self._plan
        if self._contested or not np.isfinite(goal.cutoff) or goal.expired():
            return []
        bound = max(node.bound, node.inherited)
        gap = max(goal.cutoff - bound, 0.0)
        chance = plan.chance(self._operations() - plan.rival_work, gap)
        if chance is None:
            return []
        solutions: list[tuple[str, np.ndarray]] = []
        for name in (r for r in chance.rivals if r != plan.search and self._competes(r)):
            rival = plan.rivals.setdefault(name, Rival(self.root()))
            its_gap = goal.cutoff - rival.bound if rival.work > 0.0 else 0.0
            effort = plan.effort(name, chance, gap, its_gap)
            solutions += rival.go_on(self._by(name), goal, self._operations, effort)
            if plan.judge(name, chance, bound, rival.bound, gap, rival.work):
                raise RestartError(rival.bound, solutions, rival.children, rival.settled)
        return solutions

    def branch(self, state: State, evaluation: Evaluation, candidate: Candidate) -> list[Child]:
        """The children that the evaluation has made."""
        return list(evaluation.data)

    def check(self, x: np.ndarray) -> tuple[float, float]:
        """Objective, and by how much margins must be relaxed for the counts to hold."""
        return self.instance.check(x)

    def accept(self, x: np.ndarray) -> np.ndarray:
        """A solution (t, beta) as it is, if its shape is right."""
        if np.shape(x) != (self.instance.n + 1,):
            raise ValueError(
                f"a solution must have shape ({self.instance.n + 1},), got {np.shape(x)}"
            )
        return x

    def contest(self, workers: int) -> Searches:
        """The search in use and its rivals, for workers."""
        self._contested = True
        own = self._operations() - self._plan.rival_work
        usable = {name for name in ("convex", *BY_GAMES) if self._competes(name)}
        return Searches(self._plan, own, usable, workers)

    def __getstate__(self) -> dict[str, Any]:
        """The data, and how much work was done; every process makes a work space of its own."""
        kept = {name: v for name, v in self.__dict__.items() if name not in self.scratch}
        return {**kept, "_earlier": self._operations(), "finder": self.finder.spent}

    def __setstate__(self, state: dict[str, Any]) -> None:
        spent = state.pop("finder")
        self.__dict__.update(state)
        self._plan, self._contested = self._first_plan(), False
        self._own_work_space()
        self.finder.spent = spent

    def notes(self) -> Any:
        """Which search is in use, so that a resumed one does not begin anew."""
        return {"search": self._plan.search, "chances": self._plan.chances, "part": 1.0}

    def recall(self, notes: Any) -> None:
        """See `notes`."""
        name, chances, part = notes["search"], notes["chances"], notes["part"]
        if not self._has(name) or not 0 <= chances <= len(self.settings.chances):
            raise ValueError(f"there is no search {name!r} after {chances!r} chances")
        if not 0.0 <= part <= 1.0:
            raise ValueError(f"part must be from 0 to 1, got {part!r}")
        self._plan.search, self._plan.chances = name, int(chances)
        self.finder.part = float(part)

    def encode(self, state: State) -> Any:
        """See `State.encode`."""
        return state.encode()

    def decode(self, data: Any) -> State:
        """See `State.decode`."""
        return State.decode(data, self.instance.m, self.instance.n + 2)
