"""Base classes of coordinate descent over single first-layer weights: its data and its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline, numeric
from qsdp._utils.tuning import NEGLIGIBLE
from qsdp._utils.validation import FloatArray
from qsdp.data_map import SAMPLES, DataMap
from qsdp.networks import is_narrow
from qsdp.problem import TrainingProblem

__all__ = ["LARGEST_BATCH", "CoordinateDescent", "DescentData", "IntArray", "in_double", "largest_weights"]

IntArray = npt.NDArray[np.int8]

#: Largest batch of neurons, which share one gradient; half or twice costs time.
LARGEST_BATCH = 64

#: Relative decreases of the loss below this count as rounding errors, by the precision of the products.
ROUNDING = {"float64": NEGLIGIBLE, "float32": numeric.ROUNDING}


@dataclass(eq=False, repr=False)
class DescentData:
    """Data of coordinate descent, shared by the descents for all outputs of a problem.

    Attributes
    ----------
    problem : TrainingProblem
        The problem, or one without rows that has the same loss, on which the descents run.
    map : DataMap
        The data, in units in which no entry or coefficient is large.
    unit : float
        Divisor of the predictions.
    large : bool
        Whether the data is too large to copy.
    largest_image : float
        Upper bound on the output of any neuron on any row.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    dtype : type
        Precision of the batched products.
    """

    problem: TrainingProblem
    map: DataMap
    unit: float
    large: bool
    largest_image: float
    weights: FloatArray | None
    dtype: Any

    def mean(self, values: Any) -> float:
        """Compute the mean of values (..., n) over all axes, with rows weighted by their weights."""
        return float(np.mean(values if self.weights is None else np.average(values, axis=-1, weights=self.weights)))

    def predictions(self, network: Any) -> FloatArray:
        """Return the predictions (n, C) of a network."""
        if SAMPLES in self.map.offers and is_narrow(network):
            return self.map.combinations(network.U.astype(np.float64), network.V.astype(np.float64), network.alpha)
        return self.map.forwards(network.forms)

    def columns(self, some: npt.NDArray[np.intp]) -> FloatArray:
        """Return some of the columns with real weights, of shape (k, n)."""
        features: Any = self.map.features
        return np.ascontiguousarray(features(self.map.layout.weight_entries[some]).T)

    def adjoint(self, nu: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_i \nu_i \mathcal{X}_i` of shape (N, N), or (R, N, N) for several blocks."""
        return self.map.adjoint(nu)


class CoordinateDescent(ABC):
    r"""A network under coordinate descent: bits, second layer, predictions and loss.

    Attributes
    ----------
    U, V : ndarray of shape (m, N), int8
    block : ndarray of shape (m,)
        Block of each neuron.
    prices : ndarray of shape (m, 1)
        Penalty factor of each neuron, that of its block.
    alpha : ndarray of shape (m, C)
        Second layer in the units of the data.
    weights : ndarray of shape (p, C)
        Real weights of columns in these units.
    column_prices : ndarray of shape (p, 1)
        Their penalty factors.
    f : ndarray of shape (n, C)
        Predictions.
    value : float
        Their loss.

    Notes
    -----
    Data and lift are divided by powers of two so that squares of huge data cannot overflow. The second layer absorbs
    the factor.
    """

    def __init__(self, problem: TrainingProblem, network: Any, data: DescentData) -> None:
        self.problem, self.data = problem, data

        self.origin: Any = network
        self.unit = data.unit
        self._rounding = ROUNDING[np.dtype(data.dtype).name]
        self.penalty = problem.beta * problem.dimension / self.unit
        self.fit = problem.data_fit
        self.largest = largest_weights(problem)
        self.U, self.V = network.U.copy(), network.V.copy()
        self.block = network.block
        self.prices = problem.prices[self.block, None]
        self.alpha = network.output_weights * self.unit
        self.weights = network.column_weights * self.unit
        self.column_prices = np.ones((0, 1)) if problem.blocks is None else problem.blocks.weight_omega[:, None]
        self.refresh()

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """Number of neurons whose moves are computed together."""

    def batches(self) -> Iterator[slice]:
        """Yield batches of neurons as slices; stop after a time limit."""
        size = self.batch_size if len(self.U) else 1
        for start in deadline.in_time(range(0, len(self.U), size)):
            yield slice(start, start + size)

    @abstractmethod
    def sweep(self, *, thorough: bool) -> int:
        """Try moves of both sides of every neuron, and return how many were accepted.

        If a thorough sweep accepts no move (and ends in time), no single move lowers the loss.
        """

    @abstractmethod
    def images(self, rows: slice = slice(None)) -> FloatArray:
        r"""Return the outputs :math:`u_j^T \mathcal{X}_i v_j` of neurons, of shape (n, B)."""

    def fixed(self, weights: IntArray) -> npt.NDArray[np.bool_]:
        """Return a mask of weights (.., N) that are fixed at zero: outside the blocks, and v in linear ones."""
        fixed: npt.NDArray[np.bool_] = (weights == 0) & (self.largest == 1)
        return fixed

    # -- the network ----------------------------------------------------------------------------------

    def network(self) -> Any:
        """Build a network from the current weights."""
        alpha, weights = (self.problem.squeezed(layer / self.unit) for layer in (self.alpha, self.weights))
        return self.origin.with_neurons(self.U, self.V, alpha, weights=weights)

    def refresh(self) -> None:
        """Recompute predictions and loss from the weights, so that rounding errors of updates do not accumulate."""
        f = self.predictions(self.alpha, self.weights)
        self.accept(f, self.fit.value(f))

    def predictions(self, alpha: FloatArray, weights: FloatArray) -> FloatArray:
        """Compute the predictions of shape (n, C) for another second layer and other real weights."""
        return self.data.predictions(self.origin.with_neurons(self.U, self.V, alpha, weights=weights))

    @property
    def objective(self) -> float:
        """Loss plus regulariser."""
        return self.value + self.cost(self.alpha, self.weights)

    def cost(self, alpha: FloatArray, weights: FloatArray) -> float:
        """Compute the regulariser of a second layer and real weights."""
        cost = float((self.prices * np.abs(alpha)).sum())
        if len(weights):
            cost += float((self.column_prices * np.abs(weights)).sum())
        return self.penalty * cost

    @property
    def tolerance(self) -> float:
        """Smallest decrease of the loss that counts as progress."""
        return self._rounding * abs(self.value)

    def accept(self, f: FloatArray, value: float) -> None:
        """Store new predictions and their loss."""
        self.f, self.value = f, value
        self._gradient: FloatArray | None = None

    @property
    def gradient(self) -> FloatArray:
        """Gradient of the loss in the predictions, cached until new predictions are accepted."""
        if self._gradient is None:
            self._gradient = self.fit.gradient(self.f)
        return self._gradient


def in_double(array: Any) -> FloatArray:
    """Convert the result of a product to double precision."""
    return np.asarray(array, dtype=np.float64)


def largest_weights(problem: TrainingProblem) -> npt.NDArray[Any]:
    """Return the maximum magnitude of each weight of a side, of shape (N,)."""
    largest = np.full(problem.size, problem.levels - 1)
    largest[problem.n_features :] = 1
    return largest
