"""Scores of a model as exact functions of its inputs: products of linear functions, and the forms they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray, IntArray, check_choice
from qsdp.exceptions import ExportError
from qsdp.export._description import ModelDescription
from qsdp.networks import BilinearNetwork, IntegerForm, QuadraticForm
from qsdp.networks.compact import integer_weights
from qsdp.networks.quadratic_form import form_of_neurons

__all__ = ["ExactNetwork", "check_layout", "exact_network", "form_of_blocks"]

_LAYOUTS = ("neurons", "form")


@dataclass(frozen=True, eq=False)
class ExactNetwork:
    r"""Scores :math:`\sum_j A_{jk} (w_j^T z)(w_j'^T z) + B_k` of the inputs and constants z = (x, tail).

    Attributes
    ----------
    left, right : ndarray of shape (m, d + t)
        w and w'.
    alpha : ndarray of shape (m, C)
    rest : ndarray of shape (C,)
        Constants B.
    tail : tuple of float
        The constant of the encoding, if it is not one of the inputs, and :math:`\kappa` of the activation.
    is_product : bool
        Whether these are the neurons. An integer form or an activation without a square has only the quadratic form.
    """

    left: IntArray
    right: IntArray
    alpha: FloatArray
    rest: FloatArray
    tail: tuple[float, ...]
    is_product: bool = True

    @property
    def n_inputs(self) -> int:
        """Number of inputs d."""
        return int(self.left.shape[1]) - len(self.tail)

    @property
    def is_square(self) -> bool:
        """Whether both functions of every product are the same."""
        return np.array_equal(self.left, self.right)

    @property
    def faster_layout(self) -> str:
        """Of "neurons" and "form", the one that takes fewer multiplications per sample."""
        (m, D), C = self.left.shape, self.alpha.shape[1]
        return "neurons" if self.is_product and m * ((1 if self.is_square else 2) * D + C) < C * D**2 else "form"

    @cached_property
    def units(self) -> FloatArray:
        """Smallest second-layer weights of the outputs (C,) if the others are multiples of them, else ones."""
        sizes = np.abs(self.alpha)
        smallest = np.where(sizes > 0.0, sizes, np.inf).min(axis=0)
        smallest = np.where(np.isfinite(smallest), smallest, 1.0)
        ratios = sizes / smallest
        whole = np.all(np.abs(ratios - np.rint(ratios)) <= 2.0 * EPS * ratios, axis=0)
        return np.where(whole, smallest, 1.0)

    @cached_property
    def matrices(self) -> FloatArray:
        """Symmetric matrices S of z' S z, in `units` and without `rest`, of shape (C, d + t, d + t).

        Their entries are integers and halves where all weights of an output are multiples of its unit.
        """
        whole = self.alpha / self.units
        weights = np.where(self.units == 1.0, self.alpha, np.rint(whole))
        return form_of_neurons(self.left, self.right, weights)

    @property
    def form(self) -> QuadraticForm:
        """Scores as a quadratic form of the inputs, without constants among them."""
        d, tail = self.n_inputs, np.array(self.tail)
        S = self.units[:, None, None] * self.matrices
        return QuadraticForm(
            S[:, :d, :d], 2.0 * S[:, :d, d:] @ tail, self.rest + np.einsum("cij,i,j->c", S[:, d:, d:], tail, tail)
        )


def _has_neurons(network: Any) -> bool:
    """Whether neurons can be evaluated: the network has some, and the activation has a quadratic term."""
    if isinstance(network, IntegerForm):
        return False
    activation = network.activation
    return activation is None or bool(activation.coefficients[0])


def check_layout(network: Any, layout: str) -> list[str]:
    """Return the layouts that a network can have among those that `layout`, "auto" or one, requests, neurons first."""
    check_choice("layout", layout, ["auto", *_LAYOUTS])
    allowed = [name for name in _LAYOUTS[not _has_neurons(network) :] if layout in {"auto", name}]
    if not allowed:
        raise ExportError("layout must be 'form' for an integer form or an activation without a square; got 'neurons'")
    return allowed


def exact_network(description: ModelDescription, order: npt.NDArray[Any] | None = None) -> ExactNetwork:
    r"""Write a network as products of two linear functions by completing the square of its activation.

    .. math:: a p q + \tfrac b2 (t p + s q) + c s t = a (p + \kappa s)(q + \kappa t) + (c - a \kappa^2) s t,
        \qquad \kappa = b / 2a

    The inputs are those of the encoding or, with `order`, the network's inputs in this order.
    """
    network, offset, factor = description.network, description.offset, description.factor
    tail: tuple[float, ...] = () if order is not None or description.constant is None else (description.constant,)
    order = np.arange(network.n_inputs) if order is None else order
    a, b, c = network.activation.coefficients if network.activation else (1.0, 0.0, 0.0)
    kappa = b / (2.0 * a) if a else 1.0
    tail += (kappa,) if kappa else ()
    if isinstance(network, IntegerForm):
        return _exact_form(network, order, offset, factor)
    alpha = network.output_weights
    s = t = np.ones((network.n_neurons, 1), dtype=np.int64)
    if isinstance(network, BilinearNetwork):
        left, right, bias = network.U.astype(np.int64), network.V.astype(np.int64), np.zeros(alpha.shape[1])
        if network.lifted:
            s, t = left[:, -1:], right[:, -1:]
        left, right = left[:, order], right[:, order]
    else:
        left = right = network.Q.astype(np.int64)[:, order]
        bias = network.bias.reshape(network.n_outputs)
    rest = offset + factor * ((c - a * kappa**2) * (s * t * alpha).sum(axis=0) + bias)
    if a == 0.0:
        # Only the linear part b/2 (t p + s q) is left. The weight takes the 1/2, so the symmetric form has integers.
        zeros = np.zeros_like(s)
        left, right = np.hstack([t * left + s * right, zeros]), np.hstack([0 * right, zeros + 1])
        return ExactNetwork(left, right, factor * (0.5 * b) * alpha, rest, tail, is_product=False)
    if kappa:
        left, right = np.hstack([left, s]), np.hstack([right, t])
    return ExactNetwork(left, right, factor * a * alpha, rest, tail)


def _exact_form(form: IntegerForm, order: npt.NDArray[Any], offset: FloatArray, factor: FloatArray) -> ExactNetwork:
    """Write a quadratic form as neurons: one side selects an input, and the other is that input's row."""
    a, b, c = form.activation.coefficients if form.activation else (1.0, 0.0, 0.0)
    lifted = form.activation is not None and form.activation.lifted
    at = np.append(order, form.n_inputs) if lifted else order
    matrices = form.matrices[0][:, at][:, :, at]
    common = np.maximum(np.gcd.reduce(matrices, axis=(1, 2)), 1)
    matrices = matrices // common[:, None, None]
    kappa = b / (2.0 * a) if a else 1.0
    scales = factor * form.scales * common
    rest = offset + scales * (c - a * kappa**2) * matrices[:, -1, -1] if lifted else offset
    tail = (kappa,) if lifted and kappa else ()
    if lifted and not kappa:
        matrices = matrices[:, :-1, :-1]
    C, _, D = matrices.shape
    served = np.eye(C, dtype=np.int64)
    if a == 0.0:
        last = np.eye(D, dtype=np.int64)[-1:]
        # The left side is doubled and the weight halved, so that the symmetric form has integers.
        left, right, alpha = 2 * matrices[:, -1] * (1 - last), np.repeat(last, C, axis=0), 0.5 * b * scales * served
        return ExactNetwork(left, right, alpha, rest, tail, is_product=False)
    left, right = np.tile(np.eye(D, dtype=np.int64), (C, 1)), matrices.reshape(C * D, D)
    return ExactNetwork(left, right, np.repeat(a * scales * served, D, axis=0), rest, tail, is_product=False)


def form_of_blocks(network: BilinearNetwork | IntegerForm) -> tuple[FloatArray, FloatArray]:
    """Return coefficients (C, P) of the sums of products of blocks, in integers where possible, and units (C,)."""
    if isinstance(network, IntegerForm):
        return (network.integers * network.layout.counts).astype(np.float64), network.scales
    factored = integer_weights(network.output_weights)
    if factored is None:
        return network.entries, np.ones(network.n_outputs)
    weights, units = factored
    return np.rint(network.with_neurons(network.U, network.V, weights).entries), units
