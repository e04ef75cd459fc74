"""Networks trained by gradients, quantized, beside those of the relaxation: accuracy, bits, and objectives.

UCI sets, ten splits of 80 % and 20 %, standardised, squared loss, bilinear networks of 250 neurons with a constant
column. Of "accuracy" every system chooses learning rate and beta (beta alone where there is no rate) as `_trained.py`
says, the relaxation, too; test rows are only predicted. "backprop" has the second layer at 1/m, as in the paper, or
trains it ("free"); "straight-through" trains signs themselves, with a float a neuron or one in all ("one scale");
"polynomial" has one weight vector a neuron and the paper's activation of degree two, near ReLU; "ReLU" has real biases.
After training: "signs" is section 5.1 with the right ratio, one scale in all if the second layer is fixed, one of the
layer of polynomials, otherwise one a neuron; "refitted" chooses the second layer anew by the labels; "SDP polished"
matches the network's outputs by a polished network of the relaxation. The relaxation's own networks see the labels.

Of "objective" beta is 10 and nothing is held out, as nothing is predicted: measured is the objective (24) of networks
over the relaxation's lower bound on all. Of three learning rates, 60 epochs each, every network trained by gradients
has the one of its own least objective.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import (
    PAPER,
    Records,
    by,
    experiment_in,
    gained,
    geometric,
    grid,
    grouped,
    kilobits,
    medians,
    over_sets,
    table_row,
    unfolded,
    values,
    where,
)
from benchmarks.experiments._data import standardised, targets_of, with_constant
from benchmarks.experiments._methods import Predict, outputs_of
from benchmarks.experiments.comparisons import _trained as gradients
from qsdp.bench import Claim, Record, paired_claim

SETS = ("breast-cancer", "ionosphere", "credit-approval", "heart", "pima", "vehicle")
SPLITS, M = 10, 250
ONE = "straight-through, one scale"
SYSTEMS = ("backprop", "backprop, free", "straight-through", ONE, "polynomial", "ReLU", "relaxation")
REFINEMENTS = {"sampled": "none", "polished": "polish"}
#: Of objectives.
TRAINED, BETA, RATES = ("relaxation", "backprop", ONE), 10.0, (0.3, 0.1, 0.03)


def cases(quick: bool) -> list[dict[str, Any]]:
    sets, splits, m = (SETS[:1], 1, 30) if quick else (SETS, SPLITS, M)
    systems = ("backprop", "straight-through", "ReLU", "relaxation") if quick else SYSTEMS
    common = {"set": sets, "m": m}
    return [
        *grid(kind="accuracy", split=range(splits), system=systems, epochs=4 if quick else gradients.EPOCHS, **common),
        *grid(kind="objective", split=range(splits), system=TRAINED, epochs=10 if quick else 60, **common),
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    split = standardised(case["set"], case["split"])
    X, _, y, _ = split
    if case["kind"] == "accuracy":
        networks = (relaxed if case["system"] == "relaxation" else trained)(case, X, y)
        return {"networks": gradients.scored(networks, split)}
    problem = qsdp.TrainingProblem(*with_constant(X), targets_of(y), beta=BETA)
    relaxation = qsdp.solve_relaxation(problem)
    ratios: dict[str, float] = {}
    for name, network in of_problem(case, problem, relaxation):
        ratios[name] = min(ratios.get(name, np.inf), problem.objective(network) / relaxation.lower_bound)
    return {"networks": {name: {"over bound": ratio} for name, ratio in ratios.items()}}


def trained(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> gradients.Networks:
    system, m, seed = case["system"], case["m"], case["split"]

    def refitted(model: Any) -> tuple[Predict, Any]:
        network = qsdp.refit(model.network_, model.training_problem(X, y, model.network_))
        return outputs_of(model, network), network

    later: dict[str, gradients.Make] = {}
    if system in {"backprop", "backprop, free"}:
        later[f"{system}, SDP polished"] = partial(gradients.matched, X=X, m=m, seed=seed, refine="polish")
    if system == "straight-through":
        later[f"{system}, refitted"] = refitted
    # PyTorch loads parts of itself with the first optimiser.
    gradients.model_of(system, 2, seed, 1).fit(X[:8], np.tile([0, 1], 4))
    makes = {system: gradients.itself, **gradients.rounded(system)}
    model, candidates = gradients.model_of(system, m, seed, case["epochs"]), gradients.grid_of(system, 4)
    return gradients.chosen(model, candidates, makes, X, y, seed, later=later)[1]


def relaxed(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> gradients.Networks:
    """Return networks of the relaxation of the labels."""
    found: gradients.Networks = {}
    for name, refine in REFINEMENTS.items():
        options = {"activation": None, "encoding": "none", "tol": 1e-6, "allocation": "equal"}
        model = qsdp.QuantizedNetworkClassifier(case["m"], refine=refine, random_state=case["split"], **options)
        makes = {f"relaxation, {name}": gradients.itself}
        found |= gradients.chosen(model, {"beta": gradients.BETAS}, makes, X, y, case["split"])[1]
    return found


def of_problem(
    case: dict[str, Any], problem: qsdp.TrainingProblem, relaxation: qsdp.Relaxation
) -> Iterator[tuple[str, Any]]:
    """Yield networks of a training problem, those by gradients at each learning rate."""
    from qsdp.baselines import BackpropRegressor, StraightThroughRegressor

    m, seed = case["m"], case["split"]
    if case["system"] == "relaxation":
        sampled = qsdp.sample_network(qsdp.shape_covariance(relaxation), m, random_state=seed)
        yield "sampled", sampled
        yield "polished", qsdp.polish(sampled, problem, random_state=seed)
        return
    common = {"beta": BETA, "constant_column": False, "batch_size": 64, "n_epochs": case["epochs"]}
    for rate in RATES:
        options = {**common, "learning_rate": rate, "random_state": seed}
        if case["system"] == "backprop":
            model = BackpropRegressor(m, second_layer="fixed", **options).fit(problem.X, problem.y)
            yield "rounded", model.quantized(scale="shared")
        else:
            model = StraightThroughRegressor(m, second_layer="shared", **options).fit(problem.X, problem.y)
            yield "straight-through", model.network_


# -- report ----------------------------------------------------------------------------------------------


def networks(records: Records) -> list[Record]:
    return unfolded(records, "networks", "network")


TODAY, COSTS = "Beyond the paper: today's practice", "Rounding after training costs accuracy"
#: Source, the network that is said to be more accurate in test, and the other one.
QUESTIONS = (
    (f"{PAPER}, sections 5.2 and 6", "relaxation, sampled", "backprop, signs"),
    (f"{PAPER}, section 6, against a fairer peer", "relaxation, sampled", "backprop, free, signs"),
    (f"{PAPER}, section D.1", "relaxation, sampled", "ReLU, signs"),
    (f"{PAPER}, section 6 (open end)", "backprop, SDP polished", "backprop, signs"),
    (f"{PAPER}, section 5.2", "backprop", "backprop, signs"),
    (f"{PAPER}, section 5.2", "polynomial", "polynomial, signs"),
    (f"{PAPER}, section D.1", "ReLU", "ReLU, signs"),
    (TODAY, "relaxation, polished", ONE),
    (TODAY, "backprop, free, SDP polished", ONE),
)
#: The same of networks of which the first is to have the smaller objective.
OBJECTIVES = (
    (f"{PAPER}, section 5.1, on real data", "sampled", "rounded"),
    (TODAY, "sampled", "straight-through"),
    (TODAY, "polished", "straight-through"),
)


def claims(records: Records) -> list[Claim]:
    """Compare networks of equal numbers of neurons by their means over the sets, split by split."""
    made = []
    for source, *names in QUESTIONS:
        found = (by(where(networks(records), network=name), "test", "set", "split") for name in names)
        statement = "The network '{}' is more accurate on test rows than '{}'.".format(*names)
        claim = paired_claim(source, statement, *(over_sets(one, SETS) for one in found), names=(names[0], names[1]))
        made.append(replace(claim, group=COSTS, case=names[0]) if names[0] in gradients.SCALES else claim)
    how: dict[str, Any] = {"show": lambda ratios: f"{medians(ratios)} of the bound", "less": True, "log": True}
    for source, *names in OBJECTIVES:
        found = (by(where(networks(records), network=name), "over bound", "set", "split") for name in names)
        statement = "Of equal bits, the network '{}' has a smaller objective than '{}'.".format(*names)
        pair = (over_sets(one, SETS, geometric) for one in found)
        made.append(paired_claim(source, statement, *pair, names=(names[0], names[1]), **how))
    return made


def quotes(records: Records) -> dict[str, str]:
    """Return vehicle for README: networks of the relaxation beside straight-through training."""
    own = grouped(where(networks(records), set="vehicle"), "network")
    names = {
        "relaxation, polished": "polished",
        "straight-through": f"trained straight-through ({gradients.EPOCHS} epochs at most, from trained weights)",
        "straight-through, refitted": "that refitted by `qsdp.refit`",
    }
    if not all((name,) in own for name in names):
        return {}
    shown = [
        f"{words} {100 * values(own[name,], 'test').mean():.1f} %, {kilobits(values(own[name,], 'bits').mean())}"
        for name, words in names.items()
    ]
    first, *_, last = (by(own[name,], "test", "split") for name in names)
    claim = paired_claim("", "", first, last, names=("", ""))
    what = f"vehicle, {M} neurons of ±1 weights, test accuracy over {len(first)} splits and bits"
    return {"vehicle": table_row(what, f"{'; '.join(shown)}; the first minus the last: {gained(claim)} points, 95 %")}


EXPERIMENT = experiment_in(
    __name__,
    "Trained by gradients, then quantized: accuracy and objectives of UCI sets under one protocol",
    f"{PAPER}, sections 5, 6 and D.1",
    version=3,
)
