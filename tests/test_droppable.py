"""Drop bounds of QPs with rows that may be given up, against enumeration."""

import itertools

import numpy as np
import pytest
from oracle import convex_minimum
from test_brute_force import agree

import bnb
from bnb.qp import indicator
from relaxations.patience import FOR_EVER
from relaxations.qp.droppable import Droppable

INF = np.inf


def random_problem(seed):
    """P, q, rows that stay, rows that may be given up, and what of these has to hold."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 6)), int(rng.integers(2, 8))
    F = rng.normal(size=(n, n)) * 10.0 ** rng.integers(-3, 4, n)
    size = np.abs(np.diag(F.T @ F))
    P = F.T @ F + rng.choice([0.01, 1.0]) * np.diag(size)
    q = rng.normal(size=n) * np.sqrt(size)
    A, l = rng.normal(size=(seed % 3, n)) * np.sqrt(size), rng.normal(size=seed % 3)
    G, b = rng.normal(size=(m, n)) * np.sqrt(size), rng.normal(size=m)
    weights = np.ones(m) if seed % 2 else rng.choice([0.5, 1.0, 2.0], m)
    groups = [(np.arange(m), float(rng.integers(0, int(weights.sum()) + 1)))]
    if seed % 4 == 1:
        half = np.arange(m // 2)
        groups = [(half, len(half) // 2), (np.arange(m // 2, m), (m - m // 2) // 2)]
    if seed % 4 == 2:
        groups.append((np.arange(m // 2 + 1), 0.5 * weights[: m // 2 + 1].sum()))
    return P, q, A, l, G, b, weights, groups


def completions(P, q, A, l, G, b, weights, groups):
    """Every way to fulfil the groups, and the minimum with those rows."""
    free = np.full(len(q), INF)
    for z in itertools.product([False, True], repeat=len(b)):
        z = np.array(z)
        if all(weights[rows] @ z[rows] >= k - 1e-9 for rows, k in groups):
            rows = np.vstack([A, G[z]])
            yield z, convex_minimum(
                P, q, rows, np.concatenate([l, b[z]]), np.full(len(rows), INF), -free, free
            )


@pytest.mark.parametrize("block", range(6))
def test_bounds_and_decisions(block):
    decided = raised = 0
    for seed in range(20 * block, 20 * block + 20):
        P, q, A, l, G, b, weights, groups = problem = random_problem(seed)
        everything = list(completions(*problem))
        counts = np.array([np.where(np.isin(np.arange(len(b)), rows), weights, 0.0)
                           for rows, _ in groups])
        needs = np.array([k for _, k in groups])
        rows = Droppable.of(P, q, np.vstack([A, G]), np.concatenate([l, b]), 0.0, len(b))
        rng, memory = np.random.default_rng(seed), None
        for _ in range(4):
            must = rng.random(len(b)) < 0.2
            may = must | (rng.random(len(b)) < 0.8)
            left = [(z, v) for z, v in everything if np.all(must <= z) and np.all(z <= may)]
            least = min((v for _, v in left), default=INF)
            if least == INF or np.all(must == may):
                continue
            slack = 1e-7 * (1.0 + abs(least))
            cutoff = least + rng.choice([-1.0, 0.01, 0.3]) * (1.0 + abs(least))
            found = rows.play(must, may, counts, needs, memory, cutoff, FOR_EVER)
            memory = found.memory
            assert found.bound <= least + slack
            decided += found.enforce.size + found.give_up.size
            raised += found.bound > -INF
            if cutoff > least:  # what is better must stay
                assert least + slack >= min(v for z, v in left if (
                    z[found.enforce].all() and not z[found.give_up].any()
                ))
    assert raised and decided


def test_doubtful_matrices_are_refused():
    rows, h = np.eye(3), np.ones(3)
    assert Droppable.of(np.diag([1.0, 0.0, 1.0]), h, rows, h, 0.0, 3) is None
    F = np.random.default_rng(0).normal(size=(2, 3))
    assert Droppable.of(F.T @ F, h, rows, h, 0.0, 3) is None
    assert Droppable.of(np.diag([1e-12, 1.0, 1e12]), h, rows, h, 0.0, 3) is not None


@pytest.mark.parametrize("block", range(4))
def test_searches_with_drop_bounds_from_the_first_node_on(block, monkeypatch):
    monkeypatch.setattr(indicator, "_EARLY", 0)
    for seed in range(15 * block, 15 * block + 15):
        P, q, A, l, G, b, weights, groups = problem = random_problem(seed)
        truth = min((v for _, v in completions(*problem)), default=INF)
        agree(bnb.solve(bnb.IndicatorQP(
            P, q, G=G, b=b, groups=groups, weights=weights, A=A, l=l
        )), truth)
