"""All methods of the suite by name, in the order of the tables."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.methods.budget import Folds
from benchmarks.uci.bits import REAL, boosting_bits, linear_bits, tree_bits
from benchmarks.uci.rounding import PRECISION
from qsdp._utils.validation import FloatArray
from qsdp.certificates import Certificate

__all__ = ["METHODS", "UCIMethod"]

Grid = dict[str, list[Any]]


#: Common options; the relative gap of the relaxations is far below the noise of a split.
_COMMON: dict[str, Any] = {
    "allocation": "proportional",
    "tol": 1e-4,
    "activation": None,
    "encoding": "none",
    "refine": "none",
}


@dataclass(frozen=True)
class UCIMethod:
    """A method of the suite: functions that build a model, count its bits and certify it."""

    name: str
    #: Description in a few words, for tables.
    what: str
    #: ``build(folds, seed)`` returns an estimator whose `fit` chooses its hyper-parameters on the folds.
    build: Callable[[Folds, int], Any]
    #: ``bits(model)`` returns the bits of a fitted model's parameters.
    bits: Callable[[Any], int]
    #: Whether the first-layer weights are quantized.
    quantized: bool = False
    #: ``certify(model, X, y)`` returns the certificate of the objective on the training part, or None.
    certify: Callable[[Any, FloatArray, npt.NDArray[np.intp]], Certificate | None] = lambda model, X, y: None
    #: ``chosen(model)`` returns the chosen hyper-parameters.
    chosen: Callable[[Any], dict[str, float]] = lambda model: {}
    #: Package that the method requires.
    needs: str | None = None

    @property
    def available(self) -> bool:
        """Whether the required package is installed."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None


def _model(kind: str, *args: Any, **options: Any) -> Any:
    """Build a model of a class of `models`, imported only now, since cases are listed without building any model."""
    from benchmarks.uci import models

    return getattr(models, kind)(*args, **options)


