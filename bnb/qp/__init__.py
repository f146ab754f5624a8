"""Mixed-integer and cardinality-constrained QPs as problems for the engine.

model and search    `model`, `miqp`, and what is special: `support`, `indicator`, `lattice`
presolve            `structure`, `propagation`, `substitution`, `recession`
relaxations         `strengthen`, which has `relaxations.qp` rewrite and solve them
incumbents          `heuristics`, `local_search`, `swaps`
"""
