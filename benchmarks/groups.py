"""Rates of groups on german: find 65 % of the bad risks among the young and among the others.

    python -m benchmarks.groups [--splits 10] [--group age|sex]

CSVM next to a balanced SVC, to that SVC with one threshold, and to fairlearn's post-processing and
reduction (`pip install fairlearn`; its absence is reported). All see the same 700 points and are
measured on the 300 others. fairlearn makes rates of groups equal and cannot ask for a level;
ThresholdOptimizer needs the group to predict, all others do not.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import csvm

from . import command_line

ASKED = csvm.tpr["*"] >= 0.65


@dataclass(frozen=True)
class Split:
    """Training points, points left out, and their groups."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    groups_new: np.ndarray
    seed: int


def groups_of(data: csvm.datasets.Dataset, kind: str) -> np.ndarray:
    if kind == "age":
        return np.where(data.X[:, data.features.index("age")] <= 25, "young", "older")
    (column,) = [k for k, name in enumerate(data.features)
                 if name in ("personal_status_A92", "personal_status=female div/dep/mar")]
    return np.where(data.X[:, column] > 0, "female", "male")


def make_split(kind: str, seed: int) -> Split:
    data = csvm.datasets.load("german")
    groups = groups_of(data, kind)
    both = np.char.add(groups.astype("U8"), data.y.astype(str))
    fit, new = train_test_split(
        np.arange(len(data.y)), test_size=0.3, stratify=both, random_state=seed
    )
    scaler = StandardScaler().fit(data.X[fit])
    return Split(scaler.transform(data.X[fit]), data.y[fit], groups[fit],
                 scaler.transform(data.X[new]), data.y[new], groups[new], seed)


# -- methods: each returns its predictions, and what it says of itself ---------------------------


def constrained(split: Split) -> tuple[np.ndarray, str]:
    model = csvm.CSVM(constraints=[ASKED], anchors=0.3, random_state=split.seed, time_limit=60.0)
    model.fit(split.X, split.y, sensitive_features=split.groups)
    return model.predict(split.X_new), "proven" if model.result_.optimal else "open"


def plain(split: Split) -> tuple[np.ndarray, str]:
    return SVC(class_weight="balanced").fit(split.X, split.y).predict(split.X_new), ""


def one_threshold(split: Split) -> tuple[np.ndarray, str]:
    """The highest threshold at which scores of points left out in turn have the rates."""
    model = SVC(class_weight="balanced")
    scores = cross_val_predict(
        model, split.X, split.y, method="decision_function",
        cv=StratifiedKFold(5, shuffle=True, random_state=split.seed),
    )
    limits = []
    for name in np.unique(split.groups):
        own = np.sort(scores[(split.groups == name) & (split.y > 0)])[::-1]
        limits.append(own[int(np.ceil(ASKED.p0 * len(own))) - 1])
    decision = model.fit(split.X, split.y).decision_function(split.X_new)
    return np.where(decision >= min(limits), 1, -1), ""


def post_processing(split: Split) -> tuple[np.ndarray, str]:
    from fairlearn.postprocessing import ThresholdOptimizer

    model = ThresholdOptimizer(
        estimator=SVC(class_weight="balanced"), constraints="true_positive_rate_parity",
        objective="balanced_accuracy_score", predict_method="decision_function",
    )
    model.fit(split.X, (split.y > 0).astype(int), sensitive_features=split.groups)
    said = model.predict(
        split.X_new, sensitive_features=split.groups_new, random_state=split.seed
    )
    return np.where(said > 0, 1, -1), "needs the group"


def reduction(split: Split) -> tuple[np.ndarray, str]:
    from fairlearn.reductions import ExponentiatedGradient, TruePositiveRateParity

    model = ExponentiatedGradient(SVC(class_weight="balanced"), TruePositiveRateParity())
    model.fit(split.X, (split.y > 0).astype(int), sensitive_features=split.groups)
    said = model.predict(split.X_new, random_state=split.seed)
    return np.where(np.asarray(said) > 0, 1, -1), "random"


METHODS: dict[str, Callable[[Split], tuple[np.ndarray, str]]] = {
    "CSVM, tpr[*]>=0.65": constrained, "balanced SVC": plain, "its threshold": one_threshold,
    "ThresholdOptimizer": post_processing, "ExponentiatedGradient": reduction,
}


def measure(split: Split, said: np.ndarray) -> list[float]:
    rates = [one.value(split.y_new, said, split.groups_new) for one in ASKED.each(split.groups_new)]
    others = [(csvm.tnr >= 1).value(split.y_new, said),
              (csvm.balanced_accuracy >= 1).value(split.y_new, said)]
    return [*rates, *others, abs(rates[0] - rates[1]), float(min(rates) >= ASKED.p0)]


def main() -> int:
    parser = command_line("benchmarks.groups", __doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--group", default="age", choices=["age", "sex"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # fairlearn's about itself, ours about few anchors
    splits = [make_split(options.group, seed) for seed in range(options.splits)]
    names = np.unique(splits[0].groups)
    print(f"german, {options.splits} splits, means on the points left out\n")
    print(f"| | TPR {names[0]} | TPR {names[1]} | TNR | balanced accuracy | difference of TPR | "
          "both reach 0.65 | seconds | |")
    print("| --- " * 9 + "|")
    for name, method in METHODS.items():
        if method in (post_processing, reduction) and not importlib.util.find_spec("fairlearn"):
            print(f"| {name} | fairlearn is not installed" + " |" * 8)
            continue
        begin, rows, notes = time.perf_counter(), [], []
        for split in splits:
            said, note = method(split)
            rows.append(measure(split, said))
            notes.append(note)
        seconds = (time.perf_counter() - begin) / len(splits)
        cells = " | ".join(f"{value:.3f}" for value in np.mean(rows, axis=0))
        note = f"{notes.count('proven')} of {len(notes)} proven" if "proven" in notes else notes[0]
        print(f"| {name} | {cells} | {seconds:.2f} | {note} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
