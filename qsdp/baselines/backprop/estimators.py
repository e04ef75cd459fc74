"""The paper's networks trained by backpropagation, as scikit-learn estimators."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.baselines._estimator import BaselineClassifier, BaselineRegressor, checked
from qsdp.baselines._history import History
from qsdp.baselines.backprop._face import QuadraticNetworkTrained
from qsdp.baselines.backprop._training import FloatTraining, GradientDescent
from qsdp.baselines.backprop.networks import FloatNetwork
from qsdp.networks import BilinearNetwork, PolynomialNetwork

__all__ = ["BackpropClassifier", "BackpropRegressor"]

SECOND_LAYERS = ("fixed", "free")


class _Backprop(QuadraticNetworkTrained):
    r"""What regressor and classifier share.

    Parameters
    ----------
    second_layer : {"free", "fixed"}, default="free"
        Train the second layer, or leave it at 1/m as the paper does (for polynomial activations :math:`\pm 1/m` in
        turn), times the root mean square of real targets. With several outputs fixed neurons are divided among them,
        each with one over their number.

    Attributes
    ----------
    network_ : FloatNetwork
        The trained network; it takes `network_inputs`.
    """

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        m = checked(self, "n_neurons")["n_neurons"]
        check_choice("second_layer", self.second_layer, SECOND_LAYERS)
        descent = GradientDescent.of(self)
        problem, apart = self._problem(X, targets, rng, activation=self.activation)
        training = FloatTraining(problem, m, descent, self.second_layer, rng)
        descent.run(training, rng, history, self._score, width=m, held=apart)
        self.network_ = training.network()

    def quantized(
        self, levels: int = 2, *, scale: str = "auto", corrected: bool = True
    ) -> BilinearNetwork | PolynomialNetwork:
        """Return the trained network with first-layer weights rounded; see `FloatNetwork.quantized`.

        It takes `network_inputs`. ``qsdp.refit(network, model.training_problem(X, y, network))`` chooses its second
        layer by the data, ``qsdp.certify`` of the same compares it with the bound on every quantized network.
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

    with :math:`\tilde x = (x, 1)`. On weights -1 and +1 this is the objective of `TrainingProblem`, and so comparable
    with that of every quantized network and with the bounds on it; see `FloatNetwork.penalty`.

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

    Objective, parameters and units are those of `BackpropRegressor`.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.baselines import BackpropClassifier
    >>> X, y = qsdp.datasets.load_bundled("iris")
    >>> BackpropClassifier(30, n_epochs=30, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """
