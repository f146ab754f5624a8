"""Compiled functions, with a way in from Python or without."""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import njit

__all__ = ["inner", "outer"]

outer: Any = partial(njit, nogil=True, cache=True, no_cfunc_wrapper=True)
"""`numba.njit` without a way in from C, which nobody takes and which is compiled all the same."""

inner: Any = partial(outer, no_cpython_wrapper=True)
"""`outer` without a way in from Python, which takes a quarter of the time to compile: tuples of
arrays are long to unpack. Called from Python such a function ends the process."""
