"""What is lost by training with any system and quantizing with the semidefinite program.

Each classifier and regressor of `qsdp.baselines` and of the other papers (`benchmarks/papers/`) has its default
parameters, except for one hidden layer of 20 units where it has hidden layers. `distill` then matches every layer by a
network of binary weights on the training set, with 500 polished neurons per layer. It is compared with the relaxation's
own network (`QuantizedNetworkClassifier` or the regressor, with the same number of neurons and the default
`beta="auto"`) and, for backpropagation and ReLU networks, with weights rounded to signs with a scale per neuron (for
ReLU, outputs are also matched on the training set). There are ten splits with 25 % for testing, stratified by class;
inputs and real targets are standardised. Planted data are 400 samples of 20 Gaussian columns, new ones for every split.
Regressors are scored by R².

The series "trained" is the score of the system itself, "rounded" that of its rounded weights, and "quantized" that of
the distilled chain. "relaxation" is bilinear and has a constant column. All betas are defaults, of the systems and of
`distill`. Seconds are wall time of `distill`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import qsdp
from benchmarks.data.sets import quarter
from benchmarks.machinery.common import Records, by, experiment_in, grid, over_sets, timed, where
from benchmarks.machinery.verdicts import Claim, paired_claim
from benchmarks.methods.networks import outputs_of
from benchmarks.papers import estimator_class
from benchmarks.versions import ESTIMATORS
from qsdp.datasets import load_bundled, make_planted

CLASSES = ("iris", "wine", "breast-cancer-wisconsin")
TARGETS = ("diabetes", "planted")
HIDDEN, SPLITS, NEURONS = 20, 10, 500
SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "backpropagation": ("BackpropClassifier", {"n_neurons": HIDDEN}),
    "ReLU": ("ReLUNetworkClassifier", {"n_neurons": HIDDEN}),
    "quadratic logistic regression": ("QuadraticLogisticRegression", {}),
    "quadratic network": ("QuadraticNetworkClassifier", {"hidden_layers": (("linear", HIDDEN),)}),
    "ReLinear": ("ReLinearClassifier", {"hidden": (HIDDEN,)}),
    "BPLS": ("BPLSClassifier", {"hidden": HIDDEN}),
    "RLS": ("RLSNetworkClassifier", {"hidden": HIDDEN}),
}
#: The quadratic systems are classifiers only.
REGRESSORS = tuple(name for name in SYSTEMS if not name.startswith("quadratic"))
ROUNDED, OWN = ("backpropagation", "ReLU"), "relaxation"

#: Largest loss at which a system counts as keeping its accuracy or R².
MARGIN = 0.02
#: Names of the sets of each kind, their score, and the systems.
KINDS = {"classes": (CLASSES, "accuracy", tuple(SYSTEMS)), "real targets": (TARGETS, "R²", REGRESSORS)}


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(system="BPLS", set="iris", split=0) + grid(system="backpropagation", set="diabetes", split=0)
    return [
        case
        for sets, _, systems in KINDS.values()
        for case in grid(system=(*systems, OWN), set=sets, split=range(SPLITS))
    ]


def model_of(name: str, seed: int, *, regression: bool) -> Any:
    if name == OWN:
        own = qsdp.QuantizedNetworkRegressor if regression else qsdp.QuantizedNetworkClassifier
        return own(NEURONS, activation=None, encoding="none", random_state=seed)
    system, options = SYSTEMS[name]
    system = system.replace("Classifier", "Regressor") if regression else system
    return estimator_class(system)(random_state=seed, **options)


def split_of(name: str, split: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ``X, X_test, y, y_test``, standardised by the training set."""
    X, y = make_planted(400, 20, n_neurons=10, random_state=split) if name == "planted" else load_bundled(name)
    regression = name in TARGETS
    return quarter(X, y if regression else np.unique(y, return_inverse=True)[1], split, classes=not regression)


