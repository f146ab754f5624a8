"""Compiled functions that only compiled code calls."""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import njit

__all__ = ["inner"]

inner: Any = partial(
    njit, nogil=True, cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True
)
"""`numba.njit` without a way in from Python, which takes a quarter of the time to compile: tuples
of arrays are long to unpack. Called from Python such a function ends the process."""
