"""OSQP solves that do not swallow Ctrl-C.

While it solves, OSQP has a handler of its own for the signal, and puts back the one it found. Of
two solves at once the second finds that of the first, which then stays for good, and what arrives
between two solves is lost. So the last of several to end puts back what the first one found, and
a signal that OSQP did take is handed on.
"""

from __future__ import annotations

import _thread
import ctypes
import signal
import threading
from typing import Any

import osqp

_getsig, _setsig = ctypes.pythonapi.PyOS_getsig, ctypes.pythonapi.PyOS_setsig
_getsig.restype = _setsig.restype = ctypes.c_void_p
_getsig.argtypes, _setsig.argtypes = (ctypes.c_int,), (ctypes.c_int, ctypes.c_void_p)


class _Running:
    """The solves under way, and the handler from before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._handler: int | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._count == 0:
                self._handler = _getsig(signal.SIGINT)
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                _setsig(signal.SIGINT, self._handler)

    def put_back(self) -> None:
        with self._lock:
            if self._count:
                _setsig(signal.SIGINT, self._handler)


_running = _Running()


def put_back_handler() -> None:
    """Put the handler from before OSQP's back already while it solves.

    OSQP does not look for the signal while it factorises, and forgets it when another solve
    begins; with several threads somebody should call this every now and then.
    """
    _running.put_back()


def solve(solver: osqp.OSQP) -> Any:
    """What `solver.solve()` returns, whatever its status."""
    with _running:
        raw = solver.solve(raise_error=False)
    if raw.info.status_val == osqp.SolverStatus.OSQP_SIGINT:
        _thread.interrupt_main()
    return raw
