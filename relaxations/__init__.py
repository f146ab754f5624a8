"""Convex node problems and certified lower bounds. Knows nothing of trees or estimators."""

from typing import TYPE_CHECKING

from .lazy import lazy

if TYPE_CHECKING:
    from .patience import OutOfTimeError, Patience
    from .qp.certificate import Certifier
    from .qp.choose import Workspace, workspace_for
    from .qp.convexify import Convexification, Convexifier, Lifted, certified_split
    from .qp.model import QP, Pairs, Solution
    from .qp.osqp_workspace import OSQPWorkspace
    from .qp.perspective import PerspectiveWorkspace
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

__getattr__, __dir__ = lazy(__name__, {
    ".patience": ["OutOfTimeError", "Patience"],
    ".qp.certificate": ["Certifier"],
    ".qp.convexify": ["Convexification", "Convexifier", "Lifted", "certified_split"],
    ".qp.model": ["QP", "Pairs", "Solution"],
    ".qp.osqp_workspace": ["OSQPWorkspace"],
    ".qp.choose": ["Workspace", "workspace_for"],
    ".qp.perspective": ["PerspectiveWorkspace"],
    ".qp.reduced": ["ReducedSolver"],
})
