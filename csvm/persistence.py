"""Models in npz files: arrays and JSON text, nothing that runs when it is loaded."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from bnb import Reason, Result, Status
from bnb.checkpoint import replacing

from .kernels import resolve_gamma
from .rates import Constraint, parse_constraints
from .requirements import RateReport

FORMAT = "csvm model 2"

_ARRAYS = {  # kinds of numbers or text that they may hold
    "support_": "iu", "support_vectors_": "f", "dual_coef_": "f", "intercept_": "f",
    "anchors_": "iu", "given_up_": "iu", "classes_": "biufU",
}
_COUNTS = ("nodes", "open", "pruned", "probes")
_RESULT_NUMBERS = (
    "objective", "bound", "gap", "root_bound", "violation", *_COUNTS, "seconds",
    "relaxation_seconds",
)
_KEYS = (
    "format", "parameters", "table", "gamma", "features", "feature_names", "groups",
    "group_column", "rates", "result",
)
_TABLE_KEYS = ("columns", "mean", "scale", "label", "group")


def save(model: Any, path: str | Path, table: dict[str, Any] | None = None) -> None:
    """Write a fitted `csvm.CSVM` without its search history; for `table` see `TableModel`."""
    if callable(model.kernel):
        raise ValueError("a model with a kernel function cannot be saved: a file holds no code")
    arrays: dict[str, Any] = {name: np.asarray(getattr(model, name)) for name in _ARRAYS}
    if arrays["classes_"].dtype == object:
        arrays["classes_"] = np.array([str(c) for c in model.classes_])
    names = getattr(model, "feature_names_in_", None)
    text = {
        "format": FORMAT,
        "parameters": {k: _plain(v) for k, v in _parameters(model).items()},
        "table": table,
        "gamma": model._gamma,
        "features": model.n_features_in_,
        "feature_names": None if names is None else [str(n) for n in names],
        "groups": model.groups_,
        "group_column": model.group_column_,
        "rates": [asdict(rate) for rate in model.rates_],
        "result": {
            "status": model.result_.status.value, "reason": model.result_.reason.value,
            **{name: float(getattr(model.result_, name)) for name in _RESULT_NUMBERS},
        },
    }
    with replacing(Path(path)) as file:
        # Not compressed, so that reading a file takes no more memory than its size.
        np.savez(file, model=np.array(json.dumps(text)), **arrays)


def _parameters(model: Any) -> dict[str, Any]:
    """Those that belong to the model; a checkpoint belongs to the machine it was fitted on."""
    return {name: value for name, value in model.get_params().items() if name != "checkpoint"}


def load(cls: Any, path: str | Path) -> Any:
    """Read a model written by `save` without a table."""
    model, table = load_with_table(cls, path)
    if table is not None:
        raise ValueError(
            f"{path} was written by the command line and standardises columns first: use "
            "csvm.tables.TableModel.load, or csvm predict"
        )
    return model


def load_with_table(cls: Any, path: str | Path) -> tuple[Any, dict[str, Any] | None]:
    """Read a model written by `save`, and what is known about its table."""
    try:
        stored = _read(Path(path))
        text = json.loads(str(stored.pop("model")))
        return _restore(cls, text, stored), text["table"]
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # zipfile, numpy and json raise whatever damage leads them to
        raise ValueError(f"{path} is not a model of csvm, or damaged: {error}") from error


# -- files ------------------------------------------------------------------------------------


def _read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file, none of them larger than the file."""
    if path.is_dir():
        raise ValueError("it is a directory")
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        _check_keys("the file", names, ["model", *_ARRAYS])
        if sum(info.file_size for info in archive.infolist()) > path.stat().st_size:
            raise ValueError("its arrays claim to be larger than the file")
        return {
            name: _array(archive, info, "U" if name == "model" else _ARRAYS[name])
            for name, info in zip(names, archive.infolist(), strict=True)
        }


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, kinds: str) -> np.ndarray:
    """One array, whose header is believed only if it agrees with what is there."""
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        raise ValueError(f"{info.filename} is compressed")
    file = io.BytesIO(archive.read(info))  # not more than the file holds; its checksum is checked
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError(f"{info.filename} is of another version")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in kinds or (dtype.kind == "f" and dtype.itemsize != 8):
        raise ValueError(f"{info.filename} must not hold {dtype}")
    if math.prod(shape) * dtype.itemsize != len(file.getbuffer()) - file.tell():
        raise ValueError(f"{info.filename} is shorter or longer than its shape {shape}")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


# -- content ----------------------------------------------------------------------------------


