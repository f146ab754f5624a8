"""Best subset: min ‖y − Xβ‖² with few non-zeros, searched at microseconds a node."""

from .data import SubsetData
from .problem import BestSubset

__all__ = ["BestSubset", "SubsetData"]
