"""Networks of the printed sizes of BTHOWeN, weightless neural networks of Bloom filters.

The printed values are accuracy and KiB of the models in the README of its authors, on one split with two thirds for
training; ours are means over stratified splits of two thirds. The networks are
`QuantizedNetworkClassifier(encoding="standard")`, since additive models, the default, choose their size; other
parameters are defaults. They are resampled to as many neurons as fit into the printed size, at most 128 per output. A
network's size is that of its stored form or of its quadratic form, whichever is smaller; like the printed sizes, it
excludes the encoding of the columns. Rivals that fit into the printed sizes, also without the encoding, are logistic
regression and the quadratic form of the relaxation, rounded to few bits, and decision trees.

The series are the encoding "standard" and the rivals by name. No constant column is appended to the inputs
of our classifiers, since their default activation has a constant part. Betas are "auto", chosen on folds of the
training part, as are the hyper-parameters of rivals. There are ten splits, but only three of "letter". Times of our
fits are not shown; those of rivals are CPU time.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

import qsdp
from benchmarks.machinery.common import TARGET, Records, by, experiment_in, over_sets, where
from benchmarks.machinery.verdicts import REPETITIONS, Claim, not_measured, paired_claim
from benchmarks.methods.bits import network_bits
from benchmarks.methods.equal_bits import rounded
from benchmarks.methods.models import Measured, Sample, logistic_of_columns, relaxed_forms, trees
from benchmarks.uci.data import LARGE, SETS, load, prepare, split_cases
from benchmarks.versions import ESTIMATORS
from qsdp._utils.parallel import blas_threads
from qsdp.networks.weights import bits_of

SOURCE = "Susskind et al., Weightless Neural Networks for Efficient Edge Inference, README"
JUDGED = "standard"
#: Largest number of neurons per output; the objective stops falling long before.
MOST = 128
KIB = 8 * 1024
#: Printed accuracy and KiB of each set.
PRINTED = {
    "iris": (0.980, 0.28),
    "wine": (0.983, 0.42),
    "vehicle": (0.762, 2.25),
    "ecoli": (0.875, 0.88),
    "satimage": (0.880, 9.0),
    "letter": (0.900, 78.0),
}
SPLITS = {name: 3 if name in LARGE else 10 for name in PRINTED if name in SETS}
ABSENT = "the set is not among those of the package"


def cases(quick: bool) -> list[dict[str, Any]]:
    splits = {"iris": 1} if quick else SPLITS
    return [*split_cases(splits, "encoding", [JUDGED]), *split_cases(splits, "family", FAMILIES)]


def linear_and_trees(sample: Sample) -> Measured:
    yield from logistic_of_columns(sample)
    yield from trees(sample)


def forms(sample: Sample) -> Measured:
    model = qsdp.QuantizedNetworkClassifier(encoding="standard", random_state=sample.seed)
    yield from relaxed_forms(sample, model.fit(sample.split.X, sample.split.y), "standard")


FAMILIES = {"linear and trees": linear_and_trees, "form": forms}
#: Rivals and their versions; the first version no larger than the printed size is compared.
RIVALS = {
    "logistic regression": ("logistic", *rounded("logistic")),
    "the form of the relaxation": ("standard relaxed", *rounded("standard relaxed")),
    "a decision tree": ("tree", "tree, 64 leaves", "tree, 16 leaves", "tree, 4 leaves"),
}


def resample_to(model: qsdp.QuantizedNetworkClassifier, bits: int, seed: int) -> None:
    """Replace the network by one with as many neurons as fit into a number of bits."""
    network = model.network_
    each = 2 * (bits_of(network.levels) * network.n_inputs + network.lifted)
    neurons = min((bits - (network.n_bits - each * network.n_neurons)) // each, MOST * network.n_outputs)
    model.resample(max(neurons, network.n_outputs), random_state=seed)
    while network_bits(model.network_) > bits and neurons > network.n_outputs:
        # Second-layer weights that the neurons of an output do not share take more bits.
        neurons = max(int(neurons * bits / model.network_.n_bits), network.n_outputs)
        model.resample(neurons, random_state=seed)


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Fit, resample to the printed size, and measure, on one thread; or fit all rivals of a family."""
    from sklearn.model_selection import train_test_split

    if "family" in case:
        sample = Sample.from_split(prepare(case["set"], case["seed"], test_size=1 / 3), case["seed"])
        return {"models": sample.models_of(FAMILIES[case["family"]])}
    data, seed = load(case["set"]), case["seed"]
    codes = np.unique(data.y, return_inverse=True)[1]
    X, X_test, y, y_test = train_test_split(data.X, codes, test_size=1 / 3, random_state=seed, stratify=codes)
    with blas_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = qsdp.QuantizedNetworkClassifier(encoding=case["encoding"], random_state=seed).fit(X, y)
        resample_to(model, round(PRINTED[case["set"]][1] * KIB), seed)
        test = float(np.mean(model.predict(X_test) == y_test))
    return {
        "test": test,
        "bits": network_bits(model.network_),
        "neurons": model.network_.n_neurons,
        "inputs": model.network_.n_inputs,
        "gap": model.certificate_.relative_gap,
    }


