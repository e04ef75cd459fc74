"""Experiment with every method on every split of every set, and the measurement of one case."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.runner._experiment import Case, Experiment
from benchmarks.uci.data import LARGE, SETS, prepare, split_cases, validation_splits
from benchmarks.uci.methods import METHODS
from benchmarks.uci.report import tables
from qsdp._utils.parallel import blas_threads
from qsdp._utils.validation import check_choice, check_integer
from qsdp.exceptions import InvalidInputError

__all__ = ["EXPERIMENT", "N_SEEDS", "run", "uci_experiment"]

#: Number of splits; fewer for large sets, where splits differ less and a case can take minutes.
N_SEEDS = dict.fromkeys(SETS, 10) | dict.fromkeys(LARGE, 3) | {"adult": 1}
#: Splits for networks trained by gradients (a minute each), and sets without them (half an hour each).
_N_TRAINED, _TOO_LARGE = 2, ("letter", "adult")
_PROTOCOL = (
    "Test accuracy and bits of quantized networks and of other models, tuned on the same folds, on classification sets."
    "\n\nEvery seed is a stratified split (80/20): ten of small sets, three of large ones, and one of adult; networks "
    "trained by gradients use the first two of all sets except letter and adult. Categorical columns become one 0/1 "
    "column per value; columns have mean zero and deviation one over the training part. Hyper-parameters are those "
    "of the highest accuracy inside the training part, on the same folds for all methods (five up to 500 rows, "
    "three up to 2000, and beyond that one held-out fifth); the model is then fitted to the whole training part. "
    "The relaxation has nine betas, down to a ten-thousandth of the largest useful one; trained networks have three "
    "learning rates times three betas, and more where the best lies at an edge. Test rows are not used for any "
    "choice. The series are the methods by name; bilinear networks have a constant column. Seconds of fits are CPU "
    "time of one thread. The certificate bounds the training objective of every network with the same levels, beta "
    "and loss; for trained networks it is computed afterwards, outside their time. Real numbers count 32 bits and "
    "thresholds of trees 16 bits; a level counts the logarithm of the number of levels, the column of a split that "
    "of the number of columns, and the shape of a tree one bit per node. Means and deviations of columns, the same "
    "for all methods, count nothing."
)
#: Small, bundled sets, which need no network connection.
_QUICK_SETS = ("iris", "wine")
_QUICK_METHODS = ("qsdp-250", "qsdp-refit", "relaxation", "logistic", "quadratic-ridge")


def run(case: Case) -> dict[str, Any]:
    """Fit the "method" of a case to the split "seed" of a "set" on one thread, and measure it.

    Fit seconds are CPU time and include validation, but not a certificate that is not part of the fit. "bits" are those
    of the parameters. Objective and bounds are those of the certificate, or None. "n", "d" and "n_classes" are sizes of
    the training set.
    """
    method = METHODS[case["method"]]
    if not method.available:
        raise InvalidInputError(f"method {method.name!r} needs {method.needs}: pip install torch")
    split = prepare(case["set"], case["seed"])
    with blas_threads(1), warnings.catch_warnings():
        # Warnings about small classes, gaps and steps are ignored: the measurements show their effects.
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


def uci_experiment(
    sets: Sequence[str] | None = None, methods: Sequence[str] | None = None, n_seeds: int | None = None
) -> Experiment:
    """Return the UCI suite, or a part of it, as an experiment whose cases are a set, a method and a seed.

    A quick run has two small sets, five fast methods and one split.

    Parameters
    ----------
    sets, methods : sequence of str, optional
        Names in `SETS` and `METHODS`; all by default.
    n_seeds : int, optional
        Number of splits of every set; by default, that of `N_SEEDS`.

    Returns
    -------
    Experiment

    Raises
    ------
    InvalidInputError
        A name is unknown, or the number is not positive.
    """
    chosen_sets = None if sets is None else _checked("sets", sets, SETS)
    chosen_methods = None if methods is None else _checked("methods", methods, METHODS)
    if n_seeds is not None:
        n_seeds = check_integer("seeds", n_seeds, minimum=1)

    def cases(quick: bool) -> list[Case]:
        names = chosen_sets or (_QUICK_SETS if quick else SETS)
        competitors = chosen_methods or (_QUICK_METHODS if quick else tuple(METHODS))
        splits = {name: n_seeds or (1 if quick else N_SEEDS[name]) for name in names}
        found = split_cases(splits, "method", competitors)
        return found if n_seeds else [case for case in found if not _is_left_out(case)]

    return Experiment(
        name="uci",
        title="UCI suite",
        source="UCI Machine Learning Repository and scikit-learn's sets; stratified splits 80/20, training statistics",
        cases=cases,
        run=run,
        tables=tables,
        version=2,
        description=_PROTOCOL,
    )


def _is_left_out(case: Case) -> bool:
    """Return whether the suite skips a case of a network trained by gradients."""
    trained = METHODS[case["method"]].needs is not None
    return trained and (case["seed"] >= _N_TRAINED or case["set"] in _TOO_LARGE)


def _checked(what: str, names: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the distinct names in the suite's order, after checking them."""
    allowed = list(known)
    chosen = {check_choice(what, name, allowed) for name in names}
    return [name for name in allowed if name in chosen]


EXPERIMENT = uci_experiment()
