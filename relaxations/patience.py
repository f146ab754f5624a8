"""How long a caller is willing to wait, and long library calls that can be left behind.

A factorisation cannot be told to stop, and while one runs Python answers neither a clock nor
Ctrl-C. So a long one runs on a thread of its own, the caller looks at the clock meanwhile, and
when time is up goes on without the answer. The call must not change anything the caller uses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_FAST = 5e10
"""Floating-point operations a second that no single core much exceeds in a factorisation."""
_SHORT = 2e8
"""Operations that are over before anybody has to look at the clock."""
_LOOK = 0.05

_left_behind: list[threading.Thread] = []


class OutOfTimeError(Exception):
    """The time is up, or the user asked to stop, before an answer was there."""


def calls_left_behind() -> bool:
    """Whether abandoned calls still run; the interpreter waits for them when it exits."""
    _left_behind[:] = [thread for thread in _left_behind if thread.is_alive()]
    return bool(_left_behind)


@dataclass(frozen=True)
class Patience:
    """Until when to go on.

    Parameters
    ----------
    deadline : float
        `time.monotonic` value at which the time is up.
    interrupted : callable
        Says whether the user asked to stop.
    """

    deadline: float = float("inf")
    interrupted: Callable[[], bool] = lambda: False

    def expired(self) -> bool:
        """Whether to wind up with what there is."""
        return self.interrupted() or time.monotonic() >= self.deadline

    def check(self) -> None:
        """Raise `OutOfTimeError` if expired."""
        if self.expired():
            raise OutOfTimeError

    def seconds(self) -> float:
        """Seconds left, zero at least."""
        return max(self.deadline - time.monotonic(), 0.0)

    def run(self, call: Callable[[], T], operations: float) -> T:
        """What `call` returns; `OutOfTimeError` if it surely takes, or took, too long.

        Parameters
        ----------
        call : callable
            Must release the interpreter lock while it works, and change nothing.
        operations : float
            Estimate of its floating-point operations.
        """
        if operations < _SHORT:
            return call()
        if self.expired() or operations / _FAST > self.seconds():
            raise OutOfTimeError
        answer: list[T] = []
        failure: list[BaseException] = []

        def work() -> None:
            try:
                answer.append(call())
            except BaseException as error:  # the caller's to deal with
                failure.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        while thread.is_alive():
            thread.join(_LOOK)
            if thread.is_alive() and self.expired():
                _left_behind.append(thread)
                raise OutOfTimeError
        if failure:
            raise failure[0]
        return answer[0]


FOR_EVER = Patience()
