"""The demonstration: rates of two groups at once, which no threshold of an SVM reaches.

Large tumours of the breast cancer data are mostly malignant and small ones mostly benign. A line
through two measurements, size and concavity, that is right about most of them leans on the size: it
misses small malignant tumours and suspects large benign ones. Moving it helps one kind and
hurts the other.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from . import datasets
from .certification import Certificate, certify
from .estimator import CSVM
from .rates import Constraint, tnr, tpr

ASKED = (tpr["*"] >= 0.65, tnr["*"] >= 0.65)

_COLUMNS = [3, 6]  # mean area, mean concavity
_SMALL = 650.0
_NEEDS_GROUP = "a threshold per size*"
_COLOURS = {"SVM": "#666666", "its best threshold": "#CC79A7", _NEEDS_GROUP: "#56B4E9",
            "CSVM": "#009E73"}
_BELOW = dict(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.12))  # covers nothing


@dataclass(frozen=True)
class Outcome:
    """What was found on tumours held out; X, y and sizes are theirs, in the units of the data."""

    rates: dict[str, dict[str, float]]  # per method those of every group, as asked
    best_threshold: float  # the worst rate of the SVM's threshold that is best for these tumours
    model: CSVM
    certificate: Certificate
    X: np.ndarray
    y: np.ndarray
    sizes: np.ndarray
    lines: dict[str, tuple[float, float, float]]  # a x + b y + c = 0, per method without groups

    def story(self) -> str:
        """All of it as text."""
        counts = [
            f"{np.sum((self.sizes == size) & (self.y == label))} {size} {kind}"
            for size in ("large", "small") for label, kind in ((1, "malignant"), (-1, "benign"))
        ]
        columns = list(self.rates["CSVM"])
        asked = min(c.p0 for c in ASKED)
        lines = [
            "Straight lines through two measurements of tumours, mean area and mean concavity.",
            f"Small is an area below {_SMALL:g}. Asked of both sizes: "
            f"{' and '.join(map(str, ASKED))}.",
            f"Held out: {len(self.y)} tumours, {', '.join(counts)}.\n",
            f"{'':24}" + "".join(f"{name:>12}" for name in columns) + f"{'worst':>9}",
        ]
        for name, found in self.rates.items():
            cells = "".join(f"{found[c]:12.3f}" for c in columns)
            lines.append(f"{name:24}{cells}{min(found.values()):9.3f}")
        lines += ["* must be told the size to predict; the others draw one line.", ""]
        verb = "Some" if self.best_threshold >= asked else "No"
        lines += [
            f"{verb} threshold of the SVM reaches {asked:g} everywhere on the tumours held out: "
            f"the best of all,\nchosen with their labels, leaves one rate at "
            f"{self.best_threshold:.3f}.",
            f"CSVM has what was asked on its anchors ({self.model.result_.status.value}); on the "
            f"tumours held out its worst rate is {min(self.rates['CSVM'].values()):.3f}.",
            "\nIs that more than luck? csvm.certify on the tumours held out:",
            str(self.certificate),
        ]
        return "\n".join(lines)


def compare(time_limit: float = 30.0, seed: int = 0, verbose: int = 1) -> Outcome:
    """Draw the lines on 60 % of the tumours, by the seed, and look at the others."""
    data = datasets.load("wisconsin")
    X, sizes = data.X[:, _COLUMNS], np.where(data.X[:, _COLUMNS[0]] < _SMALL, "small", "large")
    cells = np.char.add(sizes, data.y.astype(str))
    fit, new = train_test_split(
        np.arange(len(sizes)), test_size=0.4, stratify=cells, random_state=seed
    )
    scaler = StandardScaler().fit(X[fit])
    Z, Z_new = scaler.transform(X[fit]), scaler.transform(X[new])
    y, y_new = data.y[fit], data.y[new]
    svm = SVC(kernel="linear", class_weight="balanced")
    folds = StratifiedKFold(5, shuffle=True, random_state=seed).split(Z, cells[fit])
    scores = cross_val_predict(svm, Z, y, cv=list(folds), method="decision_function")
    svm.fit(Z, y)
    csvm = CSVM(
        kernel="linear", constraints=ASKED, threshold="none", random_state=seed
    )
    csvm.set_params(time_limit=time_limit, verbose=verbose)
    csvm.fit(Z, y, sensitive_features=sizes[fit])
    new_scores = svm.decision_function(Z_new)
    one, _ = _best_threshold(scores, y, sizes[fit])
    each = {
        size: _best_threshold(*(v[sizes[fit] == size] for v in (scores, y, sizes[fit])))[0]
        for size in ("large", "small")
    }
    said = {
        "SVM": new_scores > 0, "its best threshold": new_scores >= one,
        _NEEDS_GROUP: new_scores >= np.array([each[size] for size in sizes[new]]),
        "CSVM": csvm.decision_function(Z_new) > 0,
    }
    return Outcome(
        {name: _rates(y_new, called, sizes[new]) for name, called in said.items()},
        _best_threshold(new_scores, y_new, sizes[new])[1], csvm,
        certify(csvm, Z_new, y_new, ASKED, sensitive_features=sizes[new]), X[new], y_new,
        sizes[new],
        {
            "SVM": _line(svm, scaler, 0.0), "its best threshold": _line(svm, scaler, one),
            "CSVM": _line(csvm, scaler, 0.0),
        },
    )


def _rates(y: np.ndarray, called: np.ndarray, sizes: np.ndarray) -> dict[str, float]:
    asked: list[Constraint] = [one for c in ASKED for one in c.each(sizes)]
    return {str(one.rate): one.value(y, called, sizes) for one in asked}


def _best_threshold(scores: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """The threshold whose worst rate is best, and that rate."""
    worst = {t: min(_rates(y, scores >= t, sizes).values()) for t in np.unique(scores)}
    best = max(worst, key=lambda t: worst[t])
    return float(best), worst[best]


def _line(model: Any, scaler: StandardScaler, threshold: float) -> tuple[float, float, float]:
    """Where f = threshold, in the units of the data."""
    a, b = model.coef_[0] / scaler.scale_
    c = float(model.intercept_[0]) - threshold - np.dot([a, b], scaler.mean_)
    return float(a), float(b), float(c)


def draw(outcome: Outcome, path: str) -> bool:
    """Write the picture: the lines, and the rates; False if matplotlib is not there."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    plane, chart = figure.subplots(1, 2, width_ratios=[1.25, 1.0])
    _draw_plane(outcome, plane)
    _draw_rates(outcome, chart)
    figure.savefig(path, dpi=150)
    return True


