r"""The data step of operator splitting, by the cheapest of three equivalent linear systems.

For targets q of shape (n, C), sample weights :math:`\Omega` and matrices :math:`T_0` of shape (C, R, N, N) in scaled
coordinates, R being the number of blocks, each of them solves (real weights s of shape (C, p), in coordinates scaled by
:math:`\sigma`, add to the predictions, and :math:`\tfrac14 \|s - s_0\|^2` to the objective)

.. math::

    \min_T\; \tfrac{w}{2} \|\tilde{\mathcal{A}}(T) - q\|_\Omega^2 + \tfrac14 \|T - T_0\|_F^2, \qquad
    \tilde{\mathcal{A}}(T)_i = \langle \mathcal{X}_i, T_{jk} / (\delta_j \delta_k) \rangle,

and all outputs share its factorisation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from qsdp._utils import deadline
from qsdp._utils.arrays import LARGEST_SINGLE
from qsdp._utils.tuning import EIGEN, MANY_ROWS, ROUGH, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.data_map import COLUMNS, SAMPLES, DataMap
from qsdp.gram import to_point, to_vectors
from qsdp.lifting import QuadraticMap
from qsdp.relaxation.instance import Instance

__all__ = [
    "SOONEST",
    "DataStep",
    "GramStep",
    "IterativeStep",
    "KernelStep",
    "choose_step",
    "factored",
    "fits",
    "forward",
    "operations",
    "outer",
    "precision",
    "solved",
]

#: Largest memory, in bytes, of a kernel or a Gram matrix together with its factor.
_MEMORY = 3 * 2**30

#: Iterations before the first update of the metric; each interval doubles the count.
SOONEST = 6

#: Expected number of iterations of a solve, that of easy problems.
_ITERATIONS = 100

#: Maximum number of conjugate gradient iterations of a step, which ill-conditioned problems reach.
_PRODUCTS = 60

#: Indices of the outputs to which T0 and q of a step belong.
Outputs = npt.NDArray[np.intp]

#: T of shape (C, R, N, N), s of shape (C, p), and their predictions of shape (n, C) if they are a by-product.
Solution = tuple[FloatArray, FloatArray, FloatArray | None]


class KernelStep:
    r"""Data step with the n x n kernel :math:`\langle \tilde{\mathcal{X}}_i, \tilde{\mathcal{X}}_j \rangle`."""

    def __init__(
        self,
        data: DataMap,
        weights: FloatArray | None = None,
        dtype: npt.DTypeLike = np.float64,
    ) -> None:
        self._data, self._weights, self.passes = data, _column(weights), data.in_precision(dtype)
        self.side = data.n_rows
        self._kernel = np.empty((self.side, self.side), dtype)

    def prepare(self, delta: FloatArray, w: float, sigma: float) -> None:
        """Form and factor the kernel."""
        self._outer, self._sigma = outer(delta), sigma
        self._compliance = 0.5 / (w * self._weights)
        self._data.fill_kernel(delta, self._kernel, sigma)
        self._kernel[np.diag_indices_from(self._kernel)] += np.ravel(self._compliance)
        self._factor = factored(self._kernel)

    def solve(self, T0: FloatArray, s0: FloatArray, q: FloatArray, outputs: Outputs) -> Solution:
        """Minimise over T and s through the factored kernel; return them and their predictions."""
        missing = q - forward(self.passes, T0 / self._outer, s0 / self._sigma)
        a = solved(self._factor, missing)
        M, m = self.passes.pull(a)
        return T0 + M.reshape(T0.shape) / self._outer, s0 + m / self._sigma, q - self._compliance * a


class GramStep:
    """Data step with the Gram matrix of the p = N(N + 1)/2 products of columns, formed once, in `symmetric_basis`.

    For the squared loss the targets never change, so their products with the samples suffice. The Gram matrix is kept
    in its original precision.
    """

    def __init__(
        self,
        data: DataMap,
        gram: npt.NDArray[Any],
        products: FloatArray | None = None,
        weights: FloatArray | None = None,
    ) -> None:
        self.passes, self._products, self.gram = data.in_precision(gram.dtype), products, gram
        self._weights = _column(weights)
        self.side = len(gram)
        self._layout = data.layout
        self._scaled = np.empty_like(gram)

    def prepare(self, delta: FloatArray, w: float, sigma: float) -> None:
        """Scale and factor the Gram matrix."""
        self._scale = self._layout.scales(delta, sigma)
        self._ridge = 0.5 / w
        np.multiply(self.gram, self._scale, out=self._scaled, casting="same_kind")
        self._scaled *= self._scale[:, None]
        self._scaled[np.diag_indices_from(self._scaled)] += self._ridge
        self._factor = factored(self._scaled)

    def solve(self, T0: FloatArray, s0: FloatArray, q: FloatArray, outputs: Outputs) -> Solution:
        """Return T, s and None in place of their predictions, which would take a pass over the data."""
        if self._products is None:
            M, m = self.passes.pull(self._weights * q)
            products = to_vectors(M, self._layout, m)
        else:
            products = self._products[:, outputs]
        right = products * self._scale[:, None] + self._ridge * to_vectors(T0, self._layout, s0)
        T, s = to_point(solved(self._factor, right), self._layout)
        return T.reshape(T0.shape), s, None


class IterativeStep:
    r"""Matrix-free data step by conjugate gradients, started from the last solution.

    The preconditioner is the operator of Gaussian data with the same second moments :math:`\Sigma`,
    :math:`n (2 \Sigma T \Sigma + \mathrm{tr}(\Sigma T) \Sigma)` with the total weight n. It is inverted in the
    eigenbasis of :math:`\Sigma`.

    Without it, problems too large for the other steps take 17.2 s for 12.2 and 26.5 s for 8.8, to a gap of a hundredth.
    """

    side = 0

    def __init__(
        self,
        data: QuadraticMap,
        weights: FloatArray | None = None,
    ) -> None:
        self.passes = data
        self._weights = np.ones(data.n_rows) if weights is None else weights
        self._moments = second_moments(data, weights)
        self._outer: FloatArray = np.ones_like(self._moments)
        self._last: FloatArray | None = None

    def prepare(self, delta: FloatArray, w: float, sigma: float) -> None:
        """Diagonalise the scaled second moments."""
        matrix = outer(delta)[0]
        if self._last is not None:
            self._last *= matrix / self._outer
        self._outer, self._ridge = matrix, 0.5 / w
        values, self._vectors = scipy.linalg.eigh(self._moments / matrix, check_finite=False)
        values = np.maximum(values, 0.0)
        n = float(self._weights.sum())
        self._spectrum = 2.0 * n * np.outer(values, values) + self._ridge
        diagonal = np.diagonal(self._spectrum)
        self._spread = values / diagonal
        self._trace = n * values / (1.0 + n * float(values @ self._spread))

    def solve(self, T0: FloatArray, s0: FloatArray, q: FloatArray, outputs: Outputs) -> Solution:
        """Return T and its predictions, up to a residual that shrinks with the step; columns have no real weights."""
        if self._last is None:
            self._last = np.zeros((int(outputs.max()) + 1, *T0.shape[1:]))
            self._last[outputs] = T0
        T = self._last[outputs]
        predictions = forward(self.passes, T / self._outer, s0)
        for k in range(len(T)):
            T[k, 0], predictions[:, k] = self._solve(T[k, 0], predictions[:, k], T0[k, 0], q[:, k])
        self._last[outputs] = T
        return T, s0, predictions

    def _solve(
        self, T: FloatArray, prediction: FloatArray, T0: FloatArray, q: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        residual = self.passes.adjoint(self._weights * (q - prediction)) / self._outer + self._ridge * (T0 - T)
        direction = shaped = self._precondition(residual)
        size = start = float(np.vdot(residual, shaped))
        for _ in range(_PRODUCTS):
            if not size > ROUGH**2 * start:
                break
            deadline.check()
            image = self.passes.forward(direction / self._outer)
            weighted = self._weights * image
            curved = float(image @ weighted) + self._ridge * float(np.vdot(direction, direction))
            length = size / curved
            T, prediction = T + length * direction, prediction + length * image
            residual = residual - length * (self.passes.adjoint(weighted) / self._outer + self._ridge * direction)
            shaped = self._precondition(residual)
            size, last = float(np.vdot(residual, shaped)), size
            direction = shaped + size / last * direction
        return T, prediction

    def _precondition(self, R: FloatArray) -> FloatArray:
        U = (self._vectors.T @ R @ self._vectors) / self._spectrum
        U[np.diag_indices_from(U)] -= float(self._trace @ np.diagonal(U)) * self._spread
        preconditioned: FloatArray = self._vectors @ U @ self._vectors.T
        return preconditioned


#: Solver of the data step; `passes` is the data in the precision of its matrix. `prepare` sets the scales of the
#: coordinates, of shape (R, N), the weight of the predictions and the scale of real weights, and factors a matrix of
#: side `side` (0 if there is none). `solve` returns a `Solution`.
DataStep = KernelStep | GramStep | IterativeStep


def operations(instance: Instance, tol: float) -> float:
    """Estimate the number of floating-point operations of a solve."""
    cones = 2.0 * EIGEN * instance.size**3 * instance.n_matrices
    return min(_costs(instance, tol, _ITERATIONS).values()) + _ITERATIONS * cones


def choose_step(instance: Instance, tol: float) -> str:
    """Choose "kernel", "gram" or "iterative", whichever takes the fewest operations and fits into memory."""
    # Convergence is linear, so that a coarse tolerance takes about half of the iterations.
    costs = _costs(instance, tol, _ITERATIONS if tol < SMALL else _ITERATIONS // 2)
    return min(costs, key=costs.__getitem__)


def precision(step: str, instance: Instance, tol: float) -> npt.DTypeLike:
    """Choose the data type of a step's matrix: single precision if it is large and the tolerance allows it.

    In the end, bounds and objectives are computed from the data in double precision.
    """
    data = instance.map
    if step == "iterative" or tol < SMALL or _side(step, instance) < MANY_ROWS or SAMPLES not in data.offers:
        return np.float64
    return np.float32 if data.largest_stored < LARGEST_SINGLE else np.float64


def _costs(instance: Instance, tol: float, count: int) -> dict[str, float]:
    """Estimate the cost of `count` iterations with each data step, in operations of factorisations."""
    data, N = instance.map, instance.size
    n, p, C = data.n_rows, data.layout.n_entries, int(instance.target.shape[1])
    pass_over = 2.0 * n * C * data.row_operations
    bytes_of = {step: np.dtype(precision(step, instance, tol)).itemsize for step in ("kernel", "gram")}

    def cost(step: str, side: float, once: float, again: float, passes: float) -> float:
        """Return the cost of a step whose matrix takes `once` operations to form and `again` for every metric."""
        relative = bytes_of[step] / np.dtype(np.float64).itemsize
        metric = relative * (again + side**3 / 3.0)
        # Each update of the metric takes a factorisation.
        updates = int(math.log2(count / SOONEST))
        return relative * once + updates * metric + count * (relative * 4.0 * side * side * C + passes)

    # Matrix products are twice as fast as factorisations.
    gram = cost("gram", p, 0.5 * data.pair_operations, 0.0, 0.0 if instance.fit.quadratic else pass_over)
    if SAMPLES not in data.offers:
        return {"gram": gram}
    costs = {"kernel": cost("kernel", n, 0.0, data.kernel_operations, pass_over), "gram": gram}
    if COLUMNS in data.offers:
        # Besides passes, there are four products of matrices of side N.
        costs["iterative"] = count * _PRODUCTS * (pass_over + 4.0 * 2.0 * N**3 * C)
    for step in bytes_of:
        if len(costs) > 1 and not fits(step, instance, precision(step, instance, tol)):
            del costs[step]
    return costs


def fits(step: str, instance: Instance, dtype: npt.DTypeLike) -> bool:
    """Whether the memory suffices for the matrix of the step "kernel" or "gram" with its factor."""
    return 2 * np.dtype(dtype).itemsize * _side(step, instance) ** 2 <= _MEMORY


def _side(step: str, instance: Instance) -> int:
    """Return the side of the matrix of the step "kernel" or "gram"."""
    return instance.map.n_rows if step == "kernel" else instance.map.layout.n_entries


def outer(delta: FloatArray) -> FloatArray:
    """Return the factors of shape (R, N, N) of matrices in coordinates with scales of shape (R, N)."""
    return delta[:, :, None] * delta[:, None, :]


def factored(A: npt.NDArray[Any]) -> Any:
    """Compute the Cholesky factor of a symmetric matrix, which is overwritten."""
    # LAPACK is column-major: its columns are the rows of A.
    return scipy.linalg.cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)


def solved(factor: Any, b: FloatArray) -> FloatArray:
    """Solve for right-hand sides (side, C) with a factor, in the precision of the factor."""
    x = scipy.linalg.cho_solve(factor, b.astype(factor[0].dtype, copy=False), check_finite=False)
    return np.asarray(x, dtype=np.float64)


def forward(data: DataMap, T: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the predictions of shape (n, C) of matrices of shape (C, R, N, N) and real weights of shape (C, p)."""
    return data.values(T.reshape(T.shape[0] * T.shape[1], *T.shape[2:]), weights)


def second_moments(data: QuadraticMap, weights: FloatArray | None = None) -> FloatArray:
    r"""Compute the matrix whose Kronecker square models :math:`\frac1n \sum \mathcal{X}_i \otimes \mathcal{X}_i`.

    It is the (weighted) mean of x x' times :math:`|a|`; a lifted map adds a last row and column.
    """
    a, _, c = data.coefficients
    X = data.X
    fractions = np.full((len(X), 1), 1.0 / len(X)) if weights is None else (weights / weights.sum())[:, None]
    M = abs(a) * (X.T @ (fractions * X))
    if not data.lifted:
        return M
    edge = np.sqrt(abs(a) * abs(c)) * (fractions * X).sum(axis=0)
    full: FloatArray = np.block([[M, edge[:, None]], [edge[None, :], np.array([[abs(c)]])]])
    return full


def _column(weights: FloatArray | None) -> FloatArray:
    """Reshape weights (n,) to broadcast with predictions of shape (n, C)."""
    return np.ones((1, 1)) if weights is None else weights[:, None]
