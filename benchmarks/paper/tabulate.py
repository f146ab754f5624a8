"""The tables of the report, ours beside the paper's printed ones, and the same as records."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..tables import lines
from .algorithm import Findings, rates
from .printed import METHODS, TABLE_1, TABLE_2, TABLE_3, TARGETS
from .remedies import REMEDIES

Pair = tuple[float, float]
"""Mean and standard deviation."""


class Section(NamedTuple):
    """A table with a title and a note."""

    title: str
    note: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def markdown(self) -> str:
        body = "\n".join(lines(self.header, self.rows))
        return f"### {self.title}\n\n{body}\n\n{self.note}\n"

    def html(self) -> str:
        """The same; rows of the paper are marked."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.header)
        rows = "".join(
            "<tr{}>{}</tr>".format(
                ' class="paper"' if row[1].endswith("paper") else "",
                "".join(f"<td>{_bold(cell)}</td>" for cell in row),
            )
            for row in self.rows
        )
        return (
            f'<h2>{html.escape(self.title)}</h2><div class="card"><table><thead><tr>{head}</tr>'
            f'</thead><tbody>{rows}</tbody></table></div>'
            f'<p class="soft">{html.escape(self.note)}</p>'
        )


def _bold(cell: str) -> str:
    text = html.escape(cell)
    return f"<b>{text[2:-2]}</b>" if text.startswith("**") else text


def tables(findings: Sequence[Findings]) -> list[Section]:
    """All tables of a report; table 1 only if wisconsin is among the data sets."""
    first = [_table_1(one) for one in findings if one.data.name == "wisconsin"]
    rest = (_table_2, _table_3, _held, _fits, _chosen)
    return [*first, *(make(findings) for make in rest)]


def summary(one: Findings) -> dict[str, dict[str, Any]]:
    """Per method: mean and standard deviation over the folds, and how often the target was met."""
    found = {}
    for name in (*METHODS, *REMEDIES):
        folds = [rates(fold, name) for fold in one.folds]
        splits = [rates(split, name) for split in one.splits]
        found[name] = {
            **{rate: _pair([r[rate] for r in folds]) for rate in ("tpr", "tnr")},
            "reached": bool(np.mean([r["tpr"] for r in folds]) >= one.p0),
            "folds_met": int(np.sum([r["tpr"] >= one.p0 for r in folds])),
            "splits_met": int(np.sum([r["tpr"] >= one.p0 for r in splits])),
            "split_tpr": float(np.mean([r["tpr"] for r in splits])),
            "split_tnr": float(np.mean([r["tnr"] for r in splits])),
        }
    return found


def records(findings: Sequence[Findings]) -> list[dict[str, Any]]:
    """One per data set and method, for programs: rates, the printed ones, parameters."""
    found = []
    for one in findings:
        name, printed = one.data.name, TABLE_3.get(one.data.name, {})
        for method, mine in summary(one).items():
            paper = printed.get(method, {})
            fixed = one.fixed.get(method, {})
            found.append({
                "dataset": name, "method": method, "target": one.p0,
                "paper_target": TARGETS.get(name, ""), "folds": len(one.folds),
                "splits": len(one.splits),
                **{
                    f"{whose}{rate}_{kind}": pair[place]
                    for whose, source in (("", mine), ("paper_", paper))
                    for rate in ("tpr", "tnr")
                    for pair in [source.get(rate, ("", ""))]
                    for place, kind in enumerate(("mean", "std"))
                },
                **{key: value for key, value in mine.items() if key not in ("tpr", "tnr")},
                **{key: fixed.get(key, "") for key in ("C", "C_pos", "C_neg", "gamma")},
            })
    return found


def searches(findings: Sequence[Findings]) -> list[dict[str, Any]]:
    """One per data set: what its CSVM searches took."""
    found = []
    for one in findings:
        nodes, seconds, gaps = (
            np.array([fit[key] for fit in one.fits]) for key in ("nodes", "fit_seconds", "gap")
        )
        found.append({
            "dataset": one.data.name, "fits": len(one.fits),
            "proven": sum(fit["proven"] for fit in one.fits), "largest_gap": gaps.max(),
            "mean_nodes": nodes.mean(), "most_nodes": nodes.max(), "mean_seconds": seconds.mean(),
            "most_seconds": seconds.max(), "core_minutes": one.seconds / 60,
        })
    return found


