import numpy as np
import pytest
from sklearn.metrics import pairwise

from csvm import kernels


def points(n=150, d=7, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


CASES = [
    (kernels.linear, pairwise.linear_kernel, {}),
    (kernels.rbf, pairwise.rbf_kernel, {"gamma": 0.3}),
    (kernels.poly, pairwise.polynomial_kernel, {"gamma": 0.2, "degree": 3, "coef0": 1.0}),
    (kernels.sigmoid, pairwise.sigmoid_kernel, {"gamma": 0.1, "coef0": -0.2}),
]


@pytest.mark.parametrize("d", [1, 3, 4, 9])
@pytest.mark.parametrize("ours, theirs, params", CASES)
def test_equal_to_scikit_learn(ours, theirs, params, d):
    X, Y = points(131, d), points(70, d, seed=1)
    for other in (None, Y):
        expected = theirs(X, other, **params)
        scale = max(1.0, np.abs(expected).max())
        assert np.abs(ours(X, other, **params) - expected).max() <= 1e-12 * scale


@pytest.mark.parametrize("ours, theirs, params", CASES)
def test_one_argument_is_exactly_symmetric(ours, theirs, params):
    K = ours(points(200), **params)
    assert np.array_equal(K, K.T)


def test_rbf_of_equal_points_is_one_even_far_from_the_origin():
    X = points(5) + 1e8
    assert np.array_equal(np.diag(kernels.rbf(X, X.copy(), gamma=1.0)), np.ones(5))


def test_rbf_over_the_whole_range_of_exp():
    X = np.linspace(0.0, 28.0, 3000)[:, None]
    expected = np.exp(-(X[:, 0] ** 2))
    found = kernels.rbf(X, np.zeros((1, 1)), gamma=1.0)[:, 0]
    normal = expected > 1e-307
    assert np.abs(found[normal] / expected[normal] - 1.0).max() < 4e-15
    assert np.all(found[~normal] <= 1e-307)


def test_inputs_are_read_in_any_layout_and_left_alone():
    X = points(40)
    K = kernels.rbf(X, gamma=0.5)
    stored = X.copy()
    assert np.array_equal(K, kernels.rbf(np.asfortranarray(X), gamma=0.5))
    assert np.array_equal(K, kernels.rbf(X[::-1], gamma=0.5)[::-1, ::-1])
    assert np.array_equal(X, stored)


def test_different_features_are_refused():
    with pytest.raises(ValueError, match="same features"):
        kernels.rbf(points(d=3), points(d=4), gamma=1.0)


def test_gram_dispatches():
    X, Y = points(20), points(9, seed=2)
    assert np.array_equal(kernels.gram("rbf", X, Y, gamma=0.7), kernels.rbf(X, Y, gamma=0.7))
    assert np.array_equal(kernels.gram("linear", X), kernels.linear(X))
    assert np.array_equal(kernels.gram(lambda a, b: a @ b.T, X, Y), X @ Y.T)
    assert kernels.gram("precomputed", X).dtype == float
    with pytest.raises(ValueError, match="kernel must be one of"):
        kernels.gram("gauss", X)
    with pytest.raises(ValueError, match="must return shape"):
        kernels.gram(lambda a, b: a, X, Y)


def test_gamma_names():
    X = points()
    assert kernels.resolve_gamma("scale", X) == pytest.approx(1 / (X.shape[1] * X.var()))
    weights = np.arange(1.0, 151.0)
    repeated = kernels.resolve_gamma("scale", np.repeat(X, weights.astype(int), axis=0))
    assert kernels.resolve_gamma("scale", X, weights) == pytest.approx(repeated)
    assert kernels.resolve_gamma("auto", X) == 1 / X.shape[1]
    assert kernels.resolve_gamma("scale", np.ones((3, 2))) == 1.0
    assert kernels.resolve_gamma(0.25, X) == 0.25
    for wrong in ("wide", -1.0, np.nan):
        with pytest.raises(ValueError, match="gamma"):
            kernels.resolve_gamma(wrong, X)


def test_check_psd():
    X = points(30, 2)
    kernels.check_psd(kernels.linear(X))  # rank 2: singular, but semidefinite
    kernels.check_psd(kernels.rbf(np.vstack([X, X]), gamma=1.0))
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -1\b"):
        kernels.check_psd(np.diag([3.0, -1.0]))
    with pytest.raises(ValueError, match="symmetric"):
        kernels.check_psd(np.array([[1.0, 0.2], [0.1, 1.0]]))
    with pytest.raises(ValueError, match="square"):
        kernels.check_psd(X)
    with pytest.raises(ValueError, match="NaN"):
        kernels.check_psd(np.array([[np.nan]]))


def test_a_factor_has_columns():
    """One without any says nothing of K, not even that it is zero: a matrix is the answer then."""
    assert kernels.low_rank(np.zeros((20, 20)), 0.2) is None
    assert kernels.low_rank(np.ones((20, 20)), 0.2).shape == (20, 1)
