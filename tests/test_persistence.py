import json
import os
import zipfile

import numpy as np
import pandas as pd
import pytest

import csvm
from csvm import CSVM

OPTIONS = {"C": 20.0, "threshold": "none", "random_state": 0, "time_limit": 20}


def data(labels=("a", "b")):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    return rng.normal(size=(60, 3)) + 0.8 * y[:, None], np.array(labels)[y]


@pytest.mark.parametrize("labels", [("a", "b"), (0, 1), (-1.0, 1.0), (False, True)])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_round_trip(tmp_path, kernel, labels):
    X, y = data(labels)
    model = CSVM(kernel=kernel, constraints=(csvm.tpr >= 0.9,), **OPTIONS).fit(X, y)
    model.save(tmp_path / "model.npz")
    again = CSVM.load(tmp_path / "model.npz")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.classes_.dtype == model.classes_.dtype
    assert again.rates_ == model.rates_
    assert again.result_.status is model.result_.status
    assert again.result_.bound == model.result_.bound
    assert np.array_equal(again.anchors_, model.anchors_)
    assert again.get_params()["C"] == 20.0 and str(again.constraints[0]) == "tpr>=0.9"
    again.fit(X, y)
    assert np.allclose(again.decision_function(X), model.decision_function(X))


def test_data_frames_keep_their_names_and_object_labels_become_text(tmp_path):
    X, y = data()
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    model = CSVM(**OPTIONS).fit(frame, y.astype(object))
    model.save(tmp_path / "model.npz")
    again = CSVM.load(tmp_path / "model.npz")
    assert again.feature_names_in_.tolist() == ["u", "v", "w"]
    assert np.array_equal(again.predict(frame), model.predict(frame).astype(str))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[["w", "v", "u"]])


def test_groups_cases_and_other_measures(tmp_path):
    X, y = data()
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(region=np.tile(["n", "s"], 30))
    constraints = (
        csvm.tpr["*"] >= 1 / 3, csvm.cost(fn=5, fp=1) <= 0.9, csvm.at_least(2, of=[3, 40, 50])
    )
    model = CSVM(constraints=constraints, class_weight={"a": 2.0}, **OPTIONS)
    model.fit(frame, y, sensitive_features="region")
    model.save(tmp_path / "model.npz")
    again = CSVM.load(tmp_path / "model.npz")
    assert again.constraints == constraints and again.rates_ == model.rates_
    assert [r.rate for r in again.rates_][:2] == ["tpr[n]", "tpr[s]"]
    assert again.class_weight == {"a": 2.0}
    assert again.groups_ == ["n", "s"] and again.group_column_ == "region"
    assert np.array_equal(again.predict(frame), model.predict(frame))


def test_precomputed_kernels(tmp_path):
    X, y = data()
    K = csvm.kernels.rbf(X, gamma=0.5)
    model = CSVM(kernel="precomputed", **OPTIONS).fit(K, y)
    model.save(tmp_path / "model.npz")
    again = CSVM.load(tmp_path / "model.npz")
    assert np.array_equal(again.decision_function(K), model.decision_function(K))


def test_kernel_functions_cannot_be_saved(tmp_path):
    X, y = data()
    model = CSVM(kernel=lambda A, B: A @ B.T, **OPTIONS).fit(X, y)
    with pytest.raises(ValueError, match="holds no code"):
        model.save(tmp_path / "model.npz")
    assert not (tmp_path / "model.npz").exists()


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


def test_loading_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = data()
    CSVM(**OPTIONS).fit(X, y).save("model.npz")
    with np.load("model.npz") as file:
        stored = dict(file)
    stored["classes_"] = np.array([Harmful(), 1], dtype=object)
    np.savez("harmful.npz", **stored)
    with pytest.raises(ValueError, match="not a model of csvm"):
        CSVM.load("harmful.npz")
    assert not os.path.exists("harm")


