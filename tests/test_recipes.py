"""The recipes run as they stand, where the package that they are about is installed."""

import re

import pytest
from test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "recipes.md"
PACKAGES = {"PySINDy": "pysindy", "PyPortfolioOpt": "pypfopt", "cvxpy": "cvxpy"}


def test_every_recipe_is_tried():
    titles = re.findall(r"^## (\w+)", PAGE.read_text(), flags=re.MULTILINE)
    assert titles == list(PACKAGES) and len(blocks(PAGE)) == len(PACKAGES)


@pytest.mark.parametrize("number", range(len(PACKAGES)), ids=list(PACKAGES))
def test_recipe(number, tmp_path, monkeypatch):
    package = list(PACKAGES.values())[number]
    pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks(PAGE)[number], str(PAGE), "exec"), {"__name__": "__main__"})
