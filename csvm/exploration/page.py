"""The page of an exploration: one HTML file that needs nothing else."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..certification import clopper_pearson
from ..rates import Constraint
from .study import CSVMS, Exploration, OperatingPoint

_LEVEL = 0.95


def write_page(
    found: Exploration, path: str | Path, *, title: str = "data", command: str | None = None
) -> Path:
    """Write the page, in which the data have this title; returns its path.

    `command` is the start of the one that fits a model, ``csvm fit data.csv --label y``; without it
    the page shows Python.
    """
    data = {
        "title": title, "rows": found.rows, "positives": found.positives, "folds": found.folds,
        "groups": found.groups, "level": _LEVEL,
        "methods": [
            {
                "name": method.name,
                "points": [_point(found, method.name, point, command) for point in method.points],
            }
            for method in found.methods
        ],
    }
    template = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    # "</" would end the script, whatever it stands for.
    text = template.replace("{{title}}", html.escape(title)).replace(
        "{{data}}", json.dumps(data).replace("</", "<\\/")
    )
    path = Path(path)
    path.write_text(text, encoding="utf-8")
    return path


def _point(
    found: Exploration, method: str, point: OperatingPoint, command: str | None
) -> dict[str, Any]:
    return {
        "asked": point.asked, "own": point.own, "proven": point.proven,
        "command": _command(found, method, point, command),
        "counts": {
            name: {"table": table, "tpr": _share(*table[:2]), "tnr": _share(*table[2:])}
            for name, table in point.counts.items()
        },
    }


def _share(right: int, wrong: int) -> list[float] | None:
    """A rate with its Clopper-Pearson interval; None if there is nothing to count."""
    if right + wrong == 0:
        return None
    n = right + wrong
    return [right / n, *clopper_pearson(right, n, 0.5 * (1.0 - _LEVEL))]


def _command(found: Exploration, method: str, point: OperatingPoint, command: str | None) -> str:
    C, gamma = found.parameters["C"], found.parameters["gamma"]
    rate = Constraint.parse(point.asked)
    if method != CSVMS:
        share = 1.0 - rate.p0 if rate.name == "tpr" else rate.p0
        members = "positive" if rate.name == "tpr" else "~positive"
        return (
            f"svc = make_pipeline(StandardScaler(), SVC(C={C:g}, gamma={gamma:.4g}, "
            f"class_weight='balanced'))\n"
            f"scores = cross_val_predict(svc, X, y, method='decision_function')\n"
            f"threshold = np.quantile(scores[{members}], {share:.4g})\n"
            "FixedThresholdClassifier(svc, threshold=threshold).fit(X, y)"
        )
    if command is None:
        return (
            f"csvm.CSVM(C={C:g}, gamma={gamma:.4g}, constraints=['{rate}'], threshold='none')"
            ".fit(StandardScaler().fit_transform(X), y"
            f"{', sensitive_features=groups' if found.groups else ''})"
        )
    return (
        f"{command} --constraint '{rate}' --C {C:g} --gamma {gamma:.4g} --threshold none "
        "--model model.npz"
    )
