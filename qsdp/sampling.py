"""Grothendieck sampling: binary neurons as signs of a shaped Gaussian."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp._utils.outputs import squeezed
from qsdp._utils.parallel import chunks, count_jobs, in_threads, require_memory
from qsdp._utils.validation import FloatArray, RandomState, check_choice, check_integer, check_random_state, read_only
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks import BilinearNetwork
from qsdp.shaping import BlockCovariances, LinearNeurons, SignCovariance
from qsdp.shaping.roots import CovarianceRoot, root_of

__all__ = ["ALLOCATIONS", "allocate", "check_memory_of_neurons", "check_neurons", "sample_network"]

ALLOCATIONS = ("equal", "proportional")


def check_neurons(name: str, value: Any) -> int:
    """Check a number of neurons, at most 10^9: the int8 weights of more take gigabytes per input."""
    return check_integer(name, value, minimum=1, maximum=10**9)


def check_memory_of_neurons(work: str, n_neurons: int, side: int, n_outputs: int, others: int = 16) -> None:
    """Raise `InvalidInputError` if a network with sides of this size does not fit into the main memory.

    A neuron takes two sides of one byte per weight, a float per output, and `others`: bytes that `work` needs for each
    neuron besides. By default these are an output's number and its magnitude.
    """
    size = f"{n_neurons:,} neurons with {side:,} inputs and {n_outputs} outputs"
    needed = n_neurons * (2 * side + 8 * n_outputs + others)
    require_memory(needed, work, size, "take fewer neurons")


def sample_network(
    covariance: SignCovariance | Sequence[SignCovariance] | BlockCovariances,
    n_neurons: int = 250,
    random_state: RandomState = 0,
    *,
    allocation: str = "equal",
    n_jobs: int | None = None,
) -> Any:
    r"""Draw a network with :math:`[u_j; v_j] = \mathrm{sign}(\mathcal N(0, Q))` and one shared alpha.

    With :math:`\alpha_j = \rho \pi / (c m)`, the mean of :math:`\sum_j \alpha_j u_j v_j^T` is the matrix of the
    relaxation's predictions, and the spectral error falls as :math:`1/\sqrt m`. With M + 1 levels, a weight is the sum
    of M signs. With C outputs, each neuron serves one output k, with :math:`\alpha_j = \rho_k \pi / (c m_k) e_k`.

    Parameters
    ----------
    covariance : SignCovariance, or a sequence of one for each output, or BlockCovariances
        Result of `shape_covariance`.
    n_neurons : int, default=250
        Number of neurons m >= 1, at least the number of outputs.
    random_state : int, Generator, RandomState or None, default=0
        Seed; None draws a new one. With one output and the same seed, a smaller network consists of the first neurons
        of a larger one. The same seed draws the same network on every processor, except for signs that rounding
        decides.
    allocation : {"equal", "proportional"}, default="equal"
        How m is divided among outputs: equally, or in proportion to rho_k / c_k, which reduces the sampling noise if
        outputs differ. Every output with a nonzero relaxation gets at least one neuron. The other outputs get none,
        unless all are zero. Neurons left after rounding down go one each to the outputs with the largest remainders,
        earlier outputs first.
    n_jobs : int, optional
        Number of threads, as in joblib; None means one. Random numbers are drawn in the same order for any number of
        threads, so the neurons are the same. Threads pay off with hundreds of inputs, where drawing random numbers
        takes a small part of the time.

    Returns
    -------
    BilinearNetwork
        Network with int8 weights. In addition to these and roots of the covariances, sampling takes about 50 MiB per
        thread, for any m.

    Notes
    -----
    Algorithm 1, step 3, Theorem 3 and B.1 of Bartan and Pilanci. With blocks, the neurons of output k share one
    :math:`\alpha_k = w_k / m_k` for the sum :math:`w_k` of its blocks' weights :math:`\rho_{kr} \pi / c_{kr}`.
    Systematic sampling gives each block its share of the :math:`m_k` neurons, rounded up or down at random, so that the
    mean of the network is the relaxation's function for any number of blocks. Real weights of columns are those of the
    relaxation; if no block has neurons, neither has the network.
    """
    parts = _checked(covariance)
    blocks = covariance if isinstance(covariance, BlockCovariances) else None
    outputs = [part.total_weight for part in parts] if blocks is None else blocks.weights.sum(axis=1).tolist()
    m = check_neurons("n_neurons", n_neurons)
    check_choice("allocation", allocation, ALLOCATIONS)
    if m < len(outputs):
        raise InvalidInputError(f"n_neurons must be at least {len(outputs)}, the number of outputs; got {m}")
    side = parts[0].dimension if blocks is None else blocks.layout.side
    if blocks is not None and not blocks.layout.n_blocks:
        # Real weights are a network without neurons.
        m, outputs = 0, [0.0] * len(outputs)
    check_memory_of_neurons("sampling", m, side, len(outputs))
    jobs = count_jobs(n_jobs)
    rng = check_random_state(random_state)
    sizes = _sizes(m, outputs, allocation)
    alpha = np.zeros((m, len(outputs)))
    owners = np.repeat(np.arange(len(outputs)), sizes)
    shared = np.array([weight / max(k, 1) for weight, k in zip(outputs, sizes, strict=True)])
    alpha[np.arange(m), owners] = shared[owners]
    if blocks is not None:
        layout, counts = blocks.layout, _counts(sizes, blocks.weights, rng)
        real = squeezed(blocks.real_weights, blocks.output_shape, axis=1)
        U, V = _drawn(parts, counts, side, rng, jobs)
        block = np.repeat(np.tile(np.arange(layout.n_blocks), len(outputs)), counts)
        return BilinearNetwork.on_blocks(layout, U, V, squeezed(alpha, blocks.output_shape, axis=1), block, real)
    U, V = _drawn(parts, sizes, side, rng, jobs)
    alpha = squeezed(alpha, () if isinstance(covariance, SignCovariance) else (len(outputs),), axis=1)
    return BilinearNetwork(read_only(U), read_only(V), alpha, levels=parts[0].levels, activation=parts[0].activation)


def _drawn(
    parts: Sequence[SignCovariance | LinearNeurons],
    sizes: Sequence[int],
    side: int,
    rng: np.random.Generator,
    jobs: int,
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Draw first-layer weights (m, side): `sizes` neurons of the respective distributions, one after the other."""
    m = int(sum(sizes))
    U, V = np.zeros((m, side), dtype=np.int8), np.zeros((m, side), dtype=np.int8)

    def fill(chunk: _Chunk) -> None:
        weights = _weights(chunk)
        d = weights.shape[1] // 2
        U[chunk.rows, :d], V[chunk.rows, :d] = weights[:, :d], weights[:, d:]

    starts = np.cumsum([0, *sizes])
    for part, start, stop in zip(parts, starts[:-1], starts[1:], strict=True):
        if isinstance(part, LinearNeurons):
            U[start:stop, : len(part.s)] = part.signs(stop - start, rng)
        elif stop > start:
            in_threads(fill, _chunks(part, slice(int(start), int(stop)), rng), jobs)
    return U, V


