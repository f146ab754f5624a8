"""Pictures of the report, as SVG text."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn.metrics import roc_curve

from csvm.plots import cross

from .algorithm import Findings, rates
from .printed import METHODS
from .remedies import REMEDIES

# Distinct also for people who do not see red and green, and in print.
_COLOURS = dict(zip(
    (*METHODS, *REMEDIES),
    ("#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#999999", "#CC79A7", "#009E73",
     "#000000"),
    strict=True,
))
_MARKS = dict(zip((*METHODS, *REMEDIES), "osD^vPX*", strict=True))
_TARGET = "#117733"


_STYLE = {
    "font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": "#888888", "axes.grid": True, "grid.color": "#e6e6e6",
    "axes.axisbelow": True, "svg.hashsalt": "csvm", "legend.frameon": False,
}


def _picture(draw: Callable[..., Any]) -> Callable[..., str]:
    """What the function draws, in one style and as text."""

    @wraps(draw)
    def drawn(findings: Any) -> str:
        import matplotlib as mpl

        buffer = io.StringIO()
        with mpl.rc_context(_STYLE):
            draw(findings).savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()

    return drawn


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


@_picture
def roc_picture(outcome: Findings) -> Any:
    """ROC of the paper's methods over all outer folds, and where all methods work."""
    labels = np.concatenate([fold["labels"] for fold in outcome.folds]) > 0
    figure, ((left, right),) = _figure(1, 2, (10, 4.2))
    for name in METHODS:
        scores = np.concatenate([fold[name]["scores"] for fold in outcome.folds])
        fpr, tpr, _ = roc_curve(labels, scores)
        left.plot(fpr, tpr, color=_COLOURS[name], linewidth=1.3, alpha=0.8)
    ends = [(0.0, outcome.p0)]
    positives, negatives = int(labels.sum()), int((~labels).sum())
    for name in (*METHODS, *REMEDIES):
        tp, tn = (sum(fold[name][kind] for fold in outcome.folds) for kind in ("tp", "tn"))
        style = {"color": _COLOURS[name], "marker": _MARKS[name]}
        left.plot(1.0 - tn / negatives, tp / positives, markersize=8, markeredgecolor="white",
                  zorder=4, **style)
        ends.append(cross(right, (negatives - tn, negatives), (tp, positives), label=name,
                          linestyle="none", **style))
    for ax in (left, right):
        ax.axhline(outcome.p0, color=_TARGET, linestyle="dashed", linewidth=1.2)
        ax.set(xlabel="false positive rate (1 - TNR)", ylabel="true positive rate")
    left.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    most, least = max(end[0] for end in ends), min(end[1] for end in ends)
    right.set(xlim=(-0.02 * most, 1.05 * most), ylim=(least - 0.05 * (1.0 - least), 1.005))
    figure.legend(loc="outside lower center", ncols=4)
    return figure


@_picture
def search_picture(outcome: Findings) -> Any:
    """How far the CSVM searches went: nodes, gap, seconds."""
    nodes = np.array([fit["nodes"] for fit in outcome.fits], dtype=float)
    gaps = np.array([fit["gap"] for fit in outcome.fits])
    seconds = np.array([fit["fit_seconds"] for fit in outcome.fits])
    colour = _COLOURS["CSVM"]
    figure, axes = _figure(1, 3, (10, 2.8))
    columns = (
        ("nodes of the search", np.maximum(nodes, 1.0)),
        ("relative gap at the end", np.clip(gaps, 1e-8, 1.0)),
        ("seconds of the fit", np.maximum(seconds, 1e-4)),
    )
    for ax, (text, values) in zip(axes[0], columns, strict=True):
        if values.max() > 10.0 * values.min():
            ax.hist(values, np.geomspace(values.min(), values.max(), 31), color=colour)
            ax.set_xscale("log")
        else:  # a logarithmic axis would have no ticks to read
            ax.hist(values, 31, range=(0.0, 1.1 * values.max()), color=colour)
        ax.set(yscale="log", xlabel=text)
    axes[0][0].set_ylabel("CSVM fits")
    gap = outcome.protocol.gap
    axes[0][1].axvline(gap, color=_TARGET, linestyle="dashed")
    return figure


@_picture
def held_picture(outcomes: list[Findings]) -> Any:
    """How often each method met the target on random splits, and the TNR it kept."""
    names = (*METHODS, *REMEDIES)
    columns = min(3, len(outcomes))
    rows = -(-len(outcomes) // columns)
    figure, axes = _figure(rows, columns, (10, 3.0 * rows + 0.8))
    for ax in axes.ravel()[len(outcomes) :]:
        ax.set_axis_off()
    for ax, outcome in zip(axes.ravel(), outcomes, strict=False):
        for name in names:
            found = [rates(split, name) for split in outcome.splits]
            met = np.mean([r["tpr"] >= outcome.p0 for r in found])
            ax.plot(
                np.mean([r["tnr"] for r in found]), met, _MARKS[name], color=_COLOURS[name],
                markersize=9, markeredgecolor="white", label=name,
            )
        ax.set(title=f"{outcome.data.name}, TPR ≥ {outcome.p0:.3f}", xlabel="mean TNR")
        ax.title.set_fontsize("medium")
        ax.set_ylim(-0.05, 1.05)
    for ax in axes[:, 0]:
        ax.set_ylabel("splits that met the target")
    handles, texts = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=4)
    return figure
