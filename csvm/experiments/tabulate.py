"""The tables of the report, ours beside the paper's printed ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .algorithm import Outcome, rates
from .peers import PEERS
from .printed import METHODS, TABLE_1, TABLE_2, TABLE_3, TARGETS

__all__ = ["Table", "summary", "tables"]


@dataclass(frozen=True)
class Table:
    """A table for people, and the same as records for programs.

    Parameters
    ----------
    name : str
        Of the CSV file.
    title, note : str
    header : tuple of str
    rows : sequence of tuple of str
    records : list of dict
    """

    name: str
    title: str
    note: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    records: list[dict[str, Any]]

    def markdown(self) -> str:
        """Title, table and note."""
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return f"### {self.title}\n\n{body}\n\n{self.note}\n"

    def csv(self) -> str:
        """The records."""
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(self.records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        return buffer.getvalue()


def tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """All tables of a report; table 1 only if wisconsin is among the data sets."""
    found = [_table_2(outcomes), _table_3(outcomes), _held(outcomes), _fits(outcomes)]
    first = [_table_1(o) for o in outcomes if o.sample.name == "wisconsin"]
    return [*first, *found, _chosen(outcomes)]


def summary(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Per method: mean and standard deviation over the folds, and how often the target was met."""
    found = {}
    for name in (*METHODS, *PEERS):
        folds = [rates(fold, name) for fold in outcome.folds]
        splits = [rates(split, name) for split in outcome.splits]
        found[name] = {
            **{rate: _mean_and_deviation([r[rate] for r in folds]) for rate in ("tpr", "tnr")},
            "reached": bool(np.mean([r["tpr"] for r in folds]) >= outcome.p0),
            "folds_met": int(np.sum([r["tpr"] >= outcome.p0 for r in folds])),
            "splits_met": int(np.sum([r["tpr"] >= outcome.p0 for r in splits])),
            "split_tpr": float(np.mean([r["tpr"] for r in splits])),
            "split_tnr": float(np.mean([r["tnr"] for r in splits])),
        }
    return found


def _mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1))


def _cell(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.3f} ({pair[1]:.3f})"


def _table_1(outcome: Outcome) -> Table:
    ours = summary(outcome)["SVM"]
    names = {"tnr": "benign, well classified", "tpr": "malign, well classified"}
    return Table(
        "table1", "Table 1: SVM with RBF kernel on wisconsin",
        f"Mean (standard deviation) over {len(outcome.folds)} folds.",
        ("rate", "ours", "paper"),
        [(text, _cell(ours[rate]), _cell(TABLE_1[rate])) for rate, text in names.items()],
        [
            {"rate": rate, "mean": ours[rate][0], "std": ours[rate][1],
             "paper_mean": TABLE_1[rate][0], "paper_std": TABLE_1[rate][1]}
            for rate in names
        ],
    )


def _table_2(outcomes: Sequence[Outcome]) -> Table:
    rows, records = [], []
    for outcome in outcomes:
        sample = outcome.sample
        ours = (sample.X.shape[1], len(sample.y), int((sample.y > 0).sum()))
        paper = TABLE_2.get(sample.name)
        rows.append((
            sample.name, *map(str, ours), f"{100 * ours[2] / ours[1]:.1f} %",
            "" if paper is None else "{}, {}, {}".format(*paper),
        ))
        records.append({
            "dataset": sample.name, "attributes": ours[0], "rows": ours[1], "positives": ours[2],
            **{f"paper_{key}": paper[k] if paper else ""
               for k, key in enumerate(("attributes", "rows", "positives"))},
        })
    return Table(
        "table2", "Table 2: the data sets", "The last column: attributes, rows and positives as "
        "printed in the paper.",
        ("data set", "attributes", "rows", "positives", "share", "paper"), rows, records,
    )


def _table_3(outcomes: Sequence[Outcome]) -> Table:
    rows, records = [], []
    for outcome in outcomes:
        name, ours = outcome.sample.name, summary(outcome)
        paper = TABLE_3.get(name)
        reached = "yes" if ours["CSVM"]["reached"] else "no"
        for rate in ("tpr", "tnr"):
            asked = rate == "tpr"
            rows.append((
                f"**{name}**" if asked else "", rate.upper(),
                f"{outcome.p0:.3f}" if asked else "",
                *(_cell(ours[m][rate]) for m in METHODS), reached if asked else "",
            ))
            if paper is not None:
                theirs = "yes" if paper["CSVM"]["tpr"][0] >= TARGETS[name] else "no"
                rows.append((
                    "", f"{rate.upper()}, paper", f"{TARGETS[name]:.3f}" if asked else "",
                    *(_cell(paper[m][rate]) for m in METHODS), theirs if asked else "",
                ))
            records += [
                _record_3(outcome, method, rate, ours[method], paper) for method in METHODS
            ]
    return Table(
        "table3", "Table 3: rates on the validation folds",
        "Mean (standard deviation) over the outer folds. Target is the true positive rate p₀; "
        "the last column says whether CSVM's mean TPR reached it.",
        ("data set", "rate", "target", *METHODS, "reached"), rows, records,
    )


