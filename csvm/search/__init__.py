"""The constrained SVM as a branch-and-bound problem."""

from .instance import Instance, slack_costs
from .problem import CSVMProblem
from .settings import Chance, Settings

__all__ = ["CSVMProblem", "Chance", "Instance", "Settings", "slack_costs"]
