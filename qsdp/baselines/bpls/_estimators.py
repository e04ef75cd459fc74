"""Back-propagating least squares as scikit-learn estimators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qsdp._utils.validation import FloatArray, check_choice, check_integer
from qsdp.activations import InvertibleActivation, Softmax, get_invertible
from qsdp.baselines._estimator import BaselineClassifier, BaselineRegressor, accuracy_of, r2_of
from qsdp.baselines._history import History
from qsdp.baselines.bpls._parameters import RIDGE, BPLSBase
from qsdp.baselines.bpls._training import Classification, Regression

__all__ = ["BPLSClassifier", "BPLSRegressor"]


@dataclass(eq=False, repr=False, kw_only=True)
class BPLSRegressor(BPLSBase, BaselineRegressor):
    r"""Regression network whose layers are solved by least squares, one after the other, from the outputs down.

    Of a network :math:`H_l = a_l(H_{l-1} W_l)` with random weights, the last layer is fitted to the targets,
    :math:`W_{L+1} = \arg\min \|H_L W - a^{-1}(Y)\|_F^2`. A rule then says which outputs :math:`N_L` the hidden layer
    should have had, and :math:`a_L^{-1}(N_L)` is the target of the layer below, down to the inputs. No derivative, no
    learning rate, no minibatch.

    Parameters
    ----------
    refit : bool, optional
        Solve the last layer again on the final hidden outputs; on by default.
    keep_best : bool, optional
        Keep, by training loss, the best of all passes and, in each, of the new network and the old hidden layers with
        a fitted last layer; on by default.
    passes : int, default=1
        Passes are repeated from the weights reached.

    Attributes
    ----------
    history_ : History
        An epoch is a pass. `loss` is the mean squared error of the outputs; `extra` has "clipped".

    Notes
    -----
    Every solve is optimal for its own linear problem; the network composed of them is not, unless it is linear: then,
    with hidden layers no narrower than the rank of the inputs and without ridge, it is ordinary least squares,
    whatever the random weights and the rule: the last residual is orthogonal to the inputs.

    Inputs much larger than 1 saturate bounded activations; put a ``StandardScaler`` in front.

    References
    ----------
    S. Tomic, J. P. Matos-Carvalho, M. Beko, "A Closed-form Solution for Weight Optimization in Fully-connected
    Feed-forward Neural Networks", arXiv:2401.06699, 2024; Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.baselines.bpls import BPLSRegressor
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> model = BPLSRegressor(hidden=(20,), ridge=0.0, random_state=0).fit(X, np.sin(3 * X[:, 0]))
    >>> model.score(X, np.sin(3 * X[:, 0])) > 0.99
    True
    """

    refit: bool | None = None
    passes: int = 1

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        settings = self._settings(linear_ridge=0.0)
        passes = check_integer("passes", self.passes, minimum=1)
        Y = targets if targets.ndim == 2 else targets[:, None]
        network = self._start(settings, X, Y.shape[1], rng)
        training = Regression(
            network,
            X,
            Y,
            lambda outputs: r2_of(settings.output(outputs), Y),
            refit=self._literal_default("refit", self.refit),
            keep_best=self._literal_default("keep_best", self.keep_best),
        )
        self._run(training, passes, history)
        self._layers = self.network_.layers(scalar=targets.ndim == 1, activated=True)

    def _outputs(self, X: FloatArray) -> FloatArray:
        values = self.network_.settings.output(self.network_.preactivations(X))
        return values if self._layers[-1].form.vector else values[:, 0]


@dataclass(eq=False, repr=False, kw_only=True)
class BPLSClassifier(BPLSBase, BaselineClassifier):
    r"""Classification network by least squares: one pass over all samples, then passes over the misclassified ones.

    The passes are those of `BPLSRegressor` for one-hot targets, with a second solve of every layer but the first on
    the desired hidden outputs. A pass over the m misclassified of S samples is blended into the weights,
    :math:`W \leftarrow (1 - m/S) W + (m/S) W'`, as long as m falls.

    Parameters
    ----------
    output_activation : str or InvertibleActivation, default="softmax"
        The one-hot targets are cut by `eps_target` into its range.
    ridge : float, optional
        r >= 0 of :math:`r S \|W\|_F^2` in every solve over S samples; 0 is minimum norm. Default 0.001, with
        a hidden softmax layer 1e-6.
    eps_target : float, default=0.001
        The predicted classes of a softmax output do not depend on it, the sharpness of its probabilities does.
    eps_hidden : float or sequence of float, optional
        Distance from the ends of the activation's range at which desired hidden values are cut; it matters. Default
        0.01, for softmax a twentieth of one over the width.
    tau_max : int, default=40
        Largest number of passes over the misclassified samples.
    stop : {"no_improvement", "none"}, optional
        Stop when the misses do not fall (default), or make all `tau_max` passes.
    miss_forward : {"current", "random"}, default="current"
        The network whose hidden outputs those passes start from.
    keep_best : bool, optional
        Keep the pass of the fewest misses; on by default.
    literal : bool, default=False
        As in `BPLSRegressor`, and ``stop="none"`` (the printed ``or`` runs all rounds).

    Attributes
    ----------
    history_ : History
        An epoch is a pass. `loss` is the mean squared error of the activated outputs and the one-hot targets; `extra`
        has "misses" and "clipped". The last pass is recorded also where it was worse and is not kept.
    layers_ : list of TrainedLayer
        Up to the outputs before their activation.

    Notes
    -----
    The outputs of a softmax hidden layer are about one over its width, and most of its desired ones fall outside the
    activation's range and are cut. With the ridge of other activations such a network ends below a linear classifier on
    MNIST; with the smaller one of its default it does as well as without, as in the paper. The default sigmoid does
    better on most sets.

    Time a pass over S samples is :math:`O(S n^2)` for the widest design of n columns, memory :math:`O(S \sum_l n_l)`.

    References
    ----------
    S. Tomic, J. P. Matos-Carvalho, M. Beko, "A Closed-form Solution for Weight Optimization in Fully-connected
    Feed-forward Neural Networks", arXiv:2401.06699, 2024; Algorithm 2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from qsdp.baselines.bpls import BPLSClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BPLSClassifier(random_state=0).fit(X[:1000] / 16, y[:1000])
    >>> model.score(X[1000:] / 16, y[1000:]) > 0.85
    True
    """

    output_activation: str | InvertibleActivation = "softmax"
    tau_max: int = 40
    stop: str | None = None
    miss_forward: str = "current"

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        settings = self._settings(linear_ridge=RIDGE)
        tau_max = check_integer("tau_max", self.tau_max, minimum=0)
        stop = ("none" if self.literal else "no_improvement") if self.stop is None else self.stop
        codes = np.argmax(targets, axis=1)
        network = self._start(settings, X, targets.shape[1], rng)
        training = Classification(
            network,
            X,
            targets,
            lambda outputs: accuracy_of(outputs, codes),
            codes=codes,
            keep_best=self._literal_default("keep_best", self.keep_best),
            stop=check_choice("stop", stop, ["no_improvement", "none"]),
            miss_forward=check_choice("miss_forward", self.miss_forward, ["current", "random"]),
        )
        self._run(training, 1 + tau_max, history)
        self._layers = self.network_.layers(scalar=False, activated=False)

    def _outputs(self, X: FloatArray) -> FloatArray:
        return self.network_.preactivations(X)

    def _probability_loss(self) -> str:
        if not isinstance(get_invertible("output_activation", self.output_activation), Softmax):
            raise AttributeError("predict_proba needs output_activation='softmax'")
        return "cross_entropy"
