"""Measurement of one case: a method on a split of a set."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from qsdp._utils.parallel import blas_threads
from qsdp.bench._experiment import Case
from qsdp.bench.uci.data import prepare, validation_splits
from qsdp.bench.uci.methods import METHODS
from qsdp.exceptions import InvalidInputError

__all__ = ["run"]


def run(case: Case) -> dict[str, Any]:
    """Fit the "method" of a case to the split "seed" of a "set" on one thread, and measure it.

    Seconds to fit are those of the processor with validation, without a certificate that is no part of the fit; "bits"
    are those of the parameters, objective and bounds those of the certificate, or None, and "n", "d" and "n_classes"
    the sizes of the training part.
    """
    method = METHODS[case["method"]]
    if not method.available:
        raise InvalidInputError(f"method {method.name!r} needs {method.needs}: pip install torch")
    split = prepare(case["set"], case["seed"])
    with blas_threads(1), warnings.catch_warnings():
        # The measurements show what matters of the warnings about small classes, gaps and steps.
        warnings.simplefilter("ignore")
        model = method.build(validation_splits(split.y, case["seed"]), case["seed"])
        start = time.process_time()
        model.fit(split.X, split.y)
        fitted, start = time.process_time() - start, time.perf_counter()
        predicted = model.predict(split.X_test)
        predict_seconds = time.perf_counter() - start
        certificate = method.certify(model, split.X, split.y)
        train = float(np.mean(model.predict(split.X) == split.y))
    return {
        "train": train,
        "test": float(np.mean(predicted == split.y_test)),
        "bits": method.bits(model),
        **{name: getattr(certificate, name, None) for name in ("objective", "lower_bound", "relative_gap")},
        "fit_cpu_seconds": fitted,
        "predict_seconds": predict_seconds,
        "chosen": method.chosen(model),
        "n": len(split.y),
        "d": split.X.shape[1],
        "n_classes": split.n_classes,
        "n_test": len(split.y_test),
    }
