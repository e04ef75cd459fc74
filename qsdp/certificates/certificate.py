"""How far a network can be from the global optimum, at most, and the proof of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qsdp._utils.deadline import EIGENVALUES, FACTOR, Deadline
from qsdp._utils.gap import Gap
from qsdp._utils.progress import ProgressBar, progress
from qsdp._utils.summary import Summarized, Summary, gap_rows
from qsdp._utils.validation import FloatArray, check_choice, check_flag, check_integer, check_real, read_only
from qsdp.certificates.checks import check_fits, check_relaxation
from qsdp.certificates.files import read_proof, write_proof, write_rows_proof
from qsdp.certificates.passes import RowsProof, bound_over_rows, proportional_beta
from qsdp.certificates.proof import Proof, check_proof, check_tree, output_columns, root_tree, scaled_tree, tree_bound
from qsdp.certificates.verification import check_guarded, verified_scales
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks import BilinearNetwork
from qsdp.pricing import BilinearOracle, BoundTree
from qsdp.problem import TrainingProblem
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.relaxation.bounds import best_scale, entry_size, feasible_scale, pricing_roundings
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.memory import check_memory
from qsdp.statistics import SufficientStatistics

__all__ = [
    "Certificate",
    "Proof",
    "certificate_of",
    "certify",
    "guarded",
    "load_certificate",
]

BOUND_TYPES = ("sdp", "exact")
ARITHMETICS = ("float", "verified")

#: Relative difference below which an exact bound is preferred to another one.
_TIE = 1e-9

#: Relative change of a bound that its tree may have to allow for, above which a tree of one leaf, of matrices up to a
#: side, is evaluated anew.
_LITTLE, _LARGEST = 1e-9, 500

#: Relative gap up to which a network with an exact bound is called globally optimal to that gap.
_OPTIMAL = 1e-4


@dataclass(frozen=True)
class Certificate(Summarized, Gap):
    r"""``lower_bound <= p_b* <= objective``: bounds of the global optimum and a network.

    Attributes
    ----------
    lower_bound : float
        No network, of any width and with any weights, has a smaller objective.
    objective : float
        Objective (24) of the certified network.
    bound_type : {"sdp", "exact"}
        Whether pricing values were bounded by the semidefinite relaxation or their maximum computed exactly.
    arithmetic : {"float", "verified"}
        "verified": the bound holds whatever the rounding of the computer, see `qsdp.certificates.verification`.
    proof : Proof, RowsProof or None
        All that recomputing the bound takes (besides the rows, where they came in batches); no part of the
        certificate's value in comparisons.
    """

    lower_bound: float
    objective: float
    bound_type: str = "sdp"
    arithmetic: str = "float"
    proof: Proof | RowsProof | None = field(default=None, compare=False, repr=False)

    @property
    def nu(self) -> FloatArray | None:
        r"""Dual vector of shape (n,) or (n, C), of pricing values up to :math:`\beta D`; None where no proof has it."""
        return self.proof.nu if isinstance(self.proof, Proof) else None

    @property
    def z(self) -> FloatArray | None:
        r"""``(N,)`` or ``(C, N)`` with ``Diag(z) +- M_nu`` positive semidefinite; None where the proof is another."""
        roots = [tree.leaves[0] for tree in self.proof.trees if len(tree.leaves) == 1] if self.proof else []
        shifts = [leaf.shift for leaf in roots if leaf.shift is not None and leaf.cuts is None and not len(leaf.signs)]
        if not self.proof or len(shifts) != len(self.proof.trees):
            return None
        N = self.proof.size
        z = np.stack([shift[1 : 1 + N] + shift[1 + N :] for shift in shifts])
        return z if self.proof.vector else z[0]

    @property
    def proven_optimal(self) -> bool:
        """Whether an exact bound proves the network globally optimal, to a relative gap of at most 1e-4."""
        return self.bound_type == "exact" and self.relative_gap <= _OPTIMAL

    def save(self, path: str | os.PathLike[str], *, include_data: bool = True) -> None:
        """Write certificate and proof to a file that ``qsdp-check`` verifies with NumPy alone.

        Parameters
        ----------
        path : str or path-like
        include_data : bool, default=True
            Whether to store X and y, or only their SHA-256: whoever checks it must then have them. Rows that came in
            batches are never stored.

        Raises
        ------
        InvalidInputError
            There is no proof; or its loss is neither one of `qsdp.losses.LOSSES` nor a `PiecewiseQuadratic` one; or the
            loss as a file holds it has another objective or bound than the certificate.
        """
        if self.proof is None:
            raise InvalidInputError("a certificate without proof cannot be saved")
        claims = {name: getattr(self, name) for name in ("bound_type", "arithmetic", "lower_bound", "objective")}
        check_flag("include_data", include_data)
        if isinstance(self.proof, RowsProof):
            write_rows_proof(path, self.proof, claims)
        else:
            write_proof(path, self.proof, claims, include_data=include_data)

    def __str__(self) -> str:
        if self.proven_optimal:
            return (
                f"objective {self.objective:.6g}, globally optimal to relative gap {self.relative_gap:.2g} "
                f"(lower bound {self.lower_bound:.10g})"
            )
        return (
            f"objective {self.objective:.6g}, global optimum >= {self.lower_bound:.6g} "
            f"({self.bound_type} bound), gap {self.gap:.3g} ({100 * self.relative_gap:.3g} %)"
        )

    def _summary(self) -> Summary:
        bound = f"{self.bound_type}, {self.arithmetic} arithmetic"
        return Summary("Certificate", [*gap_rows(self, "of this network"), ("bound type", bound)])


def certificate_of(
    problem: TrainingProblem,
    network: BilinearNetwork,
    nu: FloatArray,
    trees: Sequence[BoundTree],
    bound_type: str,
    uppers: Sequence[float | None] | None = None,
) -> Certificate:
    r"""Return the certificate that a dual vector and bounds of its pricing values prove, recomputed from the data.

    With :math:`\bar\tau_k \ge \max_{u,v} |u^T M_k v|` the bound of the k-th tree for
    :math:`M_k = \sum_i \nu_{ik} \mathcal{X}_i`, every :math:`s \nu` with :math:`s \bar\tau_k \le \beta D` proves
    :math:`p_b^* \ge -\ell^*(-s\nu)`; the best s up to 2 is taken, one for each output where the loss adds up over
    them.

    Parameters
    ----------
    problem : TrainingProblem
    network : BilinearNetwork
        Its objective is recomputed.
    nu : ndarray of shape (n,) or (n, C)
        Any dual vector; moved into the domain of the conjugate.
    trees : sequence of BoundTree
        One for each output, for the matrices of `nu` as given.
    bound_type : {"sdp", "exact"}
        Name of the bound.
    uppers : sequence of float or None, optional
        The bounds of the trees where an oracle has just computed them for the same matrices; those that are None are
        computed here.

    Returns
    -------
    Certificate
        In ordinary floating point, less an allowance for its rounding. Its proof holds the scaled `nu` and trees.
    """
    check_fits(network, problem)
    check_choice("bound_type", bound_type, BOUND_TYPES)
    check_proof(problem, nu, trees)
    inside = problem.data_fit.project(np.asarray(nu, dtype=np.float64))
    known = [None] * len(trees) if uppers is None else uppers
    moved = output_columns(np.abs(inside - nu))
    evaluated = [
        _upper(problem, column, tree, upper, change)
        for column, tree, upper, change in zip(output_columns(inside), trees, known, moved, strict=True)
    ]
    if problem.separable:
        parts = [_scaled(problem.output(k), inside[:, k], [upper]) for k, upper in enumerate(evaluated)]
        value, scales = sum(part[0] for part in parts), np.array([part[1] for part in parts])
    else:
        value, scale = _scaled(problem, inside, evaluated)
        scales = np.full(len(evaluated), scale)
    objective = problem.objective(network)
    return Certificate(
        # The proven bound may exceed an optimal objective by the rounding of that; a smaller one is proven as well.
        lower_bound=min(value, objective),
        objective=objective,
        bound_type=bound_type,
        proof=Proof(
            problem,
            network,
            read_only(inside * (scales if problem.vector else scales[0])),
            tuple(scaled_tree(tree, float(scale)) for tree, scale in zip(trees, scales, strict=True)),
        ),
    )


def _upper(problem: TrainingProblem, nu: FloatArray, tree: BoundTree, known: float | None, moved: FloatArray) -> float:
    r"""Return an upper bound of the pricing values of :math:`M_\nu` as it is computed, which the tree proves.

    A bound that is known is that of a dual vector from which `nu` was moved, by the rounding of numbers that may be
    large. The values change by no more than the entries of the matrix do, but the tree is of the other matrix: shifts
    need up to the side of theirs, times half of the sum of these changes.
    """
    check_tree(tree, problem.size)
    if known is None:
        return tree_bound(problem.adjoint(nu), tree)
    change = entry_size(problem.map, moved)
    if all(leaf.shift is None for leaf in tree.leaves):
        return known + change
    needed = (problem.size + 1.0) * change
    cheap = len(tree.leaves) == 1 and problem.size <= _LARGEST
    return tree_bound(problem.adjoint(nu), tree) if cheap and needed > _LITTLE * known else known + needed


def _scaled(problem: TrainingProblem, nu: FloatArray, uppers: Sequence[float]) -> tuple[float, float]:
    """Return the best bound that multiples of `nu` prove, and the multiple; at least 0, which zero proves."""
    instance = Instance.of(problem)
    upper = float(np.max(uppers + pricing_roundings(instance, nu)))
    scale = best_scale(instance.fit, nu, instance.dual_radius / upper if upper > 0.0 else np.inf)
    scale = feasible_scale(instance, nu, uppers, scale)
    value = instance.fit.guarded_dual_value(scale * nu)
    return (value, scale) if value > 0.0 else (0.0, 0.0)


def certify(
    network: BilinearNetwork,
    problem: Any,
    relaxation: Relaxation | None = None,
    *,
    beta: float | None = None,
    passes: int = 1,
    bound_type: str = "sdp",
    arithmetic: str = "float",
    time_limit: float | None = None,
    verbose: bool = False,
) -> Certificate:
    r"""Return the certificate of `network` on `problem`, or on all rows of a stream.

    Parameters
    ----------
    network : BilinearNetwork
        Any network of the problem's inputs, outputs, levels and activation, wherever its weights come from; a
        polynomial one through `from_polynomial`.
    problem : TrainingProblem, SufficientStatistics, or iterable of (X, y) or (X, y, sample_weight)
        Of batches of rows, however many; also a function that returns such a stream anew.
    relaxation : Relaxation, optional
        A solved relaxation of the same problem; its lower bound holds for every network. Solved here if not given. For
        batches, one of some rows, whose loss, activation and levels are those of all: dual vectors of all rows follow
        from its predictions.
    beta : float, optional
        Of all rows of batches or statistics; by default that of the relaxation times the ratio of
        the weights of all rows.
    passes : int, default=1
        Passes over batches. Between passes the predictions are corrected by a Newton step for all rows: the gap that
        the relaxation leaves, as it knows some rows only, becomes several times smaller.
    bound_type : {"sdp", "exact"}, default="sdp"
        "sdp" takes the relaxation's bound. "exact" computes :math:`\max_{u,v} |u^T M_\nu v|` exactly, for the
        relaxation's dual vector and for minus the gradient of the loss at the network's own predictions, which
        proves an optimal network optimal if the loss is smooth; the best bound of all is kept. At the kinks of the
        hinge or the absolute loss the gradient is no such proof: take ``column_generation(problem,
        start=network).certificate``.
    arithmetic : {"float", "verified"}, default="float"
        "verified" guards the bound against all rounding, see `qsdp.certificates.verification`.
    time_limit : float, optional
        Seconds, > 0, for the relaxation, if none is given, and exact pricing. A maximum that is not
        finished still has a valid bound, but the certificate's `bound_type` is then "sdp". No pass over
        batches is begun after it; that under way is finished.
    verbose : bool, default=False
        Show a bar, of the maxima that are known, on the standard error or in the notebook.

    Raises
    ------
    InvalidInputError
        The network is of another kind, the relaxation is one of another problem, a verified bound is asked for a loss
        without guarded values, or the proof of an exact bound takes more than the main memory.

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
    count = check_integer("passes", passes, minimum=1)
    if isinstance(problem, SufficientStatistics):
        problem, beta = _of_statistics(network, problem, relaxation, beta), None
        relaxation = relaxation if relaxation is not None and relaxation.problem == problem else None
    if not isinstance(problem, TrainingProblem):
        deadline = Deadline.after(time_limit)
        return _of_batches(network, problem, relaxation, beta, count, exact, arithmetic, deadline, verbose)
    if beta is not None or count > 1:
        raise InvalidInputError("beta and passes are for batches of rows; a TrainingProblem has its own beta")
    check_fits(network, problem)
    if arithmetic == "verified":
        problem.require_rows("arithmetic='verified'")
        check_guarded(problem.loss)
    if relaxation is not None:
        check_relaxation(relaxation, problem)
    if exact:
        check_memory(problem, proven=True)
    deadline = Deadline.after(time_limit)
    with progress(check_flag("verbose", verbose)) as stages:
        if relaxation is None:
            share = deadline.share(0.5 if exact else 1.0)
            relaxation = solve_relaxation(problem, time_limit=share.time_limit, verbose=verbose)
        with stages.stage("certify") as bar:
            certificate = _of_relaxation(network, relaxation)
            for priced in _exact(network, relaxation, deadline, bar) if exact else ():
                # An exact bound may fall short of the relaxation's by its own allowance for rounding.
                preferred = priced.bound_type == "exact" and certificate.bound_type != "exact"
                if priced.lower_bound >= (1.0 - _TIE if preferred else 1.0) * certificate.lower_bound:
                    certificate = priced
            return guarded(certificate) if arithmetic == "verified" else certificate


