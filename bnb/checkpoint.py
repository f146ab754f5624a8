"""Saving and restoring a search: one JSON file, replaced atomically, no code in it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

VERSION = 1


def encode_float(value: float) -> float | str:
    """JSON has no infinities."""
    return float(value) if np.isfinite(value) else str(float(value))


def write_atomically(path: Path, data: dict[str, Any]) -> None:
    """Write next to `path` and move into place: a killed writer leaves the old file whole."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path, fingerprint: str) -> dict[str, Any]:
    """Read a checkpoint and refuse one that is damaged or belongs to other data."""
    try:
        data = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"resume: {path} is not a readable checkpoint ({error})") from error
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise ValueError(f"resume: {path} is not a checkpoint of version {VERSION}")
    if data.get("fingerprint") != fingerprint:
        raise ValueError(f"resume: {path} was written for a different problem")
    return data
