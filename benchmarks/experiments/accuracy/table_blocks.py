"""Tables as blocks beside the default encoding: accuracy, bits, seconds, and how many fits end as a proof.

"blocks" is `QuantizedNetworkClassifier(encoding=qsdp.encoding.TableBlocks(), refine="exact")`: numbers and categories
in a quadratic block, 20 thresholds per column in linear blocks. "pairs" has a block for each pair of columns instead of
the quadratic block (`products="pairs"`), on sets of at most 12 columns. "default" is the classifier with its default
encoding, "boosting" scikit-learn's `HistGradientBoostingClassifier`; everything else is the default, including beta
"auto". Fits of blocks have a time limit of 10 seconds. The data are twelve sets of the UCI suite with up to 1600 rows,
on two of its splits, and two generated tables of 600 rows to train and 2000 to test: "staircases", classes by the
sign of a sum of steps of six columns, and "rings", three classes of rings around two centres in two of four columns.

Blocks have ones of their own, and the default a polynomial with a constant part, so no constant column is appended.
Bits are those of `methods/bits.py`: for blocks, neurons with 32 bits per real number, 16 bits for each threshold that a
neuron sees, and for mean and deviation of each number; for the default, its smallest form and its encoding. A fit is
proven if `certify` with exact pricing recomputes a relative gap of at most 1e-6. Seconds are CPU time of one thread for
the fit.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import qsdp
from benchmarks.machinery.common import TARGET, Records, by, experiment_in, grid, over_sets, timed, values, where
from benchmarks.machinery.verdicts import Claim, exact, paired_claim
from benchmarks.methods.bits import PLACE, QUADRATIC, encoding_bits, network_bits
from benchmarks.uci.data import LARGE, SETS, prepare
from benchmarks.versions import ESTIMATORS, estimators_of
from qsdp._utils.parallel import blas_threads

GENERATED = ("staircases", "rings")
CHOSEN = (*(name for name in SETS if name not in LARGE | {"wine-quality-white"}), *GENERATED)
#: Sets whose pairs of columns have blocks.
FEW_COLUMNS = ("iris", "glass", "banknote", "pima", "wine-quality-red", *GENERATED)
SPLITS, LIMIT, PROVEN = 2, 10.0, 1e-6
#: Rows of generated tables to train and to test.
ROWS, NEW = 600, 2000


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(set="iris", seed=range(1), model=("default", "blocks"))
    common = grid(seed=range(SPLITS), set=CHOSEN, model=("default", "boosting", "blocks"))
    return common + grid(seed=range(SPLITS), set=FEW_COLUMNS, model="pairs")


def model_of(name: str, seed: int) -> Any:
    if name == "boosting":
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(random_state=seed)
    if name == "default":
        return qsdp.QuantizedNetworkClassifier(random_state=seed)
    encoding = qsdp.encoding.TableBlocks(products="pairs" if name == "pairs" else "numbers")
    return qsdp.QuantizedNetworkClassifier(encoding=encoding, refine="exact", time_limit=LIMIT, random_state=seed)


def run(case: dict[str, Any]) -> dict[str, Any]:
    X, y, X_test, y_test = split_of(case["set"], case["seed"])
    with blas_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(case["model"], case["seed"])
        _, seconds = timed(lambda: model.fit(X, y))
        found = {"test": float(model.score(X_test, y_test)), "seconds": seconds}
        if case["model"] == "default":
            found["bits"] = network_bits(model.network_) + encoding_bits(model.encoder_.encoding_)
        elif case["model"] != "boosting":
            numbers = sum(one.kind == "value" for one in model.encoder_.inputs_.expressions_)
            found["bits"] = model.network_.n_bits + model.encoder_.threshold_bits(model.network_)
            found["bits"] += QUADRATIC * PLACE * numbers
            problem = model.training_problem(X, y)
            # Exact pricing of large blocks would take longer than the fit, which left them without a proof.
            kind = "exact" if model.certificate_.bound_type == "exact" else "sdp"
            found["gap"] = qsdp.certify(model.network_, problem, model.result_.relaxation, bound_type=kind).relative_gap
    return found


def split_of(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    if name not in GENERATED:
        split = prepare(name, seed)
        return split.X, split.y, split.X_test, split.y_test
    X, y = generated(name, ROWS + NEW, seed)
    return X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


def generated(name: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    if name == "rings":
        X = rng.standard_normal((n, 4))
        radius = np.minimum(np.hypot(X[:, 0] - 0.8, X[:, 1]), np.hypot(X[:, 0] + 0.8, X[:, 1]))
        return X, np.digitize(radius + 0.05 * rng.standard_normal(n), [0.5, 1.0])
    X = rng.uniform(size=(n, 6))
    heights = rng.standard_normal((6, 5))
    score = np.take_along_axis(heights, np.floor(5.0 * X).astype(int).T, axis=1).sum(axis=0)
    return X, (score + 0.3 * rng.standard_normal(n) > np.median(score)).astype(int)


# -- claims ----------------------------------------------------------------------------------------------


def by_set(records: Records, model: str) -> dict[str, float]:
    """Return the mean accuracy over splits, by set, for the sets whose splits are all measured."""
    return over_sets(by(where(records, model=model), "test", "seed", "set"), range(SPLITS))


def claims(records: Records) -> list[Claim]:
    statement = "Numbers in a quadratic block beside thresholds in linear ones are as accurate as the default encoding."
    ours, default = (by_set(records, model) for model in ("blocks", "default"))
    proven = values(where(records, model="blocks"), "gap") <= PROVEN
    whole = len(proven) == SPLITS * len(CHOSEN)
    seconds = values(where(records, model="blocks"), "seconds")[proven]
    times = f", in {np.median(seconds):.2g} s in the median" if len(seconds) else ""
    figures = f"{proven.sum()} of {len(proven)}{times}" if whole else ""
    return [
        paired_claim(TARGET, statement, ours, default, names=("blocks", "default")),
        exact(
            TARGET,
            f"At least half of the fits of blocks are proven optimal, to a relative gap of {PROVEN:g}.",
            [bool(2 * proven.sum() >= len(proven))] if whole else [],
            figures,
        ),
    ]


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    boosting, default = case["model"] == "boosting", case["model"] == "default"
    own = estimators_of(case["set"])
    return () if boosting else own if default else BLOCKS


#: Methods that fits to tables as blocks depend on.
BLOCKS = ("column_generation", "certificates", *ESTIMATORS)
#: Methods whose versions are stored with the records.
MEASURED = (*BLOCKS, "offsets", "wrong_rows", "many_rows")
EXPERIMENT = experiment_in(__name__, "Tables as blocks", "Targets of the package; the sets of the UCI suite")
