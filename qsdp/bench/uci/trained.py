"""Networks trained by gradient descent: in float, rounded afterwards, and with quantized weights in training."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV

from qsdp._utils.validation import FloatArray
from qsdp.bench.uci.method import Folds, Method
from qsdp.certificates import Certificate, certify
from qsdp.distillation import distill
from qsdp.estimators.classes import choose_classes
from qsdp.networks import BilinearNetwork, PolynomialNetwork
from qsdp.networks.weights import FLOAT_BITS
from qsdp.relaxation import solve_relaxation

__all__ = ["TRAINED"]

#: As many as "qsdp-250" has; twice as many ReLU neurons have as many first-layer weights.
_NEURONS = 250
_BETAS = [1.0, 10.0, 100.0]
_BATCH = 64
#: Relative gap of the relaxation that certifies a network.
_TOL = 1e-4


class _Trained(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A system of `qsdp.baselines` with the parameters that validation chooses; its `fit` imports PyTorch."""

    def __init__(self, learning_rate: float = 0.1, beta: float = 0.1, random_state: int = 0) -> None:
        self.learning_rate = learning_rate
        self.beta = beta
        self.random_state = random_state

    def _system(self) -> Any:
        """Return the estimator of `qsdp.baselines`, not fitted."""
        raise NotImplementedError

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> _Trained:
        """Train, and round where the method does."""
        self.model_ = self._system().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return labels of shape (n,)."""
        labels: npt.NDArray[Any] = self.model_.predict(X)
        return labels

    def bits(self) -> int:
        """Return those of the weights."""
        raise NotImplementedError

    def certificate(self, X: FloatArray, y: npt.NDArray[Any]) -> Certificate | None:
        """Return that of the quantized network among all of its kind, on the data it was trained on."""
        return None

    @property
    def _options(self) -> dict[str, Any]:
        """Parameters of the system; single precision is what such networks are trained in."""
        chosen = {"learning_rate": self.learning_rate, "beta": self.beta}
        return {**chosen, "batch_size": _BATCH, "dtype": "float32", "random_state": self.random_state}


class FloatBackprop(_Trained):
    """The paper's bilinear network with real weights."""

    def _system(self) -> Any:
        from qsdp.baselines.backprop import BackpropClassifier

        return BackpropClassifier(_NEURONS, **self._options)

    def bits(self) -> int:
        """Return those of first and second layer."""
        return FLOAT_BITS * int(self.model_.float_network_.n_parameters)


class RoundedBackprop(_Trained):
    """The paper's baseline: second layer 1/m in training, signs and one scale afterwards; validated as rounded."""

    def _system(self) -> Any:
        from qsdp.baselines.backprop import BackpropClassifier

        return BackpropClassifier(_NEURONS, second_layer="fixed", **self._options)

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> RoundedBackprop:
        """Train and round."""
        super().fit(X, y)
        self.network_: BilinearNetwork = self.model_.quantized(scale="shared")
        return self

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return the labels of the rounded network."""
        return _labels_of(self.classes_, self.network_.predict(self.model_.network_inputs(X)))

    def bits(self) -> int:
        """Return those of the rounded network."""
        return int(self.network_.n_bits)

    def certificate(self, X: FloatArray, y: npt.NDArray[Any]) -> Certificate:
        """Solve the relaxation of the training problem and certify the network by it."""
        return _certified(self.model_, self.network_, X, y)


class MatchedBackprop(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network chosen and trained in float, then matched by one of the relaxation with polished signs.

    Its certificate would be of another problem, the match of outputs, so that it has none.
    """

    def __init__(self, search: Any, random_state: int = 0) -> None:
        self.search = search
        self.random_state = random_state

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> MatchedBackprop:
        """Search, train, and match once."""
        search = clone(self.search).fit(X, y)
        self.best_params_: dict[str, Any] = search.best_params_
        self.classes_ = search.classes_
        model = search.best_estimator_.model_
        matched = distill(model, X, _NEURONS, refine="polish", random_state=self.random_state)
        self.network_: BilinearNetwork | PolynomialNetwork = matched.network
        return self

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return the labels of the matched network."""
        return _labels_of(self.classes_, self.network_.predict(np.asarray(X, dtype=np.float64)))


class StraightThrough(_Trained):
    """Quantization-aware training of a bilinear network with a free second layer."""

    def _system(self) -> Any:
        from qsdp.baselines.straight_through import StraightThroughClassifier

        return StraightThroughClassifier(_NEURONS, **self._options)

    def bits(self) -> int:
        """Return those of the network."""
        return int(self.model_.network_.n_bits)

    def certificate(self, X: FloatArray, y: npt.NDArray[Any]) -> Certificate:
        """Solve the relaxation of the training problem and certify the network by it."""
        return _certified(self.model_, self.model_.network_, X, y)


class RoundedReLU(_Trained):
    """A ReLU network whose first layer is rounded to signs with a scale for each neuron; validated as rounded."""

    def _system(self) -> Any:
        from qsdp.baselines.relu import ReLUNetworkClassifier

        return ReLUNetworkClassifier(2 * _NEURONS, **self._options)

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> RoundedReLU:
        """Train and round."""
        super().fit(X, y)
        self.network_ = self.model_.quantized()
        return self

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return the labels of the rounded network."""
        return _labels_of(self.classes_, self.network_.predict(np.asarray(X, dtype=np.float64)))

    def bits(self) -> int:
        """Return those of the rounded network."""
        return int(self.network_.n_bits)


