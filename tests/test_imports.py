"""Importing is quick, and every public name is there when asked for."""

import subprocess
import sys
from importlib import import_module

import pytest

PACKAGES = ["csvm", "bnb", "relaxations"]
LARGE = {"numpy", "scipy", "sklearn", "numba", "cvxpy", "matplotlib", "dask", "highspy", "osqp"}


@pytest.mark.parametrize("code, unneeded", [
    *((f"import {package}", LARGE) for package in PACKAGES),
    ("from csvm import CSVM", {"cvxpy", "matplotlib", "dask", "highspy"}),
    ("from bnb import MIQP, solve", {"cvxpy", "matplotlib", "dask", "sklearn"}),
])
def test_importing_does_not_load_what_is_not_needed(code, unneeded):
    code = f"{code}; import sys; print({unneeded} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package):
    module = import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nobody'"):
        module.nobody  # noqa: B018
