"""The command line: ``csvm demo | explore | fit | predict | evaluate | certify``."""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from bnb import Reason

from .anchors import Anchors
from .certification import certify, positive_class
from .estimator import CSVM
from .exploration import explore, write_page
from .feasibility import InfeasibleRatesError
from .jobs import cluster
from .progress import ProgressLine
from .rates import accuracy, parse_constraints, tnr, tpr
from .tables import Table, TableError, TableModel, read_table
from .thresholds import THRESHOLDS
from .tuning import COSTS, tune

OK, ERROR, USAGE, UNPROVEN, CONTRADICTION, UNCERTIFIED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

_EPILOG = (
    "exit codes: 0 done; 1 the data or the options cannot be used; 2 wrong usage, or a model "
    "file that cannot be used; 3 a model was written, but the time limit came before the proof "
    "that it is the best; 4 the rates contradict each other; 5 the rates are not certified; "
    "130 interrupted"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _note(message)
            return options.run(options)
    except InfeasibleRatesError as error:
        return _complain(str(error), CONTRADICTION)
    except _ModelFileError as error:
        return _complain(str(error), USAGE)
    except (TableError, ValueError, OSError, ImportError, RuntimeError) as error:
        return _complain(str(error), ERROR)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)


class _ModelFileError(Exception):
    """What --model names cannot be used."""


def _complain(message: str, code: int) -> int:
    print(f"csvm: {message}", file=sys.stderr)
    return code


def _note(message: Any) -> None:
    print(f"csvm: note: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="csvm", epilog=_EPILOG,
        description="Support vector machines whose rates hold, solved to proven optimality.",
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    demo = _command(commands, "demo", _demo, "rates of two groups at once, on built-in data")
    demo.add_argument("--picture", default="csvm-demo.png", help="where to draw what was found")
    demo.add_argument("--time-limit", type=float, default=30.0, help="seconds for the search")

    _fit_options(_command(commands, "fit", _fit, "train on a table and write a model"))

    explore = _command(
        commands, "explore", _explore, "show what rates can be had on a table, as a page"
    )
    _training_options(explore)
    explore.add_argument("--out", default="csvm-explore.html", help="page to write")
    explore.add_argument("--folds", type=int, default=5, help="held out in turn (default 5)")
    explore.add_argument(
        "--time-limit", type=float, default=2.0, help="seconds for each CSVM (default 2)"
    )
    explore.add_argument("--seed", type=int, default=0, help="draws folds and anchors (default 0)")
    explore.add_argument("--quiet", action="store_true", help="no progress")

    predict = _command(commands, "predict", _predict, "classify the rows of a table")
    _model_options(predict)
    predict.add_argument("--output", help="CSV file to write; standard output by default")

    _model_options(
        _command(commands, "evaluate", _evaluate, "rates of a model on a table with labels")
    )
    _certify_options(_command(
        commands, "certify", _certify, "test a model's rates on rows that its fit has not seen"
    ))
    return parser


def _fit_options(fit: argparse.ArgumentParser) -> None:
    _training_options(fit)
    fit.add_argument(
        "--constraint", action="append", dest="constraints", metavar="RATE",
        help="'tpr>=0.95', 'tnr>=0.8', 'accuracy>=0.9', 'precision>=0.8', 'npv>=0.9', 'f1>=0.7', "
        "'balanced_accuracy>=0.8', 'cost(fn=5,fp=1)<=0.3'; of a group 'tpr[north]>=0.9', of every "
        "group 'tpr[*]>=0.85'; may be repeated (default tpr>=0.9)",
    )
    fit.add_argument("--model", required=True, help="file to write, model.npz")
    fit.add_argument("--kernel", default="rbf", choices=["rbf", "linear", "poly"])
    fit.add_argument(
        "--C", type=float, help="slack cost of a point (default: by cross-validation)"
    )
    fit.add_argument(
        "--gamma", type=_gamma,
        help="'scale', 'auto' or a number (default: by cross-validation)",
    )
    fit.add_argument("--threshold", default="exact", choices=THRESHOLDS)
    fit.add_argument("--alpha", type=float, default=0.05, help="level of the threshold's test")
    fit.add_argument(
        "--anchors", type=_anchors, default=0.5, help="fraction (default 0.5), or 'second-half'"
    )
    fit.add_argument("--time-limit", type=float, default=60.0, help="seconds (default 60)")
    fit.add_argument("--gap", type=float, default=1e-4, help="relative gap (default 1e-4)")
    fit.add_argument(
        "--jobs", type=int, metavar="N",
        help="processes that search at once, -1 for all cores (default 1; with --scheduler all "
        "cores of the cluster)",
    )
    fit.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="search on the dask cluster at this address, tcp://host:8786",
    )
    fit.add_argument(
        "--checkpoint", metavar="FILE",
        help="save the search there as it goes on; the same command goes on from it if killed",
    )
    fit.add_argument("--seed", type=int, default=0, help="draws the anchors (default 0)")
    fit.add_argument("--quiet", action="store_true", help="no search log")


