"""Networks as sums of products of two linear functions, in real numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, IntArray, check_choice
from qsdp.exceptions import ExportError
from qsdp.export._description import ModelDescription
from qsdp.networks import BilinearNetwork, BlockForm, BlockNetwork, IntegerForm

__all__ = ["LAYOUTS", "ExactNetwork", "check_layout", "exact_network", "has_neurons"]

LAYOUTS = ("neurons", "form")


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
    def sides(self) -> list[IntArray]:
        """Weights of the two functions, or of the one whose squares the network adds up."""
        return [self.left] if np.array_equal(self.left, self.right) else [self.left, self.right]

    @property
    def shifts(self) -> list[FloatArray]:
        """Constants of the functions of each side, of shape (m,)."""
        return [side[:, self.n_inputs :] @ np.array(self.tail) for side in self.sides]


def has_neurons(network: Any) -> bool:
    """Whether neurons can be evaluated: the network has some, and the activation has a quadratic term."""
    if isinstance(network, (IntegerForm, BlockForm)):
        return False
    activation = None if isinstance(network, BlockNetwork) else network.activation
    return activation is None or bool(activation.coefficients[0])


def check_layout(network: Any, layout: str) -> list[str]:
    """Return the layouts that a network can have among those that `layout`, "auto" or one, requests, neurons first."""
    check_choice("layout", layout, ["auto", *LAYOUTS])
    found = [one for one in LAYOUTS[not has_neurons(network) :] if layout in {"auto", one}]
    if not found:
        raise ExportError("layout must be 'form' for an integer form or an activation without a square; got 'neurons'")
    return found


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
    matrices = form.matrices[:, at][:, :, at]
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
