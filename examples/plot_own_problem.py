"""
Your own problem
================

The engine asks four things of a problem: a root, a bound for a node, how to split it, and a check
of solutions. Here: which four of fifteen depots to open so that the customers' ways are shortest.
"""

# %%
# A state is what is decided so far. A customer cannot do better than the nearest depot that is not
# closed: that is the bound.

import matplotlib.pyplot as plt
import numpy as np

import bnb


class Depots(bnb.Problem):
    """Open k depots; a state is (open, closed)."""

    def __init__(self, distance, k):
        self.distance, self.k = distance, k

    def root(self):
        return [], []

    def evaluate(self, state, goal):
        opened, closed = state
        left = [j for j in range(self.distance.shape[1]) if j not in closed]
        if len(left) < self.k:
            return bnb.Evaluation(np.inf)
        chosen = opened if len(opened) == self.k else left
        bound = self.distance[:, chosen].min(axis=1).sum()
        best = sorted(left, key=lambda j: (j not in opened, self.distance[:, j].sum()))[: self.k]
        free = [] if chosen is opened else [j for j in left if j not in opened]
        usage = np.bincount(self.distance[:, left].argmin(axis=1), minlength=len(left))
        order = sorted(free, key=lambda j: -usage[left.index(j)])
        return bnb.Evaluation(bound, [("H", np.array(best))], [bnb.Candidate(j) for j in order])

    def branch(self, state, evaluation, candidate):
        opened, closed = state
        return [([*opened, candidate.key], closed), (opened, [*closed, candidate.key])]

    def check(self, x):
        return self.distance[:, x].min(axis=1).sum(), float(abs(len(set(x)) - self.k))


# %%
# Limits, log, checkpoints, parallel search and the tree come with the engine.

rng = np.random.default_rng(1)
customers, places = rng.random((60, 2)), rng.random((15, 2))
distance = np.linalg.norm(customers[:, None] - places, axis=2)
result = bnb.solve(Depots(distance, k=4), branching="first", time_limit=20, keep_tree=True)
print(result)

# %%
figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", width_ratios=(4, 5))
nearest = result.x[distance[:, result.x].argmin(axis=1)]
for customer, depot in zip(customers, places[nearest], strict=True):
    axes[0].plot(*np.array([customer, depot]).T, color="#cccccc", linewidth=0.8, zorder=1)
axes[0].scatter(*customers.T, s=12, color="#0072B2", label="customers")
axes[0].scatter(*places.T, s=50, marker="s", facecolors="none", edgecolors="#888888",
                label="depots")
axes[0].scatter(*places[result.x].T, s=70, marker="s", color="#D55E00", label="open")
axes[0].set(xticks=[], yticks=[])
axes[0].legend(fontsize="small", loc="upper center", ncols=3, bbox_to_anchor=(0.5, 0.0))
bnb.plot_tree(result, axes[1])
