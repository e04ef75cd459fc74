"""Dimension of the set of functions that an architecture represents, from ranks modulo a prime, and its bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qsdp._utils.validation import IntArray, RandomState, check_choice, check_integer, check_random_state
from qsdp.exceptions import InvalidInputError

__all__ = ["PRIME", "DimensionBounds", "FamilyDimension", "dimension_bounds", "family_dimension", "modular_rank"]

#: Products of two residues fit into 64 bits.
PRIME = 2**31 - 1


@dataclass(frozen=True)
class FamilyDimension:
    """Dimension of a family of functions, and the number of parameters that describe them."""

    dimension: int
    n_parameters: int


@dataclass(frozen=True)
class DimensionBounds:
    """Upper bounds on the dimension of a family of polynomial networks.

    Attributes
    ----------
    corrected : int
        The smaller of `free_parameters` and `ambient`.
    free_parameters : int
        Number of parameters minus the number of rescalings that do not change the function: one for every hidden
        neuron's output and, with Fan's neurons, one for the two factors of each.
    ambient : int
        Dimension of the polynomials of the networks' degree in d_0 variables, times d_H.
    printed : int
        Equation (19), or (23) for the competitor, as printed. Both count homogeneous polynomials of degree 2^(H-1)
        and are not bounds.
    """

    corrected: int
    free_parameters: int
    ambient: int
    printed: int


def family_dimension(
    widths: Sequence[int], family: str = "fan", *, random_state: RandomState = 0, n_draws: int = 2
) -> FamilyDimension:
    r"""Return the generic dimension of the functions of a polynomial network.

    It is the generic rank of the Jacobian of the outputs in the parameters, with more equations than parameters. Points
    and parameters are random residues modulo :math:`2^{31} - 1`, where the rank is exact. It never exceeds the generic
    rank, and is below it with a probability of the order of :math:`10^{-7}`.

    Parameters
    ----------
    widths : sequence of int
        d_0, ..., d_H.
    family : {"fan", "square_act"}, default="fan"
        Fan's neurons in all layers, with the identity between layers, or linear layers with squares between them.
    random_state : int, Generator, RandomState or None
    n_draws : int, default=2
        Number of draws; the largest rank counts.

    Examples
    --------
    >>> from benchmarks.papers.fan.dimension import family_dimension
    >>> family_dimension([2, 2, 1])
    FamilyDimension(dimension=12, n_parameters=27)
    >>> family_dimension([2, 2, 1], "square_act")
    FamilyDimension(dimension=6, n_parameters=9)
    """
    layout = _checked_widths(widths)
    layer = _LAYERS[check_choice("family", family, _LAYERS)]
    n_draws = check_integer("n_draws", n_draws, minimum=1)
    rng = check_random_state(random_state)
    jacobians = [_jacobian(layout, layer, family == "square_act", rng) for _ in range(n_draws)]
    return FamilyDimension(max(map(modular_rank, jacobians)), jacobians[0].shape[1])


def dimension_bounds(widths: Sequence[int], family: str = "fan") -> DimensionBounds:
    r"""Return upper bounds on the dimension of Fan's networks or of their competitor, as corrected and as printed.

    .. math::

        \text{fan}: \min\Big(\sum_{h=1}^H 3(d_{h-1} + 1) d_h - \sum_{h=1}^H d_h - \sum_{h=1}^{H-1} d_h,\;
        d_H \binom{d_0 + 2^H}{2^H}\Big), \qquad
        \text{square\_act}: \min\Big(\sum_{h=1}^H (d_{h-1} + 1) d_h - \sum_{h=1}^{H-1} d_h,\;
        d_H \binom{d_0 + 2^{H-1}}{2^{H-1}}\Big)

    Parameters
    ----------
    widths : sequence of int
        d_0, ..., d_H.
    family : {"fan", "square_act"}, default="fan"
        As in `family_dimension`.

    Notes
    -----
    Fan et al., Lemma 2 and equation (23).
    """
    d = _checked_widths(widths)
    fan = check_choice("family", family, ["fan", "square_act"]) == "fan"
    pairs = list(itertools.pairwise(d))
    hidden = sum(d[1:-1])
    half = 2 ** (len(pairs) - 1)
    terms, degree = (3, 2 * half) if fan else (1, half)
    free = sum(terms * (n + 1) * m for n, m in pairs) - hidden - (sum(d[1:]) if fan else 0)
    ambient = d[-1] * math.comb(d[0] + degree, degree)
    counted = sum(terms * n * (m + 1) for n, m in pairs) - hidden
    printed = min(counted, d[-1] * math.comb(d[0] + half - 1, half))
    return DimensionBounds(min(free, ambient), free, ambient, printed)


def modular_rank(matrix: IntArray) -> int:
    """Return the rank of an integer matrix modulo the prime, by elimination."""
    A = np.array(matrix, dtype=np.int64) % PRIME
    rank = 0
    for column in range(A.shape[1]):
        rows = np.flatnonzero(A[rank:, column])
        if not len(rows):
            continue
        pivot = rank + rows[0]
        A[[rank, pivot]] = A[[pivot, rank]]
        A[rank] = A[rank] * pow(int(A[rank, column]), -1, PRIME) % PRIME
        below = A[rank + 1 :, column].copy()
        A[rank + 1 :] = (A[rank + 1 :] - below[:, None] * A[rank] % PRIME) % PRIME
        rank += 1
        if rank == len(A):
            break
    return rank


def _checked_widths(widths: Sequence[int]) -> tuple[int, ...]:
    checked = tuple(check_integer("widths", width, minimum=1) for width in widths)
    if len(checked) < 2:
        raise InvalidInputError(f"widths must be at least two numbers; got {list(checked)}")
    return checked


def _product(A: IntArray, B: IntArray) -> IntArray:
    """Return A @ B modulo the prime; every product is reduced before it is added."""
    total = np.zeros((*A.shape[:-1], B.shape[-1]), dtype=np.int64)
    for k in range(A.shape[-1]):
        total = (total + A[..., :, k, None] * B[..., k, None, :] % PRIME) % PRIME
    return total


def _jacobian(widths: Sequence[int], layer: _Layer, squares: bool, rng: np.random.Generator) -> IntArray:
    """Return the Jacobian of the outputs at random points in all parameters, (points * outputs, parameters)."""
    counts = [layer.n_parameters(n) * m for n, m in itertools.pairwise(widths)]
    # At least as many equations as unknowns, and some to spare.
    n_points = -(-(sum(counts) + 10) // widths[-1])
    values: IntArray = rng.integers(PRIME, size=(n_points, widths[0]))
    tangents = np.zeros((n_points, widths[0], 0), dtype=np.int64)
    for number, m in enumerate(widths[1:]):
        theta = rng.integers(PRIME, size=(m, layer.n_parameters(widths[number])))
        z, in_inputs, in_parameters = layer.evaluate(values, theta)
        local = np.zeros((n_points, m, counts[number]), dtype=np.int64)
        size = in_parameters.shape[2]
        for k in range(m):
            local[:, k, k * size : (k + 1) * size] = in_parameters[:, k]
        tangents = np.concatenate([_product(in_inputs, tangents), local], axis=2)
        values = z
        if squares and number < len(widths) - 2:
            tangents = 2 * z[:, :, None] % PRIME * tangents % PRIME
            values = z * z % PRIME
    return tangents.reshape(-1, tangents.shape[2])


@dataclass(frozen=True)
class _Layer:
    """Parameters of a family's neuron with n inputs, and values and derivatives of m neurons, modulo the prime.

    `evaluate` takes inputs (P, n) and parameters (m, p), and returns values (P, m), derivatives in the inputs
    (P, m, n) and in the neuron's own parameters (P, m, p).
    """

    n_parameters: Callable[[int], int]
    evaluate: Callable[[IntArray, IntArray], tuple[IntArray, IntArray, IntArray]]


def _affine(X: IntArray, W: IntArray, b: IntArray) -> IntArray:
    return (_product(X, W.T) + b) % PRIME


def _linear(X: IntArray, theta: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    n, shape = X.shape[1], (len(X), len(theta), X.shape[1])
    W, b = theta[:, :n], theta[:, n]
    return _affine(X, W, b), np.broadcast_to(W, shape), _rows(np.ones(shape[:2], dtype=np.int64), X)


def _rows(factor: IntArray, X: IntArray) -> IntArray:
    """Return the derivative of factor * (w.x + b) in (w, b), (P, m, n + 1)."""
    with_one = np.column_stack([X, np.ones(len(X), dtype=np.int64)])
    return factor[:, :, None] * with_one[:, None, :] % PRIME


def _factors(X: IntArray, theta: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    n = X.shape[1]
    wr, br, wg, bg = theta[:, :n], theta[:, n], theta[:, n + 1 : 2 * n + 1], theta[:, 2 * n + 1]
    U, V = _affine(X, wr, br), _affine(X, wg, bg)
    in_inputs = (V[:, :, None] * wr % PRIME + U[:, :, None] * wg % PRIME) % PRIME
    return U * V % PRIME, in_inputs, np.concatenate([_rows(V, X), _rows(U, X)], axis=2)


def _powers(X: IntArray, theta: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return wb.(x*x) + c."""
    squares = X * X % PRIME
    z, _, in_parameters = _linear(squares, theta)
    return z, 2 * X[:, None, :] % PRIME * theta[:, :-1] % PRIME, in_parameters


def _fan(X: IntArray, theta: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    split = 2 * (X.shape[1] + 1)
    return _sum(_factors(X, theta[:, :split]), _powers(X, theta[:, split:]))


def _sum(
    first: tuple[IntArray, IntArray, IntArray], second: tuple[IntArray, IntArray, IntArray]
) -> tuple[IntArray, IntArray, IntArray]:
    z, in_inputs = ((a + b) % PRIME for a, b in zip(first[:2], second[:2], strict=True))
    return z, in_inputs, np.concatenate([first[2], second[2]], axis=2)


_LAYERS = {
    "fan": _Layer(lambda n: 3 * n + 3, _fan),
    "square_act": _Layer(lambda n: n + 1, _linear),
}
