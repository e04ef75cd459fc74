"""Provenance of a model: the options of training, and versions of the packages that trained it."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["texts_of", "versions"]

#: Packages on which the numbers of a model depend.
_PACKAGES = ("qsdp", "numpy", "scipy", "scikit-learn")

#: Options that do not concern the model.
_OF_THE_RUN = frozenset({"verbose", "n_jobs"})


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages among `_PACKAGES`."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def texts_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the training options by name, as texts."""
    return {name: _text(value) for name, value in options.items() if name not in _OF_THE_RUN}


def _text(value: Any) -> str:
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return "a generator"
    return str(getattr(value, "name", value))
