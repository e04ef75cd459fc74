"""The default network of a split, and rival models of no more bits.

The rivals are straight-through training on the network's inputs, with as many neurons as fit into its bits; logistic
regression, rounded to 2, 4 and 8 bits; and a decision tree. All of their hyper-parameters are chosen on the folds of
the sample; the networks choose their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.machinery.common import TARGET, Records, by, grouped, timed, unfolded, where
from benchmarks.machinery.summary import summary
from benchmarks.machinery.verdicts import Claim, paired_claim
from benchmarks.methods import bits as sizes
from benchmarks.methods.budget import BUDGET
from benchmarks.methods.models import Measured, Sample, fitted, logistic_of_columns, trees
from benchmarks.methods.rounding import PRECISIONS
from benchmarks.runner import Table

DEFAULT, TRAINED = "default", "straight-through"


def rounded(name: str) -> tuple[str, ...]:
    """Return the names of a model rounded to few bits, from many to few."""
    return tuple(f"{name}, {precision} bits" for precision in reversed(PRECISIONS))


#: Rivals and their versions; the first version no larger than the network is compared.
RIVALS: dict[str, tuple[str, ...]] = {
    "straight-through training": (TRAINED,),
    "rounded logistic regression": rounded("logistic"),
    "a decision tree": ("tree", "tree, 64 leaves", "tree, 16 leaves", "tree, 4 leaves"),
}
#: Models in the order of the tables.
NAMES = (DEFAULT, TRAINED, "logistic", *rounded("logistic"), "tree")


def models(sample: Sample, n_epochs: int = BUDGET.n_epochs) -> Measured:
    """Yield the default network and the rivals, one of them of the network's bits and trained for some epochs."""
    model, default = fitted(sample)
    inputs = model.encoder_.inputs_
    yield DEFAULT, {**default, "inputs": inputs.encoding_.width}
    yield from logistic_of_columns(sample)
    yield from trees(sample)
    yield TRAINED, straight_through(sample, inputs, default["bits"], n_epochs)


def straight_through(sample: Sample, encoder: Any, budget: int, n_epochs: int) -> dict[str, Any]:
    """Return the measurements of a straight-through network of `budget` bits on the inputs of an encoder."""
    from benchmarks.methods.search import InteriorSearch
    from qsdp.baselines import StraightThroughClassifier

    inputs, tests = (encoder.transform(rows) for rows in (sample.split.X, sample.split.X_test))
    K, places = sample.n_outputs, sizes.encoding_bits(encoder.encoding_)
    # Bits of a neuron: two rows of signs with the constant column, and a real weight for every output.
    each = 2 * (inputs.shape[1] + 1) + K * sizes.REAL
    m = max((budget - places) // each, 1)
    common = {
        **BUDGET.training,
        "n_epochs": n_epochs,
        "batch_size": 64,
        "dtype": "float32",
        "random_state": sample.seed,
    }
    network = StraightThroughClassifier(m, start="float", **common)
    grid = {"learning_rate": [0.03, 0.1, 0.3], "beta": [1.0, 10.0, 100.0]}
    search = InteriorSearch(network, grid, sample.folds)
    _, seconds = timed(lambda: search.fit(inputs, sample.split.y))
    found = search.best_estimator_.network_
    chosen = {**search.best_params_, "decided": float(search.choice_.decided)}
    measured = sample.measured(search.predict(tests), sizes.network_bits(found), seconds, places)
    return {**measured, "neurons": found.n_neurons, "chosen": chosen}


def tables(records: Records) -> list[Table]:
    """Return accuracy, bits, gap and seconds of the models, with the share of the largest class if it was measured."""
    fields = ("test", "most", "bits", "gap", "seconds")
    found = [one for one in unfolded(records, "models", "model", shared=("most",)) if one.case["model"] in NAMES]
    found.sort(key=lambda record: NAMES.index(record.case["model"]))
    return summary([replace(one, measured={name: one.measured.get(name) for name in fields}) for one in found])


def printed_claim(records: Records, statement: str, accuracy: float, theirs: str, group: str, case: str) -> Claim:
    """Return the claim that the network is more accurate, draw by draw, than a printed number, taken as exact."""
    ours = by(where(unfolded(records, "models", "model"), model=DEFAULT), "test", "seed")
    claim = paired_claim(TARGET, statement, ours, dict.fromkeys(ours, accuracy), names=(DEFAULT, theirs))
    return replace(claim, group=group, case=case)


def rival_claims(records: Records, of: str, *names: str) -> list[Claim]:
    """Return the claims that the network is more accurate than each rival, on data where some version is no larger.

    The last of the parameters `names` distinguishes repetitions; accuracies are means over the others.
    """
    made = []
    for rival, versions in RIVALS.items():
        pairs: dict[Any, list[tuple[float, float]]] = {}
        for key, group in grouped(records, *names).items():
            found = {name: one for record in group for name, one in record.measured["models"].items()}
            limit = found[DEFAULT]["bits"] if DEFAULT in found else 0
            fits = [found[name] for name in versions if name in found and found[name]["bits"] <= limit]
            if fits:
                pairs.setdefault(key[-1], []).append((found[DEFAULT]["test"], fits[0]["test"]))
        ours, theirs = ({last: float(np.mean(own, axis=0)[k]) for last, own in pairs.items()} for k in (0, 1))
        statement = f"{of}, the default classifier is more accurate than {rival} of no more bits."
        made.append(paired_claim(TARGET, statement, ours, theirs, names=(DEFAULT, rival)))
    return made
