"""The paper's experiments: Algorithm 1, its tables beside the printed ones, rates on unseen data.

    python -m benchmarks paper --dataset wisconsin --quick
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from joblib import cpu_count

from csvm import datasets
from csvm.jobs import cluster
from csvm.laboratory import laboratory
from csvm.store import StoreError

from .. import command_line
from .algorithm import Findings, study
from .protocol import FULL, QUICK, Data, load
from .report import write_report
from .tabulate import tables


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiments, or what is left of them, and write the report; returns the exit code."""
    options = _parser().parse_args(arguments)
    directory = Path(options.out)
    try:
        findings = _run(options, directory)
    except (OSError, ImportError, ValueError, RuntimeError, StoreError) as error:
        print(f"paper: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            f"paper: finished work is kept in {directory}; the same command goes on from there",
            file=sys.stderr,
        )
        return 130
    page = write_report(findings, directory)
    print("\n".join(table.markdown() for table in tables(findings)))
    print(f"Report: {page}, {directory / 'report.md'}, methods.csv, searches.csv")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_line("benchmarks paper", __doc__)
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
        "--out", default="results/paper", metavar="DIR",
        help="where finished work is kept and the report is written (default results/paper)",
    )
    return parser


def _positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    def read(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"must be > 0, got {text}")
        return value

    read.__name__ = "number"  # argparse says "invalid number value"
    return read


def _run(options: argparse.Namespace, directory: Path) -> list[Findings]:
    if importlib.util.find_spec("matplotlib") is None:  # better now than after hours
        raise ImportError("the report needs matplotlib: pip install 'csvm[plots]'")
    names = list(dict.fromkeys(options.dataset))
    full = names if options.full == [] else options.full or []
    left_out = set(full) - set(names)
    if left_out:
        raise ValueError(f"--full names {', '.join(sorted(left_out))}, which --dataset leaves out")
    loaded: list[Data] = [load(name) for name in names]  # all of them first: one may be missing
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"--out: {error}") from None
    limits = {"time_limit": options.time_limit, "costs": options.costs}
    cores = nullcontext(cpu_count()) if options.scheduler is None else cluster(options.scheduler)
    with (
        cores as available,
        laboratory(directory / "fits.jsonl", options.jobs or available) as run,
    ):
        return [
            study(data, replace(FULL if data.name in full else QUICK, **limits), run,
                  options.target)
            for data in loaded
        ]
