"""A digest of Python data that is the same in every process."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp


class UnknownDataError(TypeError):
    """There is no telling whether two values of this kind are equal."""


def digest(value: Any) -> str:
    """A hexadecimal digest, equal for equal data whichever process or object holds them.

    Takes what pickle takes. Functions are refused: equal names do not make them equal.
    """
    state = hashlib.sha256()
    _feed(state, value, "it", ())
    return state.hexdigest()


def _feed(state: Any, value: Any, path: str, above: tuple[int, ...]) -> None:
    """Add a value; `path` is where it was found, `above` are the objects that it is a part of."""
    if id(value) in above:
        raise UnknownDataError(f"{path} contains itself")
    above = (*above, id(value))
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        _tag(state, type(value).__name__, repr(value))
    elif isinstance(value, type):
        _tag(state, "class", f"{value.__module__}.{value.__qualname__}")
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        _tag(state, "array", f"{value.dtype.str} {value.shape}")
        state.update(np.ascontiguousarray(value).data)
    elif isinstance(value, (list, tuple)):
        _tag(state, type(value).__name__, str(len(value)))
        for number, part in enumerate(value):
            _feed(state, part, f"{path}[{number}]", above)
    elif isinstance(value, (set, frozenset)):
        _tag(state, "set", " ".join(sorted(digest(part) for part in value)))
    elif isinstance(value, dict):
        _tag(state, "dict", str(len(value)))
        for key, part in value.items():
            _feed(state, key, path, above)
            _feed(state, part, f"{path}[{key!r}]", above)
    else:
        _feed(state, _parts(value, path), path, above)


def _parts(value: Any, path: str) -> tuple[Any, ...]:
    """What an object is made of."""
    if sp.issparse(value):
        rows = sp.csr_matrix(value, copy=True)
        rows.sum_duplicates()  # one order of the entries
        index = (part.astype(np.int64) for part in (rows.indices, rows.indptr))
        return ("sparse", rows.shape, rows.data, *index)
    try:
        make, arguments, *rest = value.__reduce_ex__(4)  # as pickle takes it apart
    except (TypeError, ValueError):
        raise UnknownDataError(f"{path} is a {type(value).__name__}") from None
    # Items of subclasses of list and dict come as iterators.
    rest = [list(part) if hasattr(part, "__next__") else part for part in rest]
    return (type(value), make.__qualname__, arguments, rest)


def _tag(state: Any, kind: str, text: str) -> None:
    """The length goes before the text, so that no two sequences of values read alike."""
    state.update(f"{kind}:{len(text)}:{text};".encode())
