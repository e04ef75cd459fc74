r"""Maps from which quadratic layers are built: affine, power and quadratic-form maps of a layer's input.

Every array may have leading axes, such as several starts trained at a time: inputs (..., B, n), weights (..., m, n),
values (..., B, m). `E` is always the derivative of the loss by the map's values.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from qsdp._utils.validation import FloatArray, _show, check_choice, check_numbers
from qsdp.exceptions import InvalidInputError

__all__ = ["COUPLINGS", "AffineMap", "Map", "Parameters", "PowerMap", "QuadraticFormMap", "check_symmetric"]


#: Step on an off-diagonal entry of the symmetric Q, as a multiple of the derivative with respect to that entry.
COUPLINGS = {"tied": 2.0, "full": 1.0, "packed": 0.5}

#: Asymmetry, relative to the largest entry, up to which a matrix counts as symmetric.
_TOLERANCE = 1e-12


@functools.lru_cache(maxsize=64)
def step_weights(coupling: str, n: int) -> FloatArray:
    r"""Return T of shape (n, n), where a sample a changes Q by a multiple of :math:`T \circ aa^T`.

    The diagonal of T is one. The other entries are 2 if :math:`q_{ij} = q_{ji}` is one tied number, the convention of
    the paper, :math:`M(a) = 2aa^T - \mathrm{diag}(a \circ a)`, A(16). They are 1 if all n² entries are free, and 1/2 if
    the coefficients :math:`u_{ij} = 2 q_{ij}`, i < j, of the monomials are free.
    """
    factor = COUPLINGS[check_choice("coupling", coupling, COUPLINGS)]
    weights = np.full((n, n), factor)
    np.fill_diagonal(weights, 1.0)
    weights.flags.writeable = False
    return weights


def check_symmetric(name: str, Q: FloatArray) -> FloatArray:
    """Return matrices (..., n, n) made exactly symmetric; raise an error if they are not nearly symmetric."""
    matrices = check_numbers(name, Q, "(..., n, n)")
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2]:
        raise InvalidInputError(f"{name} must have shape (..., n, n); got {matrices.shape}")
    transposed = np.swapaxes(matrices, -1, -2)
    largest = float(np.abs(matrices).max(initial=0.0))
    if float(np.abs(matrices - transposed).max(initial=0.0)) > _TOLERANCE * largest:
        raise InvalidInputError(
            f"{name} must be symmetric: its cached products are used as those of its transpose; got {_show(Q)}"
        )
    return 0.5 * (matrices + transposed)


#: Arrays of a layer by name.
Parameters = dict[str, FloatArray]

#: Canonical triple (Q, w, b) of a map; Q is None if it is zero.
Triple = tuple[FloatArray | None, FloatArray, FloatArray]

#: Maximum number of entries in a temporary array of a gradient.
_LARGEST = 2**18


class Map(ABC):
    """A map of n inputs to m values, linear in its parameters."""

    weight: str
    bias: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return (self.weight,) if self.bias is None else (self.weight, self.bias)

    def shapes(self, n: int, m: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of every parameter."""
        shapes: dict[str, tuple[int, ...]] = {self.weight: (m, n)}
        return shapes if self.bias is None else shapes | {self.bias: (m,)}

    @abstractmethod
    def values(self, A: FloatArray, P: Parameters) -> tuple[FloatArray, FloatArray | None]:
        """Return the values (..., B, m), and a cache for `input_gradient`."""

    @abstractmethod
    def add(self, P: Parameters, E: FloatArray, A: FloatArray) -> None:
        """Add its gradient to every parameter, weighted by the coupling for symmetric matrices.

        With a scaled `E`, this is a step.
        """

    def gradients(self, E: FloatArray, A: FloatArray) -> Parameters:
        """Return the gradient with respect to every parameter."""
        shapes = self.shapes(A.shape[-1], E.shape[-1])
        P = {name: np.zeros((*E.shape[:-2], *shape)) for name, shape in shapes.items()}
        self.add(P, E, A)
        return P

    @abstractmethod
    def input_gradient(self, E: FloatArray, A: FloatArray, P: Parameters, cache: FloatArray | None) -> FloatArray:
        """Return the gradient with respect to the input, of shape (..., B, n)."""

    @abstractmethod
    def kernel(self, A: FloatArray) -> FloatArray:
        r"""Return k(a_s, a_t) of shape (..., B, B): a step on sample t changes value s by -k times rate times E_t.

        Values are linear in the parameters, :math:`\langle \theta, \phi(a) \rangle`, so k is the inner product of
        :math:`\phi(a_s)` with the weighted :math:`\phi(a_t)`; see `DeferredLayer`.
        """

    @abstractmethod
    def triple(self, P: Parameters) -> Triple:
        r"""Return (Q, w, b) with values :math:`x^T Q x + w \cdot x + b`."""

    def n_cached(self, n: int, m: int) -> int:
        """Return how many numbers the backward pass of one sample needs, besides the values."""
        return 0

    def _add_bias(self, values: FloatArray, P: Parameters) -> FloatArray:
        return values if self.bias is None else values + P[self.bias][..., None, :]

    def _step_bias(self, P: Parameters, E: FloatArray) -> None:
        if self.bias is not None:
            P[self.bias] += E[..., 0, :] if E.shape[-2] == 1 else E.sum(axis=-2)

    def _constant(self, P: Parameters) -> FloatArray:
        return np.zeros(P[self.weight].shape[:-1]) if self.bias is None else P[self.bias]


