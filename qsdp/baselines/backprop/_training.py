"""Gradient descent for two-layer networks: objectives as functions of tensors, on scaled data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray, check_choice
from qsdp.baselines._estimator import CheckedSettings, checked
from qsdp.baselines._history import Callback, History, train_epochs
from qsdp.baselines._torch import check_device, minibatches, require_torch, seeded, torch_loss, training_epoch
from qsdp.baselines.backprop.float_networks import FloatNetwork
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss
from qsdp.problem import TrainingProblem
from qsdp.sampling import allocate

__all__ = ["DescentParameters", "FloatTraining", "GradientDescent", "GradientTraining", "NetworkTraining"]

OPTIMIZERS = ("sgd", "adam")
SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True)
class DataUnits:
    r"""Units of scaled data, with :math:`\ell(\tau t, \tau y) = \mathrm{factor} \cdot \mathrm{loss}(t, y)`.

    Attributes
    ----------
    row : float
        Root mean square of the rows' norms.
    target : float
        :math:`\tau`, the root mean square of the targets; 1 for labels and one-hot rows.
    factor : float
    loss : Loss
        Loss of predictions and targets divided by `target`.
    """

    row: float
    target: float
    factor: float
    loss: Loss


def normalised(problem: TrainingProblem) -> tuple[FloatArray, FloatArray, DataUnits]:
    """Return data and targets scaled to unit size, and their units.

    Training on scaled data makes the learning rate independent of the units of X and y: a fit to ``(s X, t y)`` takes
    the same steps as a fit to ``(X, y)``. A rate found on one data set is therefore a sensible start on another.
    """
    loss, target = problem.loss, 1.0
    row = _rms(problem.X) * np.sqrt(problem.n_features)
    if not loss.for_classes:
        target = _rms(problem.y)
    other, factor = loss.rescaled(target)
    return problem.X / row, problem.y / target, DataUnits(float(row), target, factor, other)


def _rms(values: FloatArray) -> float:
    """Return the root mean square without overflow, or 1 if all values are zero."""
    largest = float(np.abs(values).max())
    return largest * float(np.sqrt(np.mean(np.square(values / largest)))) if largest else 1.0


def neuron_values(X: Any, W: Any, coefficients: tuple[float, float, float] | None) -> Any:
    """Return the neurons' values (b, m) for tensors of data (b, D) and weights (k, m, D), with k = 2 if bilinear."""
    t = X @ W.transpose(-1, -2)
    if coefficients is None:
        return t[0] * t[1]
    a, b, c = coefficients
    return (a * t[0] + b) * t[0] + c


def second_layer(shape: tuple[int, ...], *, signed: bool) -> FloatArray:
    """Return m times the fixed second-layer weights, (m,) or (m, C), of a network that trains only its first layer.

    Every output has a separate block of neurons, with weights one over their number and alternating signs if `signed`.
    """
    m, count = shape[0], math.prod(shape[1:])
    if m < count:
        raise InvalidInputError(f"n_neurons must be at least {count}, the number of outputs; got {m}")
    sizes = np.array(allocate(m, [1.0] * count))
    signs = np.where(np.arange(m) % 2, -1.0, 1.0) if signed else np.ones(m)
    weights = np.zeros((m, count))
    weights[np.arange(m), np.repeat(np.arange(count), sizes)] = signs * np.repeat(m / sizes, sizes)
    return weights.reshape(shape)


@dataclass(eq=False, repr=False, kw_only=True)
class DescentParameters:
    r"""Parameters of gradient descent, shared by the settings and the estimators.

    Parameters
    ----------
    learning_rate : float, default=0.1
        Step size, > 0, for the mean loss over samples, with data and targets scaled to unit size (see the notes of
        `BackpropRegressor`). For SGD it is multiplied by m, the number of neurons.
    momentum : float, default=0.9
        In [0, 1): momentum of SGD, or the first decay rate of Adam.
    clip : float or None, default=1.0
        Largest norm of the gradient with respect to all parameters, in units of :math:`1/\sqrt m`; larger gradients
        are scaled down. The squared error of a quadratic network is of degree four in weights and data, so without
        clipping SGD diverges on outlying rows at learning rates that suit the other rows.
    optimizer : {"sgd", "adam"}, default="sgd"
    schedule : {"cosine", "constant"}, default="cosine"
        Schedule of the learning rate; "cosine" ends at zero.
    batch_size : int, default=32
        Samples per step.
    n_epochs : int, default=50
        Passes over the data.
    patience : int, optional
        Stop after this number of epochs without a smaller loss on held-out samples or, if none are held out, without a
        smaller objective.
    device : str, optional
        Device of PyTorch, such as "cuda"; the CPU by default.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the training.
    """

    learning_rate: float = 0.1
    momentum: float = 0.9
    clip: float | None = 1.0
    optimizer: str = "sgd"
    schedule: str = "cosine"
    batch_size: int = 32
    n_epochs: int = 50
    patience: int | None = None
    device: str | None = None
    dtype: str = "float64"


