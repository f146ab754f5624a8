from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest

from csvm import datasets


@pytest.fixture(autouse=True)
def no_directory(monkeypatch):
    monkeypatch.delenv("CSVM_DATA", raising=False)


def write(path, rows=435, columns=16, positives=267, last="label"):
    header = [f"x{i}" for i in range(columns)] + [last]
    lines = [",".join(header)]
    for row in range(rows):
        lines.append(",".join(["0.5"] * columns + ["1" if row < positives else "-1"]))
    path.write_text("\n".join(lines) + "\n")


def test_wisconsin_is_in_scikit_learn_with_malignant_positive():
    data = datasets.load("wisconsin")
    X, y = data
    assert X.shape == (569, 30) and (y > 0).sum() == 212
    radius = data.features.index("mean radius")
    assert X[y > 0, radius].mean() > X[y < 0, radius].mean()


def test_directory_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("CSVM_DATA", str(tmp_path))
    write(tmp_path / "votes.csv")
    data = datasets.load("votes")
    assert data.X.shape == (435, 16) and data.features[0] == "x0"
    assert data.y.dtype.kind == "i" and set(data.y) == {-1, 1}


@pytest.mark.parametrize("wrong", [{"rows": 434}, {"columns": 15}, {"positives": 266}])
def test_other_data_is_refused(tmp_path, monkeypatch, wrong):
    monkeypatch.setenv("CSVM_DATA", str(tmp_path))
    write(tmp_path / "votes.csv", **wrong)
    with pytest.raises(datasets.DatasetError, match=r"expected \(435, 16, 267\)"):
        datasets.load("votes")


def test_other_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CSVM_DATA", str(tmp_path))
    write(tmp_path / "votes.csv", last="class")
    with pytest.raises(datasets.DatasetError, match="must be 'label'"):
        datasets.load("votes")
    (tmp_path / "votes.csv").write_text("a,label\nyes,1\n")
    with pytest.raises(datasets.DatasetError, match="numbers only"):
        datasets.load("votes")


def test_offline_message(monkeypatch):
    def unreachable(**options):
        raise URLError("no route to host")

    monkeypatch.setattr(datasets, "fetch_openml", unreachable)
    with pytest.raises(datasets.DatasetError, match=r"no route to host.*CSVM_DATA"):
        datasets.load("german")


def test_unknown_name():
    with pytest.raises(ValueError, match="australian, votes"):
        datasets.load("iris")


def bunch(data, target, categories):
    names = [f"f{i}" for i in range(len(data[0]))] if not categories else list(categories)
    return SimpleNamespace(
        data=np.array(data, dtype=float), target=np.array(target), feature_names=names,
        categories={k: v for k, v in categories.items() if v is not None},
    )


def test_votes_coding(monkeypatch):
    answers = {f"v{i}": ["n", "y"] for i in range(16)}
    data = np.zeros((435, 16))
    data[:, 1], data[:, 2] = 1.0, np.nan
    target = np.repeat(["democrat", "republican"], [267, 168])
    monkeypatch.setattr(datasets, "fetch_openml", lambda **o: bunch(data, target, answers))
    X, y = datasets.load("votes")
    assert X[0, :3].tolist() == [-1, 1, 0] and y[0] == 1


def test_german_coding():
    categories = {
        "checking_status": ["<0", "0<=X<200", ">=200", "no checking"],
        "duration": None,
        "purpose": ["new car", "vacation", "radio/tv"],
        "own_telephone": ["none", "yes"],
    }
    data = [[3, 6, 2, 1], [0, 48, 0, 0]]
    X, features = datasets._german(bunch(data, ["good", "bad"], categories))
    first, second = (dict(zip(features, row, strict=True)) for row in X)
    assert first["checking_status"] == 4 and second["checking_status"] == 1
    assert first["duration"] == 6 and first["own_telephone"] == 1
    assert first["purpose=radio/tv"] == 1 and first["purpose=new car"] == 0
    categories["purpose"] = ["new car", "vacation", "tv"]
    with pytest.raises(datasets.DatasetError, match="unknown level 'tv' of purpose"):
        datasets._german(bunch(data, ["good", "bad"], categories))
    levels = sum(map(len, datasets._UNORDERED.values()))
    others = 20 - len(datasets._UNORDERED)
    assert levels + others == 45


def test_numeric_categories_are_numbers():
    X, _ = datasets._as_numbers(bunch([[1, 2.5]], ["1"], {"a": ["3", "7"], "b": None}))
    assert X.tolist() == [[7.0, 2.5]]


def test_openml_shape_of_page_blocks(monkeypatch):
    target = np.repeat(["1", "2", "3"], [4913, 300, 260])
    fake = bunch(np.zeros((5473, 10)), target, {})
    monkeypatch.setattr(datasets, "fetch_openml", lambda **o: fake)
    assert (datasets.load("pageBlocks").y > 0).sum() == 560
