"""Networks as sums of products of two affine functions, which include the encoding's constants and scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.export._integer_network import exact_network
from qsdp.export._model import ModelDescription
from qsdp.networks import IntegerForm

__all__ = ["AffineProducts", "has_neurons", "products"]


@dataclass(frozen=True, eq=False)
class AffineProducts:
    r"""Scores :math:`\sum_j A_{jk} (w_j^T z)(w_j'^T z) + B_k` of the inputs and constants z = (x, tail).

    Attributes
    ----------
    sides : tuple of ndarray of shape (m, d + t)
        Weights of the two affine functions of each neuron; only one array if they are equal.
    tail : ndarray of shape (t,)
    alpha : ndarray of shape (m, C)
    rest : ndarray of shape (C,)
    """

    sides: tuple[npt.NDArray[Any], ...]
    tail: FloatArray
    alpha: FloatArray
    rest: FloatArray

    @property
    def n_inputs(self) -> int:
        """Number of inputs d."""
        return int(self.sides[0].shape[1]) - len(self.tail)

    @property
    def shifts(self) -> list[FloatArray]:
        """Constants of the affine functions of each side, of shape (m,)."""
        return [side[:, self.n_inputs :] @ self.tail for side in self.sides]


def has_neurons(network: Any) -> bool:
    """Whether neurons can be evaluated: the network has some, and the activation has a quadratic term."""
    if isinstance(network, IntegerForm):
        return False
    return network.activation is None or bool(network.activation.coefficients[0])


def products(description: ModelDescription) -> AffineProducts:
    """Extract the neurons of a model whose network `has_neurons`."""
    network, constant = description.network, description.constant
    exact = exact_network(network, np.arange(network.n_inputs), description.offset, description.factor)
    tail = [*([] if constant is None else [constant]), *([exact.kappa] if exact.kappa else [])]
    sides = (exact.left,) if np.array_equal(exact.left, exact.right) else (exact.left, exact.right)
    return AffineProducts(sides, np.array(tail), exact.alpha, exact.rest)
