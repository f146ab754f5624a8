"""Saving and restoring a search: one JSON file, replaced atomically, no code in it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .queue import Node

VERSION = 2


class CheckpointWarning(UserWarning):
    """The search could not be saved; it goes on."""


class OtherProblemError(ValueError):
    """A checkpoint was written for a different problem."""


def encode_float(value: float) -> float | str:
    """JSON has no infinities."""
    return float(value) if np.isfinite(value) else str(float(value))


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write next to `path` and move into place: a killed writer leaves the old file whole.

    What it was writing stays behind under a fixed name, for the next one to write over.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read(path: Path, fingerprint: str) -> Saved:
    """Read a checkpoint and refuse one that is damaged or belongs to other data."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"resume: {path} is not a readable checkpoint ({error})") from None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise ValueError(f"resume: {path} is not a checkpoint of version {VERSION}")
    if data.get("fingerprint") != fingerprint:
        raise OtherProblemError(f"resume: {path} was written for a different problem")
    return Saved(path, data)


class Saved:
    """The content of a checkpoint; everything that comes out of it has been checked."""

    def __init__(self, path: Path, data: dict[str, Any]) -> None:
        self._path, self._data = path, data

    def damaged(self, what: str) -> ValueError:
        """The error to raise when something cannot be right."""
        return ValueError(f"resume: the checkpoint {self._path} is damaged: {what}")

    def _part(self, name: str) -> Any:
        if name not in self._data:
            raise self.damaged(f"{name!r} is missing")
        return self._data[name]

    def _list(self, name: str, value: Any, length: int | None = None) -> list[Any]:
        if not isinstance(value, list) or length not in (None, len(value)):
            size = "" if length is None else f" of length {length}"
            raise self.damaged(f"{name} must be a list{size}, it is {_short(value)}")
        return value

    def _whole(self, name: str, value: Any, least: int = 0) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**53:
            raise self.damaged(f"{name} must be an integer >= {least}, it is {_short(value)}")
        return value

    def _real(self, name: str, value: Any, least: float = -math.inf) -> float:
        known = value in ("inf", "-inf") if isinstance(value, str) else isinstance(
            value, (int, float)
        )
        try:
            number = float(value) if known and not isinstance(value, bool) else math.nan
        except OverflowError:
            number = math.nan
        if not number >= least:
            raise self.damaged(f"{name} must be a number, it is {_short(value)}")
        return number

    def count(self, name: str) -> int:
        """A counter."""
        return self._whole(name, self._part(name))

    def number(self, name: str, least: float = -math.inf) -> float:
        """A number that may be infinite but is not NaN."""
        return self._real(name, self._part(name), least)

    def seconds(self, name: str) -> float:
        """A finite time."""
        value = self.number(name, 0.0)
        if value == math.inf:
            raise self.damaged(f"{name} is infinite")
        return value

    def work(self) -> dict[str, int]:
        """Counters of the work inside nodes."""
        counters = self._part("work")
        if not isinstance(counters, dict):
            raise self.damaged(f"work must hold counters, it is {_short(counters)}")
        return {name: self._whole(f"work[{name!r}]", value) for name, value in counters.items()}

    def notes(self, recall: Callable[[Any], None]) -> None:
        """Hand the problem its notes."""
        try:
            recall(self._part("notes"))
        except (KeyError, TypeError, ValueError) as error:
            raise self.damaged(f"the notes of the problem: {error or error!r}") from None

    def solution(self) -> np.ndarray | None:
        """The incumbent, in the problem's own terms."""
        values = self._part("x")
        if values is None:
            return None
        x = np.array([self._real("x", value) for value in self._list("x", values)])
        if not np.all(np.isfinite(x)):
            raise self.damaged("x must be finite")
        return x

    def pseudocosts(self) -> list[list[float]]:
        """Rows of (key, side, total gain, observations)."""
        rows = self._list("pseudocosts", self._part("pseudocosts"))
        for row in rows:
            key, side, total, count = self._list("a row of pseudocosts", row, 4)
            self._whole("a key of pseudocosts", key)
            self._whole("a side of pseudocosts", side)
            self._whole("a count of pseudocosts", count, 1)
            if self._real("a sum of pseudocosts", total, 0.0) == math.inf:
                raise self.damaged("a sum of pseudocosts is infinite")
        return rows

    def open_nodes(self, decode: Callable[[Any], Any]) -> Iterator[Node]:
        """The open nodes, their states decoded by the problem."""
        seen: set[int] = set()
        created = self.count("created")
        for place, row in enumerate(self._list("open", self._part("open"))):
            name = f"open[{place}]"
            state, bound, depth, number, parent, weight = self._list(name, row, 6)
            if self._whole(f"the number of {name}", number) > created or number in seen:
                raise self.damaged(f"the number {number} of {name} cannot be")
            seen.add(number)
            share = self._real(f"the weight of {name}", weight, 0.0)
            if share > 1.0:
                raise self.damaged(f"the weight of {name} must be at most 1, it is {share:g}")
            try:
                decoded = decode(state)
            except Exception as error:  # whatever a state that was tampered with leads to
                raise self.damaged(f"the state of {name}: {error or error!r}") from None
            yield Node(
                decoded, self._real(f"the bound of {name}", bound),
                self._whole(f"the depth of {name}", depth), number,
                self._whole(f"the parent of {name}", parent, -1), share,
            )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
