"""Contribution of each ingredient of the classifier: one change at a time, on the same splits.

The data are twelve sets of the UCI suite with up to 1600 rows, on five of its splits. The reference is
`QuantizedNetworkClassifier(encoding="standard")`. Everything except the change is the default, including beta "auto",
which is chosen again for every variant. The variant "additive" is the default classifier, whose loss is the logistic
loss or the cross-entropy. Differences are paired by set and
split. Verdicts compare the means over each set, because sets are independent and splits of one set are not.

Each series is named after the change that it makes; "standard" is the reference. No constant column is appended to the
inputs of our classifiers, since their default activation has a constant part. Only "bilinear" has a constant column, in
place of the lift. Seconds are CPU time of one thread for the fit, including the choice of hyper-parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import qsdp
from benchmarks.machinery.common import TARGET, Records, by, experiment_in, grid, over_sets, timed, where
from benchmarks.machinery.verdicts import Claim, paired_claim
from benchmarks.methods.bits import network_bits
from benchmarks.runner import Record
from benchmarks.uci.data import LARGE, SETS, prepare
from benchmarks.versions import ESTIMATORS
from qsdp._utils.parallel import blas_threads
from qsdp.encoding.fitting import CUT

CHOSEN = tuple(name for name in SETS if name not in LARGE | {"wine-quality-white"})
SPLITS = 5
BASE = "standard"


def standardised() -> qsdp.encoding.TableEncoder:
    """Return an encoder that standardises columns and does not scale the rows."""
    return qsdp.encoding.TableEncoder(encoding="standard", cut=CUT)


#: Variants claimed to be worse than the reference: the claim, and options of the classifier.
WORSE: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "bilinear": (
        "The polynomial lift is more accurate than the bilinear one with a constant column.",
        lambda: {"activation": None},
    ),
    "no scale of rows": (
        "Scaling the rows to one norm is more accurate than standardised columns as they are.",
        lambda: {"encoding": standardised()},
    ),
    "not refined": ("Polish is more accurate than sampled neurons as they are.", lambda: {"refine": "none"}),
    "refit": ("Polish is more accurate than another second layer for sampled neurons.", lambda: {"refine": "refit"}),
    "beta 5%": ("The choice of beta is more accurate than 5% of the largest one.", lambda: {"beta": "5%"}),
}
#: Variants claimed to be better than the reference.
BETTER: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "thresholds": ("Thresholds in place of numbers raise the accuracy.", lambda: {"encoding": "thresholds"}),
    "both": ("Thresholds beside numbers raise the accuracy.", lambda: {"encoding": "both"}),
    "additive": (
        "Real weights beside neurons, on thresholds where they pay, raise the accuracy.",
        lambda: {"encoding": "additive"},
    ),
    **{
        loss: (f"The loss {loss!r} is more accurate than the squared one.", lambda loss=loss: {"loss": loss})
        for loss in ("logistic", "cross_entropy", "hinge", "squared_hinge")
    },
}
VARIANTS = {**WORSE, **BETTER}


def cases(quick: bool) -> list[dict[str, Any]]:
    names = ("bilinear", "refit") if quick else VARIANTS
    sets, splits = (("heart",), 1) if quick else (CHOSEN, SPLITS)
    return grid(seed=range(splits), set=sets, variant=(BASE, *names))


def model_of(variant: str, seed: int) -> qsdp.QuantizedNetworkClassifier:
    changes = VARIANTS[variant][1]() if variant in VARIANTS else {}
    return qsdp.QuantizedNetworkClassifier(random_state=seed, **{"encoding": "standard", **changes})


def run(case: dict[str, Any]) -> dict[str, Any]:
    split = prepare(case["set"], case["seed"])
    with blas_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(case["variant"], case["seed"])
        _, seconds = timed(lambda: model.fit(split.X, split.y))
        test = float(np.mean(model.predict(split.X_test) == split.y_test))
    return {
        "test": test,
        "bits": network_bits(model.network_),
        "inputs": model.network_.n_inputs,
        "gap": model.certificate_.relative_gap,
        "seconds": seconds,
    }


def shown(records: Records) -> list[Record]:
    """Return the changes for each pair of set and split."""
    bases = {(one.case["set"], one.case["seed"]): one.measured for one in where(records, variant=BASE)}
    found = []
    for number, record in enumerate(records):
        own, base = record.measured, bases.get((record.case["set"], record.case["seed"]))
        if base:
            row = {"points": 100.0 * (own["test"] - base["test"]), "gap": own["gap"]}
            row |= {f"{what}, ratio": own[what] / base[what] for what in ("bits", "seconds")}
            found.append(Record({"change": record.case["variant"], "repeat": number}, row, 0.0))
    return found


def by_set(records: Records, variant: str) -> dict[str, float]:
    """Return the mean over splits, by set, for the sets whose splits are all measured."""
    found = by(where(records, variant=variant), "test", "seed", "set")
    return over_sets(found, range(SPLITS))


def claims(records: Records) -> list[Claim]:
    made = []
    for variant, (statement, _) in VARIANTS.items():
        names = (variant, BASE) if variant in BETTER else (BASE, variant)
        made.append(paired_claim(TARGET, statement, *(by_set(records, name) for name in names), names=names))
    return made


#: The answer on top of the page.
ANSWER = """\
Over twelve sets, with one ingredient changed at a time, {ingredients: # supported} are shown to raise the accuracy, and
{ingredients: # contradicted} to lower it. Polishing changes the
accuracy of sampled neurons by {ingredients: than sampled neurons}, the choice of beta that of a fixed one by
{ingredients: The choice of beta}, and thresholds beside numbers that of numbers alone by
{ingredients: Thresholds beside numbers}.
"""

#: Methods whose versions are stored with the records.
MEASURED = ESTIMATORS
EXPERIMENT = experiment_in(__name__, "What each ingredient adds", "Targets of the package; the sets of the UCI suite")
