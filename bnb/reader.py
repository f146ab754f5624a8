"""Read MPS and LP files with a quadratic objective; HiGHS does the parsing."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import scipy.sparse as sp

from .qp.miqp import MIQP
from .qp.model import Model
from .validation import INFINITE

_ENDINGS = (".mps", ".lp", ".mps.gz", ".lp.gz")


class FileModel(MIQP):
    """An `MIQP` that came from a file.

    Attributes
    ----------
    names : list of str
        Names of the variables, in the order of ``x``.
    maximize : bool
        The file asks for a maximum. The engine minimises, so the objective is negated; see
        `in_file_sense`.
    """

    def __init__(self, names: list[str], maximize: bool, model: Model) -> None:
        super().__init__(**model.arguments())
        self.names = names
        self.maximize = maximize

    def in_file_sense(self, value: float) -> float:
        """An objective or a bound of the search as the objective of the file."""
        return -value if self.maximize else value


def read(path: str | Path) -> FileModel:
    """Read a model file.

    Parameters
    ----------
    path : path
        An MPS or LP file, by its ending, possibly compressed (``.gz``), with a linear or convex
        quadratic objective, linear rows, and continuous, integer or binary variables. For a
        maximisation the objective must be concave; it is negated.

    Returns
    -------
    FileModel
        An `MIQP` with variable names.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file cannot be read, or it holds something that is not supported.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import bnb
    >>> text = "max 3 a + 2 b\\nst 2 a + b <= 4\\nbounds b <= 2\\ngeneral a b\\nend"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.lp"
    ...     _ = path.write_text(text)
    ...     problem = bnb.read(path)
    >>> result = bnb.solve(problem, time_limit=60)
    >>> dict(zip(problem.names, result.x.tolist(), strict=True))
    {'a': 1.0, 'b': 2.0}
    >>> problem.in_file_sense(result.objective)
    7.0
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if not path.is_file():
        raise ValueError(f"{path}: not a file")
    if not path.name.lower().endswith(_ENDINGS):
        raise ValueError(f"{path}: the name must end in one of {', '.join(_ENDINGS)}")
    model, remarks = _parse(path)
    try:
        problem = _convert(model)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    for remark in remarks:
        warnings.warn(f"{path}: {remark}", stacklevel=2)
    return problem


def _parse(path: Path) -> tuple[Any, list[str]]:
    """The model as HiGHS reads it, and its remarks, which decide whether it is trusted."""
    reader = highspy.Highs()
    reader.setOptionValue("log_to_console", False)
    # What went wrong is only said in the log.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "log"
        reader.setOptionValue("log_file", str(log))
        status = reader.readModel(str(path))
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    said = [line.split(":", 1)[1].strip() for line in lines if line.startswith("WARNING:")]
    if status == highspy.HighsStatus.kError:
        wrong = [line.split(":", 1)[1].strip() for line in lines if line.startswith("ERROR:")]
        raise ValueError(f"{path}: cannot be read ({'; '.join(wrong[:2]) or 'unknown reason'})")
    ignored = [text for text in said if "ignored" in text]
    if ignored:  # a part of the model is missing: an optimum of the rest is no answer
        raise ValueError(f"{path}: not a valid model file ({ignored[0]})")
    return reader.getModel(), said


def _convert(model: Any) -> FileModel:
    lp = model.lp_
    n = lp.num_col_
    if n == 0:
        raise ValueError("the model has no variables")
    names = list(lp.col_names_) if len(lp.col_names_) == n else [f"x{j}" for j in range(n)]
    lb, ub = _bounds(lp.col_lower_, lp.col_upper_)
    low, high = _bounds(lp.row_lower_, lp.row_upper_)
    rows = list(lp.row_names_) if len(lp.row_names_) == len(low) else None
    _check_intervals("variable", names, lb, ub)
    _check_intervals("row", rows or [str(i) for i in range(len(low))], low, high)
    maximize = lp.sense_ == highspy.ObjSense.kMaximize
    sign = -1.0 if maximize else 1.0
    try:
        return FileModel(names, maximize, Model(
            sign * _hessian(model.hessian_, n), sign * np.asarray(lp.col_cost_), _rows(lp),
            low, high, lb, ub, _integers(lp, names), sign * lp.offset_,
        ))
    except ValueError as error:
        if maximize and "positive semidefinite" in str(error):
            raise ValueError(
                f"a maximisation needs a concave objective; negated, {error}"
            ) from None
        raise


def _bounds(low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    low[low <= -INFINITE] = -np.inf
    high[high >= INFINITE] = np.inf
    return low, high


def _check_intervals(kind: str, names: list[str], low: np.ndarray, high: np.ndarray) -> None:
    """Bounds that cross are named: in a file they are a slip more often than a problem."""
    wrong = np.flatnonzero((low > high) | (low >= INFINITE) | (high <= -INFINITE))
    if wrong.size:
        i = int(wrong[0])
        raise ValueError(f"the bounds of {kind} {names[i]!r} are empty: [{low[i]:g}, {high[i]:g}]")


def _integers(lp: Any, names: list[str]) -> np.ndarray:
    kinds = list(lp.integrality_) or [highspy.HighsVarType.kContinuous] * lp.num_col_
    semi = (highspy.HighsVarType.kSemiContinuous, highspy.HighsVarType.kSemiInteger)
    for name, kind in zip(names, kinds, strict=True):
        if kind in semi:
            raise ValueError(
                f"variable {name!r} is semi-continuous, which is not supported; write it with "
                "a binary z as low*z <= x <= high*z"
            )
    return np.array([kind == highspy.HighsVarType.kInteger for kind in kinds])


def _rows(lp: Any) -> sp.csr_matrix:
    matrix = lp.a_matrix_
    parts = (np.asarray(matrix.value_), np.asarray(matrix.index_), np.asarray(matrix.start_))
    shape = (lp.num_row_, lp.num_col_)
    if lp.num_row_ == 0:
        return sp.csr_matrix(shape)
    by_column = matrix.format_ == highspy.MatrixFormat.kColwise
    return sp.csr_matrix((sp.csc_matrix if by_column else sp.csr_matrix)(parts, shape=shape))


def _hessian(hessian: Any, n: int) -> sp.csr_matrix:
    """The symmetric P of ½ xᵀPx; HiGHS keeps one triangle of it."""
    if hessian.dim_ == 0:
        return sp.csr_matrix((n, n))
    parts = (np.asarray(hessian.value_), np.asarray(hessian.index_), np.asarray(hessian.start_))
    matrix = sp.csc_matrix(parts, shape=(n, n))
    if hessian.format_ == highspy.HessianFormat.kTriangular:
        matrix = matrix + sp.tril(matrix, -1).T
    return sp.csr_matrix(matrix)
