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


def test_only_fitted_models_are_saved(tmp_path):
    with pytest.raises(Exception, match="not fitted"):
        CSVM().save(tmp_path / "model.npz")
