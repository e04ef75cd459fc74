"""Declaration of a method of the suite."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.certificates import Certificate

__all__ = ["Folds", "UCIMethod"]

#: Training and held-out rows for the choice of hyper-parameters.
Folds = Sequence[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]


@dataclass(frozen=True)
class UCIMethod:
    """Method of the suite: how to build, size and certify a model."""

    name: str
    #: Description in a few words, for tables.
    what: str
    #: ``build(folds, seed)`` returns an estimator whose `fit` chooses its hyper-parameters on the folds.
    build: Callable[[Folds, int], Any]
    #: ``bits(model)`` returns the bits of a fitted model's parameters.
    bits: Callable[[Any], int]
    #: Whether the first-layer weights are quantized.
    quantized: bool = False
    #: ``certify(model, X, y)`` returns the certificate of the objective on the training part, or None.
    certify: Callable[[Any, FloatArray, npt.NDArray[np.intp]], Certificate | None] = lambda model, X, y: None
    #: ``chosen(model)`` returns the chosen hyper-parameters.
    chosen: Callable[[Any], dict[str, float]] = lambda model: {}
    #: Package that the method requires.
    needs: str | None = None

    @property
    def available(self) -> bool:
        """Whether the required package is installed."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None