def _relaxation_bits(model: Any) -> int:
    """Return the bits of the symmetric matrices, one per output."""
    problem = model.best_estimator_.result_.problem
    return int(REAL * (problem.n_features * (problem.n_features + 1) // 2) * problem.n_outputs)


def _fitted(model: Any) -> Any:
    """Return the fitted estimator of a search, or the model itself."""
    return getattr(model, "best_estimator_", model)


def _network_bits(model: Any) -> int:
    return int(_fitted(model).network_.n_bits)


def _beta(model: Any) -> dict[str, float]:
    model = _fitted(model)
    return {"beta": float(model.result_.problem.beta), "neurons": float(model.network_.n_neurons)}


def _choice(model: Any) -> dict[str, float]:
    return {**model.choice_.best, "decided": float(model.choice_.decided)}


def _sampled(name: str, what: str, n_neurons: int, **options: Any) -> UCIMethod:
    """Return the method of a network sampled from the relaxation; beta is chosen on the folds unless it is given."""

    def build(folds: Folds, seed: int) -> Any:
        network = _model("QuantizedNetworkClassifier", n_neurons, random_state=seed, **{**_COMMON, **options})
        if "beta" in options:
            return network
        if "refine" not in options:
            return _model("BetaSearch", network, cv=folds)
        # Refined networks hardly differ from the relaxation in accuracy.
        relaxation = _model("RelaxationClassifier", n_neurons, random_state=seed, **_COMMON)
        return _model("BetaSearch", relaxation, cv=folds, network=network)

    certified: dict[str, Any] = {"quantized": True, "certify": lambda model, X, y: _fitted(model).certificate_}
    return UCIMethod(name, what, build, _network_bits, chosen=_beta, **certified)


def _search(kind: str, rates: list[float]) -> Callable[[Folds, int], Any]:
    grid = {"learning_rate": rates, "beta": [1.0, 10.0, 100.0]}
    return lambda folds, seed: _model("InteriorSearch", _model(kind, random_state=seed), grid, folds)


def _trained(name: str, what: str, kind: str, rates: list[float], *, quantized: bool = True) -> UCIMethod:
    """Return the method of a network trained by gradients, with hyper-parameters chosen on the folds from a grid."""
    return UCIMethod(
        name, what, _search(kind, rates), lambda search: int(search.best_estimator_.bits()), quantized=quantized,
        certify=lambda search, X, y: search.best_estimator_.certificate(X, y), chosen=_choice, needs="torch",
    )  # fmt: skip


def _searched(name: str, what: str, bits: Callable[[Any], int], kind: str, grid: Grid, **fixed: Any) -> UCIMethod:
    """Return the method of a scikit-learn model, with hyper-parameters chosen on the folds from a grid."""
    return UCIMethod(
        name,
        what,
        lambda folds, seed: _model(
            "GridSearchCV", _model(kind, **fixed, random_state=seed), grid, cv=folds, error_score="raise"
        ),
        lambda search: bits(search.best_estimator_),
        chosen=lambda search: {name: float(value) for name, value in search.best_params_.items()},
    )


_RATES = [0.03, 0.1, 0.3]
_STRENGTHS = {"C": np.logspace(-3, 3, 7).tolist()}
_LEAVES = {"max_leaf_nodes": [2**k for k in range(1, 12)]}
_SHRINKAGE = {"learning_rate": [0.05, 0.2]}
_TABLE = (
    _sampled("qsdp-250", "250 sampled bilinear neurons, binary", 250),
    _sampled("qsdp-2500", "2500 sampled bilinear neurons, binary", 2500),
    # Beta of the paper's figures 3, 5 and 6.
    _sampled("qsdp-beta-10", "the same with the paper's beta = 10, not chosen", 2500, beta=10.0),
    _sampled("qsdp-4-levels", "2500 sampled bilinear neurons, four levels", 2500, levels=4),
    _sampled("qsdp-polynomial", "2500 sampled neurons of the ReLU-like polynomial", 2500, activation="relu_like"),
    _sampled("qsdp-refit", "2500 sampled neurons with a new second layer", 2500, refine="refit"),
    _sampled("qsdp-polish", "250 sampled, bits improved one by one", 250, refine="polish", time_limit=60.0),
    UCIMethod(
        "relaxation", "the relaxation's own quadratic form, float",
        lambda folds, seed: _model(
            "BetaSearch", _model("RelaxationClassifier", 250, random_state=seed, **_COMMON), cv=folds
        ),
        _relaxation_bits, chosen=_beta,
    ),
    _trained("backprop-rounded", "250 bilinear neurons, trained in float, signs taken", "RoundedBackprop",
             [0.01, 0.03, 0.1]),
    _trained("straight-through", "250 bilinear neurons, binary in training, free second layer", "StraightThrough",
             _RATES),
    UCIMethod(
        "straight-through-refitted", "the network of 'straight-through' with a new second layer",
        lambda folds, seed: _model("RefittedStraightThrough", _search("StraightThrough", _RATES)(folds, seed), seed),
        _network_bits, quantized=True, certify=lambda model, X, y: model.certificate(X, y), chosen=_choice,
        needs="torch",
    ),
    _trained("relu-rounded", "500 ReLU neurons, trained in float, signs taken", "RoundedReLU", [0.1, 0.3, 1.0]),
    UCIMethod(
        "backprop-matched", "the network of 'backprop', its outputs matched by 250 polished binary neurons",
        lambda folds, seed: _model("MatchedBackprop", _search("FloatBackprop", _RATES)(folds, seed), seed),
        _network_bits, quantized=True, chosen=_choice, needs="torch",
    ),
    _trained("backprop", "250 bilinear neurons with real weights", "FloatBackprop", _RATES, quantized=False),
    _searched("logistic", "logistic regression, float", lambda model: linear_bits(model.coef_),
              "LogisticRegression", _STRENGTHS, max_iter=1000),
    _searched("logistic-rounded", "logistic regression, 8 bits a weight",
              lambda model: linear_bits(model.coef_, PRECISION), "RoundedLogistic", _STRENGTHS, max_iter=1000),
    _searched("tree", "one decision tree, its size by validation", tree_bits, "DecisionTreeClassifier", _LEAVES),
    _searched("boosting", "gradient-boosted trees, float", boosting_bits, "HistGradientBoostingClassifier", _SHRINKAGE,
              max_iter=300, early_stopping=True, n_iter_no_change=15),
    UCIMethod(
        "quadratic-ridge", "all monomials of degree two, ridge, float",
        lambda folds, seed: _model("QuadraticRidgeClassifier", folds),
        lambda model: REAL * (model.coef_.size + model.intercept_.size),
        chosen=lambda model: {"lambda": model.lambda_},
    ),
)  # fmt: skip
METHODS = MappingProxyType({method.name: method for method in _TABLE})