def fitting(records: Records, rival: str) -> dict[tuple[str, int], float]:
    """Return the accuracy of the first version of a rival that fits into the printed size, by set and split."""
    found = {}
    for record in where(records, encoding=None):
        limit, models = PRINTED[record.case["set"]][1] * KIB, record.measured["models"]
        versions = [models[name] for name in RIVALS[rival] if name in models]
        fits = [one["test"] for one in versions if one["bits"] - one["encoding_bits"] <= limit]
        if fits:
            found[record.case["set"], record.case["seed"]] = fits[0]
    return found


def claims(records: Records) -> list[Claim]:
    made = []
    group, own = "A network of this package is more accurate than BTHOWeN's, in no more KiB", f'encoding="{JUDGED}"'
    for name, (accuracy, kib) in PRINTED.items():
        words = f"{name}: a network of this package is more accurate than BTHOWeN's {kib:g} KiB, in no more."
        ours = by(where(records, set=name, encoding=JUDGED), "test", "seed")
        claim = paired_claim(SOURCE, words, ours, dict.fromkeys(ours, accuracy), names=(own, "printed"))
        made.append(replace(claim if name in SPLITS else not_measured(SOURCE, words, ABSENT), group=group, case=name))
    whole = [name for name, count in SPLITS.items() if count >= REPETITIONS]
    ours = over_sets(by(where(records, set=tuple(whole), encoding=JUDGED), "test", "set", "seed"), whole)
    for rival in RIVALS:
        theirs = over_sets(fitting(records, rival), whole)
        words = f"Of {', '.join(whole)}, a network of the printed size is more accurate than {rival} of no more bits."
        made.append(paired_claim(TARGET, words, ours, theirs, names=(own, rival)))
    return made


#: The answer on top of the page.
ANSWER = """\
In no more KiB than those printed for BTHOWeN, networks of this package are shown to be more accurate on
{bthowen: in no more. # supported} sets, and less accurate on {bthowen: in no more. # contradicted};
{bthowen: in no more. # not measured} are not measured. On iris, wine and vehicle together, their mean accuracy differs
from that of a decision tree of no more bits by {bthowen: than a decision tree}, of logistic regression by
{bthowen: than logistic regression}, and of the relaxation's quadratic form by
{bthowen: than the form of the relaxation}; {bthowen: Of iris # supported} of these advantages are significant.
"""


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    return () if case.get("family") == "linear and trees" else ESTIMATORS


#: Methods whose versions are stored with the records.
MEASURED = ESTIMATORS
EXPERIMENT = experiment_in(__name__, "Networks of the sizes printed for BTHOWeN", SOURCE)
