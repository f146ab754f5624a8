"""Nothing may be printed, or warned of, by a search that was not asked to."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import bnb
import csvm
import relaxations
from csvm import AnchorWarning, ConstantClassifierWarning

DOCUMENTED = (AnchorWarning, ConstantClassifierWarning)
PACKAGES = (bnb, csvm, relaxations)


@contextlib.contextmanager
def watched(faults: list[str]) -> Iterator[None]:
    """Whatever comes out, by Python or by a library in C, becomes a fault."""
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        with warnings.catch_warnings(record=True) as caught, _redirected(file):
            warnings.simplefilter("always")
            for category in DOCUMENTED:
                warnings.simplefilter("ignore", category)
            yield
        file.seek(0)
        text = file.read().strip()
    if text:
        faults.append(f"printed: {text[:300]!r}")
    warned = [f"warned at {w.filename}:{w.lineno}: {w.message}" for w in caught if _ours(w)]
    faults += dict.fromkeys(warned)


def _ours(warning: warnings.WarningMessage) -> bool:
    """What other packages warn their users of is not for us to judge."""
    return any(str(Path(package.__file__).parent) in warning.filename for package in PACKAGES)


@contextlib.contextmanager
def _redirected(file: object) -> Iterator[None]:
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    try:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
            yield
        file.flush()
    finally:
        for number, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, number)
            os.close(copy)
