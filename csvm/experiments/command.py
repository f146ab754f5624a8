"""``csvm paper``."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from .. import datasets
from ..progress import Progress
from ..store import Store
from .algorithm import Outcome, study
from .protocol import FULL, QUICK, Sample, load
from .report import write_report
from .runner import Runner, cluster
from .tabulate import summary, tables

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--dataset", nargs="+", choices=datasets.NAMES, default=list(datasets.NAMES),
        metavar="NAME", help=f"of {', '.join(datasets.NAMES)} (default all)",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help="5 x 3 folds, a grid of 6 x 6 (default)"
    )
    size.add_argument(
        "--full", nargs="*", choices=datasets.NAMES, metavar="NAME",
        help="the paper's protocol: 10 x 10 folds (5 x 5 above 1000 rows), a grid of 11 x 11; for "
        "all data sets, or for those named here while the others are quick",
    )
    parser.add_argument(
        "--target", choices=("estimated", "paper"), default="estimated",
        help="p0: the SVM's own TPR plus 0.025 (default), or as printed in the paper",
    )
    parser.add_argument(
        "--costs", choices=("class", "point"), default="point",
        help="the C of a CSVM is the cost of a point, as the paper's numbers suggest (default), or "
        "is shared by a class, as its text says",
    )
    parser.add_argument(
        "--time-limit", type=_positive(float), default=FULL.time_limit, metavar="SECONDS",
        help="for one CSVM fit (default 60)",
    )
    parser.add_argument(
        "--jobs", type=_positive(int), default=None, metavar="N",
        help="fits at once (default: all cores)",
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="run on the dask cluster at this address"
    )
    parser.add_argument(
        "--out", default="csvm-paper", metavar="DIR",
        help="where finished work is kept and the report is written (default csvm-paper)",
    )


def _positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    def read(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"must be > 0, got {text}")
        return value

    read.__name__ = "number"  # argparse says "invalid number value"
    return read


def run(options: argparse.Namespace) -> int:
    """Run the experiments, or what is left of them, and write the report."""
    if importlib.util.find_spec("matplotlib") is None:  # better now than after hours
        raise ImportError("the report needs matplotlib: pip install 'csvm[plots]'")
    names = list(dict.fromkeys(options.dataset))
    left_out = set(options.full or ()) - set(names)
    if left_out:
        raise ValueError(f"--full names {', '.join(sorted(left_out))}, which --dataset leaves out")
    samples = [load(name) for name in names]  # all of them first: one may be missing
    directory = Path(options.out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"--out: {error}") from None
    try:
        outcomes = _outcomes(samples, directory, options)
    except KeyboardInterrupt:
        print(
            f"csvm: finished work is kept in {directory}; the same command goes on from there",
            file=sys.stderr,
        )
        raise
    page = write_report(outcomes, directory)
    if options.json:
        print(json.dumps({"report": str(page), "datasets": _as_json(outcomes)}, indent=2))
    else:
        print("\n".join(table.markdown() for table in tables(outcomes)))
        print(f"Report: {page}, {directory / 'report.md'} and a CSV file per table")
    return 0


def _outcomes(
    samples: Sequence[Sample], directory: Path, options: argparse.Namespace
) -> list[Outcome]:
    full = options.dataset if options.full == [] else options.full or []
    cores = nullcontext(_cores()) if options.scheduler is None else cluster(options.scheduler)
    with Store(directory / "fits.jsonl") as store, cores as available:
        runner = Runner(store, options.jobs or available, Progress(sys.stderr))
        return [
            study(
                sample, replace(
                    FULL if sample.name in full else QUICK, time_limit=options.time_limit,
                    costs=options.costs,
                ), runner, options.target,
            )
            for sample in samples
        ]


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _as_json(outcomes: Sequence[Outcome]) -> dict[str, object]:
    return {
        o.sample.name: {
            "target": o.p0, "fits": len(o.fits),
            "proven": sum(fit["proven"] for fit in o.fits), "methods": summary(o),
        }
        for o in outcomes
    }
