"""Benchmark families × solvers × formulations, by honest rules; see docs/benchmarks.md.

    python -m benchmarks --quick
    python -m benchmarks --full --families paper --solvers csvm CPLEX COPT --limit 60
    python -m benchmarks --report

`python -m benchmarks paper --help` is about the paper's own experiments.
"""

from __future__ import annotations

import argparse
import csv
import sys
from dataclasses import asdict
from pathlib import Path

from csvm.datasets import DatasetError

from . import command_line
from .families import FAMILIES, Benchmark, quick
from .nodework import Figure, measure
from .paper.command import main as paper
from .peers import PEERS
from .report import markdown, pictures
from .runner import OURS, Row, cross_check, jobs, rows_of, run, warm_up
from .tables import as_csv

QUICK_LIMIT, FULL_LIMIT = 2.0, 60.0
QUICK_SOLVERS = [OURS, "SCIP"]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command_line("benchmarks", __doc__)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--quick", action="store_true",
                      help="six small instances next to SCIP, in two minutes")
    size.add_argument("--full", action="store_true",
                      help="all families and all peers, for hours; stop and start it as you like")
    size.add_argument("--report", action="store_true",
                      help="run nothing; tables and pictures of all that results.jsonl holds")
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), metavar="NAME",
                        help=f"with --full, some of: {', '.join(FAMILIES)}")
    parser.add_argument("--solvers", nargs="+", choices=[OURS, *PEERS], metavar="NAME",
                        help=f"some of: {', '.join([OURS, *PEERS])}")
    parser.add_argument("--limit", type=float, metavar="SECONDS",
                        help=f"per run; {QUICK_LIMIT:g} with --quick, else {FULL_LIMIT:g}")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"), metavar="DIR",
                        help="for results.jsonl, results.csv, parts.csv, summary.md and pictures")
    options = parser.parse_args(arguments)
    if options.families and not options.full:
        parser.error("--families goes with --full")
    if options.report and (options.solvers or options.limit):
        parser.error("--report takes all rows: neither --solvers nor --limit goes with it")
    if options.limit is not None and not options.limit > 0:
        parser.error("--limit must be positive")
    return options


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["paper"]:
        return paper(words[1:])
    options = parse(words)
    if options.report:
        rows = rows_of(options.out / "results.jsonl")
        if not rows:
            print(f"no rows in {options.out}/results.jsonl", file=sys.stderr)
            return 1
        return report(rows, stored(options.out / "parts.csv"), options.out)
    wanted = options.solvers or (QUICK_SOLVERS if options.quick else [OURS, *PEERS])
    absent = [name for name in wanted if name != OURS and not PEERS[name].installed]
    if absent:
        print(f"not installed, left out: {', '.join(absent)}")
    solvers = [name for name in wanted if name not in absent]
    limit = options.limit or (QUICK_LIMIT if options.quick else FULL_LIMIT)
    todo = jobs(chosen(options), solvers, limit)
    if not todo:
        print("nothing to run")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        rows = run(todo, options.out / "results.jsonl")
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here")
        return 130
    return report(rows, parts(options.out / "parts.csv", quick=options.quick), options.out)


def report(rows: list[Row], figures: list[Figure], folder: Path) -> int:
    """Write the section and the pictures; 1 if the rows contradict each other."""
    contradictions = cross_check(rows)
    (folder / "results.csv").write_text(as_csv([asdict(row) for row in rows]))
    (folder / "summary.md").write_text(markdown(rows, figures, contradictions))
    pictures(rows, figures, folder)
    print(f"wrote {folder}/summary.md and the pictures")
    for text in contradictions:
        print(f"CONTRADICTION: {text}", file=sys.stderr)
    return 1 if contradictions else 0


def chosen(options: argparse.Namespace) -> list[Benchmark]:
    if options.quick:
        return list(quick())
    found: list[Benchmark] = []
    for name in options.families or FAMILIES:
        try:
            instances = list(FAMILIES[name]())
        except DatasetError as error:
            print(f"{name} left out: {error}")
            continue
        if not instances:
            print(f"{name} left out: no files (set CSVM_INSTANCES)")
        found += instances
    return found


def stored(path: Path) -> list[Figure]:
    """Kernel and node work measured earlier; empty if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Figure(r["part"], r["what"], int(r["size"]), float(r["value"]), r["unit"])
            for r in csv.DictReader(file)
        ]


def parts(path: Path, *, quick: bool) -> list[Figure]:
    """Kernel and node work, measured once and kept beside the results."""
    figures = stored(path)
    if figures:
        return figures
    print("measuring kernel and node work", flush=True)
    warm_up()
    for figure in measure(quick=quick):
        print(f"{figure.part}: {figure.what}, {figure.size}: {figure.value:.4g} {figure.unit}",
              flush=True)
        figures.append(figure)
    path.write_text(as_csv([asdict(figure) for figure in figures]))
    return figures


if __name__ == "__main__":
    sys.exit(main())
