"""The six data sets of the paper (its table 2): unscaled, labels +1 and -1."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import fetch_openml, load_breast_cancer

__all__ = ["NAMES", "Dataset", "DatasetError", "load"]


class DatasetError(RuntimeError):
    """A data set cannot be had, or is not what it should be."""


@dataclass(frozen=True)
class Dataset:
    """Points and labels; unpacks as ``X, y = load(name)``.

    Parameters
    ----------
    name : str
    X : ndarray (n, d)
    y : ndarray (n,)
        +1 for the paper's positive class, -1 for the other.
    features : list of str
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    features: list[str]

    def __iter__(self) -> Iterator[np.ndarray]:
        yield self.X
        yield self.y


@dataclass(frozen=True)
class _Source:
    """Where a set is on OpenML, how it is coded there, and what it must look like.

    The shape is (rows, columns, positives); OpenML's differs for pageBlocks, where the paper used
    KEEL's copy, which lacks one point.
    """

    openml: int
    shape: tuple[int, int, int]
    code: Callable[[Any], tuple[np.ndarray, list[str]]]
    positive: Callable[[np.ndarray], np.ndarray]
    openml_shape: tuple[int, int, int] | None = None


def load(name: str) -> Dataset:
    """Load a data set of the paper.

    It is read from ``<name>.csv`` in the directory that the environment variable CSVM_DATA names
    (last column ``label``, 1 or -1) if that file exists, else from scikit-learn (wisconsin), else
    downloaded from OpenML, once: scikit-learn keeps a copy.

    Parameters
    ----------
    name : {"australian", "votes", "wisconsin", "german", "pageBlocks", "biodeg"}

    Returns
    -------
    Dataset
    """
    if name not in _SOURCES:
        raise ValueError(f"unknown data set {name!r}, known are {', '.join(NAMES)}")
    source = _SOURCES[name]
    directory = os.environ.get("CSVM_DATA")
    path = Path(directory) / f"{name}.csv" if directory else None
    if path is not None and path.exists():
        return _checked(_read_csv(name, path), source.shape, str(path))
    if name == "wisconsin":
        return _checked(_from_scikit_learn(), source.shape, "scikit-learn")
    shape = source.openml_shape or source.shape
    return _checked(_from_openml(name, source), shape, f"OpenML {source.openml}")


def _checked(data: Dataset, shape: tuple[int, int, int], where: str) -> Dataset:
    found = (*data.X.shape, int((data.y > 0).sum()))
    if found != shape or not np.isin(data.y, (-1, 1)).all() or not np.isfinite(data.X).all():
        raise DatasetError(
            f"{data.name} from {where} is not the paper's set: (rows, columns, positives) are "
            f"{found}, expected {shape}, with labels 1 and -1 and no missing values"
        )
    return data


def _read_csv(name: str, path: Path) -> Dataset:
    with path.open(newline="") as file:
        header, *rows = list(csv.reader(file))
    if header[-1] != "label":
        raise DatasetError(f"the last column of {path} must be 'label', it is {header[-1]!r}")
    try:
        table = np.array([row for row in rows if row], dtype=float)
    except ValueError as error:
        raise DatasetError(f"{path} must hold numbers only: {error}") from None
    return Dataset(name, table[:, :-1], table[:, -1].astype(int), header[:-1])


def _from_scikit_learn() -> Dataset:
    bunch = load_breast_cancer()
    malignant = list(bunch.target_names).index("malignant")
    y = np.where(bunch.target == malignant, 1, -1)
    return Dataset("wisconsin", bunch.data, y, [str(f) for f in bunch.feature_names])


def _from_openml(name: str, source: _Source) -> Dataset:
    try:
        bunch = fetch_openml(data_id=source.openml, as_frame=False, parser="liac-arff")
    except OSError as error:  # urllib's errors are OSErrors
        raise DatasetError(
            f"{name} is not on this computer and OpenML cannot be reached ({error}); connect, or "
            f"set CSVM_DATA to a directory that holds {name}.csv with a last column 'label' "
            "(1 or -1)"
        ) from error
    X, features = source.code(bunch)
    y = np.where(source.positive(np.asarray(bunch.target).astype(str)), 1, -1)
    return Dataset(name, X, y, features)