def outer(E: FloatArray, A: FloatArray) -> FloatArray:
    """Return the sum over samples of the outer products, (..., m, n)."""
    turned = np.swapaxes(E, -1, -2)
    # A product of one column and one row is too little work for BLAS.
    return turned * A if E.shape[-2] == 1 else turned @ A


def _products(A: FloatArray) -> FloatArray:
    return A @ np.swapaxes(A, -1, -2)


@dataclass(frozen=True)
class AffineMap(Map):
    r"""The map :math:`w_k \cdot x + b_k`, plus a constant `shift`."""

    weight: str = "W"
    bias: str | None = "b"
    shift: float = 0.0

    def values(self, A: FloatArray, P: Parameters) -> tuple[FloatArray, FloatArray | None]:
        """Return W x + b."""
        values = self._add_bias(A @ np.swapaxes(P[self.weight], -1, -2), P)
        return (values + self.shift if self.shift else values), None

    def add(self, P: Parameters, E: FloatArray, A: FloatArray) -> None:
        """Add E'A, and the sum of E."""
        P[self.weight] += outer(E, A)
        self._step_bias(P, E)

    def input_gradient(self, E: FloatArray, A: FloatArray, P: Parameters, cache: FloatArray | None) -> FloatArray:
        """Return E W."""
        return E @ P[self.weight]

    def kernel(self, A: FloatArray) -> FloatArray:
        """Return x.x', plus one for a bias."""
        return _products(A) + float(self.bias is not None)

    def triple(self, P: Parameters) -> Triple:
        """Return (0, w, b)."""
        return None, P[self.weight], self._constant(P) + self.shift


@dataclass(frozen=True)
class PowerMap(AffineMap):
    r"""The map :math:`w_k \cdot (x \circ x) + b_k`."""

    weight: str = "Wb"
    bias: str | None = "c"

    def values(self, A: FloatArray, P: Parameters) -> tuple[FloatArray, FloatArray | None]:
        """Return Wb (x * x) + c."""
        return super().values(A * A, P)

    def add(self, P: Parameters, E: FloatArray, A: FloatArray) -> None:
        """Add E'(A * A), and the sum of E."""
        super().add(P, E, A * A)

    def input_gradient(self, E: FloatArray, A: FloatArray, P: Parameters, cache: FloatArray | None) -> FloatArray:
        """Return 2 x * (E Wb)."""
        return 2.0 * A * super().input_gradient(E, A, P, cache)

    def kernel(self, A: FloatArray) -> FloatArray:
        """Return (x * x).(x' * x'), plus one for a bias."""
        return super().kernel(A * A)

    def triple(self, P: Parameters) -> Triple:
        """Return (diag(wb), 0, c)."""
        weights = P[self.weight]
        return weights[..., :, None] * np.eye(weights.shape[-1]), np.zeros_like(weights), self._constant(P)

    def n_cached(self, n: int, m: int) -> int:
        """Return n, the number of squares."""
        return n


