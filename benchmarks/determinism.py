"""What one seed gives with other versions, kernels and threads: digests of two fits, and their numbers.

    python benchmarks/determinism.py [--json FILE]

Adds a row to the file for this interpreter, its NumPy, SciPy and scikit-learn (bundled data differ in last digits), the
kernels of OpenBLAS (`OPENBLAS_CORETYPE` chooses others) and its threads (`OPENBLAS_NUM_THREADS`), or replaces it. The
first fit is an estimator of wisconsin's breast cancers with its defaults but for beta, the second 200 sampled neurons
for the progress of diabetes.
"""

from __future__ import annotations

import hashlib
import json
import platform
import warnings

import numpy as np
import scipy
import sklearn
from _results import kept, options_of, save
from threadpoolctl import threadpool_info

import qsdp

#: What tells rows apart.
KEY = ("python", "numpy", "scipy", "sklearn", "kernels", "threads")


def main():
    options = options_of(__doc__)
    warnings.simplefilter("ignore")
    (row,) = kept([measure()], None)
    if options.json:
        known = json.loads(options.json.read_bytes())["rows"] if options.json.is_file() else []
        others = [one for one in known if any(one[name] != row[name] for name in KEY)]
        save({"rows": sorted([*others, row], key=lambda one: [str(one[name]) for name in KEY])}, options.json)


def measure():
    X, y = tuple(qsdp.datasets.load_bundled("breast-cancer-wisconsin"))[:2]
    model = qsdp.QuantizedNetworkClassifier(beta="2%", random_state=0).fit(X[:400], y[:400])
    Z, t = tuple(qsdp.datasets.load_bundled("diabetes"))[:2]
    result = qsdp.solve_and_sample(
        20.0 * Z, t / 100.0, n_neurons=200, beta=1.0, activation="relu_like", random_state=0, tol=1e-6
    )
    one, two = model.network_, result.network
    blas = next(pool for pool in threadpool_info() if pool["user_api"] == "blas")
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "sklearn": sklearn.__version__,
        "kernels": f"{blas['internal_api']} {blas.get('architecture')}",
        "threads": blas["num_threads"],
        "estimator": digest(one.U, one.V, one.alpha),
        "estimator_signs": digest(one.U, one.V),
        "estimator_bound": model.certificate_.lower_bound,
        "sample": digest(two.U, two.V, two.alpha),
        "sample_signs": digest(two.U, two.V),
        "sample_bound": result.certificate.lower_bound,
    }


def digest(*arrays):
    """Return eight digits of a digest of weights."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:8]


if __name__ == "__main__":
    main()
