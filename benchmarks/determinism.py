"""What one seed gives with other versions, kernels and threads: digests of two fits, and their numbers.

    python benchmarks/determinism.py [--json FILE]

Adds a row to the file for this interpreter, its NumPy, SciPy and scikit-learn (bundled data differ in last digits), the
kernels of OpenBLAS (`OPENBLAS_CORETYPE` chooses others) and its threads (`OPENBLAS_NUM_THREADS`), or replaces it. The
first fit is an estimator of wisconsin's breast cancers with its defaults but for beta, the second 200 sampled neurons
for the progress of diabetes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import warnings
from pathlib import Path

import numpy as np
import scipy
import sklearn
from _results import save
from threadpoolctl import threadpool_info

import qsdp

#: What tells rows apart.
KEY = ("python", "numpy", "scipy", "sklearn", "kernels", "threads")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    row = measure()
    print("  ".join(f"{name} {value}" for name, value in row.items()))
    if options.json:
        known = json.loads(options.json.read_text(encoding="utf-8"))["rows"] if options.json.is_file() else []
        others = [one for one in known if any(one[name] != row[name] for name in KEY)]
        save({"rows": sorted([*others, row], key=lambda one: [str(one[name]) for name in KEY])}, options.json)


def measure():
    X, y = tuple(qsdp.datasets.load_bundled("breast-cancer-wisconsin"))[:2]
    model = qsdp.QuantizedNetworkClassifier(beta="2%", random_state=0).fit(X[:400], y[:400])
    Z, t = tuple(qsdp.datasets.load_bundled("diabetes"))[:2]
    result = qsdp.solve_and_sample(
        20.0 * Z, t / 100.0, n_neurons=200, beta=1.0, activation="relu_like", random_state=0, tol=1e-6
    )
    blas = next(one for one in threadpool_info() if one["user_api"] == "blas")
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "sklearn": sklearn.__version__,
        "kernels": f"{blas['internal_api']} {blas.get('architecture')}",
        "threads": blas["num_threads"],
        "estimator": digest(model.network_),
        "estimator_signs": signs(model.network_),
        "estimator_bound": model.certificate_.lower_bound,
        "sample": digest(result.network),
        "sample_signs": signs(result.network),
        "sample_bound": result.certificate.lower_bound,
    }


def digest(network):
    """Return eight digits of a digest of all weights."""
    return _digest(network.U, network.V, network.alpha)


def signs(network):
    return _digest(network.U, network.V)


def _digest(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:8]


if __name__ == "__main__":
    main()