@dataclass(frozen=True)
class QuadraticFormMap(Map):
    r"""The map :math:`x^T Q_k x + w_k \cdot x + b_k` with symmetric Q; A(23)-(26).

    The forward pass keeps :math:`V_k = x^T Q_k`, of shape (..., B, m, n); the derivative with respect to the input is
    :math:`\sum_k E_k (w_k + 2 V_k)`, A(46).
    """

    weight: str = "Q"
    linear: str | None = "W"
    bias: str | None = "b"
    coupling: str = "tied"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(name for name in (self.weight, self.linear, self.bias) if name is not None)

    def shapes(self, n: int, m: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of every parameter."""
        shapes: dict[str, tuple[int, ...]] = {self.weight: (m, n, n)}
        if self.linear is not None:
            shapes[self.linear] = (m, n)
        return shapes if self.bias is None else shapes | {self.bias: (m,)}

    def values(self, A: FloatArray, P: Parameters) -> tuple[FloatArray, FloatArray | None]:
        """Return b + (W + V) x, and V = x'Q."""
        Q = P[self.weight]
        m, n = Q.shape[-3:-1]
        # Because of symmetry, rows of the stack serve as columns, and one product is enough for all neurons.
        V = A @ np.swapaxes(Q.reshape(*Q.shape[:-3], m * n, n), -1, -2)
        V = V.reshape(*V.shape[:-1], m, n)
        total = V if self.linear is None else V + P[self.linear][..., None, :, :]
        return self._add_bias((total @ A[..., :, :, None])[..., 0], P), V

    def add(self, P: Parameters, E: FloatArray, A: FloatArray) -> None:
        """Add the weighted sums of E x x', some neurons at a time, and those of an affine map."""
        (B, m), n = E.shape[-2:], A.shape[-1]
        # As many neurons at a time as the bound on temporary arrays allows.
        length = max(1, _LARGEST // (E.size // (B * m) * n * max(B, n)))
        for start in range(0, m, length):
            some = slice(start, start + length)
            P[self.weight][..., some, :, :] += self._sums(E[..., some], A)
        if self.linear is not None:
            P[self.linear] += outer(E, A)
        self._step_bias(P, E)

    def _sums(self, E: FloatArray, A: FloatArray) -> FloatArray:
        """Return the weighted sums over samples of E_k a a', (..., m, n, n)."""
        (B, m), n = E.shape[-2:], A.shape[-1]
        weights = step_weights(self.coupling, n)
        if B == 1:
            square = weights * (np.swapaxes(A, -1, -2) * A)
            return E[..., 0, :, None, None] * square[..., None, :, :]
        stack = (E[..., :, None] * A[..., :, None, :]).reshape(*E.shape[:-2], B, m * n)
        sums = np.swapaxes(stack, -1, -2) @ A
        sums = sums.reshape(*sums.shape[:-2], m, n, n)
        # Rounding differs between the two halves, and would add up over the steps.
        return (0.5 * weights) * (sums + np.swapaxes(sums, -1, -2))

    def input_gradient(self, E: FloatArray, A: FloatArray, P: Parameters, cache: FloatArray | None) -> FloatArray:
        """Return the sum of E (W + 2 V) over neurons."""
        assert cache is not None
        slope = 2.0 * cache if self.linear is None else P[self.linear][..., None, :, :] + 2.0 * cache
        return (E[..., :, None, :] @ slope)[..., 0, :]

    def kernel(self, A: FloatArray) -> FloatArray:
        """Return a polynomial in x.x' and (x * x).(x' * x') that depends on the coupling."""
        factor = COUPLINGS[self.coupling]
        products = _products(A)
        kernel: FloatArray = factor * products * products + (1.0 - factor) * _products(A * A)
        if self.linear is not None:
            kernel += products
        return kernel + float(self.bias is not None)

    def triple(self, P: Parameters) -> Triple:
        """Return (Q, w, b)."""
        Q = P[self.weight]
        linear = np.zeros(Q.shape[:-1]) if self.linear is None else P[self.linear]
        return Q, linear, np.zeros(Q.shape[:-2]) if self.bias is None else P[self.bias]

    def n_cached(self, n: int, m: int) -> int:
        """Return mn, the number of products V."""
        return m * n
