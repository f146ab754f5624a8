"""Saving and restoring a search: a line of JSON and its checksum, replaced atomically, no code."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

VERSION = 4


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


def write(path: Path, fingerprint: str, data: dict[str, Any]) -> None:
    """Write a checkpoint of the problem with this fingerprint."""
    content = {"version": VERSION, "fingerprint": fingerprint, **data}
    line = json.dumps(content).encode()
    with replacing(path) as file:
        file.write(b"%b\n%b\n" % (line, _checksum(line)))


def read(path: Path, fingerprint: str) -> dict[str, Any]:
    """Read a checkpoint, and refuse one that is damaged or belongs to other data.

    An open node that is missing would be a part of the tree that nobody searches, and nothing else
    in the file would tell: hence the checksum.
    """
    try:
        line, _, rest = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise ValueError(f"resume: {path} is not a readable checkpoint ({error})") from None
    if rest != _checksum(line) + b"\n":
        raise ValueError(
            f"resume: {path} is not a whole checkpoint of version {VERSION}: its checksum does not "
            "match. It is damaged, was edited or is of another version; only a new search helps"
        )
    data = json.loads(line)
    if data["version"] != VERSION:
        raise ValueError(f"resume: {path} is a checkpoint of version {data['version']}")
    if data["fingerprint"] != fingerprint:
        raise OtherProblemError(f"resume: {path} was written for a different problem")
    return data


def _checksum(line: bytes) -> bytes:
    return hashlib.sha256(line).hexdigest().encode()
