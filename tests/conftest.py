"""What all tests need."""

import signal


def pytest_configure(config):
    # A job in the background ignores Ctrl-C, and so would everything it starts: the tests of
    # interruption would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
