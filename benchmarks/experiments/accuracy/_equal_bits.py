"""The default network of a split, and what may take its place in no more bits.

The rivals are straight-through training on the inputs of the network, of as many neurons as fit into its bits; logistic
regression and the quadratic form of the relaxation, rounded to 2, 4 and 8 bits; and a decision tree. Hyper-parameters
of all of them are chosen on the folds of the sample, the networks' own by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.experiments._common import grouped, timed
from benchmarks.experiments.accuracy import _bits as sizes
from benchmarks.experiments.accuracy._models import (
    Measured,
    Sample,
    logistic_of_columns,
    measured_network,
    relaxed_forms,
    trees,
)
from benchmarks.experiments.accuracy._rounding import PRECISIONS
from qsdp import QuantizedNetworkClassifier
from qsdp.bench import Record
from qsdp.bench._grid import BUDGET, InteriorSearch

DEFAULT, TRAINED = "default", "straight-through"


def rounded(name: str) -> tuple[str, ...]:
    """Return the names of a model rounded to few bits, from many to few."""
    return tuple(f"{name}, {precision} bits" for precision in reversed(PRECISIONS))


#: Rivals, and their versions: the first that is no larger than the network counts.
RIVALS: dict[str, tuple[str, ...]] = {
    "straight-through training": (TRAINED,),
    "rounded logistic regression": rounded("logistic"),
    "the rounded form of the relaxation": rounded(f"{DEFAULT} relaxed"),
    "a decision tree": ("tree", "tree, 64 leaves", "tree, 16 leaves", "tree, 4 leaves"),
}
#: Models of the tables, in their order.
NAMES = (DEFAULT, TRAINED, *rounded(f"{DEFAULT} relaxed"), "logistic", *rounded("logistic"), "tree")


def contenders(sample: Sample) -> Measured:
    """Yield the default network, forms of its relaxation, and its rivals, with accuracies on the test rows and bits."""
    split = sample.split
    model = QuantizedNetworkClassifier(random_state=sample.seed)
    _, seconds = timed(lambda: model.fit(split.X, split.y))
    default = {**measured_network(sample, model), "inputs": model.network_.n_inputs, "seconds": seconds}
    yield DEFAULT, default
    yield from relaxed_forms(sample, model, DEFAULT)
    yield TRAINED, straight_through(sample, model.encoder_, default["bits"])
    yield from logistic_of_columns(sample)
    yield from trees(sample)


def straight_through(sample: Sample, encoder: Any, budget: int) -> dict[str, Any]:
    """Return what straight-through training of a network of so many bits measures, on the inputs of an encoder."""
    from qsdp.baselines import StraightThroughClassifier

    inputs, tests = (encoder.transform(rows) for rows in (sample.split.X, sample.split.X_test))
    K, places = sample.n_outputs, sizes.encoding_bits(encoder.encoding_)
    # Two rows of signs, the constant column among them, and a real weight for every output.
    each = 2 * (inputs.shape[1] + 1) + K * sizes.REAL
    m = max((budget - places) // each, 1)
    common = {**BUDGET.training, "batch_size": 64, "dtype": "float32", "random_state": sample.seed}
    network = StraightThroughClassifier(m, start="float", **common)
    grid = {"learning_rate": [0.03, 0.1, 0.3], "beta": [1.0, 10.0, 100.0]}
    search = InteriorSearch(network, grid, sample.folds)
    _, seconds = timed(lambda: search.fit(inputs, sample.split.y))
    found = search.best_estimator_.network_
    return {
        "test": sample.test(search.predict(tests)),
        "bits": sizes.network_bits(found) + places,
        "encoding_bits": places,
        "neurons": found.n_neurons,
        "seconds": seconds,
        "chosen": {**search.best_params_, "decided": float(search.choice_.decided)},
    }


def of_models(records: Sequence[Record], name: str) -> list[dict[str, Any]]:
    """Return what was measured of one model."""
    return [record.measured["models"][name] for record in records]


def at_equal_bits(records: Sequence[Record], rival: str, *names: str) -> tuple[dict[Any, float], dict[Any, float]]:
    """Return the accuracies of network and rival by the values of parameters: of cases where the rival is no larger."""
    ours: dict[Any, float] = {}
    theirs: dict[Any, float] = {}
    for key, (record,) in grouped(records, *names).items():
        models: Mapping[str, dict[str, Any]] = record.measured["models"]
        for version in RIVALS[rival]:
            if models[version]["bits"] <= models[DEFAULT]["bits"]:
                ours[key], theirs[key] = models[DEFAULT]["test"], models[version]["test"]
                break
    return ours, theirs


def mean_over(found: Mapping[Any, float]) -> dict[Any, float]:
    """Return the means of what has the same last parameter."""
    return {
        last: float(np.mean([one for key, one in found.items() if key[-1] == last]))
        for last in dict.fromkeys(key[-1] for key in found)
    }
