"""Tables and pictures from rows; the Markdown can go into docs/benchmarks.md as it is."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from importlib import metadata
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # files only, on machines without a display too
import matplotlib.pyplot as plt
import numpy as np

from .measures import NODE_SHIFT, SECOND_SHIFT, profile, shifted_mean
from .nodework import Figure
from .peers import PEERS
from .runner import GAP, OURS, Row
from .tables import lines

BEST = "best commercial"
_LIBRARIES = ("numpy", "scipy", "numba", "osqp", "scikit-learn")

Credited = dict[str, dict[str, Row]]
"""Per digest and solver, the row it is credited with."""


def credited(rows: Sequence[Row], measure: str = "seconds") -> Credited:
    """For every instance and solver its best formulation by "seconds" or "nodes".

    Solved comes before open, and of open ones the smaller gap counts. "best commercial" is,
    instance by instance, the best row of all commercial peers.
    """
    table: Credited = {}
    for row in rows:
        if not row.taken:
            continue
        mine = table.setdefault(row.digest, {})
        entries = [row.solver]
        if row.solver in PEERS and not PEERS[row.solver].free:
            entries.append(BEST)
        for name in entries:
            if name not in mine or _merit(row, measure) < _merit(mine[name], measure):
                mine[name] = row
    return table


def _merit(row: Row, measure: str) -> tuple[bool, float]:
    return not row.solved, getattr(row, measure) if row.solved else row.gap


def of_family(table: Credited, family: str) -> Credited:
    return {d: mine for d, mine in table.items() if next(iter(mine.values())).family == family}


def families(table: Credited) -> list[str]:
    return list(dict.fromkeys(row.family for mine in table.values() for row in mine.values()))


def names(table: Credited) -> list[str]:
    """Ours first, then the peers in their usual order, then the best of the commercial ones."""
    present = {name for mine in table.values() for name in mine}
    return [name for name in (OURS, *PEERS, BEST) if name in present]


def family_table(rows: Sequence[Row]) -> list[str]:
    """Solved, means, gaps and integrals per family and solver."""
    header = ("family", "limit (s)", "solver", "took", "solved", "nodes", "seconds",
              "gap of the rest", "integral (s)")
    cells = []
    fast, lean = credited(rows), credited(rows, "nodes")
    for family in families(fast):
        part = of_family(fast, family)
        for name in names(part):
            mine = {digest: row[name] for digest, row in part.items() if name in row}
            nodes = [lean[digest][name].nodes for digest, row in mine.items() if row.solved]
            rest = [row.gap for row in mine.values() if not row.solved]
            times = [row.seconds if row.solved else row.limit for row in mine.values()]
            end_only = not all(row.trajectory for row in mine.values())
            integral = _number(float(np.mean([row.integral for row in mine.values()])))
            cells.append((
                family, _limits(mine.values()), name, f"{len(mine)} of {len(part)}",
                str(len(nodes)), _number(shifted_mean(nodes, NODE_SHIFT)),
                _number(shifted_mean(times, SECOND_SHIFT)),
                _percent(float(np.mean(rest))) if rest else "", integral + " (end only)" * end_only,
            ))
    return lines(header, cells)


def ratio_table(rows: Sequence[Row]) -> list[str]:
    """Our shifted means over a peer's, on the instances that both solve."""
    header = ("family", "peer", "both solve", "our nodes / its", "our seconds / its", "only we",
              "only it")
    cells = []
    fast, lean = credited(rows), credited(rows, "nodes")
    for family in families(fast):
        part = {d: mine for d, mine in of_family(fast, family).items() if OURS in mine}
        for peer in [name for name in names(part) if name != OURS]:
            pairs = {d: (mine[OURS], mine[peer]) for d, mine in part.items() if peer in mine}
            both = [d for d, (a, b) in pairs.items() if a.solved and b.solved]
            nodes = _ratio([(lean[d][OURS].nodes, lean[d][peer].nodes) for d in both], NODE_SHIFT)
            seconds = _ratio(
                [(pairs[d][0].seconds, pairs[d][1].seconds) for d in both], SECOND_SHIFT
            )
            only_we = sum(a.solved and not b.solved for a, b in pairs.values())
            only_it = sum(b.solved and not a.solved for a, b in pairs.values())
            cells.append((family, peer, f"{len(both)} of {len(pairs)}", nodes, seconds,
                          str(only_we), str(only_it)))
    return lines(header, cells)


def _ratio(pairs: Sequence[tuple[float, float]], shift: float) -> str:
    if not pairs:
        return ""
    ours, theirs = (shifted_mean([p[side] for p in pairs], shift) for side in (0, 1))
    return f"{_number(ours)} / {_number(theirs)} = {_number(ours / theirs)}"


