"""Networks trained by gradient descent: in float, rounded afterwards, or quantization-aware."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from qsdp._utils.validation import FloatArray
from qsdp.bench._grid import BUDGET, Budget, InteriorSearch
from qsdp.bench.uci.method import Folds, UCIMethod
from qsdp.certificates import Certificate, certify
from qsdp.distillation import distill
from qsdp.estimators.classes import choose_classes
from qsdp.networks import BilinearNetwork, PolynomialNetwork
from qsdp.networks.weights import FLOAT_BITS
from qsdp.relaxation import solve_relaxation

__all__ = ["TRAINED"]

#: As many as in "qsdp-250"; twice as many ReLU neurons have as many first-layer weights.
_NEURONS = 250


class _Trained(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier of `qsdp.baselines` with the hyper-parameters to validate; its `fit` imports PyTorch."""

    #: Whether the network is of the kind that the relaxation bounds.
    certified = False

    def __init__(
        self, learning_rate: float = 0.1, beta: float = 0.1, random_state: int = 0, budget: Budget = BUDGET
    ) -> None:
        self.learning_rate = learning_rate
        self.beta = beta
        self.random_state = random_state
        self.budget = budget

    def _system(self) -> Any:
        """Return the unfitted estimator of `qsdp.baselines`."""
        raise NotImplementedError

    def _network(self) -> Any:
        """Return the network of the fitted estimator, rounded where the method does so."""
        raise NotImplementedError

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> _Trained:
        """Train, and round where the method does so."""
        self.model_ = self._system().fit(X, y)
        self.network_ = self._network()
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return labels of shape (n,)."""
        labels: npt.NDArray[Any] = self.model_.predict(X)
        return labels

    def bits(self) -> int:
        """Return the bits of the weights."""
        return int(self.network_.n_bits)

    def certificate(self, X: FloatArray, y: npt.NDArray[Any]) -> Certificate | None:
        """Certify the network on its training data by the relaxation, or return None for another kind of network."""
        if not self.certified:
            return None
        problem = self.model_.training_problem(X, y, self.network_)
        return certify(self.network_, problem, solve_relaxation(problem, tol=1e-4))

    @property
    def _options(self) -> dict[str, Any]:
        """Parameters of the estimator, with the single precision that is usual in training."""
        chosen = {"learning_rate": self.learning_rate, "beta": self.beta, **self.budget.training}
        return {**chosen, "batch_size": 64, "dtype": "float32", "random_state": self.random_state}


class FloatBackprop(_Trained):
    """Bilinear network of the paper with real weights."""

    def _system(self) -> Any:
        from qsdp.baselines.backprop import BackpropClassifier

        return BackpropClassifier(_NEURONS, **self._options)

    def _network(self) -> Any:
        return self.model_.network_

    def bits(self) -> int:
        """Return the bits of both layers."""
        return FLOAT_BITS * int(self.network_.n_parameters)


class RoundedBackprop(_Trained):
    """Baseline of the paper: second layer 1/m in training, then signs and one scale; validated after rounding."""

    certified = True

    def _system(self) -> Any:
        from qsdp.baselines.backprop import BackpropClassifier

        return BackpropClassifier(_NEURONS, second_layer="fixed", **self._options)

    def _network(self) -> Any:
        return self.model_.quantized(scale="shared")

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return the labels of the rounded network."""
        return _labels_of(self.classes_, self.network_.predict(self.model_.network_inputs(X)))


class MatchedBackprop(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Network selected and trained in float, then distilled into one of the relaxation with polished signs.

    It has no certificate, which would bound the distillation problem instead of the training problem.
    """

    def __init__(self, search: Any, random_state: int = 0) -> None:
        self.search = search
        self.random_state = random_state

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> MatchedBackprop:
        """Search, train, and distil once."""
        search = clone(self.search).fit(X, y)
        self.choice_ = search.choice_
        self.classes_ = search.classes_
        model = search.best_estimator_.model_
        matched = distill(model, X, _NEURONS, refine="polish", random_state=self.random_state)
        self.network_: BilinearNetwork | PolynomialNetwork = matched.network
        return self

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return the labels of the distilled network."""
        return _labels_of(self.classes_, self.network_.predict(np.asarray(X, dtype=np.float64)))


class StraightThrough(_Trained):
    """Quantization-aware training of a bilinear network with a free second layer, from trained real weights."""

    certified = True

    def _system(self) -> Any:
        from qsdp.baselines.straight_through import StraightThroughClassifier

        return StraightThroughClassifier(_NEURONS, start="float", **self._options)

    def _network(self) -> Any:
        return self.model_.network_


class RoundedReLU(_Trained):
    """ReLU network whose first layer is rounded to signs with a scale per neuron; validated after rounding."""

    def _system(self) -> Any:
        from qsdp.baselines import ReLUNetworkClassifier

        return ReLUNetworkClassifier(2 * _NEURONS, **self._options)

    def _network(self) -> Any:
        return self.model_.quantized()

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return the labels of the rounded network."""
        return _labels_of(self.classes_, self.network_.predict(np.asarray(X, dtype=np.float64)))


def _labels_of(classes: npt.NDArray[Any], outputs: FloatArray) -> npt.NDArray[Any]:
    labels: npt.NDArray[Any] = classes[choose_classes(outputs)]
    return labels


def _search(kind: type[_Trained], rates: list[float]) -> Any:
    """Return a function that builds a search over learning rates and betas on the folds."""

    def build(folds: Folds, seed: int) -> InteriorSearch:
        grid = {"learning_rate": rates, "beta": [1.0, 10.0, 100.0]}
        return InteriorSearch(kind(random_state=seed), grid, folds)

    return build


def _matched(rates: list[float]) -> Any:
    """Return a function that builds the same search for a float network, to be distilled."""
    build = _search(FloatBackprop, rates)
    return lambda folds, seed: MatchedBackprop(build(folds, seed), seed)


def _choice(model: Any) -> dict[str, float]:
    return {**model.choice_.best, "decided": float(model.choice_.decided)}


def _method(name: str, what: str, kind: type[_Trained], rates: list[float], *, quantized: bool = True) -> UCIMethod:
    return UCIMethod(
        name,
        what,
        _search(kind, rates),
        bits=lambda search: int(search.best_estimator_.bits()),
        quantized=quantized,
        certify=lambda search, X, y: search.best_estimator_.certificate(X, y),
        chosen=_choice,
        needs="torch",
    )


_SIGNS = "trained in float, signs taken"
_BINARY = "250 bilinear neurons, binary in training, free second layer"

TRAINED = (
    _method("backprop-rounded", f"250 bilinear neurons, {_SIGNS}", RoundedBackprop, [0.01, 0.03, 0.1]),
    _method("straight-through", _BINARY, StraightThrough, [0.03, 0.1, 0.3]),
    _method("relu-rounded", f"500 ReLU neurons, {_SIGNS}", RoundedReLU, [0.1, 0.3, 1.0]),
    UCIMethod(
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
