"""Pictures of a search: the gap over time, and the tree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .result import SOURCES, Result, TraceRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinct also for people who do not see red and green, and in print.
_BOUND, _INCUMBENT, _SHADE = "#0072B2", "#D55E00", "#e3e7ec"

_FATES = {
    "split": ("o", "#8a95a1", "split"),
    "open": ("o", "#E69F00", "children still open"),
    "pruned": ("o", "#9fc9e6", "dropped unsolved"),
    "cut off": ("s", "#0072B2", "cut off by its bound"),
    "infeasible": ("X", "#222222", "infeasible"),
    "leaf": ("*", "#009E73", "solved"),
}
"""Mark, colour and name of what became of a node; the later are drawn above."""


def _new_axes(width: float, height: float) -> Axes:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'csvm[plots]'") from error
    _, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    return ax


def plot_gap(result: Result, ax: Axes | None = None, *, maximize: bool = False) -> Axes:
    """Draw bound and incumbent over time, with the gap between them shaded.

    Parameters
    ----------
    result : Result
        What `bnb.solve` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    maximize : bool
        Show the negated values: the problem was a maximisation before it was given to the engine.

    Returns
    -------
    matplotlib Axes
    """
    if not result.trace:
        raise ValueError("the result has no trace to draw")
    ax = _new_axes(7.5, 4.4) if ax is None else ax
    sign = -1.0 if maximize else 1.0
    time = np.array([row.seconds for row in result.trace])
    bound = sign * _finite([row.bound for row in result.trace])
    best = sign * _finite([row.objective for row in result.trace])
    ax.fill_between(time, bound, best, step="post", color=_SHADE, linewidth=0, label="gap")
    ax.step(time, best, where="post", color=_INCUMBENT, linewidth=2, label="incumbent")
    ax.step(time, bound, where="post", color=_BOUND, linewidth=2, label="bound")
    low, high = _heights(bound, best, sign)
    ax.set_ylim(low, high)
    ax.set_xlim(0.0, max(time[-1], 1e-3) * 1.02)
    _mark_incumbents(ax, [row for row in result.trace if row.source], sign)
    ax.set(xlabel="seconds", ylabel="objective")
    gap = f", gap {100 * result.gap:.3g} %" if np.isfinite(result.gap) else ""
    ax.set_title(f"{result.status.value}{gap}, {result.nodes:,} nodes", loc="left")
    _finish(ax)
    return ax


def _finish(ax: Axes) -> None:
    """No frame, and the legend beside the picture, where it hides nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _finite(values: list[float]) -> np.ndarray:
    """Infinities as gaps in the line."""
    array = np.array(values, dtype=float)
    array[~np.isfinite(array)] = np.nan
    return array


def _heights(bound: np.ndarray, best: np.ndarray, sign: float) -> tuple[float, float]:
    """Limits of the vertical axis: poor first incumbents must not press the rest flat."""
    known = sign * np.concatenate([bound, best])
    known = known[np.isfinite(known)]
    if not known.size:
        return -1.0, 1.0
    low, high = known.min(), known.max()
    solutions = sign * best[np.isfinite(best)]
    if solutions.size and np.isfinite(bound).any():
        span = max(solutions[-1] - low, 1e-6 * abs(solutions[-1]), 1e-12)
        high = min(high, solutions[-1] + 2.0 * span)
    margin = 0.08 * max(high - low, 1e-6 * max(abs(high), 1e-6))
    ends = sign * np.array([low - margin, high + margin])
    return float(ends.min()), float(ends.max())


def _mark_incumbents(ax: Axes, rows: list[TraceRow], sign: float) -> None:
    """A dot for every incumbent, and the letter of its source where there is room for one."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    last: np.ndarray | None = None
    # From the best backwards: when letters would overlap, the better incumbent keeps its own.
    for row in reversed(rows):
        height = sign * row.objective
        if not low <= height <= high:  # poor first ones are outside the picture
            continue
        ax.plot(row.seconds, height, "o", color=_INCUMBENT, markersize=5, clip_on=False)
        here = np.array([(row.seconds - left) / (right - left), (height - low) / (high - low)])
        if last is not None and np.all(np.abs(here - last) < (0.025, 0.06)):
            continue
        last = here
        ax.annotate(row.source, (row.seconds, height), xytext=(4, 4), fontsize=9, clip_on=False,
                    textcoords="offset points", color=_INCUMBENT, annotation_clip=False)
    for letter in sorted({row.source for row in rows}):
        ax.plot([], [], "o", color=_INCUMBENT, markersize=5,
                label=f"{letter}: {SOURCES.get(letter, 'other')}")


def plot_criteria(
    k: np.ndarray, criteria: Mapping[str, np.ndarray], ax: Axes | None = None
) -> Axes:
    """Draw information criteria over the number of columns, the smallest of each marked.

    Parameters
    ----------
    k : ndarray of int
    criteria : mapping from name to ndarray
        One value per k.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    ax = _new_axes(6.0, 4.0) if ax is None else ax
    order = np.argsort(k)
    for (name, values), colour in zip(criteria.items(), (_BOUND, _INCUMBENT), strict=False):
        best = int(np.argmin(values))
        ax.plot(k[order], values[order], marker="o", markersize=4, color=colour, label=name)
        ax.plot(k[best], values[best], marker="o", markersize=11, color=colour, fillstyle="none")
    ax.set_xlabel("non-zero coefficients")
    ax.locator_params(axis="x", integer=True)
    ax.legend(frameon=False)
    return ax


