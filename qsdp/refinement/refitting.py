"""Refit of the second layer: compute optimal output weights for fixed neurons."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import suppress
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.deadline import TimeOver
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.parallel import chunks, few_threads
from qsdp._utils.progress import ProgressBar, progress
from qsdp._utils.tuning import MAX_SIDE
from qsdp._utils.validation import FloatArray, check_choice, check_integer, check_real, check_verbose
from qsdp.certificates import check_fits
from qsdp.column_generation.generator import network_of, priced_weights
from qsdp.column_generation.loop import PricingResult, Round, generate
from qsdp.column_generation.master import Master, SharedSums
from qsdp.column_generation.restricted import check_solvable, solve_restricted, sparsify
from qsdp.data_map import SAMPLES
from qsdp.exceptions import InvalidInputError
from qsdp.gram import GramFactor
from qsdp.lifting import power_of_two
from qsdp.losses import DataFit, Loss, get_loss
from qsdp.networks import BilinearNetwork
from qsdp.networks.weights import owners_of
from qsdp.pricing.atoms import Atoms, pricing_values
from qsdp.problem import TrainingProblem
from qsdp.refinement._alpha_bits import in_bits
from qsdp.relaxation.instance import Instance

__all__ = ["SECOND_LAYERS", "refit"]

SECOND_LAYERS = ("free", "shared")

#: Maximum number of neurons added per output and round; with 30 or 100, refitting takes 1.1 or 1.5 times as long.
_BATCH = 50


def refit(
    network: Any,
    problem: TrainingProblem,
    *,
    loss: str | Loss | None = None,
    beta: float | None = None,
    alpha_bits: int | None = None,
    second_layer: str = "free",
    tol: float = 1e-9,
    time_limit: float | None = None,
    verbose: bool | int = False,
) -> Any:
    r"""Compute the optimal second layer for the neurons of a network.

    .. math::

        \min_{\alpha}\; \ell\Big(\sum_j \alpha_j\, u_j^T \mathcal{X}_i v_j, y_i\Big) + \beta D \sum_j \|\alpha_j\|_1

    Parameters
    ----------
    network : BilinearNetwork
    problem : TrainingProblem
    loss : str or Loss, optional
        Another loss for the second layer. Targets of two values in each column become labels or classes if the loss
        requires these. The lower bound of the problem does **not** apply to the result: see Notes.
    beta : float, optional
        Another weight of the penalty, > 0. By default that of the problem; with another loss, the same fraction of
        the smallest value at which no neuron of the network is used.
    alpha_bits : int, optional
        Number of bits of each second-layer weight, 2 to 16, its sign included: an integer times one scale of single
        precision for each output, chosen by coordinate descent on the objective. Requires "free".
    second_layer : {"free", "shared"}, default="free"
        "free" chooses every weight; at most n neurons per output survive, and the others are dropped. "shared"
        keeps all neurons and one magnitude per output, the storage of a sampled network; signs of weights
        move into the first layer.
    tol : float, default=1e-9
        Relative duality gap of the convex problem over the second layer alone, > 0; the gap to networks with other
        neurons does not depend on it. It is smaller than `tol` of a relaxation because the problem is smaller.
    time_limit : float, optional
        Seconds, > 0, checked between iterations. After it, the best free weights so far are returned, or those of
        `network` if none are better. Shared magnitudes are computed without a limit.
    verbose : bool or int, default=False
        Show objective and gap on standard error, or in the notebook.

    Returns
    -------
    BilinearNetwork
        Its objective is never larger than that of `network`, unless a shared magnitude is requested for a network
        whose magnitudes differ, or weights are rounded to `alpha_bits`.

    Raises
    ------
    InvalidInputError
        The network does not fit the problem, or a shared magnitude is requested for neurons that serve several outputs.
    SolverError
        The loss is not a `PiecewiseQuadratic` and has no curvature.

    Notes
    -----
    Neurons enter the convex problem when their pricing values :math:`|u_j^T M_\nu v_j|` exceed :math:`\beta D`. The
    size of that problem is the size of the result, so networks of any width can be refitted. With the squared loss,
    large data, up to 4000 neurons and at least twice as many samples, all neurons enter at once through the triangular
    factor of their outputs, and no n x m array is formed.

    **Bounds.** With another loss or beta, the second layer minimises another problem. A bound for the loss of `problem`
    says nothing about it, and such a network has no bound until `qsdp.certify` compares it with the optimum of the
    other problem, over all first layers. For a network rounded to `alpha_bits`, the bound of `problem` remains valid;
    its objective and gap are those of the rounded weights, as `qsdp.certify` computes them.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
    >>> result = qsdp.solve_and_sample(X, y, n_neurons=500, beta=0.1, random_state=0)
    >>> refitted = qsdp.refit(result.network, result.problem)
    >>> refitted.n_neurons <= 60
    True
    >>> result.problem.objective(refitted) < 0.2 * result.certificate.objective
    True
    """
    check_fits(network, problem)
    check_choice("second_layer", second_layer, SECOND_LAYERS)
    check_real("tol", tol, strict=True)
    bits = None if alpha_bits is None else check_integer("alpha_bits", alpha_bits, minimum=2, maximum=16)
    if bits is not None and second_layer == "shared":
        raise InvalidInputError("second_layer must be 'free' with alpha_bits; a shared magnitude is not quantized")
    problem = _with_loss(network, problem, None if loss is None else get_loss(loss), beta)
    check_solvable(problem.loss)
    with deadline.after(time_limit), progress(check_verbose(verbose)) as stages, stages.stage("refit", tol) as bar:
        if second_layer == "shared":
            # Computing one magnitude per output takes no longer than a certificate.
            with deadline.unlimited():
                refitted = _shared(network, problem, tol, bar)
        else:
            refitted = _free(network, problem, tol, bar)
    if second_layer != "shared" or network.shared_alpha:
        objectives = [problem.objective(refitted), problem.objective(network)]
        good = [value <= (1.0 + ROUNDING) * min(objectives) for value in objectives]
        # Of two that are equal up to rounding, which would otherwise decide, the one with fewer neurons.
        refitted = min(compress([refitted, network], good), key=lambda candidate: candidate.n_neurons)
    return refitted if bits is None else in_bits(refitted, problem, bits)


def _with_loss(network: Any, problem: TrainingProblem, loss: Loss | None, beta: float | None) -> TrainingProblem:
    """Return the problem with another loss and beta, and with its targets converted to those of the loss."""
    changed = problem if loss is None or loss == problem.loss else problem.with_loss(loss)
    if beta is not None:
        return changed.with_beta(beta)
    if changed is problem:
        return problem
    scales = [_largest_pricing_value(network, each) for each in (problem, changed)]
    # Where no neuron has a value, any beta gives the zero network.
    return changed.with_beta(problem.beta * scales[1] / scales[0] if all(scales) else problem.beta)


def _largest_pricing_value(network: Any, problem: TrainingProblem) -> float:
    """Compute the neurons' largest pricing value at the zero network; with beta D above it, no neuron is used."""
    instance = Instance(problem.weight_map, problem.data_fit, 1.0)
    matrices, real = instance.map.pull(instance.zero_dual)
    values = pricing_values(network, matrices, real)
    return float(max(np.abs(values).max(initial=0.0), np.abs(real).max(initial=0.0)))


