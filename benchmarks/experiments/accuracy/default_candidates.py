"""Candidates for the default classifier: today's encoding, and an additive model with interactions.

"default" is `QuantizedNetworkClassifier()`, and "additive" the same with `encoding="additive"`, whose loss is the
logistic loss or the cross-entropy. "boosting" is scikit-learn's `HistGradientBoostingClassifier`. The data are the sets
of the UCI suite but the four largest, on two splits (one of wine-quality-white), and the wide tables of `default_fit`:
200 columns of which six determine the class. Bits of the default are those of its smallest form and of its encoding.
Bits of the additive model are its `n_bits`, with 8 bits a weight and a second-layer weight, 16 bits for each threshold
in use, 32 for the mean and deviation of each number that neurons have, and 16 for the deviation of each that only has a
weight. No constant column is appended to the inputs, and beta is "auto". The gap is that of the certificate. Seconds
are CPU time of one thread for the fit.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments.accuracy.default_fit import SCORES, few_of_many
from benchmarks.machinery.common import TARGET, Records, by, experiment_in, grid, over_sets, timed, where
from benchmarks.machinery.verdicts import Claim, exact, paired_claim
from benchmarks.methods.bits import POSITION_BITS, encoding_bits, network_bits
from benchmarks.uci.data import LARGE, SETS, prepare
from benchmarks.versions import ESTIMATORS, estimators_of
from qsdp._utils.parallel import blas_threads

#: Splits of small sets, and rows and repetitions of wide tables.
SPLITS, ROWS, REPETITIONS = 2, (300, 3000), 1
#: Sets that are measured, and those of them with a single split.
CHOSEN = [name for name in SETS if name not in LARGE]
SINGLE = {"wine-quality-white"}
#: Points of mean accuracy that may be lost, share of the bits that may be taken, and points that no table may lose.
WITHIN, SHARE, WORST = 0.2, 0.6, 2.0
#: Multiple of the time of boosting that half of the sets may take.
TIMES = 5.0
MODELS = ("default", "additive", "boosting")


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(set="iris", seed=0, model=("default", "additive"))
    small = grid(seed=range(SPLITS), set=[name for name in CHOSEN if name not in SINGLE], model=MODELS)
    large = grid(seed=0, set=[name for name in CHOSEN if name in SINGLE], model=MODELS)
    return small + grid(table=SCORES, rows=ROWS, seed=range(REPETITIONS), model=MODELS[:2]) + large


def run(case: dict[str, Any]) -> dict[str, Any]:
    if "table" in case:
        X, y, X_test, y_test = few_of_many(case["table"], case["rows"], case["seed"])
    else:
        split = prepare(case["set"], case["seed"])
        X, y, X_test, y_test = split.X, split.y, split.X_test, split.y_test
    with blas_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(case["model"], case["seed"])
        _, seconds = timed(lambda: model.fit(X, y))
        found = {"test": float(model.score(X_test, y_test)), "seconds": seconds}
    if case["model"] != "boosting":
        found |= {"bits": bits_of(model), "gap": model.certificate_.relative_gap, "neurons": model.network_.n_neurons}
    return found


def model_of(name: str, seed: int) -> Any:
    if name == "boosting":
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(random_state=seed)
    encoding = "auto" if name == "default" else "additive"
    return qsdp.QuantizedNetworkClassifier(encoding=encoding, random_state=seed)


def bits_of(model: Any) -> int:
    """Return the bits of a network and of its encoding."""
    network, encoder = model.network_, model.encoder_
    if network.blocks is None:
        return network_bits(network) + encoding_bits(encoder.encoding_)
    expressions = encoder.inputs_.expressions_
    weighted = network.column_weights[: len(expressions)].any(axis=1)
    of_neurons = np.array([encoder.products == "all" or one.kind != "above" for one in expressions])
    of_neurons &= network.n_neurons > 0
    numbers, above = (np.array([one.kind == kind for one in expressions]) for kind in ("value", "above"))
    places = (of_neurons & numbers).sum() + (numbers & (of_neurons | weighted)).sum()
    return int(network.n_bits + POSITION_BITS * (places + (above & (of_neurons | weighted)).sum()))


# -- claims ----------------------------------------------------------------------------------------------


def means(records: Records, model: str, what: str) -> dict[str, float]:
    """Return the mean of a measurement over splits, by set, for the sets whose splits are all measured."""
    mine = [record for record in where(records, model=model) if "set" in record.case]
    found: dict[str, float] = {}
    for kind, splits in ((False, SPLITS), (True, 1)):
        some = [record for record in mine if (record.case["set"] in SINGLE) == kind]
        found |= over_sets(by(some, what, "seed", "set"), range(splits))
    return found


def claims(records: Records) -> list[Claim]:
    names = ("additive", "default")

    def compared(statement: str, what: str, **how: Any) -> Claim:
        ours, theirs = (means(records, name, what) for name in names)
        return paired_claim(TARGET, statement, ours, theirs, names=names, **how)

    fewer = {"less": True, "log": True, "margin": -np.log(SHARE), "show": geometric_mean}
    wide = {name: by([r for r in where(records, model=name) if "table" in r.case], "test", "table", "rows", "seed")
            for name in names}  # fmt: skip
    lost = {case: 100.0 * (wide["default"][case] - test) for case, test in wide["additive"].items()
            if case in wide["default"]}  # fmt: skip
    whole = len(lost) == len(SCORES) * len(ROWS) * REPETITIONS
    tables: dict[Any, list[float]] = {case[:2]: [] for case in lost}
    for case, points in lost.items():
        tables[case[:2]].append(points)
    worst = max((float(np.mean(points)) for points in tables.values()), default=0.0)
    ours, boosting = (means(records, name, "seconds") for name in ("additive", "boosting"))
    ratios = [ours[name] / boosting[name] for name in ours if name in boosting]
    times = len(ratios) == len(CHOSEN)
    return [
        compared(f"Additive models lose at most {WITHIN} points of mean accuracy.", "test", margin=-WITHIN / 100.0),
        compared(f"Additive models take at most {SHARE} of the bits, in the geometric mean.", "bits", **fewer),
        exact(
            TARGET,
            f"No wide table loses more than {WORST:g} points.",
            [worst <= WORST] if whole else [],
            f"at most {worst:.1f} points" if whole else "",
        ),
        exact(
            TARGET,
            f"In the median over the sets, a fit takes at most {TIMES:g} times as long as boosting.",
            [bool(np.median(ratios) <= TIMES)] if times else [],
            f"{np.median(ratios):.1f} times" if times else "",
        ),
    ]


def geometric_mean(bits: np.ndarray) -> str:
    return f"{np.exp(np.mean(np.log(bits))) / 1000.0:.1f} kbit"


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    if case["model"] == "boosting":
        return ()
    if case["model"] == "additive":
        return ADDITIVE
    return estimators_of(case["set"]) if "set" in case else (*ESTIMATORS, "many_rows")


#: Methods that additive fits depend on.
ADDITIVE = ("additive", "certificates", "refinement", "encoding")
#: Methods whose versions are stored with the records.
MEASURED = (*ADDITIVE, *ESTIMATORS, "offsets", "wrong_rows", "splits", "many_rows")
EXPERIMENT = experiment_in(__name__, "Candidates for the default classifier", "Targets of the package")
