"""Two workers against one, here and on a dask cluster; and searches whose processes are killed.

    python -m benchmarks.scaling                  # seconds and nodes, one worker, two, two of dask
    python -m benchmarks.scaling --kill worker    # one of two workers is killed, ten times
    python -m benchmarks.scaling --kill fit       # a fit is killed and resumed, ten times

Nothing else should run: two workers need two cores, and where others took more than 5 % of the time
a row is not counted. A run that is stopped goes on where it was; rows are kept in --out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import psutil
from sklearn.datasets import load_diabetes

import bnb
from csvm import datasets
from csvm.estimator import _SAVE_EVERY
from csvm.search.compiled import warm_up
from csvm.store import Store

from .families import (
    Benchmark,
    FoldProblem,
    miqp_instance,
    products,
    sparse_regression,
    subset_problem,
)
from .instances import instance_file, portfolio_problem, random_portfolio
from .measures import geometric_mean

MODES = ("one", "two", "dask")
KILLS = 10


def cases(only: str) -> Iterator[Benchmark]:
    """Those with this in their name.

    Each takes one worker 20 to 120 s on a machine of today; where it does not, it is not counted.
    """
    return (case for case in _cases() if only in f"{case.family} {case.name}")


def _cases() -> Iterator[Benchmark]:
    """The way work is dealt out was chosen on the first two CSVMs, one market, diabetes, QPLIB."""
    for sample in (
        FoldProblem("german", 4.0, 2.0**-5, per_class=False),
        FoldProblem("biodeg", 4.0, 2.0**-5, per_class=False),
        FoldProblem("biodeg", 8.0, 2.0**-5, per_class=False),
        FoldProblem("german", 16.0, 2.0**-6, 320, rates=2, per_class=False),
    ):
        yield sample.instance("CSVM")
    # Made markets: those of the OR-Library take seconds.
    for assets, seed, weight in ((400, 1, 0.99), (200, 7, 0.999)):
        yield miqp_instance("portfolios", f"factor{assets} seed {seed} λ={weight:g}",
                            portfolio_problem(*random_portfolio(assets, seed), weight))
    X, y = load_diabetes(return_X_y=True)
    yield miqp_instance(
        "sparse regression", "diabetes 64 columns k=16", subset_problem(products(X), y, 16)
    )
    yield miqp_instance("sparse regression", "200 columns ρ=0.9 SNR 1 k=12",
                        subset_problem(*sparse_regression(200, 0.9, 1.0, 12), 12))
    path = instance_file("QPLIB_3913.mps")
    if path is None:
        print("QPLIB_3913: its file is not in $CSVM_INSTANCES")
    else:
        yield miqp_instance("QPLIB", "QPLIB_3913 gap 0.028", bnb.read(path), {"gap": 0.028})


def solve(case: Benchmark, mode: str, limit: float, client: object) -> dict:
    problem = case.problem()
    more: dict = {"workers": 2} if mode == "two" else {}
    if mode == "dask":
        more = {"executor": client.get_executor()}  # type: ignore[attr-defined]
    warm_up(is_factor=False, both_classes=False)  # compile before the clock runs
    bnb.solve(problem, time_limit=2.0, **case.options)
    ours, all_of_it = _processor_seconds()
    result = bnb.solve(problem, time_limit=limit, **case.options, **more)
    ours, all_of_it = np.array(_processor_seconds()) - (ours, all_of_it)
    return {
        "family": case.family, "name": case.name, "mode": mode, "status": result.status.value,
        "objective": result.objective, "bound": result.bound, "nodes": result.nodes,
        "seconds": result.seconds, "cpu": ours, "others": max(all_of_it - ours, 0.0),
    }


def _processor_seconds() -> tuple[float, float]:
    """What this process and its workers have taken so far, and what all of the machine has."""
    here = psutil.Process()
    ours = sum(here.cpu_times()[:4])  # with children that have ended
    for child in here.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            ours += sum(child.cpu_times()[:4])
    times = psutil.cpu_times()
    return ours, sum(times) - times.idle - getattr(times, "iowait", 0.0)


def _disturbed(row: dict) -> bool:
    """Whether others took more of the machine than a system does by itself."""
    return row["others"] > 0.05 * row["seconds"]


def speed(options: argparse.Namespace) -> int:
    with ExitStack() as stack:
        store = stack.enter_context(Store(options.out))
        client = _cluster(stack) if "dask" in options.modes else None
        for case in cases(options.only):
            for mode in options.modes:
                key = f"{case.name}, {mode}"
                if key in store:
                    continue
                row = solve(case, mode, options.limit, client)
                store.add(key, {"limit": options.limit}, row)
                print(_line(row), flush=True)
        report(list(store.values()))
    return 0


def _line(row: dict) -> str:
    return (f"{row['family']:18} {row['name']:42} {row['mode']:5} {row['seconds']:7.1f} s "
            f"{row['nodes']:9d} nodes  {row['status']:12} {row['objective']:.8g}  "
            f"others {row['others'] / row['seconds']:.0%}")


def report(rows: list[dict]) -> None:
    """Ratios where both are proven and undisturbed, and where one worker took 20 to 120 s."""
    found = {(row["name"], row["mode"]): row for row in rows}
    for mode in MODES[1:]:
        ratios, nodes = [], []
        for name in dict.fromkeys(row["name"] for row in rows):
            one, other = found.get((name, "one")), found.get((name, mode))
            if one is None or other is None:
                continue
            proven = one["status"] == other["status"] == "optimal"
            fits = 20.0 <= one["seconds"] <= 120.0 and not (_disturbed(one) or _disturbed(other))
            if proven:
                difference = abs(one["objective"] - other["objective"])
                gap = 2.0 * max(abs(one["objective"] - one["bound"]), 1e-9)
                assert difference <= gap, (one, other)
            ratio = one["seconds"] / other["seconds"]
            note = "" if proven and fits else "  (not counted)"
            print(f"{mode:5} {name:42} {ratio:5.2f} times as fast, "
                  f"{other['nodes'] / one['nodes']:5.2f} times the nodes{note}")
            if proven and fits:
                ratios.append(ratio)
                nodes.append(other["nodes"] / one["nodes"])
        if ratios:
            print(f"{mode:5} geometric mean of {len(ratios)}: {geometric_mean(ratios):.2f} times "
                  f"as fast, {geometric_mean(nodes):.2f} times the nodes")


def _cluster(stack: ExitStack) -> object:
    from distributed import Client, LocalCluster

    local = stack.enter_context(
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    )
    return stack.enter_context(Client(local))


# -- kills ----------------------------------------------------------------------------------


def kill_workers(options: argparse.Namespace) -> int:
    """The same optimum though one of two workers is killed on the way."""
    case = next(cases(options.only))
    problem, draw = case.problem(), random.Random(options.seed)
    bnb.solve(problem, time_limit=2.0, **case.options)
    truth = bnb.solve(problem, workers=2, time_limit=options.limit, **case.options)
    print(f"{case.name}: undisturbed {truth}", flush=True)
    same = 0
    for attempt in range(options.kills):
        killed: list[float] = []
        moment = draw.uniform(0.1, 0.9) * truth.seconds
        timer = threading.Timer(moment, _kill_a_child, (draw.random(), killed))
        timer.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bnb.WorkerWarning)
            result = bnb.solve(problem, workers=2, time_limit=options.limit, **case.options)
        timer.cancel()
        timer.join()
        slack = 2.0 * abs(truth.objective - truth.bound)
        agrees = result.optimal and abs(result.objective - truth.objective) <= slack
        same += agrees and bool(killed)
        print(f"{attempt}: killed {len(killed)} after {moment:.1f} s, {result}", flush=True)
    print(f"{same} of {options.kills} times the same optimum after a kill")
    return 0 if same == options.kills else 1


def _kill_a_child(chance: float, killed: list[float]) -> None:
    workers = [
        child for child in psutil.Process().children() if "popen_loky" in " ".join(child.cmdline())
    ]
    if workers:
        os.kill(workers[int(chance * len(workers))].pid, signal.SIGKILL)
        killed.append(time.monotonic())


FIT = ("--label", "label", "--C", "4", "--gamma", "0.03125", "--constraint", "tpr>=0.8", "--gap",
       "0.007", "--jobs", "2", "--quiet", "--json")  # on german, about half a minute


def kill_fits(options: argparse.Namespace) -> int:
    """The same optimum though the fit is killed as a whole and goes on from its checkpoint."""
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        table = place / "table.csv"
        X, y = datasets.load("german")
        names = [f"x{j}" for j in range(X.shape[1])] + ["label"]
        header = ",".join(names)
        np.savetxt(table, np.column_stack([X, y]), "%.17g", ",", header=header, comments="")
        begin = time.time()
        whole = json.loads(_fit(table, place, options.limit).communicate()[0])
        start_up = time.time() - begin - whole["seconds"]  # imports, the table, the kernel
        print(f"undisturbed: {whole['status']} {whole['objective']:.8g}, {whole['nodes']} nodes, "
              f"{whole['seconds']:.1f} s", flush=True)
        same, lost = 0, []
        for attempt in range(options.kills):
            file = place / "fit.json"
            file.unlink(missing_ok=True)
            begin = time.time()
            process = _fit(table, place, options.limit, file)
            time.sleep(draw.uniform(0.1, 0.9) * whole["seconds"] + 2.0)
            process.kill()
            process.communicate()
            age = time.time() - (file.stat().st_mtime if file.exists() else begin + start_up)
            rest = json.loads(_fit(table, place, options.limit, file).communicate()[0])
            slack = 2.0 * abs(whole["objective"] - whole["bound"])
            agrees = rest["status"] == "optimal" and (
                abs(rest["objective"] - whole["objective"]) <= slack
            )
            same += agrees
            lost.append(age)
            print(f"{attempt}: killed {age:.1f} s after the last checkpoint or the start; resumed: "
                  f"{rest['status']} {rest['objective']:.8g}, {rest['nodes']} nodes", flush=True)
        print(f"{same} of {options.kills} times the same optimum; at most {max(lost):.1f} s "
              f"of work lost, saved every {_SAVE_EVERY:g} s")
    # A node is finished before anything is saved.
    return 0 if same == options.kills and max(lost) <= _SAVE_EVERY + 3.0 else 1


def _fit(
    table: Path, place: Path, limit: float, checkpoint: Path | None = None
) -> subprocess.Popen[str]:
    saved = () if checkpoint is None else ("--checkpoint", str(checkpoint))
    return subprocess.Popen(
        [sys.executable, "-m", "csvm", "fit", str(table), "--model", str(place / "model.npz"),
         "--time-limit", str(limit), *FIT, *saved],
        stdout=subprocess.PIPE, text=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds (default 300)")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--out", default="scaling.jsonl", help="where rows are kept")
    parser.add_argument("--kill", choices=("worker", "fit"))
    parser.add_argument("--kills", type=int, default=KILLS, help="how often (default 10)")
    parser.add_argument("--seed", type=int, default=0, help="draws the moments")
    options = parser.parse_args()
    run = {None: speed, "worker": kill_workers, "fit": kill_fits}[options.kill]
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
