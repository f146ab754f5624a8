"""Xpress: 200 rows and columns together in the community edition."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import xpress as xp

from ..model import PeerModel
from .answer import INTEGRALITY, Answer, Recorder, TooLargeError


def solve(model: PeerModel, limit: float, gap: float) -> Answer:
    try:
        return _solve(model, limit, gap)
    except (xp.SolverError, xp.InterfaceError, xp.ModelError) as error:
        if "too many rows and columns" in str(error):
            raise TooLargeError(str(error)) from None
        raise


def _solve(model: PeerModel, limit: float, gap: float) -> Answer:
    xp.setOutputEnabled(False)
    A, rhs, senses = model.one_sided()
    if model.indicators is not None:
        anchors = A.shape[0] + np.arange(len(model.indicators.h))
        A = sp.csr_matrix(sp.vstack([A, model.indicators.G]))
        rhs = np.concatenate([rhs, model.indicators.h])
        senses += "G" * len(anchors)
    columns = sp.csc_matrix(A)
    P = model.triangle()
    whole = np.flatnonzero(model.kinds != "C")
    solver = xp.problem()
    solver.loadMIQP(
        probname="", rowtype=list(senses), rhs=rhs, rng=None, objcoef=model.q,
        start=columns.indptr, collen=None, rowind=columns.indices, rowcoef=columns.data,
        lb=np.maximum(model.lb, -xp.infinity), ub=np.minimum(model.ub, xp.infinity),
        objqcol1=P.row, objqcol2=P.col, objqcoef=P.data,
        coltype=model.kinds[whole].tolist(), entind=whole, limit=None, settype=None, setstart=None,
        setind=None, refval=None,
    )
    solver.chgObj([-1], [-model.constant])
    if model.indicators is not None:
        solver.setIndicators(
            anchors.tolist(), model.indicators.switch.tolist(), [1] * len(anchors)
        )
    solver.controls.threads, solver.controls.timelimit = 1, limit
    solver.controls.miprelstop, solver.controls.mipabsstop = gap, 0.0
    solver.controls.miptol = INTEGRALITY
    record = Recorder(1e20)

    def watch(problem: xp.problem, *_: object) -> int:
        record(problem.attributes.mipbestobjval, problem.attributes.bestbound)
        return 0

    solver.addIntsolCallback(watch, None, 0)
    solver.addPrenodeCallback(watch, None, 0)
    record.start()
    solver.optimize()
    seconds = record.seconds
    status = solver.attributes.solstatus
    found = status in (xp.SolStatus.OPTIMAL, xp.SolStatus.FEASIBLE)
    stopped = solver.attributes.solvestatus == xp.SolveStatus.STOPPED
    return Answer(
        "optimal" if status == xp.SolStatus.OPTIMAL else "limit" if stopped else str(status),
        np.array(solver.getSolution()) if found else None, solver.attributes.bestbound,
        solver.attributes.nodes, seconds, record.trace,
    )
