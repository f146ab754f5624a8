"""A machine that keeps looking for wrong answers: ``python -m benchmarks.fuzz --seconds 60``.

Random problems of every kind are solved and every claim of the answer is tried: a claim is wrong
when a point that is feasible by a check of its own refutes it. Whoever says "optimal", "infeasible"
or gives a bound can be refuted by one such point, so the search for truth need not be complete.
"""
