"""What each ingredient of the classifier adds: one change at a time, the same splits.

Twelve sets of the UCI suite of up to 1600 rows, ten of its splits. Compared with
`QuantizedNetworkClassifier(encoding="standard")`; everything but the change is the default, beta "auto" included, which
chooses anew for every variant. The variant "auto" is the default encoding. Differences are paired by set and split; a
verdict is on the means of the sets, which are independent, as splits of one set are not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline

from benchmarks.experiments._common import (
    TARGET,
    Records,
    by,
    experiment_in,
    geometric,
    grid,
    spread,
    timed,
    values,
    where,
)
from benchmarks.experiments.accuracy._bits import network_bits
from qsdp import QuantizedNetworkClassifier
from qsdp._utils.parallel import blas_threads
from qsdp.bench import REPETITIONS, Claim, Table, not_measured, paired_claim
from qsdp.bench.uci.data import LARGE, SETS, prepare
from qsdp.encoding import SupervisedScaler, TableEncoder, row_scale
from qsdp.encoding.fitting import CUT

CHOSEN = tuple(name for name in SETS if name not in LARGE | {"wine-quality-white"})
SPLITS = 10
BASE = "standard"


class RowScaler(TransformerMixin, BaseEstimator):
    """Multiply all columns by the power of two that the default encoding has, `row_scale`."""

    def fit(self, X: np.ndarray, y: Any = None) -> RowScaler:
        """Find the scale."""
        self.scale_ = row_scale(X)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the scaled columns."""
        return self.scale_ * X


def standardised(cut: float | None = CUT) -> TableEncoder:
    """Return the encoder of standardised columns, without a scale of the rows."""
    return TableEncoder(encoding="standard", cut=cut)


def supervised(rounds: int) -> Callable[[], Any]:
    """Return a maker of the transformers before a network whose columns have scales of their own."""
    return lambda: make_pipeline(standardised(), SupervisedScaler(n_rounds=rounds))


@dataclass(frozen=True)
class Variant:
    """A change of what all variants are compared with.

    Attributes
    ----------
    ingredient : str
        The group in tables.
    claim : str
        That the change is worse, or better, if it is `expected` to be.
    options : callable
        Returns options of the classifier.
    before : callable or None
        Returns transformers before the classifier, for those that are fitted to classes too.
    expected : bool
    """

    ingredient: str
    claim: str
    options: Callable[[], dict[str, Any]] = field(default=dict)
    before: Callable[[], Any] | None = None
    expected: bool = False


def changed(ingredient: str, claim: str, *, expected: bool = False, **options: Any) -> Variant:
    return Variant(ingredient, claim, lambda: options, expected=expected)


VARIANTS: dict[str, Variant] = {
    "bilinear": changed(
        "lift", "The polynomial lift is more accurate than the bilinear one with a constant column.", activation=None
    ),
    "no scale of rows": Variant(
        "scales",
        "Scaling the rows to one norm is more accurate than standardised columns as they are.",
        lambda: {"encoding": standardised()},
    ),
    "no cut": Variant(
        "scales",
        "Cutting numbers three deviations off is more accurate than leaving them.",
        lambda: {"encoding": make_pipeline(standardised(None), RowScaler())},
    ),
    **{
        f"supervised scales, {rounds} round{'s' * (rounds > 1)}": Variant(
            "scales",
            f"Supervised scales of the columns ({rounds} round{'s' * (rounds > 1)}) raise the accuracy.",
            lambda: {"encoding": "none"},
            supervised(rounds),
            expected=True,
        )
        for rounds in (1, 2)
    },
    "thresholds": changed(
        "thresholds", "Thresholds in place of numbers raise the accuracy.", expected=True, encoding="thresholds"
    ),
    "both": changed("thresholds", "Thresholds beside numbers raise the accuracy.", expected=True, encoding="both"),
    "auto": changed(
        "thresholds",
        "Thresholds where they are a clear gain on samples left out raise the accuracy.",
        expected=True,
        encoding="auto",
    ),
    "not refined": changed("refine", "Polish is more accurate than sampled neurons as they are.", refine="none"),
    "refit": changed(
        "refine", "Polish is more accurate than another second layer for sampled neurons.", refine="refit"
    ),
    **{
        loss: changed("loss", f"The loss {loss!r} is more accurate than the squared one.", expected=True, loss=loss)
        for loss in ("logistic", "cross_entropy", "hinge", "squared_hinge")
    },
    "beta 5%": changed("beta", "The choice of beta is more accurate than 5% of the largest one.", beta="5%"),
}


def cases(quick: bool) -> list[dict[str, Any]]:
    names = ("bilinear", "no cut", "refit") if quick else VARIANTS
    sets, splits = (("heart",), 1) if quick else (CHOSEN, SPLITS)
    return grid(seed=range(splits), set=sets, variant=(BASE, *names))


def model_of(variant: str, seed: int) -> tuple[Any, QuantizedNetworkClassifier]:
    own = VARIANTS.get(variant, Variant("", ""))
    network = QuantizedNetworkClassifier(random_state=seed, **{"encoding": "standard", **own.options()})
    return (network if own.before is None else make_pipeline(own.before(), network)), network


