"""Methods of this package: networks sampled from the relaxation, and the relaxation itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.bench.uci.method import Folds, UCIMethod
from qsdp.distributed import Rows
from qsdp.estimators import QuantizedNetworkClassifier, QuantizedNetworkClassifierCV
from qsdp.networks.weights import FLOAT_BITS
from qsdp.relaxation import beta_max
from qsdp.relaxation.path import geometric
from qsdp.result import QSDPResult

__all__ = ["CONVEX"]

#: Allocation of neurons, and relative gap of the relaxations, far below the noise of a split.
_COMMON: dict[str, Any] = {
    "allocation": "proportional",
    "tol": 1e-4,
    "activation": None,
    "encoding": "none",
    "refine": "none",
}


class WideClassifierCV(QuantizedNetworkClassifierCV):
    """Classifier whose beta is chosen on a longer path than the default one."""

    def _train(
        self,
        samples: Rows,
        inputs: FloatArray,
        target: FloatArray,
        weights: FloatArray | None,
        options: Any,
        **routed: Any,
    ) -> QSDPResult:
        largest = beta_max(options.problem(inputs, target, weights))
        # With thousands of samples a thousandth of the largest beta, the end of the default path, is chosen itself.
        options = replace(options, betas=geometric(largest, 1e-4, 9))
        return super()._train(samples, inputs, target, weights, options, **routed)


def _selected(n_neurons: int, *, evaluate: str = "network", **options: Any) -> Any:
    """Return a function that builds an estimator which chooses beta on the folds."""

    def build(folds: Folds, seed: int) -> WideClassifierCV:
        return WideClassifierCV(n_neurons, cv=folds, evaluate=evaluate, random_state=seed, **{**_COMMON, **options})

    return build


def _fixed(folds: Folds, seed: int) -> QuantizedNetworkClassifier:
    """Return the estimator with the regularisation of the paper's figures 3, 5 and 6."""
    return QuantizedNetworkClassifier(2500, beta=10.0, random_state=seed, **_COMMON)


class RelaxationClassifierCV(WideClassifierCV):
    """Classification by the relaxation itself, a quadratic function with real coefficients."""

    def _output(self, X: Any) -> FloatArray:
        outputs = self.result_.relaxation.predict(self._inputs(np.asarray(X, dtype=np.float64)))
        return self.target_scaling_.decode(outputs)


def _relaxation(folds: Folds, seed: int) -> RelaxationClassifierCV:
    return RelaxationClassifierCV(250, cv=folds, random_state=seed, **_COMMON)


def _form_bits(model: QuantizedNetworkClassifier) -> int:
    """Return the bits of the symmetric matrices, one per output."""
    side = model.result_.problem.n_features
    return FLOAT_BITS * (side * (side + 1) // 2) * model.result_.problem.n_outputs


def _beta(model: QuantizedNetworkClassifier) -> dict[str, float]:
    return {"beta": float(model.result_.problem.beta), "neurons": float(model.network_.n_neurons)}


def _network(name: str, what: str, build: Any) -> UCIMethod:
    return UCIMethod(
        name,
        what,
        build,
        lambda model: int(model.network_.n_bits),
        quantized=True,
        certify=lambda model, X, y: model.certificate_,
        chosen=_beta,
    )


CONVEX = (
    _network("qsdp-250", "250 sampled bilinear neurons, binary", _selected(250)),
    _network("qsdp-2500", "2500 sampled bilinear neurons, binary", _selected(2500)),
    _network("qsdp-beta-10", "the same with the paper's beta = 10, not chosen", _fixed),
    _network("qsdp-4-levels", "2500 sampled bilinear neurons, four levels", _selected(2500, levels=4)),
    _network(
        "qsdp-polynomial", "2500 sampled neurons of the ReLU-like polynomial", _selected(2500, activation="relu_like")
    ),
    _network(
        "qsdp-refit", "2500 sampled, second layer chosen anew", _selected(2500, evaluate="relaxation", refine="refit")
    ),
    _network(
        "qsdp-polish",
        "250 sampled, bits improved one by one",
        _selected(250, evaluate="relaxation", refine="polish", time_limit=60.0),
    ),
    UCIMethod("relaxation", "the relaxation's own quadratic form, float", _relaxation, _form_bits, chosen=_beta),
)