def _instance(problem: TrainingProblem) -> Instance:
    """Build the problem of the second layer: data in units of the levels, and the penalty on each weight."""
    return Instance(problem.weight_map, problem.data_fit, problem.relaxed_penalty)


def _free(network: Any, problem: TrainingProblem, tol: float, bar: ProgressBar) -> Any:
    if _compressible(network, problem):
        # If the factor would take more than half of the time limit, it is not used.
        factor = None
        with suppress(TimeOver), deadline.fraction(0.5):
            factor = _few_rows(network, problem)
        if factor is not None:
            return network_of(problem, *_compressed(network, problem, *factor, tol))
    ones, shared = problem.parts, SharedSums(problem.targets)
    parts = []
    for k, part in enumerate(ones):
        with deadline.fraction(1.0 / (len(ones) - k)):
            instance, report = _instance(part), functools.partial(bar.gap, part=k, parts=len(ones))
            parts.append(_support(network, Master(instance, shared, k), tol, report))
    atoms = parts[0][0] if len(parts) == 1 else Atoms.of_outputs([part for part, _ in parts])
    return network_of(problem, atoms, np.concatenate([weight for _, weight in parts]))


def _compressible(network: BilinearNetwork, problem: TrainingProblem) -> bool:
    """Whether to use few rows: for a squared loss, large data and moderately many neurons.

    With one of the two routes alone, refits take 1.4 to 24 times as long where the other one is faster.
    """
    n, m = len(problem.targets), network.n_neurons
    large = SAMPLES in problem.weight_map.offers and len(chunks(n, problem.size)) > 1 and problem.blocks is None
    few = m <= MAX_SIDE and 2 * (m + problem.n_outputs) <= n
    return large and problem.loss.quadratic and few


