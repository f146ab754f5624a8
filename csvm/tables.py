"""Tables from CSV and Parquet files, and classifiers that know the columns they were trained on."""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import persistence
from .estimator import CSVM

_MISSING = ("", "na", "n/a", "nan", "null", "none", "?")


class TableError(ValueError):
    """A table cannot be used; the message says what to do."""


@dataclass(frozen=True)
class Table:
    """Columns of text as they were read; None where a value is missing."""

    name: str
    columns: dict[str, list[str | None]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def keep(self, rows: np.ndarray) -> Table:
        """Only the rows where the mask is true."""
        kept = {k: [v for v, r in zip(c, rows, strict=True) if r] for k, c in self.columns.items()}
        return Table(self.name, kept)

    def complete_rows(self, names: Collection[str]) -> np.ndarray:
        """Mask of the rows in which none of these columns is missing."""
        mask = np.ones(len(self), dtype=bool)
        for name in names:
            mask &= np.array([value is not None for value in self.column(name)], dtype=bool)
        return mask

    def column(self, name: str) -> list[str | None]:
        """One column."""
        if name not in self.columns:
            raise TableError(
                f"{self.name} has no column {name!r}; its columns are {_listed(self.columns)}"
            )
        return self.columns[name]

    def labels(self, name: str) -> np.ndarray:
        """The label column as text."""
        labels = self._filled("label", name)
        found = np.unique(labels)
        if len(found) != 2:
            raise TableError(
                f"the label {name!r} must have two classes, it has {len(found)}: {_listed(found)}"
            )
        return labels

    def groups(self, name: str) -> np.ndarray:
        """A column of groups as text; refuses missing values."""
        return self._filled("group", name)

    def _filled(self, kind: str, name: str) -> np.ndarray:
        values = self.column(name)
        if None in values:
            raise TableError(
                f"the {kind} {name!r} is missing in {values.count(None)} of {len(self)} rows; fill "
                "it, or leave the rows out with --drop-missing"
            )
        return np.array(values, dtype=str)

    def numbers(self, names: Collection[str]) -> np.ndarray:
        """These columns as numbers; refuses text and missing values."""
        matrix = np.empty((len(self), len(names)))
        text, missing = [], {}
        for index, name in enumerate(names):
            values = self.column(name)
            try:
                matrix[:, index] = [np.nan if v is None else float(v) for v in values]
            except ValueError:
                text.append(name)
                continue
            if None in values:
                missing[name] = values.count(None)
        if text:
            raise TableError(
                f"these columns hold text: {_listed(text)}; code them as numbers, or leave them "
                "out with --drop"
            )
        if missing:
            counts = [f"{name} ({count} of {len(self)} rows)" for name, count in missing.items()]
            raise TableError(
                f"values are missing in {_listed(counts)}; fill them, leave the columns out with "
                "--drop, or leave the rows out with --drop-missing"
            )
        if not np.isfinite(matrix).all():
            raise TableError("the table holds infinite values")
        return matrix


@dataclass(frozen=True)
class TableModel:
    """A classifier trained on standardised columns, with their mean and scale."""

    model: CSVM
    columns: list[str]
    mean: np.ndarray
    scale: np.ndarray
    label: str  # the column with the classes
    group: str | None = None  # the column with the groups, if rates of groups were asked for

    def points(self, table: Table) -> np.ndarray:
        """The standardised points of a table."""
        if len(table) == 0:
            raise TableError(f"{table.name} has no rows")
        return (table.numbers(self.columns) - self.mean) / self.scale

    def save(self, path: str | Path) -> None:
        """Write to an npz file without code."""
        persistence.save(
            self.model, path,
            table={
                "columns": self.columns, "mean": self.mean.tolist(), "scale": self.scale.tolist(),
                "label": self.label, "group": self.group,
            },
        )

    @classmethod
    def load(cls, path: str | Path) -> TableModel:
        """Read a file written by `save`."""
        model, table = persistence.load_with_table(CSVM, path)
        if table is None:
            raise TableError(f"{path} holds a model without columns: use csvm.CSVM.load")
        return cls(
            model, table["columns"], np.array(table["mean"]), np.array(table["scale"]),
            table["label"], table["group"],
        )


def read_table(path: str | Path) -> Table:
    """Read a CSV file with a header, or a Parquet file, by the ending of its name."""
    path = Path(path)
    if not path.exists():
        raise TableError(f"there is no file {path}")
    try:
        columns = _parquet(path) if path.suffix in (".parquet", ".pq") else _csv(path)
    except UnicodeDecodeError:
        raise TableError(f"{path} is no text file in UTF-8; is it really CSV?") from None
    table = Table(str(path), columns)
    if len(table) == 0:
        raise TableError(f"{path} has no rows")
    return table


def _csv(path: Path) -> dict[str, list[str | None]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows:
        raise TableError(f"{path} is empty")
    header, body = [name.strip() for name in rows[0]], rows[1:]
    if len(set(header)) != len(header):
        raise TableError(f"{path}: names of columns must be distinct, they are {_listed(header)}")
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise TableError(
                f"{path}, row {number}: {len(row)} values for {len(header)} columns (the "
                "separator must be a comma)"
            )
    cells = [[_cell(value) for value in row] for row in body]
    return {name: [row[index] for row in cells] for index, name in enumerate(header)}


def _cell(value: str) -> str | None:
    value = value.strip()
    return None if value.lower() in _MISSING else value


def _parquet(path: Path) -> dict[str, list[str | None]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise TableError("Parquet files need pyarrow: pip install 'csvm[parquet]'") from None
    try:
        table = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowInvalid as error:
        raise TableError(f"{path} is no Parquet file: {error}") from None
    return {
        name: [None if value is None else _text(value) for value in table[name].to_pylist()]
        for name in table.column_names
    }


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(int(value))
    return _cell(repr(value) if isinstance(value, float) else str(value))


def _listed(names: Collection[str] | np.ndarray) -> str:
    """A few names, and how many more there are."""
    shown = ", ".join(map(str, list(names)[:8]))
    return shown + (f", ... ({len(names)} in all)" if len(names) > 8 else "")
