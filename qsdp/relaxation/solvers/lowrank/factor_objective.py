"""Objective of the low-rank method on the spheres: values, gradients, Hessian products, and a preconditioner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import scipy.linalg

from qsdp._utils.arrays import LARGEST_SINGLE
from qsdp._utils.numeric import CANCELLED, ROUNDING
from qsdp._utils.parallel import WORK_FLOATS
from qsdp._utils.tuning import HALVINGS, MAX_STEPS, NEGLIGIBLE
from qsdp._utils.validation import FloatArray
from qsdp.data_map import COLUMNS, DataMap, Image
from qsdp.lifting import QuadraticMap
from qsdp.losses import Curvature, DataFit
from qsdp.relaxation.solvers.lowrank.factors import Factors
from qsdp.relaxation.spectra import row_spectrum

__all__ = ["Objective", "ObjectiveData", "Point"]

#: Coefficients of the map whose adjoint of ones is ``X'X``, with an appended one if it is lifted.
_MOMENTS = (1.0, 2.0, 1.0)


class ObjectiveData:
    """Data and quantities computed once from them, for all outputs and points.

    Newton systems of large data are solved in single precision. Values, gradients and proofs use double precision.
    """

    def __init__(self, data: DataMap, weights: FloatArray | None) -> None:
        self.map = self.quick = data
        self._weights = np.ones(data.n_rows) if weights is None else weights / weights.mean()
        #: Approximate number of floating-point operations of the products so far.
        self.operations = 0.0
        # Single precision saves time only if the data do not fit into one temporary array.
        if COLUMNS in data.offers and data.n_rows * data.n_features > WORK_FLOATS:
            coefficients = cast(QuadraticMap, data).coefficients
            if max(data.largest_stored, *(abs(value) for value in coefficients)) < LARGEST_SINGLE:
                self.quick = data.in_precision(np.float32)

    def count(self, factors: Factors) -> None:
        """Count the operations of a pass over the data for factors."""
        self.operations += self.map.column_operations(factors.E.shape[1], factors.n_matrices // self.map.n_blocks)

    def adjoints(self, nu: FloatArray) -> FloatArray:
        """Return the matrices of shape (K, N, N) of a dual vector of shape (n, C)."""
        self.operations += self.map.n_rows * self.map.row_operations * nu.shape[1]
        return self.map.adjoints(nu)

    @cached_property
    def _moments(self) -> FloatArray:
        """Matrix ``X'X``, with weights of mean one; only the preconditioner uses it."""
        return replace(cast(QuadraticMap, self.quick), coefficients=_MOMENTS).adjoint(self._weights)

    def modes(self, scales: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute all nonzero eigenvalues, with eigenvectors, of the moments scaled from both sides."""
        if self.map.has_few_rows:
            return row_spectrum(self.map, self._weights, scales, _MOMENTS)
        values, vectors = scipy.linalg.eigh(self._moments * np.outer(scales, scales), check_finite=False)
        return values, vectors

    def slope_moments(self, image: Image, columns: slice, weights: FloatArray) -> FloatArray:
        r"""Compute the weighted mean of :math:`r_i r_i^T`, with the slopes :math:`r_i` of :math:`\mathcal{X}_i E` in x.

        The slopes are :math:`a\, x_i^T e_j + \tfrac{b}{2} t_j` for the columns j of a slice of the image.
        """
        data, (E, x) = cast(QuadraticMap, self.quick), image
        a, b, _ = data.coefficients
        slopes = x[:, columns] * a
        if data.lifted:
            slopes = slopes + (0.5 * b * E[-1, columns]).astype(x.dtype)
        product = slopes.T @ (slopes * weights.astype(x.dtype)[:, None])
        return np.asarray(product / data.n_rows, dtype=np.float64)


class Objective:
    """Objective of one output, or of several coupled ones: the loss plus c times every squared radius."""

    def __init__(self, data: ObjectiveData, fit: DataFit, dual_radius: float) -> None:
        self.data, self.fit, self.dual_radius = data, fit, dual_radius

    def at(self, factors: Factors) -> Point:
        """Evaluate the factors, with each output rescaled to minimise the objective."""
        image = self.data.map.image(factors.E)
        prediction = self.data.map.pair_values(image, image, factors.mixing)
        self.data.count(factors)
        radii = factors.dot(factors.E[:1], factors.E[:1])[0]
        R = self.data.map.n_blocks
        scales = self._scales(prediction, self.dual_radius * radii.reshape(-1, R).sum(axis=1))
        prediction = prediction * scales
        scales = np.repeat(scales, R)
        roots = np.sqrt(scales)[factors.owner]
        radii = radii * scales
        value = self.fit.value(prediction) + self.dual_radius * float(radii.sum())
        return Point(
            self,
            factors.with_columns(factors.E * roots),
            (image[0] * roots, image[1] * roots),
            prediction,
            radii,
            value,
        )

    def _scales(self, prediction: FloatArray, costs: FloatArray) -> FloatArray:
        """Compute the scales of the outputs' predictions that minimise the objective, by Newton's method."""
        scales = np.ones(len(costs))
        value = self.fit.value(prediction) + float(costs.sum())
        # Outputs whose best scale is zero stay slightly above it, as zero is a stationary point.
        floor = np.minimum(1.0, ROUNDING * abs(value) / np.maximum(costs, 1e-300))
        for _ in range(MAX_STEPS):
            at = prediction * scales
            gradient = np.sum(self.fit.gradient(at) * prediction, axis=0) + costs
            # Use an upper bound of the curvature of coupled outputs, whose steps may be cut individually. If the loss
            # is flat, a step is as long as the limit below allows.
            bend = np.sum(self.fit.curvature(at).diagonal * prediction**2, axis=0) + ROUNDING * costs / scales + 1e-300
            step = -gradient / bend
            if not np.all(np.isfinite(step)) or -float(gradient @ step) <= CANCELLED * abs(value):
                break
            aim = np.clip(scales + step, np.maximum(scales / 4.0, floor), scales * 4.0)
            for _ in range(HALVINGS):
                trial = self.fit.value(prediction * aim) + float(costs @ aim)
                if trial < value:
                    break
                aim = 0.5 * (aim + scales)
            else:
                break
            scales, value = aim, trial
        return scales


@dataclass(frozen=True, eq=False)
class Point:
    """Point on the spheres; derivatives are computed on first use."""

    objective: Objective
    factors: Factors
    image: Image
    prediction: FloatArray
    radii: FloatArray
    value: float

    @cached_property
    def nu(self) -> FloatArray:
        """Minus the gradient of the loss, shape (n, C)."""
        return -self._loss_gradient

    @cached_property
    def _loss_gradient(self) -> FloatArray:
        return self.objective.fit.gradient(self.prediction)

    @cached_property
    def _loss_weights(self) -> FloatArray:
        return self.objective.data.map.column_weights(self._loss_gradient)

    @cached_property
    def slope(self) -> FloatArray:
        """Gradient of the loss in the factors, shape (N, m)."""
        data = self.objective.data
        data.count(self.factors)
        return 2.0 * data.map.adjoint_columns([(self._loss_weights, self.image)], self.factors.mixing)

    @cached_property
    def z(self) -> FloatArray:
        """Multipliers of the sphere constraints, shape (N, K); at the best radius their sums equal the dual radius."""
        return -0.5 * self.factors.dot(self.slope, self.factors.E) / self.radii

    @cached_property
    def stiffness(self) -> FloatArray:
        r"""Positive substitute for z in the Hessian: the multipliers if every row were parallel to its gradient.

        For a row with little effect the objective is linear on its sphere. With the true multiplier, its Newton step
        leads to the wrong pole from more than a right angle away, and overshoots from near a right angle. With the
        substitute it leads to the right pole from everywhere, and equally fast close to it.
        """
        size = 0.5 * np.sqrt(self.factors.dot(self.slope, self.slope) / self.radii)
        floor = NEGLIGIBLE * size.mean(axis=0) + 1e-300
        stiffness: FloatArray = np.maximum(size, floor)
        if self._excess is not None:
            stiffness += np.maximum(self._excess, 0.0) * (stiffness / stiffness.sum(axis=0))
        return stiffness

    @cached_property
    def gradient(self) -> FloatArray:
        """Riemannian gradient on the spheres."""
        z = self.z if self._excess is None else self.z + self._excess * self._proportions
        return self.slope + 2.0 * self._spread(z) * self.factors.E

    @cached_property
    def curvature(self) -> Curvature:
        """Second derivatives of the loss."""
        return self.objective.fit.curvature(self.prediction)

    @cached_property
    def _quick_image(self) -> Image:
        data, (columns, products) = self.objective.data, self.image
        return columns, products if data.quick is data.map else products.astype(np.float32)

    @cached_property
    def _excess(self) -> FloatArray | None:
        """Derivative of the objective along each radius, shape (K,): dual radius minus the sum of the multipliers.

        At the best scale of an output with one matrix it vanishes, and is not computed.
        """
        single = self.objective.data.map.n_blocks == 1
        return None if single else self.objective.dual_radius - self.z.sum(axis=0)

    @cached_property
    def _proportions(self) -> FloatArray:
        """Weights of the rows in the gradient along a radius, chosen so that preconditioned steps stay tangent."""
        proportions: FloatArray = self.stiffness / self.stiffness.sum(axis=0)
        return proportions

    def moved(self, D: FloatArray) -> Point:
        """Return the point after the step D."""
        E, radii = self.factors.E + D, self.radii
        if self._excess is not None:
            # The radii of the blocks of an output change independently; none vanishes, since zero is stationary.
            radii = self.factors.dot(E, E).mean(axis=0)
            radii = np.maximum(radii, ROUNDING * radii.max())
        return self.objective.at(self.factors.on_spheres(E, radii))

    def tangent(self, D: FloatArray) -> FloatArray:
        """Project D onto the tangent space, in which the rows of each output share a sphere of variable radius."""
        along = self.factors.dot(D, self.factors.E) / self.radii
        return D - self._spread(along - along.mean(axis=0)) * self.factors.E

    def _gradient_of(self, D: FloatArray) -> FloatArray:
        """Project D onto the tangent space in the metric of gradients."""
        if self._excess is None:
            return self.tangent(D)
        along = self.factors.dot(D, self.factors.E) / self.radii
        return D - self._spread(along - self._proportions * along.sum(axis=0)) * self.factors.E

    def hessian(self, D: FloatArray) -> FloatArray:
        """Multiply a tangent direction by the Hessian, with `stiffness` in place of z."""
        data, mixing = self.objective.data, self.factors.mixing
        moved = data.quick.image(D)
        change = self.curvature.times(2.0 * data.quick.pair_values(self._quick_image, moved, mixing))
        terms = [(data.quick.column_weights(change), self._quick_image), (self._loss_weights, moved)]
        product = 2.0 * data.quick.adjoint_columns(terms, mixing)
        data.count(self.factors)
        data.count(self.factors)
        return self._gradient_of(product + 2.0 * self._spread(self.stiffness) * D)

    @cached_property
    def _modes(self) -> list[tuple[slice, FloatArray, FloatArray, FloatArray]]:
        modes = []
        for k in range(self.factors.n_matrices):
            columns = self.factors.columns(k)
            roots = 1.0 / np.sqrt(self.stiffness[:, k])
            data = self.objective.data
            if COLUMNS not in data.map.offers:
                # Without rows of columns, only the stiffness is used.
                count = columns.stop - columns.start
                modes.append((columns, np.zeros((len(roots), 0)), np.zeros((0, count)), np.eye(count)))
                continue
            values, vectors = data.modes(roots)
            used = np.abs(self.factors.signs[columns])
            curvature = self.curvature.diagonal[:, k // data.map.n_blocks]
            gram = data.slope_moments(self._quick_image, columns, curvature) * np.outer(used, used)
            sizes, rotation = scipy.linalg.eigh(gram, check_finite=False)
            weights = 2.0 + 4.0 * np.outer(np.maximum(values, 0.0), np.maximum(sizes, 0.0))
            modes.append((columns, roots[:, None] * vectors, weights, rotation))
        return modes

    def precondition(self, R: FloatArray) -> FloatArray:
        r"""Solve the Newton system with right-hand side R approximately.

        The rows of the data and their products with the columns are treated as independent. The curvature of the loss
        is then a Kronecker product, which the eigenvectors of both factors diagonalise together with the stiffness. If
        there are fewer eigenvectors than columns, only the stiffness is used in the rest of the space.
        """
        result = np.empty_like(R)
        for columns, vectors, weights, rotation in self._modes:
            inner = vectors.T @ R[:, columns] @ rotation
            if vectors.shape[1] == len(R):
                result[:, columns] = vectors @ (inner / weights) @ rotation.T
            else:
                k = int(self.factors.owner[columns.start])
                rest = 0.5 * R[:, columns] / self.stiffness[:, k, None]
                result[:, columns] = rest + vectors @ (inner * (1.0 / weights - 0.5)) @ rotation.T
        return self.tangent(result)

    def metric_norm(self) -> float:
        """Compute the norm of the factors in the metric of the preconditioner."""
        total = 2.0 * float(np.sum(self.stiffness * self.radii))
        for columns, vectors, weights, rotation in self._modes:
            # E = V Y R' with Y = V^-1 E R, and V'Diag(stiffness) V is the identity.
            k = int(self.factors.owner[columns.start])
            Y = vectors.T @ (self.stiffness[:, k, None] * self.factors.E[:, columns]) @ rotation
            total += float(np.sum((weights - 2.0) * Y**2))
        return float(np.sqrt(total))

    def _spread(self, rows: FloatArray) -> FloatArray:
        return rows @ self.factors.members.T
