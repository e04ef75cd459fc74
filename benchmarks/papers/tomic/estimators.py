"""Back-propagating least squares as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.methods.activations import Identity, InvertibleActivation, Softmax, get_invertible
from benchmarks.methods.layers import check_hidden
from benchmarks.papers.tomic.network import BIASES, BPLSSettings, Network, random_weights
from benchmarks.papers.tomic.passes import HIDDEN_TARGETS
from benchmarks.papers.tomic.training import BPLSReport, BPLSTraining, Classification, Regression, references
from qsdp._utils.outputs import squeezed
from qsdp._utils.parallel import count_jobs
from qsdp._utils.validation import FloatArray, check_choice, check_flag, check_integer, check_real
from qsdp.baselines._estimator import Baseline, BaselineClassifier, BaselineRegressor, accuracy_of, checked, r2_of
from qsdp.baselines._history import History, train_epochs
from qsdp.baselines._layers import TrainedLayer, per_layer

__all__ = ["RIDGE", "BPLSBase", "BPLSClassifier", "BPLSRegressor"]


#: Losses that other systems support, and why this one does not.
_EXCLUDED_LOSSES = dict.fromkeys(
    ("absolute", "cross_entropy", "cross-entropy", "epsilon-insensitive", "hinge", "huber", "logistic", "log_loss"),
    "every layer is solved in closed form as linear least squares, and it has no closed form",
)

#: Default ridges of networks that are not linear, and of those with a hidden softmax layer, whose outputs are about one
#: over the width, so that their squares are far below 1e-3. Test accuracies with softmax and a ridge of 1e-3, 1e-6 and
#: none, in percent: MNIST (20 000 images, two seeds) 78, 87, 86; digits 86, 91, 93; iris 91, 97, 75; wine 99, 98, 98;
#: breast cancer 95, 94, 94.
RIDGE, SOFTMAX_RIDGE = 1e-3, 1e-6

#: Distance at which desired hidden values are clipped with ``literal=True``; the paper does not mention clipping.
_LITERAL_EPS = 1e-6

_SUGGESTION = "a larger ridge, a larger eps_hidden or standardised inputs"


class _FittedBPLS:
    """Declarations of the attributes that `fit` sets."""

    _layers: Sequence[TrainedLayer]
    network_: Network
    report_: BPLSReport


@dataclass(eq=False, repr=False, kw_only=True)
class BPLSBase(Baseline, _FittedBPLS):
    r"""Base class of `BPLSRegressor` and `BPLSClassifier`.

    Parameters
    ----------
    hidden : int or sequence of int, default=(50,)
        Width of the hidden layer, or of each of several. An empty sequence gives ordinary least squares.
    activation : str, InvertibleActivation or sequence of them, default="sigmoid"
        Activation of all hidden layers, or one for each: "elu", "identity", "leaky_relu", "sigmoid", "softmax",
        "softplus" or "tanh".
    output_activation : str or InvertibleActivation, default="identity"
    hidden_target : str, optional
        "relax" (default), "damped", "ls", "gauss-seidel", "minnorm", "first" or "mean"; see `hidden_target`.
    ridge : float, optional
        Coefficient r >= 0 of the penalty :math:`r S \|W\|_F^2` in every solve over S samples. The default is 0 (minimum
        norm) if the network is linear, 1e-6 with a hidden softmax layer, else 0.001.
    eps_target : float, default=0.001
        Distance from the ends of the output activation's range at which targets are clipped.
    eps_hidden : float or sequence of float, optional
        The same distance for desired hidden values, which affects the result. The default is 0.01, and for softmax a
        twentieth of one over the width.
    bias : {"input", "all", "none"}, default="input"
        Which layers have a bias.
    loss : {"squared"}, default="squared"
        No other loss has a closed form.
    literal : bool, default=False
        Follow the paper as printed, except for its matrix inverse. Parameters that are not given then default to
        ``hidden_target="first"``, ``ridge=0`` and ``eps_hidden=1e-6``; there is no refit, and the last pass is kept.
    references : bool, default=False
        Also fit a linear model (in regression, without ridge) and random hidden layers with a fitted readout (with the
        same ridge), and add both to the report.
    n_jobs : int, optional
        Number of threads that share the columns of a solve; the result does not depend on it.
    random_state : int, Generator, RandomState or None
        Seed of the initial weights, which are uniform on [-1, 1].
    callback : callable, optional
        Function called with the history after every pass; training stops when it returns True. At that time, the
        estimator has `report_` and the `network_` of the best pass so far.

    Attributes
    ----------
    report_ : BPLSReport
        Rank and condition number of every design matrix, fraction of clipped values, and seconds.
    network_ : Network
    """

    hidden: int | Sequence[int] = field(default=(50,), kw_only=False)
    activation: str | InvertibleActivation | Sequence[str | InvertibleActivation] = "sigmoid"
    output_activation: str | InvertibleActivation = "identity"
    hidden_target: str | None = None
    ridge: float | None = None
    eps_target: float = 1e-3
    eps_hidden: float | Sequence[float] | None = None
    keep_best: bool | None = None
    bias: str = "input"
    loss: str = "squared"
    literal: bool = False
    references: bool = False
    n_jobs: int | None = None

    @property
    def layers_(self) -> Sequence[TrainedLayer]:
        """The trained network as a chain of affine layers."""
        return self._layers

    def _settings(self, *, linear_ridge: float) -> BPLSSettings:
        """Return the checked hyper-parameters; `linear_ridge` is the default ridge of a linear network."""
        check_choice("loss", self.loss, ["squared"], _EXCLUDED_LOSSES)
        literal = checked(self, "literal", "references", "verbose")["literal"]
        widths = check_hidden(self.hidden)
        activations = tuple(
            get_invertible("activation", each)
            for each in per_layer("activation", self.activation, len(widths), "hidden layer")
        )
        output = get_invertible("output_activation", self.output_activation)
        rule = ("first" if literal else "relax") if self.hidden_target is None else self.hidden_target
        ridge = self.ridge
        if ridge is None:
            linear = all(isinstance(each, Identity) for each in (*activations, output))
            small = any(isinstance(each, Softmax) for each in activations)
            ridge = 0.0 if literal else linear_ridge if linear else SOFTMAX_RIDGE if small else RIDGE
        given = per_layer("eps_hidden", self.eps_hidden, len(widths), "hidden layer")
        eps_hidden = tuple(
            activation.check_eps("eps_hidden", eps)
            if eps is not None
            else (_LITERAL_EPS if literal else activation.default_eps(width))
            for activation, width, eps in zip(activations, widths, given, strict=True)
        )
        return BPLSSettings(
            activations,
            output,
            check_choice("hidden_target", rule, HIDDEN_TARGETS),
            check_real("ridge", ridge),
            output.check_eps("eps_target", self.eps_target),
            eps_hidden,
            check_choice("bias", self.bias, BIASES),
            count_jobs(self.n_jobs),
        )

    def _literal_default(self, name: str, value: bool | None) -> bool:
        """Return whether a repair of the published algorithm is on: by default it is, but not with ``literal=True``."""
        return not self.literal if value is None else check_flag(name, value)

    def _start(self, settings: BPLSSettings, X: FloatArray, n_outputs: int, rng: np.random.Generator) -> Network:
        widths = [*check_hidden(self.hidden), n_outputs]
        return Network(random_weights(X.shape[1], widths, settings.bias, rng), settings)

    def _run(self, training: BPLSTraining, n_passes: int, history: History) -> None:
        """Train, updating the network and the report after every pass so that callbacks can inspect them."""
        if self.references:
            training.report.references.update(references(training))

        def keep() -> None:
            self.report_, self.network_ = training.report, training.kept

        def callback(history: History) -> object:
            keep()
            return user(history)

        user: Any = self.callback
        train_epochs(
            training.train,
            training.measure,
            n_passes,
            get_state=lambda: training.network,
            set_state=lambda network: setattr(training, "network", network),
            history=history,
            suggestion=_SUGGESTION,
            callback=callback if callable(user) else user,
            verbose=self.verbose,
            name="BPLS",
        )
        keep()


@dataclass(eq=False, repr=False, kw_only=True)
class BPLSRegressor(BPLSBase, BaselineRegressor):
    r"""Regression network whose layers are solved by least squares, one after the other, from the outputs down.

    In a network :math:`H_l = a_l(H_{l-1} W_l)` with random weights, the last layer is fitted to the targets,
    :math:`W_{L+1} = \arg\min \|H_L W - a^{-1}(Y)\|_F^2`. A rule then sets the outputs :math:`N_L` desired of the hidden
    layer. The target of the layer below is :math:`a_L^{-1}(N_L)`, and so on down to the inputs. The method uses no
    derivatives, learning rate or minibatches.

    Parameters
    ----------
    refit : bool, optional
        Solve the last layer again on the final hidden outputs; on by default.
    keep_best : bool, optional
        Keep the pass with the smallest training loss. Within each pass, also keep the better of the new network and the
        old hidden layers with a fitted last layer. On by default.
    passes : int, default=1
        Number of passes; each starts from the weights of the previous one.

    Attributes
    ----------
    history_ : History
        Each pass is an epoch. `loss` is the mean squared error of the outputs; `extra` has "clipped".

    Notes
    -----
    Every solve is optimal for its own linear problem, but the resulting network is optimal only if it is linear. If its
    hidden layers are then no narrower than the rank of the inputs and there is no ridge, it is ordinary least squares
    for any random weights and rule, because the last residual is orthogonal to the inputs.

    Inputs much larger than 1 saturate bounded activations; put a ``StandardScaler`` in front.

    References
    ----------
    S. Tomic, J. P. Matos-Carvalho, M. Beko, "A Closed-form Solution for Weight Optimization in Fully-connected
    Feed-forward Neural Networks", arXiv:2401.06699, 2024; Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.papers.tomic import BPLSRegressor
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
        outputs: FloatArray = squeezed(values, self._layers[-1].form.output_shape, axis=1)
        return outputs


