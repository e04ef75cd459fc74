"""The program that a solver of the relaxation solves: a linear map, a loss with targets, and the penalty on rho."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import scipy.linalg

from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray
from qsdp.forms import FormMap
from qsdp.lifting import DataMap, QuadraticMap, power_of_two
from qsdp.losses import DataFit, Loss
from qsdp.problem import TrainingProblem
from qsdp.relaxation.reductions import Reductions, gram_of

__all__ = ["GramReduction", "Instance", "LinearInstance", "ReducedInstance", "Units", "product_with"]


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
    r"""Minimise :math:`L(2 \mathcal{A}(Z_k)_k) + w \sum_k \rho_k` over the relaxation's cone.

    Attributes
    ----------
    map : QuadraticMap or FormMap
        :math:`\mathcal{A}`, shared by all outputs.
    fit : DataFit
        L: the loss with its targets, (n,) or (n, C), and sample weights.
    penalty : float
        w, the factor of each rho: :math:`2 \beta D` (tight) or :math:`\beta D` (as printed).
    """

    map: DataMap
    fit: DataFit
    penalty: float

    @property
    def loss(self) -> Loss:
        """The loss of one sample."""
        return self.fit.loss

    @property
    def target(self) -> FloatArray:
        """The targets, of shape (n,) or (n, C)."""
        return self.fit.target

    @property
    def n_blocks(self) -> int:
        """Number C of matrices Z, one per output."""
        return int(self.target.shape[1]) if self.target.ndim == 2 else 1

    @property
    def size(self) -> int:
        """Side N of the matrices."""
        return self.map.size

    @property
    def dual_radius(self) -> float:
        r"""Largest :math:`\max_{u,v} u^T M_\nu v` of a feasible dual vector: :math:`\beta D` if tight."""
        return 0.5 * self.penalty

    @property
    def zero_dual(self) -> FloatArray:
        """Minus the gradient of the loss at zero."""
        return self.fit.zero_dual


@dataclass(frozen=True, eq=False)
class Instance(LinearInstance):
    """Instance whose map is the data; this package's own methods solve it, and every bound refers to it."""

    @classmethod
    def of(cls, problem: TrainingProblem, regularization: str = "tight") -> Instance:
        """Return the instance of a training problem, in its own units."""
        return cls(problem.map, problem.data_fit, problem.regularization_weight(regularization))

    @property
    def separable(self) -> bool:
        """Whether there are several outputs that do not interact."""
        return self.fit.separable

    @property
    def parts(self) -> list[Instance]:
        """Instances that do not interact: one per output if the instance is separable, otherwise itself."""
        if not self.separable:
            return [self]
        return [replace(self, fit=fit) for fit in self.fit.columns()]

    def predictions(self, blocks: FloatArray) -> FloatArray:
        """Return predictions in the shape of the target for matrices Z of shape (C, N, N)."""
        columns = [2.0 * self.map.forward(Z) for Z in blocks]
        return np.stack(columns, axis=1) if self.target.ndim == 2 else columns[0]

    def adjoints(self, nu: FloatArray) -> FloatArray:
        """Return the matrices of shape (C, N, N) for a dual vector in the shape of the target."""
        columns = nu.T if nu.ndim == 2 else [nu]
        if len(columns) == 1:
            # Stacking would keep a second copy of the matrix in memory.
            return self.map.adjoint(columns[0])[None]
        return np.stack([self.map.adjoint(column) for column in columns])

    def objective(self, blocks: FloatArray, rhos: FloatArray) -> float:
        """Return the objective of matrices of shape (C, N, N) and numbers rho of shape (C,)."""
        return self.fit.value(self.predictions(blocks)) + self.penalty * float(rhos.sum())

    def normalised(self) -> tuple[Instance, Units]:
        r"""Return the instance in units in which its numbers are near one, and those units.

        Notes
        -----
        The units are powers of two, so changing to them and back rounds nothing. For losses of real targets, the unit
        of predictions is near the root mean square of y. The unit of the map is near its mean size, or less if
        :math:`w \rho` would vanish next to the loss. Means are over weighted samples, so that a weight k equals k equal
        rows. Weights whose mean is far from one are divided by a power of two near it.
        """
        labels = self.loss.labels or self.loss.coupled
        prediction = 1.0 if labels else power_of_two(self.fit.root_mean_square())
        fit, value = self.fit.rescaled(prediction)
        if fit.weights is not None and not _LEAST_MEAN <= (mean := float(np.mean(fit.weights))) <= 1.0 / _LEAST_MEAN:
            unit = power_of_two(mean)
            fit, value = replace(fit, weights=fit.weights / unit), value * unit
        in_rows = self.map.in_units_of_rows(self.fit.weights)
        size = power_of_two(in_rows.mean_size(self.fit.weights))
        weight = _product(self.dual_radius, prediction / size / value)
        # A regulariser far below the loss would be lost in a solver's absolute tolerance: dividing the map by less
        # raises the regulariser to one.
        if 0.0 < weight < 1.0:
            size *= power_of_two(max(weight, 1e-6))
        units = Units(weight=prediction / size, prediction=prediction, value=value)
        normal = Instance(
            in_rows.scaled(1.0 / size),
            fit,
            _product(self.penalty, units.weight / units.value),
        )
        return normal, units