def formulation_table(rows: Sequence[Row]) -> list[str]:
    """How each peer did with each formulation of the CSVM."""
    rows = [r for r in rows if r.solver in PEERS and r.formulation != "plain"]
    header = ("peer", "formulation", "ran", "did not run", "solved", "nodes", "seconds")
    cells = []
    for solver, formulation in dict.fromkeys((r.solver, r.formulation) for r in rows):
        mine = [r for r in rows if (r.solver, r.formulation) == (solver, formulation)]
        taken = [r for r in mine if r.taken]
        solved = [r for r in taken if r.solved]
        times = [r.seconds if r.solved else r.limit for r in taken]
        cells.append((
            solver, formulation, str(len(taken)), str(len(mine) - len(taken)), str(len(solved)),
            _number(shifted_mean([r.nodes for r in solved], NODE_SHIFT)),
            _number(shifted_mean(times, SECOND_SHIFT)),
        ))
    return lines(header, cells)


def instance_table(table: Credited) -> list[str]:
    """Every instance with its digest, and every solver's best row."""
    return lines(("instance", "sha-256", "solver", "objective", "gap", "nodes", "seconds"), [
        (
            f"{row.family}: {row.instance}", f"`{digest[:12]}`", f"{name} {row.formulation}",
            f"{row.objective:.8g}", "proven" if row.solved else _percent(row.gap),
            f"{row.nodes:.0f}", f"{row.seconds:.2f}",
        )
        for digest, mine in table.items()
        for name, row in ((n, mine[n]) for n in names({digest: mine}) if n != BEST)
    ])


def refusals(rows: Sequence[Row]) -> list[str]:
    """What was not run or not believed, and why."""
    found = Counter(
        (row.solver, row.status) for row in rows if row.status not in ("optimal", "limit")
    )
    return [f"- {solver}: {status} ({count} runs)" for (solver, status), count in found.items()]


def figure_table(figures: Sequence[Figure]) -> list[str]:
    return lines(("part", "what", "size", "value"), [
        (f.part, f.what, str(f.size), f"{_number(f.value)} {f.unit}") for f in figures
    ])


def _limits(rows: Iterable[Row]) -> str:
    return ", ".join(f"{limit:g}" for limit in sorted({row.limit for row in rows}))


def markdown(
    rows: Sequence[Row], figures: Sequence[Figure], contradictions: Sequence[str]
) -> str:
    """The section for docs/benchmarks.md."""
    table = credited(rows)
    mine = [r for r in rows if r.solver == OURS]
    overhead = ""
    if mine:
        share = sum(r.relaxation_seconds for r in mine) / sum(r.seconds for r in mine)
        overhead = f" Time of csvm outside relaxations: {_percent(1.0 - share)}."
    verdict = "none" if not contradictions else "".join(f"\n  - {c}" for c in contradictions)
    parts = [
        f"## Results of {date.today().isoformat()}", "", *machine(rows), "",
        f"Time limit {_limits(rows)} s, relative gap {GAP:g}, one thread. "
        f"Contradictions between solvers: {verdict}.{overhead}",
        "", "### By family", "",
        f"Shifted geometric means (shifts {NODE_SHIFT:g} nodes and {SECOND_SHIFT:g} s): nodes over "
        "what the solver solved, seconds over all it took with the limit for what stayed open. Of "
        "its formulations a peer is credited with the fastest for seconds and with the one of the "
        "fewest nodes for nodes. Integral: mean primal-dual integral, with an assumed gap of 1 "
        "until the end where the solver tells no bounds on the way (end only).", "",
        *family_table(rows), "", "### Next to each peer", "", *ratio_table(rows), "",
        "The same without `tight`, whose constants come from us:", "",
        *ratio_table([row for row in rows if row.formulation != "tight"]), "",
        "![nodes](nodes.svg)", "![profiles](profiles.svg)", "", "### By formulation", "",
        *formulation_table(rows), "", "### Not run, or not believed", "",
        *(refusals(rows) or ["Nothing."]), "",
        *(["### Kernel and node work", "", *figure_table(figures), "", "![scaling](scaling.svg)",
           ""] if figures else []), "### Every instance", "",
        *instance_table(table), "",
    ]
    return "\n".join(parts)


