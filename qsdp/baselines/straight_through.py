"""Quantization-aware training by the straight-through estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.activations import get_activation
from qsdp.baselines._estimator import BaselineClassifier, BaselineRegressor, checked
from qsdp.baselines._history import History
from qsdp.baselines._torch import require_torch
from qsdp.baselines.backprop._training import FloatTraining, GradientDescent, NetworkTraining
from qsdp.baselines.backprop.backprop_estimators import QuadraticNetworkTrained
from qsdp.baselines.backprop.float_networks import FloatNetwork
from qsdp.estimators import warn_of_scales
from qsdp.exceptions import InvalidInputError
from qsdp.networks import BilinearNetwork, PolynomialNetwork, from_polynomial
from qsdp.problem import TrainingProblem
from qsdp.refinement import refit

__all__ = ["StraightThroughClassifier", "StraightThroughRegressor", "straight_through"]

SECOND_LAYERS = ("analytic", "free", "shared")
STARTS = ("random", "float")

#: Learning rate of the real weights from which latent weights start; the default of `BackpropRegressor`.
START_RATE = 0.1


def straight_through(W: Any, M: int) -> Any:
    r"""Return the levels nearest to latent weights, divided by M, with the gradient of clipping.

    .. math::

        q(w) = \frac{1}{M} \Big(2 \Big\lfloor \frac{M \,\mathrm{clip}(w) + M + 1}{2} \Big\rfloor - M\Big), \qquad
        \frac{\partial q}{\partial w} := 1[|w| \le 1]

    where clip is to [-1, 1]. For M = 1, q is the sign, with +1 at zero.

    Parameters
    ----------
    W : Tensor
    M : int
        Levels are -M, -M + 2, ..., M.

    Notes
    -----
    Bengio, Leonard and Courville (2013); the clipped form of Hubara et al. (2016). The returned value is exactly that
    of the levels, since the term that carries the gradient is a difference of equal numbers.
    """
    clipped = W.clamp(-1.0, 1.0)
    levels = (2.0 * ((M * clipped.detach() + M + 1.0) / 2.0).floor() - M) / M
    return levels + (clipped - clipped.detach())


class _LatentTraining(NetworkTraining):
    r"""Training of latent weights in [-1, 1], which the forward pass rounds to levels.

    With weights q / M on rows x / r, neurons are of order one for any M. The second layer a is trained ("free"), is one
    trained number per output ("shared"), or is that number times the scales
    :math:`s = \langle w, q\rangle / \|q\|^2` of the neuron's latent weights, with gradients through them ("analytic").
    """

    def __init__(
        self, problem: TrainingProblem, n_neurons: int, descent: GradientDescent, trained: str, rng: np.random.Generator
    ) -> None:
        super().__init__(problem, n_neurons, descent, trained, rng)
        self.M = problem.levels - 1
        reach = self.units.row * self.M
        #: Size of a neuron's values in the user's units, for values of order one here.
        self._size = reach**2
        if self.coefficients is not None:
            a, b, c = self.coefficients[0] * reach**2, self.coefficients[1] * reach, self.coefficients[2]
            # Root mean square over standard normal arguments.
            self._size = float(np.sqrt(2.0 * a**2 + b**2 + (a + c) ** 2))
            self.coefficients = a / self._size, b / self._size, c / self._size
        self._trained = trained
        if trained != "free":
            # A number shared by m neurons has m times their gradient; in this unit, SGD changes it as it changes them.
            self._unit = n_neurons**-0.5 if descent.optimizer == "sgd" else 1.0
            self._gain = descent.tensor(np.full(self.targets.shape[1:], 1.0 / self._unit)).requires_grad_()
            self.parameters["second layer"] = self._gain

    def _start(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        return rng.uniform(-1.0, 1.0, shape)

    def layers(self) -> tuple[Any, Any]:
        """Return the rounded first-layer weights divided by M, and the second layer a."""
        q = straight_through(self._W, self.M)
        if self._trained == "free":
            return q, self._a
        gain = self._gain * self._unit
        if self._trained == "analytic":
            fixed = q.detach()
            # The smallest size of a row that is not zero.
            sizes = fixed.square().sum(dim=-1).clamp_min(self.M**-2.0)
            scales = ((self._W * fixed).sum(dim=-1) / sizes).prod(dim=0)
            if self.factors == 1:
                scales = scales.square()
            gain = gain * scales.reshape((-1,) + (1,) * (self._a.ndim - 1))
        return q, self._a * gain

    def penalty(self, *layers: Any) -> Any:
        """Return the regulariser of the training problem in scaled units."""
        weight = self.problem.beta * self.problem.dimension * self.units.target
        return weight / (self.units.factor * self.m * self._size) * layers[1].abs().sum()

    def project(self) -> None:
        """Clip latent weights to [-1, 1], and the number shared by all neurons to values >= 0.

        A step that took a small number below zero would reverse all outputs; the neurons determine the signs.
        """
        self._W.clamp_(-1.0, 1.0)
        if self._trained != "free":
            self._gain.clamp_(min=0.0)

    def start_from(self, network: FloatNetwork) -> None:
        r"""Start with the levels nearest to a trained network's weights, row by row, and its second layer.

        Latent weights are :math:`w / (s M)` with the scales of `round_to_levels`, clipped to [-1, 1]; the scales
        multiply the second layer. For activations with a linear or constant part, where a scale of the argument is not
        a scale of the value, only the signs of the second layer are used.
        """
        roundings = network.roundings(self.problem.levels)
        scales = np.stack([rounding.scales for rounding in roundings])
        latent = network.factors / np.where(scales > 0.0, scales * self.M, 1.0)[:, :, None]
        lifted = self.problem.activation is not None and self.problem.activation.lifted
        with require_torch().no_grad():
            self._W.copy_(self._W.new_tensor(np.clip(latent, -1.0, 1.0)))
            if lifted:
                if self._trained == "free":
                    self._a.copy_(self._a.abs() * self._a.new_tensor(np.sign(network.alpha)))
                return
            # Second-layer weights on levels, which give about the outputs of the real weights, in units of `network`.
            by = scales[0] * scales[-1]
            wanted = network.alpha * by.reshape((-1,) + (1,) * (network.alpha.ndim - 1))
            wanted *= self.m * self._size / self.units.target
            if self._trained == "free":
                self._a.copy_(self._a.new_tensor(wanted))
            else:
                fixed = self._a.abs().cpu().numpy()
                gain = np.abs(wanted).sum(axis=0) / fixed.sum(axis=0)
                # Analytic scales of these latent weights are nearly one.
                self._gain.copy_(self._gain.new_tensor(gain / self._unit))

    def network(self) -> BilinearNetwork | PolynomialNetwork:
        """Return the network of the levels, in the user's units."""
        q, a = (tensor.detach().cpu().numpy().astype(np.float64) for tensor in self.layers())
        levels = np.rint(q * self.M).astype(np.int8)
        alpha = a * (self.units.target / (self.m * self._size))
        if self.problem.activation is None:
            return BilinearNetwork(levels[0], levels[1], alpha, levels=self.problem.levels)
        return PolynomialNetwork(levels[0], alpha, self.problem.activation)


