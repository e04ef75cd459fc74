"""Large moves in the space of networks: build a network neuron by neuron, and exchange single neurons."""

from __future__ import annotations

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import DIGITS, ROUNDING
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.refinement._choice import AnyData, descent_of
from qsdp.refinement._descent import CoordinateDescent
from qsdp.refinement._second_layer import alternate, random_sides
from qsdp.refinement.polishing import steps

__all__ = ["exchange", "greedy_network", "random_network"]

#: Starts for a new neuron, candidates that are polished, and sweeps after an exchange: halving costs up to 3.5 %.
_STARTS, _CANDIDATES, _SWEEPS = 48, 4, 20


def random_network(problem: TrainingProblem, owners: list[int], rng: np.random.Generator) -> BilinearNetwork:
    """Draw a network of neurons with random levels for the outputs `owners`, all with the same weight."""
    shape = (2, len(owners), problem.size)
    sides = rng.integers(0, problem.levels, size=shape) * 2 - (problem.levels - 1)
    last = slice(problem.n_features, None)
    sides[..., last] = rng.choice([-1, 1], size=sides[..., last].shape)
    # Levels that are equally frequent give small images; the weight compensates for that.
    w = problem.sample_weight
    norms = np.concatenate([np.square(problem.X[rows]).sum(axis=1) for rows in chunks(*problem.X.shape)])
    images = np.sqrt(np.average(norms**2, weights=w)) or 1.0
    size = float(np.average(np.abs(problem.targets), axis=0, weights=w).mean()) / (images * len(owners)) or 1.0
    return _network(problem, sides[0], sides[1], owners, np.full(len(owners), size))


def greedy_network(
    problem: TrainingProblem,
    owners: list[int],
    rng: np.random.Generator,
    data: AnyData,
) -> BilinearNetwork:
    """Build a network greedily, each new neuron aligned with the current gradient of the loss.

    All neurons of an output share one weight, the best at every step. After a time limit, the rest are random.
    """
    empty = random_network(problem, owners, rng)
    descent = descent_of(data.problem, empty, data)
    sums = np.zeros_like(descent.f)
    magnitudes = np.zeros(descent.f.shape[1])
    counts = np.zeros(descent.f.shape[1])
    # Outputs take turns, so that outputs of a coupled loss grow together.
    order = sorted(range(len(owners)), key=lambda j: (owners[:j].count(owners[j]), owners[j]))
    for j in deadline.in_time(order):
        k = owners[j]
        base = sums * magnitudes
        M = descent.data.adjoint(-descent.fit.gradient(base)[:, k])
        U, V = alternate(M, descent.largest, random_sides(rng, _STARTS, descent.largest))
        best = int(np.argmax(_values(U, M, V)))
        descent.U[j], descent.V[j] = U[best], V[best]
        sums[:, k] += descent.images(slice(j, j + 1))[:, 0]
        counts[k] += 1
        direction = np.zeros_like(sums)
        direction[:, k] = sums[:, k]
        base[:, k] = 0.0
        magnitudes[k] = descent.fit.line_minimum(base, direction, descent.penalty * float(counts[k]))
    weights = magnitudes / descent.unit
    fallback = np.abs(empty.alpha).max()
    return _network(problem, descent.U, descent.V, owners, np.where(weights == 0.0, fallback, weights)[owners])


def exchange(descent: CoordinateDescent, shared: bool, rng: np.random.Generator) -> None:
    r"""Replace neurons one at a time until no replacement helps.

    Let -nu be the gradient of the loss without neuron j. The best replacement nearly maximises
    :math:`u^T M_\nu v`. It is computed by sign alternation from several starts, gets the best second-layer weight
    and is polished together with the other neurons. The exchange is accepted if the objective falls.
    """
    m = len(descent.U)
    failures = 0
    while failures < m:
        for j in rng.permutation(m).tolist():
            if deadline.over() or failures >= m:
                return
            failures = 0 if _exchange_one(descent, j, shared, rng) else failures + 1


def _exchange_one(descent: CoordinateDescent, j: int, shared: bool, rng: np.random.Generator) -> bool:
    before = descent.objective
    state = descent.U.copy(), descent.V.copy(), descent.alpha.copy(), descent.f, descent.value
    for u, v, alpha in deadline.in_time(_replacements(descent, j, shared, rng)):
        descent.U[j], descent.V[j], descent.alpha = u, v, alpha
        descent.refresh()
        for _ in steps(descent, shared, _SWEEPS, rng):
            pass
        if before - descent.objective > ROUNDING * abs(before):
            return True
        descent.U[:], descent.V[:], descent.alpha = state[0], state[1], state[2].copy()
        descent.accept(state[3], state[4])
    return False


def _replacements(
    descent: CoordinateDescent, j: int, shared: bool, rng: np.random.Generator
) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Compute candidates (u, v, second layer) for the replacement of neuron j, the most promising first."""
    before = descent.U[j].copy(), descent.V[j].copy()
    image = descent.images(slice(j, j + 1))[:, 0]
    own = descent.alpha[j]
    rest = descent.f - np.outer(image, own)
    gradient = descent.fit.gradient(rest)
    found: list[tuple[float, int, FloatArray, FloatArray, FloatArray]] = []
    for k in [int(np.argmax(np.abs(own)))] if shared else range(len(own)):
        M = descent.data.adjoint(-gradient[:, k])
        if shared and own[k] < 0.0:
            M = -M
        starts = random_sides(rng, _STARTS, descent.largest)
        starts[0], starts[1] = before
        U, V = alternate(M, descent.largest, starts)
        # Neurons of equal value are nearly always the same, up to exchange of their sides.
        _, distinct = np.unique(np.round(_values(U, M, V) / (np.abs(M).sum() or 1.0), DIGITS), return_index=True)
        for i in distinct.tolist():
            if _same(U[i], V[i], *before):
                continue
            descent.U[j], descent.V[j] = U[i], V[i]
            image = descent.images(slice(j, j + 1))[:, 0]
            alpha = descent.alpha.copy()
            if shared:
                f = rest + np.outer(image, own)
            else:
                direction = np.zeros_like(rest)
                direction[:, k] = image
                alpha[j] = 0.0
                alpha[j, k] = descent.fit.line_minimum(rest, direction, descent.penalty)
                f = rest + alpha[j, k] * direction
            objective = descent.fit.value(f) + descent.penalty * float(np.abs(alpha).sum())
            found.append((objective, len(found), U[i], V[i], alpha))
    descent.U[j], descent.V[j] = before
    return [entry[2:] for entry in sorted(found, key=lambda entry: entry[:2])[:_CANDIDATES]]


def _values(U: FloatArray, M: FloatArray, V: FloatArray) -> FloatArray:
    values: FloatArray = np.einsum("ij,ij->i", U @ M, V)
    return values


def _same(u: FloatArray, v: FloatArray, other_u: np.ndarray, other_v: np.ndarray) -> bool:
    """Whether two neurons are equal up to the order of their sides and a common sign."""
    return any(
        bool(np.array_equal(sign * u, first) and np.array_equal(sign * v, second))
        for sign in (1, -1)
        for first, second in ((other_u, other_v), (other_v, other_u))
    )


def _network(
    problem: TrainingProblem, U: np.ndarray, V: np.ndarray, owners: list[int], weights: FloatArray
) -> BilinearNetwork:
    alpha = np.zeros((len(owners), problem.n_outputs))
    alpha[np.arange(len(owners)), owners] = weights
    return BilinearNetwork(U, V, problem.squeezed(alpha), problem.levels, problem.activation)
