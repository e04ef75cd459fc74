"""Certify a network on a problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.progress import ProgressBar, progress
from qsdp._utils.validation import FloatArray, check_choice, check_verbose, read_only
from qsdp.certificates.certificate import BOUND_TYPES, Certificate, certificate_of
from qsdp.certificates.checks import as_bilinear, check_fits, check_relaxation
from qsdp.certificates.proof import Proof, root_tree, scaled_tree
from qsdp.certificates.verification import check_guarded, verified_scales
from qsdp.exceptions import InvalidTypeError
from qsdp.networks import BilinearNetwork, BlockNetwork, PolynomialNetwork
from qsdp.pricing import BilinearOracle, BoundTree
from qsdp.problem import TrainingProblem
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.memory import check_memory

__all__ = ["certify", "guarded"]

ARITHMETICS = ("float", "verified")


def certify(
    network: BilinearNetwork | BlockNetwork | PolynomialNetwork,
    problem: TrainingProblem,
    relaxation: Relaxation | None = None,
    *,
    bound_type: str = "sdp",
    arithmetic: str = "float",
    time_limit: float | None = None,
    verbose: bool | int = False,
) -> Certificate:
    r"""Certify a network: bound its distance from the global optimum of `problem`.

    `certify_stream` certifies a network on rows that are read in batches.

    Parameters
    ----------
    network : BilinearNetwork, BlockNetwork or PolynomialNetwork
        Any network with the inputs, outputs, levels and activation of the problem, whatever the source of its weights.
        A polynomial network is converted by `from_polynomial`; its certificate is that of the bilinear network.
    problem : TrainingProblem
    relaxation : Relaxation, optional
        Solved relaxation of the same problem. Its lower bound holds for every network. If None, it is solved here.
    bound_type : {"sdp", "exact"}, default="sdp"
        "sdp" uses the bound of the relaxation. "exact" computes :math:`\max_{u,v} |u^T M_\nu v|` exactly for two dual
        vectors: that of the relaxation, and minus the gradient of the loss at the predictions of the network. If the
        loss is smooth, the latter proves an optimal network optimal. The best of all bounds is used. At the kinks of
        the hinge or the absolute loss, the gradient proves less: use
        ``column_generation(problem, start=network).certificate``.
    arithmetic : {"float", "verified"}, default="float"
        "verified" guards the bound against all rounding, see `qsdp.certificates.verification`. It can leave a bound of
        0, if multipliers are too close to the ends of their domain, as with nearly separable classes.
    time_limit : float, optional
        Seconds, > 0, checked between iterations of a relaxation that is solved here and during exact pricing; then the
        bound is computed. An unfinished maximum still has a valid bound, but the certificate's `bound_type` is then
        "sdp".
    verbose : bool or int, default=False
        Show a progress bar of the maxima on the standard error or in the notebook.

    Raises
    ------
    InvalidInputError
        The network does not match the problem, the relaxation belongs to another problem, a verified bound is requested
        for a loss without guarded values, or the proof of an exact bound needs more than the main memory.

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
    check_choice("arithmetic", arithmetic, ARITHMETICS)
    if not isinstance(problem, TrainingProblem):
        raise InvalidTypeError(
            f"problem must be a TrainingProblem; got {type(problem).__name__}. Use TrainingProblem.from_statistics for "
            "SufficientStatistics, and certify_stream for rows in batches"
        )
    check_verbose(verbose)
    request = _Request(exact, arithmetic == "verified", verbose)
    with deadline.after(time_limit):
        return _certified(network, problem, relaxation, request)


@dataclass(frozen=True)
class _Request:
    """Options of a certificate: exact pricing, verified arithmetic, and the progress bar."""

    exact: bool
    verified: bool
    verbose: bool | int


