"""A trained feed-forward network as a chain of quadratic layers, and its quantization layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils.outputs import outputs_text
from qsdp._utils.progress import progress
from qsdp._utils.summary import Rows, Summarized, Summary, format_bits, format_count, format_number
from qsdp._utils.validation import (
    FloatArray,
    RandomState,
    ReadOnlyArrays,
    _show,
    check_integer,
    check_matrix,
    check_numbers,
    check_random_state,
    check_verbose,
    read_only_copy,
)
from qsdp.distillation import distill
from qsdp.exceptions import InvalidInputError
from qsdp.networks import QuadraticForm
from qsdp.pipeline import QSDPResult

__all__ = ["AffineForm", "QuantizedChain", "TrainedLayer", "per_layer", "quantize_layers", "relu"]

#: Maximum number of layers in a summary.
_LISTED = 8


@dataclass(frozen=True, eq=False, repr=False)
class AffineForm(ReadOnlyArrays):
    r"""Function :math:`f(x) = s^T x + s_0`, or C such functions: a `QuadraticForm` without its C times d² zeros.

    Parameters
    ----------
    s : array-like of shape (d,) or (C, d)
        One row per output.
    s0 : float or array-like of shape (C,), optional

    Examples
    --------
    >>> from qsdp.baselines import AffineForm
    >>> form = AffineForm([[1.0, -2.0], [0.0, 1.0]], [3.0, 0.0])
    >>> form.predict([[1.0, 1.0]])
    array([[2., 1.]])
    >>> form.to_quadratic_form().to_expression()
    ['x1 - 2 x2 + 3', 'x2']
    """

    s: FloatArray
    s0: FloatArray

    def __init__(self, s: Any, s0: Any = 0.0) -> None:
        linear = check_numbers("s", s, "(d,) or (C, d)")
        if linear.ndim not in {1, 2} or linear.size == 0:
            raise InvalidInputError(f"s must have shape (d,) or (C, d); got {linear.shape}")
        constant = check_numbers("s0", s0, f"{linear.shape[:-1]}")
        if constant.shape not in {(), linear.shape[:-1]}:
            raise InvalidInputError(f"s0 must have shape {linear.shape[:-1]}; got {constant.shape}")
        object.__setattr__(self, "s", read_only_copy(linear))
        object.__setattr__(self, "s0", read_only_copy(np.broadcast_to(constant, linear.shape[:-1])))

    @property
    def n_inputs(self) -> int:
        """Number of variables d."""
        return int(self.s.shape[-1])

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the value at one sample: () or (C,)."""
        return self.s0.shape

    def predict(self, X: Any) -> FloatArray:
        """Return the values of shape (n,) or (n, C) for data of shape (n, d)."""
        return check_matrix("X", X, n_columns=self.n_inputs) @ self.s.T + self.s0

    def to_quadratic_form(self) -> QuadraticForm:
        """Return the same function as a `QuadraticForm`, with C times d² zeros."""
        return QuadraticForm(np.zeros((*self.s.shape, self.n_inputs)), self.s, self.s0)

    def __repr__(self) -> str:
        return f"AffineForm(n_inputs={self.n_inputs}{outputs_text(self.output_shape)})"


def relu(Z: FloatArray) -> FloatArray:
    """Return max(0, Z), the function by which layers denote ReLUs."""
    return np.maximum(Z, 0.0)


@dataclass(frozen=True, eq=False)
class TrainedLayer:
    r"""One layer: :math:`x \mapsto \phi(z(x))` with every :math:`z_k` a quadratic (or affine) function.

    Parameters
    ----------
    form : QuadraticForm or AffineForm
        The pre-activations; `form.predict` has shape (n, C), or (n,) for one output.
    activation : callable or None
        Function of the pre-activations, row by row or elementwise. None is the identity.
    """

    form: QuadraticForm | AffineForm
    activation: Callable[[FloatArray], FloatArray] | None = None

    def apply(self, preactivations: FloatArray) -> FloatArray:
        """Return the layer's outputs for given pre-activations."""
        return preactivations if self.activation is None else self.activation(preactivations)

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the layer's outputs."""
        return self.apply(self.form.predict(X))


@dataclass(frozen=True, eq=False)
class QuantizedChain(Summarized):
    """A chain of quantized networks, each of which approximates one layer of a trained network.

    Attributes
    ----------
    matches : tuple of QSDPResult
        One per layer, each with a certificate; the activations between them are those of the trained network.
    layers : tuple of TrainedLayer
        The layers that were matched.
    """

    matches: tuple[QSDPResult, ...]
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

    def _summary(self) -> Summary:
        rows: Rows = [("layers", str(len(self.matches))), ("storage", format_bits(self.n_bits))]
        for k, match in enumerate(self.matches[:_LISTED]):
            size = format_count(match.network.n_neurons, match.network.n_inputs, match.network.n_outputs)
            rows.append((f"layer {k + 1}", f"{size}; gap {format_number(match.certificate.relative_gap, 3)}"))
        return Summary("QuantizedChain", rows)


def quantize_layers(
    layers: Sequence[TrainedLayer],
    X: Any,
    n_neurons: int | Sequence[int] = 1000,
    *,
    random_state: RandomState = 0,
    verbose: bool | int = False,
    **options: Any,
) -> QuantizedChain:
    r"""Match a chain of layers by quantized networks, each on the outputs of the quantized layers before it.

    Layer :math:`l` minimises :math:`\sum_i \|f_l(\hat h_i) - z_l(h_i)\|^2` over quantized networks :math:`f_l`, where
    :math:`h_i` are the inputs of the layer in the trained network and :math:`\hat h_i` those in the quantized one. Each
    layer thus corrects errors of earlier layers as far as it can.

    Parameters
    ----------
    layers : sequence of TrainedLayer
    X : array-like of shape (n, d)
        Data on which the networks are to agree.
    n_neurons : int or sequence of int
        Number of neurons of every layer's network, or of each.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sampling and the polish of all layers.
    verbose : bool or int, default=False
        Show a progress bar for the layers and bars for each layer's stages; see `qsdp.solve_and_sample`.
    **options
        Options of `qsdp.distill`: ``beta``, ``levels``, ``refine``, ...

    Returns
    -------
    QuantizedChain
    """
    layers = tuple(layers)
    if not layers:
        raise InvalidInputError("layers must hold at least one layer; got none")
    sizes = [check_integer("n_neurons", size, minimum=1) for size in per_layer("n_neurons", n_neurons, len(layers))]
    rng = check_random_state(random_state)
    exact = matched = check_matrix("X", X)
    matches = []
    with progress(check_verbose(verbose)) as stages, stages.stage("layers") as bar:
        for layer, size in zip(layers, sizes, strict=True):
            target = layer.form.predict(exact)
            options = {"allocation": "proportional", **options, "random_state": rng, "verbose": verbose}
            match = distill(lambda X, target=target: target, matched, size, **options)
            matches.append(match)
            exact, matched = (_columns(layer.apply(values)) for values in (target, match.predict(matched)))
            bar.count(len(matches), len(layers), f"{len(matches)} of {len(layers)}")
    return QuantizedChain(tuple(matches), layers)


def per_layer(name: str, value: Any, n_layers: int, layer: str = "layer") -> list[Any]:
    """Return a list of one value per layer, given one value for all layers or a sequence of values."""
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
        return [value] * n_layers
    if len(value) != n_layers:
        raise InvalidInputError(f"{name} must be one value or {n_layers}, one for each {layer}; got {_show(value)}")
    return list(value)


def _columns(values: FloatArray) -> FloatArray:
    return values if values.ndim == 2 else values[:, None]