def _draw_plane(outcome: Outcome, ax: Any) -> None:
    for label, kind, colour in ((-1, "benign", "#0072B2"), (1, "malignant", "#D55E00")):
        points = outcome.X[outcome.y == label]
        ax.scatter(*points.T, s=14, c=colour, alpha=0.7, linewidths=0, label=kind)
    limits, (low, high) = ax.get_xlim(), ax.get_ylim()
    for name, (a, b, c) in outcome.lines.items():
        point = -c * np.array([a, b]) / (a * a + b * b)
        ax.axline(point, np.add(point, (-b, a)), color=_COLOURS[name], linewidth=2, label=name)
    ax.axvline(_SMALL, color="#999999", linestyle="dotted", linewidth=1)
    top = dict(va="top", color="#666666", transform=ax.get_xaxis_transform())
    ax.text(_SMALL, 0.98, " large", **top)
    ax.text(_SMALL, 0.98, "small ", ha="right", **top)
    ax.set(xlabel="mean area", ylabel="mean concavity", xlim=limits, ylim=(low, high),
           title="Tumours held out")
    ax.legend(**_BELOW, ncols=3)


def _draw_rates(outcome: Outcome, ax: Any) -> None:
    names = list(outcome.rates["CSVM"])
    for index, (method, found) in enumerate(outcome.rates.items()):
        places = np.arange(len(names)) + 0.2 * (index - 1.5)
        ax.bar(places, [found[n] for n in names], 0.18, color=_COLOURS[method], label=method)
    ax.axhline(min(c.p0 for c in ASKED), color="#222222", linestyle="dashed", linewidth=1)
    ax.set_xticks(np.arange(len(names)), names)
    ax.set(ylim=(0, 1), title="Rates there; dashed: asked")
    ax.legend(**_BELOW, ncols=2)
