"""Names of a package that are imported when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["lazy"]


def lazy(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Parameters
    ----------
    package : str
        Its name.
    modules : mapping of str to sequence of str
        Per module, ".inside" it or of another one, the names that the package takes from there. Its
        modules themselves are found as well.
    """
    places = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name in places:
            value = getattr(import_module(places[name], package), name)
        elif not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *places})
