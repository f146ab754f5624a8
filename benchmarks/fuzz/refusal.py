"""Bad input: a ValueError that names what is wrong, never an answer."""

from __future__ import annotations

import numpy as np

import bnb

from .engine import EngineKind, Wrapped
from .judge import Verdict
from .watch import watched

SPOILT = {
    "miqp": ("q", "P", "A", "lb", "ub", "constant"),
    "support": ("q", "P", "A", "lb", "k"),
    "indicator": ("q", "P", "G", "b", "weights", "groups"),
}
"""Arguments to spoil; a CSVM is checked by its estimator, before there is a problem."""


class Refused(Wrapped):
    """A problem in which one argument was spoilt."""

    def __init__(self, kinds: dict[str, EngineKind]) -> None:
        super().__init__({name: kinds[name] for name in SPOILT})

    def make(self, rng: np.random.Generator) -> dict:
        data = self.draw(rng, deep=0.0)
        inner = data["inner"]
        argument = str(rng.choice([a for a in SPOILT[data["of"]] if not _missing(inner[a])]))
        inner[argument] = _spoilt(rng, argument, inner)
        return {**data, "argument": argument}

    def run(self, data: dict) -> Verdict:
        faults: list[str] = []
        with watched(faults):
            try:
                result = bnb.solve(self.kinds[data["of"]].build(data["inner"]), time_limit=5.0)
                faults.append(f"{data['argument']} is spoilt, the answer is: {result}")
            except ValueError as error:
                if data["argument"] not in str(error):
                    faults.append(f"{data['argument']} is spoilt, the error says: {error}")
        return Verdict("refused", faults)


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, np.ndarray) and value.size == 0)


def _spoilt(rng: np.random.Generator, argument: str, inner: dict) -> object:
    value = inner[argument]
    if argument == "constant":
        return float("nan")
    if argument == "k":
        return int(rng.choice([-1, len(inner["q"]) + 1]))
    if argument == "groups":
        members, _ = value[0]
        return [[[*members, len(inner["b"])], 0.0], *value[1:]]
    array = np.array(value, float)
    if argument == "P" and rng.random() < 0.5:
        return array - (1.0 + 2.0 * np.trace(array)) * np.eye(len(array))
    if argument == "lb" and rng.random() < 0.5:
        return np.asarray(inner["ub"]) + 1.0  # above ub, or infinite on the wrong side
    if argument == "weights" and rng.random() < 0.5:
        return -array - 1.0
    array[tuple(rng.integers(size) for size in array.shape)] = np.nan
    return array
