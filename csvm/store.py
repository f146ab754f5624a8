"""Finished work on disk: one JSON line per record, appended, never changed."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO


class StoreError(RuntimeError):
    """The file of records cannot be used."""


def _lock(file: BinaryIO) -> None:
    """Take the file for this process; the system lets go of it when the process ends."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(2**31 - 2)  # a byte that nobody reads: such locks keep readers out
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Store:
    """Records by key, in memory and in a file that survives a kill at any moment.

    A record is on disk when `add` returns. A line that a kill cut short is dropped at the next
    start. One process at a time may hold a store. Without a path nothing outlives the process.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = path
        self._file: Any = (  # closed by `close`
            tempfile.TemporaryFile() if path is None else open(path, "a+b")  # noqa: SIM115
        )
        try:
            _lock(self._file)
        except (BlockingIOError, PermissionError):
            self._file.close()
            raise StoreError(f"{self.path} is in use by another run") from None
        self._records: dict[str, dict[str, Any]] = {}
        self._read()

    def _read(self) -> None:
        self._file.seek(0)
        whole = 0
        for number, line in enumerate(self._file, start=1):
            if not line.endswith(b"\n"):
                break  # cut short by a kill; what follows is written over it
            try:
                record = json.loads(line)
                self._records[record["key"]] = record["result"]
            except (ValueError, KeyError, TypeError):
                raise StoreError(
                    f"{self.path}, line {number} is no record: the file was changed; move it "
                    "away, or delete that line"
                ) from None
            whole += len(line)
        self._file.truncate(whole)

    def add(self, key: str, description: dict[str, Any], result: dict[str, Any]) -> None:
        """Keep a result, which is JSON data; the description is for readers of the file."""
        line = json.dumps({"key": key, "task": description, "result": result}) + "\n"
        self._file.write(line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._records[key] = result

    def __contains__(self, key: str) -> bool:
        return key in self._records

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._records[key]

    def values(self) -> Iterator[dict[str, Any]]:
        """All results, in the order in which they came."""
        return iter(self._records.values())

    def __len__(self) -> int:
        return len(self._records)

    def close(self) -> None:
        """Let another run have the file."""
        self._file.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
