"""Provenance of a model: versions of the packages that trained it."""

from __future__ import annotations

import importlib.metadata
import platform

__all__ = ["versions"]

#: Packages on which the numbers of a model depend.
_PACKAGES = ("qsdp", "numpy", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages among `_PACKAGES`."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
