"""Fan's quadratic networks, trained by ReLinear, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.baselines._estimator import Baseline, BaselineClassifier, BaselineRegressor
from qsdp.baselines._history import History
from qsdp.baselines._layers import TrainedLayer
from qsdp.baselines._torch import require_torch

__all__ = ["ReLinearClassifier", "ReLinearRegressor"]

#: Losses that gradient training of these networks does not cover, and why.
_EXCLUDED_LOSSES = {
    **dict.fromkeys(
        ("absolute", "hinge", "epsilon_insensitive"),
        "ReLinear's convergence is derived for losses with Lipschitz gradients (assumption H1 of the paper); its "
        "gradient jumps",
    ),
    **dict.fromkeys(("logistic", "log_loss"), "of two classes it is 'cross_entropy'"),
    "cross_entropy": "it is of classes, ReLinearClassifier has it",
}


@dataclass(eq=False, repr=False, kw_only=True)
class _ReLinear(Baseline):
    r"""Base class of `ReLinearClassifier` and `ReLinearRegressor`.

    Parameters
    ----------
    hidden : int or sequence of int, default=(32,)
        Width of the hidden layer, or of each of several. An empty sequence gives one layer of quadratic neurons.
    family : str or sequence of str, default="fan"
        Neurons of all layers, or of each: "fan", "fan_compact", "parabolic" (or "rpqnn"), "poly2", "linear",
        "square_act".
    activation : {"relu", "identity", "tanh"}, default="relu"
        Activation between layers. "relu" is the positive part.
    variant : {"sg", "sw-l1", "sw-l2", "sw-soft", "none"}, default="sg"
        Smaller learning rates for quadratic parameters, shrinking of quadratic weights, or neither; see `ReLinear`.
    gamma_r : float, default=0.01
        Learning rate :math:`\gamma_r` of the conventional part.
    gamma_g, gamma_b : float, optional
        For "sg": learning rates of second factors and of powers. The defaults are a tenth of `gamma_r`, and `gamma_g`.
        At 0, the network stays conventional.
    alpha_g, alpha_b : float, optional
        For "sw-l1" and "sw-soft": amount that a step takes from every weight; 1e-4 by default.
    beta_g, beta_b : float, optional
        For "sw-l2": share that a step takes from every weight; 1e-4 by default.
    shrink : {"weights", "all"}, default="weights"
        Whether biases of the quadratic part also shrink, towards their conventional values.
    start : {"relinear", "random"}, default="relinear"
        Start from a conventional network, or from random quadratic parameters, which is regular training.
    start_scale : float or None, default=0.1
        Standard deviation of random quadratic parameters; None means that of the weights, :math:`\sqrt{2/n}`.
    transfer : int or sequence of (weights, bias), optional
        Source of the initial conventional weights; random by default. A number s takes them from the end of stage s of
        a conventional network trained with the same settings, where milestones separate the stages. Training then
        repeats stages s, s + 1, ... from the rate of stage s. Alternatively, arrays (m, n) and (m,) for every layer.
    rezero : bool, default=False
        Make hidden layers of equal widths residual, :math:`x + \zeta q(x)` with :math:`\zeta = 0` at the start.
    optimizer : {"adam", "sgd", "gd"}, default="adam"
        Adam, stochastic gradient descent with momentum, or plain gradient descent on all samples at once.
    momentum : float, default=0.9
        Momentum for "sgd".
    weight_decay : float, default=0
        This number times the parameters is added to the gradients.
    decay : {"linear", "all"}, default="linear"
        Whether only weights of the conventional part decay, or all parameters.
    batch_size : int or None, default=64
        None means all samples; "gd" always uses all.
    n_epochs : int, default=100
    milestones : sequence of int, default=()
        Epochs after which all rates are multiplied by `drop`.
    drop : float, default=0.1
    validation_fraction : float, default=0
        Fraction of the samples held out from training. If positive, the parameters are those of the epoch with the best
        score on these samples.
    dtype : {"float64", "float32"}, default="float64"
    device : str, optional
        Device of PyTorch; the CPU by default.

    Attributes
    ----------
    network_ : ReLinearNetwork
        The PyTorch module.
    history_ : History
        Its ``extra`` has ``gamma_r``, ``quadratic_norm`` (Frobenius norm of the quadratic parameters minus their
        values in a conventional network) and, with held-out samples, ``validation_score``.
    transfer_history_ : History or None
        History of the conventional network that `transfer` trained.
    best_epoch_ : int
        Epoch, counted from 1, whose parameters the network has; 0 if the first epoch diverged.
    """

    #: Losses of the estimator; the first one is the default.
    _losses: ClassVar[tuple[str, ...]]

    hidden: int | Sequence[int] = field(default=(32,), kw_only=False)
    family: str | Sequence[str] = "fan"
    activation: str = "relu"
    loss: str | None = None
    variant: str = "sg"
    gamma_r: float = 0.01
    gamma_g: float | None = None
    gamma_b: float | None = None
    alpha_g: float | None = None
    alpha_b: float | None = None
    beta_g: float | None = None
    beta_b: float | None = None
    shrink: str = "weights"
    start: str = "relinear"
    start_scale: float | None = 0.1
    transfer: int | Sequence[Any] | None = None
    rezero: bool = False
    optimizer: str = "adam"
    momentum: float = 0.9
    weight_decay: float = 0.0
    decay: str = "linear"
    batch_size: int | None = 64
    n_epochs: int = 100
    milestones: Sequence[int] = ()
    drop: float = 0.1
    validation_fraction: float = 0.0
    dtype: str = "float64"
    device: str | None = None

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        require_torch()
        from benchmarks.papers.fan.training import fit_network

        self._flat = targets.ndim == 1
        fitted = fit_network(self, X, targets, history, rng)
        self.network_, self.transfer_history_, self.best_epoch_ = fitted

    def _loss_name(self) -> str:
        """Return the checked loss."""
        return self._losses[0] if self.loss is None else check_choice("loss", self.loss, self._losses, _EXCLUDED_LOSSES)

    def _outputs(self, X: FloatArray) -> FloatArray:
        from benchmarks.papers.fan.training import predict

        outputs = predict(self.network_, X)
        return outputs[:, 0] if self._flat else outputs

    @property
    def layers_(self) -> list[TrainedLayer]:
        """Every layer as quadratic functions and an activation."""
        check_is_fitted(self)
        return self.network_.trained_layers()


class ReLinearRegressor(_ReLinear, BaselineRegressor):
    r"""Regression by Fan's quadratic networks, trained by ReLinear from the start of a conventional network.

    The network :math:`q_H \circ \sigma \circ q_{H-1} \circ \dots \circ \sigma \circ q_1` of neurons
    :math:`(w^r x + b^r)(w^g x + b^g) + w^b (x \odot x) + c` starts at :math:`w^g = 0, b^g = 1, w^b = 0, c = 0`,
    where it is a conventional network. It learns its quadratic parameters more slowly, or shrinks them.

    Parameters
    ----------
    loss : {"squared"}, optional
        Mean squared error.

    Notes
    -----
    Fan, Li, Wang, Lai and Wang, "On Expressivity and Trainability of Quadratic Networks", section IV. If the loss is
    not finite, training ends with a warning and the history so far.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.papers.fan import ReLinearRegressor
    >>> X = np.linspace(-1.0, 1.0, 100)[:, None]
    >>> y = 1.0 / (1.0 + 16.0 * X[:, 0] ** 2)
    >>> model = ReLinearRegressor((8, 8), n_epochs=200, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    """

    _losses = ("squared",)


class ReLinearClassifier(_ReLinear, BaselineClassifier):
    """Classification by Fan's quadratic networks, trained by ReLinear from the start of a conventional network.

    There is one output per class. Networks and training are those of `ReLinearRegressor`.

    Parameters
    ----------
    loss : {"cross_entropy", "squared"}, optional
        Softmax cross-entropy (default), or squared error against one-hot rows.

    Examples
    --------
    >>> import qsdp
    >>> from benchmarks.papers.fan import ReLinearClassifier
    >>> X, y = qsdp.datasets.load_bundled("iris")
    >>> model = ReLinearClassifier((8,), random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> [layer.form for layer in model.layers_]
    [QuadraticForm(n_inputs=4, n_outputs=8), QuadraticForm(n_inputs=8, n_outputs=3)]
    """

    _losses = ("cross_entropy", "squared")

    def _probability_loss(self) -> str:
        if self.loss not in {None, "cross_entropy"}:
            raise AttributeError(f"predict_proba needs the loss 'cross_entropy'; got {self.loss!r}")
        return "cross_entropy"
