"""Networks trained by gradients, quantized in every way, beside the SDP based ones: accuracy, bits, search time.

UCI sets, ten splits of 80 % and 20 %, standardised, squared loss, 250 neurons everywhere, networks with a constant
column. Every system chooses learning rate and beta (beta alone where there is no rate) on a fourth of the training part
that it is not fitted to, and is then fitted to the whole; test rows are only predicted. What is rounded chooses them by
the accuracy of the rounded network. Grids start around each system's best on other data, and extend themselves where
the choice lies at an edge; the relaxation's, too. Gradients are 32-bit, in batches of 64, for as many epochs as samples
held out of the fit improve, 300 at most. Straight-through training begins with trained real weights.

"fixed" is bilinear with the second layer at 1/m, as in the paper; "free" trains it; "straight-through" trains signs (or
three levels) themselves, with a float a neuron or one in all ("shared"); "polynomial" has one weight vector a neuron
and the paper's activation of degree two, near ReLU; "ReLU" has real biases. After training: "one scale" is section 5.1
with the right ratio, "scales" has one a neuron, "calibrated" has factor and intercept of the outputs matched on the
training rows besides, "refitted" chooses the second layer anew by the labels, "SDP" matches the network's outputs by a
network of the relaxation, sampled or polished. The relaxation's own networks see the labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import (
    PAPER,
    Records,
    accuracy,
    by,
    experiment_in,
    gained,
    grid,
    grouped,
    kilobits,
    over_sets,
    table_row,
    timed,
    unfolded,
    values,
    where,
)
from benchmarks.experiments._data import standardised
from benchmarks.experiments._methods import fits, fourth, outputs_of, scorers
from qsdp.bench import Claim, Record, paired_claim
from qsdp.bench._grid import BUDGET, chosen_by

SETS = ("breast-cancer", "ionosphere", "credit-approval", "heart", "pima", "vehicle")
SPLITS, M, EPOCHS, BATCH = 10, 250, BUDGET.n_epochs, 64
BETAS = (100.0, 10.0, 1.0)
POLYNOMIAL = ("polynomial", "polynomial straight-through")
SYSTEMS = ("fixed", "free", "straight-through", "shared", "three levels", *POLYNOMIAL, "ReLU", "relaxation")
#: Weight decay of real ReLU weights is no price of binary ones.
RELU_BETAS = (10.0, 1.0, 0.1)
#: Rates of SGD; of Adam for the straight-through estimator.
RATES, RELU_RATES = (0.1, 0.03, 0.01, 0.3), (0.5, 0.15, 0.05, 1.5)
REFINEMENTS = {"sampled": "none", "polished": "polish", "refitted": "refit"}
#: The name of each network in tables.
FLOAT = ("fixed", "free", "polynomial", "ReLU")


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        systems = ("fixed", "straight-through", "ReLU", "relaxation")
        return grid(set="breast-cancer", split=0, system=systems, m=30, epochs=4)
    return grid(split=range(SPLITS), set=SETS, system=SYSTEMS, m=M, epochs=EPOCHS)


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Search, fit, quantize; return accuracies of every network with what it took."""
    X, X_test, y, y_test = standardised(case["set"], case["split"])
    found = (relaxation if case["system"] == "relaxation" else trained)(case, X, y)
    networks = found.pop("networks")
    return {
        **found,
        "networks": {
            name: {"train": accuracy(predict(X), y), "test": accuracy(predict(X_test), y_test), **figures}
            for name, (predict, figures) in networks.items()
        },
    }


# -- trained by gradients --------------------------------------------------------------------------------


def model_of(case: dict[str, Any]) -> Any:
    from qsdp.baselines import BackpropClassifier, ReLUNetworkClassifier, StraightThroughClassifier

    common = {**BUDGET.training, "n_epochs": case["epochs"]}
    common |= {"batch_size": BATCH, "random_state": case["split"], "dtype": "float32"}
    latent = {"start": "float", "start_epochs": min(50, case["epochs"])}
    kinds: dict[str, Callable[..., Any]] = {
        "fixed": lambda **options: BackpropClassifier(case["m"], second_layer="fixed", **options),
        "free": lambda **options: BackpropClassifier(case["m"], **options),
        "straight-through": lambda **options: StraightThroughClassifier(case["m"], **latent, **options),
        "shared": lambda **options: StraightThroughClassifier(case["m"], second_layer="shared", **latent, **options),
        "three levels": lambda **options: StraightThroughClassifier(case["m"], levels=3, **latent, **options),
        "polynomial": lambda **options: BackpropClassifier(case["m"], activation="relu_like", **options),
        "polynomial straight-through": lambda **options: StraightThroughClassifier(
            case["m"], activation="relu_like", **latent, **options
        ),
        "ReLU": lambda **options: ReLUNetworkClassifier(case["m"], **options),
    }
    return kinds[case["system"]](**common)


