"""Constrained support vector machines, solved to proven optimality."""
