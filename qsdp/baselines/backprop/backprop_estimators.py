"""The paper's networks trained by backpropagation, as scikit-learn estimators, and their base classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.validation import FloatArray, check_choice, check_flag, check_targets
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.baselines._estimator import Baseline, BaselineClassifier, BaselineRegressor, checked, hold_out
from qsdp.baselines._history import History
from qsdp.baselines._layers import TrainedLayer
from qsdp.baselines.backprop._training import DescentParameters, FloatTraining, GradientDescent
from qsdp.baselines.backprop.float_networks import FloatNetwork
from qsdp.estimators.classes import encode_classes
from qsdp.exceptions import InvalidInputError
from qsdp.lifting import append_constant
from qsdp.losses import Loss, get_loss
from qsdp.networks import BilinearNetwork, PolynomialNetwork, from_polynomial
from qsdp.problem import TrainingProblem

__all__ = ["BackpropClassifier", "BackpropRegressor", "GradientTrained", "QuadraticNetworkTrained"]


class _FittedNetwork:
    """Declarations of further attributes that `fit` sets."""

    network_: Any


@dataclass(eq=False, repr=False, kw_only=True)
class GradientTrained(DescentParameters, Baseline, _FittedNetwork):
    r"""A network trained by automatic gradients on a loss of `qsdp.losses`.

    Parameters
    ----------
    n_neurons : int, default=100
        Number of neurons, m.
    loss : str or Loss, default="squared"
        Loss, summed over samples. Real targets allow "squared", "absolute" or "huber". Classes allow any of
        `qsdp.losses.LOSSES` and are coded as in `qsdp.QuantizedNetworkClassifier`: two classes are one output fitted to
        -1 and +1, more classes are one output each. "logistic" and "cross_entropy" give probabilities.
    beta : float, default=0.1
        Regularisation strength, >= 0.
    validation_fraction : float, default=0
        Fraction of the samples held out from training. If positive, the epoch with the smallest loss on these samples
        is kept.

    Attributes
    ----------
    history_ : History
        Objective, summed over samples, and score after every epoch. If samples are held out, it also has
        ``extra["validation_loss"]``, their mean loss, and ``extra["validation_score"]``.
    """

    n_neurons: int = field(default=100, kw_only=False)
    loss: str | Loss = "squared"
    beta: float = 0.1
    validation_fraction: float = 0.0

    def _encode(self, codes: npt.NDArray[np.intp], n_classes: int) -> FloatArray:
        """Return targets coded as in `QuantizedNetworkClassifier`: two classes are one output."""
        return encode_classes(codes, n_classes, get_loss(self.loss))

    def _inputs(self, X: FloatArray) -> FloatArray:
        """Return the inputs of the network for checked data."""
        return X

    def _outputs(self, X: FloatArray) -> FloatArray:
        outputs: FloatArray = self.network_.predict(self._inputs(X))
        return outputs

    def _problem(
        self, X: FloatArray, targets: FloatArray, rng: np.random.Generator, **options: Any
    ) -> tuple[TrainingProblem, tuple[FloatArray, FloatArray]]:
        """Return the problem of the training samples, and inputs and targets of the held-out samples."""
        inputs, (rows, held) = self._inputs(X), hold_out(self.validation_fraction, len(X), rng)
        loss = get_loss(self.loss)
        if not is_classifier(self) and loss.for_classes:
            raise InvalidInputError(f"loss must be a loss of real targets for a regressor; got {self.loss!r}")
        problem = TrainingProblem(inputs[rows], targets[rows], beta=self.beta, loss=loss, **options)
        return problem, (inputs[held], targets[held])

    def _probability_loss(self) -> Loss:
        loss = get_loss(self.loss)
        if not loss.probabilistic:
            raise AttributeError(
                "predict_proba needs a loss that models probabilities, 'logistic' or 'cross_entropy'; got "
                f"{self.loss!r}"
            )
        return loss


@dataclass(eq=False, repr=False, kw_only=True)
class QuadraticNetworkTrained(GradientTrained):
    """A trained network that is a quadratic function: bilinear, or with a polynomial activation.

    Parameters
    ----------
    activation : None, str, (a, b, c) or PolynomialActivation, default=None
        As in `qsdp.TrainingProblem`; None means bilinear. For ReLU networks, use `ReLUNetworkRegressor` and
        `ReLUNetworkClassifier`.
    constant_column : bool, default=True
        Append a column of ones, unless the activation has a linear or constant part.

    Attributes
    ----------
    layers_ : tuple of TrainedLayer
        The network as one quadratic form of the data.
    """

    activation: str | Sequence[float] | PolynomialActivation | None = None
    second_layer: str = "free"
    constant_column: bool = True

    def network_inputs(self, X: Any) -> FloatArray:
        """Return the inputs of the network for data X, with a column of ones where `constant_column` appends it."""
        return self._inputs(self._checked(X))

    def training_problem(
        self, X: Any, y: Any, network: BilinearNetwork | PolynomialNetwork | None = None
    ) -> TrainingProblem:
        """Return the training problem of the data in the units of `fit`, for `qsdp.refit` and `qsdp.certify`.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like
            As in `fit`.
        network : BilinearNetwork or PolynomialNetwork, optional
            Network whose levels and activation the problem gets. By default, weights are binary and the activation is
            the trained one. For a PolynomialNetwork, they are taken from the result of `qsdp.from_polynomial`, which
            is the network to certify.
        """
        check_is_fitted(self)
        levels, activation = 2, get_activation(self.activation)
        if network is not None:
            bilinear = network if isinstance(network, BilinearNetwork) else from_polynomial(network)
            levels, activation = bilinear.levels, bilinear.activation
        if is_classifier(self):
            codes = {label: number for number, label in enumerate(self.classes_.tolist())}
            numbers = [codes.get(label, -1) for label in np.asarray(y).tolist()]
            if -1 in numbers:
                raise InvalidInputError(f"y must hold labels of the classes {self.classes_.tolist()} only")
            targets = self._encode(np.array(numbers, dtype=np.intp), len(self.classes_))
        else:
            targets = check_targets("y", y, length=None)
        inputs = self.network_inputs(X)
        return TrainingProblem(
            inputs, targets, beta=self.beta, loss=get_loss(self.loss), activation=activation, levels=levels
        )

    def _inputs(self, X: FloatArray) -> FloatArray:
        activation = get_activation(self.activation)
        lifted = activation is not None and activation.lifted
        return append_constant(X) if check_flag("constant_column", self.constant_column) and not lifted else X

    @property
    def layers_(self) -> tuple[TrainedLayer, ...]:
        """The network as one quadratic layer, a function of the data."""
        form, d = self.network_.to_quadratic_form(), self.n_features_in_
        return (TrainedLayer(form if form.n_inputs == d else form.with_last(1.0)),)


SECOND_LAYERS = ("fixed", "free")


class _Backprop(QuadraticNetworkTrained):
    r"""Base class of `BackpropRegressor` and `BackpropClassifier`.

    Parameters
    ----------
    second_layer : {"free", "fixed"}, default="free"
        "free" trains the second layer. "fixed" leaves it at 1/m as the paper does (for polynomial activations,
        alternating :math:`\pm 1/m`), times the root mean square of real targets. With several outputs, fixed neurons
        are divided among the outputs, each with one over the number of neurons of its output.

    Attributes
    ----------
    network_ : FloatNetwork
        The trained network; its inputs are `network_inputs`.
    """

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        m = checked(self, "n_neurons")["n_neurons"]
        check_choice("second_layer", self.second_layer, SECOND_LAYERS)
        descent = GradientDescent.from_parameters(self)
        problem, apart = self._problem(X, targets, rng, activation=self.activation)
        training = FloatTraining(problem, m, descent, self.second_layer, rng)
        descent.run(training, rng, history, self._score, width=m, held=apart)
        self.network_ = training.network()

    def quantized(
        self, levels: int = 2, *, scale: str = "auto", corrected: bool = True
    ) -> BilinearNetwork | PolynomialNetwork:
        """Return the trained network with first-layer weights rounded; see `FloatNetwork.quantized`.

        Its inputs are `network_inputs`. ``qsdp.refit(network, model.training_problem(X, y, network))`` fits its second
        layer to the data. ``qsdp.certify`` with the same arguments compares it with the bound on every quantized
        network.
        """
        check_is_fitted(self)
        network: FloatNetwork = self.network_
        return network.quantized(levels, scale=scale, corrected=corrected)


class BackpropRegressor(_Backprop, BaselineRegressor):
    r"""Regression by a two-layer bilinear or polynomial network with real weights, trained by SGD with momentum.

    .. math::

        \min_{u, v, \alpha} \sum_i \ell(f(x_i), y_i)
        + \beta \sum_j \|\alpha_j\|_1 \tfrac12 (\|u_j\|^2 + \|v_j\|^2), \qquad
        f(x) = \sum_j \alpha_j (\tilde x^T u_j)(\tilde x^T v_j) \;\text{or}\; \sum_j \alpha_j \sigma(x^T q_j)

    with :math:`\tilde x = (x, 1)`. For weights -1 and +1, this is the objective of `TrainingProblem`. It is therefore
    comparable with the objective of every quantized network and with the bounds on it; see `FloatNetwork.penalty`.

    Notes
    -----
    The method is from sections 5 and D of Bartan and Pilanci, who do not state their regulariser, initial weights,
    batch size and number of epochs.

    Data are divided by the root mean square norm of their rows and targets by their root mean square. Initial weights
    are standard normal. A step therefore has the same effect in any units. The gradient of a neuron is of order 1/m, so
    SGD's steps have a factor m, which makes learning rates independent of the width.

    An epoch takes about 6 k n m D operations (k = 2 for bilinear networks, else 1). It needs memory for the weights,
    two copies of them for the optimiser and one in case of divergence, and batch_size times k m values.

    If the loss is not finite, training ends with a warning and the parameters of the last finite epoch are kept.

    See Also
    --------
    qsdp.QuantizedNetworkRegressor : The same architectures trained by convex optimization.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.baselines import BackpropRegressor
    >>> X, y = qsdp.datasets.make_planted(n=200, d=6, n_neurons=3, random_state=0)
    >>> model = BackpropRegressor(20, beta=1e-3, n_epochs=40, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.99
    True
    >>> model.quantized(levels=2)
    BilinearNetwork(n_neurons=20, n_inputs=7, n_bits=920, free alpha)
    """


class BackpropClassifier(_Backprop, BaselineClassifier):
    """Classification by a two-layer bilinear or polynomial network with real weights, trained by SGD with momentum.

    The objective, parameters and units are those of `BackpropRegressor`.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.baselines import BackpropClassifier
    >>> X, y = qsdp.datasets.load_bundled("iris")
    >>> BackpropClassifier(30, n_epochs=30, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """
