"""What can be had on some data, before anyone names a rate: `csvm explore`."""

from .page import write_page
from .study import Exploration, Method, OperatingPoint, explore

__all__ = ["Exploration", "Method", "OperatingPoint", "explore", "write_page"]