def _pair(values: Sequence[float]) -> Pair:
    return float(np.mean(values)), float(np.std(values, ddof=1))


def _cell(pair: Pair) -> str:
    return f"{pair[0]:.3f} ({pair[1]:.3f})"


def _table_1(one: Findings) -> Section:
    ours = summary(one)["SVM"]
    names = {"tnr": "benign, well classified", "tpr": "malign, well classified"}
    return Section(
        "Table 1: SVM with RBF kernel on wisconsin",
        f"Mean (standard deviation) over {len(one.folds)} folds.", ("rate", "ours", "paper"),
        [(text, _cell(ours[rate]), _cell(TABLE_1[rate])) for rate, text in names.items()],
    )


def _table_2(findings: Sequence[Findings]) -> Section:
    rows = []
    for one in findings:
        (n, d), positives = one.data.X.shape, int((one.data.y > 0).sum())
        rows.append((
            one.data.name, str(d), str(n), str(positives), f"{100 * positives / n:.1f} %",
            "{}, {}, {}".format(*TABLE_2.get(one.data.name, ("", "", ""))),
        ))
    return Section(
        "Table 2: the data sets", "The last column: attributes, rows and positives as "
        "printed in the paper.",
        ("data set", "attributes", "rows", "positives", "share", "paper"), rows,
    )


def _table_3(findings: Sequence[Findings]) -> Section:
    rows = []
    for one in findings:
        name, ours = one.data.name, summary(one)
        versions = [("", one.p0, ours)]
        if name in TABLE_3:
            versions.append((", paper", TARGETS[name], TABLE_3[name]))
        for rate in ("tpr", "tnr"):
            for whose, target, found in versions:
                asked = rate == "tpr"
                reached = "yes" if found["CSVM"]["tpr"][0] >= target else "no"
                rows.append((
                    f"**{name}**" if asked and not whose else "", f"{rate.upper()}{whose}",
                    f"{target:.3f}" if asked else "", *(_cell(found[m][rate]) for m in METHODS),
                    reached if asked else "",
                ))
    return Section(
        "Table 3: rates on the validation folds",
        "Mean (standard deviation) over the outer folds. Target is the true positive rate p₀; "
        "the last column says whether CSVM's mean TPR reached it.",
        ("data set", "rate", "target", *METHODS, "reached"), rows,
    )


def _held(findings: Sequence[Findings]) -> Section:
    return Section(
        "Does the rate hold on unseen data?",
        "How often the TPR on the held-out points was at least the target, over the outer folds "
        "and over random splits (70 % to train, 30 % held out); mean rates over the splits.",
        ("data set", "method", "target", "folds that met it", "splits that met it", "TPR", "TNR"),
        [
            (
                f"**{one.data.name}**" if name == METHODS[0] else "", name, f"{one.p0:.3f}",
                f"{found['folds_met']} of {len(one.folds)}",
                f"{found['splits_met']} of {len(one.splits)}", f"{found['split_tpr']:.3f}",
                f"{found['split_tnr']:.3f}",
            )
            for one in findings for name, found in summary(one).items()
        ],
    )


def _fits(findings: Sequence[Findings]) -> Section:
    return Section(
        "The CSVM searches", "Nodes and seconds: mean, largest. The last column is the "
        "work of the whole data set, all methods, summed over cores.",
        ("data set", "CSVM fits", "proven optimal", "largest gap", "nodes", "seconds",
         "core minutes"),
        [
            (
                r["dataset"], str(r["fits"]), f"{100 * r['proven'] / r['fits']:.2f} %",
                f"{100 * r['largest_gap']:.3f} %", f"{r['mean_nodes']:.1f}, {r['most_nodes']}",
                f"{r['mean_seconds']:.3f}, {r['most_seconds']:.1f}", f"{r['core_minutes']:.1f}",
            )
            for r in searches(findings)
        ],
    )


def _chosen(findings: Sequence[Findings]) -> Section:
    return Section(
        "Parameters on the random splits",
        "Those with the best mean criterion over all inner folds. The remedies take the SVM's.",
        ("data set", "method", "parameters"),
        [
            (
                f"**{one.data.name}**" if name == METHODS[0] else "", name,
                ", ".join(f"{key} = 2^{round(np.log2(v))}" for key, v in one.fixed[name].items()),
            )
            for one in findings for name in METHODS
        ],
    )
