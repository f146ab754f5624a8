"""Solve a model file from the command line: ``python -m bnb model.mps --time-limit 60``."""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from relaxations.patience import calls_left_behind

from .branching import RULES
from .engine import solve
from .queue import SELECTIONS
from .reader import FileModel, read
from .result import Reason, Result, Status

_EXIT_CODES = """\
exit codes:
  0    proven optimal within the gap
  1    stopped by a limit: not proven, or no solution found yet
  2    bad input or usage
  3    infeasible or unbounded
  4    failed: numerical contradiction or internal error
  130  interrupted (Ctrl-C); the best solution so far is reported
"""

_SHOWN = 20
"""So many non-zero values are printed; more belong into a file."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line; the usage is a --help away."""
        self.exit(2, f"bnb: error: {message} (see python -m bnb --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m bnb", epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Solve a mixed-integer convex QP from an MPS or LP file, with proof.",
    )
    parser.add_argument("model", help="MPS or LP file, possibly .gz")
    limits = parser.add_argument_group("limits")
    limits.add_argument("--gap", type=float, default=1e-4, metavar="G",
                        help="relative gap at which the search is done (default 1e-4)")
    limits.add_argument("--time-limit", type=float, default=math.inf, metavar="S", help="seconds")
    limits.add_argument("--nodes", type=int, metavar="N", help="nodes at most")
    limits.add_argument("--memory", type=float, default=math.inf, metavar="MIB",
                        help="memory of all processes at most, in MiB")
    search = parser.add_argument_group("search")
    search.add_argument("--workers", type=int, default=1, metavar="N",
                        help="processes that search (default 1, which is deterministic)")
    search.add_argument("--selection", choices=SELECTIONS, default="best",
                        help="which node comes next")
    search.add_argument("--branching", choices=sorted(RULES), default="pseudocost",
                        help="which variable is branched on")
    search.add_argument("--seed", type=int, default=0, help="for heuristics")
    search.add_argument("--checkpoint", metavar="FILE", help="save the search to FILE")
    search.add_argument("--checkpoint-interval", type=float, default=60.0, metavar="S",
                        help="seconds between two savings (default 60)")
    search.add_argument("--resume", action="store_true",
                        help="continue from the checkpoint if it exists")
    output = parser.add_argument_group("output")
    output.add_argument("--solution", metavar="FILE", help="write the result to a .json file, "
                        "or the values to a .csv file")
    output.add_argument("--plot", metavar="FILE",
                        help="picture of bound and incumbent over time (.svg, .png, .pdf)")
    output.add_argument("--json", action="store_true",
                        help="print the result as JSON; the log goes to standard error")
    output.add_argument("--quiet", action="store_true", help="no search log")
    output.add_argument("--debug", action="store_true", help="show where an error comes from")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = _parser().parse_args(argv)
    if arguments.debug:
        return _run(arguments)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except BrokenPipeError:  # the reader of our output has gone, nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 4
    except (ValueError, OSError, ImportError) as error:
        return _complain(str(error), 2)
    except Exception as error:
        return _complain(f"internal error, {type(error).__name__}: {error} (--debug says more)", 4)


def _complain(text: str, code: int) -> int:
    print("bnb: error: " + " ".join(text.split()), file=sys.stderr)
    return code


def _run(arguments: argparse.Namespace) -> int:
    _check_outputs(arguments)
    with _plain_warnings():
        return _read_and_solve(arguments)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as lines for people, without where in the source they come from."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: print(
            f"bnb: warning: {message}", file=sys.stderr
        )
        yield


