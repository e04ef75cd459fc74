"""Fan's quadratic networks trained by ReLinear: neurons, update rules, networks, estimators.

Fan, Li, Wang, Lai and Wang, "On Expressivity and Trainability of Quadratic Networks". PyTorch is imported when a name
that needs it is requested.
"""

from __future__ import annotations

import importlib
from typing import Any

from qsdp.baselines._torch import require_torch

_PLACES = {
    "estimators": ("ReLinearClassifier", "ReLinearRegressor"),
    "networks": (
        "ReLinearNetwork",
        "ReZero",
        "count_trainable",
        "start_conventional",
        "start_random",
        "transfer_weights",
    ),
    "neurons": (
        "CompactConv2d",
        "CompactLinear",
        "FanConv2d",
        "FanLinear",
        "ParabolicConv2d",
        "ParabolicLinear",
        "Poly2Conv2d",
        "Poly2Linear",
        "QuadraticConv2d",
        "QuadraticLinear",
        "QuadraticNeurons",
        "SquareActivationLinear",
    ),
    "resnet": ("QResNet", "resnet_parameters"),
    "rules": ("ReLinear", "parameter_groups"),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
_NEED_TORCH = {"networks", "neurons", "resnet", "rules"}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULES[name] in _NEED_TORCH:
        require_torch()
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
