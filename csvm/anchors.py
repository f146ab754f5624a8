"""Splitting the data into training points I and anchors J."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.utils import check_random_state

__all__ = ["Anchors", "split_anchors"]

Anchors = float | str | np.ndarray | Sequence[int] | Sequence[bool]


def split_anchors(
    anchors: Anchors, y: np.ndarray, *, X: np.ndarray | None = None,
    weights: np.ndarray | None = None, about: np.ndarray | None = None,
    strata: np.ndarray | None = None, always: np.ndarray | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the training points I and of the anchors J.

    Parameters
    ----------
    anchors : float, "second-half", positions or mask
        A fraction in (0, 1) of each class, drawn at random from the points that rates are about;
        the second half of the points as they come; or the anchors themselves.
    y : ndarray (n,)
        Labels, +1 or -1.
    X : ndarray (n, d), optional
        The points. Equal points of a class, and group, are drawn together, so that a point given
        twice and a point of weight two mean the same, and no anchor was also trained on.
    weights : ndarray (n,), optional
        How many points each one stands for; points of weight 0 are in neither set.
    about : ndarray of bool (n,), optional
        The points that a fraction is drawn from; all others train. All points by default.
    strata : ndarray (n,), optional
        Groups; the fraction is then drawn of each class in each group.
    always : ndarray of bool (n,), optional
        Points that are anchors in any case.
    random_state : int, RandomState or None

    Returns
    -------
    training, anchors : ndarray of int
        Sorted positions.
    """
    weights = np.ones(len(y)) if weights is None else weights
    if isinstance(anchors, str):
        if anchors != "second-half":
            raise ValueError(
                "anchors must be a fraction, 'second-half', positions or a mask, got "
                f"{anchors!r}"
            )
        chosen = np.arange(len(y)) >= len(y) // 2
    elif np.ndim(anchors) == 0:
        from_these = weights > 0 if about is None else about & (weights > 0)
        chosen = _draw(anchors, y, X, weights, from_these, strata, random_state)
    else:
        chosen = _given(anchors, len(y))
    if always is not None:
        chosen |= always
    training = np.flatnonzero(~chosen & (weights > 0))
    anchor_set = np.flatnonzero(chosen & (weights > 0))
    _check(y, training, anchor_set)
    return training, anchor_set


def _draw(
    fraction: object, y: np.ndarray, X: np.ndarray | None, weights: np.ndarray,
    from_these: np.ndarray, strata: np.ndarray | None,
    random_state: int | np.random.RandomState | None,
) -> np.ndarray:
    """Mask of a stratified random part, to the nearest point."""
    if isinstance(fraction, (bool, np.bool_)) or not isinstance(fraction, (int, float, np.number)):
        raise TypeError(f"anchors must be a fraction, text, positions or a mask, got {fraction!r}")
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"as a fraction, anchors must be in (0, 1), got {fraction!r}")
    random, chosen = check_random_state(random_state), np.zeros(len(y), dtype=bool)
    _, stratum = np.unique(np.zeros(len(y)) if strata is None else strata, return_inverse=True)
    cells = 2 * stratum + (y > 0)  # the classes of the first group, of the second, and so on
    for cell in np.unique(cells[from_these]):
        members = np.flatnonzero((cells == cell) & from_these)
        group = np.arange(members.size)
        if X is not None:
            _, group = np.unique(X[members], axis=0, return_inverse=True)
        sizes = np.bincount(group.ravel(), weights[members])
        order = random.permutation(sizes.size)
        middle = np.cumsum(sizes[order]) - 0.5 * sizes[order]
        taken = order[middle < float(fraction) * sizes.sum()]
        # Both sets need the class wherever two different points of it exist.
        taken = taken[: sizes.size - 1] if taken.size else order[: min(1, sizes.size - 1)]
        chosen[members[np.isin(group.ravel(), taken)]] = True
    return chosen


def _given(anchors: object, n: int) -> np.ndarray:
    """Mask from a mask or from positions."""
    array = np.asarray(anchors)
    if array.ndim != 1:
        raise ValueError(f"anchors must be one-dimensional, got shape {array.shape}")
    if array.dtype == bool:
        if len(array) != n:
            raise ValueError(f"the mask of anchors has length {len(array)}, the data {n} points")
        return array.copy()
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError("anchors must be integer positions or a boolean mask")
    if array.size and (array.min() < 0 or array.max() >= n):
        raise ValueError(f"positions of anchors must be in 0..{n - 1}")
    if np.unique(array).size != array.size:
        raise ValueError("positions of anchors must be distinct")
    mask = np.zeros(n, dtype=bool)
    mask[array.astype(int)] = True
    return mask


def _check(y: np.ndarray, training: np.ndarray, anchors: np.ndarray) -> None:
    for label, kind in ((1, "positive"), (-1, "negative")):
        if not np.any(y[training] == label):
            raise ValueError(
                f"no training points of the {kind} class are left beside the {anchors.size} "
                "anchors: both classes are needed to train"
            )
