"""Constrained support vector machines, solved to proven optimality."""

from typing import TYPE_CHECKING

from relaxations.lazy import lazy

if TYPE_CHECKING:
    from . import datasets, formulation, kernels, plots
    from .certification import Certificate, certify
    from .estimator import CSVM, ConstantClassifierWarning, fit_path
    from .exploration import explore
    from .feasibility import InfeasibleRatesError
    from .guaranteed import GuaranteedClassifier, NotCertifiedWarning
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
    from .tuning import rate_scorer

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
    "all_of",
    "at_least",
    "balanced_accuracy",
    "certify",
    "cost",
    "datasets",
    "explore",
    "f1",
    "fit_path",
    "formulation",
    "kernels",
    "npv",
    "plots",
    "precision",
    "rate_scorer",
    "slide",
    "tnr",
    "tpr",
]

# scikit-learn and numba take a second to import: what needs them comes when it is asked for.
__getattr__, __dir__ = lazy(__name__, {
    ".certification": ["Certificate", "certify"],
    ".estimator": ["CSVM", "ConstantClassifierWarning", "fit_path"],
    ".exploration": ["explore"],
    ".feasibility": ["InfeasibleRatesError"],
    ".guaranteed": ["GuaranteedClassifier", "NotCertifiedWarning"],
    ".rates": [
        "Constraint", "accuracy", "all_of", "at_least", "balanced_accuracy", "cost", "f1", "npv",
        "precision", "tnr", "tpr",
    ],
    ".sliding": ["SlidingSVC", "slide"],
    ".thresholds": ["AnchorWarning"],
    ".tuning": ["rate_scorer"],
})