def _counts(sizes: Sequence[int], block_weights: FloatArray, rng: np.random.Generator) -> list[int]:
    """Draw the number of neurons of each output and block, with means proportional to weights (C, R).

    Systematic sampling rounds each of them up or down.
    """
    counts: list[int] = []
    for size, weights in zip(sizes, block_weights, strict=True) if block_weights.size else ():
        # If all weights are zero, the neurons may belong to any block.
        parts = weights if np.any(weights) else np.ones(len(weights))
        ends = np.floor(size / float(parts.sum()) * np.cumsum(parts) + rng.random())
        ends[-1] = size
        counts += np.diff(ends, prepend=0.0).astype(int).tolist()
    return counts


def _sizes(m: int, weights: list[float], allocation: str) -> list[int]:
    """Divide m neurons among the outputs by `allocation`; outputs with a zero relaxation get none."""
    if m == 0:
        return [0] * len(weights)
    served = [k for k, weight in enumerate(weights) if weight > 0.0] or list(range(len(weights)))
    sizes = [0] * len(weights)
    proportions = [weights[k] if allocation == "proportional" else 1.0 for k in served]
    for k, size in zip(served, allocate(m, proportions), strict=True):
        sizes[k] = size
    return sizes


def allocate(m: int, proportions: Sequence[float]) -> list[int]:
    """Divide m into integers >= 1 that are as nearly proportional to `proportions` as possible.

    The largest-remainder method is used, with at least one for each. If all proportions are zero, they are equal.
    """
    weights = np.asarray(proportions, dtype=np.float64)
    weights = weights / weights.sum() if weights.sum() > 0.0 else np.full(len(weights), 1.0 / len(weights))
    exact = m * weights
    sizes = np.maximum(np.floor(exact).astype(int), 1)
    while (missing := m - sizes.sum()) != 0:
        # Adjust by one at a time: add to the first output with the largest shortfall, or take from the last with the
        # largest excess.
        # Proportions that differ by rounding alone may have the same shortfall; the larger one comes first.
        short = exact - sizes
        if missing > 0:
            sizes[max(range(len(sizes)), key=lambda k: (short[k], proportions[k], -k))] += 1
        else:
            sizes[min(np.flatnonzero(sizes > 1).tolist(), key=lambda k: (short[k], proportions[k], -k))] -= 1
    return [int(size) for size in sizes]


