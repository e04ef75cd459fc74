"""Objectives of two-layer networks as functions of tensors, in units of the data's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from qsdp._utils.parallel import blocks
from qsdp._utils.validation import FloatArray
from qsdp.baselines._losses import torch_loss
from qsdp.baselines._torch import require_torch
from qsdp.baselines.backprop._descent import GradientDescent
from qsdp.baselines.backprop._units import normalised
from qsdp.baselines.backprop.networks import FloatNetwork
from qsdp.exceptions import InvalidInputError
from qsdp.problem import TrainingProblem
from qsdp.sampling import allocate

__all__ = ["FloatTraining", "NetworkTraining", "evaluated", "fixed_second_layer", "free_second_layer", "neuron_values"]


def neuron_values(X: Any, W: Any, coefficients: tuple[float, float, float] | None) -> Any:
    """Return the neurons' values (b, m) for tensors of data (b, D) and weights (k, m, D), k = 2 for bilinear ones."""
    t = X @ W.transpose(-1, -2)
    if coefficients is None:
        return t[0] * t[1]
    a, b, c = coefficients
    return (a * t[0] + b) * t[0] + c


def free_second_layer(m: int, n_outputs: int | None, *, signed: bool, rng: np.random.Generator) -> FloatArray:
    """Return m times the second-layer weights to start training with, (m,) or (m, n_outputs).

    Normal numbers for several outputs, else those of `fixed_second_layer`: signs of bilinear neurons are their own.
    """
    if n_outputs is None or n_outputs == 1:
        return fixed_second_layer(m, n_outputs, signed=signed)
    return rng.standard_normal((m, n_outputs))


def fixed_second_layer(m: int, n_outputs: int | None, *, signed: bool) -> FloatArray:
    """Return m times the second-layer weights of a network that does not train them, (m,) or (m, n_outputs).

    Every output has a block of neurons of its own, with weights one over their number; `signed` ones alternate.

    Raises
    ------
    InvalidInputError
        There are fewer neurons than outputs.
    """
    count = n_outputs or 1
    if m < count:
        raise InvalidInputError(f"n_neurons must be at least {count}, the number of outputs; got {m}")
    sizes = np.array(allocate(m, [1.0] * count))
    signs = np.where(np.arange(m) % 2, -1.0, 1.0) if signed else np.ones(m)
    weights = np.zeros((m, count))
    weights[np.arange(m), np.repeat(np.arange(count), sizes)] = signs * np.repeat(m / sizes, sizes)
    return weights if n_outputs else weights[:, 0]


def evaluated(values: Any, X: Any, width: int) -> FloatArray:
    """Return a function of tensors on all rows, a block after the other, as an array in double precision."""
    with require_torch().no_grad():
        parts = [values(X[rows]).cpu().numpy() for rows in blocks(len(X), width)]
    return np.concatenate(parts).astype(np.float64)


class NetworkTraining(ABC):
    r"""A network :math:`f' = \tfrac1m \sum_j a_j \phi_j(x')` of rows :math:`x' = x / r` and targets :math:`y / \tau`.

    Parameters
    ----------
    problem : TrainingProblem
    n_neurons : int
    descent : GradientDescent

    Attributes
    ----------
    parameters : dict of Tensor
        What is trained.
    targets : ndarray
        In units.
    units : Units
    """

    parameters: dict[str, Any]

    def __init__(self, problem: TrainingProblem, n_neurons: int, descent: GradientDescent) -> None:
        X, self.targets, self.units = normalised(problem)
        self.problem, self.m = problem, n_neurons
        self._X, self._y = descent.tensor(X), descent.tensor(self.targets)
        self._loss = torch_loss(self.units.loss)

    @property
    def factors(self) -> int:
        """First-layer weight vectors of a neuron."""
        return 2 if self.problem.activation is None else 1

    @property
    def n_outputs(self) -> int | None:
        """Number of outputs; None for scalar ones."""
        return self.problem.n_outputs if self.problem.vector else None

    @property
    @abstractmethod
    def coefficients(self) -> tuple[float, float, float] | None:
        """Those of the activation, for the tensors of `layers`."""

    @abstractmethod
    def layers(self) -> tuple[Any, Any]:
        """Return first-layer weights (k, m, D) and a, (m,) or (m, C), as functions of the parameters."""

    @abstractmethod
    def penalty(self, W: Any, a: Any) -> Any:
        """Return the regulariser over the units' factor, for what `layers` returns."""

    def objective(self, rows: Any) -> Any:
        """Return the objective of all n samples, divided by n and the units' factor, as estimated from some rows."""
        W, a = self.layers()
        outputs = neuron_values(self._X[rows], W, self.coefficients) @ a / self.m
        loss = self._loss(outputs, self._y[rows]) / len(rows)
        return loss + self.penalty(W, a) / self.problem.n_samples if self.problem.beta else loss

    def evaluate(self) -> tuple[FloatArray, float]:
        """Return the outputs on all samples in units, and the regulariser in the user's."""
        with require_torch().no_grad():
            W, a = self.layers()
            penalty = float(self.penalty(W, a)) * self.units.factor
            coefficients = self.coefficients
            outputs = evaluated(
                lambda X: neuron_values(X, W, coefficients) @ a / self.m, self._X, (self.factors + 1) * self.m
            )
        return outputs, penalty


class FloatTraining(NetworkTraining):
    r"""Real weights: r times those of the user's units in the first layer, :math:`m / \tau` times in the second.

    They start standard normal, so that every neuron is of order one, with a at ones (signs in turn for polynomial
    activations, normal numbers for several outputs).

    Parameters
    ----------
    problem : TrainingProblem
    n_neurons : int
    descent : GradientDescent
    second_layer : {"fixed", "free"}
    rng : Generator
    """

    def __init__(
        self,
        problem: TrainingProblem,
        n_neurons: int,
        descent: GradientDescent,
        second_layer: str,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(problem, n_neurons, descent)
        self._W = descent.tensor(rng.standard_normal((self.factors, n_neurons, problem.n_features))).requires_grad_()
        self.parameters = {"first layer": self._W}
        signed = problem.activation is not None
        if second_layer == "free":
            start = free_second_layer(n_neurons, self.n_outputs, signed=signed, rng=rng)
            self._a = self.parameters["second layer"] = descent.tensor(start).requires_grad_()
        else:
            self._a = descent.tensor(fixed_second_layer(n_neurons, self.n_outputs, signed=signed))

    @property
    def coefficients(self) -> tuple[float, float, float] | None:
        """Those of the activation."""
        return None if self.problem.activation is None else self.problem.activation.coefficients

    def layers(self) -> tuple[Any, Any]:
        """Return the parameters."""
        return self._W, self._a

    def penalty(self, W: Any, a: Any) -> Any:
        """Return `FloatNetwork.penalty` in units."""
        sizes = W.square().sum(dim=-1).mean(dim=0) / self.units.row**2 + self.problem.lifted
        magnitudes = a.abs().reshape(self.m, -1).sum(dim=1)
        return self.problem.beta * self.units.target / (self.units.factor * self.m) * (sizes @ magnitudes)

    def network(self) -> FloatNetwork:
        """Return the network in the user's units."""
        W, a = (tensor.detach().cpu().numpy().astype(np.float64) for tensor in (self._W, self._a))
        return FloatNetwork(W / self.units.row, a * (self.units.target / self.m), self.problem.activation)
