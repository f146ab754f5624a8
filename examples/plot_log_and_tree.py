"""
Reading the log and the tree
============================

What the search prints, and what its pictures show.
"""

# %%
# ``verbose=1`` prints a line now and then; ``verbose=2`` leaves the times out, so that two runs can
# be compared. A letter marks where a better solution came from.

import matplotlib.pyplot as plt
import numpy as np

import bnb

rng = np.random.default_rng(2)
n, m = 12, 8
F = rng.normal(size=(n, 10))
problem = bnb.MIQP(
    F @ F.T / 30 + 0.05 * np.eye(n), 0.6 * rng.normal(size=n), rng.normal(size=(m, n)),
    np.full(m, -np.inf), np.full(m, 0.5), integer=range(n), lb=-3, ub=3,
)
result = bnb.solve(problem, verbose=2, keep_tree=True, time_limit=20)

# %%
# The gap over time: the bound rises, the incumbent falls, and where they meet the search is over.
# Both lines are certified: the bound is recomputed from primal and dual vectors with its rounding
# error subtracted, the incumbent is checked against the original rows.

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
bnb.plot_gap(result, ax)

# %%
# The tree by bound. It grows from the root, at the bottom, to the incumbent. What lies above the
# line was cut off, since nothing below it can be better; infeasible nodes are at the upper edge.

figure, ax = plt.subplots(figsize=(9, 4.6), layout="constrained")
bnb.plot_tree(result, ax)

# %%
# The same by depth: how many decisions it took.

figure, ax = plt.subplots(figsize=(9, 4.6), layout="constrained")
bnb.plot_tree(result, ax, height="depth")

# %%
# The history behind the pictures is in the result.

print(result.status, result.reason, f"{result.nodes} nodes, {result.pruned} cut off")
print(result.trace[-1])
