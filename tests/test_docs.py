"""The examples in the documentation run as they stand."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES.remove(ROOT / "docs" / "recipes.md")  # other packages: see test_recipes


def blocks(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_python_blocks_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}  # later blocks of a page may build on earlier ones
    for block in blocks(path):
        exec(compile(block, str(path), "exec"), names)


@pytest.mark.parametrize("package", ["csvm", "bnb", "relaxations"])
def test_the_reference_has_every_public_name(package):
    text = (ROOT / "docs" / "api.md").read_text()
    blocks_of = re.findall(rf"currentmodule:: {package}\n(.*?)```", text, flags=re.DOTALL)
    found = {name for block in blocks_of for name in re.findall(r"^   (\w+)$", block, re.MULTILINE)}
    found |= set(re.findall(rf"`{package}\.(\w+)`", text))
    assert set(import_module(package).__all__) <= found


def test_the_engine_page_shows_a_problem_of_about_forty_lines():
    (block,) = [b for b in blocks(ROOT / "docs" / "engine.md") if "class Depots" in b]
    assert block.count("\n") <= 50
