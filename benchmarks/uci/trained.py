"""Networks trained by gradient descent: in float, rounded afterwards, or quantization-aware."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from benchmarks.methods.budget import BUDGET, Budget
from benchmarks.uci.bits import REAL
from qsdp import baselines
from qsdp._utils.validation import FloatArray
from qsdp.certificates import Certificate, certify
from qsdp.distillation import distill
from qsdp.estimators.classes import choose_classes
from qsdp.refinement import refit
from qsdp.relaxation import solve_relaxation

__all__ = [
    *("FloatBackprop", "MatchedBackprop", "RefittedStraightThrough"),
    *("RoundedBackprop", "RoundedReLU", "StraightThrough"),
]

#: As many neurons as in "qsdp-250"; twice as many ReLU neurons have the same number of first-layer weights.
_NEURONS = 250


def _labels(model: Any, network: Any, X: Any) -> npt.NDArray[Any]:
    """Return the labels that a network predicts, with inputs and classes of a fitted estimator."""
    inputs = getattr(model, "network_inputs", None)
    outputs = network.predict(np.asarray(X, dtype=np.float64) if inputs is None else inputs(X))
    labels: npt.NDArray[Any] = model.classes_[choose_classes(outputs)]
    return labels


class _Trained(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of wrappers of `qsdp.baselines` classifiers, whose `fit` imports PyTorch."""

    #: Name of the estimator, its number of neurons, and its other parameters.
    system, neurons, settings = "BackpropClassifier", _NEURONS, MappingProxyType[str, Any]({})
    #: Whether the network is of the kind that the relaxation bounds.
    certified = False

    def __init__(
        self, learning_rate: float = 0.1, beta: float = 0.1, random_state: int = 0, budget: Budget = BUDGET
    ) -> None:
        self.learning_rate = learning_rate
        self.beta = beta
        self.random_state = random_state
        self.budget = budget

    def _network(self) -> Any:
        """Return the network of a fitted estimator, rounded if the method rounds after training."""
        return self.model_.network_

    def fit(self, X: FloatArray, y: npt.NDArray[Any], *, whole: bool = False) -> _Trained:
        """Train in single precision, by `Budget.fit` if `whole`, and round if the method rounds."""
        chosen = {"learning_rate": self.learning_rate, "beta": self.beta, **self.budget.training, **self.settings}
        usual = {"batch_size": 64, "dtype": "float32", "random_state": self.random_state}
        model = getattr(baselines, self.system)(self.neurons, **chosen, **usual)
        self.model_ = self.budget.fit(model, X, y) if whole else model.fit(X, y)
        self.network_ = self._network()
        self.classes_ = self.model_.classes_
        return self

    def fit_whole(self, X: FloatArray, y: npt.NDArray[Any]) -> _Trained:
        """Train on all samples, for all epochs."""
        return self.fit(X, y, whole=True)

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return the labels of the network, of shape (n,)."""
        return _labels(self.model_, self.network_, X)

    def bits(self) -> int:
        """Return the bits of the weights."""
        return int(self.network_.n_bits)

    def certificate(self, X: FloatArray, y: npt.NDArray[Any]) -> Certificate | None:
        """Certify the network on its training set by the relaxation; None if the relaxation gives no bound."""
        if not self.certified:
            return None
        problem = self.model_.training_problem(X, y, self.network_)
        return certify(self.network_, problem, solve_relaxation(problem, tol=1e-4))


class FloatBackprop(_Trained):
    """Bilinear network of the paper with real weights."""

    def bits(self) -> int:
        """Return the bits of both layers."""
        return REAL * int(self.network_.n_parameters)


class RoundedBackprop(_Trained):
    """The paper's baseline: second layer 1/m in training, then signs and one scale; validated after rounding."""

    settings, certified = MappingProxyType({"second_layer": "fixed"}), True

    def _network(self) -> Any:
        return self.model_.quantized(scale="shared")


class StraightThrough(_Trained):
    """Quantization-aware training of a bilinear network with a free second layer, from trained real weights."""

    system, settings, certified = "StraightThroughClassifier", MappingProxyType({"start": "float"}), True


class RoundedReLU(_Trained):
    """ReLU network whose first layer is rounded to signs with a scale per neuron; validated after rounding."""

    system, neurons = "ReLUNetworkClassifier", 2 * _NEURONS

    def _network(self) -> Any:
        return self.model_.quantized()


class MatchedBackprop(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Network selected and trained in float, then distilled into a network of the relaxation with polished signs.

    It has no certificate, which would bound the distillation problem instead of the training problem.
    """

    def __init__(self, search: Any, random_state: int = 0) -> None:
        self.search = search
        self.random_state = random_state

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> MatchedBackprop:
        """Search, train, and distill once."""
        search = clone(self.search).fit(X, y)
        self.choice_ = search.choice_
        self.classes_ = search.classes_
        self.network_ = self._made_of(search.best_estimator_.model_, X, y)
        return self

    def _made_of(self, model: Any, X: FloatArray, y: npt.NDArray[Any]) -> Any:
        options = {"refine": "polish", "allocation": "proportional", "random_state": self.random_state}
        return distill(model, X, _NEURONS, **options).network

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return the labels predicted by the distilled network."""
        return _labels(self, self.network_, X)


class RefittedStraightThrough(MatchedBackprop):
    """Network selected and trained straight-through, with its second layer refitted to the labels."""

    def _made_of(self, model: Any, X: FloatArray, y: npt.NDArray[Any]) -> Any:
        self.network_inputs = model.network_inputs
        self.problem_ = model.training_problem(X, y, model.network_)
        return refit(model.network_, self.problem_)

    def certificate(self, X: FloatArray, y: npt.NDArray[Any]) -> Certificate:
        """Certify the network on its training set by the relaxation."""
        return certify(self.network_, self.problem_, solve_relaxation(self.problem_, tol=1e-4))
