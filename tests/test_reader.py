"""Model files: what they say is what is solved, and what cannot be solved is refused."""

import gzip
import pickle

import numpy as np
import pytest

import bnb
from bnb.reader import FileModel

MPS = """\
NAME example
{sense}ROWS
 N obj
 L c1
 G c2
 E c3
 L c4
COLUMNS
 MARKER 'MARKER' 'INTORG'
 x obj 1 c1 1
 x c2 1
 MARKER 'MARKER' 'INTEND'
 y obj 2 c1 1
 y c3 2
 w c3 -1 c4 1
RHS
 RHS c1 4 c2 -1
 RHS c3 3 c4 8
 RHS obj -7
RANGES
 RNG c4 6
BOUNDS
{bounds} FR BND y
 MI BND w
{quadratic}ENDATA
"""
QUADOBJ = "QUADOBJ\n x x 2\n x y -1\n y y 4\n"
QMATRIX = "QMATRIX\n x x 2\n x y -1\n y x -1\n y y 4\n"
BOUNDS = " UP BND x 3\n LO BND x -2\n"

LP = """\
{sense}
 obj: 3 x + 2 y + [ {sign}2 x ^ 2 {sign} 2 x * y {sign} 4 y ^ 2 ] / 2
subject to
 c1: x + y <= 4
 c2: x + z >= 1
bounds
 x >= -1e20
 -inf <= y <= 3
 z <= 2.5
general
 y
binary
 b
end
"""


def mps(sense="", quadratic=QUADOBJ, bounds=BOUNDS):
    return MPS.format(sense=sense, quadratic=quadratic, bounds=bounds)