def _certify_options(certify: argparse.ArgumentParser) -> None:
    _model_options(certify)
    certify.add_argument(
        "--constraint", action="append", dest="constraints", metavar="RATE",
        help="'tpr>=0.95' and so on; may be repeated (default: what the model was asked for)",
    )
    certify.add_argument(
        "--confidence", type=float, default=0.95,
        help="how sure the certificate is to be (default 0.95)",
    )
    certify.add_argument(
        "--group", metavar="COLUMN", help="column with the groups (default: that of the model)"
    )


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text, epilog=_EPILOG
    )
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    return parser


def _training_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help="CSV file with a header, or Parquet file")
    parser.add_argument("--label", required=True, help="column with the two classes")
    parser.add_argument(
        "--positive", help="the positive class; by default the last in sorted order"
    )
    parser.add_argument(
        "--group", metavar="COLUMN", help="column with the groups; it is not used to predict"
    )
    parser.add_argument("--drop", action="append", default=[], metavar="COLUMN", help="leave out")
    _row_options(parser)


def _model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data")
    parser.add_argument("--model", required=True)
    _row_options(parser)


def _row_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--drop-missing", action="store_true", help="leave out rows with missing values"
    )


def _gamma(text: str) -> float | str:
    return text if text in ("scale", "auto") else float(text)


def _anchors(text: str) -> Anchors:
    return text if text == "second-half" else float(text)


# -- fit, predict, evaluate -------------------------------------------------------------------


def _fit(options: argparse.Namespace) -> int:
    constraints = tuple(parse_constraints(options.constraints or ["tpr>=0.9"]))
    for constraint in constraints:
        if not constraint.on_new_data:  # tuning could not look for them in its folds
            raise TableError(f"--constraint: {constraint} can only be asked from Python, in a fit")
    _check_folder("--model", options.model)
    if options.checkpoint is not None:
        _check_folder("--checkpoint", options.checkpoint)
    names, X, labels, groups = _training_rows(options)
    mean, scale = X.mean(axis=0), X.std(axis=0)
    model = CSVM(
        kernel=options.kernel, constraints=constraints,
        alpha=options.alpha, threshold=options.threshold, anchors=options.anchors,
        time_limit=options.time_limit, gap=options.gap, checkpoint=options.checkpoint,
        pos_label=options.positive, random_state=options.seed, verbose=0 if options.quiet else 1,
        n_jobs=options.jobs,
    )
    points = (X - mean) / scale
    if options.scheduler is not None:
        with cluster(options.scheduler):
            pass  # it answers: better asked now than after the tuning
    model.set_params(**_parameters(model, points, labels, groups, options))
    cores = nullcontext(1) if options.scheduler is None else cluster(options.scheduler)
    # The search log is progress, not outcome.
    with cores as available, redirect_stdout(sys.stderr):
        if options.jobs is None:
            model.set_params(n_jobs=available)
        model.fit(points, labels, sensitive_features=groups)
    TableModel(model, names, mean, scale, options.label, options.group).save(options.model)
    _print_fit(model, options)
    if model.result_.reason is Reason.INTERRUPT:
        return INTERRUPTED
    return OK if model.result_.optimal else UNPROVEN


