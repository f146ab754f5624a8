"""Mixed-integer and cardinality-constrained QPs as problems for the engine.

model and search    `model`, `miqp`, `lattice`
more than rows      `rules`, and those of `support` and `indicator`
presolve            `structure`, `propagation`, `substitution`, `recession`
relaxations         `strengthen`, which has `relaxations.qp` rewrite and solve them
incumbents          `heuristics`, `local_search`, `swaps`
"""
