"""What each object of results shows of itself in a notebook; nothing here computes more than a moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._html._page import duration, number, panel, size, some
from qsdp._html._picture import bars, curves, histogram, interval

if TYPE_CHECKING:
    from qsdp._gap import Gap
    from qsdp.certificate import Certificate
    from qsdp.inner_problem import InnerBound
    from qsdp.networks import BilinearNetwork
    from qsdp.pipeline import QSDPResult
    from qsdp.polynomial import PolynomialNetwork
    from qsdp.quantization import QuantizedMatch
    from qsdp.refinement import ColumnGenerationResult, FixedSizeResult
    from qsdp.relaxation import PolynomialRelaxation, Relaxation, RelaxationPath
    from qsdp.shaping import SignCovariance

__all__ = [
    "bilinear_html",
    "certificate_html",
    "covariance_html",
    "fixed_size_html",
    "generation_html",
    "inner_bound_html",
    "match_html",
    "path_html",
    "polynomial_html",
    "polynomial_relaxation_html",
    "relaxation_html",
    "result_html",
]

Rows = list[tuple[str, str]]

#: Weights that are counted, and side of a matrix whose eigenvalues are computed, at most: milliseconds.
_COUNTED, _LARGEST_SPECTRUM = 2**20, 256


def certificate_html(certificate: Certificate) -> str:
    """Return bound and gap."""
    return panel("Certificate", _certificate_rows(certificate), [_gap_picture(certificate)])


def result_html(result: QSDPResult) -> str:
    """Return certificate, bits, solution and timings."""
    rows = [*_certificate_rows(result.certificate), *_network_rows(result.network)]
    rows.append(("relaxation", _solved(result.relaxation)))
    first = result.covariance[0] if isinstance(result.covariance, list) else result.covariance
    rows.append(("shaping", f"{first.method}, c = {number(first.constant, 4)}"))
    if result.refine != "none":
        rows.append(("refinement", result.refine))
    pictures = [_gap_picture(result.certificate), _weights(result.network), _timings(result)]
    return panel("QSDPResult", rows, pictures)


def relaxation_html(relaxation: Relaxation) -> str:
    """Return bound, gap, solver and spectrum."""
    rows = [*_gap_rows(relaxation, "of the relaxed point"), ("status", relaxation.status)]
    rows.append(("solver", _solved(relaxation)))
    rhos = relaxation.rho if relaxation.problem.vector else [relaxation.rho]
    rows += [("rho", some(rhos)), ("side of the matrices", str(relaxation.problem.size))]
    Z, V = relaxation.blocks[0][0], relaxation.blocks[1][0]
    which = " of output 0" if relaxation.problem.vector else ""
    spectrum = _spectrum([V + Z, V - Z], f"eigenvalues of V + Z and (dashed) V \N{MINUS SIGN} Z{which}")
    return panel("Relaxation", rows, [_gap_picture(relaxation), spectrum])


def polynomial_relaxation_html(relaxation: PolynomialRelaxation) -> str:
    """Return bound, gap, solver and spectrum."""
    rows = _gap_rows(relaxation, "of the relaxed point")
    rows.append(("solver", f"{relaxation.solver} ({relaxation.solver_status}), {duration(relaxation.solve_time)}"))
    rows.append(("rho", some([relaxation.rho1, relaxation.rho2])))
    spectrum = _spectrum([relaxation.Z1, relaxation.Z2], "eigenvalues of Z1 and (dashed) Z2")
    return panel("PolynomialRelaxation", rows, [_gap_picture(relaxation), spectrum])


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
    return panel("SignCovariance", rows, [_spectrum([covariance.Q], "eigenvalues of Q")])


def bilinear_html(network: BilinearNetwork) -> str:
    """Return sizes, bits and levels."""
    return panel("BilinearNetwork", _network_rows(network), [_weights(network)])


def polynomial_html(network: PolynomialNetwork) -> str:
    """Return sizes, bits and levels."""
    return panel("PolynomialNetwork", _network_rows(network), [_weights(network)])


def generation_html(result: ColumnGenerationResult) -> str:
    """Return certificate, network, and the gap round by round."""
    rows = [*_certificate_rows(result.certificate), ("status", result.status), *_network_rows(result.network)]
    rows.append(("rounds", f"{result.rounds} in {duration(result.seconds)}"))
    # Zero has no place on a logarithmic scale.
    gaps = np.maximum([one.relative_gap for one in result.history], 1e-16)
    course = curves([gaps], "relative gap, round by round", ("1", str(result.rounds)))
    return panel("ColumnGenerationResult", rows, [_gap_picture(result.certificate), course])


def fixed_size_html(result: FixedSizeResult) -> str:
    """Return objective and bound, and where the starts ended."""
    rows = _gap_rows(result, "of this network", "of networks of any width")
    rows.append(("optimal of its size", "yes, proven" if result.optimal else "not known"))
    if result.starts:
        ends = number(min(result.starts)), number(max(result.starts))
        rows.append(("starts", f"{len(result.starts)}, polished to {ends[0]} at best, {ends[1]} at worst"))
    rows += _network_rows(result.network)
    starts = curves([np.sort(result.starts)], "objectives of the polished starts, sorted") if result.starts else ""
    return panel("FixedSizeResult", rows, [_gap_picture(result), starts, _weights(result.network)])


def match_html(match: QuantizedMatch) -> str:
    """Return errors, certificate, bits and timings."""
    rows = [
        ("relative error", f"{number(match.relative_error, 4)} on the data"),
        ("of the relaxation", f"{number(match.relaxed_error, 4)}, the limit of many neurons"),
        *_certificate_rows(match.certificate),
        *_network_rows(match.network),
    ]
    pictures = [_gap_picture(match.certificate), _weights(match.network), _timings(match.result)]
    return panel("QuantizedMatch", rows, pictures)


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


# -- parts -------------------------------------------------------------------------------------------------


def _gap_rows(gap: Gap, whose: str, bound: str = "of every network") -> Rows:
    return [
        ("objective", f"{number(gap.objective)} {whose}"),
        ("lower bound", f"{number(gap.lower_bound)} {bound}"),
        ("gap", f"{number(gap.gap, 4)}, relative {number(gap.relative_gap, 3)}"),
    ]


def _certificate_rows(certificate: Certificate) -> Rows:
    rows = _gap_rows(certificate, "of this network")
    return [*rows, ("kind of bound", f"{certificate.kind}, {certificate.arithmetic} arithmetic")]


def _gap_picture(gap: Gap) -> str:
    return interval(gap.lower_bound, gap.objective, ("lower bound", "objective"))


def _solved(relaxation: Relaxation) -> str:
    steps = "" if relaxation.iterations is None else f", {relaxation.iterations} iterations"
    seconds = relaxation.compile_time + relaxation.solve_time
    return f"{relaxation.solver} ({relaxation.solver_status}){steps}, {duration(seconds)}"


def _network_rows(network: BilinearNetwork | PolynomialNetwork) -> Rows:
    outputs = f", {network.n_outputs} outputs" if network.n_outputs > 1 else ""
    rows = [("network", f"{network.n_neurons:,} neurons, {network.n_inputs} inputs{outputs}")]
    levels, M = getattr(network, "levels", None), getattr(network, "largest_weight", 0)
    rows.append(("first layer", f"integers up to {M}" if levels is None else f"{levels} levels"))
    if network.activation is not None:
        a, b, c = network.activation.coefficients
        rows.append(("activation", f"{a:g} t² {_signed(b)} t {_signed(c)}"))
    rows.append(("storage", size(network.n_bits)))
    return rows


def _signed(coefficient: float) -> str:
    return f"{'-' if coefficient < 0.0 else '+'} {abs(coefficient):g}"


def _weights(network: Any) -> str:
    """Return the histogram of first-layer weights, of the first neurons where there are many."""
    sides: Iterable[npt.NDArray[np.int8]]
    sides = [network.U, network.V] if hasattr(network, "U") else [network.Q]
    some_rows = max(1, _COUNTED // max(1, 2 * network.n_inputs))
    shown = [side[:some_rows, : network.n_inputs].ravel() for side in sides]
    counts = np.bincount(np.concatenate(shown).astype(np.int16) + 128, minlength=257)
    if hasattr(network, "levels"):
        levels = np.arange(1 - network.levels, network.levels, 2)
    else:
        levels = np.arange(-network.largest_weight, network.largest_weight + 1, 2 if network.one_parity else 1)
    first = f" of the first {some_rows:,} neurons" if some_rows < network.n_neurons else ""
    return histogram(levels.tolist(), counts[levels + 128].astype(np.float64), f"first-layer weights{first}")


def _spectrum(matrices: list[npt.NDArray[np.float64]], title: str) -> str:
    """Return the decreasing eigenvalues of symmetric matrices, unless they are large."""
    side = len(matrices[0])
    if side > _LARGEST_SPECTRUM or side < 2:
        return ""
    values = [np.linalg.eigvalsh(matrix)[::-1] for matrix in matrices]
    largest = max(float(one[0]) for one in values)
    # Below is rounding, or what a solver left.
    return curves([np.maximum(one, 1e-9 * largest) for one in values], title, ("1", str(side)))


def _timings(result: QSDPResult) -> str:
    return bars(result.timings, duration)
