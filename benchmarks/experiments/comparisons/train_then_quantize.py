"""Train by any system, quantize by the semidefinite program: what is lost, and what it costs.

Each classifier and regressor of `qsdp.baselines` at its own defaults, but for one hidden layer of 20 units where it has
any; then `distill`, which matches every layer by a network of binary weights on the training rows. Beside them linear
models (logistic regression, least squares), whose scores are matched the same way, the relaxation's own network
(`QuantizedNetworkClassifierCV` and its regressor at the same number of neurons, beta chosen by cross-validation), and
for backpropagation and ReLU networks the weights rounded to signs, with a scale a neuron (and outputs matched on the
training rows for ReLU). Five splits of 25 %, stratified for classes; inputs and real targets standardised. Planted data
are 400 samples of 20 Gaussian columns, other ones in every split. Regressors are measured by R².
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score

import qsdp
import qsdp.baselines as baselines
from benchmarks.experiments._common import Records, by, experiment_in, grid, over_sets, timed, where
from benchmarks.experiments._data import quarter
from benchmarks.experiments._methods import outputs_of
from qsdp.bench import Claim, paired_claim
from qsdp.datasets import load_bundled, make_planted

CLASSES = ("iris", "wine", "breast-cancer-wisconsin")
TARGETS = ("diabetes", "planted")
HIDDEN, SPLITS = 20, 10
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
LINEAR, BINARY = "linear model", ("straight-through", "relaxation")
ROUNDED = ("backpropagation", "ReLU")
VARIANTS = {"sampled 500": (500, "none"), "sampled 5000": (5000, "none"), "polished 500": (500, "polish")}
JUDGED = "polished 500"

#: What quantizing may lose for a system to keep its accuracy: points of accuracy, hundredths of R².
MARGIN = 0.02
SOURCE = "beyond the papers"
#: By the kind of the sets: their names, what is measured on them, and systems.
KINDS = {"classes": (CLASSES, "accuracy", tuple(SYSTEMS)), "real targets": (TARGETS, "R²", REGRESSORS)}


def keeps(kind: str) -> tuple[str, str]:
    """Return the claim that quantizing loses little."""
    words = f"networks keep their test {KINDS[kind][1]} within {100 * MARGIN:g} points, in the mean over systems"
    return SOURCE, f"{kind}: trained by any system and quantized by the relaxation ({JUDGED} a layer), {words}."


def beats(kind: str, system: str) -> tuple[str, str]:
    """Return the claim that the relaxation loses less than rounding."""
    words = f"quantized by the relaxation ({JUDGED}) have a higher test {KINDS[kind][1]} than rounded to signs"
    return SOURCE, f"{kind}: networks trained by {system} and {words}."


def from_labels(kind: str) -> tuple[str, str]:
    """Return the claim that the relaxation's own network needs no other training before."""
    words = f"has a higher test {KINDS[kind][1]} than trained networks quantized by it, in the mean over systems"
    return SOURCE, f"{kind}: the relaxation's own network, of 500 neurons, {words}."


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(system="BPLS", set="iris", split=0) + grid(system="backpropagation", set="diabetes", split=0)
    return [
        case
        for sets, _, systems in KINDS.values()
        for case in grid(system=(*systems, LINEAR, *BINARY), set=sets, split=range(SPLITS))
    ]


def model_of(name: str, seed: int, *, regression: bool) -> Any:
    if name == LINEAR:
        return LinearRegression() if regression else LogisticRegression(max_iter=1000)
    if name == "straight-through":
        made = baselines.StraightThroughRegressor if regression else baselines.StraightThroughClassifier
        return made(500, random_state=seed)
    if name == "relaxation":
        own = qsdp.QuantizedNetworkRegressorCV if regression else qsdp.QuantizedNetworkClassifierCV
        return own(500, refine="polish", activation=None, encoding="none", random_state=seed)
    system, options = SYSTEMS[name]
    system = system.replace("Classifier", "Regressor") if regression else system
    return getattr(baselines, system)(random_state=seed, **options)


