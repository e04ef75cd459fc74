"""Objectives and dual values of candidates, computed from the data or from their Gram matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray
from qsdp.gram import to_point, to_vectors
from qsdp.relaxation.bounds import best_scale
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.spectra import dominating, row_dominating

__all__ = [
    "DirectEvaluation",
    "Evaluation",
    "GramEvaluation",
    "Ray",
]


@dataclass(frozen=True, eq=False)
class Ray:
    """Values along a ray, for each of K independent parts of a problem; arrays are of shape (K,)."""

    #: Maps scales to values.
    values: Callable[[FloatArray], FloatArray]
    #: Maps the cost per unit of scale (points), or the largest feasible scale (duals), to the best scale.
    best: Callable[[FloatArray], FloatArray]


class DirectEvaluation:
    """Evaluation of candidates by passes over the data, with dual vectors of shape (n, C)."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._fits = instance.fit.parts

    @property
    def at_zero(self) -> FloatArray:
        """Losses of the zero predictor, of shape (K,)."""
        return np.array([fit.value_at_zero for fit in self._fits])

    def point(self, T: FloatArray, weights: FloatArray) -> Ray:
        """Return the losses along the ray through T and real weights."""
        parts = self._parts(self._predictions(T, weights))
        if self.instance.fit.quadratic:
            weighted = [fit.weighted(p) for fit, p in zip(self._fits, parts, strict=True)]
            return _squared_point(
                self.at_zero,
                np.array([np.vdot(q, fit.target) for q, fit in zip(weighted, self._fits, strict=True)]),
                np.array([np.vdot(q, p) for q, p in zip(weighted, parts, strict=True)]),
            )

        def values(scales: FloatArray) -> FloatArray:
            return np.array([fit.value(s * p) for fit, s, p in zip(self._fits, scales, parts, strict=True)])

        return Ray(values, lambda costs: np.ones(len(parts)))

    def dual(self, candidate: FloatArray) -> tuple[FloatArray, FloatArray, Ray]:
        r"""Return :math:`M_\nu`, its part of real weights, and the dual values along the ray."""
        nu = self.nu(candidate)
        return *self._pulled(nu), self._dual_ray(nu)

    def dominating(self, candidate: FloatArray, M: FloatArray, z: FloatArray) -> FloatArray:
        """Compute `spectra.dominating` for the matrices M of a dual vector, through its rows if they are few."""
        data = self.instance.map
        if not data.has_few_rows:
            return dominating(M, z)
        duals = self.instance.duals_of_matrices(self.nu(candidate))
        return np.array([row_dominating(data, nu, weights) for nu, weights in zip(duals, z, strict=True)])

    def _predictions(self, T: FloatArray, weights: FloatArray) -> FloatArray:
        return self.instance.map.values(T, weights)

    def _pulled(self, nu: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.instance.map.pull(nu)

    def _dual_ray(self, nu: FloatArray) -> Ray:
        parts = self._parts(nu)
        if self.instance.fit.quadratic:
            linear = np.array([np.vdot(v, fit.target) for fit, v in zip(self._fits, parts, strict=True)])
            curved = np.array([0.25 * np.vdot(v, fit.per_weight(v)) for fit, v in zip(self._fits, parts, strict=True)])
            return _squared_dual(linear, curved, self.at_zero, len(nu))

        def values(scales: FloatArray) -> FloatArray:
            return np.array([fit.safe_dual_value(s * v) for fit, s, v in zip(self._fits, scales, parts, strict=True)])

        def best(largest: FloatArray) -> FloatArray:
            return np.array([best_scale(fit, v, t) for fit, v, t in zip(self._fits, parts, largest, strict=True)])

        return Ray(values, best)

    def nu(self, candidate: FloatArray) -> FloatArray:
        """Return the dual vector of shape (n, C), projected onto the domain of the conjugate."""
        return self.instance.fit.project(candidate)

    def free(self) -> None:
        """Do nothing: the data belong to the problem."""

    def _parts(self, array: FloatArray) -> list[FloatArray]:
        """Split an array (n, C) into the columns of each part."""
        step = array.shape[1] // len(self._fits)
        return [np.ascontiguousarray(array[:, start : start + step]) for start in range(0, array.shape[1], step)]


class GramEvaluation:
    r"""Evaluation of a squared loss from the Gram matrix of the data, without a pass over the samples.

    A dual vector, :math:`\nu_i = 2 w_i (y_i - \mathcal{A}(T)_i)` with sample weights w, is represented by the
    coordinates of T, of shape (P, C), in `symmetric_basis`, see `to_vectors`. The Gram matrix, in single or double
    precision, and the products with the targets are in this basis, too.
    """

    def __init__(self, instance: Instance, gram: npt.NDArray[Any], products: FloatArray) -> None:
        self.instance, self.products = instance, products
        self._gram: npt.NDArray[Any] | None = gram
        self.at_zero = np.array([fit.value_at_zero for fit in instance.fit.parts])

    def point(self, T: FloatArray, weights: FloatArray) -> Ray:
        """Return the losses along the ray through T and real weights."""
        t = to_vectors(T, self.instance.map.layout, weights)
        return _squared_point(
            self.at_zero, np.einsum("pk,pk->k", t, self.products), np.einsum("pk,pk->k", t, self._image(t))
        )

    def dual(self, candidate: FloatArray) -> tuple[FloatArray, FloatArray, Ray]:
        r"""Return :math:`M_\nu`, its part of real weights, and the dual values along the ray."""
        t = candidate
        image, along = self._image(t), np.einsum("pk,pk->k", t, self.products)
        linear = 2.0 * (self.at_zero - along)
        curved = self.at_zero - 2.0 * along + np.maximum(np.einsum("pk,pk->k", t, image), 0.0)
        point = to_point(2.0 * (self.products - image), self.instance.map.layout)
        return *point, _squared_dual(linear, curved, self.at_zero, len(self.instance.target))

    def dominating(self, candidate: FloatArray, M: FloatArray, z: FloatArray) -> FloatArray:
        """Compute `spectra.dominating` for the matrices M of a dual vector."""
        return dominating(M, z)

    def nu(self, candidate: FloatArray) -> FloatArray:
        """Return the dual vector of shape (n, C)."""
        return -self.instance.fit.gradient(self.instance.map.values(*to_point(candidate, self.instance.map.layout)))

    def free(self) -> None:
        """Free the memory of the Gram matrix; afterwards, the evaluation can still compute dual vectors."""
        self._gram = None

    def _image(self, t: FloatArray) -> FloatArray:
        assert self._gram is not None
        image: FloatArray = (self._gram @ t.astype(self._gram.dtype, copy=False)).astype(np.float64, copy=False)
        return image


#: Evaluation of candidates of a (normalised) instance. A point is given by ``T = 2 Z`` of shape (C, N, N) and real
#: weights of shape (C, p), and has predictions ``<X_i, T_k>`` plus those of the weights; the form of a dual vector
#: depends on the class. Rays have K = C values if the loss adds up over the outputs, otherwise one.
Evaluation = DirectEvaluation | GramEvaluation


def _squared_point(squares: FloatArray, linear: FloatArray, curved: FloatArray) -> Ray:
    def values(scales: FloatArray) -> FloatArray:
        return squares - 2.0 * scales * linear + scales**2 * curved

    def best(costs: FloatArray) -> FloatArray:
        peak = np.divide(linear - 0.5 * costs, curved, out=np.zeros_like(curved), where=curved > 0.0)
        return np.maximum(peak, 0.0)

    return Ray(values, best)


def _squared_dual(linear: FloatArray, curved: FloatArray, squares: FloatArray, n: int) -> Ray:
    def values(scales: FloatArray) -> FloatArray:
        raw = scales * linear - scales**2 * curved
        return raw - EPS * n * (np.abs(raw) + squares)

    def best(largest: FloatArray) -> FloatArray:
        peak = np.divide(0.5 * linear, curved, out=np.zeros_like(curved), where=curved > 0.0)
        return np.minimum(np.maximum(peak, 0.0), largest)

    return Ray(values, best)