def _compressed(
    network: BilinearNetwork, problem: TrainingProblem, columns: FloatArray, targets: FloatArray, tol: float
) -> tuple[Atoms, FloatArray]:
    """Compute optimal second layers for the squared loss from few rows, see `_few_rows`; return neurons and weights."""
    m = network.n_neurons
    size = _unit(columns)
    columns = columns / size
    both = np.hstack([columns, -columns])
    atoms, weights = [], []
    for target in targets.T:
        unit = _unit(target)
        target = target / unit
        penalty = problem.beta * problem.dimension / size / unit
        fit = DataFit(problem.loss, target[:, None])
        both_parts = solve_restricted(both, fit, np.full(2 * m, penalty), tol=tol).weights
        signed = both_parts[:m] - both_parts[m:]
        used = np.flatnonzero(np.abs(signed) > ROUNDING * np.abs(signed).max())
        signs = np.where(signed[used] < 0.0, -1, 1)
        penalties = np.full(len(used), penalty)
        sparse = sparsify(columns[:, used] * signs, np.abs(signed[used]), penalties)
        few = sparse > 0.0
        atoms.append(Atoms.from_signs(network.U[used[few]], network.V[used[few]], signs[few]))
        weights.append(sparse[few] * unit / size)
    return Atoms.of_outputs(atoms), np.concatenate(weights)


def _unit(array: FloatArray) -> float:
    """Return a power of two near the root mean square of an array, which may be empty."""
    return power_of_two(float(np.linalg.norm(array)) / math.sqrt(max(1, array.size)))


def _few_rows(network: BilinearNetwork, problem: TrainingProblem) -> tuple[FloatArray, FloatArray]:
    r"""Compute rows and targets of the same squared loss as all samples, by chunks of these.

    With outputs F of the neurons and targets Y, times the roots of the weights of samples, :math:`F^T F = R^T R` and
    :math:`R^{-T} F^T Y` do, up to a constant.

    Raises
    ------
    TimeOver
        A time limit passed between chunks.
    """
    U, V = network.U.astype(np.float64), network.V.astype(np.float64)
    roots, plain = problem.data_fit.whitened()
    gram, products = np.zeros((len(U), len(U))), np.zeros((len(U), problem.n_outputs))
    for rows in chunks(len(roots), max(len(U), problem.size)):
        deadline.check()
        values = roots[rows, None] * problem.weight_map.take(rows).products(U, V)
        gram += values.T @ values
        products += values.T @ plain.target[rows]
    factor = GramFactor(gram)
    return factor.rows, factor.targets(products)


def _support(
    network: Any,
    master: Master,
    tol: float,
    report: Callable[[Round], None],
) -> tuple[Atoms, FloatArray]:
    """Compute the optimal second layer of one output, or of coupled outputs; return its neurons and weights."""
    dual_radius = master.instance.dual_radius

    def pricing(master: Any, gap: float) -> PricingResult:
        (matrices, real), atoms, uppers = master.pull(), [], []
        for values in pricing_values(network, matrices, real).T:
            uppers.append(float(np.abs(values).max(initial=0.0)))
            best = np.argsort(-np.abs(values))[:_BATCH]
            best = best[np.abs(values[best]) > dual_radius]
            atoms.append(Atoms.of_neurons(network, best, np.where(values[best] < 0.0, -1, 1)))
        every, upper = Atoms.of_outputs(atoms), max(uppers)
        if real.size:
            violating, largest = priced_weights(master, real)
            every, upper = every + violating, max(upper, largest)
        return PricingResult(every, upper, upper)

    with few_threads(small=master.small):
        outcome = generate(master, pricing, tol=tol, report=report)
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        return master.support()


