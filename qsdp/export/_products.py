"""Networks as sums of products of two affine functions, which include the encoding's constants and scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.export._model import ModelDescription
from qsdp.networks import BilinearNetwork, IntegerForm

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
    r"""Extract the neurons of a model whose network `has_neurons`.

    The square is completed: a p q + b (s q + t p) / 2 + c s t is a (p + kappa s)(q + kappa t) + (c - a kappa^2) s t for
    kappa = b / (2 a), where s and t are the signs of the lift, or ones.
    """
    network = description.network
    assert not isinstance(network, IntegerForm)
    a, b, c = network.activation.coefficients if network.activation else (1.0, 0.0, 0.0)
    kappa = b / (2.0 * a)
    sides = [network.U, network.V] if isinstance(network, BilinearNetwork) else [network.Q]
    lifted = isinstance(network, BilinearNetwork) and network.lifted
    tail = [] if description.constant is None else [description.constant]
    if kappa and not lifted:
        sides = [np.hstack([side, np.ones((len(side), 1), side.dtype)]) for side in sides]
    if kappa or lifted:
        tail.append(kappa)
    signs = [side[:, -1] if lifted else np.ones(len(side)) for side in sides]
    alpha = network.output_weights * description.factor
    rest = description.offset + (c - a * kappa**2) * ((signs[0] * signs[-1]) @ alpha)
    if not isinstance(network, BilinearNetwork):
        rest = rest + description.factor * network.bias
    return AffineProducts(tuple(sides), np.array(tail), a * alpha, rest)