def roundings(system: str, X: np.ndarray) -> dict[str, Callable[[Any], Any]]:
    """Return what is made of a trained network without labels; X are the training rows."""
    if system == "fixed":
        return {
            "fixed, one scale": lambda model: model.quantized(scale="shared"),
            "fixed, scales": lambda model: model.quantized(scale="neuron"),
        }
    if system == "free":
        return {
            "free, scales": lambda model: model.quantized(scale="neuron"),
            "free, scales, 4 levels": lambda model: model.quantized(4, scale="neuron"),
        }
    if system == "polynomial":
        return {
            "polynomial, one scale": lambda model: model.quantized(scale="layer"),
            "polynomial, one scale, 4 levels": lambda model: model.quantized(4, scale="layer"),
        }
    if system == "ReLU":
        return {
            "ReLU, scales": lambda model: model.quantized(scale="neuron"),
            "ReLU, calibrated": lambda model: model.quantized(scale="neuron", X=X),
            "ReLU, calibrated, 4 levels": lambda model: model.quantized(4, scale="neuron", X=X),
        }
    return {}


def grid_of(system: str) -> dict[str, list[float]]:
    """Return the candidates; of equal ones the first is taken, so those of the larger beta come first."""
    if system == "relaxation":
        return {"beta": list(BETAS)}
    betas, rates = (RELU_BETAS, RELU_RATES) if system == "ReLU" else (BETAS, RATES)
    return {"beta": list(betas), "learning_rate": list(rates)}