def product_with(data: DataMap, nu: FloatArray) -> Callable[[FloatArray], FloatArray]:
    r"""Return a function that multiplies vectors by :math:`\sum_i \nu_i \mathcal{X}_i`, formed unless rows are few."""
    if isinstance(data, QuadraticMap) and data.n_rows < data.size:
        return partial(data.adjoint_times, nu)
    return data.adjoint(nu).__matmul__


#: Sample weights with a mean between this and its inverse are left unchanged: no solver's accuracy depends on it.
_LEAST_MEAN = 2.0**-10


class GramReduction:
    r"""A squared-loss instance with p = N(N+1)/2 rows in place of n > p.

    The data enter :math:`\|2 F s - y\|^2` only through :math:`F^T F = R^T R` and :math:`F^T y`, so rows R and targets
    :math:`R^{-T} F^T y` give the same problem up to a constant. The Gram matrix is built once for all outputs, from one
    output's normalised instance and all targets, of shape (n, C), in the problem's units.
    """

    def __init__(
        self,
        normal: Instance,
        targets: FloatArray,
        reductions: Reductions | None = None,
        deadline: Deadline = NEVER,
    ) -> None:
        data = normal.map
        assert isinstance(data, QuadraticMap)
        self._data = data
        gram, products = gram_of(data, targets, normal.fit.weights, reductions, deadline)
        deadline.check()
        # A symmetric matrix counts every off-diagonal entry twice.
        first, second = np.triu_indices(data.size)
        counts = np.where(first == second, 1.0, 2.0)
        gram *= np.outer(counts, counts)
        eigenvalues, vectors = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False)
        kept = eigenvalues > eigenvalues[-1] * len(gram) * EPS
        roots, vectors = np.sqrt(eigenvalues[kept]), vectors[:, kept]
        # The triangular factor has half the entries of the others, which matters to solvers.
        rotation, self._rows = scipy.linalg.qr((vectors * roots).T, mode="economic", check_finite=False)
        self._inverse = (vectors / roots) @ rotation
        self._targets = self._inverse.T @ (products * counts[:, None])

    @staticmethod
    def pays(instance: LinearInstance) -> bool:
        """Return whether the loss is squared and n exceeds p; statistics are not reduced again."""
        data, p = instance.map, instance.size * (instance.size + 1) // 2
        return instance.fit.quadratic and isinstance(data, QuadraticMap) and data.n_rows > p

    def reduced(self, normal: Instance, units: Units, k: int) -> ReducedInstance:
        """Return the reduced form of output k's normalised instance, in its units."""
        # Outputs share the data; their maps differ by a power of two.
        assert isinstance(normal.map, QuadraticMap)
        factor = np.abs(normal.map.coefficients).max() / np.abs(self._data.coefficients).max()
        rows = ReducedMap(self._data.size, factor * self._rows, inverse=self._inverse / factor)
        return ReducedInstance(rows, DataFit(normal.loss, self._targets[:, k] / units.prediction), normal.penalty)

    def lift_dual(self, nu: FloatArray, reduced: ReducedInstance, normal: Instance) -> FloatArray:
        r"""Return the dual vector of the full instance that has the same matrix :math:`M_\nu`.

        With F = Q R, it is :math:`2 (I - Q Q^T) y + Q \nu`, because the residual is optimal outside the range of F.
        """
        s = reduced.map.preimage(nu - 2.0 * reduced.target)
        multiplier = 2.0 * normal.target + normal.map.forward(s)
        return multiplier if normal.fit.weights is None else normal.fit.weights * multiplier


@dataclass(frozen=True, eq=False)
class ReducedMap(FormMap):
    """The rows of a reduction, with their right inverse."""

    inverse: FloatArray = field(kw_only=True)

    def preimage(self, values: FloatArray) -> FloatArray:
        """Return a matrix that the map takes to `values`."""
        S = np.zeros((self.size, self.size))
        first, second = np.triu_indices(self.size)
        S[first, second] = self.inverse @ values
        S[second, first] = S[first, second]
        return S


@dataclass(frozen=True, eq=False)
class ReducedInstance(LinearInstance):
    """An instance of one output in the rows of a reduction."""

    map: ReducedMap


def _product(beta: float, factor: float) -> float:
    # Beyond 1e300, zero is optimal for any data, so the clipped instance has the same solution.
    return beta * factor if beta == 0.0 or math.log10(beta) + math.log10(factor) < 300 else 1e300
