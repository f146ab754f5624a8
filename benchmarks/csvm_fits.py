"""What single CSVM fits cost: paper-size proofs with either node solver, r = 0, full pageBlocks.

    python -m benchmarks.csvm_fits [--pageblocks]
"""

from __future__ import annotations

import argparse
import resource
import sys
import warnings
from functools import partial

import numpy as np
from sklearn.svm import SVC

import bnb
import csvm

from .csvm_instances import Instances, first_fold
from .nodework import best_of


def proofs() -> None:
    """wisconsin, C = 32, γ = 2⁻⁵, 15 positive anchors allowed to fail."""
    instances = Instances("wisconsin")
    for node_solver in ("auto", "smo", "osqp"):
        bnb.solve(instances.problem(1.0, 1.0, budget=2, node_solver=node_solver),
                  branching="first", time_limit=60)  # compile before the clock runs
        problem = instances.problem(32.0, 2.0**-5, budget=15, node_solver=node_solver)
        print(f"wisconsin budget 15, {node_solver}: {bnb.solve(problem, branching='first')}")


def _paper(rate: str) -> dict:
    """The paper's options; balanced classes at C / |I| are its costs C / |I+| and C / |I-|."""
    return {"constraints": [rate], "anchors": "second-half", "threshold": "hoeffding"}


def convex() -> None:
    """r = 0 next to scikit-learn's SVC on the same points."""
    X, y = first_fold("wisconsin")
    for C, gamma in ((1.0, 2.0**-5), (32.0, 2.0**-5), (32.0, 1.0)):
        model = csvm.CSVM(C=C / (len(y) // 2), gamma=gamma, **_paper("tpr>=0.973"))
        ours = best_of(3, partial(model.fit, X, y))
        theirs = best_of(3, partial(SVC(C=C, gamma=gamma).fit, X, y))
        print(f"r = 0, C={C:g} γ={gamma:g}: {1e3 * ours:.1f} ms, SVC {1e3 * theirs:.1f} ms, "
              f"ratio {ours / theirs:.2f}")


def pageblocks() -> None:
    """The first fold of pageBlocks, all 4378 points, 300 s."""
    X, y = first_fold("pageBlocks")
    model = csvm.CSVM(C=32.0 / (len(y) // 2), gamma=0.25, time_limit=300, **_paper("tpr>=0.832"))
    seconds = best_of(1, partial(model.fit, X, y))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"pageBlocks {np.shape(X)}: {model.result_}, {seconds:.0f} s in all, "
          f"{peak:.2f} GiB at most, {model.rates_}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.csvm_fits", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pageblocks", action="store_true",
                        help="only the whole first fold of pageBlocks, at most 300 s")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.pageblocks:
        pageblocks()
    else:
        proofs()
        convex()
    return 0


if __name__ == "__main__":
    sys.exit(main())
