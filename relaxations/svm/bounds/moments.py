"""The moment bound: what certifies a quadratic loss for large budgets.

For any diagonal matrix Delta with Delta - B positive semidefinite and any z

    a'v + v'B v <= z'(Delta - B)z + (a + Delta - 2 (Delta - B) z)'v       for every 0-1 vector v,

since v'Delta v = Delta'v makes the left side concave in v, and so below its tangent at z.  This is
the dual of a semidefinite relaxation in mean and covariance of v.  For given variances the best
Delta is dual to the covariance X with that diagonal of largest <B, X>; `sweep` finds it by
coordinates in X = factor factor', and `dominating` raises it until a Cholesky factor proves it.
`moment_loss` lets z and Delta answer each other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...jit import outer

__all__ = ["RANK", "TINY", "moment_loss", "rounding", "work"]

RANK = 12
"""Columns of the factor of the covariance."""
TINY = 1e-150
"""Divisors are this at least: quotients of costs stay finite."""

_EPS = np.finfo(np.float64).eps
_LEAST_VARIANCE = 0.02
_CLIMB_STEPS = 10  # of the set against a diagonal that is not the last
_LAST_STEPS = 20
_OVERHEAD = 1e6  # operations of a round
_PER_ENTRY = 60.0  # operations, of B


def rounding(p: np.ndarray, diag: np.ndarray, mass: float) -> float:
    """Bound on all rounding errors of the value of multipliers whose sizes sum to ``mass``."""
    largest = 1.0 + np.abs(p).max() + diag.max() * mass
    return float(16.0 * _EPS * p.size * mass * largest)


def work(size: int) -> float:
    """Operations of a round of a game, less those of its answer, with B of this size."""
    return _OVERHEAD + _PER_ENTRY * float(size) ** 2


def moment_loss(
    a: np.ndarray, B: np.ndarray, mean: np.ndarray, factor: np.ndarray, passes: int,
    climb: Callable[[np.ndarray, int], np.ndarray],
) -> tuple[np.ndarray, float]:
    """The tangent that bounds a'v + v'B v by l'v + const: l and const.

    Mean and diagonal answer each other in so many passes: ``climb`` takes steps of the mean to
    where the loss is large for a diagonal, and returns it. The factor is improved in place.
    """
    delta, slow = np.zeros(a.size), mean.copy()
    for _ in range(passes):
        # The variances follow the mean slowly, else they would go round in circles.
        sweep(B, slow, factor, delta)
        slow += 0.5 * (climb(delta, _CLIMB_STEPS) - slow)
    delta = dominating(delta, B)
    z = climb(delta, _LAST_STEPS)
    excess = delta * z - B @ z
    return a + delta - 2.0 * excess, float(z @ excess)


def dominating(delta: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The diagonal matrix delta, raised until delta - B is surely positive semidefinite."""
    scale = np.sqrt(np.maximum(delta, 1e-12 * max(delta.max(), TINY)))
    scaled = -B / np.outer(scale, scale)
    np.fill_diagonal(scaled, (delta - B.diagonal()) / scale**2)
    # A Cholesky factor exists only if the matrix is positive semidefinite up to rounding, which
    # for this size is far below the first lift; half of it is kept in hand.
    for lift in 10.0 ** np.arange(-7.0, 3.0):
        try:
            np.linalg.cholesky(scaled + np.diag(np.full(delta.size, 0.5 * lift)))
        except np.linalg.LinAlgError:
            continue
        return delta + lift * scale**2
    return np.abs(B).sum(axis=1)  # diagonally dominant


@outer
def sweep(B: np.ndarray, mean: np.ndarray, factor: np.ndarray, delta: np.ndarray) -> None:
    """Write the best diagonal for given variances, after a few coordinate steps on the factor.

    Parameters
    ----------
    B : ndarray (m, m)
    mean : ndarray (m,)
        z: the variances are z(1 - z), but not too small.
    factor : ndarray (m, RANK)
        Of the covariance, changed in place.
    delta : ndarray (m,)
        Written: the diagonal, which nearly dominates B.
    """
    m, rank = factor.shape
    g, roots = np.empty(rank), np.empty(m)
    for j in range(m):
        z = min(max(mean[j], 0.0), 1.0)
        roots[j] = np.sqrt(max(z * (1.0 - z), _LEAST_VARIANCE))
    for _ in range(3):
        for j in range(m):
            for c in range(rank):
                g[c] = 0.0
            for i in range(m):
                if i != j:
                    for c in range(rank):
                        g[c] += B[j, i] * factor[i, c]
            norm = np.sqrt(np.dot(g, g))
            delta[j] = max(B[j, j] + norm / roots[j], 0.0)
            if norm == 0.0:  # no other has to do with it: any direction
                for c in range(rank):  # not a slice: numba takes seconds to compile its errors
                    g[c] = factor[j, c]
                norm = max(np.sqrt(np.dot(g, g)), TINY)
            for c in range(rank):
                factor[j, c] = roots[j] / norm * g[c]