class _Chunk(NamedTuple):
    """Random numbers for a chunk of neurons of one output, with the covariance that turns them into weights."""

    covariance: SignCovariance
    root: CovarianceRoot
    noise: FloatArray
    rows: slice


def _chunks(covariance: SignCovariance, rows: slice, rng: np.random.Generator) -> Iterator[_Chunk]:
    """Draw the random numbers of the neurons in `rows`, chunk by chunk."""
    root = root_of(covariance.mean_covariance)
    M = int(covariance.replicas.max())
    width = root.side * (M + 1 if M > 1 else 1)
    for part in chunks(rows.stop - rows.start, width):
        noise = rng.standard_normal((part.stop - part.start, width))
        yield _Chunk(covariance, root, noise, slice(rows.start + part.start, rows.start + part.stop))


def _weights(chunk: _Chunk) -> npt.NDArray[np.int8]:
    """Compute the weights [u; v] of a chunk's neurons, of shape (count, 2d)."""
    covariance, root, noise, _ = chunk
    side, M = root.side, int(covariance.replicas.max())
    gaussian = root.products(noise[:, :side])
    if M == 1:
        return _signs(gaussian)
    # Replicas of a coordinate deviate from their mean independently of all else.
    deviation = np.sqrt(np.maximum(1.0 - covariance.replica_correlation, 0.0))
    replicas = noise[:, side:].reshape(len(noise), M, side)
    replicas -= replicas.mean(axis=1, keepdims=True)
    replicas *= deviation
    replicas += gaussian[:, None, :]
    weights: npt.NDArray[np.int8] = _signs(replicas).sum(axis=1, dtype=np.int8)
    binary = covariance.replicas == 1
    weights[:, binary] = _signs(gaussian[:, binary])
    return weights


def _signs(gaussian: FloatArray) -> npt.NDArray[np.int8]:
    # numpy.sign would be 0 at 0.
    return np.where(gaussian < 0.0, np.int8(-1), np.int8(1))


def _checked(covariances: Any) -> list[Any]:
    if isinstance(covariances, SignCovariance):
        return [covariances]
    if isinstance(covariances, BlockCovariances):
        return list(covariances.parts)
    listed = list(covariances) if isinstance(covariances, (list, tuple)) else []
    if not listed or not all(isinstance(part, SignCovariance) for part in listed):
        raise InvalidTypeError(
            f"covariance must be a SignCovariance, or a list of one for each output; got {type(covariances).__name__}"
        )
    return listed