@dataclass(kw_only=True)
class GradientDescent(DescentParameters, CheckedSettings):
    """Gradient descent with checked parameters."""

    callback: Callback | None
    verbose: bool | int

    def __post_init__(self) -> None:
        checked(self, "learning_rate", "momentum", "clip", "batch_size", "n_epochs", "patience", "verbose", "dtype")
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("schedule", self.schedule, SCHEDULES)
        self.device = check_device(self.device)

    def tensor(self, array: Any) -> Any:
        """Return an array as a tensor of the chosen precision on the chosen device."""
        torch = require_torch()
        return torch.as_tensor(np.asarray(array), dtype=getattr(torch, self.dtype), device=self.device)

    def run(
        self,
        training: GradientTraining,
        rng: np.random.Generator,
        history: History,
        score: Callable[[FloatArray, FloatArray], float],
        *,
        width: float,
        held: tuple[FloatArray, FloatArray],
        best: str | None = None,
    ) -> None:
        r"""Minimise an objective over its parameters, in place; the history records it in the user's units.

        `width` multiplies SGD's steps. With 1/m in front of m neurons, the gradient of one neuron is of order 1/m and
        steps must be m times as long; Adam's steps do not depend on it. `clip` is in units of the norm of such a
        gradient of all neurons, one over the root. `rng` draws the seed of the order of samples; `score` computes the
        recorded score of outputs and targets. The epoch with the smallest mean loss on the inputs and targets in `held`
        is kept. If `held` is empty, it is the epoch with the smallest `best`, or the last one.
        """
        torch, units, targets = require_torch(), training.units, training.targets
        tensors = list(training.parameters.values())
        if self.optimizer == "sgd":
            steps = torch.optim.SGD(tensors, lr=self.learning_rate * width, momentum=self.momentum)
        else:
            steps = torch.optim.Adam(tensors, lr=self.learning_rate, betas=(self.momentum, 0.999))
        schedule = None
        if self.schedule == "cosine":
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(steps, T_max=self.n_epochs)
        generator = seeded(rng)

        def set_state(state: list[Any]) -> None:
            with torch.no_grad():
                for tensor, stored in zip(tensors, state, strict=True):
                    tensor.copy_(stored)

        def measure() -> Mapping[str, float]:
            outputs, penalty = training.evaluate()
            with np.errstate(all="ignore"):
                loss = units.factor * units.loss.value(outputs, targets) + penalty
            if not np.isfinite(loss):
                # A score of numbers that are not finite would raise an error.
                return {"loss": loss}
            measured = {"loss": loss, "score": score(outputs, targets)}
            if not len(held[0]):
                return measured
            outside, wanted = training.network().predict(held[0]), held[1]
            validation = training.problem.loss.value(outside, wanted) / len(wanted)
            return {**measured, "validation_loss": validation, "validation_score": score(outside, wanted)}

        train_epochs(
            training_epoch(
                steps,
                lambda rows: training.objective(rows.to(self.device)).backward(),
                lambda: minibatches(len(targets), self.batch_size, generator),
                clipped=(tensors, None if self.clip is None else self.clip / math.sqrt(width)),
                project=training.project,
                schedule=schedule,
            ),
            measure,
            self.n_epochs,
            get_state=lambda: [tensor.detach().clone() for tensor in tensors],
            set_state=set_state,
            history=history,
            suggestion="a smaller learning_rate" + (" or clip=1.0" if self.clip is None else ""),
            callback=self.callback,
            verbose=self.verbose,
            name="backprop",
            best="validation_loss" if len(held[0]) else "loss" if self.patience is not None else best,
            patience=self.patience,
        )


