"""Convex node problems and certified lower bounds. Knows nothing of trees or estimators."""

from .certificate import Certifier
from .convexify import Convexification, Convexifier, Lifted, certified_split
from .osqp_workspace import OSQPWorkspace
from .patience import OutOfTimeError, Patience
from .perspective import PerspectiveWorkspace, workspace_for
from .qp import QP, Pairs, Solution
from .reduced import ReducedSolver

__all__ = [
    "QP",
    "Certifier",
    "Convexification",
    "Convexifier",
    "Lifted",
    "OSQPWorkspace",
    "OutOfTimeError",
    "Pairs",
    "Patience",
    "PerspectiveWorkspace",
    "ReducedSolver",
    "Solution",
    "certified_split",
    "workspace_for",
]
