"""Who belongs to which group: text, one name for every point."""

from __future__ import annotations

from typing import Any

import numpy as np


def take_groups(X: Any, sensitive_features: Any) -> tuple[Any, Any, str | None]:
    """Points, groups and the column that held them, from what a user writes.

    A named column is taken out of X: nobody needs it to predict.
    """
    if not isinstance(sensitive_features, str):
        return X, sensitive_features, None
    columns = getattr(X, "columns", None)
    if columns is None:
        raise ValueError(
            f"sensitive_features={sensitive_features!r} names a column, but X is no DataFrame: "
            "give the groups themselves"
        )
    if sensitive_features not in columns:
        raise ValueError(
            f"sensitive_features={sensitive_features!r} is no column of X; its columns are "
            f"{', '.join(map(str, columns[:20]))}"
        )
    groups = X[sensitive_features]
    return without_groups(X, sensitive_features), groups, sensitive_features


def without_groups(X: Any, column: str | None) -> Any:
    """X without that column, if it has it."""
    columns = getattr(X, "columns", None)
    if column is None or columns is None or column not in columns:
        return X
    return X[[name for name in columns if name != column]]


def group_names(groups: Any, n: int) -> np.ndarray:
    """The groups of n points as text; refuses missing ones."""
    array = np.asarray(groups)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (n,):
        raise ValueError(
            f"sensitive_features must hold one group for each of the {n} points, got shape "
            f"{array.shape}"
        )
    missing = sum(map(is_missing, array.tolist()))
    if missing:
        raise ValueError(f"sensitive_features: the group of {missing} points is missing")
    return array.astype(str)


def is_missing(value: Any) -> bool:
    """None, NaN, and what pandas has in their place, which cannot even be compared."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True