@dataclass(eq=False, repr=False, kw_only=True)
class _StraightThrough(QuadraticNetworkTrained):
    r"""Base class of `StraightThroughRegressor` and `StraightThroughClassifier`.

    Parameters
    ----------
    levels : int, default=2
        Number of values of a first-layer weight, M + 1; 2 means binary weights.
    second_layer : {"free", "shared", "analytic"}, default="free"
        * "free": every second-layer weight is trained, as a learned scale for each neuron.
        * "shared": one number >= 0 is trained for each output (with alternating signs for polynomial activations). The
          network then has as many bits as one sampled from the relaxation.
        * "analytic": the shared number times the scales :math:`\langle w, q\rangle / \|q\|^2` of the neuron's latent
          weights (for binary weights, their mean magnitude). Gradients flow through the scales. Not available for
          activations with a linear or constant part.
    start : {"random", "float"}, default="random"
        Initial latent weights: random, or from a network of real weights that is trained first, by SGD as in
        `BackpropRegressor`.
    start_epochs : int, default=50
        Number of epochs of that training.
    refit : bool, default=False
        Refit the second layer at the end, by `qsdp.refit` on all samples: one magnitude per output if it is "shared",
        else every weight, which removes neurons that are not needed.
    optimizer : {"adam", "sgd"}, default="adam"
    validation_fraction : float, default=0
        Fraction of the samples held out from training. If positive, the epoch with the smallest loss on these samples
        is kept, else the epoch with the smallest objective.

    Attributes
    ----------
    network_ : BilinearNetwork or PolynomialNetwork
        The network of the best epoch, ``history_.best_epoch``, with int8 weights; its inputs are `network_inputs`.
        After a refit it is bilinear, even if the activation is polynomial.
    start_history_ : History or None
        History of the training of real weights.
    """

    levels: int = 2
    optimizer: str = "adam"
    start: str = "random"
    start_epochs: int = 50
    refit: bool = False

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        warn_of_scales(X)
        options = checked(self, "n_neurons", "start_epochs", "refit")
        m = options["n_neurons"]
        second_layer = check_choice("second_layer", self.second_layer, SECOND_LAYERS)
        activation = get_activation(self.activation)
        if second_layer == "analytic" and activation is not None and activation.lifted:
            raise InvalidInputError(
                "second_layer must be 'free' or 'shared' for an activation with a linear or constant part: scaling "
                f"its argument does not scale its value; got 'analytic' with {activation}"
            )
        start = check_choice("start", self.start, STARTS)
        descent = GradientDescent.from_parameters(self)
        problem, apart = self._problem(X, targets, rng, levels=self.levels, activation=activation)
        training = _LatentTraining(problem, m, descent, second_layer, rng)
        self.start_history_ = None
        if start == "float":
            self.start_history_ = History(measure=history.measure)
            plain = replace(
                descent,
                optimizer="sgd",
                learning_rate=START_RATE,
                n_epochs=options["start_epochs"],
                callback=None,
                patience=None,
            )
            source = FloatTraining(problem, m, plain, "free" if second_layer == "free" else "fixed", rng)
            plain.run(source, rng, self.start_history_, self._score, width=m, held=apart)
            training.start_from(source.network())
        # Levels jump back and forth, so that the last epoch is not the best.
        descent.run(training, rng, history, self._score, width=m, held=apart, best="loss")
        self.network_ = training.network()
        if options["refit"]:
            bilinear = self.network_ if isinstance(self.network_, BilinearNetwork) else from_polynomial(self.network_)
            whole = TrainingProblem(
                self._inputs(X),
                targets,
                beta=self.beta,
                loss=problem.loss,
                activation=bilinear.activation,
                levels=self.levels,
            )
            self.network_ = refit(bilinear, whole, second_layer="shared" if second_layer == "shared" else "free")


