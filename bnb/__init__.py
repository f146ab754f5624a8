"""Branch and bound with certified bounds for mixed-integer and cardinality-constrained QPs."""

from .engine import STOP, Progress, solve
from .indicator import IndicatorQP
from .miqp import MIQP, solve_miqp
from .problem import Candidate, Evaluation, Goal, Problem, UnboundedError
from .result import Reason, Result, Status, Tolerance
from .support import SupportQP

__all__ = [
    "MIQP",
    "STOP",
    "Candidate",
    "Evaluation",
    "Goal",
    "IndicatorQP",
    "Problem",
    "Progress",
    "Reason",
    "Result",
    "Status",
    "SupportQP",
    "Tolerance",
    "UnboundedError",
    "solve",
    "solve_miqp",
]
