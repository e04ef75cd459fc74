"""Networks of quadratic layers: parameters, losses, forward pass, gradients, and conversion to quadratic forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp, softmax

from benchmarks.methods.activations import Activation, get_differentiable
from benchmarks.methods.layers import trained_layer
from benchmarks.papers.noel.families import Evaluated, Family, get_family
from benchmarks.papers.noel.maps import Parameters, check_symmetric
from qsdp._utils.validation import FloatArray, check_choice, check_matrix, check_numbers
from qsdp.baselines._layers import TrainedLayer
from qsdp.exceptions import InvalidInputError
from qsdp.networks import QuadraticForm

__all__ = ["LOSSES", "Layer", "OutputLoss", "QuadraticNetwork", "check_activation", "check_loss", "forward"]


@dataclass(frozen=True)
class OutputLoss:
    """A loss together with the output activation it belongs to, as functions of pre-activations (..., B, C).

    `outputs` returns the network's outputs; `values` takes targets, too, and returns each sample's loss, (..., B).
    """

    name: str
    outputs: Callable[[FloatArray], FloatArray]
    values: Callable[[FloatArray, FloatArray], FloatArray]

    def delta(self, Z: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the gradient with respect to Z: outputs minus targets."""
        return self.outputs(Z) - Y


def _binary_cross_entropy(Z: FloatArray, Y: FloatArray) -> FloatArray:
    r"""Return :math:`-\sum_k y_k \ln \hat y_k + (1 - y_k) \ln(1 - \hat y_k)`, A(27), without overflow."""
    losses: FloatArray = (np.logaddexp(0.0, Z) - Y * Z).sum(axis=-1)
    return losses


def _softmax(Z: FloatArray) -> FloatArray:
    return softmax(Z, axis=-1)


def _cross_entropy(Z: FloatArray, Y: FloatArray) -> FloatArray:
    r"""Return :math:`-\sum_k y_k \ln \hat y_k` for rows of y that sum to one."""
    losses: FloatArray = logsumexp(Z, axis=-1) - (Y * Z).sum(axis=-1)
    return losses


#: Losses by name: of sigmoid outputs, summed over them, and of softmax outputs.
LOSSES = {
    loss.name: loss
    for loss in (
        OutputLoss("binary_cross_entropy", expit, _binary_cross_entropy),
        OutputLoss("cross_entropy", _softmax, _cross_entropy),
    )
}

#: Losses of this package and of other libraries that the algorithms do not minimise, and why.
_EXCLUDED_LOSSES = dict.fromkeys(
    ("squared", "absolute", "huber", "hinge", "squared_hinge", "logistic", "mse", "squared_error", "epsilon"),
    "the algorithms start from delta = yhat - y, A(55), which holds for sigmoid outputs with the summed binary "
    "cross-entropy and for softmax outputs with the cross-entropy only",
)


def check_loss(value: object) -> OutputLoss:
    """Return a loss by name, or raise an error with the reason why the algorithms do not support it."""
    return LOSSES[check_choice("loss", value, LOSSES, _EXCLUDED_LOSSES)]


#: Maximum number of entries in the temporary arrays of an evaluation.
_LARGEST = 2**22

_FLAT = "its derivative g' is 0 wherever it exists, and every delta of the layers before is a multiple of g'"

#: Activations that the derivation excludes, and why.
_EXCLUDED_ACTIVATIONS = {
    **dict.fromkeys(("sign", "step", "heaviside"), _FLAT),
    "softmax": "the deltas A(46), A(70) are products with an elementwise g'; softmax mixes the neurons of a layer",
    "maxout": "the deltas A(46), A(70) are products with an elementwise g'; maxout mixes the neurons of a layer",
}


def check_activation(name: str, value: object) -> Activation:
    """Return the activation of a layer by name."""
    return get_differentiable(name, value, _EXCLUDED_ACTIVATIONS)


