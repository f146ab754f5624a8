"""Branch and bound with certified bounds for mixed-integer and cardinality-constrained QPs."""

from .engine import STOP, Progress, solve
from .miqp import MIQP, solve_miqp
from .problem import Candidate, Evaluation, Goal, Problem, UnboundedError
from .result import Reason, Result, Status, Tolerance

__all__ = [
    "MIQP",
    "STOP",
    "Candidate",
    "Evaluation",
    "Goal",
    "Problem",
    "Progress",
    "Reason",
    "Result",
    "Status",
    "Tolerance",
    "UnboundedError",
    "solve",
    "solve_miqp",
]