def _of_statistics(
    network: BilinearNetwork, statistics: SufficientStatistics, relaxation: Relaxation | None, beta: float | None
) -> TrainingProblem:
    """Return the problem of the statistics that has the network's kind."""
    if beta is None:
        if not isinstance(relaxation, Relaxation):
            raise InvalidInputError("beta must be given for statistics without a relaxation")
        beta = proportional_beta(relaxation.problem, statistics.total_weight_)
    if not isinstance(network, BilinearNetwork):
        raise InvalidTypeError(f"network must be a BilinearNetwork; got {type(network).__name__}")
    return TrainingProblem.from_statistics(statistics, beta=beta, activation=network.activation, levels=network.levels)


def _of_batches(
    network: BilinearNetwork,
    batches: Any,
    relaxation: Relaxation | None,
    beta: float | None,
    passes: int,
    exact: bool,
    arithmetic: str,
    deadline: Deadline,
    verbose: bool,
) -> Certificate:
    one_array = isinstance(batches, str) or hasattr(batches, "__array__")
    if one_array or not (callable(batches) or isinstance(batches, Iterable)):
        raise InvalidTypeError(
            "problem must be a TrainingProblem, SufficientStatistics, or batches of rows (an iterable, or a function "
            f"that returns one); got {type(batches).__name__}"
        )
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(
            "relaxation must be a Relaxation of some of the rows where problem is batches of them; got "
            f"{type(relaxation).__name__}"
        )
    check_fits(network, relaxation.problem)
    penalty = None if beta is None else check_real("beta", beta)
    with progress(check_flag("verbose", verbose)) as stages, stages.stage("certify") as bar:
        objective, bound, finished, proof = bound_over_rows(
            network,
            batches,
            relaxation,
            penalty,
            passes=passes,
            exact=exact,
            verified=arithmetic == "verified",
            deadline=deadline,
            bar=bar,
        )
    bound_type = "exact" if finished else "sdp"
    return Certificate(min(bound, objective), objective, bound_type, arithmetic, proof)


