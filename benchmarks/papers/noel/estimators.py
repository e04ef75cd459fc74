"""Quadratic logistic regression and networks of quadratic neurons as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.papers.noel.descent import Descent, right
from benchmarks.papers.noel.families import get_family, starting_parameters
from benchmarks.papers.noel.maps import COUPLINGS
from benchmarks.papers.noel.network import Layer, QuadraticNetwork, check_activation, check_loss
from qsdp._utils.validation import FloatArray, check_choice, check_integer
from qsdp.baselines._estimator import BaselineClassifier, checked
from qsdp.baselines._history import History, train_epochs
from qsdp.baselines._layers import TrainedLayer
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["DescentClassifier", "QuadraticLogisticRegression", "QuadraticNetworkClassifier", "codes_of", "sign_code"]


#: Family, width and activation of a hidden layer.
Hidden = tuple[str, int, str]


@dataclass(eq=False, repr=False, kw_only=True)
class DescentClassifier(BaselineClassifier):
    """Base class of `QuadraticLogisticRegression` and `QuadraticNetworkClassifier`.

    Parameters
    ----------
    learning_rate : float, default=0.05
    n_epochs : int, default=30
    batch_size : int, default=1
        Number of samples in a step: one as in the paper, or more, with the mean of their losses.
    loss : {"binary_cross_entropy", "cross_entropy"}, default="binary_cross_entropy"
        Binary cross-entropy summed over sigmoid outputs, as in the paper, or cross-entropy of softmax outputs.
    coupling : {"tied", "full", "packed"}, default="tied"
        Which variables represent Q: ``q_ij = q_ji`` as one number as in the paper, all entries, or coefficients of
        monomials. A step on an off-diagonal entry is 2, 1 or 1/2 times the derivative with respect to that entry.
    init : {"random", "identity", "zero"}, default="random"
        Initial value of quadratic parts, such as Q; "zero" starts from the network with linear layers.
    init_scale : float, optional
        Standard deviation of initial weights; by default ``fan_in ** -0.5``, and ``1 / fan_in`` for quadratic weights.
    shuffle : bool, default=True
        Visit samples in a new order every epoch; otherwise, in the given order.
    patience : int, optional
        Stop after this many epochs without a smaller training loss, and keep the epoch with the smallest loss.

    Attributes
    ----------
    network_ : QuadraticNetwork
    """

    learning_rate: float = 0.05
    n_epochs: int = 30
    batch_size: int = 1
    loss: str = "binary_cross_entropy"
    coupling: str = "tied"
    init: str = "random"
    init_scale: float | None = None
    shuffle: bool = True
    patience: int | None = None

    #: Number of networks trained together, and whether they see samples in the same order; set by `MultiStart`.
    _n_starts = 1
    _shared_order = True

    def _hidden(self) -> list[Hidden]:
        """Return the checked hidden layers."""
        return []

    def _head(self) -> str:
        """Return the family of the output layer."""
        return "qnn"

    # -- training --------------------------------------------------------------------------------------

    def _encode(self, codes: npt.NDArray[np.intp], n_classes: int) -> FloatArray:
        """Return 0 and 1 of shape (n, 1) for one sigmoid neuron, else one-hot rows."""
        if n_classes == 2 and self.loss == "binary_cross_entropy":
            return codes[:, None].astype(np.float64)
        return np.eye(n_classes)[codes]

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        loss = check_loss(self.loss)
        check_choice("coupling", self.coupling, COUPLINGS)
        given = checked(self, "learning_rate", "n_epochs", "batch_size", "shuffle", "verbose", "patience")
        stacked = self._start(X.shape[1], targets.shape[1], rng)
        self._descent = Descent(stacked, X, targets, loss, given["learning_rate"], given["batch_size"])
        self._order_rng = rng
        self._diverged: dict[int, int] = {}
        self._run(given["n_epochs"], history)
        if self._n_starts == 1:
            # The descent holds the training data, which a fitted estimator should not keep.
            self.network_ = self._descent.network.start(0)
            del self._descent, self._order_rng, self._diverged

    def _start(self, n: int, n_outputs: int, rng: np.random.Generator) -> QuadraticNetwork:
        """Return a stack of networks with random weights, one per start."""
        hidden = self._hidden()
        names = [family for family, _, _ in hidden] + [self._head()]
        families = [get_family(name, self.coupling) for name in names]
        widths = [n] + [width for _, width, _ in hidden] + [n_outputs]
        activations = [activation for _, _, activation in hidden] + ["identity"]
        layers = list(zip(families, widths[:-1], widths[1:], activations, strict=True))
        start: dict[str, Any] = {"init": self.init, "scale": self.init_scale}
        networks = [
            QuadraticNetwork(
                [Layer(kind, starting_parameters(kind, n, m, rng, **start), g) for kind, n, m, g in layers]
            )
            for _ in range(self._n_starts)
        ]
        return QuadraticNetwork.stack(networks)

    def _run(self, n_epochs: int, history: History) -> None:
        """Continue training for `n_epochs` more epochs."""
        descent, rng = self._descent, self._order_rng
        samples = np.arange(len(descent.X))
        passed: dict[str, FloatArray] = {}

        def train(epoch: int) -> None:
            order = samples
            if self.shuffle and self._shared_order:
                order = rng.permutation(samples)
            elif self.shuffle:
                order = rng.permuted(np.tile(samples, (self._n_starts, 1)), axis=1)
            losses, accuracies = descent.epoch(order)
            finite = np.asarray(descent.network.finite()) & np.isfinite(losses)
            for number in np.flatnonzero(~finite):
                self._diverged.setdefault(int(number), history.n_epochs + 1)
            passed.update(loss=losses[finite], score=accuracies[finite])

        def measure() -> dict[str, float]:
            if not passed["loss"].size:
                return {"loss": float("nan"), "score": 0.0}
            if self._n_starts > 1:
                return {name: float(values.mean()) for name, values in passed.items()}
            with np.errstate(all="ignore"):
                decisions = descent.network.decision(descent.X)[0]
                loss = float(descent.loss.values(decisions, descent.Y).mean())
            return {"loss": loss, "score": float(right(decisions, descent.Y).mean())}

        train_epochs(
            train,
            measure,
            n_epochs,
            get_state=descent.network.copy_parameters,
            set_state=descent.network.set_parameters,
            history=history,
            suggestion="a smaller learning_rate, init='zero', or inputs scaled to [0, 1]",
            callback=self.callback,
            verbose=self.verbose,
            name=type(self).__name__,
            best=None if self.patience is None else "loss",
            patience=self.patience,
        )

    # -- read-outs -------------------------------------------------------------------------------------

    def _outputs(self, X: FloatArray) -> FloatArray:
        decisions = self.network_.decision(X)
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    @property
    def layers_(self) -> list[TrainedLayer]:
        """The network as a chain of quadratic (or affine) functions; the last one is the decision function."""
        return self.network_.to_layers()

    def _probability_loss(self) -> str:
        return {"cross_entropy": "cross_entropy", "binary_cross_entropy": "logistic"}[check_loss(self.loss).name]

    def sign_code(self, X: Any) -> npt.NDArray[np.intp]:
        """Return the number of the class with the only positive neuron, or -1 if none or several are; shape (n,).

        If one neuron represents two classes, its sign always decides.
        """
        outputs = self._outputs(self._checked(X))
        return sign_code(outputs[:, None] if outputs.ndim == 1 else outputs)

    def code_score(self, X: Any, y: Any) -> float:
        """Return the fraction of samples for which every output neuron has the correct sign."""
        return float(np.mean(self.sign_code(X) == codes_of(self.classes_, y)))


def sign_code(decisions: FloatArray) -> npt.NDArray[np.intp]:
    """Return class numbers for decisions (..., n, C), or -1 unless exactly one is positive; C = 1 means two classes."""
    positive = decisions > 0.0
    if decisions.shape[-1] == 1:
        return positive[..., 0].astype(np.intp)
    return np.where(positive.sum(axis=-1) == 1, positive.argmax(axis=-1), -1)


def codes_of(classes: npt.NDArray[Any], y: Any) -> npt.NDArray[np.intp]:
    """Return the class numbers of labels, or -2 for labels that are not classes."""
    labels = np.asarray(y)
    places = np.clip(np.searchsorted(classes, labels), 0, len(classes) - 1)
    return np.where(classes[places] == labels, places, -2)


class QuadraticLogisticRegression(DescentClassifier):
    r"""Logistic regression with a quadratic decision function, with one or C sigmoid neurons.

    It minimises the summed binary cross-entropy of :math:`\hat y = \sigma(x^T Q x + w \cdot x + b)`, a convex problem,
    by stochastic gradient descent, A(8), A(11), A(21). More than two classes have one neuron each, trained on one-hot
    targets.

    Attributes
    ----------
    network_ : QuadraticNetwork
        Network with one layer; its parameters are Q, W and b.

    Notes
    -----
    A(11) is printed with a minus sign where a plus is correct. Inputs beyond [-1, 1] call for a smaller learning rate.

    Source: M. M. Noel, V. Muthiah-Nakarajan, Y. D. Oswal, "Efficient vectorized backpropagation algorithms for training
    feedforward networks composed of quadratic neurons", section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.papers.noel import QuadraticLogisticRegression
    >>> X, y = np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]]), [0, 1, 1, 0]
    >>> model = QuadraticLogisticRegression(random_state=0).fit(X, y)
    >>> model.score(X, y)
    1.0
    >>> model.to_quadratic_form().predict(X).round(1).tolist() == model.decision_function(X).round(1).tolist()
    True
    """


@dataclass(eq=False, repr=False, kw_only=True)
class QuadraticNetworkClassifier(DescentClassifier):
    r"""Classification by a network whose layers may differ in their family of neurons and their activation.

    It is trained by stochastic back-propagation, algorithms A1 and A2: :math:`\delta^L = \hat y - y`. The deltas of
    earlier layers are computed from products stored in the forward pass.

    Parameters
    ----------
    hidden_layers : sequence of (family, width) or (family, width, activation), default=(("linear", 10),)
        Families are those of `benchmarks.papers.noel.FAMILIES`: "linear", "qnn", "rpqnn" (or "parabolic"), "fan", ...
    head : str, default="qnn"
        Family of the output layer.
    activation : {"sigmoid", "tanh", "relu", "identity"}, default="sigmoid"
        Activation of hidden layers that name none; "relu" is the positive part.
    learning_rate : float, default=0.1
    n_epochs : int, default=20

    Notes
    -----
    Two classes have one sigmoid neuron, or two softmax neurons. Inputs beyond [-1, 1] call for a smaller learning rate.
    Source: sections 3 and 4 of the source of `QuadraticLogisticRegression`.

    Examples
    --------
    >>> import qsdp
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from benchmarks.papers.noel import QuadraticNetworkClassifier
    >>> X, y = qsdp.datasets.load_bundled("iris")
    >>> model = QuadraticNetworkClassifier([("rpqnn", 4, "tanh")], "qnn", random_state=0)
    >>> make_pipeline(StandardScaler(), model).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    hidden_layers: Sequence[tuple[str, int] | tuple[str, int, str]] = field(default=(("linear", 10),), kw_only=False)
    head: str = field(default="qnn", kw_only=False)
    activation: str = "sigmoid"
    learning_rate: float = 0.1
    n_epochs: int = 20

    def _head(self) -> str:
        get_family(self.head)
        return self.head

    def _hidden(self) -> list[Hidden]:
        default = check_activation("activation", self.activation).name
        if isinstance(self.hidden_layers, str) or not isinstance(self.hidden_layers, Sequence):
            raise InvalidTypeError(
                f"hidden_layers must be a sequence of (family, width) or (family, width, activation); "
                f"got {self.hidden_layers!r}"
            )
        hidden = []
        for number, layer in enumerate(self.hidden_layers):
            name = f"hidden_layers[{number}]"
            if isinstance(layer, str) or not isinstance(layer, Sequence) or len(layer) not in {2, 3}:
                raise InvalidInputError(f"{name} must be (family, width) or (family, width, activation); got {layer!r}")
            family = get_family(layer[0]).name
            width = check_integer(f"the width of {name}", layer[1], minimum=1)
            activation = check_activation(f"the activation of {name}", layer[2]).name if len(layer) == 3 else default
            hidden.append((family, width, activation))
        return hidden
