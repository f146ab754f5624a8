"""Constrained support vector machines, solved to proven optimality."""

from . import datasets, formulation, kernels, plots
from .certification import Certificate, certify
from .estimator import CSVM, ConstantClassifierWarning, fit_path
from .feasibility import InfeasibleRatesError
from .guaranteed import GuaranteedClassifier, NotCertifiedWarning
from .rates import AnchorWarning, Constraint, accuracy, tnr, tpr
from .sliding import SlidingSVC, slide

__all__ = [
    "CSVM",
    "AnchorWarning",
    "Certificate",
    "ConstantClassifierWarning",
    "Constraint",
    "GuaranteedClassifier",
    "InfeasibleRatesError",
    "NotCertifiedWarning",
    "SlidingSVC",
    "accuracy",
    "certify",
    "datasets",
    "fit_path",
    "formulation",
    "kernels",
    "plots",
    "slide",
    "tnr",
    "tpr",
]
