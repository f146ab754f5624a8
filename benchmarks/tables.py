"""Tables for people, as Markdown, and records for programs, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any


def lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Markdown."""
    return ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]


def as_csv(records: Sequence[dict[str, Any]]) -> str:
    """Records with the columns of the first."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()
