"""A priori bounds on rounding errors of library routines, with their constants."""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(float).eps)


def qr_error(rows: int, columns: int) -> float:
    """By what share of its length a column may be off in a QR factorisation, at most.

    R is the exact factor of a matrix with columns so near. Lawson and Hanson (Solving Least Squares
    Problems, chapter 15) have (6m − 3k + 40) k units of roundoff for k reflections of length m;
    twice that for LAPACK, which gathers reflections in blocks.
    """
    return EPS * (6 * rows + 40) * columns