@dataclass(eq=False)
class Layer:
    r"""One layer :math:`x \mapsto g(z(x))` of m neurons of a family.

    Parameters
    ----------
    family : Family or str
    parameters : dict of str to array-like
        Arrays with the names and shapes of `Family.shapes`, all with the same leading axis of starts or without one.
        Matrices must be symmetric.
    activation : Activation or str, default="identity"

    Raises
    ------
    InvalidInputError
        A parameter is missing, unknown, of the wrong shape or not symmetric.

    Examples
    --------
    One neuron, a hyperbola, represents XOR:

    >>> from benchmarks.papers.noel import Layer, QuadraticNetwork
    >>> neuron = Layer("qnn", {"Q": [[[0.0, -0.5], [-0.5, 0.0]]], "W": [[0.0, 0.0]], "b": [0.0]})
    >>> QuadraticNetwork([neuron]).decision([[-1, -1], [1, -1], [-1, 1], [1, 1]]).ravel()
    array([-1.,  1.,  1., -1.])
    """

    family: Family
    parameters: Parameters
    activation: Activation

    def __init__(
        self, family: Family | str, parameters: dict[str, Any], activation: Activation | str = "identity"
    ) -> None:
        self.family = family if isinstance(family, Family) else get_family(family)
        given = {name: check_numbers(name, value, "numbers") for name, value in parameters.items()}
        self.activation = (
            activation if isinstance(activation, Activation) else check_activation("activation", activation)
        )
        names = self.family.shapes(1, 1)
        if set(given) != set(names):
            raise InvalidInputError(
                f"parameters of {self.family.name!r} must be {', '.join(names)}; got {', '.join(given) or 'none'}"
            )
        first = self.family.maps[0]
        weights = given[first.weight]
        plain = len(first.shapes(1, 1)[first.weight])
        if weights.ndim not in {plain, plain + 1} or weights.size == 0:
            raise InvalidInputError(
                f"{first.weight} must have {plain} axes, or {plain + 1} with that of starts; got shape {weights.shape}"
            )
        leading = weights.shape[: weights.ndim - plain]
        m, n = weights.shape[len(leading)], weights.shape[-1]
        for name, shape in self.family.shapes(n, m).items():
            if given[name].shape != (*leading, *shape):
                raise InvalidInputError(f"{name} must have shape {(*leading, *shape)}; got {given[name].shape}")
            # Copy, because training changes the arrays in place.
            given[name] = check_symmetric(name, given[name]) if len(shape) == 3 else given[name].copy()
        self.parameters = given

        #: Numbers of inputs n and of neurons m.
        self.size = n, m
        #: Length of the leading axis, None without one.
        self.n_starts = leading[0] if leading else None

    def to_quadratic_form(self) -> QuadraticForm:
        """Return the pre-activations z as m quadratic functions; those of a linear layer have S = 0."""
        if self.n_starts is not None:
            raise InvalidInputError(f"the layer holds {self.n_starts} starts; select one with network.start(number)")
        return self.family.to_form(self.parameters).to_quadratic_form()

    def to_trained(self) -> TrainedLayer:
        """Return the layer as quadratic (or affine) functions and an activation."""
        return trained_layer(self.family.to_form(self.parameters), self.activation)


def forward(layers: Sequence[Layer], A: FloatArray) -> tuple[FloatArray, list[tuple[FloatArray, Evaluated]]]:
    """Return the last pre-activations for inputs A, and every layer's inputs and caches."""
    Z, passed = A, []
    for layer in layers:
        Z, evaluated = layer.family.forward(A, layer.parameters)
        passed.append((A, evaluated))
        A = layer.activation(Z)
    return Z, passed


