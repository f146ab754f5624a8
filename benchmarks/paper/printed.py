"""The numbers printed in the paper, to stand beside ours.

Source: Benítez-Peña, Blanquero, Carrizosa and Ramírez-Cobo, *On support vector machines under a
multiple-cost scenario*, tables 1 (SVM on wisconsin), 2 (data) and 3 (rates). Copied as printed,
also where that looks like a misprint: the standard deviation 0.981 of pageBlocks, sliding beta.
"""

from __future__ import annotations

METHODS = ("SVM", "SVM(C+, C-)", "sliding beta", "CSVM")

# Mean and standard deviation.
TABLE_1 = {"tpr": (0.948, 0.049), "tnr": (0.99, 0.017)}

# Attributes, rows, positives.
TABLE_2 = {
    "australian": (14, 690, 307),
    "votes": (16, 435, 267),
    "wisconsin": (30, 569, 212),
    "german": (45, 1000, 300),
    "pageBlocks": (10, 5472, 558),
    "biodeg": (41, 1055, 356),
}

# The targets p0, in parentheses in table 3.
TARGETS = {
    "australian": 0.855, "votes": 0.988, "wisconsin": 0.973, "german": 0.65,
    "pageBlocks": 0.832, "biodeg": 0.808,
}

_Row = tuple[tuple[float, float], tuple[float, float], tuple[float, float], tuple[float, float]]


def _rates(tpr: _Row, tnr: _Row) -> dict[str, dict[str, tuple[float, float]]]:
    return {
        name: {"tpr": tpr[k], "tnr": tnr[k]} for k, name in enumerate(METHODS)
    }


# Data set, method, rate: mean and standard deviation.
TABLE_3 = {
    "australian": _rates(
        ((0.83, 0.071), (0.806, 0.093), (0.821, 0.073), (0.903, 0.05)),
        ((0.863, 0.079), (0.878, 0.088), (0.855, 0.068), (0.772, 0.081)),
    ),
    "votes": _rates(
        ((0.963, 0.04), (0.945, 0.042), (0.971, 0.037), (0.978, 0.026)),
        ((0.951, 0.031), (0.941, 0.037), (0.91, 0.063), (0.922, 0.04)),
    ),
    "wisconsin": _rates(
        ((0.948, 0.049), (0.962, 0.027), (0.989, 0.017), (0.965, 0.037)),
        ((0.99, 0.017), (0.931, 0.07), (0.953, 0.045), (0.945, 0.045)),
    ),
    "german": _rates(
        ((0.464, 0.103), (0.89, 0.08), (0.043, 0.023), (0.671, 0.164)),
        ((0.847, 0.031), (0.407, 0.069), (0.996, 0.009), (0.668, 0.111)),
    ),
    "pageBlocks": _rates(
        ((0.807, 0.03), (0.557, 0.361), (0.819, 0.981), (0.859, 0.045)),
        ((0.988, 0.004), (0.901, 0.088), (0.981, 0.006), (0.965, 0.012)),
    ),
    "biodeg": _rates(
        ((0.783, 0.084), (0.793, 0.083), (0.797, 0.095), (0.852, 0.057)),
        ((0.909, 0.032), (0.839, 0.037), (0.891, 0.037), (0.833, 0.05)),
    ),
}
