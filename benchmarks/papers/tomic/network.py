"""Network and hyper-parameters of back-propagating least squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.methods.activations import InvertibleActivation
from benchmarks.methods.layers import trained_layer
from qsdp._utils.validation import FloatArray
from qsdp.baselines._layers import AffineForm, TrainedLayer
from qsdp.lifting import append_constant

__all__ = ["BIASES", "BPLSSettings", "Network", "Weights", "random_weights"]

#: Matrices of the layers from the inputs to the outputs, of shape (inputs of the layer, its neurons).
Weights = list[FloatArray]

#: Which layers have a column of ones among their inputs.
BIASES = ("input", "all", "none")


@dataclass(frozen=True)
class BPLSSettings:
    """Checked hyper-parameters of `BPLSRegressor`; `activations` and `eps_hidden` have one entry per hidden layer."""

    activations: tuple[InvertibleActivation, ...]
    output: InvertibleActivation
    hidden_target: str = "relax"
    ridge: float = 1e-3
    eps_target: float = 1e-3
    eps_hidden: tuple[float, ...] = ()
    bias: str = "input"
    n_jobs: int = 1


@dataclass(frozen=True, eq=False)
class Network:
    """A fully connected network with given weights.

    Attributes
    ----------
    weights : list of ndarray
        One matrix per layer; its last row is the bias if the layer has one.
    settings : BPLSSettings
        Activations and bias.
    """

    weights: Weights
    settings: BPLSSettings

    @property
    def n_parameters(self) -> int:
        """Number of weights, biases included."""
        return sum(W.size for W in self.weights)

    def inputs(self, X: FloatArray) -> FloatArray:
        """Return the design matrix of the first layer: the data, with a column of ones if there is a bias."""
        return X if self.settings.bias == "none" else append_constant(X)

    def designs(self, inputs: FloatArray) -> list[FloatArray]:
        """Return the design matrices of all layers, given the first one."""
        found = [inputs]
        for W, activation in zip(self.weights[:-1], self.settings.activations, strict=True):
            found.append(self.hidden_design(activation(found[-1] @ W)))
        return found

    def hidden_design(self, H: FloatArray) -> FloatArray:
        """Return hidden outputs, with a column of ones if every layer has a bias."""
        return append_constant(H) if self.settings.bias == "all" else H

    def preactivations(self, X: FloatArray) -> FloatArray:
        """Return the pre-activations of the outputs, of shape (n, J)."""
        return self.designs(self.inputs(X))[-1] @ self.weights[-1]

    def layers(self, *, scalar: bool, activated: bool) -> list[TrainedLayer]:
        """Return the layers; the last one has outputs (n,) if `scalar`, and its activation only if `activated`."""
        forms = []
        for number, W in enumerate(self.weights):
            has_bias = self.settings.bias == "all" or (self.settings.bias == "input" and number == 0)
            s, s0 = (W[:-1].T, W[-1]) if has_bias else (W.T, np.zeros(W.shape[1]))
            if scalar and number == len(self.weights) - 1:
                s, s0 = s[0], s0[0]
            forms.append(AffineForm(s, s0))
        last = self.settings.output if activated else None
        activations = [*self.settings.activations, last]
        return [trained_layer(form, activation) for form, activation in zip(forms, activations, strict=True)]


def random_weights(n_inputs: int, widths: Sequence[int], bias: str, rng: np.random.Generator) -> Weights:
    """Draw weights uniformly from [-1, 1], layer by layer; `n_inputs` does not count the column of ones."""
    rows = [n_inputs + (bias != "none"), *(width + (bias == "all") for width in widths[:-1])]
    return [rng.uniform(-1.0, 1.0, shape) for shape in zip(rows, widths, strict=True)]
