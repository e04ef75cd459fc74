"""Rows and pictures that several objects show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._html._page import duration, number, size
from qsdp._html._picture import bars, curves, histogram, interval

if TYPE_CHECKING:
    from qsdp._utils.gap import Gap
    from qsdp.certificates import Certificate
    from qsdp.networks import BilinearNetwork, PolynomialNetwork
    from qsdp.pipeline import QSDPResult
    from qsdp.relaxation import Relaxation

__all__ = [
    "Rows",
    "certificate_rows",
    "gap_picture",
    "gap_rows",
    "levels_picture",
    "network_rows",
    "sizes",
    "solved",
    "spectrum",
    "timings",
    "values_picture",
    "weights",
]

Rows = list[tuple[str, str]]

#: Weights that are counted, and side of a matrix whose eigenvalues are computed, at most: milliseconds.
_COUNTED, _LARGEST_SPECTRUM = 2**20, 256

#: Bars of a histogram of real numbers.
_BINS = 24


def gap_rows(gap: Gap, whose: str, bound: str = "of every network") -> Rows:
    """Return objective, bound and gap."""
    return [
        ("objective", f"{number(gap.objective)} {whose}"),
        ("lower bound", f"{number(gap.lower_bound)} {bound}"),
        ("gap", f"{number(gap.gap, 4)}, relative {number(gap.relative_gap, 3)}"),
    ]


def certificate_rows(certificate: Certificate) -> Rows:
    """Return objective, bound, gap and the type of bound."""
    rows = gap_rows(certificate, "of this network")
    return [*rows, ("bound type", f"{certificate.bound_type}, {certificate.arithmetic} arithmetic")]


def gap_picture(gap: Gap) -> str:
    """Return bound and objective on a scale from 0."""
    return interval(gap.lower_bound, gap.objective, ("lower bound", "objective"))


def solved(relaxation: Relaxation) -> str:
    """Return solver, status, iterations and time."""
    steps = "" if relaxation.iterations is None else f", {relaxation.iterations} iterations"
    seconds = relaxation.compile_time + relaxation.solve_time
    return f"{relaxation.solver} ({relaxation.solver_status}){steps}, {duration(seconds)}"


def network_rows(network: BilinearNetwork | PolynomialNetwork) -> Rows:
    """Return sizes, first layer, activation and storage."""
    rows = [("network", sizes(network, network.n_outputs))]
    levels, M = getattr(network, "levels", None), getattr(network, "largest_weight", 0)
    rows.append(("first layer", f"integers up to {M}" if levels is None else f"{levels} levels"))
    if network.activation is not None:
        a, b, c = network.activation.coefficients
        rows.append(("activation", f"{a:g} t² {_signed(b)} t {_signed(c)}"))
    rows.append(("storage", size(network.n_bits)))
    return rows


def _signed(coefficient: float) -> str:
    return f"{'-' if coefficient < 0.0 else '+'} {abs(coefficient):g}"


def sizes(network: Any, n_outputs: int) -> str:
    """Return neurons, inputs and outputs as text."""
    outputs = f", {n_outputs} outputs" if n_outputs > 1 else ""
    return f"{network.n_neurons:,} neurons, {network.n_inputs} inputs{outputs}"


def weights(network: Any) -> str:
    """Return the histogram of first-layer weights, of the first neurons where there are many."""
    sides = [network.U, network.V] if hasattr(network, "U") else [network.Q]
    if hasattr(network, "levels"):
        levels = np.arange(1 - network.levels, network.levels, 2)
    else:
        levels = np.arange(-network.largest_weight, network.largest_weight + 1, 2 if network.one_parity else 1)
    return levels_picture([side[:, : network.n_inputs] for side in sides], levels)


def levels_picture(sides: Iterable[npt.NDArray[np.int8]], levels: npt.NDArray[np.int_]) -> str:
    """Return how often each level occurs in arrays of a row a neuron, of the first neurons where there are many."""
    sides = list(sides)
    some_rows = max(1, _COUNTED // max(1, 2 * sides[0].shape[1]))
    shown = [side[:some_rows].ravel() for side in sides]
    counts = np.bincount(np.concatenate(shown).astype(np.int16) + 128, minlength=257)
    first = f" of the first {some_rows:,} neurons" if some_rows < len(sides[0]) else ""
    return histogram(levels.tolist(), counts[levels + 128].astype(np.float64), f"first-layer weights{first}")


def values_picture(values: npt.NDArray[np.float64], title: str) -> str:
    """Return the histogram of real numbers, of the first ones where there are many."""
    values = np.ravel(values)[:_COUNTED]
    values = values[np.isfinite(values)]
    if not values.size or values.min() == values.max():
        return ""
    counts, edges = np.histogram(values, _BINS)
    middles = [number(float(middle), 3) for middle in 0.5 * (edges[1:] + edges[:-1])]
    return histogram(middles, counts.astype(np.float64), title)


def spectrum(matrices: list[npt.NDArray[np.float64]], title: str, *, absolute: bool = False) -> str:
    """Return the decreasing eigenvalues of symmetric matrices, unless they are large."""
    side = len(matrices[0])
    if side > _LARGEST_SPECTRUM or side < 2:
        return ""
    values = [np.linalg.eigvalsh(matrix) for matrix in matrices]
    values = [np.sort(np.abs(one) if absolute else one)[::-1] for one in values]
    largest = max(float(one[0]) for one in values)
    # Below is rounding, or what a solver left.
    return curves([np.maximum(one, 1e-9 * largest) for one in values], title, ("1", str(side)))


def timings(result: QSDPResult) -> str:
    """Return the seconds of all stages."""
    return bars(result.timings, duration)
