"""Other solvers: each optional, each in a process of its own, none believed without a check."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from multiprocessing import Pipe
from pathlib import Path

from ..model import PeerModel
from .answer import Answer, PeerError, TooLargeError

__all__ = ["PEERS", "Answer", "Peer", "PeerError", "TooLargeError", "ask"]

_GRACE = 60.0  # seconds for set-up and for coming to an end, on top of twice the time limit


@dataclass(frozen=True)
class Peer:
    """A solver that may or may not be installed."""

    name: str
    module: str  # its wrapper in this package
    packages: tuple[str, ...]  # distributions it needs; the first gives the version
    free: bool  # whether anyone may use it at any size
    indicators: bool  # whether it takes indicator constraints
    trajectory: bool  # whether it tells bounds while it runs
    subset: bool = False  # whether it is for best-subset problems alone

    @property
    def python(self) -> str:
        """The interpreter it runs in: ours, or one of its own from the environment."""
        return os.environ.get(f"CSVM_PYTHON_{self.module.upper()}", sys.executable)

    @property
    def installed(self) -> bool:
        return self.version is not None

    @property
    def version(self) -> str | None:
        """The version of its package, None if anything it needs is missing."""
        return _version(self.python, self.packages)


@functools.cache
def _version(python: str, packages: tuple[str, ...]) -> str | None:
    if python != sys.executable:
        code = f"from importlib.metadata import version; print([version(n) for n in {packages}][0])"
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() or None
    try:
        versions = [metadata.version(name) for name in packages]
    except metadata.PackageNotFoundError:
        return None
    return versions[0]


PEERS = {
    peer.name: peer
    for peer in (
        Peer("Gurobi", "gurobi", ("gurobipy",), False, True, True),
        Peer("Gurobi (GAMS)", "gams", ("gamspy", "gamspy-gurobi"), False, False, False),
        Peer("CPLEX", "cplex", ("cplex",), False, True, True),
        Peer("COPT", "copt", ("coptpy",), False, True, True),
        Peer("Xpress", "xpress", ("xpress",), False, True, True),
        Peer("SCIP", "scip", ("pyscipopt",), True, True, True),
        Peer("GSCIP", "gscip", ("ortools",), True, False, False),
        Peer("Bonmin", "bonmin", ("casadi",), True, False, False),
        Peer("L0BnB", "l0bnb", ("l0bnb",), True, False, False, subset=True),
        Peer("OKRidge", "okridge", ("okridge",), True, False, False, subset=True),
    )
}


def ask(peer: Peer, model: PeerModel, limit: float, gap: float) -> Answer:
    """Run the peer in a new process.

    Some of these libraries cannot be loaded together, some print, crash or overrun their limit:
    a process each keeps that from the others and from us.
    """
    here, there = Pipe()
    root = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    command = [peer.python, "-m", "benchmarks.peers.worker", peer.module, str(there.fileno())]
    with tempfile.TemporaryFile() as log, subprocess.Popen(
        command, pass_fds=[there.fileno()], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path}, start_new_session=True,
    ) as process:
        there.close()
        try:
            here.send((model, limit, gap))
            if not here.poll(2.0 * limit + _GRACE):
                raise PeerError(f"did not stop within {2.0 * limit + _GRACE:.0f} s")
            answer = here.recv()
            with suppress(subprocess.TimeoutExpired):  # it has answered; what hangs is killed below
                process.wait(_GRACE)
        except (EOFError, OSError):
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines()
            raise PeerError(f"crashed: {lines[-1] if lines else 'no message'}") from None
        finally:
            here.close()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with what it started itself
    if isinstance(answer, Exception):
        raise answer
    return answer
