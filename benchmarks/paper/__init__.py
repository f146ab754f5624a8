"""The experiments of the paper: Algorithm 1, its tables, and rates on unseen data."""

from .algorithm import Findings, study
from .protocol import FULL, QUICK, Data, Protocol, load
from .report import write_report

__all__ = ["FULL", "QUICK", "Data", "Findings", "Protocol", "load", "study", "write_report"]