def test_other_files_are_refused(tmp_path):
    text, other, partial, newer = (tmp_path / n for n in ("a.npz", "b.npz", "c.npz", "d.npz"))
    text.write_text("hello")
    np.savez(other, x=np.zeros(2))
    with zipfile.ZipFile(partial, "w"):
        pass
    np.savez(newer, model=np.array(json.dumps({"format": "csvm model 99"})))
    for path in (text, other, partial, newer):
        with pytest.raises(ValueError, match="not a model of csvm"):
            CSVM.load(path)
    with pytest.raises(FileNotFoundError):
        CSVM.load(tmp_path / "nothing.npz")


# -- damaged and edited files -----------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, its file, and the points it was trained on."""
    X, y = data()
    model = CSVM(constraints=(csvm.tpr >= 0.9,), **OPTIONS).fit(X, y)
    path = tmp_path_factory.mktemp("saved") / "model.npz"
    model.save(path)
    return model, path, X


def edited(saved, path, change):
    """The file after a change to its text and arrays."""
    with np.load(saved[1]) as file:
        arrays = dict(file)
    text = json.loads(str(arrays.pop("model")))
    text = change(text, arrays) or text
    np.savez(path, model=np.array(json.dumps(text)), **arrays)
    return path


def put(*keys, value):
    """A change to the text."""

    def change(text, arrays):
        for key in keys[:-1]:
            text = text[key]
        text[keys[-1]] = value

    return change


def array(name, make):
    """A change to an array."""

    def change(text, arrays):
        arrays[name] = make(arrays[name])

    return change


def nan_first(a):
    a.flat[0] = np.nan
    return a


@pytest.mark.parametrize("change, message", [
    (lambda text, arrays: [1, 2], "its format is"),
    (lambda text, arrays: "model", "its format is"),
    (lambda text, arrays: text.pop("gamma") and None, "lacks gamma"),
    (lambda text, arrays: text["parameters"].pop("C") and None, "parameters lacks C"),
    (lambda text, arrays: arrays.pop("support_") is None, "lacks support_"),
    (put("parameters", "colour", value=1), "holds unknown colour"),
    (put("parameters", value=[]), "parameters"),
    (put("parameters", "kernel", value="gauss"), "kernel must be one of"),
    (put("parameters", "kernel", value=["rbf"]), "kernel must be"),
    (put("parameters", "degree", value="2"), None),
    (put("parameters", "gamma", value="wide"), "gamma must be"),
    (put("parameters", "gamma", value=None), "gamma must be"),
    (put("parameters", "coef0", value="0"), "coef0 must be"),
    (put("parameters", "constraints", value=["tpr<=0.9"]), "bounded from below"),
    (put("parameters", "constraints", value=7), "constraints must be one or several"),
    (put("parameters", "class_weight", value=[1]), "dictionary"),
    (put("parameters", "constraints", value=["tnr>=0.9"]), "not those of its constraints"),
    (put("parameters", "pos_label", value="c"), "none of its classes"),
    (put("gamma", value="0.5"), "gamma must be a number"),
    (put("gamma", value=float("nan")), "gamma must be a number"),
    (put("gamma", value=-1.0), "gamma must be a number"),
    (put("features", value=4), "support_vectors_ must have shape"),
    (put("features", value=3.0), "features must be an integer"),
    (put("feature_names", value=["a"]), "must be 3 different names"),
    (put("rates", value=[{}]), "a rate lacks"),
    (put("groups", value=[1, 2]), "groups must be"),
    (put("group_column", value=3), "group_column must be a name"),
    (put("rates", value=None), "not iterable"),
    (put("result", "status", value="proven"), "proven"),
    (put("result", "nodes", value="many"), "nodes must be a number"),
    (put("table", value={"columns": []}), "table lacks"),
    (array("dual_coef_", nan_first), "dual_coef_ holds NaN"),
    (array("intercept_", nan_first), "intercept_ holds NaN"),
    (array("support_vectors_", nan_first), "support_vectors_ holds NaN"),
    (array("dual_coef_", lambda a: a[:, 1:]), "dual_coef_ must have shape"),
    (array("dual_coef_", lambda a: a[0]), "dual_coef_ must have shape"),
    (array("support_vectors_", lambda a: a[1:]), "support_vectors_ must have shape"),
    (array("support_", lambda a: -1 - a), "negative"),
    (array("intercept_", lambda a: a.astype("f4")), "must not hold float32"),
    (array("intercept_", lambda a: a.astype(complex)), "must not hold complex"),
    (array("classes_", lambda a: np.array(["a", "b", "c"])), "classes_ must have shape"),
    (array("classes_", lambda a: a[::-1]), "classes_ must be two in order"),
    (array("classes_", lambda a: a.astype(object)), "must not hold object"),
    (lambda text, arrays: arrays.update(more=np.zeros(2)), "holds unknown more"),
])
def test_edited_files_are_refused(saved, tmp_path, change, message):
    path = edited(saved, tmp_path / "edited.npz", change)
    if message is None:  # not used by this kernel
        assert np.array_equal(CSVM.load(path).predict(saved[2]), saved[0].predict(saved[2]))
        return
    with pytest.raises(ValueError, match="is not a model of csvm, or damaged") as caught:
        CSVM.load(path)
    assert message in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_nothing_larger_than_the_file_is_read(saved, tmp_path):
    """An array that claims 80 TB, and zeros that were compressed to nothing."""
    path = edited(saved, tmp_path / "huge.npz", lambda text, arrays: None)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    whole = parts["dual_coef_.npy"]
    start = whole.index(b"'shape': (")
    end = whole.index(b")", start)
    claim = b"'shape': (1, 10000000000000"
    header = whole[:start] + claim + whole[end:]
    cut = header.index(b"}") + 1
    spare = len(claim) - (end - start)
    parts["dual_coef_.npy"] = header[:cut] + header[cut + spare :]
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    with pytest.raises(ValueError, match="than its shape"):
        CSVM.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in parts:
            archive.writestr(name, bytes(10**6))
    with pytest.raises(ValueError, match="larger than the file"):
        CSVM.load(path)