def save(tmp_path, text, name="model.mps"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("quadratic", [QUADOBJ, QMATRIX])
def test_mps_with_everything(tmp_path, quadratic):
    problem = bnb.read(save(tmp_path, mps(quadratic=quadratic)))
    assert isinstance(problem, bnb.MIQP)
    assert problem.names == ["x", "y", "w"]
    assert not problem.maximize
    assert problem.P.toarray().tolist() == [[2, -1, 0], [-1, 4, 0], [0, 0, 0]]
    assert problem.q.tolist() == [1, 2, 0]
    assert problem.constant == 7
    assert problem.A.toarray().tolist() == [[1, 1, 0], [1, 0, 0], [0, 2, -1], [0, 0, 1]]
    assert problem.l.tolist() == [-np.inf, -1, 3, 2]
    assert problem.u.tolist() == [4, np.inf, 3, 8]
    assert problem.lb.tolist() == [-2, -np.inf, -np.inf]
    assert problem.ub.tolist() == [3, np.inf, np.inf]
    assert problem.is_integer.tolist() == [True, False, False]


def test_lp_is_solved(tmp_path):
    problem = bnb.read(save(tmp_path, LP.format(sense="minimize", sign="+ "), "model.lp"))
    assert problem.names == ["x", "y", "z", "b"]
    assert problem.P.toarray()[:2, :2].tolist() == [[2, 1], [1, 4]]
    assert problem.lb.tolist() == [-np.inf, -np.inf, 0, 0]
    assert problem.ub.tolist() == [np.inf, 3, 2.5, 1]
    assert problem.is_integer.tolist() == [False, True, False, True]
    result = bnb.solve(problem)
    # y integer; for every y the best x is clear: x^2 + xy + 3x + ..., x >= 1 - 2.5
    best = min(
        x * x + x * y + 2 * y * y + 3 * x + 2 * y
        for y in range(-6, 4) for x in [float(np.clip(-(3 + y) / 2, -1.5, 4 - y))]
    )
    assert result.status is bnb.Status.OPTIMAL
    assert result.objective == pytest.approx(best)


def test_maximise_is_negated(tmp_path):
    text = LP.format(sense="maximize", sign="- ")
    problem = bnb.read(save(tmp_path, text, "model.lp"))
    assert problem.maximize
    assert problem.P.toarray()[:2, :2].tolist() == [[2, 1], [1, 4]]
    result = bnb.solve(problem)
    assert result.optimal
    x, y = result.x[:2]
    value = 3 * x + 2 * y - x * x - x * y - 2 * y * y
    assert problem.in_file_sense(result.objective) == pytest.approx(value)
    assert value == pytest.approx(9 / 4)  # y = 0, x = 3/2
    assert problem.in_file_sense(result.bound) >= value - 1e-9


def test_maximise_negates_the_constant(tmp_path):
    text = mps("OBJSENSE\n MAX\n", QUADOBJ.replace(" 2", " -2").replace(" 4", " -4"))
    problem = bnb.read(save(tmp_path, text))
    assert (problem.constant, problem.q.tolist()) == (-7, [-1, -2, 0])


def test_no_rows_and_no_quadratic_part(tmp_path):
    text = "minimize\n obj: x - y\nsubject to\nbounds\n x >= -3\n y <= 2\nend\n"
    problem = bnb.read(save(tmp_path, text, "model.lp"))
    assert problem.A.shape == (0, 2)
    assert problem.P.nnz == 0
    assert bnb.solve(problem).objective == pytest.approx(-5)


def test_compressed(tmp_path):
    path = tmp_path / "model.mps.gz"
    path.write_bytes(gzip.compress(mps().encode()))
    try:
        problem = bnb.read(path)
    except ValueError as error:  # not every build of HiGHS has zlib
        pytest.skip(str(error))
    assert problem.names == ["x", "y", "w"]


def test_huge_bounds_are_infinite(tmp_path):
    text = "minimize\n obj: x\nsubject to\n c: x + y <= 1e25\n d: x - y >= -1e30\n"
    text += "bounds\n -1e21 <= x <= 1e20\nend\n"
    problem = bnb.read(save(tmp_path, text, "model.lp"))
    assert np.isinf([*problem.lb[:1], *problem.ub, problem.u[0], problem.l[1]]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "cannot be read"),
        ("", "cannot be read"),
        (mps(quadratic="QUADOBJ\n x x 2\n x y 5\n y y 4\n"), "positive semidefinite"),
        (mps("OBJSENSE\n MAX\n"), "a maximisation needs a concave objective"),
        (mps(bounds=" SC BND w 3\n").replace(" MI BND w\n", ""), "'w' is semi-continuous"),
        (mps(bounds=" UP BND x 1\n LO BND x 2\n"), r"variable 'x' are empty: \[2, 1\]"),
        (mps(quadratic="QCMATRIX c1\n x x 1\n"), "Quadratic rows not supported"),
        (mps(quadratic="SOS\n S1 SOS s1\n SOS x 1\n SOS y 2\n"), "SOS not supported"),
        (mps().replace("'", ""), "not a valid model file"),  # integer markers lost
        (mps().replace(" x c2 1", " x c9 1"), "not a valid model file"),
        ("NAME t\nROWS\n N obj\nCOLUMNS\nRHS\nENDATA\n", "no variables"),
    ],
)
def test_refused_with_a_reason(tmp_path, text, message):
    path = save(tmp_path, text)
    with pytest.raises(ValueError, match=message) as caught:
        bnb.read(path)
    assert "model.mps: " in str(caught.value)


def test_missing_file_and_unknown_kind(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.mps: no such file"):
        bnb.read(tmp_path / "nothing.mps")
    with pytest.raises(ValueError, match="not a file"):
        bnb.read(tmp_path)
    with pytest.raises(ValueError, match=r"must end in one of \.mps"):
        bnb.read(save(tmp_path, mps(), "model.txt"))


def test_file_models_work_with_workers(tmp_path, two_workers):
    problem = bnb.read(save(tmp_path, mps()))
    assert isinstance(pickle.loads(pickle.dumps(problem)), FileModel)
    alone, together = bnb.solve(problem), bnb.solve(problem, **two_workers)
    assert alone.optimal and together.optimal
    assert alone.objective == pytest.approx(together.objective)
