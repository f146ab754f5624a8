"""Means, profiles, integrals and the cross-check: arithmetic on results, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

NODE_SHIFT, SECOND_SHIFT = 10.0, 1.0


def geometric_mean(values: Sequence[float]) -> float:
    """exp(mean(log)); NaN of nothing."""
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


def shifted_mean(values: Sequence[float], shift: float) -> float:
    """Shifted geometric mean: easy problems, with a node or a millisecond, do not decide it."""
    return geometric_mean([value + shift for value in values]) - shift


def relative_gap(objective: float, bound: float) -> float:
    """|objective − bound| / max(|objective|, |bound|), at most 1; 1 without either or across 0."""
    if not (np.isfinite(objective) and np.isfinite(bound)):
        return 1.0
    if objective * bound < 0.0:
        return 1.0
    largest = max(abs(objective), abs(bound))
    return min(1.0, abs(objective - bound) / largest) if largest > 0.0 else 0.0


def primal_dual_integral(
    trace: Sequence[tuple[float, float, float]], end: float, final_gap: float, limit: float
) -> float:
    """∫ gap dt from 0 to the limit, in seconds.

    The gap is 1 before the first row (seconds, objective, bound) of the trace, constant between
    rows, and `final_gap` from the end on, when the solver stopped.
    """
    moments, gaps = [0.0], [1.0]
    for seconds, objective, bound in trace:
        if seconds < end:
            moments.append(seconds)
            gaps.append(relative_gap(objective, bound))
    moments.append(end)
    gaps.append(final_gap)
    times = np.minimum(np.append(moments, limit), limit)
    return float(np.sum(np.diff(times) * gaps))


def profile(
    seconds: Mapping[str, Sequence[float]], factors: Sequence[float]
) -> dict[str, np.ndarray]:
    """Performance profiles (Dolan and Moré): a share for each solver and factor.

    It is that of the instances it took that it solved within that factor of the fastest solver.
    Seconds are infinite where an instance was not solved, NaN where the solver could not take it,
    and below a millisecond count as one.
    """
    table = np.maximum([seconds[name] for name in seconds], 1e-3)
    best = np.fmin.reduce(table)
    shares = {}
    for name, row in zip(seconds, table, strict=True):
        solved = np.isfinite(row)
        ratios = row[solved] / best[solved]
        taken = max(1, int((~np.isnan(row)).sum()))
        shares[name] = np.array([(ratios <= factor).sum() / taken for factor in factors])
    return shares


def disagreements(answers: Sequence[tuple[str, bool, float, float]], gap: float) -> list[str]:
    """What cannot all be true about one instance; empty if nothing.

    Answers are who, whether they claim to be optimal, the objective of a checked point (infinite if
    there is none) and the bound. Two that claim to be optimal may differ by the relative gap at
    which all stop; nobody's bound may lie above anybody's objective by more than that.
    """
    found = []
    for number, (a, a_optimal, a_objective, a_bound) in enumerate(answers):
        for b, b_optimal, b_objective, b_bound in answers[number + 1 :]:
            slack = 2.0 * gap * max(abs(a_objective), abs(b_objective)) + 1e-9
            if a_optimal and b_optimal and abs(a_objective - b_objective) > slack:
                found.append(f"{a} and {b} both claim optimality and differ: "
                             f"{a_objective!r} and {b_objective!r}")
            for low, bound, high, objective in ((a, a_bound, b, b_objective),
                                                (b, b_bound, a, a_objective)):
                if np.isfinite(objective) and bound > objective + 2.0 * gap * abs(objective) + 1e-9:
                    found.append(f"the bound of {low}, {bound!r}, is above the solution of {high}, "
                                 f"{objective!r}")
    return found
