"""Pictures of fitted classifiers; needs matplotlib (``pip install csvm[plots]``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.metrics import roc_curve

from .certification import check_share, clopper_pearson
from .labels import Labels
from .rates import Constraint, parse_constraints, tnr, tpr

__all__ = ["cross", "decision_regions", "operating_points", "roc"]

# Distinct also for people who do not see red and green, and in print.
_NEGATIVE, _POSITIVE, _INK, _ASKED = "#0072B2", "#D55E00", "#222222", "#009E73"
_METHODS = ("o", "s", "^", "D", "v", "P")
_COLOURS = ("#D55E00", "#0072B2", "#222222", "#E69F00", "#56B4E9", "#CC79A7")


def decision_regions(model: Any, X: Any, y: Any, *, ax: Any = None, resolution: int = 200) -> Any:
    """Draw where a `csvm.CSVM` on two features decides for which class.

    Training points are small, anchors are large; anchors given up are crossed out. The lines are
    f = 0 (solid) and the margins f = 1 and f = -1 (dashed).

    Parameters
    ----------
    model : CSVM
        Fitted on `X` and `y`.
    X : array or DataFrame (n, 2)
    y : array (n,)
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.
    resolution : int
        Points per axis at which f is evaluated.

    Returns
    -------
    matplotlib axes
    """
    points = np.asarray(X, dtype=float)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"decision regions need two features, got shape {points.shape}")
    ax = _axes(ax)
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.08 * np.maximum(high - low, 1e-12)
    horizontal = np.linspace(low[0] - pad[0], high[0] + pad[0], resolution)
    vertical = np.linspace(low[1] - pad[1], high[1] + pad[1], resolution)
    mesh = np.column_stack([a.ravel() for a in np.meshgrid(horizontal, vertical)])
    coded = Labels.of(np.asarray(y), model.pos_label)
    f = coded.orientation * model.decision_function(_like(X, mesh)).reshape(resolution, resolution)
    ax.contourf(
        horizontal, vertical, f, levels=[-np.inf, 0.0, np.inf], colors=[_NEGATIVE, _POSITIVE],
        alpha=0.12,
    )
    ax.contour(
        horizontal, vertical, f, levels=[-1.0, 0.0, 1.0], colors=_INK, linewidths=[0.8, 1.6, 0.8],
        linestyles=["dashed", "solid", "dashed"],
    )
    is_anchor = np.isin(np.arange(len(points)), model.anchors_)
    for positive, colour in ((False, _NEGATIVE), (True, _POSITIVE)):
        name = model.classes_[int(positive == (coded.orientation > 0))]
        for anchor, size in ((False, 10), (True, 34)):
            members = (coded.signs > 0) == positive
            members &= is_anchor == anchor
            ax.scatter(
                *points[members].T, s=size, c=colour, edgecolors="white" if anchor else "none",
                linewidths=0.6, label=f"{name}, {'anchors' if anchor else 'training'}", zorder=3,
            )
    ax.scatter(
        *points[model.given_up_].T, s=90, marker="x", c=_INK, linewidths=1.6,
        label="anchors given up", zorder=4,
    )
    names = getattr(X, "columns", ("feature 1", "feature 2"))
    ax.set(xlabel=str(names[0]), ylabel=str(names[1]))
    ax.legend(fontsize="small", framealpha=0.9)
    return ax


def roc(
    models: Mapping[str, Any], X: Any, y: Any, *, pos_label: Any = None,
    constraints: str | Constraint | Iterable[str | Constraint] = (), ax: Any = None,
) -> Any:
    """Draw the ROC curve of each classifier, the point it works at, and what was asked.

    Parameters
    ----------
    models : mapping of name to fitted classifier
        Each with `predict` and `decision_function`.
    X, y
        Points not used for fitting, and their labels.
    pos_label : optional
        The positive class; by default the greater label.
    constraints : optional
        Bounds on ``tpr`` and ``tnr`` of all points are drawn; the region that meets them is shaded.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    ax = _axes(ax)
    coded = Labels.of(np.asarray(y), pos_label)
    positive = coded.signs > 0
    label = coded.classes[int(coded.orientation > 0)]
    _shade(ax, constraints)
    for index, (name, model) in enumerate(models.items()):
        score = coded.orientation * model.decision_function(X)
        false, true, _ = roc_curve(positive, score)
        chosen = np.asarray(model.predict(X)) == label
        (line,) = ax.plot(false, true, linewidth=1.2, alpha=0.8)
        ax.plot(
            chosen[~positive].mean(), chosen[positive].mean(), _METHODS[index % len(_METHODS)],
            color=line.get_color(), markersize=9, markeredgecolor="white", label=name, zorder=4,
        )
    ax.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="dotted")
    ax.set(
        xlabel="false positive rate (1 - TNR)", ylabel="true positive rate", xlim=(-0.01, 1.01),
        ylim=(-0.01, 1.01), aspect="equal",
    )
    ax.legend(loc="lower right", fontsize="small")
    return ax