def load_certificate(path: str | os.PathLike[str], problem: TrainingProblem | None = None) -> Certificate:
    """Return the certificate that was saved to `path`; what it claims is not computed again.

    Parameters
    ----------
    path : str or path-like
    problem : TrainingProblem, optional
        The problem it must belong to. Without it a certificate saved without data comes back without proof.

    Raises
    ------
    StorageError
        The file is truncated, altered, foreign, or of another problem.
    """
    proof, claims = read_proof(path, problem)
    return Certificate(**claims, proof=proof)


def _of_relaxation(network: BilinearNetwork, relaxation: Relaxation) -> Certificate:
    problem, dual = relaxation.problem, relaxation.dual
    columns = output_columns(dual.nu)
    # Where nu is zero, which needs no weights, those of the relaxation are all ones.
    trees = tuple(root_tree(z * bool(np.any(nu))) for nu, z in zip(columns, np.atleast_2d(dual.z), strict=True))
    proof = Proof(problem, network, read_only(dual.nu.copy()), trees)
    objective = problem.objective(network)
    return Certificate(min(relaxation.lower_bound, objective), objective, proof=proof)


def _exact(
    network: BilinearNetwork, relaxation: Relaxation, deadline: Deadline, bar: ProgressBar
) -> Iterator[Certificate]:
    """Yield the certificates of both dual vectors with exact pricing, as far as time allows."""
    problem = relaxation.problem
    gradient = -problem.data_fit.gradient(problem.predictions(network))
    oracle = BilinearOracle(problem.size)
    # The bounds of a first node, and the eigenvalues of its leaf.
    proof = (4.0 * FACTOR + EIGENVALUES) * (2.0 * problem.size + 1.0) ** 3
    remaining = total = 2 * problem.n_outputs
    for nu, z in ((relaxation.dual.nu, np.atleast_2d(relaxation.dual.z)), (gradient, None)):
        inside = problem.data_fit.project(nu)
        if not np.all(np.isfinite(inside)):
            continue
        results = []
        for k, column in enumerate(output_columns(inside)):
            own = deadline.share(1.0 / remaining)
            remaining -= 1
            if not own.over and deadline.tolerates(proof):
                shift = None if z is None else z[k]
                M = problem.adjoint(column)
                results.append(oracle.prove(M, max_atoms=0, time_limit=own.time_limit, shift=shift))
                bar.count(total - remaining, total, f"{total - remaining} of {total} pricing problems")
        if len(results) == problem.n_outputs and all(result.trees and result.trees[0].leaves for result in results):
            finished = all(result.exact for result in results)
            trees = [result.trees[0] for result in results]
            yield certificate_of(problem, network, inside, trees, "exact" if finished else "sdp")


def guarded(certificate: Certificate) -> Certificate:
    """Return the certificate with the bound that its proof has in verified arithmetic."""
    proof = certificate.proof
    assert isinstance(proof, Proof)
    value, nu, scales = verified_scales(proof.problem, proof.nu, proof.trees)
    trees = tuple(scaled_tree(tree, float(scale)) for tree, scale in zip(proof.trees, scales, strict=True))
    scaled = read_only(nu * (scales if proof.problem.vector else scales[0]))
    bound = min(value, certificate.objective)
    return replace(certificate, lower_bound=bound, arithmetic="verified", proof=replace(proof, nu=scaled, trees=trees))
