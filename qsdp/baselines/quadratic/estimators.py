"""Quadratic logistic regression and networks of quadratic neurons as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qsdp._utils.validation import check_integer
from qsdp.baselines.quadratic._descent_classifier import DescentClassifier, Hidden
from qsdp.baselines.quadratic.families import get_family
from qsdp.baselines.quadratic.network import check_activation
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["QuadraticLogisticRegression", "QuadraticNetworkClassifier"]


class QuadraticLogisticRegression(DescentClassifier):
    r"""Logistic regression with a quadratic decision function, one sigmoid neuron or C of them.

    Minimises the summed binary cross-entropy of :math:`\hat y = \sigma(x^T Q x + w \cdot x + b)`, a convex problem, by
    stochastic gradient descent, A(8), A(11), A(21). More than two classes: one neuron each, trained on one-hot targets.

    Attributes
    ----------
    network_ : QuadraticNetwork
        Of one layer; its parameters are Q, W and b.

    Notes
    -----
    A(11) is printed with a minus sign where a plus is right. Inputs beyond [-1, 1] ask for a smaller learning rate.

    Source: M. M. Noel, V. Muthiah-Nakarajan, Y. D. Oswal, "Efficient vectorized backpropagation algorithms for training
    feedforward networks composed of quadratic neurons", section 2.

    Examples
    --------
    >>> from qsdp.baselines.quadratic import QuadraticLogisticRegression
    >>> from qsdp.datasets import make_xor
    >>> X, y = make_xor()
    >>> model = QuadraticLogisticRegression(random_state=0).fit(X, y)
    >>> model.score(X, y)
    1.0
    >>> model.to_quadratic_form().predict(X).round(1).tolist() == model.decision_function(X).round(1).tolist()
    True
    """


@dataclass(eq=False, repr=False, kw_only=True)
class QuadraticNetworkClassifier(DescentClassifier):
    r"""Classification by a network each of whose layers has a family of neurons and an activation of its own.

    Trained by stochastic back-propagation, algorithms A1 and A2: :math:`\delta^L = \hat y - y`, and deltas of earlier
    layers from the products that the forward pass has kept.

    Parameters
    ----------
    hidden_layers : sequence of (family, width) or (family, width, activation), default=(("linear", 10),)
        Families are those of `qsdp.baselines.quadratic.FAMILIES`: "linear", "qnn", "rpqnn" (or "parabolic"), "fan", ...
    head : str, default="qnn"
        Family of the output layer.
    activation : {"sigmoid", "tanh", "relu", "identity"}, default="sigmoid"
        Of hidden layers that name none; "relu" is the positive part.
    learning_rate : float, default=0.1
    n_epochs : int, default=20
    loss : {"binary_cross_entropy", "cross_entropy"}, default="binary_cross_entropy"
        Summed over sigmoid outputs, as in the paper, or that of softmax outputs.
    init : {"random", "identity", "zero"}, default="random"
        Of quadratic parts; "zero" starts from the network whose layers are linear.
    init_scale : float, optional
        Standard deviation of starting weights; by default ``fan_in ** -0.5``, and ``1 / fan_in`` for quadratic ones.

    Notes
    -----
    Two classes have one sigmoid neuron, or two of softmax. Inputs beyond [-1, 1] ask for a smaller learning rate.

    Source: M. M. Noel, V. Muthiah-Nakarajan, Y. D. Oswal, "Efficient vectorized backpropagation algorithms for training
    feedforward networks composed of quadratic neurons", sections 3 and 4.

    Examples
    --------
    >>> import qsdp
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from qsdp.baselines.quadratic import QuadraticNetworkClassifier
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