def _labels_of(classes: npt.NDArray[Any], outputs: FloatArray) -> npt.NDArray[Any]:
    labels: npt.NDArray[Any] = classes[choose_classes(outputs)]
    return labels


def _certified(model: Any, network: BilinearNetwork, X: FloatArray, y: npt.NDArray[Any]) -> Certificate:
    problem = model.training_problem(X, y, network)
    return certify(network, problem, solve_relaxation(problem, tol=_TOL))


def _search(kind: type[_Trained], rates: list[float]) -> Any:
    """Return what builds a search over learning rates and betas on the folds."""

    def build(folds: Folds, seed: int) -> GridSearchCV:
        grid = {"learning_rate": rates, "beta": _BETAS}
        return GridSearchCV(kind(random_state=seed), grid, cv=folds, error_score="raise")

    return build


def _matched(rates: list[float]) -> Any:
    """Return what builds the same search of a network in float, to be matched."""
    build = _search(FloatBackprop, rates)
    return lambda folds, seed: MatchedBackprop(build(folds, seed), seed)


def _bits(model: GridSearchCV) -> int:
    bits: int = model.best_estimator_.bits()
    return bits


def _certificate(model: GridSearchCV, X: FloatArray, y: npt.NDArray[np.intp]) -> Certificate | None:
    certificate: Certificate | None = model.best_estimator_.certificate(X, y)
    return certificate


def _choice(model: Any) -> dict[str, float]:
    return {name: float(value) for name, value in model.best_params_.items()}


def _method(name: str, what: str, kind: type[_Trained], rates: list[float], *, quantized: bool) -> Method:
    return Method(name, what, _search(kind, rates), _bits, quantized, _certificate, _choice, needs="torch")


TRAINED = (
    _method(
        "backprop-rounded",
        "250 bilinear neurons, trained in float, signs taken",
        RoundedBackprop,
        [0.01, 0.03, 0.1],
        quantized=True,
    ),
    _method(
        "straight-through",
        "250 bilinear neurons, binary in training, free second layer",
        StraightThrough,
        [0.03, 0.1, 0.3],
        quantized=True,
    ),
    _method(
        "relu-rounded",
        "500 ReLU neurons, trained in float, signs taken",
        RoundedReLU,
        [0.1, 0.3, 1.0],
        quantized=True,
    ),
    Method(
        "backprop-matched",
        "the network of 'backprop', its outputs matched by 250 polished binary neurons",
        _matched([0.03, 0.1, 0.3]),
        lambda model: int(model.network_.n_bits),
        quantized=True,
        chosen=_choice,
        needs="torch",
    ),
    _method("backprop", "250 bilinear neurons with real weights", FloatBackprop, [0.03, 0.1, 0.3], quantized=False),
)
