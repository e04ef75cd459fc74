"""Estimators of this package for the suite: beta on a longer path, and the relaxation itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.distributed import Rows
from qsdp.estimators import QuantizedNetworkClassifierCV
from qsdp.networks.weights import FLOAT_BITS
from qsdp.relaxation import beta_max
from qsdp.relaxation.path import geometric
from qsdp.result import QSDPResult

__all__ = ["COMMON", "RelaxationClassifierCV", "WideClassifierCV", "relaxation_bits"]

#: Allocation of neurons, and relative gap of the relaxations, far below the noise of a split.
COMMON: dict[str, Any] = {
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


class RelaxationClassifierCV(WideClassifierCV):
    """Classification by the relaxation itself, a quadratic function with real coefficients."""

    def _output(self, X: Any) -> FloatArray:
        outputs = self.result_.relaxation.predict(self._inputs(np.asarray(X, dtype=np.float64)))
        return self.target_scaling_.decode(outputs)


def relaxation_bits(model: RelaxationClassifierCV) -> int:
    """Return the bits of the symmetric matrices, one per output."""
    side = model.result_.problem.n_features
    return FLOAT_BITS * (side * (side + 1) // 2) * model.result_.problem.n_outputs