class QuadraticNetwork:
    """Chain of quadratic layers, or S such networks of one shape.

    It is implemented in NumPy, with the paper's back-propagation written out. The PyTorch module is
    `benchmarks.papers.fan.ReLinearNetwork`.

    Parameters
    ----------
    layers : sequence of Layer
        The activation of the last one should be the identity: losses take pre-activations.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = list(layers)
        if not self.layers:
            raise InvalidInputError("layers must hold at least one layer; got none")
        for before, after in zip(self.layers, self.layers[1:], strict=False):
            if before.size[1] != after.size[0] or before.n_starts != after.n_starts:
                raise InvalidInputError(
                    f"layers must fit together: {before.size[1]} neurons (starts {before.n_starts}) are followed "
                    f"by a layer of {after.size[0]} inputs (starts {after.n_starts})"
                )

    @property
    def n_starts(self) -> int | None:
        """Number of networks; None without the leading axis."""
        return self.layers[0].n_starts

    @property
    def n_parameters(self) -> int:
        """Number of parameters of one network; a symmetric matrix has n(n+1)/2."""
        return sum(layer.family.n_parameters(*layer.size) for layer in self.layers)

    @property
    def n_cached(self) -> int:
        """Number of values kept for the backward pass of one sample: inputs, z and products of every layer."""
        return sum(sum(layer.size) + layer.family.n_cached(*layer.size) for layer in self.layers)

    # -- computation -----------------------------------------------------------------------------------

    def decision(self, X: Any) -> FloatArray:
        """Return the pre-activations of the last layer, (..., n, C), computed in pieces of bounded memory."""
        X = check_matrix("X", X, n_columns=self.layers[0].size[0])
        rows = max(1, _LARGEST // (self.n_cached * (self.n_starts or 1)))
        parts = [forward(self.layers, X[start : start + rows])[0] for start in range(0, len(X), rows)]
        return np.concatenate(parts, axis=-2)

    def gradients(self, X: FloatArray, Y: FloatArray, loss: OutputLoss) -> tuple[FloatArray, list[Parameters]]:
        """Return the mean loss over samples, (...,), and its gradients layer by layer.

        For a symmetric matrix, the gradient is with respect to tied entries if its coupling is "tied", and to all
        entries if it is "full". If it is "packed", the gradient is minus the step on Q at rate one.
        """
        Z, passed = forward(self.layers, X)
        value: FloatArray = loss.values(Z, Y).mean(axis=-1)
        D = loss.delta(Z, Y) / len(Y)
        found: list[Parameters] = []
        for number in range(len(self.layers) - 1, -1, -1):
            layer, (A, evaluated) = self.layers[number], passed[number]
            gradients, gA = layer.family.backward(D, A, layer.parameters, evaluated)
            found.append(gradients)
            if number:
                D = self.layers[number - 1].activation.backward(gA, A)
        return value, found[::-1]

    # -- copies ----------------------------------------------------------------------------------------

    def copy_parameters(self) -> list[Parameters]:
        """Return a copy of all parameters."""
        return [{name: value.copy() for name, value in layer.parameters.items()} for layer in self.layers]

    def set_parameters(self, parameters: Sequence[Parameters]) -> None:
        """Write parameters, as from `copy_parameters`, into the arrays in use."""
        for layer, given in zip(self.layers, parameters, strict=True):
            for name, value in given.items():
                layer.parameters[name][...] = value

    def finite(self) -> Any:
        """Return whether all parameters are finite: a boolean, or one per start."""
        kept: Any = True
        for layer in self.layers:
            leading = 0 if layer.n_starts is None else 1
            for value in layer.parameters.values():
                kept = kept & np.isfinite(value).all(axis=tuple(range(leading, value.ndim)))
        return kept

    def start(self, number: int) -> QuadraticNetwork:
        """Return a copy of one of the S networks."""
        if self.n_starts is None:
            raise InvalidInputError("the network has no axis of starts")
        chosen = [
            Layer(layer.family, {name: value[number] for name, value in layer.parameters.items()}, layer.activation)
            for layer in self.layers
        ]
        return QuadraticNetwork(chosen)

    @classmethod
    def stack(cls, networks: Sequence[QuadraticNetwork]) -> QuadraticNetwork:
        """Stack networks of one shape into one network with a leading axis."""
        layers = [
            Layer(
                same[0].family,
                {name: np.stack([layer.parameters[name] for layer in same]) for name in same[0].parameters},
                same[0].activation,
            )
            for same in zip(*(network.layers for network in networks), strict=True)
        ]
        return cls(layers)

    def to_layers(self) -> list[TrainedLayer]:
        """Return the network as a chain of quadratic (or affine) layers, the last one without activation.

        A last layer of a single neuron becomes one function with values (n,).
        """
        if self.n_starts is not None:
            raise InvalidInputError(f"the network holds {self.n_starts} starts; select one with start(number)")
        *hidden, last = self.layers
        P = last.parameters
        if last.size[1] == 1:
            P = {name: value[0] for name, value in P.items()}
        return [layer.to_trained() for layer in hidden] + [TrainedLayer(last.family.to_form(P), None)]
