"""The program that a solver of the relaxation solves: a linear map, a loss with targets, and the penalty on rho."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.tuning import MODERATE, PATIENCE
from qsdp._utils.validation import FloatArray
from qsdp.data_map import DataMap
from qsdp.forms import FormMap
from qsdp.gram import Gram, GramFactor, SharedGram, to_point
from qsdp.lifting import power_of_two
from qsdp.losses import DataFit, Loss
from qsdp.problem import TrainingProblem, check_problem

__all__ = ["Instance", "LinearInstance", "Reduction", "Units"]


@dataclass(frozen=True)
class Units:
    r"""Units of a normalised instance, in the units of the original one.

    Attributes
    ----------
    weight : float
        Unit of the matrices V, Z and the numbers rho, alpha.
    prediction : float
        Unit of predictions and targets.
    value : float
        Unit of objectives and bounds.
    """

    weight: float
    prediction: float
    value: float


@dataclass(frozen=True, eq=False)
class LinearInstance:
    r"""Program that minimises :math:`L(2 \mathcal{A}(Z_k)_k) + w \sum_k \rho_k` over the relaxation's cone.

    Real weights s of shape (C, p), if there are any, add to the predictions, and :math:`\tfrac{w}{2} \|s\|_1` to the
    objective. Their prices are in the units of the map.

    Attributes
    ----------
    map : DataMap
        :math:`\mathcal{A}`, shared by all outputs.
    fit : DataFit
        L: the loss with its targets, of shape (n, C), and sample weights.
    penalty : float
        w, the factor of each rho: :math:`2 \beta D`.
    """

    map: DataMap
    fit: DataFit
    penalty: float

    @property
    def loss(self) -> Loss:
        """Loss function of one sample."""
        return self.fit.loss

    @property
    def target(self) -> FloatArray:
        """Targets, of shape (n, C)."""
        return self.fit.target

    @property
    def n_matrices(self) -> int:
        """Number K = C R of matrices Z: one for every output and block, the blocks of an output one after the other."""
        return int(self.target.shape[1]) * self.map.n_blocks

    @property
    def size(self) -> int:
        """Side N of the matrices."""
        return self.map.size

    @property
    def no_weights(self) -> FloatArray:
        """Real weights of zero, of shape (C, p)."""
        return np.zeros((self.target.shape[1], self.map.layout.n_weights))

    def cost(self, rho: FloatArray, weights: FloatArray) -> float:
        """Return the penalty of rho of shape (K,) and of real weights of shape (C, p)."""
        return self.penalty * (float(rho.sum()) + 0.5 * float(np.abs(weights).sum()))

    def constraints(self, of_matrices: FloatArray | Sequence[float], weights: FloatArray) -> FloatArray:
        """Join bounds of the pricing values of matrices (K,) with those of real weights (C, p).

        There is one for each output and constraint, see `Layout.n_constraints`: that of real weights is the largest.
        """
        if not weights.size:
            return np.asarray(of_matrices)
        bounds = np.reshape(of_matrices, (len(weights), -1))
        return np.column_stack([bounds, np.abs(weights).max(axis=1)]).ravel()

    @property
    def dual_radius(self) -> float:
        r"""Largest :math:`\max_{u,v} u^T M_\nu v` of a feasible dual vector: :math:`\beta D`."""
        return 0.5 * self.penalty

    def safe_dual_value(self, nu: FloatArray) -> float:
        """Return the dual value of all samples less an allowance for rounding, also that of sums that replace them."""
        return self.fit.safe_dual_value(nu) - self.map.value_loss(nu, self.target)

    @property
    def zero_dual(self) -> FloatArray:
        """Dual vector of the zero point: minus the gradient of the loss at zero predictions."""
        return self.fit.zero_dual


@dataclass(frozen=True, eq=False)
class Instance(LinearInstance):
    """Instance whose map is the data; the built-in methods solve it, and every bound refers to it."""

    @classmethod
    def from_problem(cls, problem: TrainingProblem) -> Instance:
        """Build the instance of a training problem, in the problem's units."""
        check_problem(problem)
        return cls(problem.map, problem.data_fit, problem.relaxed_penalty)

    def price_at_zero(self, above: float = math.inf) -> float:
        r"""Return a large :math:`u^T M_\nu v` of the dual vector of zero, found by sign alternation.

        It takes a few products of the data with vectors for each output, the fewer if one value is `above` a number.
        """
        largest = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            if self.map.layout.weights:
                largest = float(np.abs(self.map.pull(self.zero_dual)[1]).max())
            for column in self.zero_dual.T if self.map.n_blocks else ():
                product = self.map.operator(column)
                v = np.ones((self.map.n_blocks, self.size))
                for _ in range(PATIENCE):
                    image = product(v)
                    largest = max(largest, float(np.abs(image).sum(axis=1).max()))
                    if largest > above:
                        return largest
                    v, before = np.where(image < 0.0, -1.0, 1.0), v
                    if np.array_equal(v, before):
                        break
        return largest

    @property
    def parts(self) -> list[Instance]:
        """Instances that do not interact: this one if the loss couples the outputs, else one for each output."""
        return [self] if self.fit.n_parts == 1 else [replace(self, fit=fit) for fit in self.fit.parts]

    def predictions(self, stack: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Return predictions of shape (n, C) for matrices Z of shape (K, N, N), and real weights of shape (C, p)."""
        if weights is None or not weights.size:
            return 2.0 * self.map.forwards(stack)
        return self.map.values(2.0 * stack, weights)

    def adjoints(self, nu: FloatArray) -> FloatArray:
        """Return the matrices of shape (K, N, N) for a dual vector of shape (n, C)."""
        return self.map.adjoints(nu)

    def duals_of_matrices(self, nu: FloatArray) -> FloatArray:
        """Return the dual vectors of the outputs of all matrices, shape (K, n), for a dual vector of shape (n, C)."""
        return np.repeat(nu, self.map.n_blocks, axis=1).T

    def outputs_of(self, part: int) -> slice:
        """Return the outputs of a part: all of them if the loss couples them."""
        return slice(None) if self.fit.n_parts == 1 else slice(part, part + 1)

    def matrices_of(self, outputs: Any) -> Any:
        """Return the indices of the matrices of some outputs: a slice for a slice, else an array."""
        R = self.map.n_blocks
        if isinstance(outputs, slice):
            return slice(*(None if end is None else R * end for end in (outputs.start, outputs.stop)))
        return (R * np.asarray(outputs)[:, None] + np.arange(R)).ravel()

    def normalised(self) -> tuple[Instance, Units]:
        r"""Rescale the instance so that its numbers are near one; return it and the units.

        Notes
        -----
        The units are powers of two, so changing to them and back rounds nothing. For losses of real targets, the unit
        of predictions is near the root mean square of y. The unit of the map is near its mean size, or less if
        :math:`w \rho` would vanish next to the loss. Means are over weighted samples, so that a weight k equals k equal
        rows. Weights whose mean is far from one are divided by a power of two near it.
        """
        prediction = 1.0 if self.loss.for_classes else power_of_two(self.fit.root_mean_square())
        fit, value = self.fit.rescaled(prediction)
        if fit.weights is not None and not 1.0 / MODERATE <= (mean := float(np.mean(fit.weights))) <= MODERATE:
            unit = power_of_two(mean)
            fit, value = replace(fit, weights=fit.weights / unit), value * unit
        in_rows = self.map.in_units_of_rows(self.fit.weights)
        size = power_of_two(in_rows.mean_size(self.fit.weights))
        # Beyond 1e300, zero is optimal for any data, so the clipped instance has the same solution.
        weight = min(self.dual_radius * (prediction / size / value), 1e300)
        # A regulariser far below the loss would be lost in a solver's absolute tolerance: dividing the map by less
        # raises the regulariser to one, within reason.
        if 0.0 < weight < 1.0:
            size *= power_of_two(max(weight, MODERATE**-2))
        units = Units(weight=prediction / size, prediction=prediction, value=value)
        normal = Instance(
            in_rows.scaled(1.0 / size),
            fit,
            min(self.penalty * (units.weight / units.value), 1e300),
        )
        return normal, units


class Reduction:
    r"""Reduction of a squared-loss instance with n > p rows to one with at most p = N(N+1)/2 rows.

    The data enter :math:`\|2 F s - y\|^2` only through :math:`F^T F = R^T R` and :math:`F^T y`, so rows R and targets
    :math:`R^{-T} F^T y` give the same problem up to a constant. All outputs share the Gram matrix, which belongs to one
    output's normalised instance and all targets, of shape (n, C), in the problem's units.
    """

    def __init__(
        self, normal: Instance, targets: FloatArray, shared: SharedGram | None = None, device: str | None = None
    ) -> None:
        gram = (shared or Gram).from_map(normal.map, targets, normal.fit.weights, np.float64, device)
        self._scale = gram.scale
        matrix, products = gram.into_basis()
        deadline.check()
        self._factor = GramFactor(matrix)
        self._targets = self._factor.targets(products)
        self._rows = self._factor.rows / normal.map.layout.factors

    @staticmethod
    def applies(instance: LinearInstance) -> bool:
        """Whether an instance can be reduced: a squared loss and n > p, which statistics never have."""
        data = instance.map
        return instance.fit.quadratic and data.n_rows > data.layout.n_entries

    def reduced(self, normal: Instance, units: Units, k: int) -> LinearInstance:
        """Return the reduced instance of output k, in the units of its normalised instance."""
        rows = FormMap(normal.map.layout, self._rows, normal.map.scale / self._scale)
        return LinearInstance(rows, DataFit(normal.loss, self._targets[:, [k]] / units.prediction), normal.penalty)

    def lift_dual(self, nu: FloatArray, reduced: LinearInstance, normal: Instance) -> FloatArray:
        r"""Return the dual vector of the full instance that has the same matrix :math:`M_\nu`.

        With F = Q R, it is :math:`2 (I - Q Q^T) y + Q \nu`, because the residual is optimal outside the range of F.
        """
        ratio = normal.map.scale / self._scale
        coordinates = self._factor.preimage((nu - 2.0 * reduced.target) / ratio)
        moved = normal.map.values(*to_point(coordinates, normal.map.layout))
        return normal.fit.weighted(2.0 * normal.target + moved)
