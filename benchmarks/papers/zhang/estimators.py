"""scikit-learn estimators trained by recursive least squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from benchmarks.methods.activations import (
    DIFFERENTIABLE,
    Identity,
    InvertibleActivation,
    Softmax,
    get_differentiable,
    get_invertible,
)
from benchmarks.methods.layers import check_hidden, trained_layer
from benchmarks.papers.zhang.numpy_network import NumpyNetwork, NumpyRLS, initial_parameters, loss_and_gradient
from benchmarks.papers.zhang.settings import SUGGESTION, RLSParameters, RLSSettings
from qsdp._utils.validation import FloatArray, check_choice, check_real
from qsdp.baselines._estimator import Baseline, BaselineClassifier, BaselineRegressor, checked
from qsdp.baselines._history import History, train_epochs
from qsdp.baselines._layers import AffineForm, TrainedLayer, per_layer
from qsdp.exceptions import InvalidInputError

__all__ = ["RLSNetworkClassifier", "RLSNetworkRegressor"]

Array = npt.NDArray[Any]


@dataclass(eq=False, repr=False, kw_only=True)
class _RLSNetwork(Baseline, RLSParameters):
    r"""Base class of `RLSNetworkClassifier` and `RLSNetworkRegressor`.

    Parameters
    ----------
    hidden : int or sequence of int, default=(64,)
        Widths of the hidden layers; ``()`` gives a linear model.
    activation : {"relu", "tanh", "sigmoid", "identity"}, default="relu"
        Activation of the hidden layers.
    output_activation : str or InvertibleActivation, default="identity"
        "elu", "identity", "leaky_relu", "sigmoid", "softmax", "softplus" or "tanh". Its inverse f⁻¹ maps targets to
        desired linear outputs.
    eps_target : float, default=1e-3
        Distance from the ends of the output activation's range at which targets are clipped.
    hybrid : bool, default=False
        Train the output layer by Adam and the hidden layers by recursive least squares (HRLS).
    learning_rate : float or sequence of float, default=1.0
        Learning rate :math:`\eta` of the hidden layers, with 1 for the output layer; or one rate for each layer.
    clip : float or None, default=5.0
        Largest norm of all gradients together.
    adam_learning_rate : float, default=1e-3
        Learning rate of the output layer if `hybrid`.
    n_epochs : int, default=100
    batch_size : int, default=128
        Number of samples in a batch, M.
    dtype : {"float64", "float32"}, default="float64"

    Attributes
    ----------
    network_ : NumpyNetwork
        Trained network. Its ``thetas`` are the parameters: one matrix per layer, weights over bias.
    history_ : History
        History with ``extra["clipped"]``, the fraction of steps whose gradient was clipped.
    """

    _losses: ClassVar[tuple[str, ...]]

    hidden: int | Sequence[int] = field(default=(64,), kw_only=False)
    activation: str = "relu"
    output_activation: str | InvertibleActivation = "identity"
    eps_target: float = 1e-3
    loss: str = "squared"
    hybrid: bool = False
    learning_rate: float | Sequence[float] = 1.0
    clip: float | None = 5.0
    adam_learning_rate: float = 1e-3
    n_epochs: int = 100
    batch_size: int = 128
    dtype: str = "float64"

    @property
    def layers_(self) -> list[TrainedLayer]:
        """The trained network: affine layers with their activations."""
        hidden = DIFFERENTIABLE[self.activation]()
        *below, last = self.network_.thetas
        output = AffineForm(last[:-1, 0], last[-1, 0]) if self._flat else AffineForm(last[:-1].T, last[-1])
        layers = [trained_layer(AffineForm(theta[:-1].T, theta[-1]), hidden) for theta in below]
        return [*layers, trained_layer(output, self._output_function())]

    def _output_function(self) -> InvertibleActivation:
        return get_invertible("output_activation", self.output_activation)

    def _outputs(self, X: FloatArray) -> FloatArray:
        outputs = self._output_function()(self._logits(X))
        return outputs[:, 0] if self._flat else outputs

    def _logits(self, X: FloatArray) -> FloatArray:
        """Return the linear outputs (n, C)."""
        return self.network_.outputs(X).astype(np.float64)

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        columns = targets[:, None] if targets.ndim == 1 else targets
        trainer, output = self._trainer(X.shape[1], columns.shape[1], rng), self._output_function()
        desired = output.inverse(columns, self.eps_target)
        data, wanted = X.astype(self.dtype), desired.astype(self.dtype)

        def train(epoch: int) -> None:
            order = rng.permutation(len(data))
            for start in range(0, len(data), self.batch_size):
                rows = order[start : start + self.batch_size]
                trainer.step(data[rows], wanted[rows], self.loss)

        steps = clipped = 0

        def measure() -> Mapping[str, float]:
            nonlocal steps, clipped
            outputs = trainer.network.outputs(data).astype(np.float64)
            value = loss_and_gradient(self.loss, outputs, desired)[0]
            if not np.isfinite(value):
                return {"loss": value, "score": np.nan}
            share = (trainer.n_clipped - clipped) / (trainer.n_steps - steps)
            steps, clipped = trainer.n_steps, trainer.n_clipped
            return {"loss": value, "score": self._score(output(outputs), columns), "clipped": share}

        # An overflow is detected as a number that is not finite, and ends the training.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            train_epochs(
                train,
                measure,
                self.n_epochs,
                get_state=trainer.parameters,
                set_state=trainer.set_parameters,
                history=history,
                suggestion=SUGGESTION,
                callback=self.callback,
                verbose=self.verbose,
                name=type(self).__name__,
            )
        self.network_, self._flat, self.n_outputs_ = trainer.network, targets.ndim == 1, columns.shape[1]

    def _trainer(self, n_inputs: int, n_outputs: int, rng: np.random.Generator) -> NumpyRLS:
        """Check the parameters, and return the trainer of a random network."""
        widths = check_hidden(self.hidden)
        get_differentiable("activation", self.activation, {})
        given = checked(self, "hybrid", "clip", "n_epochs", "batch_size", "dtype", "verbose")
        adam_rate = check_real("adam_learning_rate", self.adam_learning_rate, strict=True)
        output = self._output_function()
        if isinstance(output, Softmax) and n_outputs < 2:
            raise InvalidInputError("output_activation 'softmax' needs at least two outputs; it is constant for one")
        output.check_eps("eps_target", self.eps_target)
        squared = check_choice("loss", self.loss, self._losses) == "squared"
        if not (squared or self.hybrid):
            raise InvalidInputError(
                f"loss {self.loss!r} is excluded by the derivation of recursive least squares for the output layer, "
                "which solves a least-squares problem in the linear outputs: use loss='squared', or hybrid=True, "
                "which trains the output layer by Adam"
            )
        if not (squared or isinstance(output, Identity)):
            raise InvalidInputError(
                f"output_activation must be 'identity' with loss {self.loss!r}, which takes the linear outputs; got "
                f"{output.name!r}"
            )
        if self.hybrid and not widths:
            raise InvalidInputError("hybrid=True trains hidden layers by RLS and needs at least one; hidden is empty")
        network = NumpyNetwork(initial_parameters([n_inputs, *widths, n_outputs], rng, self.dtype), self.activation)
        return NumpyRLS(
            network,
            RLSSettings.from_parameters(self),
            self._rates(len(widths)),
            clip=given["clip"],
            adam_learning_rate=adam_rate if self.hybrid else None,
        )

    def _rates(self, n_hidden: int) -> list[float]:
        """Return the rates of the layers that RLS trains; a single number is for hidden layers or the only layer."""
        rates = per_layer("learning_rate", self.learning_rate, n_hidden + (not self.hybrid), "layer that RLS trains")
        rates = [check_real("learning_rate", rate, strict=True) for rate in rates]
        return [*rates[:-1], 1.0] if np.isscalar(self.learning_rate) and n_hidden and not self.hybrid else rates


class RLSNetworkClassifier(_RLSNetwork, BaselineClassifier):
    r"""Fully connected network trained by recursive least squares with the average approximation.

    A step is a gradient descent step with the matrix :math:`\frac{\eta}{h} P` as the learning rate. P is the
    recursively updated inverse of the autocorrelation of a layer's mean inputs, see `RLS`. Inputs should be in [0, 1]
    or standardised.

    Parameters
    ----------
    loss : str, default="squared"
        "squared" is :math:`\frac{1}{2M} \|Z - f^{-1}(Y^*)\|_F^2` on one-hot targets. "cross_entropy" requires
        `hybrid`.

    Notes
    -----
    This is algorithm 1 of the source of `RLS`, in NumPy. `RLS` trains the same networks (and others) in PyTorch, on any
    device.

    Examples
    --------
    >>> from qsdp.datasets import load_bundled
    >>> from benchmarks.papers.zhang import RLSNetworkClassifier
    >>> X, y = load_bundled("iris")
    >>> X = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> model = RLSNetworkClassifier(20, batch_size=32, n_epochs=20, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> [layer.form for layer in model.layers_]
    [AffineForm(n_inputs=4, n_outputs=20), AffineForm(n_inputs=20, n_outputs=3)]
    """

    _losses = ("squared", "cross_entropy")

    def _probability_loss(self) -> str:
        if self.loss != "cross_entropy" and not isinstance(self._output_function(), Softmax):
            raise AttributeError("predict_proba needs loss='cross_entropy' or output_activation='softmax'")
        return "cross_entropy"


class RLSNetworkRegressor(_RLSNetwork, BaselineRegressor):
    """Fully connected network for one or several (best standardised) targets, trained by recursive least squares.

    Parameters
    ----------
    loss : {"squared", "absolute", "huber"}, default="squared"
        Loss; all except "squared" require `hybrid`.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.papers.zhang import RLSNetworkRegressor
    >>> X = np.random.default_rng(0).standard_normal((300, 3))
    >>> y = np.tanh(X[:, 0] - X[:, 1])
    >>> RLSNetworkRegressor(20, batch_size=32, random_state=0).fit(X, y).score(X, y) > 0.98
    True
    """

    _losses = ("squared", "absolute", "huber")
