"""Quantization of second layers and real weights: integers of a few bits times one scale of each per output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.parallel import LARGE_FLOATS, chunks
from qsdp._utils.tuning import GAIN, MANY_ROWS, MAX_SIDE, MAX_STEPS, PATIENCE
from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted import curvature_matrix, sampling_chances
from qsdp.data_map import SAMPLES, require
from qsdp.losses import Curvature
from qsdp.pricing.atoms import pricing_values
from qsdp.problem import TrainingProblem

__all__ = ["in_bits", "nearest_integers"]

IntegerArray = npt.NDArray[np.intp]

#: Candidate scales per output, relative to the one without clipping; ten times as many make no visible difference.
_CLIPPED = np.linspace(0.3, 1.0, 36)


@dataclass(frozen=True, eq=False)
class _WeightGroup:
    """Weights that are quantized together: those of one output, or of all outputs that a loss couples.

    Attributes
    ----------
    neurons, outputs : ndarray of shape (k,)
        Rows and columns of the weights among those of neurons, followed by the real ones of columns.
    scales : ndarray of shape (k,)
        Number of the scale of each weight: that of its output, or C more for a real weight.
    """

    neurons: IntegerArray
    outputs: IntegerArray
    scales: IntegerArray


def in_bits(network: Any, problem: TrainingProblem, bits: int) -> Any:
    r"""Quantize the second layer to :math:`q_{jc} s_c`, with integers q of `bits` bits and scales s.

    The integers first approximate the outputs where the loss is curved. Coordinate descent over integers and scales
    then lowers the objective, by models with the slopes of the rounded network, as long as the objective itself falls.
    Losses without curvature are only approximated. Scales have single precision, so that weights are exact products.
    Real weights of columns are quantized in the same way, with other scales. Neurons whose weights are all zero are
    dropped.
    """
    require(problem.weight_map, "alpha_bits", SAMPLES)
    m, C, largest = network.n_neurons, network.n_outputs, 2 ** (bits - 1) - 1
    alpha = np.concatenate([network.output_weights, network.column_weights])
    smooth = problem.loss.has_curvature
    groups = _groups(alpha, m, together=problem.loss.coupled)
    hessians = _hessians(network, problem, groups, _curvature(network, problem) if smooth else None)
    integers, scales = np.zeros_like(alpha), np.zeros(2 * C)
    for group, H in zip(groups, hessians, strict=True):
        for scale in np.unique(group.scales):
            members, c = np.flatnonzero(group.scales == scale), scale % C
            rows = group.neurons[members]
            integers[rows, c], scales[scale] = nearest_integers(alpha[rows, c], H[np.ix_(members, members)], largest)

    def rounded() -> Any:
        second_layer, real = integers[:m] * scales[:C], integers[m:] * scales[C:]
        return network.with_neurons(
            network.U, network.V, problem.squeezed(second_layer), np.arange(m), problem.squeezed(real)
        )

    best = rounded()
    value = problem.objective(best)
    for _ in range(PATIENCE if smooth else 0):
        integers, scales = _descended(best, problem, groups, hessians, integers, scales, largest)
        moved = rounded()
        previous, value = value, problem.objective(moved)
        if not value < previous or deadline.over():
            break
        best = moved
    used = np.flatnonzero(best.output_weights.any(axis=1))
    if not len(used) and not len(network.weights):
        # A network without real weights has at least one neuron.
        used = np.array([0])
    weights = problem.squeezed(best.output_weights[used])
    return network.with_neurons(network.U[used], network.V[used], weights, used, best.weights)


def _groups(alpha: FloatArray, n_neurons: int, *, together: bool) -> list[_WeightGroup]:
    neurons, outputs = np.nonzero(alpha)
    C = alpha.shape[1]
    scales = outputs + C * (neurons >= n_neurons)
    if together and len(neurons) <= MAX_SIDE:
        return [_WeightGroup(neurons, outputs, scales)]
    return [_WeightGroup(*(array[outputs == c] for array in (neurons, outputs, scales))) for c in range(C)]


def _curvature(network: Any, problem: TrainingProblem) -> Curvature:
    return problem.data_fit.curvature(problem.outputs(network))


def _hessians(
    network: Any, problem: TrainingProblem, groups: list[_WeightGroup], curvature: Curvature | None
) -> list[FloatArray]:
    """Compute each group's second derivatives of the loss with respect to its weights, by default of squared errors.

    Unless the loss is quadratic, they are those of samples drawn in proportion to their curvature. No time limit ends
    this early: it takes no longer than a certificate, and without it no weight is rounded.
    """
    n, fit = len(problem.targets), problem.data_fit
    chances = np.ones(n)
    if curvature is None:
        curvature = Curvature(fit.weighted(np.ones_like(problem.targets)))
    elif not fit.quadratic:
        count = max(2 * MANY_ROWS, 4 * max(len(group.neurons) for group in groups))
        chances = sampling_chances(curvature.traces(), count)
    chosen = np.flatnonzero(np.random.default_rng(0).random(n) < chances)
    hessians = [np.zeros((len(group.neurons),) * 2) for group in groups]
    # The products of a chunk with itself should be large.
    for part in chunks(len(chosen), max(network.n_neurons + len(network.weights), problem.size), work=LARGE_FLOATS):
        rows = chosen[part]
        columns = _columns(network, problem, rows) / np.sqrt(chances[rows, None])
        for group, H in zip(groups, hessians, strict=True):
            if len(groups) == 1 and curvature.coupling is not None:
                H += curvature_matrix(columns[:, group.neurons], curvature.take(rows), group.outputs)
            elif len(group.outputs):
                c = group.outputs[0]
                sizes = curvature.diagonal[rows, c]
                if curvature.coupling is not None:
                    sizes = np.maximum(sizes - curvature.coupling[rows, c] ** 2, 0.0)
                weighted = columns[:, group.neurons] * np.sqrt(sizes)[:, None]
                H += weighted.T @ weighted
    return hessians


def _columns(network: Any, problem: TrainingProblem, rows: IntegerArray) -> FloatArray:
    """Compute the outputs of all neurons, then those of columns with real weights, for a weight of one."""
    U, V = network.U.astype(np.float64), network.V.astype(np.float64)
    data = problem.weight_map.take(rows)
    if problem.blocks is None:
        columns: FloatArray = data.products(U, V)
        return columns
    layout, prices, m = problem.blocks, _prices(network, problem), network.n_neurons
    values = data.values_in_blocks(layout.products(U, V, network.block) * prices[:m, None], network.block)
    if layout.weights:
        features: Any = data.features
        values = np.hstack([values, features(layout.weight_entries) * prices[m:]])
    return values


def _prices(network: Any, problem: TrainingProblem) -> FloatArray:
    """Return the factors of all weights in units of the problem's map, in which all cost the same."""
    layout = problem.blocks
    if layout is None:
        return np.ones(network.n_neurons)
    return np.concatenate([layout.prices[network.block], layout.weight_omega])


def nearest_integers(alpha: FloatArray, gram: FloatArray, largest: int) -> tuple[FloatArray, float]:
    """Quantize weights to q s with integers q up to `largest`, with a small error in the norm of a Gram matrix."""
    scales = (np.abs(alpha).max() / largest * _CLIPPED).astype(np.float32).astype(np.float64)
    scales = scales[scales > 0.0]
    if not len(scales):
        return np.zeros_like(alpha), 0.0
    tries = [np.clip(np.rint(alpha / scale), -largest, largest) for scale in scales]
    errors = [float((alpha - q * s) @ gram @ (alpha - q * s)) for q, s in zip(tries, scales, strict=True)]
    best = int(np.argmin(errors))
    q, scale = tries[best], scales[[best]]
    slopes, free = gram @ (q * scale - alpha), np.zeros(len(q))
    _sweep(gram, slopes, free, q, scale, np.zeros(len(q), dtype=np.intp), largest, rescale=False)
    return q, float(scale[0])


def _descended(
    network: Any,
    problem: TrainingProblem,
    groups: list[_WeightGroup],
    hessians: list[FloatArray],
    integers: FloatArray,
    scales: FloatArray,
    largest: int,
) -> tuple[FloatArray, FloatArray]:
    """Lower the objective's model at a rounded network over integers and scales; return both."""
    integers, scales = integers.copy(), scales.copy()
    prices = _prices(network, problem)
    matrices, real = problem.weight_map.pull(problem.data_fit.gradient(problem.outputs(network)))
    slopes = prices[:, None] * np.concatenate([pricing_values(network, matrices, real), real.T])
    penalty = problem.beta * problem.dimension
    for group, H in zip(groups, hessians, strict=True):
        q, slope = integers[group.neurons, group.outputs], slopes[group.neurons, group.outputs]
        _sweep(H, slope, penalty * prices[group.neurons], q, scales, group.scales, largest, rescale=True)
        integers[group.neurons, group.outputs] = q
    return integers, scales


def _sweep(
    H: FloatArray,
    slopes: FloatArray,
    penalties: FloatArray,
    q: FloatArray,
    scales: FloatArray,
    of_scale: IntegerArray,
    largest: int,
    *,
    rescale: bool,
) -> None:
    r"""Minimise the model :math:`g^T d + \tfrac12 d^T H d + \sum_j \lambda_j |q_j s_c|` over integers and scales.

    The weights are :math:`q_j s_c` for the scale c of weight j, see `of_scale`, and d is their change. `q`, `scales`
    and `slopes`, the gradient of the first two terms, are changed in place.
    """
    curvature = H.diagonal().tolist()
    movable = np.flatnonzero(H.diagonal() > 0.0).tolist()
    for _ in range(MAX_STEPS):
        before = q.copy()
        for j in movable:
            scale, h, cost = float(scales[of_scale[j]]), curvature[j], float(penalties[j])
            if scale <= 0.0:
                continue
            weight = q[j] * scale
            free = weight - slopes[j] / h
            # The best integer with the others fixed: the penalty moves the minimum towards zero.
            aim = np.sign(free) * max(abs(free) - cost / h, 0.0) / scale
            wanted = min(max(round(aim), -largest), largest)
            step = (wanted - q[j]) * scale
            if step and slopes[j] * step + 0.5 * h * step**2 + cost * (abs(wanted) - abs(q[j])) * scale < 0.0:
                q[j] = wanted
                slopes += step * H[:, j]
        same = np.array_equal(q, before)
        for c in np.unique(of_scale) if rescale else ():
            members = np.flatnonzero(of_scale == c)
            along = H[:, members] @ q[members]
            bend = float(q[members] @ along[members])
            slope = float(q[members] @ slopes[members] + penalties[members] @ np.abs(q[members]))
            scale = float(np.float32(scales[c] - slope / bend)) if bend > 0.0 else 0.0
            if scale > 0.0:
                slopes += (scale - scales[c]) * along
                same &= abs(scale - scales[c]) <= GAIN * scale
                scales[c] = scale
        if same:
            break
