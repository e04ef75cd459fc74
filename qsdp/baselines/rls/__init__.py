"""Recursive least squares with the average approximation: an optimiser for PyTorch, and estimators without it.

`RLS` trains fully connected, convolutional, recurrent and LSTM layers, alone or together with another optimiser.
`RLS`, the export of modules and the comparison of optimisers need PyTorch (``pip install torch``); the rest does not.
"""

from __future__ import annotations

import importlib
from typing import Any

from qsdp.baselines._history import DivergedError
from qsdp.baselines.rls._settings import RLSSettings
from qsdp.baselines.rls.costs import LayerCost, convolutional_cost, dense_cost, recurrent_cost
from qsdp.baselines.rls.estimators import RLSNetworkClassifier, RLSNetworkRegressor
from qsdp.baselines.rls.numpy_network import LayerState, NumpyNetwork, NumpyRLS, update_layer
from qsdp.baselines.rls.reference import averaged_step, least_squares, mean_ratio, woodbury_step

__all__ = [
    "METHODS",
    "RLS",
    "Data",
    "DivergedError",
    "ExportedModule",
    "LayerCost",
    "LayerState",
    "Method",
    "NumpyNetwork",
    "NumpyRLS",
    "RLSNetworkClassifier",
    "RLSNetworkRegressor",
    "RLSSettings",
    "averaged_step",
    "compare_optimizers",
    "convolutional_cost",
    "dense_cost",
    "export_modules",
    "least_squares",
    "mean_ratio",
    "recurrent_cost",
    "squared_loss",
    "train_network",
    "update_layer",
    "woodbury_step",
]

#: Names that need PyTorch, and their modules.
_LAZY = {
    **dict.fromkeys(("ExportedModule", "export_modules"), "export"),
    **dict.fromkeys(("METHODS", "Data", "Method", "compare_optimizers", "squared_loss", "train_network"), "harness"),
    "RLS": "optimizer",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from qsdp.baselines._torch import require_torch

    require_torch()
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
