"""Settings of a run, and how a data set is cut into parts."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from csvm import datasets

_LARGE = 1000  # rows; larger sets have five folds and are compressed
_HELD_OUT = 0.3  # of the points, in a random split


@dataclass(frozen=True)
class Protocol:
    """What is run.

    The C of a CSVM is the cost of every "point", as the paper's numbers suggest, or shared by the
    points of a "class" of I, as its section 3.3 says.
    """

    name: str
    outer: int | None = None  # folds; None for the paper's 10, or 5 above 1000 rows
    inner: int | None = None
    exponents: tuple[int, ...] = tuple(range(-5, 6))  # C and gamma are 2 to these powers
    splits: int = 100  # random ones: does the rate hold on unseen data?
    delta: float = 0.025  # p0 = TPR0 + delta
    alpha: float = 0.05  # level of Hoeffding's test
    time_limit: float = 60.0  # seconds for one CSVM fit
    gap: float = 1e-4  # relative gap at which a fit counts as proven
    clusters: int = 500  # stand for the training part above 1000 rows; anchors stay points
    costs: str = "point"

    @property
    def grid(self) -> tuple[float, ...]:
        """The values of C, and of gamma, in increasing order."""
        return tuple(2.0**k for k in sorted(self.exponents))


FULL = Protocol("full")
QUICK = Protocol("quick", outer=5, inner=3, exponents=(-5, -3, -1, 1, 3, 5), splits=20)


@dataclass(frozen=True, eq=False)
class Data:
    """A data set in random order."""

    name: str
    X: np.ndarray
    y: np.ndarray  # +1.0 or -1.0

    @cached_property
    def digest(self) -> str:
        """Tells different data apart, and different orders."""
        digest = hashlib.sha256(self.name.encode())
        for part in (self.X, self.y):
            digest.update(np.ascontiguousarray(part, dtype=float).tobytes())
        return digest.hexdigest()

    @property
    def folds(self) -> int:
        """How many the paper takes."""
        return 5 if len(self.y) > _LARGE else 10

    @property
    def balanced(self) -> bool:
        """Whether both classes are above 30 %, so that accuracy is the criterion.

        The paper says "less than", but its printed rates of german, with 30 %, are those of G-mean.
        """
        positives = int((self.y > 0).sum())
        return 10 * min(positives, len(self.y) - positives) > 3 * len(self.y)


def load(name: str, seed: int = 0) -> Data:
    """A data set of the paper, its rows shuffled: some files are sorted by class."""
    X, y = datasets.load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    return Data(name, X[order], y[order].astype(float))


def folds(y: np.ndarray, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and validation positions of k folds with equal shares of both classes.

    The training positions are in the order of the data, so that its halves stay random.
    """
    fewest = int(min((y > 0).sum(), (y < 0).sum()))
    if fewest < k:
        raise ValueError(f"{k} folds need {k} points of each class, there are {fewest}")
    return list(StratifiedKFold(k).split(np.zeros(len(y)), y))


def random_split(y: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of 70 % to train on and 30 % held out, with equal shares of both classes."""
    training, held_out = train_test_split(
        np.arange(len(y)), test_size=_HELD_OUT, stratify=y, random_state=number
    )
    return training, held_out


@dataclass(frozen=True)
class Part:
    """A training part and a validation part, standardised on the former.

    SVMs are trained on `points`: the training points as they are, or centres of clusters with the
    number of points each stands for as weight.
    """

    X: np.ndarray  # training points as they are: the first half is I, the second J
    y: np.ndarray
    points: np.ndarray  # I first
    labels: np.ndarray
    weights: np.ndarray
    first: int  # how many of them belong to I
    X_val: np.ndarray
    y_val: np.ndarray

    @cached_property
    def anchored(self) -> dict[str, np.ndarray]:
        """What a fit with anchors is given: I, or its centres, and the positives of J as points."""
        half, first = len(self.y) // 2, self.first
        positives = self.X[half:][self.y[half:] > 0]
        ones = np.ones(len(positives))
        return {
            "X": np.vstack([self.points[:first], positives]),
            "y": np.append(self.labels[:first], ones),
            "sample_weight": np.append(self.weights[:first], ones),
            "anchors": first + np.arange(len(positives)),
        }


def cut(data: Data, training: np.ndarray, validation: np.ndarray, clusters: int) -> Part:
    """The parts of a data set at these positions; for `clusters` see `Protocol`."""
    y = data.y[training]
    half = len(y) // 2
    if np.unique(y[:half]).size < 2 or not (y[half:] > 0).any():
        raise ValueError(
            f"{data.name}: of {len(y)} training points the first half needs both classes and "
            "the second half positives"
        )
    scaler = StandardScaler().fit(data.X[training])
    X = scaler.transform(data.X[training])
    share = min(1.0, clusters / len(y)) if len(data.y) > _LARGE else 1.0
    halves = [compress(X[:half], y[:half], share), compress(X[half:], y[half:], share)]
    points, labels, weights = (np.concatenate(group) for group in zip(*halves, strict=True))
    return Part(
        X, y, points, labels, weights, len(halves[0][1]),
        scaler.transform(data.X[validation]), data.y[validation],
    )


def compress(
    X: np.ndarray, y: np.ndarray, share: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """k-means centres per class, with counts as weights (section 3.4 of the paper)."""
    if share == 1.0:
        return X, y, np.ones(len(y))
    centres, labels, counts = [], [], []
    for label in np.unique(y):
        members = X[y == label]
        model = KMeans(max(1, round(share * len(members))), n_init=1, random_state=0)
        with warnings.catch_warnings():
            # Equal points leave clusters empty; those are dropped below.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(members)
        sizes = np.bincount(model.labels_, minlength=model.n_clusters)
        centres.append(model.cluster_centers_[sizes > 0])
        counts.append(sizes[sizes > 0].astype(float))
        labels.append(np.full(len(counts[-1]), label))
    return np.vstack(centres), np.concatenate(labels), np.concatenate(counts)