def _read_and_solve(arguments: argparse.Namespace) -> int:
    problem = read(arguments.model)
    stream = sys.stderr if arguments.json else sys.stdout
    if problem.maximize and not arguments.quiet:
        print("Maximisation: the search minimises the negated objective, and logs that.",
              file=stream)
    result = solve(
        problem, gap=arguments.gap, time_limit=arguments.time_limit, node_limit=arguments.nodes,
        memory_limit=arguments.memory, workers=arguments.workers, selection=arguments.selection,
        branching=arguments.branching, seed=arguments.seed, checkpoint=arguments.checkpoint,
        checkpoint_interval=arguments.checkpoint_interval, resume=arguments.resume,
        verbose=0 if arguments.quiet else 1, log_stream=stream,
    )
    report = _report(problem, result)
    if arguments.json:
        print(json.dumps(report, indent=1))
    else:
        print(_text(report, separate=not arguments.quiet))
    if arguments.solution:
        _write(Path(arguments.solution), report)
    if arguments.plot:
        _plot(problem, result, Path(arguments.plot))
    return _exit_code(result)


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Find out before the search, not after it, that its result cannot be written."""
    for option in ("solution", "plot", "checkpoint"):
        name = getattr(arguments, option)
        if name is not None and not Path(name).absolute().parent.is_dir():
            raise ValueError(f"--{option} {name}: there is no such directory")
    if arguments.solution and Path(arguments.solution).suffix not in (".json", ".csv"):
        raise ValueError(f"--solution {arguments.solution}: the name must end in .json or .csv")
    if arguments.plot:
        from .plots import check_format

        check_format(arguments.plot)


def _report(problem: FileModel, result: Result) -> dict[str, Any]:
    """The result by name and in the sense of the file, ready for JSON."""
    sense = problem.in_file_sense
    values = result.x
    return {
        "status": result.status.value,
        "reason": result.reason.value,
        "sense": "maximize" if problem.maximize else "minimize",
        "objective": _finite(sense(result.objective)),
        "bound": _finite(sense(result.bound)),
        "root_bound": _finite(sense(result.root_bound)),
        "gap": _finite(result.gap),
        "violation": _finite(result.violation),
        "nodes": result.nodes,
        "seconds": round(result.seconds, 3),
        "solution": None if values is None else {
            # zero, not minus zero
            name: float(value) + 0.0 for name, value in zip(problem.names, values, strict=True)
        },
    }


def _finite(value: float) -> float | None:
    """JSON has no infinities."""
    return float(value) if math.isfinite(value) else None


def _text(report: dict[str, Any], separate: bool) -> str:
    lines = [""] if separate else []
    lines.append(f"Status     {report['status']} ({report['reason']})")
    for key in ("objective", "bound"):
        value = "-" if report[key] is None else f"{report[key]:.10g}"
        lines.append(f"{key.capitalize():10} {value}")
    gap = "-" if report["gap"] is None else f"{100 * report['gap']:.4f} %"
    lines.append(f"Gap        {gap}")
    lines.append(f"Nodes      {report['nodes']} in {report['seconds']:.2f} s")
    if report["solution"] is not None:
        lines += _values(report["solution"])
    return "\n".join(lines)


def _values(solution: dict[str, float]) -> list[str]:
    shown = {name: value for name, value in solution.items() if value != 0.0}
    if len(shown) > _SHOWN:
        return [f"Solution   {len(shown)} non-zero values (--solution FILE writes them)"]
    width = max(map(len, shown), default=0)
    return ["Solution   (values that are not zero)"] + [
        f"  {name:{width}}  {value:.10g}" for name, value in shown.items()
    ]


def _write(path: Path, report: dict[str, Any]) -> None:
    with path.open("w", newline="") as file:
        if path.suffix == ".json":
            json.dump(report, file, indent=1)
            file.write("\n")
        else:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["name", "value"])
            rows.writerows((name, repr(v)) for name, v in (report["solution"] or {}).items())


def _plot(problem: FileModel, result: Result, path: Path) -> None:
    from matplotlib.figure import Figure  # not pyplot: no window system is needed for a file

    from .plots import plot_gap, save

    axes = Figure(figsize=(7.0, 4.0), layout="constrained").subplots()
    save(plot_gap(result, axes, maximize=problem.maximize), path)


def _exit_code(result: Result) -> int:
    if result.status is Status.OPTIMAL:
        return 0
    if result.status in (Status.INFEASIBLE, Status.UNBOUNDED):
        return 3
    if result.status is Status.INVALID:
        return 4
    return 130 if result.reason is Reason.INTERRUPT else 1


if __name__ == "__main__":
    code = main()
    if calls_left_behind():  # nobody needs their answers any more: do not wait for them
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
