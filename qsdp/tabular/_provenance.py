"""Where a model comes from: options of its training, and versions of the packages that trained it."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["texts_of", "versions"]

#: Those on which numbers depend.
_PACKAGES = ("qsdp", "numpy", "scipy", "scikit-learn")

#: Options that say nothing of the model.
_OF_THE_RUN = frozenset({"verbose", "n_jobs"})


def versions() -> dict[str, str]:
    """Return the versions of Python and of packages that are installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def texts_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options of training as texts."""
    return {name: _text(value) for name, value in options.items() if name not in _OF_THE_RUN}


def _text(value: Any) -> str:
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return "a generator"
    return str(getattr(value, "name", value))