def trained(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    # PyTorch loads parts of itself with the first optimiser.
    model_of({**case, "epochs": 1, "m": 2}).fit(X[:8], np.tile([0, 1], 4))

    system = case["system"]
    makes = roundings(system, X)

    measures = {"itself": itself, **scorers(makes, accuracy)}
    choices, searching = timed(
        lambda: chosen_by(measures, model_of(case), grid_of(system), X, y, fourth(y, case["split"]))
    )
    fitted = fits(model_of(case), X, y)

    def chosen_for(measure: str) -> tuple[Any, float]:
        return fitted(choices[measure].best)

    model, seconds = chosen_for("itself")
    networks: dict[str, Any] = {}
    if system in FLOAT:
        networks[system] = model.decision_function, {"bits": None, "seconds": seconds}
    else:
        networks[system] = with_bits(model, model.network_, seconds)
    for name, make in makes.items():
        source, fitting = chosen_for(name)
        network, rounding = timed(lambda make=make, source=source: make(source))
        networks[name] = with_bits(source, network, fitting + rounding)
    if system in FLOAT:
        for label, refine in (("SDP", "none"), ("SDP polished", "polish")):
            match, matching = timed(
                lambda refine=refine: qsdp.distill(model, X, case["m"], refine=refine, random_state=case["split"])
            )
            networks[f"{system}, {label}"] = with_bits(None, match.network, seconds + matching)
    if system not in {"ReLU", *POLYNOMIAL}:
        source, fitting = chosen_for(f"{system}, scales") if system in FLOAT else (model, seconds)
        network = source.quantized(scale="neuron") if system in FLOAT else source.network_
        better, refitting = timed(lambda: qsdp.refit(network, source.training_problem(X, y, network)))
        networks[f"{system}, refitted"] = with_bits(source, better, fitting + refitting)
    return {
        "search_seconds": searching,
        "candidates": len(choices["itself"].scores),
        "epoch_seconds": seconds / model.history_.n_epochs,
        "parameters": choices["itself"].best,
        "undecided": {name: choice.undecided for name, choice in choices.items() if choice.undecided},
        "networks": networks,
    }


def with_bits(model: Any, network: Any, seconds: float) -> tuple[Any, dict[str, Any]]:
    return outputs_of(model, network), {"bits": network.n_bits, "seconds": seconds}


def itself(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return accuracy(model.decision_function(X), y)


# -- the relaxation --------------------------------------------------------------------------------------


def relaxation(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return networks of the relaxation of the labels, beta chosen by the same protocol for each refinement."""
    networks, searching, chosen = {}, {}, {}
    measures = {"itself": itself}
    for name, refine in REFINEMENTS.items():
        options = {"activation": None, "encoding": "none", "tol": 1e-6, "allocation": "equal"}
        plain = qsdp.QuantizedNetworkClassifier(case["m"], refine=refine, random_state=case["split"], **options)
        found, searching[name] = timed(
            lambda plain=plain: chosen_by(measures, plain, grid_of("relaxation"), X, y, fourth(y, case["split"]))
        )
        chosen[name] = found["itself"]
        model, seconds = timed(lambda plain=plain, name=name: plain.set_params(**chosen[name].best).fit(X, y))
        networks[f"relaxation, {name}"] = (
            model.decision_function,
            {
                "bits": model.network_.n_bits,
                "seconds": seconds,
                "gap": model.certificate_.relative_gap,
                "search": searching[name],
            },
        )
    return {
        "search_seconds": searching["sampled"],
        "candidates": len(chosen["sampled"].scores),
        "parameters": {name: choice.best for name, choice in chosen.items()},
        "undecided": {name: choice.undecided for name, choice in chosen.items() if choice.undecided},
        "networks": networks,
    }


# -- report ----------------------------------------------------------------------------------------------


def networks(records: Records) -> list[Record]:
    """Return a record for each network; "search" is that of its system, unless it has one of its own."""
    return [
        replace(record, measured={"search": record.measured["search_seconds"], **record.measured})
        for record in unfolded(records, "networks", "network", shared=("search_seconds",))
    ]


TODAY, COSTS = "Beyond the paper: today's practice", "Rounding after training costs accuracy"
#: Source, statement, the network that is to be more accurate in test, and the other one.
QUESTIONS = (
    (
        f"{PAPER}, sections 5.2 and 6",
        "Networks of the relaxation are significantly more accurate on test data than those quantized after training "
        "by backpropagation.",
        "relaxation, sampled",
        "fixed, one scale",
    ),
    (
        f"{PAPER}, section 6, against a fairer peer",
        "The same with a scale for every neuron in the rounded network.",
        "relaxation, sampled",
        "free, scales",
    ),
    (
        f"{PAPER}, section D.1",
        "The relaxation's networks outperform a ReLU network with a rounded first layer.",
        "relaxation, sampled",
        "ReLU, scales",
    ),
    (
        TODAY,
        "The relaxation's polished networks are more accurate than those trained by the straight-through estimator "
        "with as many bits.",
        "relaxation, polished",
        "shared",
    ),
    (
        TODAY,
        "A network trained by backpropagation, then quantized by the relaxation and polished, is more accurate than "
        "one trained by the straight-through estimator with as many bits.",
        "free, SDP polished",
        "shared",
    ),
    (
        f"{PAPER}, section 6 (open end)",
        "A network trained by backpropagation is quantized better by the semidefinite program than by rounding.",
        "fixed, SDP polished",
        "fixed, one scale",
    ),
    (f"{PAPER}, section 5.2", f"{COSTS} (backpropagation, one scale).", "fixed", "fixed, one scale"),
    (f"{PAPER}, section 5.2", f"{COSTS} (polynomial activation, one scale).", "polynomial", "polynomial, one scale"),
    (f"{PAPER}, section D.1", f"{COSTS} (ReLU, scales).", "ReLU", "ReLU, scales"),
)


def claims(records: Records) -> list[Claim]:
    """Compare networks of equal numbers of neurons by their mean test accuracies over the sets, split by split."""
    made = []
    for source, statement, *names in QUESTIONS:
        ours, theirs = (
            over_sets(by(where(networks(records), network=name), "test", "set", "split"), SETS) for name in names
        )
        claim = paired_claim(source, statement, ours, theirs, names=(names[0], names[1]))
        if statement.startswith("Rounding"):
            claim = replace(claim, group=COSTS, case=names[0])
        made.append(claim)
    return made


def system_of(name: str) -> str:
    """Return the system that a network was made from."""
    return name.split(",")[0]


def quotes(records: Records) -> dict[str, str]:
    """Return vehicle for README: networks of the relaxation beside straight-through training."""
    own = grouped(where(networks(records), set="vehicle"), "network")
    names = {
        "relaxation, polished": "polished",
        "straight-through": f"trained straight-through ({EPOCHS} epochs at most, from trained weights)",
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
    "Trained by gradients, then quantized: UCI sets under one protocol",
    f"{PAPER}, sections 5.2, 6 and D.1",
    version=3,
)
