"""Convex QPs with switches: solvers, rewritten objectives, and bounds that any multipliers give."""
