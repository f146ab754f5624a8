"""Pictures of the report, as SVG text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.metrics import roc_curve

from .algorithm import Outcome, rates
from .peers import PEERS
from .printed import METHODS

__all__ = ["held_picture", "rates_picture", "roc_picture", "search_picture"]

# Distinct also for people who do not see red and green, and in print.
_COLOURS = dict(zip(
    (*METHODS, *PEERS),
    ("#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#999999", "#CC79A7", "#009E73",
     "#000000"),
    strict=True,
))
_MARKS = dict(zip((*METHODS, *PEERS), "osD^vPX*", strict=True))
_INK, _TARGET = "#222222", "#117733"


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context({
        "font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
        "axes.edgecolor": "#888888", "axes.grid": True, "grid.color": "#e6e6e6",
        "axes.axisbelow": True, "svg.hashsalt": "csvm", "legend.frameon": False,
    }):
        yield


def _svg(figure: Any) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def rates_picture(outcome: Outcome) -> str:
    """TPR and TNR of every outer fold and method, and the target."""
    names = (*METHODS, *PEERS)
    with _style():
        figure, axes = _figure(1, 2, (10, 3.4))
        for ax, rate in zip(axes[0], ("tpr", "tnr"), strict=True):
            for place, name in enumerate(names):
                values = np.array([rates(fold, name)[rate] for fold in outcome.folds])
                ax.plot(
                    values, place + _spread(values), _MARKS[name], color=_COLOURS[name],
                    markersize=6, alpha=0.75, markeredgecolor="white",
                )
                ax.plot([values.mean()] * 2, [place - 0.35, place + 0.35], color=_INK, linewidth=2)
            if rate == "tpr":
                ax.axvline(outcome.p0, color=_TARGET, linestyle="dashed")
                ax.text(
                    outcome.p0, -0.65, f"target {outcome.p0:.3f} ", color=_TARGET, ha="right",
                    fontsize="small",
                )
            ax.set(yticks=range(len(names)), yticklabels=names, xlabel=rate.upper())
            ax.set_ylim(len(names) - 0.5, -1.0)
        axes[0][1].set_yticklabels([])
        return _svg(figure)


def _spread(values: np.ndarray) -> np.ndarray:
    """Offsets that keep equal values apart."""
    offsets = np.zeros(len(values))
    for value in np.unique(values.round(6)):
        same = np.flatnonzero(values.round(6) == value)
        offsets[same] = (np.arange(len(same)) - (len(same) - 1) / 2) * min(0.12, 0.7 / len(same))
    return offsets


def roc_picture(outcome: Outcome) -> str:
    """ROC of the paper's methods over all outer folds, and where they work."""
    labels = np.concatenate([fold["labels"] for fold in outcome.folds]) > 0
    with _style():
        figure, axes = _figure(1, 2, (10, 4.2))
        for ax in axes[0]:
            for name in METHODS:
                scores = np.concatenate([fold[name]["scores"] for fold in outcome.folds])
                fpr, tpr, _ = roc_curve(labels, scores)
                ax.plot(fpr, tpr, color=_COLOURS[name], linewidth=1.3, alpha=0.8)
                found = [rates(fold, name) for fold in outcome.folds]
                ax.plot(
                    1.0 - np.mean([r["tnr"] for r in found]), np.mean([r["tpr"] for r in found]),
                    _MARKS[name], color=_COLOURS[name], markersize=10, markeredgecolor="white",
                    label=name, zorder=4,
                )
            ax.axhline(outcome.p0, color=_TARGET, linestyle="dashed", linewidth=1.2)
            ax.set(xlabel="false positive rate (1 - TNR)", ylabel="true positive rate")
        axes[0][0].set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes[0][0].legend(loc="lower right")
        _zoom(axes[0][1], outcome)
        return _svg(figure)


def _zoom(ax: Any, outcome: Outcome) -> None:
    """The corner where the methods work."""
    found = [rates(fold, name) for fold in outcome.folds for name in METHODS]
    right = 1.2 * max(1.0 - r["tnr"] for r in found)
    low = min([outcome.p0, *(r["tpr"] for r in found)])
    pad = 0.08 * (1.0 - low) + 0.005
    ax.set(xlim=(-0.02 * right, min(1.02, right + 0.02)), ylim=(low - pad, 1.0 + 0.5 * pad))


def search_picture(outcome: Outcome) -> str:
    """How far the CSVM searches went: nodes, gap, seconds."""
    nodes = np.array([fit["nodes"] for fit in outcome.fits], dtype=float)
    gaps = np.array([fit["gap"] for fit in outcome.fits])
    seconds = np.array([fit["fit_seconds"] for fit in outcome.fits])
    colour = _COLOURS["CSVM"]
    with _style():
        figure, axes = _figure(1, 3, (10, 2.8))
        columns = (
            ("nodes of the search", np.maximum(nodes, 1.0)),
            ("relative gap at the end", np.maximum(gaps, 1e-8)),
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
        return _svg(figure)


def held_picture(outcomes: list[Outcome]) -> str:
    """How often each method met the target on random splits, and the TNR it kept."""
    names = (*METHODS, *PEERS)
    with _style():
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
            ax.set(title=f"{outcome.sample.name}, TPR ≥ {outcome.p0:.3f}", xlabel="mean TNR")
            ax.title.set_fontsize("medium")
            ax.set_ylim(-0.05, 1.05)
        for ax in axes[:, 0]:
            ax.set_ylabel("splits that met the target")
        handles, texts = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, texts, loc="outside lower center", ncols=4)
        return _svg(figure)