def run(case: dict[str, Any]) -> dict[str, Any]:
    split = prepare(case["set"], case["seed"])
    with blas_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, network = model_of(case["variant"], case["seed"])
        _, seconds = timed(lambda: model.fit(split.X, split.y))
        test = float(np.mean(model.predict(split.X_test) == split.y_test))
    return {
        "test": test,
        "bits": network_bits(network.network_),
        "inputs": network.network_.n_inputs,
        "gap": network.certificate_.relative_gap,
        "seconds": seconds,
    }


def differences(records: Records, variant: str, what: str = "test") -> dict[tuple[str, int], tuple[float, float]]:
    """Return pairs of the variant's and the base's measurement, by set and split."""
    own, base = (by(where(records, variant=name), what, "set", "seed") for name in (variant, BASE))
    return {key: (number, base[key]) for key, number in own.items() if key in base}


def of_sets(pairs: dict[tuple[str, int], tuple[float, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the means over splits of both parts of pairs, by set."""
    names = dict.fromkeys(name for name, _ in pairs)
    own, default = (
        {name: float(np.mean([pair[part] for key, pair in pairs.items() if key[0] == name])) for name in names}
        for part in (0, 1)
    )
    return own, default


#: What verdicts on the variant are called in the table, from that on "the variant is more accurate".
WORDS = {
    "supported": "better",
    "contradicted": "worse",
    "inconclusive": "within the noise",
    "not measured": "too few sets",
}


def tables(records: Records) -> list[Table]:
    rows, by_set = [], []
    for variant, own in VARIANTS.items():
        pairs = differences(records, variant)
        if not pairs:
            continue
        changes = np.array([first - second for first, second in pairs.values()])
        means, defaults = of_sets(pairs)
        of_means = np.array([means[name] - defaults[name] for name in means])
        error = f" ± {100 * of_means.std(ddof=1) / len(of_means) ** 0.5:.2f}" if len(of_means) > 1 else ""
        bits, seconds = (
            geometric([first / second for first, second in differences(records, variant, what).values()])
            for what in ("bits", "seconds")
        )
        gaps = [first for first, _ in differences(records, variant, "gap").values()]
        word = WORDS[paired_claim("", "", means, defaults, names=("", "")).verdict]
        rows.append(
            [
                own.ingredient,
                variant,
                spread(100 * changes, 2),
                f"{100 * of_means.mean():+.2f}{error}",
                f"{np.sum(of_means > 0)} / {np.sum(of_means < 0)}",
                word,
                f"{bits:.2f}",
                f"{seconds:.2g}",
                f"{100 * np.median(gaps):.1f}",
                str(len(pairs)),
            ]
        )
        by_set.append(
            [variant, *(f"{100 * (means[name] - defaults[name]):+.1f}" if name in means else "" for name in CHOSEN)]
        )
    tests, gaps = (list(values(where(records, variant=BASE), what)) or [np.nan] for what in ("test", "gap"))
    note = (
        f"Test accuracy with the change minus that without ({spread(100 * np.array(tests), 2)} %), in points: mean and "
        "deviation over sets and splits; mean over sets with its standard error; sets where it is better and worse; "
        "whether p is at most 0.05. Bits, of the network without its encoding, and processor seconds: "
        f"geometric mean of the ratio. Gap: median; {100 * np.median(gaps):.1f} % without a change."
    )
    headings = ["ingredient", "change", "difference", "over sets", "better / worse", "the change is", "bits, ratio"]
    return [
        Table("One change at a time", [*headings, "seconds, ratio", "gap, %", "pairs"], rows, note),
        Table("The same on every set, points", ["change", *CHOSEN], by_set, "Means over splits."),
    ]


def claims(records: Records) -> list[Claim]:
    made = []
    for variant, own in VARIANTS.items():
        means, defaults = of_sets(differences(records, variant))
        if len(means) < REPETITIONS:
            made.append(not_measured(TARGET, own.claim, f"{len(means)} of {REPETITIONS} sets at least"))
            continue
        pair = (means, defaults) if own.expected else (defaults, means)
        names = (variant, BASE) if own.expected else (BASE, variant)
        made.append(paired_claim(TARGET, own.claim, *pair, names=names))
    return made


def quotes(records: Records) -> dict[str, str]:
    rows = tables(records)[0].rows
    kinds = {row[0]: [f"{other[1]} {other[3]}" for other in rows if other[0] == row[0]] for row in rows}
    changes = "; ".join(f"{kind}: {', '.join(each)}" for kind, each in kinds.items())
    decided = ", ".join(f"{row[1]} ({row[5]})" for row in rows if row[5] in (WORDS["supported"], WORDS["contradicted"]))
    pairs = sorted({int(row[-1]) for row in rows})
    counted = " to ".join(str(count) for count in dict.fromkeys((pairs[0], pairs[-1]))) if pairs else "no"
    return {
        "changes": "Points of test accuracy gained by each change, mean over sets and its standard error, of "
        f"{counted} splits of {len(CHOSEN)} sets. {changes.capitalize()}. Beyond the noise, before any correction: "
        f"{decided or 'none'}."
    }


EXPERIMENT = experiment_in(__name__, "What each ingredient adds", "Targets of the package; the sets of the UCI suite")
