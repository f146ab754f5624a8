"""Recognise switched variables, cardinality rows and diagonal matrices in a mixed-binary QP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from relaxations import Pairs


@dataclass(frozen=True)
class Structure:
    """What was found in the rows.

    `pairs` has zero weights d; `rows` are the positions of the rows that are not implied by the
    pairs.
    """

    pairs: Pairs
    rows: np.ndarray


def find_structure(
    A: sp.csr_matrix, l: np.ndarray, u: np.ndarray, lb: np.ndarray, ub: np.ndarray,  # noqa: E741
    binary: np.ndarray, integer: np.ndarray,
) -> Structure:
    """Find rows x ≤ high·z and x ≥ low·z with z binary, x continuous, in whatever scaling.

    A variable is switched if both ends of its interval become zero with z: an end that is zero by
    itself (lb = 0) counts. Bounds that hold anyway tighten the coefficients: with x ≤ ub and
    x ≤ M·z, x ≤ min(ub, M)·z holds for binary z.
    """
    upper: dict[int, dict[int, float]] = {}
    lower: dict[int, dict[int, float]] = {}
    for x, z, high, low in _links(A, l, u, binary):
        if np.isfinite(high):
            known = upper.setdefault(x, {})
            known[z] = min(high, known.get(z, np.inf))
        if np.isfinite(low):
            known = lower.setdefault(x, {})
            known[z] = max(low, known.get(z, -np.inf))
    chosen: dict[int, tuple[int, float, float]] = {}
    for x in sorted(set(upper) | set(lower)):
        for z in sorted(set(upper.get(x, {})) | set(lower.get(x, {}))):
            high = upper.get(x, {}).get(z, 0.0 if ub[x] == 0.0 else np.nan)
            low = lower.get(x, {}).get(z, 0.0 if lb[x] == 0.0 else np.nan)
            if np.isnan(high) or np.isnan(low) or integer[x]:
                continue
            chosen[x] = (z, max(low, lb[x]) if low else low, min(high, ub[x]))
            break
    # A switched variable whose interval is empty when on is left to the rows.
    pairs = [(x, *rest) for x, rest in chosen.items() if rest[1] <= rest[2]]
    if not pairs:
        return Structure(Pairs.none(), np.arange(A.shape[0]))
    on, switch, least, most = (np.array(column) for column in zip(*pairs, strict=True))
    implied = _implied_rows(A, l, u, {x: rest for x, *rest in pairs})
    return Structure(
        Pairs(on, switch, least, most, np.zeros(len(pairs))), np.flatnonzero(~implied)
    )


def _two_entry_rows(A: sp.csr_matrix) -> Iterator[tuple[int, int, int, float, float]]:
    """(i, x, z, a, b) for every row i that reads a·x + b·z, both ways round."""
    for i in np.flatnonzero(np.diff(A.indptr) == 2):
        j, k = A.indices[A.indptr[i] : A.indptr[i + 1]].tolist()
        a, b = A.data[A.indptr[i] : A.indptr[i + 1]].tolist()
        yield int(i), j, k, a, b
        yield int(i), k, j, b, a


def _links(
    A: sp.csr_matrix, l: np.ndarray, u: np.ndarray, binary: np.ndarray  # noqa: E741
) -> Iterator[tuple[int, int, float, float]]:
    """(x, z, high, low) for every row that reads x ≤ high·z or x ≥ low·z."""
    for i, x, z, a, b in _two_entry_rows(A):
        if not binary[z] or binary[x] or a == 0.0:
            continue
        ratio = -b / a
        high = ratio if (u[i] == 0.0 and a > 0) or (l[i] == 0.0 and a < 0) else np.inf
        low = ratio if (l[i] == 0.0 and a > 0) or (u[i] == 0.0 and a < 0) else -np.inf
        if np.isfinite(high) or np.isfinite(low):
            yield x, z, high, low


def _implied_rows(
    A: sp.csr_matrix, l: np.ndarray, u: np.ndarray, pairs: dict[int, list[float]],  # noqa: E741
) -> np.ndarray:
    """Rows that say no more than low·z ≤ x ≤ high·z of a pair."""
    implied = np.zeros(A.shape[0], dtype=bool)
    for i, x, z, a, b in _two_entry_rows(A):
        if x in pairs and pairs[x][0] == z:
            _, low, high = pairs[x]
            top = max(a * low, a * high) + b
            bottom = min(a * low, a * high) + b
            implied[i] = bool(
                (u[i] == np.inf or (u[i] == 0.0 and top <= 1e-12))
                and (l[i] == -np.inf or (l[i] == 0.0 and bottom >= -1e-12))
            )
    return implied


def cardinality(
    A: sp.csr_matrix, l: np.ndarray, u: np.ndarray, switches: np.ndarray  # noqa: E741
) -> tuple[float, float]:
    """Bounds on the sum of all switches, from rows with equal coefficients on exactly them."""
    least, most = -np.inf, np.inf
    wanted = set(switches.tolist())
    for i in range(A.shape[0]):
        first, last = A.indptr[i], A.indptr[i + 1]
        values = A.data[first:last]
        if not wanted or set(A.indices[first:last].tolist()) != wanted:
            continue
        if np.ptp(values) > 0.0 or values[0] == 0.0:
            continue
        ends = sorted((l[i] / values[0], u[i] / values[0]))
        least, most = max(least, ends[0]), min(most, ends[1])
    return least, most


def round_rows(
    A: sp.csr_matrix, l: np.ndarray, u: np.ndarray, integer: np.ndarray  # noqa: E741
) -> tuple[np.ndarray, np.ndarray]:
    """Row bounds moved to values that rows of integers with whole coefficients can take.

    2x − 2y = 1 becomes empty (l > u); without bounds on x and y no branching would show that.
    """
    l, u = l.copy(), u.copy()  # noqa: E741
    mixed = sp.csr_matrix((A.data != 0.0, A.indices, A.indptr), A.shape) @ ~integer
    for i in np.flatnonzero(~mixed):
        values = A.data[A.indptr[i] : A.indptr[i + 1]]
        whole = np.abs(values) < 2.0**31
        if not np.all(whole & (values == np.round(values))):
            continue
        step = float(np.gcd.reduce(values.astype(np.int64), initial=0)) or 1.0
        # What `MIQP.check` lets pass must stay.
        slack = 1e-6 * np.maximum(1.0, np.abs([l[i], u[i]])) / step
        if np.isfinite(l[i]) and slack[0] < 0.1:
            l[i] = step * np.ceil(l[i] / step - slack[0])
        if np.isfinite(u[i]) and slack[1] < 0.1:
            u[i] = step * np.floor(u[i] / step + slack[1])
    return l, u


def tighten_coefficients(
    A: sp.csr_matrix, l: np.ndarray, u: np.ndarray, lb: np.ndarray, ub: np.ndarray,  # noqa: E741
    binary: np.ndarray,
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Shrink big-M coefficients of binaries in one-sided rows; returns new A and u.

    In a row aᵀx + Mz ≤ u that cannot bind at one value of z, M and u can be moved together until
    it just cannot: the integer points stay the same, the relaxation shrinks. Rows must be
    written with l = −inf; others are left alone.
    """
    A, u = A.copy(), u.copy()
    for i in np.flatnonzero(np.isneginf(l) & np.isfinite(u)):
        first, last = A.indptr[i], A.indptr[i + 1]
        columns, values = A.indices[first:last], A.data[first:last]  # views: A changes with them
        top = np.where(values > 0, values * ub[columns], values * lb[columns])
        if not np.isfinite(top).all():
            continue
        total = top.sum()
        for k in np.flatnonzero(binary[columns] & (lb[columns] == 0) & (ub[columns] == 1)):
            a = values[k]
            rest = total - max(a, 0.0)
            slack = 1e-9 * (1.0 + abs(total))
            if a > 0 and rest < u[i] - slack and total > u[i]:
                # at z = 0 the row is loose: move u down to `rest`, M with it
                step = u[i] - rest
                values[k], u[i], total = a - step, rest, total - step
            elif a < 0 and rest + a < u[i] - slack and rest > u[i]:
                # at z = 1 the row is loose: shrink |M|
                values[k] = u[i] - rest
    return A, u