def _columns(bunch: Any) -> Iterator[tuple[str, np.ndarray, Any]]:
    """Names, numbers and, where these are positions of levels, the levels."""
    table = np.asarray(bunch.data, dtype=float)
    for name, column in zip(bunch.feature_names, table.T, strict=True):
        yield name, column, (bunch.categories or {}).get(name)


def _as_numbers(bunch: Any) -> tuple[np.ndarray, list[str]]:
    """Columns as they are, where OpenML stores categories as numbers the numbers."""
    columns = [
        column if levels is None else np.array(levels, dtype=float)[column.astype(int)]
        for _, column, levels in _columns(bunch)
    ]
    return np.column_stack(columns), list(bunch.feature_names)


def _votes(bunch: Any) -> tuple[np.ndarray, list[str]]:
    """Yes is 1, no is -1, no answer is 0."""
    value = {"y": 1.0, "n": -1.0}
    columns = [
        [0.0 if np.isnan(code) else value[str(levels[int(code)])] for code in column]
        for _, column, levels in _columns(bunch)
    ]
    return np.column_stack(columns), list(bunch.feature_names)


# Levels of credit-g in the order of the original codes (A11, A12, ...).  Ordered ones become
# 1, 2, ..., unordered ones a column per level that occurs, which gives the paper's 45 columns.
_ORDERED = {
    "checking_status": ["<0", "0<=X<200", ">=200", "no checking"],
    "savings_status": ["<100", "100<=X<500", "500<=X<1000", ">=1000", "no known savings"],
    "employment": ["unemployed", "<1", "1<=X<4", "4<=X<7", ">=7"],
    "job": [
        "unemp/unskilled non res", "unskilled resident", "skilled", "high qualif/self emp/mgmt"
    ],
}
_UNORDERED = {
    "credit_history": [
        "no credits/all paid", "all paid", "existing paid", "delayed previously",
        "critical/other existing credit",
    ],
    "purpose": [
        "new car", "used car", "furniture/equipment", "radio/tv", "domestic appliance", "repairs",
        "education", "retraining", "business", "other",
    ],
    "personal_status": ["male div/sep", "female div/dep/mar", "male single", "male mar/wid"],
    "other_parties": ["none", "co applicant", "guarantor"],
    "property_magnitude": ["real estate", "life insurance", "car", "no known property"],
    "other_payment_plans": ["bank", "stores", "none"],
    "housing": ["rent", "own", "for free"],
}


def _german(bunch: Any) -> tuple[np.ndarray, list[str]]:
    columns: list[np.ndarray] = []
    features: list[str] = []
    for name, codes, levels in _columns(bunch):
        if levels is None:
            columns.append(codes)
            features.append(name)
            continue
        text = np.asarray(levels).astype(str)[codes.astype(int)]
        known = _ORDERED.get(name) or _UNORDERED.get(name) or ["none", "yes", "no"]
        for level in np.setdiff1d(text, known):
            raise DatasetError(f"unknown level {str(level)!r} of {name}: the coding has changed")
        if name in _ORDERED:
            columns.append(1.0 + np.array([_ORDERED[name].index(level) for level in text]))
            features.append(name)
        elif name in _UNORDERED:
            columns += [(text == level).astype(float) for level in _UNORDERED[name]]
            features += [f"{name}={level}" for level in _UNORDERED[name]]
        else:  # own_telephone, foreign_worker
            columns.append((text == "yes").astype(float))
            features.append(name)
    return np.column_stack(columns), features


def _rarer(labels: np.ndarray) -> np.ndarray:
    values, counts = np.unique(labels, return_counts=True)
    return labels == values[np.argmin(counts)]


_SOURCES = {
    "australian": _Source(40981, (690, 14, 307), _as_numbers, _rarer),
    "votes": _Source(56, (435, 16, 267), _votes, lambda labels: labels == "democrat"),
    "wisconsin": _Source(1510, (569, 30, 212), _as_numbers, _rarer),
    "german": _Source(31, (1000, 45, 300), _german, lambda labels: labels == "bad"),
    "pageBlocks": _Source(
        30, (5472, 10, 559), _as_numbers, lambda labels: labels != "1", (5473, 10, 560)
    ),
    "biodeg": _Source(1494, (1055, 41, 356), _as_numbers, _rarer),
}

NAMES = tuple(_SOURCES)
