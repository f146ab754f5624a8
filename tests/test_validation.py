"""Bad input is refused with a message that names the argument."""

import numpy as np
import pytest

import bnb

EYE, ONE = np.eye(2), np.ones(2)


@pytest.mark.parametrize("arguments, message", [
    (dict(P=np.eye(3), q=ONE), r"P must have shape \(2, 2\)"),
    (dict(P=-EYE, q=ONE), "P must be positive semidefinite.*smallest eigenvalue is -1"),
    (dict(P=[[1.0, 2.0], [0.0, 1.0]], q=ONE), "P must be symmetric"),
    (dict(P=[[1e200, 0.0], [0.0, 1.0]], q=ONE), "P holds entries up to 1e.200, too large"),
    (dict(P=[[np.nan, 0], [0, 1]], q=ONE), "P must be finite"),
    (dict(P=EYE, q=[1.0, np.nan]), "q contains NaN at position 1"),
    (dict(P=EYE, q=[1.0, np.inf]), "q must be finite"),
    (dict(P=EYE, q=["a", "b"]), "q must hold numbers"),
    (dict(P=EYE, q=[1.0, 1j]), "q must hold numbers: complex"),
    (dict(P=EYE * (1 + 1j), q=ONE), "P must be a matrix of numbers: complex"),
    (dict(P=EYE, q=[]), "q must hold at least one variable"),
    (dict(P=EYE, q=ONE, A=np.ones((1, 3))), r"A must have shape \(1, 2\)"),
    (dict(P=EYE, q=ONE, A=np.ones((1, 2)), l=[1, 2]), r"l must have shape \(1,\)"),
    (dict(P=EYE, q=ONE, A=np.ones((1, 2)), l=[2.0], u=[1.0]), r"l\[0\] = 2 is above u\[0\] = 1"),
    (dict(P=EYE, q=ONE, lb=3, ub=1), r"lb\[0\] = 3 is above ub\[0\] = 1"),
    (dict(P=EYE, q=ONE, lb=np.inf), "lb must be < inf"),
    (dict(P=EYE, q=ONE, binary=[2]), "binary holds position 2, out of range"),
    (dict(P=EYE, q=ONE, integer=[-1]), "integer holds position -1, out of range"),
    (dict(P=EYE, q=ONE, binary=np.array([True])), "binary: a mask must have shape"),
    (dict(P=EYE, q=ONE, integer=[0.5]), "integer must hold integer positions"),
])
def test_miqp(arguments, message):
    with pytest.raises(ValueError, match=message):
        bnb.MIQP(**arguments)


@pytest.mark.parametrize("arguments, message", [
    (dict(k=3), "k must be an integer between 0 and 2"),
    (dict(k=-1), "k must be an integer between 0 and 2"),
    (dict(k=1.5), "k must be an integer"),
    (dict(k="a"), "k must be an integer"),
    (dict(k=None), "k must be an integer"),
    (dict(k=np.nan), "k must be an integer"),
    (dict(k=np.inf), "k must be an integer"),
    (dict(k=1, support=[5]), "support holds position 5"),
    (dict(k=1, P=np.ones((2, 2))), "P is singular, so lb and ub must be finite"),
    (dict(k=1, lb=2, ub=1), "lb.* is above ub"),
    (dict(k=1, P=np.eye(3)), r"P must have shape \(2, 2\)"),
])
def test_support(arguments, message):
    with pytest.raises(ValueError, match=message):
        bnb.SupportQP(**{"P": EYE, "q": ONE, **arguments})


@pytest.mark.parametrize("arguments, message", [
    (dict(groups=[]), "groups must name at least one"),
    (dict(groups=[([0, 1], 3)]), r"groups\[0\]: k = 3 must be between 0 and .* 2"),
    (dict(groups=[([0, 7], 1)]), r"groups\[0\] holds position 7"),
    (dict(groups=[([0, 1], 1, 1)]), r"groups\[0\] must be a pair"),
    (dict(groups=[([0, 1], "x")]), r"groups\[0\] must be a pair"),
    (dict(weights=[-1.0, 1.0]), "weights must be >= 0"),
    (dict(b=[1.0]), r"b must have shape \(2,\)"),
    (dict(G=np.ones((2, 3))), r"G must have shape \(2, 2\)"),
    (dict(P=np.eye(3)), r"P must have shape \(2, 2\)"),
    (dict(G=np.zeros((0, 2)), b=[]), "G must have at least one row"),
])
def test_indicator(arguments, message):
    base = {"P": EYE, "q": ONE, "G": EYE, "b": ONE, "groups": [([0, 1], 1)]}
    with pytest.raises(ValueError, match=message):
        bnb.IndicatorQP(**{**base, **arguments})


def test_wrong_start_is_named():
    with pytest.raises(ValueError, match="start is not a feasible solution"):
        bnb.solve(bnb.MIQP(EYE, ONE, binary=[0]), start=[0.5, 0.0])
    with pytest.raises(ValueError, match=r"must have shape \(2,\)"):
        bnb.solve(bnb.SupportQP(EYE, ONE, 1), start=[0.5])


def test_statuses_without_a_search():
    assert bnb.solve_miqp(EYE, ONE, lb=0.2, ub=0.8, integer=[0]).status is bnb.Status.INFEASIBLE
    unbounded = bnb.solve_miqp(None, [1.0, 0.0], binary=[1])
    assert unbounded.status is bnb.Status.UNBOUNDED and unbounded.bound == -np.inf
    convex = bnb.solve_miqp(EYE, [-1.0, -2.0])
    assert convex.status is bnb.Status.OPTIMAL
    np.testing.assert_allclose(convex.x, [1.0, 2.0], atol=1e-4)


def test_unbounded_even_without_an_obvious_point():
    result = bnb.solve_miqp(None, [1.0, 1.0], [[1.0, -1.0]], None, [1.0], integer=[1])
    assert result.status is bnb.Status.UNBOUNDED
    impossible = bnb.solve_miqp(
        None, [1.0, 1.0], [[0.0, 2.0]], [1.0], [1.0], integer=[1], time_limit=20
    )
    assert impossible.status is bnb.Status.INFEASIBLE


def test_free_variables_without_curvature_are_certified():
    """min ||w||² − w₀ + Σt, −t ≤ w ≤ t, Σw = 1, nothing else bounded."""
    P = np.diag([2.0, 2.0, 0.0, 0.0])
    A = [[1, 0, -1, 0], [0, 1, 0, -1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]
    inf = np.inf
    result = bnb.solve_miqp(
        P, [-1.0, 0.0, 1.0, 1.0], A, [-inf, -inf, 0, 0, 1], [0, 0, inf, inf, 1]
    )
    assert result.status is bnb.Status.OPTIMAL
    np.testing.assert_allclose(result.x[:2], [0.75, 0.25], atol=1e-3)
