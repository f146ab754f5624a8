"""Bonmin (branch and bound on Ipopt) through casadi; no callbacks, figures read from its log."""

from __future__ import annotations

import re
import time

import casadi as ca
import numpy as np

from ..model import PeerModel
from .answer import INTEGRALITY, Answer, captured_output

_DONE = re.compile(r"best objective ([-+\d.einf]+).* and (\d+) nodes")
_POSSIBLE = re.compile(r"best possible ([-+\d.einf]+)")


def solve(model: PeerModel, limit: float, gap: float) -> Answer:
    x = ca.MX.sym("x", len(model.q))
    P, A = ca.DM(model.P.tocsc()), ca.DM(model.A.tocsc())
    nlp = {
        "x": x, "g": A @ x,
        "f": 0.5 * ca.dot(x, P @ x) + ca.dot(ca.DM(model.q), x) + model.constant,
    }
    options = {
        "discrete": (model.kinds != "C").tolist(), "print_time": False,
        "bonmin.algorithm": "B-BB", "bonmin.time_limit": limit, "bonmin.bb_log_interval": 100,
        "bonmin.allowable_fraction_gap": gap, "bonmin.allowable_gap": 0.0,
        "bonmin.integer_tolerance": INTEGRALITY, "bonmin.nlp_log_level": 0,
    }
    solver = ca.nlpsol("solver", "bonmin", nlp, options)
    with captured_output() as log:
        begin = time.perf_counter()
        found = solver(x0=0.0, lbx=model.lb, ubx=model.ub, lbg=model.l, ubg=model.u)
        seconds = time.perf_counter() - begin
    return _answer(log[0], solver.stats(), found, limit, seconds)


def _answer(log: str, stats: dict, found: dict, limit: float, seconds: float) -> Answer:
    proven = stats["return_status"] == "SUCCESS"
    done, possible = _DONE.search(log), _POSSIBLE.findall(log)
    objective = float(found["f"])
    bound = objective if proven else float(possible[-1]) if possible else -np.inf
    point = np.array(found["x"]).ravel()
    return Answer(
        "optimal" if proven else "limit" if seconds >= 0.9 * limit else stats["return_status"],
        point if np.all(np.isfinite(point)) else None, bound,
        float(done.group(2)) if done else np.nan, seconds,
    )