def _shared(network: Any, problem: TrainingProblem, tol: float, bar: ProgressBar) -> Any:
    alpha = network.output_weights
    owners = _owners(alpha)
    order = np.argsort(owners, kind="stable")
    owners, alpha = owners[order], alpha[order]
    total = alpha.sum(axis=1)
    U = network.U[order] * np.where(total < 0.0, np.int8(-1), np.int8(1))[:, None]
    V = network.V[order]
    magnitudes = np.zeros(problem.n_outputs)
    groups = [owners == k for k in range(problem.n_outputs)]
    served = [k for k, group in enumerate(groups) if np.any(group)]
    columns = np.zeros_like(problem.targets)
    for done, k in enumerate(served):
        bar.count(done, len(served))
        # The quadratic form of the group costs the same for any number of neurons.
        ones = np.ones(int(groups[k].sum()))
        no_weights = np.zeros(len(network.weights))
        group = network.with_neurons(U[groups[k]], V[groups[k]], ones, order[groups[k]], no_weights)
        columns[:, [k]] = problem.output(k).outputs(group)
    prices = np.ones(len(order)) if problem.blocks is None else problem.blocks.prices[network.block[order]]
    sizes = np.array([float(prices[group].sum()) for group in groups])
    parts, real = problem.parts, np.zeros_like(network.column_weights)
    for part, outputs in zip(parts, np.split(np.arange(problem.n_outputs), len(parts)), strict=True):
        both = np.intersect1d(outputs, np.array(served, dtype=np.intp))
        if len(both) or len(real):
            magnitudes[both], real[:, outputs] = _scales(part, columns[:, both], sizes[both], both, tol)
    full = np.zeros((len(owners), problem.n_outputs))
    full[np.arange(len(owners)), owners] = magnitudes[owners]
    return network.with_neurons(U, V, problem.squeezed(full), order, problem.squeezed(real))


def _owners(alpha: FloatArray) -> npt.NDArray[np.intp]:
    """Return the output that each neuron serves; raise an error if one serves several."""
    several = (alpha != 0.0).sum(axis=1) > 1
    if np.any(several):
        raise InvalidInputError(
            "second_layer must be 'free' for a network whose neurons serve several outputs at once; "
            f"got 'shared' and {int(several.sum())} such neurons"
        )
    return owners_of(alpha)


def _scales(
    problem: TrainingProblem, columns: FloatArray, sizes: FloatArray, outputs: npt.NDArray[np.intp], tol: float
) -> tuple[FloatArray, FloatArray]:
    """Compute the optimal signed magnitude of each group of neurons, which feed these outputs, and real weights (p, C).

    These belong to all outputs of the problem.
    """
    instance = _instance(problem)
    normal, units = instance.normalised()
    scaled = columns * (units.weight / units.prediction)
    layout, C, groups = normal.map.layout, problem.n_outputs, columns.shape[1]
    if layout.weights:
        features: Any = normal.map.features
        scaled = np.hstack([scaled, *[features(layout.weight_entries)] * C])
        sizes = np.concatenate([sizes, np.ones(C * layout.n_weights)])
        outputs = np.concatenate([outputs, np.repeat(np.arange(C), layout.n_weights)])
    k = scaled.shape[1]
    solution = solve_restricted(
        np.hstack([scaled, -scaled]),
        normal.fit,
        np.tile(normal.dual_radius * sizes, 2),
        outputs=normal.fit.coupled_outputs(np.tile(outputs, 2)),
        tol=tol,
    )
    signed: FloatArray = (solution.weights[:k] - solution.weights[k:]) * units.weight
    real = signed[groups:].reshape(C, layout.n_weights) / layout.weight_omega
    return signed[:groups], real.T
