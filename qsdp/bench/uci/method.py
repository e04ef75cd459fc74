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

__all__ = ["Folds", "Method"]

#: Training and held-out rows for the choice of hyper-parameters.
Folds = Sequence[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]


@dataclass(frozen=True)
class Method:
    """Method of the suite: how to build, size and certify a model.

    Attributes
    ----------
    name : str
    what : str
        Description in a few words, for tables.
    build : callable
        ``build(folds, seed)`` returns an estimator whose `fit` chooses its hyper-parameters on the folds.
    bits : callable
        ``bits(model)`` returns the bits of a fitted model's parameters.
    quantized : bool
        Whether the first-layer weights are quantized.
    certify : callable
        ``certify(model, X, y)`` returns the certificate of the objective on the training part, or None.
    chosen : callable
        ``chosen(model)`` returns the chosen hyper-parameters.
    needs : str or None
        Package that the method requires.
    """

    name: str
    what: str
    build: Callable[[Folds, int], Any]
    bits: Callable[[Any], int]
    quantized: bool = False
    certify: Callable[[Any, FloatArray, npt.NDArray[np.intp]], Certificate | None] = lambda model, X, y: None
    chosen: Callable[[Any], dict[str, float]] = lambda model: {}
    needs: str | None = None

    @property
    def available(self) -> bool:
        """Whether the required package is installed."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None
