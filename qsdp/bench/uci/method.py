"""What a competitor of the suite is."""

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

#: Training and held-out rows of a training part, on which hyper-parameters are chosen.
Folds = Sequence[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]


def _uncertified(model: Any, X: FloatArray, y: npt.NDArray[np.intp]) -> None:
    return None


def _nothing(model: Any) -> dict[str, float]:
    return {}


@dataclass(frozen=True)
class Method:
    """A competitor, of which the suite knows how to make, weigh and certify it.

    Attributes
    ----------
    name : str
    what : str
        In a few words, for tables.
    build : callable
        ``build(folds, seed)`` returns an estimator whose `fit` chooses its hyper-parameters on the folds.
    bits : callable
        ``bits(model)`` returns the bits of a fitted model's parameters.
    quantized : bool
        First-layer weights are levels.
    certify : callable
        ``certify(model, X, y)`` returns the certificate of the objective on the training part, or None.
    chosen : callable
        ``chosen(model)`` returns the hyper-parameters chosen.
    needs : str or None
        The package without which the method cannot run.
    """

    name: str
    what: str
    build: Callable[[Folds, int], Any]
    bits: Callable[[Any], int]
    quantized: bool = False
    certify: Callable[[Any, FloatArray, npt.NDArray[np.intp]], Certificate | None] = _uncertified
    chosen: Callable[[Any], dict[str, float]] = _nothing
    needs: str | None = None

    @property
    def available(self) -> bool:
        """Whether the package it needs is installed."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None