class StraightThroughRegressor(_StraightThrough, BaselineRegressor):
    r"""Regression by a network with quantized first-layer weights, trained by the straight-through estimator.

    .. math::

        \min_{w} \sum_i \ell(f(x_i), y_i) + \beta D \sum_j \|\alpha_j\|_1, \qquad
        f(x) = \sum_j \alpha_j (\tilde x^T q(w_j))(\tilde x^T q(w'_j)) \;\text{or}\;
        \sum_j \alpha_j \sigma(x^T q(w_j))

    This is the objective of `TrainingProblem`. The forward pass uses the levels q(w) of latent real weights w. The
    backward pass treats them as the latent weights clipped to [-1, 1] (see `straight_through`). Latent weights are kept
    in that range and exist only during `fit`.

    Notes
    -----
    Bengio, Leonard and Courville, "Estimating or propagating gradients through stochastic neurons" (2013); Courbariaux,
    Bengio and David, BinaryConnect (2015), for the clipped latent weights; Rastegari et al., XNOR-Net (2016), for the
    analytic scales. An epoch takes the operations and the memory of `BackpropRegressor`, plus memory for as many
    numbers as there are latent weights.

    ``qsdp.certify(model.network_, model.training_problem(X, y, model.network_))`` compares the result with the bound on
    every network. For a PolynomialNetwork, certify the result of `qsdp.from_polynomial`.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.baselines import StraightThroughRegressor
    >>> X, y = qsdp.datasets.make_planted(n=200, d=6, n_neurons=3, random_state=0)
    >>> model = StraightThroughRegressor(30, beta=0.1, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    >>> model.network_
    BilinearNetwork(n_neurons=30, n_inputs=7, n_bits=1380, free alpha)
    >>> certificate = qsdp.certify(model.network_, model.training_problem(X, y, model.network_))
    >>> certificate.lower_bound < certificate.objective
    True
    """


class StraightThroughClassifier(_StraightThrough, BaselineClassifier):
    """Classification by a network with quantized first-layer weights, trained by the straight-through estimator.

    The objective, parameters and units are those of `StraightThroughRegressor`.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.baselines import StraightThroughClassifier
    >>> X, y = qsdp.datasets.load_bundled("iris")
    >>> model = StraightThroughClassifier(30, second_layer="shared", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.network_
    BilinearNetwork(n_neurons=30, n_inputs=5, n_outputs=3, n_bits=492, shared alpha)
    """
