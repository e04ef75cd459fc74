"""Certificates: a network's objective, a lower bound on the global optimum, and the proof of the bound."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qsdp._utils.gap import Gap
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.summary import Summarized, Summary, format_percent, gap_rows
from qsdp._utils.validation import FloatArray, check_choice, check_flag, read_only
from qsdp.certificates.files import read_proof, write_proof, write_rows_proof
from qsdp.certificates.proof import Proof, check_proof, proven_bound
from qsdp.certificates.row_sums import RowsProof
from qsdp.exceptions import InvalidInputError, InvalidTypeError, StorageError
from qsdp.networks import BilinearNetwork, PolynomialNetwork, from_polynomial
from qsdp.networks.polynomial import QUADRATIC
from qsdp.pricing import BoundTree
from qsdp.pricing.bound_trees import scaled_tree
from qsdp.problem import TrainingProblem, check_problem
from qsdp.relaxation import Relaxation

__all__ = [
    "Certificate",
    "Proof",
    "as_bilinear",
    "certificate_of",
    "check_bilinear",
    "check_fits",
    "check_relaxation",
    "load_certificate",
]

BOUND_TYPES = ("sdp", "exact")


@dataclass(frozen=True)
class Certificate(Summarized, Gap):
    r"""Certificate of a network: bounds on the global optimum, ``lower_bound <= p_b* <= objective``, with a proof.

    Attributes
    ----------
    lower_bound : float
        No network, of any width and with any weights, has a smaller objective. This holds for any rounding of the
        computer. If sums or streams stand for the rows, it holds up to their stated rounding.
    objective : float
        Objective (24) of the certified network; nan if it is not known.
    bound_type : {"sdp", "exact"}
        Whether pricing values were bounded by the semidefinite relaxation, or their maximum was computed exactly.
    proof : Proof, RowsProof or None
        Everything needed to recompute the bound, except rows that were read in batches. It is ignored when
        certificates are compared.
    """

    lower_bound: float
    objective: float
    bound_type: str = "sdp"
    proof: Proof | RowsProof | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_choice("bound_type", self.bound_type, BOUND_TYPES)
        if not math.isfinite(self.lower_bound) or math.isinf(self.objective):
            raise InvalidInputError(f"bound and objective must be finite; got {self.lower_bound}, {self.objective}")
        if self.lower_bound > self.objective + ROUNDING * abs(self.objective):
            raise InvalidInputError(
                f"lower_bound must be at most the objective, {self.objective:g}; got {self.lower_bound:g}"
            )

    @property
    def nu(self) -> FloatArray | None:
        r"""Dual vector of shape (n,) or (n, C), with pricing values up to :math:`\beta D`; None if `proof` has none."""
        return self.proof.problem.squeezed(self.proof.nu) if isinstance(self.proof, Proof) else None

    @property
    def z(self) -> FloatArray | None:
        r"""Vector ``(N,)`` or ``(C, N)`` with ``Diag(z) +- M_nu`` positive semidefinite; None if `proof` has none.

        With blocks, of shape ``(C R, N)`` for the matrices divided by :math:`\omega_r D_r`.
        """
        roots = [tree.leaves[0] for tree in self.proof.trees if len(tree.leaves) == 1] if self.proof else []
        shifts = [leaf.shift for leaf in roots if leaf.shift is not None and leaf.cuts is None and not len(leaf.signs)]
        if not self.proof or not shifts or len(shifts) != len(self.proof.trees):
            return None
        N = self.proof.size
        z = np.stack([shift[1 : 1 + N] + shift[1 + N :] for shift in shifts])
        return z[0] if self.proof.scalar and len(z) == 1 else z

    @property
    def proven_optimal(self) -> bool:
        """Whether an exact bound proves the network globally optimal, to a relative gap of at most 1e-4."""
        return self.bound_type == "exact" and self.relative_gap <= 1e-4

    def save(self, path: str | os.PathLike[str], *, include_data: bool | str = True) -> None:
        """Write the certificate and its proof to a file that ``qsdp-check`` verifies using NumPy alone.

        Parameters
        ----------
        path : str or path-like
        include_data : bool or "sums", default=True
            Whether to store X and y. If False, only their SHA-256 is stored, and checking the file requires the data.
            Rows that were read in batches are never stored. For the squared loss on blocks, "sums" stores sums over the
            samples, from which the checker proves the bound; without the data, it trusts them. Blocks of more than 64
            MiB are stored as sums where possible, else as their SHA-256. Rows and targets are those of the training
            problem: how they were made of samples, for example centred by an additive model, is stated, not checked.

        Raises
        ------
        InvalidInputError
            There is no proof; its loss is not one of `qsdp.losses.LOSSES`, so a checker could not evaluate it; or the
            objective is ill-conditioned.
        """
        if self.proof is None:
            raise InvalidInputError(
                "a certificate without a proof cannot be saved; an estimator loses its proof, which holds the training "
                "data, when it is pickled or saved"
            )
        claims = {name: getattr(self, name) for name in ("bound_type", "lower_bound", "objective")}
        stored = "sums" if isinstance(include_data, str) and include_data == "sums" else False
        stored = stored or check_flag("include_data", include_data)
        if isinstance(self.proof, RowsProof):
            write_rows_proof(path, self.proof, claims)
        else:
            write_proof(path, self.proof, claims, include_data=stored)

    def __str__(self) -> str:
        if self.proven_optimal:
            return (
                f"objective {self.objective:.6g}, globally optimal to relative gap {self.relative_gap:.2g} "
                f"(lower bound {self.lower_bound:.10g})"
            )
        return (
            f"objective {self.objective:.6g}, global optimum >= {self.lower_bound:.6g} "
            f"({self.bound_type} bound), gap {self.gap:.3g} ({format_percent(self.relative_gap, '.3g')})"
        )

    def _summary(self) -> Summary:
        return Summary("Certificate", [*gap_rows(self, "of this network"), ("bound type", self.bound_type)])


def certificate_of(
    problem: TrainingProblem,
    network: BilinearNetwork,
    nu: FloatArray,
    trees: Sequence[BoundTree],
    bound_type: str,
    uppers: Sequence[float | None] | None = None,
) -> Certificate:
    r"""Compute the certificate that a dual vector and bounds on its pricing values prove, from the data.

    Let :math:`\bar\tau_k \ge \max_{u,v} |u^T M_k v|` be the bound of the k-th tree for
    :math:`M_k = \sum_i \nu_{ik} \mathcal{X}_i`. Every :math:`s \nu` with :math:`s \bar\tau_k \le \beta D` then proves
    :math:`p_b^* \ge -\ell^*(-s\nu)`. The best s is used, at most 2 unless the loss is squared, and one per
    output if the loss is a sum over outputs. With blocks, the matrices are those of every output and block, the blocks
    of an output one after the other, divided by :math:`\omega_r D_r`.

    Parameters
    ----------
    problem : TrainingProblem
    network : BilinearNetwork
        Its objective is recomputed.
    nu : ndarray of shape (n,) or (n, C)
        Any dual vector. It is moved into the domain of the conjugate.
    trees : sequence of BoundTree
        One tree for each matrix of `nu`.
    bound_type : {"sdp", "exact"}
        Name of the bound.
    uppers : sequence of float or None, optional
        Bounds of the trees, if an oracle has just computed them for the same matrices. Bounds that are None are
        computed here.

    Returns
    -------
    Certificate
        Its bound holds for any rounding, see ``qsdp/roundoff.py``. Its proof holds the scaled `nu` and trees.
    """
    check_fits(network, problem)
    check_choice("bound_type", bound_type, BOUND_TYPES)
    nu = problem.columns(nu)
    check_proof(problem, nu, trees)
    value, inside, scales = proven_bound(problem, nu, trees, uppers)
    factors = np.repeat(scales, len(trees) // len(scales))
    proof = Proof(
        problem,
        network,
        read_only(inside * scales),
        tuple(scaled_tree(tree, float(scale)) for tree, scale in zip(trees, factors, strict=True)),
    )
    objective = problem.objective(network)
    # The proven bound may exceed an optimal objective by the rounding of the objective; smaller bounds are proven, too.
    return Certificate(min(value, objective), objective, bound_type, proof)


def load_certificate(path: str | os.PathLike[str], problem: TrainingProblem | None = None) -> Certificate:
    """Load a certificate from a file, without recomputing its claims.

    Parameters
    ----------
    path : str or path-like
    problem : TrainingProblem, optional
        Problem that the certificate must belong to. If None, a certificate saved without data is returned without its
        proof.

    Raises
    ------
    StorageError
        The file is truncated, altered, not a certificate, claims a bound above its objective, or is the certificate of
        another problem.
    """
    proof, claims = read_proof(path, problem)
    try:
        return Certificate(**claims, proof=proof)
    except InvalidInputError as error:
        raise StorageError(f"{os.fspath(path)!r} is not a valid certificate: {error}") from None


def as_bilinear(network: Any, problem: TrainingProblem) -> Any:
    """Convert a polynomial network; a problem without an activation has the neurons of the quadratic one."""
    if not isinstance(network, PolynomialNetwork):
        return network
    converted = from_polynomial(network)
    plain = problem.activation is None and converted.activation == QUADRATIC
    return replace(converted, activation=None) if plain else converted


def check_bilinear(network: Any, name: str = "network") -> None:
    """Raise `InvalidTypeError` unless `network` is bilinear; the message suggests a conversion."""
    if isinstance(network, BilinearNetwork):
        return
    attribute = next((name for name in ("network", "network_") if hasattr(network, name)), None)
    hint = ""
    if isinstance(network, PolynomialNetwork):
        hint = "; convert it with qsdp.from_polynomial"
    elif attribute is not None:
        hint = f"; pass its {attribute!r}"
    raise InvalidTypeError(f"{name} must be a BilinearNetwork; got {type(network).__name__}{hint}")


def check_fits(network: Any, problem: Any, name: str = "network") -> None:
    """Raise `InvalidInputError` unless `network` has the blocks, inputs and outputs of `problem`, or is bilinear."""
    check_bilinear(network, name)
    check_problem(problem)
    ours, theirs = (
        None if layout is None else (layout.all_sizes, layout.kinds) for layout in (problem.blocks, network.blocks)
    )
    if theirs != ours:
        expected, actual = (
            "columns" if layout is None else f"blocks of sizes {layout[0]!r:.90}" for layout in (ours, theirs)
        )
        raise InvalidInputError(f"{name} must be on {expected}, as the problem is; got a network on {actual}")
    for what in ("n_inputs", "n_outputs", "output_shape", "levels", "activation"):
        ours = getattr(problem, "n_features" if what == "n_inputs" else what)
        theirs = getattr(network, what)
        if theirs != ours:
            named = "outputs of shape" if what == "output_shape" else what
            raise InvalidInputError(f"{name} must have {named} {ours}, as the problem has; got {theirs}")


def check_relaxation(relaxation: Any, problem: TrainingProblem) -> None:
    """Raise `InvalidInputError` unless `relaxation` is a relaxation of `problem`."""
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
    if relaxation.problem != problem:
        raise InvalidInputError("relaxation must belong to the same problem (data, targets, loss and beta)")
