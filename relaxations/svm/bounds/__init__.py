"""Certified lower bounds of the nodes of a constrained SVM."""