def operating_points(
    models: Mapping[str, Any], X: Any, y: Any, *, pos_label: Any = None,
    constraints: str | Constraint | Iterable[str | Constraint] = (), confidence: float = 0.95,
    ax: Any = None,
) -> Any:
    """Draw where each classifier works, with confidence intervals of both rates.

    The bars are Clopper-Pearson intervals, one for each rate by itself.

    Parameters
    ----------
    models : mapping of name to fitted classifier
        Each with `predict`.
    X, y
        Points not used for fitting, and their labels.
    pos_label, constraints
        As for `roc`.
    confidence : float
        Of each interval.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    check_share("confidence", confidence)
    ax = _axes(ax)
    coded = Labels.of(np.asarray(y), pos_label)
    positive = coded.signs > 0
    label = coded.classes[int(coded.orientation > 0)]
    ends = [_shade(ax, constraints)]
    for index, (name, model) in enumerate(models.items()):
        chosen = np.asarray(model.predict(X)) == label
        ends.append(cross(
            ax, (int(chosen[~positive].sum()), int((~positive).sum())),
            (int(chosen[positive].sum()), int(positive.sum())), confidence,
            color=_COLOURS[index % 6], marker=_METHODS[index % 6], label=name,
        ))
    right, low = max(end[0] for end in ends if end[0] < 1.0), min(end[1] for end in ends)
    ax.set(
        xlabel="false positive rate (1 - TNR)", ylabel="true positive rate",
        xlim=(-0.02 * right, 1.06 * right), ylim=(max(low - 0.06 * (1.0 - low), 0.0), 1.005),
    )
    ax.legend(loc="lower right", fontsize="small", framealpha=0.9)
    return ax


def _shade(
    ax: Any, constraints: str | Constraint | Iterable[str | Constraint]
) -> tuple[float, float]:
    """Draw what is asked of all points; the largest FPR and the least TPR of it."""
    floor, ceiling = 0.0, 1.0
    for constraint in parse_constraints(constraints):
        if constraint.rate == tpr:
            floor = constraint.p0
            ax.axhline(floor, color=_ASKED, linestyle="dashed", linewidth=1.2)
        elif constraint.rate == tnr:
            ceiling = 1.0 - constraint.p0
            ax.axvline(ceiling, color=_ASKED, linestyle="dashed", linewidth=1.2)
    if floor > 0.0 or ceiling < 1.0:
        ax.fill_between(
            [0.0, ceiling], floor, 1.0, color=_ASKED, alpha=0.12, linewidth=0, label="asked for"
        )
    return ceiling, floor or 1.0


def cross(
    ax: Any, false: tuple[int, int], true: tuple[int, int], confidence: float = 0.95, **style: Any
) -> tuple[float, float]:
    """Draw an operating point with Clopper-Pearson intervals, and return their worst ends.

    Parameters
    ----------
    ax : matplotlib axes
    false, true : (int, int)
        Negatives and positives that are called positive, and of how many.
    confidence : float
    **style
        Of the mark: color, marker, label.
    """
    tail = 0.5 * (1.0 - confidence)
    x, (left, right) = false[0] / false[1], clopper_pearson(*false, tail)
    y, (low, top) = true[0] / true[1], clopper_pearson(*true, tail)
    ax.errorbar(
        x, y, xerr=[[x - left], [right - x]], yerr=[[y - low], [top - y]], markersize=9,
        markeredgecolor="white", linewidth=1.4, capsize=3, alpha=0.9, zorder=4, **style,
    )
    return right, low


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'csvm[plots]'") from None
    return plt.subplots(figsize=(6, 5), layout="constrained")[1]


def _like(X: Any, mesh: np.ndarray) -> Any:
    """The mesh as a DataFrame if X is one, since the model remembers the names."""
    return type(X)(mesh, columns=X.columns) if hasattr(X, "columns") else mesh
