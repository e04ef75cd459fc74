"""Peak memory of a solve beside the data, and the formula that bounds it.

    python benchmarks/memory.py [--quick] [--json FILE]

Every case runs in a process of its own: random data of n rows and d columns, a relaxation with a time limit of ten
seconds, a network of 100 neurons and its certificate. The peak of resident memory is counted from when the data are
there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from _memory import peak_mib, resident_mib
from _results import save

import qsdp
from qsdp.relaxation.memory import least_memory

#: Rows, columns, loss and beta.
CASES = [
    (20_000, 60, "squared", 100.0),
    (100_000, 60, "squared", 1000.0),
    (100_000, 60, "logistic", 100.0),
    (100_000, 60, "hinge", 100.0),
    (1_000_000, 60, "squared", 1000.0),
    (1_000_000, 60, "logistic", 1000.0),
    (200, 300, "squared", 1.0),
    (200, 1000, "squared", 1.0),
    (200, 3000, "squared", 1.0),
    (2000, 500, "hinge", 10.0),
]
QUICK = CASES[:1]

_LIMIT = 10.0


def bound_of(n, d):
    """Return the MiB that a solve takes at most: 100, ten copies of the rows, and 32 matrices of side d."""
    return 100.0 + 8.0 * (10 * n * d + 32 * d * d) / 2**20


def main():
    """Measure, save and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the first case alone")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        print(json.dumps(measure(*CASES[options.case])))
        return
    rows = []
    for place in range(len(QUICK if options.quick else CASES)):
        command = [sys.executable, __file__, "--case", str(place)]
        rows.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
        if options.json:
            save({"quick": options.quick, "rows": rows}, options.json)
    if any(row["peak"] > row["bound"] for row in rows):
        raise SystemExit("a peak is above the bound")


def measure(n, d, loss, beta):
    """Return the peak of a solve in MiB, with what it takes at least and at most."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X[:, 0] * X[:, 1] + 0.1
    before = resident_mib()
    problem = qsdp.TrainingProblem(X, np.sign(y) if loss in {"logistic", "hinge"} else y, beta=beta, loss=loss)
    relaxation = qsdp.solve_relaxation(problem, tol=1e-2, time_limit=_LIMIT)
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), 100, 0)
    qsdp.certify(network, problem, relaxation)
    return {
        "n": n,
        "d": d,
        "loss": loss,
        "solver": relaxation.solver,
        "data": round(X.nbytes / 2**20, 1),
        "least": round(least_memory(problem) / 2**20, 1),
        "peak": round(peak_mib() - before),
        "bound": round(bound_of(n, d)),
    }


if __name__ == "__main__":
    main()