def _record_3(
    outcome: Outcome, method: str, rate: str, ours: dict[str, Any],
    paper: dict[str, dict[str, tuple[float, float]]] | None,
) -> dict[str, Any]:
    theirs: tuple[Any, Any] = paper[method][rate] if paper else ("", "")
    fits = outcome.fits if method == "CSVM" else []
    return {
        "dataset": outcome.sample.name, "method": method, "rate": rate, "target": outcome.p0,
        "paper_target": TARGETS.get(outcome.sample.name, ""), "mean": ours[rate][0],
        "std": ours[rate][1], "paper_mean": theirs[0], "paper_std": theirs[1],
        "reached": ours["reached"],
        "proven": np.mean([fit["proven"] for fit in fits]) if fits else "",
    }


def _held(outcomes: Sequence[Outcome]) -> Table:
    rows, records = [], []
    for outcome in outcomes:
        folds, splits = len(outcome.folds), len(outcome.splits)
        for name, found in summary(outcome).items():
            rows.append((
                f"**{outcome.sample.name}**" if name == METHODS[0] else "", name,
                f"{outcome.p0:.3f}", f"{found['folds_met']} of {folds}",
                f"{found['splits_met']} of {splits}", f"{found['split_tpr']:.3f}",
                f"{found['split_tnr']:.3f}",
            ))
            records.append({
                "dataset": outcome.sample.name, "method": name, "target": outcome.p0,
                "folds": folds, "splits": splits,
                **{key: found[key]
                   for key in ("folds_met", "splits_met", "split_tpr", "split_tnr")},
            })
    return Table(
        "unseen", "Does the rate hold on unseen data?",
        "How often the TPR on the held-out points was at least the target, over the outer folds "
        "and over random splits (70 % to train, 30 % held out); mean rates over the splits.",
        ("data set", "method", "target", "folds that met it", "splits that met it", "TPR", "TNR"),
        rows, records,
    )


def _fits(outcomes: Sequence[Outcome]) -> Table:
    rows, records = [], []
    for outcome in outcomes:
        fits = outcome.fits
        proven = sum(fit["proven"] for fit in fits)
        nodes, seconds = ([fit[key] for fit in fits] for key in ("nodes", "fit_seconds"))
        worst = max(fit["gap"] for fit in fits)
        rows.append((
            outcome.sample.name, str(len(fits)), f"{100 * proven / len(fits):.2f} %",
            f"{100 * worst:.3f} %", f"{np.mean(nodes):.1f}, {max(nodes)}",
            f"{np.mean(seconds):.3f}, {max(seconds):.1f}", f"{outcome.seconds / 60:.1f}",
        ))
        records.append({
            "dataset": outcome.sample.name, "fits": len(fits), "proven": proven,
            "largest_gap": worst, "mean_nodes": np.mean(nodes), "most_nodes": max(nodes),
            "mean_seconds": np.mean(seconds), "most_seconds": max(seconds),
            "core_minutes": outcome.seconds / 60,
        })
    return Table(
        "fits", "The CSVM searches", "Nodes and seconds: mean, largest. The last column is the "
        "work of the whole data set, all methods, summed over cores.",
        ("data set", "CSVM fits", "proven optimal", "largest gap", "nodes", "seconds",
         "core minutes"), rows, records,
    )


def _chosen(outcomes: Sequence[Outcome]) -> Table:
    rows, records = [], []
    for outcome in outcomes:
        for name in METHODS:
            fixed = outcome.fixed[name]
            rows.append((
                f"**{outcome.sample.name}**" if name == METHODS[0] else "", name,
                ", ".join(f"{key} = 2^{round(np.log2(value))}" for key, value in fixed.items()),
            ))
            records.append({
                "dataset": outcome.sample.name, "method": name, "C": fixed.get("C", ""),
                **{key: fixed.get(key, "") for key in ("C_pos", "C_neg", "gamma")},
            })
    return Table(
        "chosen", "Parameters on the random splits",
        "Those with the best mean criterion over all inner folds. The peers take the SVM's.",
        ("data set", "method", "parameters"), rows, records,
    )
