"""The search log: a row when something changed, a report at the end."""

from __future__ import annotations

import math
import sys
from typing import TextIO

from .result import SOURCES, Result, relative_gap

_HEADER = (
    "    Nodes     Open  Explored         Bound     Incumbent       Gap     Time\n"
)


def _number(value: float) -> str:
    return f"{value:13.6g}" if math.isfinite(value) else f"{'-':>13}"


def _work(result: Result) -> str:
    if not result.work:
        return ""
    done = ", ".join(f"{count} {what}" for what, count in result.work.items())
    return f"  inside     {done}\n"


class SearchLog:
    """Prints progress like a MIP solver does.

    Parameters
    ----------
    verbose : int
        0 prints nothing, 1 rows on change, 2 the same without times, so that two logs can be
        compared line by line.
    stream : file, optional
        Where to print; standard output by default.
    """

    def __init__(self, verbose: int, stream: TextIO | None = None) -> None:
        self._verbose = verbose
        self._stream = stream or sys.stdout
        self._shown: tuple[float, float] | None = None
        self._next = 0.0

    def start(self, text: str) -> None:
        """Say what is solved."""
        if self._verbose:
            sources = ", ".join(f"{letter} {name}" for letter, name in SOURCES.items())
            self._stream.write(f"{text}\nIncumbent sources: {sources}\n{_HEADER}")

    def row(
        self, source: str, nodes: int, open_nodes: int, explored: float, bound: float,
        objective: float, seconds: float,
    ) -> None:
        """Print a row if there is a new incumbent, or if the bound moved and time has passed."""
        if not self._verbose or (self._shown == (bound, objective)):
            return
        if not source and seconds < self._next:
            return
        self._shown = (bound, objective)
        # Rows thin out as the search gets longer: about a hundred for every tenfold time.
        self._next = seconds + max(0.2, 0.02 * seconds)
        gap = relative_gap(objective, bound)
        shown = f"{100 * gap:8.3f}%" if math.isfinite(gap) and gap < 10 else f"{'large':>9}"
        clock = f" {seconds:7.1f}s" if self._verbose == 1 else ""
        self._stream.write(
            f"{source or ' ':1} {nodes:7d} {open_nodes:8d} {100 * explored:8.2f}% "
            f"{_number(bound)} {_number(objective)} {shown}{clock}\n"
        )
        self._stream.flush()

    def finish(self, result: Result) -> None:
        """The closing report."""
        if not self._verbose:
            return
        clock = (
            f"  seconds    {result.seconds:.2f} ({result.relaxation_seconds:.2f} in relaxations)\n"
            if self._verbose == 1 else ""
        )
        self._stream.write(
            f"\nSearch report\n  status     {result.status.value} ({result.reason.value})\n"
            f"  objective  {result.objective:.10g}\n  bound      {result.bound:.10g}"
            f" (root {result.root_bound:.10g})\n  gap        {100 * result.gap:.4f} %\n"
            f"  violation  {result.violation:.2g}\n"
            f"  nodes      {result.nodes} ({result.probes} probes, {result.pruned} cut off, "
            f"{result.open} open)\n" + _work(result) + clock
        )
        self._stream.flush()
