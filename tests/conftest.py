"""What all tests need."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest


def pytest_configure(config):
    # A job in the background ignores Ctrl-C, and so would everything it starts: the tests of
    # interruption would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def two_workers(monkeypatch):
    """Options by which a search shares its work from the first nodes on; threads start fast."""
    monkeypatch.setattr("bnb.workers.ALONE", 0.0)
    with ThreadPoolExecutor(2) as pool:
        yield {"executor": pool}