def split_of(name: str, split: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ``X, X_test, y, y_test``, standardised by the training rows."""
    X, y = make_planted(400, 20, n_neurons=10, random_state=split) if name == "planted" else load_bundled(name)
    regression = name in TARGETS
    return quarter(X, y if regression else np.unique(y, return_inverse=True)[1], split, classes=not regression)


def run(case: dict[str, Any]) -> dict[str, Any]:
    X, X_test, y, y_test = split_of(case["set"], case["split"])
    regression = case["set"] in TARGETS
    score = explained if regression else right
    model = model_of(case["system"], case["split"], regression=regression)
    _, seconds = timed(lambda: model.fit(X, y), time.perf_counter)
    found: dict[str, Any] = {"fit_seconds": seconds, "test": float(model.score(X_test, y_test))}
    if case["system"] in BINARY:
        found["bits"] = model.network_.n_bits
        return found
    if case["system"] in ROUNDED:
        found["rounded"] = {"test": score(rounded(model, X)(X_test), y_test)}
    linear = case["system"] == LINEAR
    distill = partial(qsdp.distill, model) if linear else model.distill
    for name, (m, refine) in VARIANTS.items():
        chain, seconds = timed(partial(distill, X, m, tol=1e-4, refine=refine, random_state=0), time.perf_counter)
        found[name] = {
            "seconds": seconds,
            "bits": chain.network.n_bits if linear else chain.n_bits,
            "test": score(chain.predict(X_test), y_test),
            "errors": [match.relative_error for match in ((chain,) if linear else chain.matches)],
        }
    return found


def rounded(model: Any, X: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the predictions of the model's own neurons, their weights rounded to signs.

    Polynomial networks have the scale that brings their matrix nearest; those of ReLUs are matched on data.
    """
    polynomial = hasattr(model, "network_inputs")
    return outputs_of(model, model.quantized() if polynomial else model.quantized(X=X))


def explained(outputs: np.ndarray, y: np.ndarray) -> float:
    return float(r2_score(y, np.ravel(outputs)))


def right(outputs: np.ndarray, y: np.ndarray) -> float:
    several = outputs.ndim == 2 and outputs.shape[1] > 1
    decided = outputs.argmax(axis=1) if several else np.ravel(outputs) > 0.0
    return float(np.mean(decided == y))


def claims(records: Records) -> list[Claim]:
    """Compare networks before and after, those of the relaxation with rounded ones, and with its own of the labels."""
    found = []
    for kind, (sets, _, systems) in KINDS.items():
        here = where(records, set=sets)
        after, before, own = (
            mean_over(here, of, name) for of, name in ((systems, JUDGED), (systems, None), (("relaxation",), None))
        )
        found.append(paired_claim(*keeps(kind), after, before, names=("quantized", "trained"), margin=-MARGIN))
        for system in ROUNDED:
            ours, theirs = (mean_over(here, (system,), name) for name in (JUDGED, "rounded"))
            found.append(paired_claim(*beats(kind, system), ours, theirs, names=("relaxation", "rounded")))
        found.append(paired_claim(*from_labels(kind), own, after, names=("relaxation", "trained, then quantized")))
    return found


def mean_over(records: Records, systems: Sequence[str], network: str | None) -> dict[int, float]:
    """Return test scores by split, in the mean over systems and sets, of the splits where all are measured.

    `network` is a variant, "rounded", or None for the network as trained.
    """
    sets = {record.case["set"] for record in records}
    wanted = [(system, name) for system in systems for name in sets]
    what = f"{network}/test" if network else "test"
    found = by(where(records, system=tuple(systems)), what, "system", "set", "split")
    return over_sets({((system, name), split): score for (system, name, split), score in found.items()}, wanted)


EXPERIMENT = experiment_in(
    __name__,
    "Train by any system, quantize by the relaxation",
    "beyond the papers; the open end of section 6 of Bartan and Pilanci",
    version=2,
)
