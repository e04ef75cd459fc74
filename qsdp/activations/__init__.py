"""Activations: polynomials of degree two, for which bounds and certificates hold, and activations of other layers."""

from __future__ import annotations

from qsdp.activations.layers import (
    DIFFERENTIABLE,
    ELU,
    INVERTIBLE,
    Activation,
    Identity,
    InvertibleActivation,
    LeakyReLU,
    ReLU,
    Sigmoid,
    Softmax,
    Softplus,
    Tanh,
    get_differentiable,
    get_invertible,
    relu,
)
from qsdp.activations.polynomial import ACTIVATIONS, BILINEAR, PolynomialActivation, activation_name, get_activation

__all__ = [
    "ACTIVATIONS",
    "BILINEAR",
    "DIFFERENTIABLE",
    "ELU",
    "INVERTIBLE",
    "Activation",
    "Identity",
    "InvertibleActivation",
    "LeakyReLU",
    "PolynomialActivation",
    "ReLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "activation_name",
    "get_activation",
    "get_differentiable",
    "get_invertible",
    "relu",
]
