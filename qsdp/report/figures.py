"""Key figures of a network and its certificate, each with a label, a value and a note, for terminals and pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from qsdp._utils.summary import format_percent
from qsdp.activations import activation_name
from qsdp.certificates import Certificate
from qsdp.losses import get_loss
from qsdp.networks import BilinearNetwork
from qsdp.networks.weights import FLOAT_BITS

__all__ = [
    "WITHOUT_PERCENT",
    "Figure",
    "certificate_figures",
    "network_fact",
    "show_measure",
    "show_score",
    "size_figures",
    "stored_sizes",
]

#: Measures of predictions that are not shown as percentages.
WITHOUT_PERCENT = frozenset({"AUC", "R²"})

Figure = tuple[str, str, str]


def certificate_figures(certificate: Certificate, *, standardised: bool) -> list[Figure]:
    """Return the figures of a certificate: objective, lower bound and gap, maybe for standardised targets."""
    units = ", for the standardised target" if standardised else ""
    return [
        ("lower bound", f"{certificate.lower_bound:.6g}", "on the global optimum, over networks of any width"),
        ("objective", f"{certificate.objective:.6g}", f"of this network{units}"),
        ("gap", f"{certificate.gap:.4g}", "upper bound on objective minus global optimum"),
        ("relative gap", format_percent(certificate.relative_gap), _proven(certificate)),
    ]


def _proven(certificate: Certificate) -> str:
    if certificate.proven_optimal:
        return f"globally optimal to relative gap {certificate.relative_gap:.2g}"
    return "the same as a share of the objective"


def show_measure(measure: str, value: float) -> str:
    """Format a score of predictions: as a percentage, unless it is AUC or R²."""
    return f"{value:.3f}" if measure in WITHOUT_PERCENT else format_percent(value)


def show_score(score: float, *, number: bool) -> str:
    """Format an R² (if the target is a number) or an accuracy."""
    return show_measure("R²" if number else "accuracy", score)


def size_figures(network: BilinearNetwork) -> list[Figure]:
    """Return the bits of a network and of equivalent forms."""
    sizes = stored_sizes(network)
    return [("" if k else "size", f"{bits:,} bits", f"as {what}") for k, (what, bits) in enumerate(sizes)]


def stored_sizes(network: BilinearNetwork) -> list[tuple[str, int]]:
    """Return the names of a network and its equivalent forms, with the number of bits of each."""
    if network.blocks is not None:
        return [(_parts_of(network), network.n_bits)]
    D = network.U.shape[1]
    form = (
        ("a quadratic form of integers", network.to_integer_form().n_bits)
        if network.shared_alpha
        else ("a quadratic form of real numbers", FLOAT_BITS * network.n_outputs * (D * (D + 1) // 2))
    )
    return [(f"{network.n_neurons:,} neurons", network.n_bits), form]


def _parts_of(network: BilinearNetwork) -> str:
    """Return the numbers of neurons and of real weights that are not zero, unless there are none."""
    weights = np.count_nonzero(network.column_weights)
    if not network.n_neurons and weights:
        return f"{weights:,} real weights"
    return f"{network.n_neurons:,} neurons" + (f" and {weights:,} real weights" if weights else "")


def network_fact(model: Any) -> tuple[str, str]:
    """Return size, activation and weights of the network of an estimator, and the loss and beta of its problem."""
    network: BilinearNetwork = model.network_
    weights = "binary weights" if network.levels == 2 else f"{network.levels} levels"
    neurons = [activation_name(network.activation), weights] if network.n_neurons else []
    parts = [_parts_of(network), *neurons]
    parts += [f"{C} outputs" for C in network.output_shape]
    return "network", ", ".join([*parts, f"{get_loss(model._loss).name} loss", f"beta {model._trained_beta:g}"])