def _check_folder(option: str, path: str) -> None:
    """Better now than after a long run."""
    if Path(path).is_dir():
        raise TableError(f"{option}: {path} is a directory, it must be a file")
    folder = Path(path).absolute().parent
    if not os.access(folder, os.W_OK):
        raise TableError(f"{option}: {folder} is not a directory that can be written to")


def _training_rows(
    options: argparse.Namespace,
) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray | None]:
    """Names of the features, the points, their classes and groups."""
    table = read_table(options.data)
    table.column(options.label)
    for name in options.drop:
        table.column(name)
    aside = [options.label, *options.drop]
    if options.group is not None:
        table.column(options.group)
        aside.append(options.group)
    names = [n for n in table.columns if n not in aside]
    if not names:
        raise TableError("no columns are left to learn from")
    needed = [*names, options.label] + ([] if options.group is None else [options.group])
    table = _without_missing(table, needed, options.drop_missing)
    labels = table.labels(options.label)
    if options.positive is not None and options.positive not in labels:
        raise TableError(
            f"--positive {options.positive!r} is none of the classes "
            f"{', '.join(np.unique(labels))}"
        )
    X = table.numbers(names)
    varying = np.ptp(X, axis=0) > 0
    if not varying.any():
        raise TableError("all columns are constant: there is nothing to learn from")
    for name in np.array(names)[~varying]:
        _note(f"column {name} is constant and left out")
    names, X = [n for n, v in zip(names, varying, strict=True) if v], X[:, varying]
    groups = None if options.group is None else table.groups(options.group)
    return names, X, labels, groups


