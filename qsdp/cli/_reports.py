"""Reports: lines of facts, and tables of figures with notes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table as RichTable
from rich.text import Text

from qsdp.certificates import Certificate
from qsdp.cli._options import activation_name
from qsdp.cli._streams import print_out
from qsdp.networks import BilinearNetwork
from qsdp.pipeline import QSDPResult
from qsdp.tabular import Target

_MAX_LISTED = 12
#: Widths of the columns before the notes of a report.
_LABEL_WIDTH, _FIGURE_WIDTH = 12, 13

#: Bits of a number in single precision, in which models are stored as a rule.
SINGLE = 32

Figure = tuple[str, str, str]


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print lines of a label and a text."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(width=_LABEL_WIDTH, style="bold")
    grid.add_column()
    for label, text in facts:
        grid.add_row(label, Text(text))
    print_out(grid)


def print_figures(figures: Sequence[Figure]) -> None:
    """Print an empty line, then lines of a label, a figure and a note."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(width=_LABEL_WIDTH, style="bold")
    grid.add_column(min_width=_FIGURE_WIDTH, no_wrap=True)
    grid.add_column(style="dim")
    grid.add_row("")
    for row in figures:
        grid.add_row(*row)
    print_out(grid)


def certificate_figures(certificate: Certificate, *, standardised: bool) -> list[Figure]:
    """Say what is proven; objectives may be those for a standardised target."""
    units = ", for the standardised target" if standardised else ""
    return [
        bound_figure(certificate.lower_bound),
        ("objective", f"{certificate.objective:.6g}", f"of this network{units}"),
        ("gap", f"{certificate.gap:.4g}", "the global optimum is at most this far below"),
        ("relative gap", f"{100.0 * certificate.relative_gap:.1f} %", _proven(certificate)),
    ]


def _proven(certificate: Certificate) -> str:
    if certificate.proven_optimal:
        return f"of the objective: globally optimal to relative gap {certificate.relative_gap:.2g}"
    return "of the objective: none is better by more"


def bound_figure(lower_bound: float, note: str = "on the global optimum, over networks of any width") -> Figure:
    return "lower bound", f"{lower_bound:.6g}", note


def score_figures(target: Target, scores: Sequence[tuple[str, float]]) -> list[Figure]:
    label = "accuracy" if target.classes else "R^2"
    return [
        (label if i == 0 else "", show_score(score, number=target.classes is None), rows)
        for i, (rows, score) in enumerate(scores)
    ]


def show_score(score: float, *, number: bool) -> str:
    """Return R^2 of a number, or an accuracy, as text."""
    return f"{score:.3f}" if number else f"{100.0 * score:.1f} %"


def size_figures(network: BilinearNetwork) -> list[Figure]:
    """Return the bits of a network and of the quadratic forms that compute the same."""
    D = network.U.shape[1]
    single = SINGLE * network.n_outputs * (D * (D + 1) // 2)
    exact = "integers: the same function" if network.shared_alpha else "float64"
    return [
        ("size", f"{network.n_bits:,} bits", f"of {network.n_neurons} neurons"),
        ("", f"{network.form_bits:,} bits", f"as a quadratic form of {exact}"),
        ("", f"{single:,} bits", "of that form in single precision"),
    ]


def time_figure(result: QSDPResult) -> Figure:
    # Stages that would read 0.00 are left out.
    stages = [f"{stage} {seconds:.2f}" for stage, seconds in result.timings.items() if seconds >= 0.005]
    return "time", f"{sum(result.timings.values()):.2f} s", ", ".join(stages)


def network_fact(network: BilinearNetwork, beta: float, loss: str) -> tuple[str, str]:
    weights = "binary weights" if network.levels == 2 else f"{network.levels} levels"
    parts = [f"{network.n_neurons} neurons", activation_name(network.activation), weights]
    if network.n_outputs > 1:
        parts.append(f"{network.n_outputs} outputs")
    return "network", ", ".join([*parts, f"{loss} loss", f"beta {beta:g}"])


def listing(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more
