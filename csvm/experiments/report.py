"""The report: Markdown, CSV, and one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from . import pictures
from .algorithm import Outcome
from .protocol import Protocol
from .tabulate import Table, summary, tables

__all__ = ["write_report"]

_WHICH = (
    "Which to take: for one rate that must hold on new data, the guaranteed one, a threshold "
    "set on positives that the fit has not seen; it says when there are too few of them. For rates "
    "on known points, with proof, for chosen cases, and for several rates at once where no "
    "threshold has them all, CSVM; then certify it on new points. CSVM's own rate is a promise "
    "about its anchors only."
)

_STYLE = """
:root { --ink: #1c2430; --soft: #5b6675; --line: #dde3ea; --accent: #0b5c8f; }
* { box-sizing: border-box; }
body { margin: 0; background: #f4f6f8; color: var(--ink);
       font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 .6rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .3rem; }
p { max-width: 46rem; } .soft, figcaption { color: var(--soft); font-size: .92rem; }
nav a { color: var(--accent); margin-right: 1rem; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 10px;
        padding: 1rem 1.25rem; margin: .8rem 0 1.2rem; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem;
        font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .38rem .7rem; border-bottom: 1px solid var(--line);
         white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } tr.paper td { color: var(--soft); }
tr:last-child td { border-bottom: 0; }
figure { margin: 0; } img { max-width: 100%; height: auto; display: block; }
@media print { body { background: #fff; } .card { break-inside: avoid; } }
"""


def write_report(outcomes: Sequence[Outcome], directory: str | Path) -> Path:
    """Write report.html, report.md and a CSV file per table.

    Parameters
    ----------
    outcomes : sequence of Outcome
    directory : path

    Returns
    -------
    Path
        The HTML page.
    """
    directory = Path(directory)
    found = tables(outcomes)
    for table in found:
        (directory / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
    protocols = "\n\n".join(_protocols(outcomes)) + "\n"
    text = "\n".join([protocols, *_facts(outcomes), _WHICH, "", *(t.markdown() for t in found)])
    (directory / "report.md").write_text(text, encoding="utf-8")
    page = directory / "report.html"
    page.write_text(_page(outcomes, found), encoding="utf-8")
    return page


def _protocols(outcomes: Sequence[Outcome]) -> list[str]:
    """What was run, in words; data sets with the same protocol together."""
    groups: dict[Protocol, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.protocol, []).append(outcome)
    return [_settings(protocol, group) for protocol, group in groups.items()]


def _settings(protocol: Protocol, outcomes: Sequence[Outcome]) -> str:
    source = (
        "the SVM's mean TPR on the outer folds plus "
        f"{protocol.delta:g}" if outcomes[0].target == "estimated" else "printed in the paper"
    )
    exponents = sorted(protocol.exponents)
    step = "…" if exponents == list(range(exponents[0], exponents[-1] + 1)) else ", "
    grid = step.join(map(str, (exponents[0], exponents[-1]) if step == "…" else exponents))
    folds = ", ".join(
        f"{o.sample.name} {len(o.folds)} × {protocol.inner or o.sample.folds}" for o in outcomes
    )
    return (
        f"Protocol {protocol.name}: folds (outer × inner) {folds}; C and γ from 2^{{{grid}}}, "
        f"the C of a CSVM per {protocol.costs}; target {source}; α = {protocol.alpha:g}; at most "
        f"{protocol.time_limit:g} s for a CSVM fit, proven at a relative gap of {protocol.gap:g}; "
        f"{protocol.splits} random splits."
    )


def _facts(outcomes: Sequence[Outcome]) -> list[str]:
    """One sentence per data set: what CSVM and the usual remedies gave on unseen data."""
    sentences = []
    for outcome in outcomes:
        found = summary(outcome)
        parts = [
            f"{name} {found[name]['splits_met']} (TNR {found[name]['split_tnr']:.2f})"
            for name in (
                "CSVM", "sliding beta", "tuned threshold", "NP umbrella", "guaranteed", "SVM"
            )
        ]
        sentences.append(
            f"- {outcome.sample.name}: TPR ≥ {outcome.p0:.3f} on unseen points held in so many of "
            f"{len(outcome.splits)} random splits: {', '.join(parts)}."
        )
    return [*sentences, ""]


def _page(outcomes: Sequence[Outcome], found: Sequence[Table]) -> str:
    by_name = {table.name: table for table in found}
    links = "".join(
        f'<a href="#{o.sample.name}">{html.escape(o.sample.name)}</a>' for o in outcomes
    )
    facts = "".join(f"<li>{html.escape(fact[2:])}</li>" for fact in _facts(outcomes) if fact)
    parts = [
        "<h1>Constrained SVM: the paper's experiments</h1>",
        *(f'<p class="soft">{html.escape(text)}</p>' for text in _protocols(outcomes)),
        f"<nav>{links}</nav>",
        *(_section(by_name[name]) for name in ("table1", "table2", "table3") if name in by_name),
        _section(by_name["unseen"]), f"<ul>{facts}</ul><p>{html.escape(_WHICH)}</p>",
        _figure(
            pictures.held_picture(list(outcomes)),
            "Up: the target held more often on unseen points. Right: more negatives kept. "
            "A method that is up and right of another is better on both.",
        ),
        _section(by_name["fits"]), _section(by_name["chosen"]),
        *(_dataset(outcome) for outcome in outcomes),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>csvm paper</title><style>{_STYLE}</style></head><body><main>"
        + "\n".join(parts) + "</main></body></html>\n"
    )


def _section(table: Table) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = []
    for row in table.rows:
        kind = ' class="paper"' if row[1].endswith("paper") else ""
        cells = "".join(f"<td>{_bold(cell)}</td>" for cell in row)
        rows.append(f"<tr{kind}>{cells}</tr>")
    return (
        f'<h2>{html.escape(table.title)}</h2><div class="card"><table><thead><tr>{head}</tr>'
        f'</thead><tbody>{"".join(rows)}</tbody></table></div>'
        f'<p class="soft">{html.escape(table.note)}</p>'
    )


def _bold(cell: str) -> str:
    text = html.escape(cell)
    return f"<b>{text[2:-2]}</b>" if text.startswith("**") else text


def _figure(svg: str, caption: str) -> str:
    # As an image of its own: the names inside two drawings would clash in one page.
    data = base64.b64encode(svg.encode()).decode()
    text = html.escape(caption)
    return (
        f'<figure class="card"><img src="data:image/svg+xml;base64,{data}" alt="{text}">'
        f"<figcaption>{text}</figcaption></figure>"
    )


def _dataset(outcome: Outcome) -> str:
    name = outcome.sample.name
    return "".join([
        f'<h2 id="{name}">{html.escape(name)}</h2>',
        _figure(
            pictures.rates_picture(outcome),
            "Rates on the validation part of every outer fold; the bar is the mean, the dashed "
            "line the target.",
        ),
        _figure(
            pictures.roc_picture(outcome),
            "ROC over the validation parts of all outer folds, pooled; marks: mean rates at which "
            "the methods work. Right: the corner around them.",
        ),
        _figure(
            pictures.search_picture(outcome),
            "All CSVM fits of this data set; the dashed line is the gap at which a fit counts as "
            "proven.",
        ),
    ])
