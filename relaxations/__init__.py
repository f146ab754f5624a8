"""Convex node problems and certified lower bounds. Knows nothing of trees or estimators."""

from .certificate import Certifier
from .convexify import Convexification, Convexifier, Lifted, certified_split
from .osqp_workspace import OSQPWorkspace
from .perspective import PerspectiveWorkspace
from .qp import QP, Pairs, Solution

__all__ = [
    "QP",
    "Certifier",
    "Convexification",
    "Convexifier",
    "Lifted",
    "OSQPWorkspace",
    "Pairs",
    "PerspectiveWorkspace",
    "Solution",
    "certified_split",
]
