"""Base classes of networks and forms: quadratic functions with one output or several."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qsdp._utils.outputs import squeezed
from qsdp._utils.summary import Summarized
from qsdp._utils.validation import FloatArray, ReadOnlyArrays

if TYPE_CHECKING:
    from qsdp.networks.quadratic_form import QuadraticForm

__all__ = ["NeuronFunction", "QuadraticFunction"]


class QuadraticFunction(Summarized, ReadOnlyArrays):
    """Quadratic function of d variables with values of shape () or (C,)."""

    @property
    @abstractmethod
    def n_inputs(self) -> int:
        """Number of inputs: the number of columns that `predict` expects."""

    @property
    @abstractmethod
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the value at one sample: () or (C,)."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs C; 1 for a scalar function."""
        return math.prod(self.output_shape)

    def predict(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return the values of the function.

        Parameters
        ----------
        X : array-like of shape (n, n_inputs)
        n_jobs : int, optional
            Number of threads, as in joblib; None means one. It does not change the values.

        Returns
        -------
        ndarray of shape (n,) or (n, C)
        """
        values: FloatArray = squeezed(self.outputs(X, n_jobs=n_jobs), self.output_shape, axis=1)
        return values

    @abstractmethod
    def outputs(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return `predict` with the shape (n, C), also for a scalar function."""

    @abstractmethod
    def to_quadratic_form(self) -> QuadraticForm:
        """Return the function as an explicit `QuadraticForm`, ``x' S x + s' x + s0``."""

    def to_expression(self, names: Sequence[str] | None = None, *, digits: int = 4, threshold: float = 0.0) -> Any:
        """Return the formula as text, or a list with one for each output; see `QuadraticForm.to_expression`."""
        return self.to_quadratic_form().to_expression(names, digits=digits, threshold=threshold)


class NeuronFunction(QuadraticFunction):
    """Quadratic function computed by m neurons, with second-layer weights `alpha` of shape (m,) or (m, C)."""

    alpha: FloatArray

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the value at one sample: () or (C,)."""
        return self.alpha.shape[1:]

    @property
    def output_weights(self) -> FloatArray:
        """Second-layer weights of shape (m, C), also for a scalar network."""
        return self.alpha.reshape(len(self.alpha), -1)