class GradientTraining(ABC):
    r"""Training of a network on rows :math:`x' = x / r` and targets :math:`y / \tau`.

    `parameters` are the trained tensors; `targets` are in `units`.
    """

    parameters: dict[str, Any]
    #: Function called after every step, without gradients.
    project: Callable[[], None] | None = None
    #: Numbers per row and neuron that an evaluation takes.
    values_a_neuron = 2

    def __init__(self, problem: TrainingProblem, n_neurons: int, descent: GradientDescent) -> None:
        X, self.targets, self.units = normalised(problem)
        self.problem, self.m = problem, n_neurons
        self._X, self._y = descent.tensor(X), descent.tensor(self.targets)
        self._loss = torch_loss(self.units.loss)

    @abstractmethod
    def layers(self) -> tuple[Any, ...]:
        """Return the layers' weights as functions of the parameters."""

    @abstractmethod
    def outputs(self, X: Any, *layers: Any) -> Any:
        """Return the outputs for scaled rows X, given the result of `layers`."""

    @abstractmethod
    def penalty(self, *layers: Any) -> Any:
        """Return the regulariser divided by the units' factor, given the result of `layers`."""

    @abstractmethod
    def network(self) -> Any:
        """Return the network in the user's units."""

    def objective(self, rows: Any) -> Any:
        """Return the objective of all n samples, divided by n and the units' factor, estimated from some rows."""
        layers = self.layers()
        loss = self._loss(self.outputs(self._X[rows], *layers), self._y[rows]) / len(rows)
        return loss + self.penalty(*layers) / self.problem.n_samples if self.problem.beta else loss

    def evaluate(self) -> tuple[FloatArray, float]:
        """Return the scaled outputs on all samples, block by block, and the regulariser in the user's units."""
        with require_torch().no_grad():
            layers = self.layers()
            penalty = float(self.penalty(*layers)) * self.units.factor
            width = self.values_a_neuron * self.m
            parts = [self.outputs(self._X[rows], *layers).cpu().numpy() for rows in chunks(len(self._X), width)]
        return np.concatenate(parts).astype(np.float64), penalty


class NetworkTraining(GradientTraining):
    r"""Training of the network :math:`f' = \tfrac1m \sum_j a_j \phi_j(x')`, bilinear or with a polynomial activation.

    A trained second layer starts from normal numbers for several outputs. For one output it starts like a fixed one,
    because bilinear neurons have signs of their own. `trained` says which part of it is trained: all if "free".
    """

    def __init__(
        self, problem: TrainingProblem, n_neurons: int, descent: GradientDescent, trained: str, rng: np.random.Generator
    ) -> None:
        super().__init__(problem, n_neurons, descent)
        self.values_a_neuron = self.factors + 1
        #: Coefficients of the activation, for the tensors of `layers`.
        self.coefficients = None if problem.activation is None else problem.activation.coefficients
        self._W = descent.tensor(self._start((self.factors, n_neurons, problem.n_features), rng)).requires_grad_()
        self.parameters = {"first layer": self._W}
        free, shape = trained == "free", (n_neurons, *self.targets.shape[1:])
        if free and math.prod(shape) > n_neurons:
            self._a = descent.tensor(rng.standard_normal(shape))
        else:
            self._a = descent.tensor(second_layer(shape, signed=problem.activation is not None))
        if free:
            self.parameters["second layer"] = self._a.requires_grad_()

    def _start(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Return the initial weights of the first layer."""
        return rng.standard_normal(shape)

    @property
    def factors(self) -> int:
        """Number of first-layer weight vectors per neuron."""
        return 2 if self.problem.activation is None else 1

    def outputs(self, X: Any, *layers: Any) -> Any:
        """Return the outputs, given first-layer weights (k, m, D) and a, (m,) or (m, C)."""
        W, a = layers
        return neuron_values(X, W, self.coefficients) @ a / self.m


class FloatTraining(NetworkTraining):
    r"""Training of real weights, scaled by r in the first layer and by :math:`m / \tau` in the second.

    First-layer weights start standard normal, so that every neuron is of order one.
    """

    def layers(self) -> tuple[Any, Any]:
        """Return the weights of both layers, which are the parameters themselves."""
        return self._W, self._a

    def penalty(self, *layers: Any) -> Any:
        """Return `FloatNetwork.penalty` in scaled units."""
        W, a = layers
        sizes = W.square().sum(dim=-1).mean(dim=0) / self.units.row**2 + self.problem.lifted
        magnitudes = a.abs().reshape(self.m, -1).sum(dim=1)
        return self.problem.beta * self.units.target / (self.units.factor * self.m) * (sizes @ magnitudes)

    def network(self) -> FloatNetwork:
        """Return the network in the user's units."""
        W, a = (tensor.detach().cpu().numpy().astype(np.float64) for tensor in (self._W, self._a))
        return FloatNetwork(W / self.units.row, a * (self.units.target / self.m), self.problem.activation)
