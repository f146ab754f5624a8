"""Searches that are stopped, or killed, and go on from their checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import bnb

from .engine import EngineKind, Wrapped
from .judge import Truth, Verdict
from .watch import watched


class Resumed(Wrapped):
    """Stopped by nodes, by time or by a callback at a random moment, maybe more than once."""

    def make(self, rng: np.random.Generator) -> dict:
        data = self.draw(rng, 0.7)
        stops = np.cumsum(rng.integers(1, 6, int(rng.integers(1, 4))))
        return {
            **data, "how": str(rng.choice(["nodes", "time", "callback"])), "stops": stops,
            "seconds": float(rng.choice([0.001, 0.01, 0.03])),
            "other": self.kinds[data["of"]].make(rng),
        }

    def run(self, data: dict) -> Verdict:
        kind, inner = self.kinds[data["of"]], data["inner"]
        truth, faults = kind.truth(inner), []
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "search.json"
            with watched(faults):
                whole = bnb.solve(kind.build(inner), **inner["options"])
                for stop in data["stops"]:
                    part = bnb.solve(
                        kind.build(inner), checkpoint=file, resume=True,
                        **{**inner["options"], **_stop(data["how"], stop, data["seconds"])},
                    )
                    faults += _named("stopped", kind.judge(inner, part, truth))
            faults += self._refusals(kind, data, file)
            with watched(faults):
                rest = bnb.solve(
                    kind.build(inner), checkpoint=file, resume=True, **inner["options"]
                )
        return _compare(kind, inner, truth, whole, rest, faults)

    def _refusals(self, kind: EngineKind, data: dict, file: Path) -> list[str]:
        """A checkpoint of another problem must be refused."""
        if not file.exists():
            return []
        copy = file.with_name("copy.json")
        copy.write_bytes(file.read_bytes())  # one that is taken would be overwritten
        try:
            bnb.solve(kind.build(data["other"]), checkpoint=copy, resume=True, node_limit=1)
        except ValueError as error:
            return [] if "different problem" in str(error) else [f"refused with: {error}"]
        return ["a checkpoint of another problem was taken"]


class Killed(Wrapped):
    """kill -9 of a process that solves with a checkpoint, then resume here."""

    def make(self, rng: np.random.Generator) -> dict:
        return {**self.draw(rng, deep=1.0), "delay": float(rng.choice([0.0, 0.01, 0.05, 0.2]))}

    def run(self, data: dict) -> Verdict:
        kind, inner, faults = self.kinds[data["of"]], data["inner"], []
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "search.json"
            with _child(data, Path(folder)) as child:
                while not file.exists() and child.poll() is None:
                    time.sleep(0.005)
                time.sleep(data["delay"])
                if child.poll():
                    faults.append(f"the process that was to be killed ended with {child.poll()}")
            with watched(faults):
                whole = bnb.solve(kind.build(inner), **inner["options"])
                rest = bnb.solve(
                    kind.build(inner), checkpoint=file, resume=True, **inner["options"]
                )
        return _compare(kind, inner, kind.truth(inner), whole, rest, faults)


@contextmanager
def _child(data: dict, folder: Path) -> Iterator[subprocess.Popen]:
    """A process that solves the problem slowly."""
    case = folder / "case.json"
    case.write_text(json.dumps(data))
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.fuzz.resume", str(case), str(folder / "search.json")],
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def solve_slowly(case: Path, checkpoint: Path) -> None:
    """What the child does: a checkpoint at every node."""
    from .cases import KINDS

    data = json.loads(case.read_text())
    kind = KINDS[data["of"]]
    options = {**data["inner"]["options"], "time_limit": 60.0}
    bnb.solve(
        kind.build(data["inner"]), checkpoint=checkpoint, checkpoint_interval=1e-9,
        on_node=lambda _: time.sleep(0.01), **options,
    )


def _compare(
    kind: EngineKind, inner: dict, truth: Truth, whole: bnb.Result, rest: bnb.Result,
    faults: list[str],
) -> Verdict:
    """Both are judged, and what both claim must be the same; to give up is no claim."""
    first, second = kind.judge(inner, whole, truth), kind.judge(inner, rest, truth)
    faults += _named("whole", first) + _named("resumed", second)
    words = {first.outcome, second.outcome}
    apart = words == {"optimal"} and abs(whole.objective - rest.objective) > 2.0 * max(
        1e-9, inner["options"].get("gap", 1e-4) * abs(whole.objective)
    ) + truth.slack
    if apart or (len(words) == 2 and not words & {"time limit", "gave up"}):
        faults.append(f"uninterrupted it is {whole}; resumed it is {rest}")
    return Verdict(second.outcome, faults)


def _named(name: str, verdict: Verdict) -> list[str]:
    return [f"{name}: {fault}" for fault in verdict.faults]


def _stop(how: str, nodes: int, seconds: float) -> dict:
    if how == "nodes":
        return {"node_limit": nodes}
    if how == "time":
        return {"time_limit": seconds}
    return {"on_node": lambda progress: bnb.STOP if progress.nodes >= nodes else None}


if __name__ == "__main__":
    solve_slowly(Path(sys.argv[1]), Path(sys.argv[2]))
