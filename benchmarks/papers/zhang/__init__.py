"""Recursive least squares with the average approximation: an optimiser for PyTorch, and estimators without it.

`RLS` trains fully connected, convolutional, recurrent and LSTM layers, alone or together with another optimiser.
`RLS`, the export of modules and the comparison of optimisers need PyTorch (``pip install torch``); the rest does not.
"""

from __future__ import annotations

import importlib
from typing import Any

from qsdp.baselines._history import DivergedError

#: Modules of the public names, which are imported when a name is used: that of estimators needs scikit-learn.
_MODULES = {
    "costs": ("LayerCost", "convolutional_cost", "dense_cost", "recurrent_cost"),
    "estimators": ("RLSNetworkClassifier", "RLSNetworkRegressor"),
    "export": ("ExportedModule", "export_modules"),
    "harness": ("METHODS", "Data", "Method", "compare_optimizers", "squared_loss", "train_network"),
    "numpy_network": ("LayerState", "NumpyNetwork", "NumpyRLS", "update_layer"),
    "optimizer": ("RLS",),
    "reference": ("averaged_step", "least_squares", "mean_ratio", "woodbury_step"),
    "settings": ("RLSSettings",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_NEED_TORCH = {"export", "harness", "optimizer"}

__all__ = ["DivergedError", *_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULE_OF[name] in _NEED_TORCH:
        from qsdp.baselines._torch import require_torch

        require_torch()
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