def _restore(cls: Any, text: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The model, once all that predictions depend on has been found to fit together."""
    if not isinstance(text, dict) or text.get("format") != FORMAT:
        found = text.get("format") if isinstance(text, dict) else text
        raise ValueError(f"its format is {str(found)[:40]!r}, not {FORMAT!r}")
    _check_keys("its text", text, _KEYS)
    parameters = text["parameters"]
    _check_keys("parameters", parameters, _parameters(cls()))
    parameters["constraints"] = tuple(parse_constraints(parameters["constraints"]))
    if isinstance(parameters["class_weight"], list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    model = cls(**parameters)
    if not isinstance(model.kernel, str):
        raise ValueError(f"kernel must be a name, got {model.kernel!r}")
    model._check_parameters()
    resolve_gamma(model.gamma, np.zeros((1, 1)))  # refuses what is no gamma
    model._gamma = _number("gamma", text["gamma"], least=0.0)
    model.n_features_in_ = _count("features", text["features"])
    if text["feature_names"] is not None:
        names = _names("feature_names", text["feature_names"], model.n_features_in_)
        model.feature_names_in_ = np.array(names, dtype=object)
    for name, array in arrays.items():
        setattr(model, name, array)
    _check_arrays(model)
    model.groups_, model.group_column_ = text["groups"], text["group_column"]
    if model.groups_ is not None:
        _names("groups", model.groups_, len(model.groups_))
    if not isinstance(model.group_column_, (str, type(None))):
        raise ValueError(f"group_column must be a name, got {str(model.group_column_)[:40]!r}")
    model.rates_ = [_rate(rate) for rate in text["rates"]]
    asked = [one for c in model.constraints for one in c.each(model.groups_)]
    if [rate.rate for rate in model.rates_] != [str(one.rate) for one in asked]:
        raise ValueError("its rates are not those of its constraints")
    model.result_ = _result(text["result"])
    if text["table"] is not None:
        _check_table(text["table"], model.n_features_in_)
    return model


def _check_arrays(model: Any) -> None:
    """Shapes and values."""
    features = model.n_features_in_
    points, precomputed = model.support_.size, model.kernel == "precomputed"
    shapes = {
        "support_": (points,), "dual_coef_": (1, points), "intercept_": (1,), "classes_": (2,),
        "support_vectors_": (0 if precomputed else points, features),
        "anchors_": (model.anchors_.size,), "given_up_": (model.given_up_.size,),
    }
    for name, shape in shapes.items():
        array = getattr(model, name)
        if array.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, it has {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} holds NaN or infinity")
        if _ARRAYS[name] == "iu" and array.size and array.min() < 0:
            raise ValueError(f"{name} holds negative positions")
    if precomputed and points and model.support_.max() >= features:
        raise ValueError(f"support_ must hold positions below {features}")
    if not model.classes_[0] < model.classes_[1]:
        raise ValueError(f"classes_ must be two in order, they are {model.classes_}")
    if model.pos_label is not None and model.pos_label not in model.classes_.tolist():
        raise ValueError(f"pos_label {model.pos_label!r} is none of its classes")


def _check_table(table: Any, features: int) -> None:
    _check_keys("table", table, _TABLE_KEYS)
    columns = _names("columns", table["columns"], features)
    for name in ("mean", "scale"):
        values = table[name]
        if not isinstance(values, list) or len(values) != features:
            raise ValueError(f"{name} must be {features} numbers, got {str(values)[:40]}")
        for value in values:
            _number(name, value)
    if min(table["scale"]) <= 0:
        raise ValueError("scale must be positive")
    if not isinstance(table["label"], str) or table["label"] in columns:
        raise ValueError(f"label must be the name of a further column, got {table['label']!r}")
    if not isinstance(table["group"], (str, type(None))):
        raise ValueError(f"group must be the name of a column, got {str(table['group'])[:40]!r}")


def _rate(data: Any) -> RateReport:
    _check_keys("a rate", data, [field.name for field in fields(RateReport)])
    return RateReport(data.pop("rate"), **{k: _number(k, v, least=0.0) for k, v in data.items()})


def _result(data: Any) -> Result:
    _check_keys("result", data, ("status", "reason", *_RESULT_NUMBERS))
    numbers: dict[str, Any] = {k: _number(k, data[k], finite=False) for k in _RESULT_NUMBERS}
    for name in _COUNTS:
        numbers[name] = int(numbers[name])
    return Result(Status(data["status"]), Reason(data["reason"]), None, **numbers)


def _check_keys(what: str, found: Any, expected: Any) -> None:
    if not isinstance(found, (dict, list)):
        raise ValueError(f"{what} must be a dictionary, got {str(found)[:40]!r}")
    for kind, names in (
        ("lacks", [name for name in expected if name not in found]),
        ("holds unknown", [name for name in found if name not in expected]),
    ):
        if names:
            raise ValueError(f"{what} {kind} {', '.join(names)[:80]}")
    if len(found) != len(expected):
        raise ValueError(f"{what} holds a name twice")


def _number(what: str, value: Any, *, least: float = -math.inf, finite: bool = True) -> float:
    number = float(value) if isinstance(value, (int, float)) else math.nan
    if isinstance(value, bool) or not number >= least or (finite and not math.isfinite(number)):
        raise ValueError(f"{what} must be a number, got {str(value)[:40]!r}")
    return number


def _count(what: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{what} must be an integer >= 1, got {str(value)[:40]!r}")
    return value


def _names(what: str, value: Any, count: int) -> Sequence[str]:
    names = value if isinstance(value, list) else []
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) != len(names) or len(set(texts)) != count or len(texts) != count:
        raise ValueError(f"{what} must be {count} different names, got {str(value)[:40]}")
    return texts


def _plain(value: Any) -> Any:
    """A parameter as JSON data."""
    if isinstance(value, (list, tuple, set)):
        return [_plain(v) for v in value]
    if isinstance(value, Constraint):
        return value.text
    if isinstance(value, Mapping):
        return [[_plain(k), _plain(v)] for k, v in value.items()]  # keys of JSON are text
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return None if isinstance(value, np.random.RandomState) else str(value)
