"""The process in which a peer runs: a model comes in through a pipe, its answer goes back.

    python -m benchmarks.peers.worker MODULE FILE-DESCRIPTOR
"""

from __future__ import annotations

import importlib
import sys
from multiprocessing.connection import Connection

from .answer import PeerError, TooLargeError


def main() -> None:
    pipe = Connection(int(sys.argv[2]))
    model, limit, gap = pipe.recv()
    try:
        wrapper = importlib.import_module(f"benchmarks.peers.{sys.argv[1]}")
        pipe.send(wrapper.solve(model, limit, gap))
    except TooLargeError as error:
        pipe.send(TooLargeError(str(error)))
    except Exception as error:  # every solver has errors of its own; they need not be picklable
        text = " ".join(str(error).split())
        pipe.send(PeerError(f"{type(error).__name__}: {text[:100]}"))


if __name__ == "__main__":
    main()
