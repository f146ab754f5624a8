"""Brute force: every integer assignment, each completed by interior points (Clarabel)."""

from __future__ import annotations

import itertools

import clarabel
import numpy as np
import scipy.optimize
import scipy.sparse as sp


def convex_minimum(P, q, A, l, u, lb, ub):
    """Minimum of a convex QP (inf if infeasible), by Clarabel on a model put together here."""
    n = len(q)
    A = sp.csr_matrix(A) if A is not None else sp.csr_matrix((0, n))
    identity = sp.identity(n, format="csr")
    rows = sp.vstack([A, identity], format="csr")
    low, high = np.concatenate([l, lb]), np.concatenate([u, ub])
    equal = low == high
    top, bottom = ~equal & np.isfinite(high), ~equal & np.isfinite(low)
    G = sp.vstack([rows[equal], rows[top], -rows[bottom]], format="csc")
    h = np.concatenate([high[equal], high[top], -low[bottom]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(int(equal.sum())), clarabel.NonnegativeConeT(len(h) - equal.sum())]
    answer = clarabel.DefaultSolver(
        sp.triu(sp.csc_matrix(P), format="csc"), np.asarray(q, float), G, h, cones, settings
    ).solve()
    status = str(answer.status)
    if "Infeasible" in status and "Dual" not in status:
        return np.inf
    if "DualInfeasible" in status:
        return -np.inf
    return answer.obj_val


def brute_force(P, q, A, l, u, lb, ub, integer):
    """Minimum over all integer assignments within the bounds."""
    integer = list(integer)
    ranges = [np.arange(np.ceil(lb[j]), np.floor(ub[j]) + 1) for j in integer]
    best = np.inf
    P, q = np.asarray(P, float), np.asarray(q, float)
    for values in itertools.product(*ranges):
        low, high = np.array(lb, float), np.array(ub, float)
        low[integer] = high[integer] = values
        if len(integer) == len(q):
            x = low
            rows = A @ x if A is not None else np.zeros(0)
            if np.all(rows >= l - 1e-7) and np.all(rows <= u + 1e-7):
                best = min(best, 0.5 * x @ P @ x + q @ x)
        else:
            best = min(best, convex_minimum(P, q, A, l, u, low, high))
    return best


def random_psd(rng, n, rank):
    F = rng.normal(size=(n, rank))
    return F @ F.T


def linear_feasible(A, l, u, lb, ub):
    """Whether the linear rows and bounds can be met at all (HiGHS)."""
    answer = scipy.optimize.linprog(
        np.zeros(len(lb)), A_ub=np.vstack([A, -A]), b_ub=np.concatenate([u, -l]),
        bounds=np.column_stack([lb, ub]),
    )
    return answer.status == 0
