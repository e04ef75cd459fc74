"""Networks trained by gradients, for comparison, each a scikit-learn estimator with a training history.

The core of the package does not import them. Systems that use automatic gradients need PyTorch
(``pip install torch``) and import it only when they are used.

=======================================================  ==============================================================
estimators                                               system
=======================================================  ==============================================================
`BackpropClassifier`, `BackpropRegressor`                the paper's networks by gradient descent, rounded afterwards
`StraightThroughClassifier`, `StraightThroughRegressor`  quantization-aware training of the same networks
`ReLUNetworkClassifier`, `ReLUNetworkRegressor`          two layers of ReLU neurons, the first one rounded afterwards
=======================================================  ==============================================================

Each estimator has a method `distill`, which approximates the trained network by networks of quantized weights.

Systems use the same name for the same thing: `n_epochs`, `batch_size`, `learning_rate`, `random_state`, `callback`,
`network_`, `history_`, `layers_`; the width of the hidden layer is `n_neurons`.
"""

from __future__ import annotations

import importlib
from typing import Any

from qsdp.baselines._history import History
from qsdp.baselines._layers import AffineForm, QuantizedChain, TrainedLayer, quantize_layers, relu

_MODULES = {
    "backprop": ("BackpropClassifier", "BackpropRegressor", "ReLUNetworkClassifier", "ReLUNetworkRegressor"),
    "straight_through": ("StraightThroughClassifier", "StraightThroughRegressor"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["AffineForm", "History", "QuantizedChain", "TrainedLayer", "quantize_layers", "relu", *_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