@dataclass(eq=False, repr=False, kw_only=True)
class BPLSClassifier(BPLSBase, BaselineClassifier):
    r"""Classification network by least squares: one pass over all samples, then passes over the misclassified ones.

    The passes are those of `BPLSRegressor` for one-hot targets, but every layer except the first is solved a second
    time on the desired hidden outputs. A pass over the m misclassified of S samples is blended into the weights,
    :math:`W \leftarrow (1 - m/S) W + (m/S) W'`, as long as m falls.

    Parameters
    ----------
    output_activation : str or InvertibleActivation, default="softmax"
        Activation of the outputs. `eps_target` cuts the one-hot targets to its range.
    ridge : float, optional
        As in `BPLSRegressor`, but the default is 0.001 for a linear network, too.
    eps_target : float, default=0.001
        For a softmax output, the predicted classes do not depend on it, but the sharpness of the probabilities does.
    tau_max : int, default=40
        Maximum number of passes over the misclassified samples.
    stop : {"no_improvement", "none"}, optional
        Stop when the number of misses does not fall (default), or make all `tau_max` passes.
    miss_forward : {"current", "random"}, default="current"
        Network whose hidden outputs are the start of these passes.
    keep_best : bool, optional
        Keep the pass with the fewest misses; on by default.
    literal : bool, default=False
        As in `BPLSRegressor`, and ``stop="none"`` (the printed ``or`` runs all rounds).

    Attributes
    ----------
    history_ : History
        Each pass is an epoch. `loss` is the mean squared error between the activated outputs and the one-hot targets;
        `extra` has "misses" and "clipped". The last pass is recorded even if it was worse and is not kept.
    layers_ : list of TrainedLayer
        Layers up to the outputs before their activation.

    Notes
    -----
    The outputs of a softmax hidden layer are about one over its width. Most of its desired outputs fall outside the
    activation's range and are clipped. With the ridge of other activations, such a network ends below a linear
    classifier on MNIST. With its smaller default ridge, it does as well as without ridge, as in the paper. The default
    sigmoid does better on most data sets.

    A pass over S samples takes time :math:`O(S n^2)`, where n is the number of columns of the widest design matrix, and
    memory :math:`O(S \sum_l n_l)`.

    This is algorithm 2 of the reference of `BPLSRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from benchmarks.papers.tomic import BPLSClassifier
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
