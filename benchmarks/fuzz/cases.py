"""Making, storing and running single problems."""

from __future__ import annotations

import json
import traceback
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .classifiers import Classifier, Estimator
from .engine import EngineKind, Kind
from .indicator import Indicator
from .judge import Verdict
from .miqp import MixedInteger
from .models import Norms
from .refusal import Refused
from .repeat import Repeated
from .resume import Killed, Resumed
from .support import Support

ENGINE: dict[str, EngineKind] = {
    "miqp": MixedInteger(),
    "support": Support(),
    "indicator": Indicator(),
    "csvm": Classifier(),
}
KINDS: dict[str, Kind] = {
    **ENGINE,
    "estimator": Estimator(),
    "cvxpy": Norms(),
    "refusal": Refused(ENGINE),
    "repeat": Repeated(ENGINE),
    "resume": Resumed(ENGINE),
    "kill": Killed(ENGINE),
}


@dataclass(frozen=True)
class Case:
    """A problem with all its numbers."""

    kind: str
    name: str
    data: dict

    def save(self, folder: Path, faults: list[str]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.kind}-{self.name}.json"
        path.write_text(json.dumps(
            {"kind": self.kind, "name": self.name, "faults": faults, "data": self.data}, indent=1
        ))
        return path

    @classmethod
    def load(cls, path: Path) -> Case:
        stored = json.loads(path.read_text())
        return cls(stored["kind"], stored["name"], stored["data"])

    def run(self) -> Verdict:
        """The verdict; an exception is a fault like any other."""
        try:
            return KINDS[self.kind].run(self.data)
        except Exception:
            return Verdict("raised", [traceback.format_exc(limit=-4)])


def make_case(kind: str, seed: int, index: int) -> Case:
    """Problem number `index` of a kind: depends on these three alone."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode()), index])
    data = json.loads(json.dumps(KINDS[kind].make(rng), default=_plain))
    return Case(kind, f"{seed}-{index}", data)


def _plain(value: object) -> object:
    """Arrays and numpy's numbers as JSON."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"{type(value)} cannot be stored")
