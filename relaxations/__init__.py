"""Convex node problems and certified lower bounds. Knows nothing of trees or estimators."""

from .patience import OutOfTimeError, Patience
from .qp.certificate import Certifier
from .qp.convexify import Convexification, Convexifier, Lifted, certified_split
from .qp.model import QP, Pairs, Solution
from .qp.osqp_workspace import OSQPWorkspace
from .qp.perspective import PerspectiveWorkspace, Workspace, workspace_for
from .qp.reduced import ReducedSolver

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
    "Workspace",
    "certified_split",
    "workspace_for",
]
