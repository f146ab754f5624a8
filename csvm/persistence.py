"""Models in npz files: arrays and JSON text, nothing that runs when it is loaded."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bnb import Reason, Result, Status

from .rates import Constraint, RateReport, parse_constraints

__all__ = ["load", "load_with_table", "save"]

FORMAT = "csvm model 1"

_ARRAYS = (
    "support_", "support_vectors_", "dual_coef_", "intercept_", "anchors_", "given_up_", "classes_"
)
_RESULT_NUMBERS = (
    "objective", "bound", "gap", "root_bound", "violation", "nodes", "open", "pruned", "probes",
    "seconds", "relaxation_seconds",
)


def save(model: Any, path: str | Path, table: dict[str, Any] | None = None) -> None:
    """Write a fitted `csvm.CSVM`; its search history is left out.

    Parameters
    ----------
    model : CSVM
    path : path
    table : dict, optional
        JSON data about the table that the model was trained on; see `csvm.tables.TableModel`.
    """
    if callable(model.kernel):
        raise ValueError("a model with a kernel function cannot be saved: a file holds no code")
    arrays: dict[str, Any] = {name: np.asarray(getattr(model, name)) for name in _ARRAYS}
    if arrays["classes_"].dtype == object:
        arrays["classes_"] = np.array([str(c) for c in model.classes_])
    names = getattr(model, "feature_names_in_", None)
    text = {
        "format": FORMAT,
        "parameters": {k: _plain(v) for k, v in model.get_params().items()},
        "table": table,
        "gamma": model._gamma,
        "features": model.n_features_in_,
        "feature_names": None if names is None else [str(n) for n in names],
        "rates": [asdict(rate) for rate in model.rates_],
        "result": {
            "status": model.result_.status.value, "reason": model.result_.reason.value,
            **{name: float(getattr(model.result_, name)) for name in _RESULT_NUMBERS},
        },
    }
    with Path(path).open("wb") as file:
        np.savez_compressed(file, model=np.array(json.dumps(text)), **arrays)


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
        with np.load(path, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        text = json.loads(str(stored["model"]))
        if text["format"] != FORMAT:
            raise ValueError(f"its format is {text['format']!r}")
        missing = [name for name in _ARRAYS if name not in stored]
        if missing:
            raise ValueError(f"it lacks {', '.join(missing)}")
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a model of csvm: {error}") from None
    parameters = text["parameters"]
    parameters["constraints"] = tuple(parse_constraints(parameters["constraints"]))
    model = cls(**parameters)
    for name in _ARRAYS:
        setattr(model, name, stored[name])
    model._gamma = text["gamma"]
    model.n_features_in_ = text["features"]
    if text["feature_names"] is not None:
        model.feature_names_in_ = np.array(text["feature_names"], dtype=object)
    model.rates_ = [RateReport(**rate) for rate in text["rates"]]
    result = text["result"]
    for name in ("nodes", "open", "pruned", "probes"):
        result[name] = int(result[name])
    model.result_ = Result(
        Status(result.pop("status")), Reason(result.pop("reason")), None, **result
    )
    return model, text["table"]


def _plain(value: Any) -> Any:
    """A parameter as JSON data."""
    if isinstance(value, (list, tuple, set)):
        return [_plain(v) for v in value]
    if isinstance(value, Constraint):
        return f"{value.name}>={value.p0!r}"
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return None if isinstance(value, np.random.RandomState) else str(value)
