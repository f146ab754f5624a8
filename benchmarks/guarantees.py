"""How often rates hold on new data, and what is kept, with `csvm.GuaranteedClassifier` and others.

    python -m benchmarks.guarantees [--draws 200] [--first SEED] [--seconds 600] [--out FILE]

Synthetic data: `make_classification`, 20 % positives, flip_y = 0.03, n = 500 and 2000 points to
fit, 100,000 to measure the true rates: all their positives and 20,000 of their negatives. The six
data sets: 60 % to fit (at most 1000 points), 40 % to measure, whose own sampling error is then in
"held". Three questions: one rate, two rates, and one rate in each of two groups (for which the
first feature is cut in two at its median, or at its mean where nothing lies above that).

Next to it, fitted to the same points and with the same points held back: the umbrella rule on a
class-weighted SVC, tuned on the points of the fit, with Bonferroni's correction for several rates;
and MAPIE's BinaryClassificationController on the same SVC.

A draw counts as held if the method certifies nothing or its claim is true; "at least" is 95 % less
twice the standard error of so many draws, and "ours more" the difference in TNR on the same draws.
Finished draws are kept in the file of --out; --seconds ends the run in time, and the same command
goes on.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.datasets import make_classification
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import csvm
from csvm.candidates import Sample, scores
from csvm.kernels import rbf
from csvm.rates import Constraint, parse_constraints
from csvm.sequences import umbrella_threshold
from csvm.store import Store

from . import command_line
from .tables import lines

QUESTIONS = {
    "one rate": ["tpr>=0.9"],
    "two rates": ["tpr>=0.75", "tnr>=0.75"],
    "two groups": ["tpr[high]>=0.8", "tpr[low]>=0.8"],
}
SIZES = (500, 2000)
TEST = 100_000
NEGATIVES = 20_000  # of those, to measure: about as many as there are positives
MOST = 1000  # points of a data set to fit
CONFIDENCE = 0.95
MEANS = ("claims", "held", "tpr", "tnr")
OURS, UMBRELLA, MAPIE = "GuaranteedClassifier", "umbrella SVC", "MAPIE"


def draw(source: str, seed: int) -> tuple[Sample, Sample]:
    """Points to fit and to measure."""
    if source.isdigit():
        n = int(source)
        X, y = make_classification(n + TEST, weights=[0.8], flip_y=0.03, random_state=seed)
        fit, new = np.arange(n), np.arange(n, n + TEST)
        new = np.append(new[y[new] > 0], new[y[new] == 0][:NEGATIVES])
    else:
        X, y = csvm.datasets.load(source)
        fit, new = train_test_split(
            np.arange(len(y)), test_size=0.4, stratify=y, random_state=seed
        )
        fit = fit[:MOST]
    first = X[fit, 0]
    cut = np.median(first) if first.max() > np.median(first) else first.mean()
    groups = np.where(X[:, 0] > cut, "high", "low")
    everybody = Sample(X, y, y > 0, groups)
    return everybody.take(fit), everybody.take(new)


def svc_scores(scaler: StandardScaler, machine: Any, X: np.ndarray) -> np.ndarray:
    """Scores of an SVC or CSVM with an RBF kernel, which libsvm takes ten times as long for."""
    parts = [
        rbf(scaler.transform(part), machine.support_vectors_, gamma=machine.gamma)
        @ machine.dual_coef_[0]
        for part in np.array_split(X, max(1, len(X) // 10_000))
    ]
    return np.concatenate(parts) + machine.intercept_[0]


def both_scores(model: Any, rest: Sample, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, Pipeline]:
    """Scores of the classifier that was taken, and of the tuned SVC on the same points, fitted."""
    if isinstance(model, VotingClassifier):
        scaler, calibrated = model.named_estimators_["svc"]
        (inside,) = calibrated.calibrated_classifiers_
        found = svc_scores(scaler, inside.estimator, X)
        trees = model.named_estimators_["trees"].predict_proba(X)[:, 1]
        both = 0.5 * (inside.calibrators[0].predict(found) + trees)
        return both, found, make_pipeline(scaler, inside.estimator)
    scaler, machine = model
    svc = machine
    if isinstance(machine, csvm.CSVM):  # with the parameters of the SVC
        svc = SVC(C=machine.C, gamma=machine.gamma, class_weight="balanced")
        svc.fit(scaler.transform(rest.X), rest.y)
    own, other = (svc_scores(scaler, one, X) for one in (machine, svc))
    return own, other, make_pipeline(scaler, svc)


def outcome(
    constraints: Sequence[Constraint], new: Sample, predicted: np.ndarray, claims: bool
) -> dict[str, Any]:
    """What a method keeps on new points."""
    met = all(c.met(new.positive, predicted, new.groups) for c in constraints)
    return {
        "claims": bool(claims), "held": bool(met or not claims),
        "tpr": float(predicted[new.positive].mean()),
        "tnr": float((~predicted[~new.positive]).mean()),
    }


def run(source: str, question: str, seed: int) -> dict[str, Any]:
    """All methods on one draw."""
    fit, new = draw(source, seed)
    constraints = parse_constraints(QUESTIONS[question])
    begin = time.perf_counter()
    model = csvm.GuaranteedClassifier(
        constraints=constraints, confidence=CONFIDENCE, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", csvm.NotCertifiedWarning)
        model.fit(fit.X, fit.y, sensitive_features=fit.groups)
    seconds = time.perf_counter() - begin
    rest = fit.take(np.setdiff1d(np.arange(len(fit)), model.calibration_))
    own, other, svc = both_scores(model.estimator_, rest, new.X)
    predicted = own > model.threshold_
    assert np.array_equal(predicted[:100], model.predict(new.X[:100]) == model.classes_[1])
    results = {
        OURS: outcome(constraints, new, predicted, model.certificate_.certified)
        | {"chosen": type(model.estimator_).__name__, "seconds": seconds}
    }
    grid = np.unique(np.quantile(scores(svc, rest.X, 1), np.linspace(0, 0.99, 100)))
    results |= peers(constraints, svc, fit.take(model.calibration_), new, other, grid)
    return results


def peers(
    constraints: Sequence[Constraint], svc: Pipeline, back: Sample, new: Sample, on_new: np.ndarray,
    grid: np.ndarray,
) -> dict[str, Any]:
    """The umbrella rule and MAPIE's controller (with thresholds of a grid), on one tuned SVC."""
    on_back = scores(svc, back.X, 1)
    threshold, claims = corrected_umbrella(constraints, back, on_back)
    found = {UMBRELLA: outcome(constraints, new, on_new > threshold, claims)}
    if importlib.util.find_spec("mapie") and not any(c.rate.group for c in constraints):
        at = controlled(constraints, back, on_back, grid)
        predicted = on_new >= (grid[0] if at is None else at)
        found[MAPIE] = outcome(constraints, new, predicted, at is not None)
    return found


