"""The experiments of the paper: Algorithm 1, its tables, and rates on unseen data."""

from ..store import Store
from .algorithm import Outcome, study
from .protocol import FULL, QUICK, Protocol, Sample, load
from .report import write_report
from .runner import Runner

__all__ = [
    "FULL", "QUICK", "Outcome", "Protocol", "Runner", "Sample", "Store", "load", "study",
    "write_report",
]