def run(case: dict[str, Any]) -> dict[str, Any]:
    X, X_test, y, y_test = split_of(case["set"], case["split"])
    regression = case["set"] in TARGETS
    score = explained if regression else right
    model = model_of(case["system"], case["split"], regression=regression).fit(X, y)
    found: dict[str, Any] = {"trained": float(model.score(X_test, y_test))}
    if case["system"] == OWN:
        return found
    if case["system"] in ROUNDED:
        # Polynomial networks use the scale with the nearest matrix; ReLU networks are matched on the training set.
        network = model.quantized() if hasattr(model, "network_inputs") else model.quantized(X=X)
        found["rounded"] = score(outputs_of(model, network)(X_test), y_test)
    options = {"tol": 1e-4, "refine": "polish", "random_state": 0}
    chain, seconds = timed(lambda: model.distill(X, NEURONS, **options), time.perf_counter)
    return {**found, "quantized": score(chain.predict(X_test), y_test), "bits": chain.n_bits, "seconds": seconds}


def explained(outputs: np.ndarray, y: np.ndarray) -> float:
    from sklearn.metrics import r2_score

    return float(r2_score(y, np.ravel(outputs)))


def right(outputs: np.ndarray, y: np.ndarray) -> float:
    several = outputs.ndim == 2 and outputs.shape[1] > 1
    decided = outputs.argmax(axis=1) if several else np.ravel(outputs) > 0.0
    return float(np.mean(decided == y))


def claims(records: Records) -> list[Claim]:
    """Compare scores before and after quantization, with rounding, and with the relaxation's own network."""
    found = []

    def said(kind: str, words: str, ours: dict[int, float], theirs: dict[int, float], *names: str, **how: Any) -> None:
        statement = f"{kind}: {words}, in the mean over systems."
        found.append(paired_claim("beyond the papers", statement, ours, theirs, names=(names[0], names[1]), **how))

    for kind, (sets, measure, systems) in KINDS.items():
        here = where(records, set=sets)
        after, before = (mean_over(here, systems, what) for what in ("quantized", "trained"))
        words = (
            f"trained by any system and quantized by the relaxation, networks keep their test {measure} within 2 points"
        )
        said(kind, words, after, before, "quantized", "trained", margin=-MARGIN)
        ours, theirs = (mean_over(here, ROUNDED, what) for what in ("quantized", "rounded"))
        words = f"quantized by the relaxation networks have a higher test {measure} than rounded to signs"
        said(kind, words, ours, theirs, "relaxation", "rounded")
        words = f"the relaxation's own network has a higher test {measure} than trained networks quantized by it"
        said(kind, words, mean_over(here, (OWN,), "trained"), after, "relaxation", "trained, then quantized")
    return found


def mean_over(records: Records, systems: Sequence[str], what: str) -> dict[int, float]:
    """Return test scores by split, as means over systems and sets, for the splits where all are measured."""
    sets = {record.case["set"] for record in records}
    wanted = [(system, name) for system in systems for name in sets]
    found = by(where(records, system=tuple(systems)), what, "system", "set", "split")
    return over_sets({((system, name), split): score for (system, name, split), score in found.items()}, wanted)


#: The answer on top of the page.
ANSWER = """\
Networks of seven systems, quantized by the relaxation after training, change their test accuracy on classes by
{train_then_quantize: classes: trained by any system} on average; with real targets, those of five systems change their
R² by {train_then_quantize: real targets: trained by any system}. Of the two systems that can be rounded to signs,
networks quantized by the relaxation differ from rounded ones by
{train_then_quantize: classes: quantized by the relaxation} of accuracy and
{train_then_quantize: real targets: quantized by the relaxation} of R². Networks of the relaxation itself differ from
those trained and then quantized by {train_then_quantize: classes: the relaxation's own network} and
{train_then_quantize: real targets: the relaxation's own network}.
"""


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    if case["system"] == OWN:
        return ESTIMATORS
    systems = {"backpropagation": "backprop", "ReLU": "backprop", "ReLinear": "relinear", "BPLS": "bpls", "RLS": "rls"}
    ours = tuple(method for method in ESTIMATORS if method not in {"encoding", "estimators"})
    return (*ours, "distillation", systems.get(case["system"], "quadratic"))


#: Methods whose versions are stored with the records.
MEASURED = (*ESTIMATORS, "distillation", "backprop", "bpls", "quadratic", "relinear", "rls")
EXPERIMENT = experiment_in(
    __name__,
    "Train by any system, quantize by the relaxation",
    "beyond the papers; the open end of section 6 of Bartan and Pilanci",
    version=2,
)