def test_odd_files_are_refused(saved, tmp_path):
    (tmp_path / "empty.npz").touch()
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "half.npz").write_bytes(saved[1].read_bytes()[:2000])
    for name in ("empty.npz", "folder.npz", "half.npz"):
        with pytest.raises(ValueError, match="is not a model of csvm, or damaged"):
            CSVM.load(tmp_path / name)


def test_flipped_bytes_never_change_a_prediction(saved, tmp_path):
    model, path, X = saved
    whole, expected = path.read_bytes(), model.decision_function(X)
    rng = np.random.default_rng(0)
    damaged = tmp_path / "damaged.npz"
    refused = 0
    for place in rng.integers(len(whole), size=400):
        content = bytearray(whole)
        content[place] ^= int(rng.integers(1, 256))
        damaged.write_bytes(content)
        try:
            again = CSVM.load(damaged)
        except ValueError as error:
            assert "is not a model of csvm" in str(error)
            refused += 1
        else:
            assert np.array_equal(again.decision_function(X), expected)
            assert np.array_equal(again.predict(X), model.predict(X))
    assert refused > 300


def test_interrupted_saves_leave_the_old_file_and_nothing_else(saved, tmp_path, monkeypatch):
    model, path, _ = saved
    target = tmp_path / "model.npz"
    target.write_bytes(path.read_bytes())

    def interrupted(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.save(target)
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]
    assert target.read_bytes() == path.read_bytes()


def test_numbers_of_numpy_in_constraints_are_read_back(tmp_path):
    X, y = data()
    model = CSVM(constraints=(csvm.tpr >= np.float64(0.9),), **OPTIONS).fit(X, y)
    model.save(tmp_path / "model.npz")
    assert CSVM.load(tmp_path / "model.npz").constraints == (csvm.tpr >= 0.9,)


def test_only_fitted_models_are_saved(tmp_path):
    with pytest.raises(Exception, match="not fitted"):
        CSVM().save(tmp_path / "model.npz")
