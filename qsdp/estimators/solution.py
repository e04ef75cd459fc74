"""Solution of a relaxation without its data, for sampling networks of any size and number of levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from qsdp._utils.numeric import ROUNDING
from qsdp._utils.outputs import OutputShape, squeezed
from qsdp._utils.stored import Checks, checked, is_activation, is_number, is_text
from qsdp._utils.validation import FloatArray, ReadOnlyArrays, read_only
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.blocks import Layout
from qsdp.exceptions import StorageError
from qsdp.options import TrainingOptions
from qsdp.pipeline import QSDPResult
from qsdp.problem import TrainingProblem
from qsdp.relaxation.scaled import ScaledProblem
from qsdp.relaxation.solution import finish
from qsdp.shaping import SHAPINGS, BlockCovariances, shape_block, shape_matrix
from qsdp.training_data import MAX_LEVELS

__all__ = ["TOLERANCE", "Solution", "taken"]

#: Largest relative violation of feasibility or of a bound by rounding in a stored solution.
TOLERANCE = 1e-6


def _is_magnitude(value: Any) -> bool:
    return is_number(value) and value >= 0.0


_CHECKS: Checks = {
    "levels": lambda value: type(value) is int and 2 <= value <= MAX_LEVELS,
    "activation": is_activation,
    "lower_bound": _is_magnitude,
    "improved_bound": lambda value: value is None or _is_magnitude(value),
    "shaping": lambda value: is_text(value) and value in SHAPINGS,
}


@dataclass(frozen=True, eq=False, repr=False)
class Solution(ReadOnlyArrays):
    r"""Feasible point of the relaxation with its bound, which carries over to other numbers of levels.

    Attributes
    ----------
    Z, V : ndarray of shape (K, N, N)
        A matrix for every output, or for the R blocks of every output: K = C or C R. Symmetric; every
        ``[[V, Z], [Z, V]]`` is positive semidefinite with constant diagonal ``rho[k]``. Rows and columns beyond the
        side of a block are zero.
    rho : ndarray of shape (K,)
    weights : ndarray of shape (K, N)
        z of the dual bound: ``Diag(z) +- M`` are positive semidefinite; 0 for outputs with dual vector 0.
    levels : int
        Number of levels of the relaxation.
    activation : PolynomialActivation or None
    lower_bound : float
        Bound on the optimum for these levels by the relaxation.
    improved_bound : float or None
        Larger bound by exact pricing, if any.
    shaping : str
    layout : Layout or None
        Layout of the blocks, which files store with the encoder; None for columns.
    """

    Z: FloatArray
    V: FloatArray
    rho: FloatArray
    weights: FloatArray
    levels: int
    activation: PolynomialActivation | None
    lower_bound: float
    improved_bound: float | None
    shaping: str
    layout: Layout | None = None

    @classmethod
    def of(cls, result: QSDPResult) -> Solution:
        """Return the solution from which a `result` was sampled."""
        # A point that was carried over to other levels is no better for any of them than the one that was solved for.
        relaxation, certificate = result.relaxation.origin or result.relaxation, result.certificate
        problem = relaxation.problem
        Z, V, rho = relaxation.Z_stack, relaxation.V_stack, relaxation.rho_stack
        bound = relaxation.lower_bound
        improved = certificate.lower_bound if relaxation is result.relaxation else bound
        if result.kept is result.problem:
            # The relaxation has only some of the rows. The dual vector of the certificate gives the bound for all rows.
            assert certificate.z is not None
            bound, weights = certificate.lower_bound, np.reshape(certificate.z, (len(Z), -1))
        else:
            active = np.any(relaxation.bound.nu != 0.0, axis=0)
            weights = relaxation.bound.z * np.repeat(active, len(Z) // len(active))[:, None]
        if problem.blocks is not None:
            used = np.tile(problem.blocks.used, (problem.n_outputs, 1))
            Z, V = (read_only(M * (used[:, :, None] & used[:, None, :])) for M in (Z, V))
        first = result.covariance[0] if isinstance(result.covariance, list) else result.covariance
        return cls(
            Z=Z,
            V=V,
            rho=rho,
            weights=read_only(weights),
            levels=problem.levels,
            activation=problem.activation,
            lower_bound=bound,
            improved_bound=improved if improved > bound else None,
            # Linear blocks alone need no covariance.
            shaping=first.method if first.method in SHAPINGS else TrainingOptions.shaping,
            layout=problem.blocks,
        )

    @property
    def n_outputs(self) -> int:
        """Number C of outputs."""
        return len(self.rho) // (1 if self.layout is None else self.layout.n_blocks)

    @property
    def best_bound(self) -> float:
        """Bound on the optimum for the levels of the relaxation."""
        return self.lower_bound if self.improved_bound is None else self.improved_bound

    @property
    def lifted(self) -> bool:
        """Whether the last coordinate belongs to the activation's linear and constant part."""
        return self.activation is not None and self.activation.lifted

    @property
    def n_inputs(self) -> int:
        """Number of inputs of the networks."""
        return int(self.Z.shape[1]) - self.lifted

    def blocks(self, levels: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return Z, V and rho rescaled to another number of levels, with the same predictions."""
        if levels == self.levels:
            return self.Z, self.V, self.rho
        scale = np.outer(self._ratios(levels), self._ratios(levels))
        V = self.V * scale
        rho = V.diagonal(axis1=1, axis2=2).max(axis=1)
        for one, diagonal in zip(V, rho, strict=True):
            np.fill_diagonal(one, diagonal)
        return self.Z * scale, V, rho

    def covariance(self, levels: int, output_shape: OutputShape) -> Any:
        """Return what `sample_network` draws networks with a number of levels from, as `shape_covariance` does."""
        if self.layout is not None:
            R = self.layout.n_blocks
            parts = [
                shape_block(Z, V, float(rho), self.layout, k % R, self.shaping)
                for k, (Z, V, rho) in enumerate(zip(self.Z, self.V, self.rho, strict=True))
            ]
            return BlockCovariances(parts, self.layout, output_shape)
        shaped = [
            shape_matrix(Z, V, float(rho), levels=levels, activation=self.activation, method=self.shaping)
            for Z, V, rho in zip(*self.blocks(levels), strict=True)
        ]
        return squeezed(shaped, output_shape)

    def bound(self, levels: int, beta: float) -> float:
        r"""Return a lower bound on the optimum for another number of levels, without the data.

        Notes
        -----
        On the rescaled data, rescaled weights z dominate the dual vector. It becomes feasible if multiplied by the
        s <= 1 that makes their sum at most :math:`\beta D`. Its value is then at least s times the old one, because
        the value is concave and nonnegative at zero. An improved bound has no weights z. If the neurons' weights are
        in a box r times as wide, pricing values grow by a factor of at most r^2.
        """
        if levels == self.levels:
            return self.best_bound
        sums = (self.weights / self._ratios(levels) ** 2).sum(axis=1)
        dimension = self.n_inputs * (levels - 1) + self.lifted
        dual_radius = beta * dimension
        share = min(1.0, dual_radius / float(sums.max())) if np.any(sums > 0.0) else 1.0
        ratio, before = (levels - 1) / (self.levels - 1), self.n_inputs * (self.levels - 1) + self.lifted
        growth = max(1.0, ratio) ** 2 if self.lifted else ratio**2
        least = min(1.0, dimension / (before * growth))
        return (1.0 - ROUNDING) * max(share * self.lower_bound, least * self.best_bound)

    def bound_with(self, problem: TrainingProblem) -> float:
        """Return a lower bound on the optimum of a `problem` with the same data, loss and beta, for its levels.

        Candidates for the dual vector are minus the gradients of the loss at the predictions and at their best
        multiple.
        """
        if problem.levels == self.levels:
            return self.best_bound
        scaled = ScaledProblem.of(problem)
        Z, V, _ = self.blocks(problem.levels)
        minus_gradient = -problem.data_fit.gradient(problem.relaxed_predictions(Z))
        weights = self.weights / self._ratios(problem.levels) ** 2
        point = finish(scaled, scaled.inside(Z, V, minus_gradient, weights), solver="", tol=0.0)
        return max(point.lower_bound, self.bound(problem.levels, problem.beta))

    def _ratios(self, levels: int) -> FloatArray:
        """Return the factor by which each coordinate is rescaled for another number of levels."""
        ratios = np.ones(self.Z.shape[1])
        ratios[: self.n_inputs] = (self.levels - 1.0) / (levels - 1.0)
        return ratios

    def state(self) -> dict[str, Any]:
        """Return all attributes except the arrays, for `from_state`."""
        return {
            "levels": self.levels,
            "activation": None if self.activation is None else list(self.activation.coefficients),
            **{name: getattr(self, name) for name in SCALARS},
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays, for `from_state`."""
        return {f"relaxation.{name}": getattr(self, name) for name in ARRAYS}

    @classmethod
    def from_state(
        cls, state: Any, arrays: dict[str, Any], n_matrices: int, size: int, layout: Layout | None = None
    ) -> Solution:
        """Return the solution with K matrices N x N, taken from the arrays, or raise StorageError if it is invalid."""
        fields = checked("relaxation", state, _CHECKS)
        shapes = {"Z": (size, size), "V": (size, size), "rho": (), "weights": (size,)}
        found: dict[str, Any] = {
            name: read_only(taken(arrays, f"relaxation.{name}", (n_matrices, *shape))) for name, shape in shapes.items()
        }
        solution = cls(**found, **{**fields, "activation": get_activation(fields["activation"])}, layout=layout)
        solution._check_feasible()
        return solution

    def _check_feasible(self) -> None:
        if self.improved_bound is not None and self.improved_bound <= self.lower_bound:
            raise StorageError("relaxation: its improved bound is not larger than its lower bound")
        if np.any(self.rho < 0.0) or np.any(self.weights < 0.0):
            raise StorageError("relaxation: rho or weights are negative")
        if self.layout is not None and (self.levels != 2 or self.activation is not None):
            raise StorageError("relaxation: blocks have two levels and no activation")
        inside = self._entries
        if np.any(self.Z[~inside]) or np.any(self.V[~inside]):
            raise StorageError("relaxation: an entry outside of its block is not zero")
        for Z, V, rho, mine in zip(self.Z, self.V, self.rho, inside, strict=True):
            if not np.array_equal(Z, Z.T) or not np.array_equal(V, V.T):
                raise StorageError("relaxation: Z or V is not symmetric")
            if np.abs(V.diagonal() - rho * mine.diagonal()).max() > TOLERANCE * rho:
                raise StorageError("relaxation: the diagonal of V is not rho")
            if max(np.abs(Z).max(), np.abs(V).max()) > (1.0 + len(Z) * TOLERANCE) * rho:
                raise StorageError("relaxation: an entry is larger than rho")
            # The eigenvalues of [[V, Z], [Z, V]] are those of V + Z and V - Z.
            lowest = min(scipy.linalg.eigvalsh(V + sign * Z, subset_by_index=[0, 0])[0] for sign in (1.0, -1.0))
            if lowest < -len(Z) * TOLERANCE * rho:
                raise StorageError("relaxation: its point is not positive semidefinite")

    @property
    def _entries(self) -> npt.NDArray[np.bool_]:
        """Mask of the entries that belong to the blocks, shape (K, N, N)."""
        if self.layout is None:
            return np.ones(self.Z.shape, dtype=bool)
        entries = self.layout.used[:, :, None] & self.layout.used[:, None, :]
        entries[list(self.layout.linear)] &= np.eye(self.layout.side, dtype=bool)
        return np.tile(entries, (self.n_outputs, 1, 1))


def taken(arrays: dict[str, Any], name: str, shape: tuple[int, ...] | None) -> FloatArray:
    """Remove an array from the arrays of a file, check it (finite float64), and return it."""
    array: FloatArray = arrays.pop(name)
    if array.dtype != np.float64 or (shape is not None and array.shape != shape) or not np.all(np.isfinite(array)):
        raise StorageError(f"{name} must be finite numbers of shape {shape}; got {array.dtype} of shape {array.shape}")
    return array


ARRAYS = ("Z", "V", "rho", "weights")
SCALARS = ("lower_bound", "improved_bound", "shaping")
