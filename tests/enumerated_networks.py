"""The best networks of a fixed size, by enumerating all sets of neurons."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import WORK_FLOATS
from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted import check_solvable, solve_restricted
from qsdp.losses import DataFit
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.refinement._descent import IntArray
from qsdp.refinement._models import side_by_side
from qsdp.sampling import allocate
from qsdp.training_data import quadratic_map


class EnumeratedAtoms:
    r"""All neurons of a scalar problem up to order and signs, and their outputs :math:`u^T \mathcal{X}_i v`."""

    def __init__(self, problem: TrainingProblem) -> None:
        self.map = quadratic_map(problem.X, problem.activation)
        values = range(1 - problem.levels, problem.levels, 2)
        sides = np.array(list(itertools.product(values, repeat=problem.n_features)), dtype=np.float64)
        # Of a side and its negative, keep only one: with a last entry, the side in which that entry is +1.
        last = np.ones((len(sides), int(problem.lifted)))
        sides = np.hstack([sides, last])[: len(sides) if problem.lifted else (len(sides) + 1) // 2]
        self.sides: FloatArray = sides
        self.first, self.second = np.triu_indices(len(sides))
        a, b, c = self.map.coefficients
        self.hidden = self.map.X @ sides[:, : problem.n_features].T
        self.parts = (a, 0.5 * b, c) if problem.lifted else (a, 0.0, 0.0)

    def images(self, atoms: npt.NDArray[np.intp]) -> FloatArray:
        """Return the outputs (n, ...) of the atoms with the given numbers."""
        left, right = self.hidden[:, self.first[atoms]], self.hidden[:, self.second[atoms]]
        a, half, c = self.parts
        images: FloatArray = a * left * right + half * (left + right) + c
        return images

    def weights(self, atoms: npt.NDArray[np.intp]) -> tuple[IntArray, IntArray]:
        """Return the sides of the atoms with the given numbers."""
        sides = self.sides.astype(np.int8)
        return sides[self.first[atoms]], sides[self.second[atoms]]


def n_atoms(problem: TrainingProblem) -> int:
    """Return the number of neurons up to order and signs."""
    count = int(problem.levels**problem.n_features)
    sides = count if problem.lifted else (count + 1) // 2
    return sides * (sides + 1) // 2


def enumerate_best(problem: TrainingProblem, m: int, shared: bool) -> BilinearNetwork:
    """Return a best network of m neurons; for vector targets, with a shared layer and a loss that adds up over outputs.

    Outputs get equal numbers of neurons, as in `train_fixed_width`.
    """
    return _best(problem, m, shared) if problem.scalar else _best_of_outputs(problem, m)


def _best_of_outputs(problem: TrainingProblem, m: int) -> BilinearNetwork:
    sizes = allocate(m, [1.0] * problem.n_outputs)
    parts = [_best(problem.output(k), size, shared=True) for k, size in enumerate(sizes)]
    alpha = np.zeros((m, problem.n_outputs))
    # An output of weight zero would be indistinguishable from an output without neurons.
    values = np.concatenate([part.alpha for part in parts])
    alpha[np.arange(m), np.repeat(np.arange(problem.n_outputs), sizes)] = np.where(
        values == 0.0, np.finfo(np.float64).tiny, values
    )
    U, V = (np.concatenate([getattr(part, side) for part in parts]) for side in ("U", "V"))
    return BilinearNetwork(U, V, alpha, problem.levels, problem.activation)


def _best(problem: TrainingProblem, m: int, shared: bool) -> BilinearNetwork:
    if not shared:
        check_solvable(problem.loss)
    K = n_atoms(problem)
    atoms = EnumeratedAtoms(problem)
    if shared:
        return _best_shared(problem, atoms, m, K)
    if problem.loss.quadratic:
        return _best_free_squared(problem, atoms, m, K)
    return _best_free(problem, atoms, m, K)


def _best_shared(problem: TrainingProblem, atoms: EnumeratedAtoms, m: int, K: int) -> BilinearNetwork:
    fit, penalty = problem.data_fit, problem.beta * problem.dimension * m
    best, chosen, magnitude = math.inf, np.zeros(m, dtype=np.intp), 0.0
    # Skip sets of negative neurons only: positive neurons of the opposite magnitude give the same network.
    signed = itertools.takewhile(
        lambda numbers: numbers[0] < K, itertools.combinations_with_replacement(range(2 * K), m)
    )
    for numbers in _chunks(signed, m, problem.n_samples):
        signs = np.where(numbers < K, 1.0, -1.0)
        F = np.einsum("ibm,bm->bi", atoms.images(numbers % K), signs)
        scale = _magnitudes(fit, F, penalty)
        values = side_by_side(fit, len(F)).values((F * scale[:, None]).T).sum(axis=0) + penalty * np.abs(scale)
        i = int(np.argmin(values))
        if values[i] < best:
            best, chosen = float(values[i]), numbers[i]
            magnitude = fit.line_minimum(np.zeros_like(fit.target), F[i][:, None], penalty)
    U, V = atoms.weights(chosen % K)
    U = U * np.where(chosen < K, np.int8(1), np.int8(-1))[:, None]
    return BilinearNetwork(U, V, np.full(m, magnitude), problem.levels, problem.activation)


def _magnitudes(fit: DataFit, F: FloatArray, penalty: float) -> FloatArray:
    """Return the best magnitude (B,) of each row of predictions (B, n)."""
    if fit.quadratic:
        roots, plain = fit.whitened()
        F = F * roots
        products, squares = F @ plain.target[:, 0], np.einsum("bi,bi->b", F, F)
        excess = np.maximum(np.abs(products) - 0.5 * penalty, 0.0)
        a: FloatArray = np.sign(products) * excess / np.where(squares > 0.0, squares, 1.0)
        return a
    many = side_by_side(fit, len(F))

    def slope(a: FloatArray) -> FloatArray:
        slopes: FloatArray = np.einsum("bi,bi->b", F, many.gradient((a[:, None] * F).T).T)
        return slopes

    start = slope(np.zeros(len(F)))
    sign = -np.sign(start)
    low, high = np.zeros(len(F)), np.ones(len(F))
    for _ in range(40):
        falling = sign * slope(sign * high) + penalty < 0.0
        if not np.any(falling):
            break
        low, high = np.where(falling, high, low), np.where(falling, 2.0 * high, high)
    # To the last bit.
    for _ in range(60):
        middle = 0.5 * (low + high)
        falling = sign * slope(sign * middle) + penalty < 0.0
        low, high = np.where(falling, middle, low), np.where(falling, high, middle)
    return np.where(np.abs(start) <= penalty, 0.0, sign * 0.5 * (low + high))


def _best_free_squared(problem: TrainingProblem, atoms: EnumeratedAtoms, m: int, K: int) -> BilinearNetwork:
    r"""Solve :math:`G_S \alpha = F_S^T y - (\beta D / 2) s` for all supports S and signs s.

    The best second layer of a set solves one of these systems with independent neurons. The other solutions are
    networks as well, so the smallest objective of all is the optimum. Sample weights enter by their square roots.
    """
    fit, penalty = problem.data_fit, problem.beta * problem.dimension
    roots, plain = fit.whitened()
    best = fit.value_at_zero
    chosen, alpha = np.zeros(1, dtype=np.intp), np.zeros(1)
    for size in range(1, min(m, K) + 1):
        signs = np.array(list(itertools.product([1.0, -1.0], repeat=size)))
        for numbers in _chunks(itertools.combinations(range(K), size), size, problem.n_samples * len(signs)):
            F = atoms.images(numbers).transpose(1, 0, 2) * roots[:, None]
            G = F.transpose(0, 2, 1) @ F
            scale = np.sqrt(np.einsum("bkk->bk", G))
            scale[scale == 0.0] = 1.0
            G /= scale[:, :, None] * scale[:, None, :]
            independent = np.linalg.eigvalsh(G)[:, 0] > 1e-10
            F, G, scale, numbers = F[independent], G[independent], scale[independent], numbers[independent]
            if not len(numbers):
                continue
            right = F.transpose(0, 2, 1) @ plain.target - 0.5 * penalty * signs.T
            solved = np.linalg.solve(G, right / scale[:, :, None]) / scale[:, :, None]
            residual = F @ solved - plain.target
            values = np.square(residual).sum(axis=1) + penalty * np.abs(solved).sum(axis=1)
            i, s = np.unravel_index(int(np.argmin(values)), values.shape)
            if values[i, s] < best:
                best, chosen, alpha = float(values[i, s]), numbers[i], solved[i, :, s]
    return _padded(problem, atoms, chosen, alpha, m)


def _best_free(problem: TrainingProblem, atoms: EnumeratedAtoms, m: int, K: int) -> BilinearNetwork:
    fit, penalty = problem.data_fit, problem.beta * problem.dimension
    best, chosen, alpha = math.inf, np.zeros(1, dtype=np.intp), np.zeros(1)
    for numbers in itertools.combinations(range(K), min(m, K)):
        index = np.array(numbers, dtype=np.intp)
        F = atoms.images(index)
        penalties = np.full(2 * len(index), max(penalty, np.finfo(np.float64).tiny))
        weights = solve_restricted(np.hstack([F, -F]), fit, penalties).weights
        found = weights[: len(index)] - weights[len(index) :]
        value = fit.value((F @ found)[:, None]) + penalty * float(np.abs(found).sum())
        if value < best:
            best, chosen, alpha = value, index, found
    return _padded(problem, atoms, chosen, alpha, m)


def _padded(
    problem: TrainingProblem, atoms: EnumeratedAtoms, chosen: npt.NDArray[np.intp], alpha: FloatArray, m: int
) -> BilinearNetwork:
    missing = m - len(chosen)
    U, V = atoms.weights(np.concatenate([chosen, np.zeros(missing, dtype=np.intp)]))
    return BilinearNetwork(U, V, np.concatenate([alpha, np.zeros(missing)]), problem.levels, problem.activation)


def _chunks(sets: Iterator[tuple[int, ...]], m: int, floats: int) -> Iterator[npt.NDArray[np.intp]]:
    """Yield sets of m numbers as arrays (B, m), B such that B * m * floats is bounded."""
    size = max(1, WORK_FLOATS // (m * floats))
    while some := list(itertools.islice(sets, size)):
        yield np.array(some, dtype=np.intp)
