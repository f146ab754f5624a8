"""The report: Markdown, CSV, and one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from csvm import tpr
from csvm.certification import fewest_trials

from ..tables import as_csv
from . import pictures
from .algorithm import Findings
from .protocol import Protocol
from .tabulate import Section, records, searches, summary, tables

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


def write_report(outcomes: Sequence[Findings], directory: str | Path) -> Path:
    """Write report.html, whose path is returned, report.md, methods.csv and searches.csv."""
    directory = Path(directory)
    found = tables(outcomes)
    for name, rows in (("methods", records(outcomes)), ("searches", searches(outcomes))):
        (directory / f"{name}.csv").write_text(as_csv(rows), encoding="utf-8")
    protocols = "\n\n".join(_protocols(outcomes)) + "\n"
    text = "\n".join([protocols, *_facts(outcomes), _WHICH, "", *(t.markdown() for t in found)])
    (directory / "report.md").write_text(text, encoding="utf-8")
    page = directory / "report.html"
    page.write_text(_page(outcomes, found), encoding="utf-8")
    return page


def _protocols(outcomes: Sequence[Findings]) -> list[str]:
    """What was run, in words; data sets with the same protocol together."""
    groups: dict[Protocol, list[Findings]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.protocol, []).append(outcome)
    return [_settings(protocol, group) for protocol, group in groups.items()]


def _settings(protocol: Protocol, outcomes: Sequence[Findings]) -> str:
    source = (
        "the SVM's mean TPR on the outer folds plus "
        f"{protocol.delta:g}" if outcomes[0].target == "estimated" else "printed in the paper"
    )
    exponents = sorted(protocol.exponents)
    step = "…" if exponents == list(range(exponents[0], exponents[-1] + 1)) else ", "
    grid = step.join(map(str, (exponents[0], exponents[-1]) if step == "…" else exponents))
    folds = ", ".join(
        f"{o.data.name} {len(o.folds)} × {protocol.inner or o.data.folds}" for o in outcomes
    )
    return (
        f"Protocol {protocol.name}: folds (outer × inner) {folds}; C and γ from 2^{{{grid}}}, "
        f"the C of a CSVM per {protocol.costs}; target {source}; α = {protocol.alpha:g}; at most "
        f"{protocol.time_limit:g} s for a CSVM fit, proven at a relative gap of {protocol.gap:g}; "
        f"{protocol.splits} random splits."
    )


def _facts(outcomes: Sequence[Findings]) -> list[str]:
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
            f"- {outcome.data.name}: TPR ≥ {outcome.p0:.3f} on unseen points held in so many of "
            f"{len(outcome.splits)} random splits: {', '.join(parts)}. {_needed(outcome)}"
        )
    return [*sentences, ""]


def _needed(outcome: Findings) -> str:
    """Whether the guaranteed one can promise anything with so many positives."""
    needed = fewest_trials(tpr >= outcome.p0, 1.0 - outcome.protocol.alpha)
    there = int((outcome.data.y > 0).sum())
    if needed <= 0.35 * there:  # at most half of those in a split, which has 70 % of all
        return f"A guarantee needs {needed:.0f} positives held back, and there are {there} in all."
    return (
        f"A guarantee needs {needed:.0f} positives held back: with {there} in all there are too "
        "few, and the guaranteed one promises nothing here."
    )


def _page(outcomes: Sequence[Findings], found: Sequence[Section]) -> str:
    *before, unseen, fits, chosen = found
    links = "".join(
        f'<a href="#{o.data.name}">{html.escape(o.data.name)}</a>' for o in outcomes
    )
    facts = "".join(f"<li>{html.escape(fact[2:])}</li>" for fact in _facts(outcomes) if fact)
    parts = [
        "<h1>Constrained SVM: the paper's experiments</h1>",
        *(f'<p class="soft">{html.escape(text)}</p>' for text in _protocols(outcomes)),
        f"<nav>{links}</nav>",
        *(table.html() for table in (*before, unseen)),
        f"<ul>{facts}</ul><p>{html.escape(_WHICH)}</p>",
        _figure(
            pictures.held_picture(list(outcomes)),
            "Up: the target held more often on unseen points. Right: more negatives kept. "
            "A method that is up and right of another is better on both.",
        ),
        fits.html(), chosen.html(),
        *(_dataset(outcome) for outcome in outcomes),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The paper's experiments</title><style>{_STYLE}</style></head><body><main>"
        + "\n".join(parts) + "</main></body></html>\n"
    )


def _figure(svg: str, caption: str) -> str:
    # As an image of its own: the names inside two drawings would clash in one page.
    data = base64.b64encode(svg.encode()).decode()
    text = html.escape(caption)
    return (
        f'<figure class="card"><img src="data:image/svg+xml;base64,{data}" alt="{text}">'
        f"<figcaption>{text}</figcaption></figure>"
    )


def _dataset(outcome: Findings) -> str:
    name = outcome.data.name
    return "".join([
        f'<h2 id="{name}">{html.escape(name)}</h2>',
        _figure(
            pictures.roc_picture(outcome),
            "ROC over the validation parts of all outer folds, pooled; marks: where the methods "
            "work. Right: the same marks with 95 % confidence intervals of both rates.",
        ),
        _figure(
            pictures.search_picture(outcome),
            "All CSVM fits of this data set; the dashed line is the gap at which a fit counts as "
            "proven.",
        ),
    ])
