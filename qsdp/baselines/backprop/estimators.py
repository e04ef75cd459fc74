"""The paper's networks trained by backpropagation, as scikit-learn estimators."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.validation import FloatArray, check_choice, check_integer
from qsdp.baselines._estimator import BaselineClassifier, BaselineRegressor, hold_out
from qsdp.baselines._history import History
from qsdp.baselines._layers import TrainedLayer
from qsdp.baselines.backprop._descent import descent_of
from qsdp.baselines.backprop._face import QuadraticNetworkTrained
from qsdp.baselines.backprop._training import FloatTraining
from qsdp.networks import BilinearNetwork, PolynomialNetwork
from qsdp.problem import TrainingProblem

__all__ = ["BackpropClassifier", "BackpropRegressor"]

SECOND_LAYERS = ("fixed", "free")


class _Backprop(QuadraticNetworkTrained):
    """What regressor and classifier share."""

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        m = check_integer("n_neurons", self.n_neurons, minimum=1)
        check_choice("second_layer", self.second_layer, SECOND_LAYERS)
        descent = descent_of(self)
        inputs, (rows, held) = self._inputs(X), hold_out(self.validation_fraction, len(X), rng)
        problem = TrainingProblem(
            inputs[rows], targets[rows], beta=self.beta, loss=self._checked_loss(), activation=self.activation
        )
        training = FloatTraining(problem, m, descent, self.second_layer, rng)
        self._descend(training, descent, rng, history, width=m, held=(inputs[held], targets[held]))
        self.float_network_ = training.network()

    def _outputs(self, X: FloatArray) -> FloatArray:
        return self.float_network_.predict(self._inputs(X))

    @property
    def layers_(self) -> tuple[TrainedLayer, ...]:
        """The network as one quadratic layer."""
        return self._layers_of(self.float_network_.to_quadratic_form())

    def quantized(
        self, levels: int = 2, *, scale: str = "auto", corrected: bool = True
    ) -> BilinearNetwork | PolynomialNetwork:
        """Return the trained network with first-layer weights rounded; see `FloatNetwork.quantized`.

        It takes `network_inputs`. ``qsdp.refit(network, model.training_problem(X, y, network))`` chooses its second
        layer by the data, ``qsdp.certify`` of the same compares it with the bound on every quantized network.
        """
        check_is_fitted(self)
        return self.float_network_.quantized(levels, scale=scale, corrected=corrected)


class BackpropRegressor(_Backprop, BaselineRegressor):
    r"""Regression by a two-layer bilinear or polynomial network with real weights, trained by SGD with momentum.

    .. math::

        \min_{u, v, \alpha} \sum_i \ell(f(x_i), y_i)
        + \beta \sum_j \|\alpha_j\|_1 \tfrac12 (\|u_j\|^2 + \|v_j\|^2), \qquad
        f(x) = \sum_j \alpha_j (\tilde x^T u_j)(\tilde x^T v_j) \;\text{or}\; \sum_j \alpha_j \sigma(x^T q_j)

    with :math:`\tilde x = (x, 1)`. On weights -1 and +1 this is the objective of `TrainingProblem`, and so comparable
    with that of every quantized network and with the bounds on it; see `FloatNetwork.penalty`.

    Parameters
    ----------
    n_neurons : int, default=100
        m.
    activation : None, str, (a, b, c) or PolynomialActivation, default=None
        None is bilinear. "relu" is the polynomial 0.0937 t² + 0.5 t + 0.4688, see `PolynomialActivation`; networks of
        true ReLUs are `ReLUNetworkRegressor`.
    second_layer : {"free", "fixed"}, default="free"
        Train the second layer, or leave it at 1/m as the paper does (for polynomial activations :math:`\pm 1/m` in
        turn), times the root mean square of real targets. With several outputs fixed neurons are divided among them,
        each with one over their number.
    loss : {"squared", "absolute", "huber"} or Loss, default="squared"
        Summed over samples; of the classes of `qsdp.losses`.
    beta : float, default=0.1
        Regularisation, >= 0.
    constant_column : bool, default=True
        Append a column of ones, unless the activation has a linear or constant part.
    learning_rate : float, default=0.1
        Of the mean over samples, for data and targets in units of their own size (see `Notes`), times m for SGD.
    momentum : float, default=0.9
        From 0 to below 1. The first of Adam's two.
    clip : float or None, default=1.0
        Gradients of larger norm, that of all neurons together in units of :math:`1/\sqrt m`, are shortened to it.
        SGD on these networks, whose squared errors are of degree four in weights and data, diverges on rows far
        from the others at rates that the rest of the data need.
    optimizer : {"sgd", "adam"}, default="sgd"
    schedule : {"cosine", "constant"}, default="cosine"
        The learning rate falls to zero along half a wave, or stays.
    batch_size : int, default=32
    n_epochs : int, default=50
    validation_fraction : float, default=0
        Share of the samples that is not trained on; with one, kept is the epoch with the least loss on it.
    patience : int, optional
        Stop after as many epochs without a smaller loss on those samples (without them, a smaller objective).
    device : str, optional
        Of PyTorch, such as "cuda"; the CPU by default.
    dtype : {"float64", "float32"}, default="float64"
        Of the training.
    callback : callable, optional
        Called with the history after every epoch; training stops when it returns True.
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, Generator, RandomState or None
        Of start and order of samples.

    Attributes
    ----------
    float_network_ : FloatNetwork
        The trained network; it takes `network_inputs`.
    layers_ : tuple of TrainedLayer
        The same as one quadratic form of the data.
    history_ : History
        The objective, summed over samples, and the score after every epoch; with samples held out also
        ``extra["validation_loss"]``, a mean over them, and ``extra["validation_score"]``.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    Notes
    -----
    Sections 5 and D of Bartan and Pilanci. Their regulariser, initial weights, batch size and number of epochs are not
    stated.

    Data are divided by the root mean square norm of their rows, targets by their root mean square, and weights start
    standard normal: steps mean the same whatever the units. The gradient of a neuron is of order 1/m, hence
    the factor m of SGD's steps, which makes learning rates independent of the width.

    An epoch takes about 6 k n m D operations (k = 2 for bilinear networks, else 1) and memory for the weights, two
    copies of them for the optimiser and one for divergences, and batch_size times k m values.

    A loss that is not finite ends the training with a warning; the parameters are those of the last finite epoch.

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
    BilinearNetwork(n_neurons=20, n_inputs=7, n_bits=1560, free alpha)
    """


class BackpropClassifier(_Backprop, BaselineClassifier):
    """Classification by a two-layer bilinear or polynomial network with real weights, trained by SGD with momentum.

    Two classes are one output fitted to -1 and +1, more are one output each, coded for the loss as in
    `qsdp.QuantizedNetworkClassifier`. Objective, parameters and units are those of `BackpropRegressor`.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        Any of `qsdp.losses.LOSSES`; "logistic" and "cross_entropy" give probabilities.
    n_neurons, activation, second_layer, beta, constant_column, learning_rate, momentum, clip, optimizer, schedule, \
batch_size, n_epochs, validation_fraction, patience, device, dtype, callback, verbose, random_state
        As in `BackpropRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
    float_network_, layers_, history_, n_features_in_, feature_names_in_
        As there.

    Examples
    --------
    >>> import qsdp
    >>> from sklearn.preprocessing import StandardScaler
    >>> from qsdp.baselines import BackpropClassifier
    >>> X, y = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
    >>> X = StandardScaler().fit_transform(X)
    >>> model = BackpropClassifier(30, second_layer="fixed", n_epochs=10, random_state=0).fit(X[:400], y[:400])
    >>> model.score(X[400:], y[400:]) > 0.9
    True
    >>> network = model.quantized(scale="shared")
    >>> network.n_bits == 2 * 30 * 31 + 64
    True
    """
