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

from benchmarks.experiments._common import TARGET, Records, by, experiment_in, geometric, grid, timed, where
from benchmarks.experiments.accuracy._bits import network_bits
from qsdp import QuantizedNetworkClassifier
from qsdp._utils.parallel import blas_threads
from qsdp.bench import Claim, Record, paired_claim
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
    """A change of what all variants are compared with: claimed to be worse, or better, if `expected` to be.

    `before` returns transformers before the classifier, for those that are fitted to classes too.
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


def shown(records: Records) -> list[Record]:
    """Return changes in pairs of set and split, and in points on every set."""
    found = [(r.case, {name: r.measured[name] for name in ("test", "gap")}) for r in where(records, variant=BASE)]
    for variant, own in VARIANTS.items():
        pairs = {what: differences(records, variant, what) for what in ("test", "bits", "seconds", "gap")}
        if not pairs["test"]:
            continue
        ratios = {
            f"{what}, geometric ratio": geometric([np.divide(*pair) for pair in pairs[what].values()])
            for what in ("bits", "seconds")
        }
        for number, (key, (test, base)) in enumerate(pairs["test"].items()):
            case = {"kind": "one change at a time", "ingredient": own.ingredient, "change": variant, "repeat": number}
            found.append((case, {**ratios, "points": 100.0 * (test - base), "gap": pairs["gap"][key][0]}))
        means, defaults = of_sets(pairs["test"])
        points = {name: 100.0 * (means[name] - defaults[name]) for name in means}
        found.append(({"kind": "points on every set", "change": variant}, points))
    return [Record(case, row, 0.0) for case, row in found]


def claims(records: Records) -> list[Claim]:
    made = []
    for variant, own in VARIANTS.items():
        means, defaults = of_sets(differences(records, variant))
        pair = (means, defaults) if own.expected else (defaults, means)
        names = (variant, BASE) if own.expected else (BASE, variant)
        made.append(paired_claim(TARGET, own.claim, *pair, names=names))
    return made


EXPERIMENT = experiment_in(__name__, "What each ingredient adds", "Targets of the package; the sets of the UCI suite")
