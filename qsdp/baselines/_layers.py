"""A trained feed-forward network as a chain of quadratic layers, and its quantization layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._validation import FloatArray, check_integer, check_matrix, check_random_state
from qsdp.exceptions import InvalidInputError
from qsdp.quadratic_form import QuadraticForm
from qsdp.quantization import QuantizedMatch, quantize

__all__ = ["QuantizedChain", "TrainedLayer", "quantize_layers"]


@dataclass(frozen=True, eq=False)
class TrainedLayer:
    r"""One layer: :math:`x \mapsto \phi(z(x))` with every :math:`z_k` a quadratic (or affine) function.

    Parameters
    ----------
    form : QuadraticForm
        The pre-activations; `form.predict` has shape (n, C), or (n,) for one output.
    activation : callable or None
        Elementwise function of the pre-activations; None is the identity.
    """

    form: QuadraticForm
    activation: Callable[[FloatArray], FloatArray] | None = None

    def apply(self, preactivations: FloatArray) -> FloatArray:
        """Return the layer's outputs for given pre-activations."""
        return preactivations if self.activation is None else self.activation(preactivations)

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the layer's outputs."""
        return self.apply(self.form.predict(X))


@dataclass(frozen=True, eq=False)
class QuantizedChain:
    """A network whose layers are matched by quantized networks, one after the other.

    Attributes
    ----------
    matches : tuple of QuantizedMatch
        One a layer, each with its own certificate; the activations between them are those of the trained network.
    layers : tuple of TrainedLayer
        The layers that were matched.
    """

    matches: tuple[QuantizedMatch, ...]
    layers: tuple[TrainedLayer, ...]

    @property
    def n_bits(self) -> int:
        """Bits of all layers, as `BilinearNetwork.n_bits` counts them."""
        return sum(match.network.n_bits for match in self.matches)

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of the last layer."""
        H = check_matrix("X", X)
        for match, layer in zip(self.matches, self.layers, strict=True):
            H = layer.apply(match.predict(H if H.ndim == 2 else H[:, None]))
        return H


def quantize_layers(
    layers: Sequence[TrainedLayer],
    X: Any,
    n_neurons: int | Sequence[int] = 1000,
    *,
    random_state: Any = None,
    **options: Any,
) -> QuantizedChain:
    r"""Match a chain of layers by quantized networks, each on what the quantized layers before it make of the data.

    Layer :math:`l` minimises :math:`\sum_i \|f_l(\hat h_i) - z_l(h_i)\|^2` over quantized networks :math:`f_l`, where
    :math:`h_i` are the trained network's inputs of the layer and :math:`\hat h_i` those of the quantized one: errors
    of earlier layers are corrected as far as a layer can.

    Parameters
    ----------
    layers : sequence of TrainedLayer
    X : array-like of shape (n, d)
        Data on which the networks are to agree.
    n_neurons : int or sequence of int
        Of every layer's network.
    random_state : int, Generator, RandomState or None
    **options
        Of `qsdp.quantize`: ``beta``, ``levels``, ``refine``, ...

    Returns
    -------
    QuantizedChain
    """
    layers = tuple(layers)
    sizes = [n_neurons] * len(layers) if np.isscalar(n_neurons) else list(n_neurons)  # type: ignore[arg-type]
    if not layers or len(sizes) != len(layers):
        raise InvalidInputError(f"n_neurons must be one number or {len(layers)}, one a layer; got {n_neurons!r}")
    sizes = [check_integer("n_neurons", size, minimum=1) for size in sizes]
    rng = check_random_state(random_state)
    exact = matched = check_matrix("X", X)
    matches = []
    for layer, size in zip(layers, sizes, strict=True):
        target = layer.form.predict(exact)
        match = quantize(_Given(target), matched, size, random_state=rng, **options)
        matches.append(match)
        exact, matched = (_columns(layer.apply(values)) for values in (target, match.predict(matched)))
    return QuantizedChain(tuple(matches), layers)


@dataclass(frozen=True)
class _Given:
    """A model known by its outputs on the data."""

    values: FloatArray

    def predict(self, X: FloatArray) -> FloatArray:
        return self.values


def _columns(values: FloatArray) -> FloatArray:
    return values if values.ndim == 2 else values[:, None]