def corrected_umbrella(
    constraints: Sequence[Constraint], back: Sample, found: np.ndarray
) -> tuple[float, bool]:
    """A threshold between the order statistics of all rates, each at its part of the level."""
    confidence = 1.0 - (1.0 - CONFIDENCE) / len(constraints)
    limits: dict[str, list[float]] = {"tpr": [np.inf], "tnr": [-np.inf]}
    enough = True
    for constraint in constraints:
        at = umbrella_threshold(found, back.positive, [constraint], confidence, back.groups)
        limits[constraint.name].append(at)
        alone = csvm.certification.certify_predictions(
            [constraint], back.positive, found > at, confidence, back.groups
        )
        enough &= alone.certified
    high, low = min(limits["tpr"]), max(limits["tnr"])
    middle = high if np.isinf(low) else 0.5 * (low + high)
    return middle, enough and low <= high


def controlled(
    constraints: Sequence[Constraint], back: Sample, found: np.ndarray, grid: np.ndarray
) -> float | None:
    """MAPIE's threshold: of one rate the boldest of a sequence, of two what it takes itself."""
    from mapie.risk_control import BinaryClassificationController

    risks = {"tpr": "recall", "tnr": "fpr"}
    levels = [c.p0 if c.name == "tpr" else 1.0 - c.p0 for c in constraints]
    one = len(constraints) == 1
    controller = BinaryClassificationController(
        lambda values: expit(np.column_stack([-values[:, 0], values[:, 0]])),
        risk=risks[constraints[0].name] if one else [risks[c.name] for c in constraints],
        target_level=levels[0] if one else levels, confidence_level=CONFIDENCE,
        best_predict_param_choice="recall" if one else "accuracy",
        list_predict_params=expit(grid),
        fwer_method="fixed_sequence" if one else "bonferroni_holm",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where nothing can be controlled
        controller.calibrate(found[:, None], back.positive.astype(int))
    best = controller.best_predict_param
    if best is not None and one:  # of the positives alone, it cannot tell what the others cost
        best = np.max(controller.valid_predict_params)
    return None if best is None else float(grid[np.argmin(np.abs(expit(grid) - best))])


def tasks(seeds: range, sources: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """In rounds, so that a run that is stopped has some of everything."""
    for seed in seeds:
        for source in sources:
            for question in QUESTIONS:
                if question != "two groups" or source != "votes":  # its features are yes and no
                    yield source, question, seed


def report(store: Store, seeds: range, sources: Sequence[str]) -> str:
    """Markdown: one row per source, question and method."""
    found = defaultdict(list)
    for task in tasks(seeds, sources):
        if str(task) in store:
            for method, row in store[str(task)].items():
                found[(*task[:2], method)].append(row)
    header = ("data", "asked", "method", "draws", "certified", "held", "at least", "TPR", "TNR",
              "ours more")
    cells = []
    for (source, question, method), rows in sorted(found.items(), key=lambda item: item[0][:2]):
        ours = found[source, question, OURS]
        name = f"synthetic, n = {source}" if source.isdigit() else source
        cells.append((name, ", ".join(QUESTIONS[question]), method, *_cells(rows, ours)))
    return "\n".join(lines(header, cells))


def _cells(rows: Sequence[dict[str, Any]], ours: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Means; what must have held; how much more TNR ours kept on the same draws."""
    mean = {name: np.mean([row[name] for row in rows]) for name in MEANS}
    least = CONFIDENCE - 2.0 * np.sqrt(CONFIDENCE * (1.0 - CONFIDENCE) / len(rows))
    more = np.array([own["tnr"] - row["tnr"] for own, row in zip(ours, rows, strict=True)])
    compared = "" if rows is ours else (
        f"{more.mean():+.3f} ± {more.std() / np.sqrt(len(more)):.3f}"
    )
    return (
        str(len(rows)), f"{mean['claims']:.2f}", f"{mean['held']:.3f}", f"{least:.3f}",
        f"{mean['tpr']:.3f}", f"{mean['tnr']:.3f}", compared,
    )


def main() -> int:
    parser = command_line("benchmarks.guarantees", __doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="seed of the first")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--out", default="guarantees.jsonl")
    parser.add_argument("--report", action="store_true", help="only what is in the file")
    sources = [*map(str, SIZES), *csvm.datasets.NAMES]
    parser.add_argument("--sources", nargs="+", default=sources, choices=sources)
    parser.add_argument("--questions", nargs="+", default=list(QUESTIONS), choices=list(QUESTIONS))
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    seeds = range(options.first, options.first + options.draws)
    with Store(options.out) as store:
        for task in tasks(seeds[:0] if options.report else seeds, options.sources):
            if str(task) in store or task[1] not in options.questions:
                continue
            if time.monotonic() > end:
                break
            store.add(str(task), {"source": task[0], "asked": task[1], "seed": task[2]}, run(*task))
            print(*task, file=sys.stderr, flush=True)
        print(report(store, seeds, options.sources))
    return 0


if __name__ == "__main__":
    sys.exit(main())
