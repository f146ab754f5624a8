"""A checkpoint is accepted for the very problem that it was written for, and for no other."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from test_engine import Toy

import bnb
from bnb.digest import digest
from csvm.search import CSVMProblem, Instance


def regression():
    rng = np.random.default_rng(4)
    F, b = rng.normal(size=(30, 24)), 3 * rng.normal(size=30)
    return F.T @ F, -F.T @ b


def subset(support):
    return bnb.SupportQP(*regression(), 4, support=support)


def test_a_checkpoint_of_another_support_is_refused(tmp_path):
    """Without bounds the two problems differ in what only the subclass knows."""
    file = tmp_path / "search.json"
    bnb.solve(subset(range(12)), checkpoint=file, node_limit=12)
    with pytest.raises(ValueError, match="different problem"):
        bnb.solve(subset(range(12, 24)), checkpoint=file, resume=True)
    whole = bnb.solve(subset(range(12)))
    rest = bnb.solve(subset(range(12)), checkpoint=file, resume=True)
    assert rest.optimal and rest.objective == pytest.approx(whole.objective, rel=1e-4)


def miqp(**changes):
    data = dict(P=np.eye(2), q=[1.0, 2.0], A=[[1.0, 1.0]], l=[0.0], u=[5.0], lb=-3, ub=3,
                integer=[0], constant=1.0)
    return bnb.MIQP(**(data | changes))


def support_qp(**changes):
    return bnb.SupportQP(**(dict(P=np.eye(3), q=np.ones(3), k=2) | changes))


def indicator(**changes):
    data = dict(P=np.eye(1), q=[0.0], G=[[1.0]] * 3, b=[1.0, 2.0, 3.0], groups=[(range(3), 2)])
    return bnb.IndicatorQP(**(data | changes))


def svm(**changes):
    data = dict(kernel=np.eye(4), y=np.array([1.0, -1, 1, -1]), cost=np.ones(2),
                weights=np.ones((1, 2)), required=np.ones(1))
    return CSVMProblem(Instance(**(data | changes)))


DIFFERENT = [
    (miqp, [
        dict(P=2 * np.eye(2)), dict(q=[1.0, 3.0]), dict(A=[[1.0, 2.0]]), dict(l=[1.0]),
        dict(u=[4.0]), dict(lb=-2), dict(ub=2), dict(integer=[1]), dict(constant=0.0),
    ]),
    (support_qp, [
        dict(k=1), dict(support=[0, 1]), dict(exactly=True), dict(lb=0.0), dict(q=np.zeros(3)),
    ]),
    (indicator, [
        dict(b=[1.0, 2.0, 4.0]), dict(groups=[(range(3), 1)]), dict(weights=[1.0, 1.0, 2.0]),
        dict(G=[[1.0], [1.0], [2.0]]),
    ]),
    (svm, [
        dict(kernel=2 * np.eye(4)), dict(y=np.array([1.0, -1, -1, 1])), dict(cost=np.full(2, 2.0)),
        dict(weights=np.array([[1.0, 0.5]])), dict(required=np.zeros(1)),
    ]),
]


@pytest.mark.parametrize("make, changes", DIFFERENT)
def test_every_argument_counts(make, changes):
    prints = [make().fingerprint(), *(make(**change).fingerprint() for change in changes)]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("make", [make for make, _ in DIFFERENT])
def test_a_search_leaves_the_fingerprint_alone(make):
    problem = make()
    before = problem.fingerprint()
    bnb.solve(problem)
    assert problem.fingerprint() == before == make().fingerprint()


def test_subclasses_and_users_problems_need_not_declare_their_data(tmp_path):
    class Weighted(Toy):
        step = 1.0

        def __init__(self, depth, shift):
            super().__init__(depth)
            self.shift = shift

    class Other(Weighted):
        step = 2.0

    prints = {Weighted(3, 0.0).fingerprint(), Weighted(3, 1.0).fingerprint(),
              Weighted(4, 0.0).fingerprint(), Other(3, 0.0).fingerprint()}
    assert len(prints) == 4
    before = Other(3, 0.0).fingerprint()
    Other.step = 3.0
    assert Other(3, 0.0).fingerprint() != before
    file = tmp_path / "search.json"
    bnb.solve(Toy(4), node_limit=3, checkpoint=file)
    with pytest.raises(ValueError, match="different problem"):
        bnb.solve(Toy(5), checkpoint=file, resume=True)


def test_data_that_cannot_be_compared_are_refused_with_a_way_out(tmp_path):
    class Priced(Toy):
        def __init__(self):
            super().__init__()
            self.price = lambda bits: 0.0

    class Noted(Priced):
        scratch = frozenset({"price"})

    assert bnb.solve(Priced()).optimal  # without a checkpoint nobody asks
    with pytest.raises(TypeError, match=r"Priced.*'price'.*function.*scratch"):
        bnb.solve(Priced(), checkpoint=tmp_path / "search.json")
    assert bnb.solve(Noted(), checkpoint=tmp_path / "search.json").optimal


def test_digests_tell_data_apart_and_repeat_in_another_process():
    values = [None, 0, 0.0, False, "0", b"0", [0], (0,), [[0], []], [[], [0]], {0}, {0: 0},
              np.zeros(1), np.zeros((1, 1)), np.zeros(1, int), sp.csr_matrix([[0.0, 1.0]]),
              sp.csr_matrix([[1.0, 0.0]]), np.array([None]), int, float, support_qp().rules.links]
    digests = [digest(value) for value in values]
    assert len(set(digests)) == len(values)
    assert digest(sp.csc_matrix([[0.0, 1.0]])) == digest(sp.csr_matrix([[0.0, 1.0]]))
    code = (f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            "import test_fingerprint as t; print(t.digest({'a', 'b', 'c', 3.5}),"
            " t.support_qp().fingerprint(), sep='\\n')")
    answer = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent.parent,
                            capture_output=True, text=True, check=True)
    assert answer.stdout.split("\n")[:2] == [
        digest({"a", "b", "c", 3.5}), support_qp().fingerprint()
    ]
    loop = []
    loop.append(loop)
    with pytest.raises(TypeError, match="contains itself"):
        digest(loop)