def _certified(network: Any, problem: TrainingProblem, relaxation: Any, request: _Request) -> Certificate:
    network = as_bilinear(network, problem)
    check_fits(network, problem)
    if request.verified:
        problem.require_rows("arithmetic='verified'")
        check_guarded(problem.loss)
    if relaxation is not None:
        check_relaxation(relaxation, problem)
    if request.exact:
        check_memory(problem, proven=True)
    with progress(request.verbose) as stages:
        if relaxation is None:
            with deadline.fraction(0.5 if request.exact else 1.0):
                relaxation = solve_relaxation(problem, verbose=request.verbose)
        with stages.stage("certify") as bar:
            certificate = _of_relaxation(network, relaxation)
            for priced in _exact(network, relaxation, bar) if request.exact else ():
                # An exact bound may fall short of the relaxation's by its own allowance for rounding.
                preferred = priced.bound_type == "exact" and certificate.bound_type != "exact"
                if priced.lower_bound >= (1.0 - ROUNDING if preferred else 1.0) * certificate.lower_bound:
                    certificate = priced
            return guarded(certificate) if request.verified else certificate


def _of_relaxation(network: BilinearNetwork | BlockNetwork, relaxation: Relaxation) -> Certificate:
    problem, dual = relaxation.problem, relaxation.bound
    # If nu is zero, it needs no weights, but those of the relaxation are all ones.
    weights = dual.z * np.repeat(np.any(dual.nu, axis=0), problem.map.n_blocks)[:, None]
    trees = tuple(root_tree(z) for z in weights)
    proof = Proof(problem, network, read_only(dual.nu.copy()), trees)
    objective = problem.objective(network)
    return Certificate(max(0.0, min(relaxation.lower_bound, objective)), objective, proof=proof)


def _exact(network: BilinearNetwork | BlockNetwork, relaxation: Relaxation, bar: ProgressBar) -> Iterator[Certificate]:
    """Yield the certificates of both dual vectors with exact pricing, until the time limit."""
    problem = relaxation.problem
    instance = Instance.of(problem)
    gradient = -problem.data_fit.gradient(problem.outputs(network))
    remaining = total = 2 * instance.n_matrices
    for nu, z in ((relaxation.bound.nu, relaxation.bound.z), (gradient, None)):
        inside = instance.fit.project(nu)
        if not np.all(np.isfinite(inside)):
            continue
        proven: list[tuple[BoundTree, bool]] = []
        for k, M in enumerate(instance.adjoints(inside)):
            if not deadline.over():
                with deadline.fraction(1.0 / remaining):
                    proven += _priced(problem, k, M, None if z is None else z[k])
            remaining -= 1
            if proven:
                bar.count(total - remaining, total, f"{total - remaining} of {total} pricing problems")
        if len(proven) == instance.n_matrices:
            finished = all(exact for _, exact in proven)
            trees = [tree for tree, _ in proven]
            yield certificate_of(problem, network, inside, trees, "exact" if finished else "sdp")


def _priced(problem: TrainingProblem, k: int, M: FloatArray, shift: FloatArray | None) -> list[tuple[BoundTree, bool]]:
    """Compute a tree for the k-th matrix and whether its bound is exact; an empty list if the time limit passed."""
    layout = problem.blocks
    if layout is not None and layout.linear[k % layout.n_blocks]:
        # The matrix is diagonal, so the values of all pairs of signs are at most the sum of its magnitudes.
        return [(root_tree(np.abs(M.diagonal())), True)]
    result = BilinearOracle(problem.size).prove(M, max_atoms=0, shift=shift)
    return [(result.trees[0], result.exact)] if result.trees and result.trees[0].leaves else []


def guarded(certificate: Certificate) -> Certificate:
    """Recompute the bound of a certificate from its proof in verified arithmetic."""
    proof = certificate.proof
    assert isinstance(proof, Proof)
    value, nu, scales = verified_scales(proof.problem, proof.nu, proof.trees)
    factors = np.repeat(scales, len(proof.trees) // len(scales))
    trees = tuple(scaled_tree(tree, float(scale)) for tree, scale in zip(proof.trees, factors, strict=True))
    scaled = read_only(nu * scales)
    bound = min(value, certificate.objective)
    return replace(certificate, lower_bound=bound, arithmetic="verified", proof=replace(proof, nu=scaled, trees=trees))
