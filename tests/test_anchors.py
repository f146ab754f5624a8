import numpy as np
import pytest

from csvm.anchors import split_anchors


def labels(positives=20, negatives=30):
    return np.repeat([1, -1], [positives, negatives])


def test_fraction_is_stratified_and_a_partition():
    y = labels()
    training, anchors = split_anchors(0.3, y, random_state=0)
    assert np.array_equal(np.sort(np.r_[training, anchors]), np.arange(50))
    assert (y[anchors] > 0).sum() == 6 and (y[anchors] < 0).sum() == 9


def test_fraction_depends_on_the_random_state_only():
    y = labels()
    first = split_anchors(0.5, y, random_state=1)[1]
    assert np.array_equal(first, split_anchors(0.5, y, random_state=1)[1])
    assert not np.array_equal(first, split_anchors(0.5, y, random_state=2)[1])


def test_weights_and_repetitions_mean_the_same():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), labels()
    weights = rng.integers(0, 4, 50).astype(float)
    repeated = np.repeat(np.arange(50), weights.astype(int))
    shuffled = rng.permutation(repeated)
    _, weighted = split_anchors(0.4, y, X=X, weights=weights, random_state=3)
    _, plain = split_anchors(0.4, y[shuffled], X=X[shuffled], random_state=3)
    assert set(weighted) == set(shuffled[plain])
    assert np.all(weights[weighted] > 0)


def test_equal_points_stay_together():
    X = np.repeat(np.arange(10.0), 5)[:, None]
    y = np.repeat([1, -1], 25)
    training, anchors = split_anchors(0.5, y, X=X, random_state=0)
    assert not set(X[training, 0]) & set(X[anchors, 0])


@pytest.mark.parametrize("fraction", [0.01, 0.99])
def test_both_sets_get_both_classes(fraction):
    training, anchors = split_anchors(fraction, labels(2, 2), random_state=0)
    assert len(training) == len(anchors) == 2


def test_points_that_no_rate_is_about_train():
    y, groups = labels(), np.tile(["a", "b"], 25)
    training, anchors = split_anchors(
        0.5, y, about=(y > 0) & (groups == "a"), strata=groups, random_state=0
    )
    assert len(anchors) == 5 and np.all(y[anchors] > 0) and np.all(groups[anchors] == "a")
    assert np.array_equal(np.sort(np.r_[training, anchors]), np.arange(50))
    chosen = np.arange(50) >= 48
    for given, count in ((0.5, 12), ("second-half", 25), ([3], 3)):
        found = split_anchors(given, y, about=y > 0, always=chosen, random_state=0)[1]
        assert len(found) == count and set(found) >= {48, 49}


def test_second_half():
    y = np.tile([1, -1], 5)
    training, anchors = split_anchors("second-half", y[:9])
    assert training.tolist() == [0, 1, 2, 3] and anchors.tolist() == [4, 5, 6, 7, 8]


def test_positions_and_masks():
    y = np.tile([1, -1], 5)
    mask = np.zeros(10, dtype=bool)
    mask[[7, 8]] = True
    for given in ([8, 7], mask, mask.tolist(), np.array([7, 8])):
        training, anchors = split_anchors(given, y)
        assert anchors.tolist() == [7, 8] and training.size == 8


@pytest.mark.parametrize(
    "anchors, error, message",
    [
        (1.5, ValueError, r"in \(0, 1\)"),
        (0, ValueError, r"in \(0, 1\)"),
        (True, TypeError, "fraction"),
        (None, TypeError, "fraction"),
        ("first", ValueError, "second-half"),
        ([10], ValueError, r"0\.\.9"),
        ([-1], ValueError, r"0\.\.9"),
        ([1, 1], ValueError, "distinct"),
        ([0.5, 1.0], TypeError, "integer positions"),
        (np.ones(4, dtype=bool), ValueError, "length 4"),
        (np.ones(10, dtype=bool), ValueError, "no training points of the positive class"),
        ([1, 3, 5, 7, 9], ValueError, "no training points of the negative class"),
        ([[1]], ValueError, "one-dimensional"),
    ],
)
def test_errors(anchors, error, message):
    with pytest.raises(error, match=message):
        split_anchors(anchors, np.tile([1, -1], 5))


def test_one_point_of_a_class_is_trained_on():
    training, anchors = split_anchors(0.5, np.array([1, -1, -1, -1]), random_state=0)
    assert 0 in training and 0 not in anchors
