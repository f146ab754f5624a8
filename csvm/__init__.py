"""Constrained support vector machines, solved to proven optimality."""

from . import datasets, formulation, kernels, plots
from .estimator import CSVM, ConstantClassifierWarning, fit_path
from .feasibility import InfeasibleRatesError
from .rates import (
    Constraint,
    accuracy,
    all_of,
    at_least,
    balanced_accuracy,
    cost,
    f1,
    npv,
    precision,
    tnr,
    tpr,
)
from .sliding import SlidingSVC, slide
from .thresholds import AnchorWarning

__all__ = [
    "CSVM",
    "AnchorWarning",
    "ConstantClassifierWarning",
    "Constraint",
    "InfeasibleRatesError",
    "SlidingSVC",
    "accuracy",
    "all_of",
    "at_least",
    "balanced_accuracy",
    "cost",
    "datasets",
    "f1",
    "fit_path",
    "formulation",
    "kernels",
    "npv",
    "plots",
    "precision",
    "slide",
    "tnr",
    "tpr",
]