def plot_tree(result: Result, ax: Axes | None = None, *, height: str = "bound") -> Axes:
    """Draw the search tree, every node coloured by what became of it.

    Parameters
    ----------
    result : Result
        From ``bnb.solve(..., keep_tree=True)``.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    height : {"bound", "depth"}
        What places the nodes vertically. By bound, the tree grows from the root's bound up to
        the incumbent; nodes far above it, and infeasible ones, are at the upper edge.

    Returns
    -------
    matplotlib Axes
    """
    if height not in ("bound", "depth"):
        raise ValueError(f"height must be 'bound' or 'depth', got {height!r}")
    if not result.tree:
        raise ValueError("the result has no tree to draw; solve with keep_tree=True")
    ax = _new_axes(9.0, 5.0) if ax is None else ax
    parent = {number: above for number, above, _, _ in result.tree}
    across, depth = _layout(parent)
    if height == "bound":
        up = _bound_heights(result)
    else:
        up = {number: float(level) for number, level in depth.items()}
        ax.invert_yaxis()
        ax.locator_params(axis="y", integer=True)
    _draw_edges(ax, parent, across, up)
    _draw_nodes(ax, result, across, up)
    if height == "bound" and np.isfinite(result.objective):
        ax.axhline(result.objective, color=_INCUMBENT, linewidth=1.5, linestyle="--", zorder=0,
                   label="incumbent")
    ax.set_ylabel("bound of the node" if height == "bound" else height)
    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)
    ax.set_title(f"{len(result.tree):,} nodes, {result.status.value}", loc="left")
    _finish(ax)
    return ax


def _layout(parent: dict[int, int]) -> tuple[dict[int, float], dict[int, int]]:
    """Leaves side by side, every other node above the middle of its children."""
    children: dict[int, list[int]] = {}
    roots = []
    for number in sorted(parent):
        if parent[number] in parent:
            children.setdefault(parent[number], []).append(number)
        else:  # the root; after a resume, also nodes whose parents were closed before
            roots.append(number)
    depth = dict.fromkeys(roots, 0)
    order, stack = [], list(reversed(roots))
    while stack:
        number = stack.pop()
        order.append(number)
        for child in reversed(children.get(number, [])):
            depth[child] = depth[number] + 1
            stack.append(child)
    across: dict[int, float] = {}
    leaves = [number for number in order if number not in children]
    across.update({number: float(place) for place, number in enumerate(leaves)})
    for number in reversed(order):  # children come before their parents
        if number in children:
            below = [across[child] for child in children[number]]
            across[number] = sum(below) / len(below)
    return across, depth


def _bound_heights(result: Result) -> dict[int, float]:
    """Bounds; those far beyond the rest are put at the ends of the picture."""
    known = [bound for _, _, bound, _ in result.tree if np.isfinite(bound)]
    known += [result.objective] if np.isfinite(result.objective) else []
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if low < result.objective < np.inf:
        high = min(high, result.objective + 0.5 * (result.objective - low))
    margin = 0.08 * (high - low) or 1e-6 * max(1.0, abs(high))
    return {
        number: float(np.clip(bound, low - margin, high + margin))
        for number, _, bound, _ in result.tree
    }


def _draw_edges(
    ax: Axes, parent: dict[int, int], across: dict[int, float], up: dict[int, float]
) -> None:
    from matplotlib.collections import LineCollection

    lines = [
        [(across[above], up[above]), (across[number], up[number])]
        for number, above in parent.items() if above in parent
    ]
    width = float(np.clip(60.0 / len(parent), 0.4, 1.2))
    ax.add_collection(LineCollection(lines, colors="#c3cad2", linewidths=width, zorder=1))


def _draw_nodes(ax: Axes, result: Result, across: dict[int, float], up: dict[int, float]) -> None:
    size = float(np.clip(6000.0 / len(result.tree), 5.0, 70.0))
    parents = {above for _, above, _, _ in result.tree}
    groups: dict[str, list[int]] = {}
    for number, _, bound, fate in result.tree:
        if bound == np.inf:
            fate = "infeasible"
        elif fate == "split" and number not in parents:
            fate = "open"
        groups.setdefault(fate, []).append(number)
    for place, (fate, (mark, colour, name)) in enumerate(_FATES.items()):
        numbers = groups.get(fate, [])
        if numbers:
            ax.scatter([across[k] for k in numbers], [up[k] for k in numbers], marker=mark,
                       s=2.5 * size if mark == "*" else size, c=colour, edgecolors="white",
                       linewidths=0.5 if size > 20 else 0.0, zorder=2 + place,
                       label=f"{name} ({len(numbers):,})")


def check_format(path: str | Path) -> None:
    """Refuse a picture that could not be written, before the work is done."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'csvm[plots]'") from error
    known = FigureCanvasBase.get_supported_filetypes()
    if Path(path).suffix.lstrip(".").lower() not in known:
        raise ValueError(f"{path}: the name must end in one of .{', .'.join(sorted(known))}")


def save(ax: Any, path: str | Path) -> None:
    """Write the figure of `ax` to a file."""
    ax.figure.savefig(path, dpi=150)
