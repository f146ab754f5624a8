"""The case of `csvm demo` on many splits: rates of small and of large tumours at once.

    python -m benchmarks.sizes [--splits 20]

"all" is the share of splits in which all four rates are as asked on the tumours held out.
"""

from __future__ import annotations

import sys

import numpy as np

from csvm.demo import ASKED, compare

from . import command_line


def main() -> int:
    parser = command_line("benchmarks.sizes", __doc__)
    parser.add_argument("--splits", type=int, default=20)
    splits = parser.parse_args().splits
    asked = min(constraint.p0 for constraint in ASKED)
    outcomes = [compare(60.0, seed, verbose=0) for seed in range(splits)]
    names = list(outcomes[0].rates["CSVM"])
    print(f"wisconsin, mean area and mean concavity, {splits} splits, means on tumours held out\n")
    print(f"| | {' | '.join(names)} | worst of the four | all |")
    print("| --- " * (len(names) + 3) + "|")
    for method in outcomes[0].rates:
        rows = np.array([[o.rates[method][name] for name in names] for o in outcomes])
        cells = " | ".join(f"{value:.3f}" for value in rows.mean(axis=0))
        worst = rows.min(axis=1)
        print(f"| {method} | {cells} | {worst.mean():.3f} | {np.mean(worst >= asked):.2f} |")
    best = np.array([o.best_threshold for o in outcomes])
    results = [o.model.result_ for o in outcomes]
    print(f"\nThe SVM's threshold that is best for the tumours held out, chosen with their labels: "
          f"worst of the four {best.mean():.3f}, at least {asked:g} in {np.sum(best >= asked)} of "
          f"{splits} splits.\nCSVM: {sum(r.optimal for r in results)} of {splits} proven optimal, "
          f"{np.mean([r.seconds for r in results]):.1f} s on average.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
