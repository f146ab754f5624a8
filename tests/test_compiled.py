"""What a first fit compiles, and the process that helps with it."""

import json
import subprocess
import sys
import time

import pytest

from csvm.search import compiled

SIGNATURES = """
import json, sys
from numba.core.dispatcher import Dispatcher
from csvm.search.compiled import run

def signatures():
    return {
        f"{name}.{key} {one}" for name, module in list(sys.modules.items())
        if name.startswith(("csvm.search", "relaxations.svm"))
        for key, value in vars(module).items() if isinstance(value, Dispatcher)
        and "no_cpython_wrapper" not in value.targetoptions  # inner ones come with others from disk
        for one in value.signatures
    }

"""


def signatures(script):
    run = subprocess.run(
        [sys.executable, "-c", SIGNATURES + script], capture_output=True, text=True, check=True
    )
    return set(json.loads(run.stdout))


def test_the_helper_compiles_all_that_the_games_need():
    missing = signatures(
        "run('convex'); before = signatures(); run('drop', 'recourse')\n"
        "print(json.dumps(list(signatures() - before)))"
    )
    done = signatures(
        "run('drop', 'recourse', node_solver='smo'); print(json.dumps(list(signatures())))"
    )
    assert len(missing) > 4 and missing <= done


@pytest.fixture
def helper(monkeypatch):
    monkeypatch.setattr(compiled, "workers", lambda jobs: {"workers": 2})
    return compiled._Helper()


def test_a_helper_that_fails_is_no_error(helper, monkeypatch, capfd):
    monkeypatch.setattr(compiled, "_ELSEWHERE", "raise RuntimeError")
    helper.start()
    helper.wait()
    assert helper._process.returncode == 1
    helper.end()
    assert capfd.readouterr() == ("", "")


def test_a_helper_that_hangs_is_ended(helper, monkeypatch):
    monkeypatch.setattr(compiled, "_ELSEWHERE", "import time; time.sleep(100)")
    monkeypatch.setattr(compiled, "_LONG", 0.1)
    helper.start()
    begun = time.monotonic()
    helper.wait()
    helper.end()
    assert helper._process.returncode is not None and time.monotonic() - begun < 10.0


def test_no_helper_without_a_core_for_it(helper, monkeypatch):
    monkeypatch.setattr(compiled, "workers", lambda jobs: {})
    helper.start()
    helper.wait()
    helper.end()
    assert helper._process is None
