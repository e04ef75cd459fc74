"""Training systems of the literature, to compare with: each a scikit-learn estimator with a history of its training.

They hang off the networks: nothing of the core imports them. What needs automatic gradients needs PyTorch,
``pip install torch``, and imports it when it is asked for.

=======================================================  ==============================================================
estimators                                               system
=======================================================  ==============================================================
`BackpropClassifier`, `BackpropRegressor`                the paper's networks by gradient descent, rounded afterwards
`StraightThroughClassifier`, `StraightThroughRegressor`  quantization-aware training of the same
`ReLUNetworkClassifier`, `ReLUNetworkRegressor`          two layers of ReLU neurons, the first one rounded afterwards
`QuadraticLogisticRegression`                            one layer of quadratic neurons (`qsdp.baselines.quadratic`)
`QuadraticNetworkClassifier`                             several layers of quadratic neurons
`ReLinearClassifier`, `ReLinearRegressor`                Fan's quadratic networks (`qsdp.baselines.relinear`)
`BPLSClassifier`, `BPLSRegressor`                        least squares, layer by layer (`qsdp.baselines.bpls`)
`RLSNetworkClassifier`, `RLSNetworkRegressor`            recursive least squares (`qsdp.baselines.rls`)
=======================================================  ==============================================================

Each has `distill`, which matches what it learned by networks of quantized weights. `qsdp.model_selection` chooses
parameters of any of them.

Names are the same where the thing is: `n_epochs`, `batch_size`, `learning_rate`, `random_state`, `callback`,
`network_`, `history_`, `layers_`. Width is `n_neurons` where there is one hidden layer; of any number of layers it is
`hidden` (a number, or one a layer), and `hidden_layers` where each has a kind of neuron, too. Least squares has passes
for epochs: `passes`, or `tau_max` as its paper calls those after the first.
"""

from __future__ import annotations

import importlib
from typing import Any

from qsdp.activations import relu
from qsdp.baselines._history import History
from qsdp.baselines._layers import AffineForm, QuantizedChain, TrainedLayer, quantize_layers

_MODULES = {
    "backprop": ("BackpropClassifier", "BackpropRegressor", "ReLUNetworkClassifier", "ReLUNetworkRegressor"),
    "bpls": ("BPLSClassifier", "BPLSRegressor"),
    "quadratic": ("QuadraticLogisticRegression", "QuadraticNetworkClassifier"),
    "relinear": ("ReLinearClassifier", "ReLinearRegressor"),
    "rls": ("RLS", "RLSNetworkClassifier", "RLSNetworkRegressor"),
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
