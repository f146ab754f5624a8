"""Choosing among candidates with points that none of them has seen, without fooling oneself.

Candidates are tested in an order that was fixed beforehand until the first one fails; those before
it are certified together, so that any of them may be taken (fixed-sequence testing): for a wrong
claim the first candidate that lacks a rate would have to pass its own test.  Thresholds of one
score, from the most cautious one on, are such a sequence, whose last member is an order statistic
where all rates are about one class (the umbrella rule of Tong, Feng and Li).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import rel_entr
from scipy.stats import binom

from .certification import Certificate, certify_predictions, share_asked, trials
from .rates import Constraint

_THRESHOLDS = 100  # of one score: neighbours closer than that hardly differ


class Rule(NamedTuple):
    """Positive is what a model gives a score above the threshold."""

    model: int
    threshold: float


def about(constraints: Sequence[Constraint]) -> int:
    """+1 or -1 if all rates are about that class and about no other, else 0."""
    names = {constraint.name for constraint in constraints}
    return {frozenset({"tpr"}): 1, frozenset({"tnr"}): -1}.get(frozenset(names), 0)


def umbrella_rank(p0: float, n: int, alpha: float) -> int:
    """Largest k for which "positive above the k-th smallest of n scores" misses p0 seldom enough.

    The miss rate of that rule is distributed as the k-th of n uniform variables, so it exceeds
    1 - p0 with probability P(Bin(n, 1 - p0) < k), which must be at most alpha. 0 if there is no
    such k.
    """
    return int(np.count_nonzero(binom.cdf(np.arange(n), n, 1.0 - p0) <= alpha))


def umbrella_threshold(
    scores: np.ndarray, positive: np.ndarray, constraints: Sequence[Constraint], confidence: float,
    groups: np.ndarray | None = None,
) -> float:
    """The boldest threshold at which rates of one class hold with the confidence asked.

    The scores are of points that the model has not seen. For several rates of the class (of groups)
    it is the most cautious of theirs, with no correction: as thresholds get bolder, some rate is
    the first to fail in truth, and only its own order statistic can go wrong. With too few points
    for an order statistic all of them are kept; a rate of a group without any has no say.
    """
    sign = about(constraints)
    bold = np.inf
    for constraint in constraints:
        own = np.sort(sign * scores[trials(constraint, positive, positive, groups)])
        if not len(own):
            continue  # its certificate will say so
        rank = umbrella_rank(constraint.p0, len(own), 1.0 - confidence)
        # The order statistic itself is kept: where scores are equal, leaving it out would lose
        # all that are equal to it.
        bold = min(bold, np.nextafter(own[max(rank, 1) - 1], -np.inf))
    if np.isinf(bold):
        bold = np.nextafter(np.min(sign * scores), -np.inf)
    return sign * bold


def threshold_of_classes(
    scores: np.ndarray, positive: np.ndarray, constraints: Sequence[Constraint], confidence: float,
    groups: np.ndarray | None = None,
) -> tuple[float, Certificate]:
    """A threshold at which rates of one class or of both hold, and its certificate.

    Rates of the positives bound the threshold from above, those of the negatives from below. With
    both, each sequence gets half of the error, every threshold between the two is certified, and
    the one with the best mean of TPR and TNR is taken; if there is none, the middle, uncertified.
    """
    sides = [[c for c in constraints if c.name == name] for name in ("tpr", "tnr")]
    each = confidence if not all(sides) else 0.5 * (1.0 + confidence)
    high, low = (
        umbrella_threshold(scores, positive, side, each, groups) if side else None
        for side in sides
    )
    if low is None or high is None:
        threshold = high if low is None else low
    elif low > high:
        threshold = 0.5 * (low + high)
    else:
        inside = np.unique(np.append(scores[(scores > low) & (scores < high)], [low, high]))
        inside = np.sort(np.append(0.5 * (inside[1:] + inside[:-1]), [low, high]))
        balanced = np.array([_balanced_accuracy(positive, scores > value) for value in inside])
        best = np.flatnonzero(balanced >= balanced.max() - 1e-12)
        threshold = float(inside[best[len(best) // 2]])  # not at the edge of equally good ones
    assert threshold is not None
    certificate = certify_predictions(constraints, positive, scores > threshold, each, groups)
    return threshold, replace(certificate, confidence=confidence)


def in_order(
    scores: Sequence[np.ndarray], positive: np.ndarray, constraints: Sequence[Constraint],
    share: float, groups: np.ndarray | None = None,
) -> list[Rule]:
    """Thresholds of all models, the likeliest to be certified first.

    For each model there are its scores of points that it has not seen, and not those that will
    test it; `share` is how many of these there will be for each one here.
    """
    found = [
        (safety(positive, values > threshold, constraints, share, groups), model, threshold)
        for model, values in enumerate(scores) for threshold in _between(values)
    ]
    found.sort(key=lambda item: -item[0])
    return [Rule(model, threshold) for _, model, threshold in found]


def _between(scores: np.ndarray) -> np.ndarray:
    """Thresholds between different scores, about equally many scores apart."""
    values = np.unique(scores)
    middle = 0.5 * (values[1:] + values[:-1]) if len(values) > 1 else values
    steps = np.linspace(0, len(middle) - 1, min(_THRESHOLDS, len(middle)))
    return middle[np.unique(steps.round().astype(int))]


def safety(
    positive: np.ndarray, predicted: np.ndarray, constraints: Sequence[Constraint], share: float,
    groups: np.ndarray | None,
) -> float:
    """About -log of the largest p-value to expect, below zero where a rate is missed."""
    right = positive == predicted
    exponents = []
    for constraint in constraints:
        members = trials(constraint, positive, predicted, groups)
        n = members.sum()
        found = right[members].mean() if n else 0.0
        p0 = share_asked(constraint)
        distance = rel_entr(found, p0) + rel_entr(1.0 - found, 1.0 - p0)  # infinite for p0 = 1
        exponents.append(np.copysign(min(share * n * distance, 1e9), found - p0))
    return float(min(exponents))


def fixed_sequence(
    candidates: Iterable[Rule], predict: Callable[[Rule], np.ndarray], positive: np.ndarray,
    constraints: Sequence[Constraint], confidence: float, groups: np.ndarray | None = None,
) -> tuple[Rule, Certificate]:
    """Test candidates until one fails; the best of those certified, else the first one.

    Their order must not depend on the points here. `predict` says which of these a candidate calls
    positive; the best has the best mean of TPR and TNR on them.
    """
    best: tuple[float, Rule, Certificate] | None = None
    for candidate in candidates:
        predicted = predict(candidate)
        certificate = certify_predictions(constraints, positive, predicted, confidence, groups)
        balanced = _balanced_accuracy(positive, predicted)
        if best is None or (certificate.certified and balanced > best[0]):
            best = balanced, candidate, certificate
        if not certificate.certified:
            break
    assert best is not None
    return best[1], best[2]


def _balanced_accuracy(positive: np.ndarray, predicted: np.ndarray) -> float:
    """Mean of the rates of the classes that are there."""
    right = positive == predicted
    return float(np.mean([right[kind].mean() for kind in (positive, ~positive) if kind.any()]))
