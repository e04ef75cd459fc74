"""What each object of results shows of itself in a notebook; nothing here computes more than a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsdp._html._page import duration, number, panel, some
from qsdp._html._parts import (
    certificate_rows,
    gap_picture,
    gap_rows,
    network_rows,
    solved,
    spectrum,
    timings,
    weights,
)
from qsdp._html._picture import curves, interval

if TYPE_CHECKING:
    from qsdp.certificates import Certificate
    from qsdp.column_generation import ColumnGenerationResult
    from qsdp.distillation import DistillationResult
    from qsdp.inner_problem import InnerBound
    from qsdp.networks import BilinearNetwork, PolynomialNetwork
    from qsdp.pipeline import QSDPResult
    from qsdp.refinement import FixedWidthResult
    from qsdp.relaxation import PolynomialRelaxation, Relaxation, RelaxationPath
    from qsdp.shaping import SignCovariance

__all__ = [
    "bilinear_html",
    "certificate_html",
    "covariance_html",
    "fixed_width_html",
    "generation_html",
    "inner_bound_html",
    "match_html",
    "path_html",
    "polynomial_html",
    "polynomial_relaxation_html",
    "relaxation_html",
    "result_html",
]


def certificate_html(certificate: Certificate) -> str:
    """Return bound and gap."""
    return panel("Certificate", certificate_rows(certificate), [gap_picture(certificate)])


def result_html(result: QSDPResult) -> str:
    """Return certificate, bits, solution and timings."""
    rows = [*certificate_rows(result.certificate), *network_rows(result.network)]
    rows.append(("relaxation", solved(result.relaxation)))
    first = result.covariance[0] if isinstance(result.covariance, list) else result.covariance
    rows.append(("shaping", f"{first.method}, c = {number(first.constant, 4)}"))
    if result.refine != "none":
        rows.append(("refinement", result.refine))
    pictures = [gap_picture(result.certificate), weights(result.network), timings(result)]
    return panel("QSDPResult", rows, pictures)


def relaxation_html(relaxation: Relaxation) -> str:
    """Return bound, gap, solver and spectrum."""
    rows = [*gap_rows(relaxation, "of the relaxed point"), ("status", relaxation.status)]
    rows.append(("solver", solved(relaxation)))
    rhos = relaxation.rho if relaxation.problem.vector else [relaxation.rho]
    rows += [("rho", some(rhos)), ("side of the matrices", str(relaxation.problem.size))]
    Z, V = relaxation.Z_stack[0], relaxation.V_stack[0]
    which = " of output 0" if relaxation.problem.vector else ""
    drawn = spectrum([V + Z, V - Z], f"eigenvalues of V + Z and (dashed) V \N{MINUS SIGN} Z{which}")
    return panel("Relaxation", rows, [gap_picture(relaxation), drawn])


def polynomial_relaxation_html(relaxation: PolynomialRelaxation) -> str:
    """Return bound, gap, solver and spectrum."""
    rows = gap_rows(relaxation, "of the relaxed point")
    rows.append(("solver", f"{relaxation.solver} ({relaxation.solver_status}), {duration(relaxation.solve_time)}"))
    rows.append(("rho", some([relaxation.rho1, relaxation.rho2])))
    drawn = spectrum([relaxation.Z1, relaxation.Z2], "eigenvalues of Z1 and (dashed) Z2")
    return panel("PolynomialRelaxation", rows, [gap_picture(relaxation), drawn])


def path_html(path: RelaxationPath) -> str:
    """Return the range of betas, the largest gap, objectives and bounds."""
    if not len(path):
        return panel("RelaxationPath", [("betas", "none")])
    order = np.argsort(path.betas)
    low, high = (number(float(path.betas[k]), 4) for k in (order[0], order[-1]))
    statuses = [relaxation.status for relaxation in path]
    rows = [
        ("betas", f"{len(path)}, {low} to {high}"),
        ("largest relative gap", number(float(path.relative_gap.max()), 2)),
        ("status", ", ".join(f"{statuses.count(status)} {status}" for status in sorted(set(statuses)))),
        ("time", duration(sum(relaxation.solve_time for relaxation in path))),
    ]
    title = "objective and (dashed) lower bound against beta"
    ends = (f"beta {low}", high)
    drawn = curves([path.objective[order], path.lower_bound[order]], title, ends, np.log(path.betas[order]))
    return panel("RelaxationPath", rows, [drawn])


def covariance_html(covariance: SignCovariance) -> str:
    """Return method, constant, what it proves of itself, and the spectrum."""
    rows = [
        ("method", covariance.method),
        ("constant c", f"{number(covariance.constant)} (Krivine's 0.881374, at most pi / 2)"),
        ("rho", number(covariance.rho)),
        ("dimension", f"{covariance.dimension} a side of a neuron"),
        ("levels", str(covariance.levels)),
        ("residual", number(covariance.residual, 2)),
        ("diagonal error", number(covariance.diagonal_error, 2)),
        ("smallest eigenvalue", number(covariance.min_eigenvalue, 2)),
    ]
    return panel("SignCovariance", rows, [spectrum([covariance.Q], "eigenvalues of Q")])


def bilinear_html(network: BilinearNetwork) -> str:
    """Return sizes, bits and levels."""
    return panel("BilinearNetwork", network_rows(network), [weights(network)])


def polynomial_html(network: PolynomialNetwork) -> str:
    """Return sizes, bits and levels."""
    return panel("PolynomialNetwork", network_rows(network), [weights(network)])


def generation_html(result: ColumnGenerationResult) -> str:
    """Return certificate, network, and the gap round by round."""
    rows = [*certificate_rows(result.certificate), ("status", result.status), *network_rows(result.network)]
    rows.append(("rounds", f"{result.rounds} in {duration(result.seconds)}"))
    # Zero has no place on a logarithmic scale.
    gaps = np.maximum([one.relative_gap for one in result.history], 1e-16)
    course = curves([gaps], "relative gap, round by round", ("1", str(result.rounds)))
    return panel("ColumnGenerationResult", rows, [gap_picture(result.certificate), course])


def fixed_width_html(result: FixedWidthResult) -> str:
    """Return objective and bound, and where the starts ended."""
    rows = gap_rows(result, "of this network", "of networks of any width")
    rows.append(("optimal of its size", "yes, proven" if result.optimal else "not known"))
    if result.starts:
        ends = number(min(result.starts)), number(max(result.starts))
        rows.append(("starts", f"{len(result.starts)}, polished to {ends[0]} at best, {ends[1]} at worst"))
    rows += network_rows(result.network)
    starts = curves([np.sort(result.starts)], "objectives of the polished starts, sorted") if result.starts else ""
    return panel("FixedWidthResult", rows, [gap_picture(result), starts, weights(result.network)])


def match_html(match: DistillationResult) -> str:
    """Return errors, certificate, bits and timings."""
    rows = [
        ("relative error", f"{number(match.relative_error, 4)} on the data"),
        ("of the relaxation", f"{number(match.relaxed_error, 4)}, the limit of many neurons"),
        *certificate_rows(match.certificate),
        *network_rows(match.network),
    ]
    pictures = [gap_picture(match.certificate), weights(match.network), timings(match.result)]
    return panel("DistillationResult", rows, pictures)


def inner_bound_html(bound: InnerBound) -> str:
    """Return bound, value and status."""
    rows = [
        ("upper bound", number(bound.upper_bound, 10)),
        ("value", f"{number(bound.value, 10)} of the semidefinite program"),
        ("relative gap", number(bound.relative_gap, 2)),
        ("status", bound.status),
        ("size", f"{bound.Y.shape[0]}, factors of rank {bound.Y.shape[1]}"),
        ("solver", f"{bound.iterations} iterations, {duration(bound.solve_time)}"),
    ]
    return panel("InnerBound", rows, [interval(bound.value, bound.upper_bound, ("value", "upper bound"))])
