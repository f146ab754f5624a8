"""Branch and bound with certified bounds for mixed-integer and cardinality-constrained QPs."""

from typing import TYPE_CHECKING

from relaxations.lazy import lazy

if TYPE_CHECKING:
    from relaxations.patience import OutOfTimeError

    from .checkpoint import CheckpointWarning
    from .cvxpy_solver import CvxpySolver
    from .engine import solve
    from .options import STOP, Progress
    from .plots import plot_gap, plot_tree
    from .problem import Candidate, Evaluation, Goal, Problem, UnboundedError
    from .qp.indicator import IndicatorQP
    from .qp.miqp import MIQP, solve_miqp
    from .qp.support import SupportQP
    from .reader import read
    from .result import Reason, Result, Status, Tolerance
    from .subset.regression import BestSubsetRegressor, best_subset
    from .workers import WorkerWarning

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
    "WorkerWarning",
    "best_subset",
    "plot_gap",
    "plot_tree",
    "read",
    "solve",
    "solve_miqp",
]

# numba, cvxpy and scikit-learn take seconds to import: what needs them comes when asked for.
__getattr__, __dir__ = lazy(__name__, {
    ".checkpoint": ["CheckpointWarning"],
    ".cvxpy_solver": ["CvxpySolver"],
    ".engine": ["solve"],
    ".options": ["STOP", "Progress"],
    ".plots": ["plot_gap", "plot_tree"],
    ".problem": ["Candidate", "Evaluation", "Goal", "Problem", "UnboundedError"],
    ".qp.indicator": ["IndicatorQP"],
    ".qp.miqp": ["MIQP", "solve_miqp"],
    ".qp.support": ["SupportQP"],
    ".reader": ["read"],
    ".result": ["Reason", "Result", "Status", "Tolerance"],
    ".subset.regression": ["BestSubsetRegressor", "best_subset"],
    ".workers": ["WorkerWarning"],
    "relaxations.patience": ["OutOfTimeError"],
})
