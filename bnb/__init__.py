"""Branch and bound with certified bounds for mixed-integer and cardinality-constrained QPs."""

from typing import TYPE_CHECKING, Any

from relaxations import OutOfTimeError

from .checkpoint import CheckpointWarning
from .engine import STOP, Progress, solve
from .indicator import IndicatorQP
from .miqp import MIQP, solve_miqp
from .problem import Candidate, Evaluation, Goal, Problem, UnboundedError
from .result import Reason, Result, Status, Tolerance
from .support import SupportQP

if TYPE_CHECKING:
    from .cvxpy_solver import CvxpySolver
    from .plots import plot_gap, plot_tree
    from .reader import read
    from .subset.regression import BestSubsetRegressor, best_subset

__all__ = [
    "MIQP",
    "STOP",
    "BestSubsetRegressor",
    "Candidate",
    "CheckpointWarning",
    "CvxpySolver",
    "Evaluation",
    "Goal",
    "IndicatorQP",
    "OutOfTimeError",
    "Problem",
    "Progress",
    "Reason",
    "Result",
    "Status",
    "SupportQP",
    "Tolerance",
    "UnboundedError",
    "best_subset",
    "plot_gap",
    "plot_tree",
    "read",
    "solve",
    "solve_miqp",
]

# cvxpy and scikit-learn take a second to import and not all need them: these come when asked for.
_LAZY = {
    "BestSubsetRegressor": "subset.regression",
    "CvxpySolver": "cvxpy_solver",
    "best_subset": "subset.regression",
    "plot_gap": "plots",
    "plot_tree": "plots",
    "read": "reader",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
