"""Critical-difference diagram: mean ranks on a line, and bars over methods that do not differ."""

from __future__ import annotations

import math
from pathlib import Path

from qsdp.bench.uci.critical_difference import RankComparison

__all__ = ["draw_comparison"]

#: Inches: height of a line of text and of a bar, length of the rank axis, and width of its margins.
_ROW, _BAR, _AXIS, _MARGIN = 0.24, 0.13, 6.0, 2.3
#: Inches above the rank axis (title, numbers, ruler) and between it and the first bar.
_HEAD, _GAP = 1.0, 0.14


def draw_comparison(comparison: RankComparison, path: Path, title: str = "") -> None:
    """Draw labelled mean ranks, bars over `RankComparison.groups`, and Nemenyi's critical difference as a ruler.

    Parameters
    ----------
    comparison : RankComparison
    path : Path
        PNG, PDF or SVG file.
    title : str, default=""
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    k, groups = len(comparison.methods), comparison.groups()
    lanes, n_left = _lanes(groups), math.ceil(k / 2)
    depth = _GAP + _BAR * (1 + max(lanes, default=-1)) + 0.1
    width, height = _AXIS + 2 * _MARGIN, _HEAD + depth + _ROW * n_left + 0.35
    figure = Figure(figsize=(width, height), dpi=150)
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set(xlim=(-_MARGIN, _AXIS + _MARGIN), ylim=(-(height - _HEAD), _HEAD))
    ax.axis("off")

    def place(rank: float) -> float:
        return _AXIS * (rank - 1.0) / (k - 1.0)

    ax.plot([0.0, _AXIS], [0.0, 0.0], color="black", lw=1.2)
    for rank in range(1, k + 1):
        named = k <= 12 or rank % 2 == 1
        ax.plot([place(rank)] * 2, [0.0, 0.09 if named else 0.05], color="black", lw=1.0)
        if named:
            ax.text(place(rank), 0.13, str(rank), ha="center", va="bottom", fontsize=9)
    if title:
        ax.text(_AXIS / 2, _HEAD - 0.1, title, ha="center", va="top", fontsize=11)
    # Nemenyi's difference above the axis, from its left end.
    right, y = min(place(1.0 + comparison.difference), _AXIS), 0.46
    for xs, ys in (([0.0, right], [y, y]), *(([x, x], [y - 0.04, y + 0.04]) for x in (0.0, right))):
        ax.plot(xs, ys, color="tab:blue", lw=1.4)
    beyond = "" if right < _AXIS else " (beyond the line)"
    text = f"Nemenyi's critical difference {comparison.difference:.2f}{beyond}"
    ax.text(0.0, y + 0.06, text, ha="left", va="bottom", fontsize=8, color="tab:blue")
    for ends, lane in zip(groups, lanes, strict=True):
        first, last = (place(float(comparison.mean_ranks[index])) for index in ends)
        y = -_GAP - _BAR * lane
        ax.plot([first - 0.05, last + 0.05], [y, y], color="black", lw=3.5, solid_capstyle="butt", gid="group")
    for index, (name, mean) in enumerate(zip(comparison.methods, comparison.mean_ranks.tolist(), strict=True)):
        left, x = index < n_left, place(mean)
        # From the outside in, so that no line crosses another.
        y = -depth - _ROW * (index if left else k - 1 - index)
        edge, align = (-0.12, "right") if left else (_AXIS + 0.12, "left")
        label = f"{name}  {mean:.2f}" if left else f"{mean:.2f}  {name}"
        ax.plot([x, x, edge], [0.0, y, y], color="0.35", lw=0.9)
        ax.text(edge + math.copysign(0.06, edge), y, label, ha=align, va="center", fontsize=9.5, gid="label")
    note = (
        f"{comparison.n_sets} data sets, mean rank of test accuracy (1 is best). Bars: no pair differs at "
        f"{100 * comparison.level:g} % (Wilcoxon, Holm). Friedman p = {comparison.friedman_p:.1g}."
    )
    ax.text(_AXIS / 2, -(height - _HEAD) + 0.1, note, ha="center", va="bottom", fontsize=8, color="0.3")
    figure.savefig(path)


def _lanes(groups: list[tuple[int, int]]) -> list[int]:
    """Return a line number for each bar such that no two bars overlap."""
    ends: list[int] = []
    lanes = []
    for first, last in groups:
        lane = next((number for number, end in enumerate(ends) if end < first), len(ends))
        ends[lane : lane + 1] = [last]
        lanes.append(lane)
    return lanes
