"""The command line: run for some seconds, or replay a stored failure."""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from . import scip
from .cases import KINDS, Case, make_case

# Once in so many rounds; the others in each.
RARE = {"repeat": 4, "resume": 4, "refusal": 4, "kill": 400}
STUCK = 300  # seconds after which a problem counts as hanging


class Tally:
    """How many problems of each kind ended how, and how long they took."""

    def __init__(self) -> None:
        self.ends: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()

    def add(self, kind: str, outcome: str, seconds: float, wrong: bool) -> None:
        self.ends[kind][outcome] += 1
        self.seconds[kind] += seconds
        self.wrong[kind] += wrong

    @property
    def problems(self) -> int:
        return sum(sum(c.values()) for c in self.ends.values())

    def __str__(self) -> str:
        lines = [f"{'kind':<10} {'problems':>8} {'wrong':>6} {'seconds':>8}  ended"]
        for kind, ends in sorted(self.ends.items()):
            how = ", ".join(f"{name} {count}" for name, count in ends.most_common())
            lines.append(f"{kind:<10} {sum(ends.values()):>8} {self.wrong[kind]:>6} "
                         f"{self.seconds[kind]:>8.1f}  {how}")
        return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    if scip.solve is None:
        print("SCIP is not installed: truth comes from enumeration alone")
    if options.replay:
        return _show(Case.load(options.replay))
    if options.only is not None:
        return max(_show(make_case(kind, options.seed, options.only)) for kind in options.kind)
    return Hunt(options).run()


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz", description="Look for wrong answers."
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to look")
    parser.add_argument("--problems", type=int, help="end after so many problems")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--only", type=int, metavar="INDEX", help="one problem of each kind")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="a stored failure")
    parser.add_argument("--keep-going", action="store_true", help="do not end at a wrong claim")
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"))
    return parser.parse_args(arguments)


def _show(case: Case) -> int:
    verdict = case.run()
    print(f"{case.kind} {case.name}: {verdict.outcome}")
    for fault in verdict.faults:
        print(f"  WRONG: {fault}")
    return int(bool(verdict.faults))


class Hunt:
    """Round after round of problems, until time is up or a claim is wrong."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.tally = Tally()
        self.terminal = os.dup(2)  # standard error is taken away while a problem is solved

    def run(self) -> int:
        for kind in self.options.kind:  # compile before the clock runs
            make_case(kind, self.options.seed, 0).run()
        begin = shown = time.monotonic()
        for kind, index in self._schedule():
            seconds = time.monotonic() - begin
            if seconds > self.options.seconds or self.tally.problems == self.options.problems:
                break
            if time.monotonic() - shown > 10:
                print(f"\n{seconds:.0f} s\n{self.tally}", flush=True)
                shown = time.monotonic()
            if not self._right(make_case(kind, self.options.seed, index)):
                break
        wrong = sum(self.tally.wrong.values())
        print(f"\n{self.tally}\n{self.tally.problems} problems in "
              f"{time.monotonic() - begin:.0f} s, {wrong} with a wrong claim")
        return int(wrong > 0)

    def _schedule(self) -> Iterator[tuple[str, int]]:
        for number in itertools.count():
            for kind in self.options.kind:
                if number % RARE.get(kind, 1) == 0:
                    yield kind, number // RARE.get(kind, 1)

    def _right(self, case: Case) -> bool:
        """Run a problem and write it down if it shows a fault; False if that ends the search."""
        # Should the process die or hang, the problem that did it is on the disk.
        running = case.save(self.options.out / "running", [])
        faulthandler.dump_traceback_later(STUCK, exit=True, file=self.terminal)
        begin = time.monotonic()
        verdict = case.run()
        faulthandler.cancel_dump_traceback_later()
        running.unlink()
        seconds = time.monotonic() - begin
        self.tally.add(case.kind, verdict.outcome, seconds, bool(verdict.faults))
        if not verdict.faults:
            return True
        path = case.save(self.options.out, verdict.faults)
        print(f"WRONG: {case.kind} {case.name}")
        for fault in verdict.faults:
            print(f"  {fault}")
        print(f"  python -m benchmarks.fuzz --replay {path}", flush=True)
        return bool(self.options.keep_going)


if __name__ == "__main__":
    sys.exit(main())