def _parameters(
    model: CSVM, X: np.ndarray, y: np.ndarray, groups: np.ndarray | None,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """C and gamma as given, or else by cross-validation."""
    given = {
        name: getattr(options, name) for name in ("C", "gamma")
        if getattr(options, name) is not None
    }
    if len(given) == 2 or ("C" in given and options.kernel == "linear"):
        return given
    clone(model).set_params(**given)._check_parameters()  # better now than after the tuning
    tuned = tune(
        model, X, y, costs=[given["C"]] if "C" in given else COSTS,
        gammas=[given["gamma"]] if "gamma" in given else None, groups=groups,
        progress=ProgressLine(None if options.quiet else sys.stderr),
    )
    if tuned.score < 0:
        _note("no C and gamma that were tried met the rates on held-out folds; the nearest are "
              "taken")
    return {**tuned.parameters, **given}


def _print_fit(model: CSVM, options: argparse.Namespace) -> None:
    result = model.result_
    if options.json:
        _print_json({
            "model": options.model, "C": model.C, "gamma": model.gamma,
            "status": result.status.value, "reason": result.reason.value,
            "objective": result.objective, "bound": result.bound, "gap": result.gap,
            "nodes": result.nodes, "seconds": result.seconds,
            "support_vectors": len(model.support_), "anchors": len(model.anchors_),
            "given_up": model.given_up_.tolist(), "rates": [asdict(r) for r in model.rates_],
        })
        return
    print(result)
    for rate in model.rates_:
        sign = "<=" if rate.rate.startswith("cost") else ">="
        name = rate.rate.partition("[")[0]
        unit = "anchors" if name in ("tpr", "tnr", "accuracy") else "anchors by their weights"
        print(
            f"{rate.rate} {sign} {rate.asked:g}: {rate.required:g} of {rate.total:g} {unit} "
            f"required, {rate.counted:g} have margin one; {rate.rate} on the anchors is "
            f"{rate.achieved:.4f}"
        )
    print(f"C = {model.C:g}, gamma = {model.gamma}")
    print(f"model written to {options.model}: {len(model.support_)} support vectors")


def _without_missing(table: Table, names: Sequence[str], drop: bool) -> Table:
    if not drop:
        return table
    rows = table.complete_rows(names)
    if not rows.all():
        _note(f"{int((~rows).sum())} of {len(table)} rows with missing values left out")
    if not rows.any():
        raise TableError("no row is complete")
    return table.keep(rows)


def _predict(options: argparse.Namespace) -> int:
    model = _load(options.model)
    table = _without_missing(read_table(options.data), model.columns, options.drop_missing)
    decision = model.model.decision_function(model.points(table))
    classes = model.model.classes_[(decision > 0).astype(int)]
    said, values = classes.tolist(), decision.tolist()
    with (
        nullcontext(sys.stdout) if options.output is None
        else open(options.output, "w", newline="", encoding="utf-8")
    ) as file:
        if options.json:
            file.write(json.dumps({"prediction": said, "decision": values}) + "\n")
        else:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([("prediction", "decision"), *zip(said, values, strict=True)])
    return OK


def _load(path: str) -> TableModel:
    try:
        return TableModel.load(path)
    except (ValueError, OSError) as error:
        raise _ModelFileError(f"--model: {' '.join(str(error).split())}") from error


def _labelled(options: argparse.Namespace) -> tuple[TableModel, Table, np.ndarray]:
    """The model, and the rows with their classes that it is to be held against."""
    model = _load(options.model)
    names = [*model.columns, model.label]
    table = _without_missing(read_table(options.data), names, options.drop_missing)
    labels = np.array(table.labels(model.label))
    unknown = np.setdiff1d(labels, model.model.classes_)
    if unknown.size:
        raise TableError(f"the model does not know the class {unknown[0]!r}")
    return model, table, labels


def _evaluate(options: argparse.Namespace) -> int:
    model, table, labels = _labelled(options)
    predicted = model.model.predict(model.points(table))
    positive = positive_class(model.model, None)
    truth, said = labels == positive, predicted == positive
    rates = {str(rate): (rate >= 1).value(truth, said) for rate in (tpr, tnr, accuracy)}
    asked = _asked(model, table, truth, said)
    if options.json:
        _print_json({"rows": len(table), "positive": str(positive), **rates, "constraints": asked})
        return OK
    print(f"{len(table)} rows, positive class {positive}")
    for name, value in rates.items():
        print(f"{name:9} {value:.4f}")
    for row in asked:
        if row["found"] is None:
            print(f"{row['constraint']} cannot be told: none of these rows is concerned")
            continue
        verdict = "met" if row["met"] else "NOT met"
        print(f"{row['constraint']} is {verdict} on these rows: {row['found']:.4f}")
    return OK


def _groups(model: TableModel, table: Table) -> np.ndarray | None:
    """The groups of the rows, if the model knows of any and the table has them."""
    if model.group is None or model.group not in table.columns:
        return None
    return table.groups(model.group)


def _asked(
    model: TableModel, table: Table, truth: np.ndarray, said: np.ndarray
) -> list[dict[str, Any]]:
    """What these rows say about the constraints that can be asked of new data, group by group."""
    groups = _groups(model, table)
    rows = []
    for constraint in parse_constraints(model.model.constraints):
        if not constraint.on_new_data:
            continue
        if constraint.rate.group is not None and groups is None:
            _note(f"{constraint} cannot be told without the column {model.group}")
            continue
        for one in constraint.each(groups):
            value = one.value(truth, said, groups)
            met = not np.isnan(value) and one.met(truth, said, groups)
            rows.append({
                "constraint": str(one), "rate": str(one.rate), "asked": one.p0,
                "found": None if np.isnan(value) else value, "met": met,
            })
    return rows


def _certify(options: argparse.Namespace) -> int:
    model, table, labels = _labelled(options)
    points = model.points(table)
    _warn_of_seen_rows(model.model, points)
    groups = _groups(model, table) if options.group is None else table.groups(options.group)
    certificate = certify(
        model.model, points, labels, options.constraints or model.model.constraints,
        confidence=options.confidence, sensitive_features=groups,
    )
    if options.json:
        _print_json({
            "rows": len(table), "certified": certificate.certified,
            "confidence": certificate.confidence, "rates": [asdict(r) for r in certificate.rates],
        })
    else:
        print(certificate)
    return OK if certificate.certified else UNCERTIFIED


def _warn_of_seen_rows(model: CSVM, points: np.ndarray) -> None:
    """A certificate from the rows that made the model would be worth nothing."""
    rows = {row.tobytes() for row in points}
    seen = sum(vector.tobytes() in rows for vector in model.support_vectors_)
    if seen:
        _note(f"{seen} of the {len(model.support_vectors_)} support vectors of the model are among "
              "these rows: the certificate is valid only for rows that the fit has not seen")


def _print_json(data: dict[str, Any]) -> None:
    finite = {
        key: None if isinstance(value, float) and not np.isfinite(value) else value
        for key, value in data.items()
    }
    print(json.dumps(finite, indent=2))


# -- explore ----------------------------------------------------------------------------------


def _explore(options: argparse.Namespace) -> int:
    """The page, and beside it what is finished: the same command goes on from there."""
    _, X, labels, groups = _training_rows(options)
    _check_folder("--out", options.out)
    page = Path(options.out)
    kept = page.with_suffix(".jsonl")
    try:
        found = explore(
            X, labels, sensitive_features=groups, pos_label=options.positive,
            folds=options.folds, time_limit=options.time_limit, random_state=options.seed,
            store=kept, progress=ProgressLine(None if options.quiet else sys.stderr),
        )
    except KeyboardInterrupt:
        print(f"csvm: finished folds are kept in {kept}; the same command goes on from there",
              file=sys.stderr)
        raise
    write_page(found, page, title=Path(options.data).name, command=_fit_command(options))
    if options.json:
        _print_json({"page": str(page), **asdict(found)})
        return OK
    for method in found.methods:
        print(f"{method.name}: what was asked, and TPR and TNR on held-out points")
        for point in method.points:
            tp, fn, tn, fp = point.counts[""]
            print(f"  {point.asked:14}  {tp / (tp + fn):.3f}  {tn / (tn + fp):.3f}")
    print(f"page written to {page}")
    return OK


def _fit_command(options: argparse.Namespace) -> str:
    """How to begin the command that fits a model to the same rows."""
    words = ["csvm", "fit", options.data, "--label", options.label]
    for name in ("positive", "group"):
        if getattr(options, name) is not None:
            words += [f"--{name}", getattr(options, name)]
    for name in options.drop:
        words += ["--drop", name]
    return shlex.join(words + ["--drop-missing"] * options.drop_missing)


# -- demo -------------------------------------------------------------------------------------


def _demo(options: argparse.Namespace) -> int:
    """Breast cancer: rates of small and of large tumours on patients not seen before."""
    from .demo import ASKED, compare, draw

    out = sys.stderr if options.json else sys.stdout
    with redirect_stdout(out):
        outcome = compare(options.time_limit)
    drawn = draw(outcome, options.picture)
    result = outcome.model.result_
    if options.json:
        _print_json({
            "asked": list(map(str, ASKED)), "methods": outcome.rates,
            "best_threshold": outcome.best_threshold, "status": result.status.value,
            "gap": result.gap, "seconds": result.seconds,
            "certified": outcome.certificate.certified,
            "certificate": [asdict(rate) for rate in outcome.certificate.rates],
            "picture": options.picture if drawn else None,
        })
    else:
        print("\n" + outcome.story())
        print(
            f"\nPicture: {options.picture}" if drawn
            else "\nNo picture: that needs matplotlib (pip install 'csvm[plots]')"
        )
    return OK if result.optimal else UNPROVEN


if __name__ == "__main__":
    sys.exit(main())
