"""Results of one seed with different versions, kernels and threads: digests of two fits, and their numbers.

The first fit is a classifier of the Wisconsin breast-cancer set with default parameters except beta; the second is 200
neurons sampled for the diabetes set. A case is a Python with its NumPy, SciPy and scikit-learn (bundled data differ in
the last digits), the kernels of OpenBLAS (set by `OPENBLAS_CORETYPE`) and its threads (`OPENBLAS_NUM_THREADS`). A run
measures the configuration that it runs in.

No column is appended, and the fit is to the first 400 rows. The betas are 2 % of the smallest that makes the zero
network optimal, and 1. Rows are named after the versions. Times are not shown. The newest NumPy runs with kernels of
its own choice, since its OpenBLAS crashes in decompositions if those of an older processor are forced.
"""

from __future__ import annotations

import hashlib
import platform
import warnings
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info

import qsdp
from benchmarks.machinery.common import TARGET, Records, experiment_in
from benchmarks.machinery.verdicts import Claim, exact
from benchmarks.versions import ESTIMATORS

NAMES = ("python", "numpy", "scipy", "sklearn", "kernels", "threads")
VERSIONS = (
    ("3.10.13", "1.26.0", "1.11.1", "1.7.2", "Haswell", 1),
    ("3.11.7", "1.26.0", "1.11.1", "1.7.2", "Haswell", 1),
    ("3.11.7", "1.26.0", "1.11.1", "1.9.1", "Haswell", 1),
    ("3.11.7", "2.4.6", "1.17.1", "1.9.1", "Haswell", 1),
    ("3.11.7", "2.4.6", "1.17.1", "1.9.1", "Haswell", 2),
    ("3.11.7", "2.4.6", "1.17.1", "1.9.1", "Katmai", 1),
    ("3.12.1", "2.5.5", "1.18.1", "1.9.1", "SkylakeX", 1),
    ("3.13.0", "2.5.5", "1.18.1", "1.9.1", "SkylakeX", 1),
)


def cases(quick: bool) -> list[dict[str, Any]]:
    return [here()] if quick else [dict(zip(NAMES, values, strict=True)) for values in VERSIONS]


def here() -> dict[str, Any]:
    """Return the case that this process measures."""
    import sklearn

    blas = next(pool for pool in threadpool_info() if pool["user_api"] == "blas")
    versions = (platform.python_version(), np.__version__, scipy.__version__, sklearn.__version__)
    return dict(zip(NAMES, (*versions, blas.get("architecture"), blas["num_threads"]), strict=True))


def run(case: dict[str, Any]) -> dict[str, Any]:
    if case != here():
        raise RuntimeError(f"this process has {', '.join(map(str, here().values()))}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y = tuple(qsdp.datasets.load_bundled("breast-cancer-wisconsin"))[:2]
        model = qsdp.QuantizedNetworkClassifier(beta="2%", random_state=0).fit(X[:400], y[:400])
        Z, t = tuple(qsdp.datasets.load_bundled("diabetes"))[:2]
        options = {"beta": 1.0, "activation": "relu_like", "random_state": 0, "tol": 1e-6}
        result = qsdp.solve_and_sample(20.0 * Z, t / 100.0, n_neurons=200, **options)
    one, two = model.network_, result.network
    return {
        "estimator": digest(one.U, one.V, one.alpha),
        "estimator_signs": digest(one.U, one.V),
        "estimator_bound": model.certificate_.lower_bound,
        "sample": digest(two.U, two.V, two.alpha),
        "sample_signs": digest(two.U, two.V),
        "sample_bound": result.certificate.lower_bound,
    }


def digest(*arrays: np.ndarray) -> str:
    """Return eight hexadecimal digits of the hash of some arrays of weights."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:8]


def claims(records: Records) -> list[Claim]:
    holds = {}
    for record in records:
        first, own = records[0].measured, record.measured
        signs = all(own[f"{fit}_signs"] == first[f"{fit}_signs"] for fit in ("estimator", "sample"))
        near = all(np.isclose(own[f"{fit}_bound"], first[f"{fit}_bound"], rtol=1e-9) for fit in ("estimator", "sample"))
        holds[", ".join(map(str, record.case.values()))] = bool(signs and near)
    statement = "One seed gives the same first-layer signs, and bounds to 1e-9, with all versions, kernels, threads."
    return [exact(TARGET, statement, holds, needed=len(VERSIONS))]


#: The answer on top of the page.
ANSWER = """\
In {determinism: One seed gives} configurations of versions, kernels and threads, one seed gives the same first-layer
signs, and lower bounds that agree to 1e-9. Digests of whole networks may differ, since second-layer weights may do so
in their last digits.
"""

#: Methods whose versions are stored with the records.
MEASURED = ESTIMATORS
EXPERIMENT = experiment_in(__name__, "What one seed gives elsewhere", "Targets of the package: reproducible results")
