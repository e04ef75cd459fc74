"""Quantization of second layers: integers of a few bits times one scale per output."""

from __future__ import annotations

from typing import Any

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.parallel import LARGE_FLOATS, chunks
from qsdp._utils.validation import FloatArray
from qsdp.networks import BlockNetwork
from qsdp.problem import TrainingProblem

__all__ = ["in_bits", "nearest_integers"]

#: Candidate scales per output, relative to the one without clipping; ten times as many make no visible difference.
_SHARES = np.linspace(0.3, 1.0, 36)

#: Sweeps over the integers of an output; a few suffice, since each move must lower the error.
_SWEEPS = 20


def in_bits(network: Any, problem: TrainingProblem, bits: int) -> Any:
    r"""Quantize the second layer to :math:`q_{jc} s_c`, with integers q of `bits` bits and scales s.

    The integers are a local minimum of the (weighted) squared change of the outputs on the data, by coordinate descent.
    Scales have single precision, so that weights are exact products. Neurons whose weights are all zero are dropped.
    """
    alpha = network.output_weights
    rounded = np.zeros_like(alpha)
    gram = _gram(network, problem)
    for c, column in enumerate(alpha.T):
        used = np.flatnonzero(column)
        if len(used):
            rounded[used, c] = nearest_integers(column[used], gram[np.ix_(used, used)], 2 ** (bits - 1) - 1)
    kept = np.flatnonzero(rounded.any(axis=1))
    if not len(kept):
        # A network has at least one neuron.
        kept = np.array([0])
    return network.with_weights(network.U[kept], network.V[kept], problem.squeezed(rounded[kept]), kept)


def _gram(network: Any, problem: TrainingProblem) -> FloatArray:
    """Compute the (weighted) Gram matrix (m, m) of the neurons' outputs on the samples."""
    problem.require_rows("alpha_bits")
    U, V = network.U.astype(np.float64), network.V.astype(np.float64)
    data, m = problem.weight_map, network.n_neurons
    roots = problem.data_fit.weighted(np.ones(len(problem.targets)))
    gram = np.zeros((m, m))
    # The products of a chunk with itself should be large.
    for rows in chunks(len(problem.targets), max(m, problem.size), work=LARGE_FLOATS):
        deadline.check()
        if isinstance(network, BlockNetwork):
            assert problem.blocks is not None
            prices = problem.blocks.prices[network.block]
            values = data.take(rows).products(U, V, network.block) * prices
        else:
            values = data.take(rows).products(U, V)
        gram += values.T @ (values * roots[rows, None])
    return gram


def nearest_integers(alpha: FloatArray, gram: FloatArray, largest: int) -> FloatArray:
    """Quantize weights to q s with integers up to `largest`, with a small error in the norm of a Gram matrix."""
    scales = (np.abs(alpha).max() / largest * _SHARES).astype(np.float32).astype(np.float64)
    scales = scales[scales > 0.0]
    if not len(scales):
        return np.zeros_like(alpha)
    tries = [np.clip(np.rint(alpha / scale), -largest, largest) for scale in scales]
    errors = [float((alpha - q * s) @ gram @ (alpha - q * s)) for q, s in zip(tries, scales, strict=True)]
    best = int(np.argmin(errors))
    q, scale = tries[best], float(scales[best])
    curvature = gram.diagonal()
    slopes = gram @ (alpha - q * scale)
    for _ in range(_SWEEPS):
        before = q.copy()
        for j in np.flatnonzero(curvature > 0.0):
            # The best integer with the others fixed.
            wanted = np.clip(np.rint(q[j] + slopes[j] / (curvature[j] * scale)), -largest, largest)
            step = wanted - q[j]
            gain = scale * step * (2.0 * slopes[j] - scale * step * curvature[j])
            if step and gain > 0.0:
                q[j] = wanted
                slopes -= scale * step * gram[:, j]
        if np.array_equal(q, before):
            break
    found: FloatArray = q * scale
    return found
