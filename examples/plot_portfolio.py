"""
A portfolio of few assets
=========================

At most four of fifteen assets, each five per cent at least when held: a quadratic program with
switches. :class:`bnb.SupportQP` says it in one line, and every point of the frontier is proven.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import bnb

rng = np.random.default_rng(0)
n = 15
factors = rng.normal(size=(n, 5))
covariance = 0.01 * (factors @ factors.T + np.diag(0.5 + rng.random(n)))
returns = 0.02 + 0.1 * rng.random(n)

# %%
# Least variance for every return asked. ``k`` is the number of assets; ``lb`` and ``ub`` hold where
# an asset is held.


def frontier(k, lb):
    points, proofs = [], []
    for asked in np.linspace(0.08, 0.11, 7):
        rows = np.vstack([np.ones(n), returns])
        problem = bnb.SupportQP(
            2 * covariance, np.zeros(n), k, rows, [1.0, asked], [1.0, np.inf], lb=lb, ub=1.0
        )
        result = bnb.solve(problem, time_limit=60)
        proofs.append(result.optimal)
        points.append((np.sqrt(result.objective), asked, np.count_nonzero(result.x)))
    print(f"at most {k} assets: {sum(proofs)} of {len(proofs)} proven")
    return np.array(points).T


few, many = frontier(4, 0.05), frontier(n, 0.0)
print("assets held along the frontier:", few[2].astype(int))

# %%
# What the limit costs is the distance between the two lines.

figure, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
ax.plot(100 * many[0], 100 * many[1], color="#999999", label="all assets")
ax.plot(100 * few[0], 100 * few[1], "o-", color="#D55E00", label="at most 4, 5 % at least")
ax.set(xlabel="standard deviation, %", ylabel="return asked, %")
ax.legend()
