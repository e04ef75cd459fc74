"""Certify a network on a problem."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS, ROUNDING
from qsdp._utils.parallel import chunks
from qsdp._utils.progress import ProgressBar, progress
from qsdp._utils.tuning import EIGEN, MAX_STEPS, SECOND, SMALL
from qsdp._utils.validation import FloatArray, check_choice, check_verbose
from qsdp.certificates.certificate import (
    BOUND_TYPES,
    Certificate,
    as_bilinear,
    certificate_of,
    check_fits,
    check_relaxation,
)
from qsdp.exceptions import InvalidTypeError
from qsdp.networks import BilinearNetwork, PolynomialNetwork
from qsdp.pricing import BilinearOracle, BoundTree
from qsdp.pricing.atoms import Atoms
from qsdp.pricing.bound_trees import root_tree
from qsdp.problem import TrainingProblem
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.solve import check_memory

__all__ = ["certify"]

#: Distance from a kink, relative to the largest output, up to which an output is at the kink: those of a nearly optimal
#: network are within 1e-9, and others are rarely so near.
_KINK = 1e-6


def certify(
    network: BilinearNetwork | PolynomialNetwork,
    problem: TrainingProblem,
    relaxation: Relaxation | None = None,
    *,
    bound_type: str = "sdp",
    time_limit: float | None = None,
    verbose: bool | int = False,
) -> Certificate:
    r"""Certify a network: bound its distance from the global optimum of `problem`.

    `certify_stream` certifies a network on rows that are read in batches.

    Parameters
    ----------
    network : BilinearNetwork or PolynomialNetwork
        Any network with the inputs, outputs, levels and activation of the problem, whatever the source of its weights.
        A polynomial network is converted by `from_polynomial`; its certificate is that of the bilinear network.
    problem : TrainingProblem
    relaxation : Relaxation, optional
        Solved relaxation of the same problem. Its lower bound holds for every network. If None, it is solved here.
    bound_type : {"sdp", "exact"}, default="sdp"
        "sdp" uses the bound of the relaxation. "exact" computes :math:`\max_{u,v} |u^T M_\nu v|` exactly for two dual
        vectors: that of the relaxation, and minus the gradient of the loss at the predictions of the network, or the
        subgradient that suits its neurons best. The latter proves an optimal network optimal. The best of all bounds
        is used. ``column_generation(problem, start=network).certificate`` proves more if the network is not optimal.
    time_limit : float, optional
        Seconds, > 0, checked between iterations of a relaxation that is solved here and during exact pricing; then the
        bound is computed. An unfinished maximum still has a valid bound, but the certificate's `bound_type` is then
        "sdp".
    verbose : bool or int, default=False
        Show a progress bar of the maxima on the standard error or in the notebook.

    Raises
    ------
    InvalidInputError
        The network does not match the problem, the relaxation belongs to another problem, or the proof of an exact
        bound needs more than the main memory.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]])
    >>> problem = qsdp.TrainingProblem(X, [2.0, 0.1, 1.0], beta=0.1)
    >>> certificate = qsdp.certify(qsdp.BilinearNetwork([[1, 1]], [[1, 1]], [0.2]), problem, bound_type="exact")
    >>> certificate.lower_bound <= certificate.objective
    True
    """
    exact = check_choice("bound_type", bound_type, BOUND_TYPES) == "exact"
    if not isinstance(problem, TrainingProblem):
        raise InvalidTypeError(
            f"problem must be a TrainingProblem; got {type(problem).__name__}. Use TrainingProblem.from_statistics for "
            "SufficientStatistics, and certify_stream for rows in batches"
        )
    check_verbose(verbose)
    converted: Any = as_bilinear(network, problem)
    check_fits(converted, problem)
    if relaxation is not None:
        check_relaxation(relaxation, problem)
    if exact:
        check_memory(problem, proven=True)
    with deadline.after(time_limit), progress(verbose) as stages:
        if relaxation is None:
            with deadline.fraction(0.5 if exact else 1.0):
                relaxation = solve_relaxation(problem, verbose=verbose)
        with stages.stage("certify") as bar:
            certificate = _of_relaxation(converted, relaxation)
            for priced in _exact(converted, relaxation, bar) if exact else ():
                # An exact bound may fall short of the relaxation's by its own allowance for rounding.
                preferred = priced.bound_type == "exact" and certificate.bound_type != "exact"
                if priced.lower_bound >= (1.0 - ROUNDING if preferred else 1.0) * certificate.lower_bound:
                    certificate = priced
            return certificate


def _of_relaxation(network: BilinearNetwork, relaxation: Relaxation) -> Certificate:
    problem, dual = relaxation.problem, relaxation.bound
    return certificate_of(problem, network, dual.nu, dual.trees, "sdp")


def _exact(network: BilinearNetwork, relaxation: Relaxation, bar: ProgressBar) -> Iterator[Certificate]:
    """Yield the certificates of the dual vectors with exact pricing, until the time limit."""
    problem = relaxation.problem
    instance = Instance.from_problem(problem)
    gradient = _dual_vector(instance, network, problem.outputs(network))
    duals: list[tuple[FloatArray, FloatArray | None]] = [(gradient, None)]
    # That of a network which became a relaxation is its gradient, made smaller: a second proof would prove less.
    if not _is_fraction(relaxation.bound.nu, gradient, coupled=instance.loss.coupled):
        duals.insert(0, (relaxation.bound.nu, relaxation.bound.z))
    remaining = total = len(duals) * instance.n_matrices
    for nu, z in duals:
        inside = instance.fit.project(nu)
        if not np.all(np.isfinite(inside)):
            continue
        if not instance.n_matrices:
            # The prices of real weights are exact.
            yield certificate_of(problem, network, inside, (), "exact")
            continue
        proven: list[tuple[BoundTree, float | None, bool]] = []
        for k, M in enumerate(instance.adjoints(inside)):
            if not deadline.over():
                with deadline.fraction(1.0 / remaining):
                    proven += _priced(problem, k, M, None if z is None else z[k])
            remaining -= 1
            if proven:
                bar.count(total - remaining, total, f"{total - remaining} of {total} pricing problems")
        if len(proven) == instance.n_matrices:
            trees, uppers, finished = zip(*proven, strict=True)
            yield certificate_of(problem, network, inside, trees, "exact" if all(finished) else "sdp", uppers)


def _is_fraction(nu: FloatArray, gradient: FloatArray, *, coupled: bool) -> bool:
    """Whether the columns of a dual vector (n, C) are those of a gradient times numbers from zero to one.

    If outputs are coupled, it is one number for all columns.
    """
    if coupled:
        nu, gradient = nu.reshape(-1, 1), gradient.reshape(-1, 1)
    sizes = np.einsum("ij,ij->j", gradient, gradient)
    scales = np.divide(np.einsum("ij,ij->j", gradient, nu), sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
    differences = np.abs(nu - scales * gradient).max(axis=0, initial=0.0)
    small = ROUNDING * np.abs(gradient).max(axis=0, initial=0.0)
    return bool(np.all((scales >= 0.0) & (scales <= 1.0 + ROUNDING) & (differences <= small)))


def _dual_vector(instance: Instance, network: BilinearNetwork, outputs: FloatArray) -> FloatArray:
    """Return minus a subgradient of the loss at the outputs (n, C) of a network, optimal if the network is.

    At kinks, it is any number of an interval. At an optimum, all neurons have the largest pricing value, which as many
    equations determine.
    """
    fit = instance.fit
    nu = -fit.gradient(outputs)
    if instance.loss.smooth or instance.loss.coupled:
        return nu
    step = _KINK * np.abs(outputs).max(axis=0)
    low, high = -fit.gradient(outputs + step), -fit.gradient(outputs - step)
    free = high - low > SMALL * (np.abs(low) + np.abs(high))
    atoms = Atoms.of_network(network)
    if network.blocks is None:
        # The optimal weights of several levels are the outermost, which are those of the data in units of the instance.
        U, V = (np.where(side < 0, -1, 1).astype(np.int8) for side in (atoms.U, atoms.V))
        atoms = replace(atoms, U=U, V=V)
    for k in range(nu.shape[1]):
        neurons, rows = atoms[atoms.outputs == k], np.flatnonzero(free[:, k])
        smaller, larger = sorted((len(neurons), len(rows)))
        if not 0.0 < EIGEN * smaller**2 * larger < SECOND:
            continue
        fixed = np.where(free[:, k], 0.0, nu[:, k])
        missing = np.full(len(neurons), instance.dual_radius)
        for part in chunks(len(nu), len(neurons)):
            missing -= neurons.values(instance.map.take(part)).T @ fixed[part]
        values = neurons.values(instance.map.take(rows)).T
        if np.all(np.isfinite(values)) and np.all(np.isfinite(missing)):
            bounds = low[rows, k], high[rows, k]
            nu[rows, k] = scipy.optimize.lsq_linear(
                values, missing, bounds, method="bvls", tol=EPS, max_iter=MAX_STEPS
            ).x
    return nu


def _priced(
    problem: TrainingProblem, k: int, M: FloatArray, shift: FloatArray | None
) -> list[tuple[BoundTree, float | None, bool]]:
    """Compute a tree for the k-th matrix, its bound, and whether that is exact; nothing if the time limit passed."""
    layout = problem.blocks
    if layout is not None and layout.linear[k % layout.n_blocks]:
        # The matrix is diagonal, so the values of all pairs of signs are at most the sum of its magnitudes.
        sizes = np.abs(M.diagonal())
        return [(root_tree(sizes), math.nextafter(math.fsum(sizes), math.inf), True)]
    result = BilinearOracle(problem.size).prove(M, max_atoms=0, shift=shift)
    return [(result.trees[0], result.upper, result.exact)] if result.trees and result.trees[0].leaves else []