def machine(rows: Sequence[Row]) -> list[str]:
    """Where, with what, and without what."""
    # Of the rows, not of today: rows kept from an earlier run may be of an earlier version.
    solvers = dict.fromkeys(f"{row.solver} {row.version}" for row in rows)
    libraries = [f"{name} {metadata.version(name)}" for name in _LIBRARIES]
    loads = [row.load for row in rows]
    absent = [
        name if peer.installed else f"{name} (not installed)"
        for name, peer in PEERS.items() if name not in {row.solver for row in rows}
    ]
    return [
        f"- machine: {_processor()}, {os.cpu_count()} cores, {platform.system()}; load average "
        f"(1 is this run alone): median {np.median(loads):.1f}, largest {max(loads):.1f}",
        f"- solvers: {', '.join(solvers)}",
        f"- Python {platform.python_version()}, {', '.join(libraries)}",
        f"- not in this run: {', '.join(absent) or 'no peer'}",
    ]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _number(value: float) -> str:
    if not np.isfinite(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


# -- pictures -------------------------------------------------------------------------------------


def pictures(rows: Sequence[Row], figures: Sequence[Figure], folder: Path) -> None:
    """nodes, profiles and scaling, as SVG and as PNG."""
    drawings: dict[str, Callable[[plt.Axes], None]] = {
        "nodes": lambda axes: draw_nodes(axes, credited(rows, "nodes")),
        "profiles": lambda axes: draw_profiles(axes, credited(rows)),
    }
    if figures:
        drawings["scaling"] = lambda axes: draw_scaling(axes, figures)
    for name, draw in drawings.items():
        figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
        draw(axes)
        for ending in ("svg", "png"):
            figure.savefig(folder / f"{name}.{ending}", dpi=150)
        plt.close(figure)


def draw_nodes(axes: plt.Axes, table: Credited) -> None:
    """Our nodes against those of each peer; hollow where the peer (or we) stopped at the limit."""
    largest = 10.0
    for number, peer in enumerate(n for n in names(table) if n not in (OURS, BEST)):
        pairs = [(m[OURS], m[peer]) for m in table.values() if OURS in m and peer in m]
        for closed in (True, False):
            mine = [(a.nodes, b.nodes) for a, b in pairs if (a.solved and b.solved) == closed]
            if not mine:
                continue
            x, y = np.array(mine).T
            largest = max(largest, np.nanmax(x), np.nanmax(y))
            axes.plot(x, y, "o", color=f"C{number}", ms=5, alpha=0.8,
                      mfc=f"C{number}" if closed else "none",
                      label=peer if closed else f"{peer}, one at the limit")
    axes.plot([1, largest], [1, largest], color="grey", lw=0.8)
    axes.set(xscale="log", yscale="log", xlabel="nodes, csvm", ylabel="nodes, peer",
             title="Nodes: above the line csvm needs fewer")
    if axes.get_legend_handles_labels()[0]:  # there may be no peer
        axes.legend(fontsize=7)


def draw_profiles(axes: plt.Axes, table: Credited) -> None:
    """Share of what a solver took that it solved within a factor of the fastest."""
    seconds = {
        name: [_seconds_or_not(mine.get(name)) for mine in table.values()]
        for name in names(table) if name != BEST
    }
    factors = np.geomspace(1.0, 1e4, 200)
    for name, shares in profile(seconds, factors.tolist()).items():
        width = 2.2 if name == OURS else 1.0
        taken = int((~np.isnan(seconds[name])).sum())
        axes.plot(factors, shares, drawstyle="steps-post", lw=width,
                  label=f"{name} ({taken} of {len(table)} instances)")
    axes.set(xscale="log", ylim=(0, 1.02), xlabel="factor of the fastest solver's time",
             ylabel="share solved of the instances it took", title="Performance profile (seconds)")
    axes.legend(fontsize=7)


def _seconds_or_not(row: Row | None) -> float:
    """Infinite where it was not solved, NaN where it was not taken."""
    if row is None:
        return np.nan
    return row.seconds if row.solved else np.inf


def draw_scaling(axes: plt.Axes, figures: Sequence[Figure]) -> None:
    """Seconds of whole searches against each size in units of its smallest."""
    series: dict[str, list[tuple[int, float]]] = {}
    for f in figures:
        if f.part == "scaling" and f.unit == "s":
            series.setdefault(f.what.split(" (")[0], []).append((f.size, f.value))
    for what, points in series.items():
        sizes, values = np.array(points, dtype=float).T
        axes.plot(sizes / sizes[0], values, "o-", label=f"{what} (from {sizes[0]:.0f})")
    axes.set(xscale="log", yscale="log", xlabel="size, as a multiple of the smallest",
             ylabel="seconds", title="How a search grows (one size varied at a time)")
    axes.legend(fontsize=8)
