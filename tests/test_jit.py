"""`relaxations.jit.inner` makes functions that end the process when Python calls them."""

import ast
import re
from pathlib import Path

import pytest

import relaxations

ROOT = Path(relaxations.__file__).parents[1]
SOURCES = [p for package in ("bnb", "csvm", "relaxations") for p in (ROOT / package).rglob("*.py")]


def functions(tree):
    """Every function of a module, whether it is compiled and whether it is inner."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            words = set(re.findall(r"\w+", " ".join(map(ast.unparse, node.decorator_list))))
            yield node, bool(words & {"njit", "inner", "outer"}), "inner" in words


def inner_names(path):
    return {f.name for f, _, is_inner in functions(ast.parse(path.read_text())) if is_inner}


def imported(tree, inner):
    """Names of inner functions that a module takes from others."""
    return {
        name.asname or name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
        for name in node.names if name.name in inner.get((node.module or "").split(".")[-1], ())
    }


def calls_from_python(path, inner):
    tree = ast.parse(path.read_text())
    watched = inner.get(path.stem, set()) | imported(tree, inner)
    allowed = {
        id(n) for f, is_compiled, _ in functions(tree) if is_compiled for n in ast.walk(f)
    }
    return [
        f"{path.name}:{n.lineno} {n.id}" for n in ast.walk(tree)
        if isinstance(n, ast.Name) and n.id in watched and id(n) not in allowed
    ]


@pytest.fixture(scope="module")
def inner():
    return {path.stem: inner_names(path) for path in SOURCES if inner_names(path)}


def test_only_compiled_code_calls_inner_functions(inner):
    assert {"add_rows", "entry"} <= inner["gram"]  # there is something to look at
    assert [call for path in SOURCES for call in calls_from_python(path, inner)] == []


def test_a_call_from_python_is_seen(tmp_path, inner):
    path = tmp_path / "module.py"
    path.write_text("from .gram import entry\n\n@njit\ndef f(g):\n    return entry(g, 0, 0)\n\n\n"
                    "def wrong(g):\n    return entry(g, 0, 0)\n")
    assert calls_from_python(path, inner) == ["module.py:9 entry"]
