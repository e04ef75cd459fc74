"""Tables, ranks and claims computed from the measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.bench._experiment import Record, Table
from qsdp.bench._verdicts import Claim, exact, not_measured, paired_claim
from qsdp.bench.uci.critical_difference import RankComparison, compare
from qsdp.bench.uci.data import SETS
from qsdp.bench.uci.methods import METHODS
from qsdp.bench.uci.picture import draw_comparison

__all__ = ["claims", "comparison_of", "draw", "tables"]

Records = Sequence[Record]
#: By set and method.
Grid = dict[tuple[str, str], list[Record]]
Show = Callable[[FloatArray], str]

_FEWER = "polished networks of 250 neurons have a higher test accuracy than"
#: Source, method for which a higher test accuracy is claimed, method it is compared with, and the claim.
_PAIRS = (
    (
        "Bartan, Pilanci, Figures 2, 3 and 5",
        "qsdp-250",
        "backprop-rounded",
        "sampled networks have a higher test accuracy than networks trained by backpropagation and then quantized",
    ),
    (
        "Bartan, Pilanci, Figure 6",
        "qsdp-250",
        "relu-rounded",
        "sampled networks have a higher test accuracy than ReLU networks trained by backpropagation and then quantized",
    ),
    (
        "Beyond Bartan, Pilanci",
        "backprop-matched",
        "straight-through",
        "networks trained in float and matched by polished ones have a higher test accuracy than straight-through ones",
    ),
    ("Beyond Bartan, Pilanci", "qsdp-polish", "logistic-rounded", f"{_FEWER} logistic regression of 8 bits a weight"),
    ("Beyond Bartan, Pilanci", "qsdp-polish", "tree", f"{_FEWER} a decision tree"),
)


def tables(records: Records) -> list[Table]:
    """Return the summary, a description of the methods, then their accuracy, bits, gap and time on every set."""
    if not records:
        return [Table("UCI suite", ["method"], [], "no measurements yet")]
    grid = _grid(records)
    seeds = max(len(group) for group in grid.values())
    return [
        _summary(records, grid),
        Table("Methods", ["method", "what it is"], [[name, METHODS[name].what] for name in _names(grid)[1]]),
        _matrix(grid, "Test accuracy (%)", "test", _percent, f"Mean and deviation over {seeds} splits at most."),
        _matrix(
            grid, "Bits of the parameters", "bits", _count, "Without the scaling of columns, which all methods share."
        ),
        _matrix(
            grid,
            "Certified relative gap of the training objective (%)",
            "relative_gap",
            _gap,
            "No network of any width with the same levels has an objective lower by more.",
            [name for name, method in METHODS.items() if method.quantized],
        ),
        _matrix(grid, "Seconds to fit, validation included", "fit_cpu_seconds", _seconds, "Of one processor thread."),
    ]


def comparison_of(records: Records) -> RankComparison | None:
    """Compare the methods on the sets with measurements of all; None for fewer than two methods or sets."""
    names, sets, scores = _complete(_grid(records))
    return compare(scores, names) if len(names) > 1 and len(sets) > 1 else None


def claims(records: Records) -> list[Claim]:
    """Return the claims with their verdicts."""
    grid = _grid(records)
    return [_bound_claim(records), *(_pair_claim(grid, *pair) for pair in _PAIRS)]


def draw(records: Records, path: Path) -> None:
    """Draw the critical-difference diagram, if there are enough records."""
    comparison = comparison_of(records)
    if comparison is not None:
        draw_comparison(comparison, path, "UCI suite: test accuracy")


def _grid(records: Records) -> Grid:
    """Return records by set and method."""
    grid: Grid = {}
    for record in records:
        grid.setdefault((record.case["set"], record.case["method"]), []).append(record)
    return grid


def _names(grid: Grid) -> tuple[list[str], list[str]]:
    """Return the sets and the methods that have records, in the suite's order."""
    sets = [name for name in SETS if any(key[0] == name for key in grid)]
    methods = [name for name in METHODS if any(key[1] == name for key in grid)]
    return sets, methods


def _complete(grid: Grid) -> tuple[list[str], list[str], FloatArray]:
    """Return the methods, the sets with splits that all of them share, and mean test accuracies over those splits."""
    sets, methods = _names(grid)
    rows, kept = [], []
    for name in sets:
        accuracies = [
            {record.case["seed"]: record.measured["test"] for record in grid.get((name, method), [])}
            for method in methods
        ]
        seeds = sorted(set.intersection(*map(set, accuracies)))
        if seeds:
            kept.append(name)
            # Rounded so that different orders of summation give ties.
            rows.append([round(float(np.mean([one[seed] for seed in seeds])), 12) for one in accuracies])
    return methods, kept, np.array(rows).reshape(len(kept), len(methods))


def _values(records: Records, field: str) -> FloatArray:
    found = [record.measured[field] for record in records if record.measured[field] is not None]
    return np.array(found, dtype=np.float64)


def _summary(records: Records, grid: Grid) -> Table:
    methods, sets, scores = _complete(grid)
    comparison = comparison_of(records)
    ranks = {} if comparison is None else dict(zip(comparison.methods, comparison.mean_ranks, strict=True))
    # The best of qsdp's methods, or else the best of all.
    reference = next((name for name in ranks if name.startswith("qsdp")), next(iter(ranks), ""))
    rows = []
    for name in sorted(methods, key=lambda method: ranks.get(method, 0.0)):
        groups = [grid[one, name] for one in sets]
        micros = [_values(group, "predict_seconds") / _values(group, "n_test") * 1e6 for group in groups]
        gaps = np.concatenate([_values(group, "relative_gap") for group in groups]) if groups else np.array([])
        other = "-" if comparison is None or name == reference else f"{_p_value(comparison, reference, name):.2g}"
        rows.append(
            [
                name,
                f"{ranks[name]:.2f}" if ranks else "-",
                other,
                f"{100.0 * scores[:, methods.index(name)].mean():.1f}" if groups else "-",
                _count(np.array([_geometric(_values(group, "bits")) for group in groups]), _geometric),
                f"{100.0 * np.median(gaps):.1f}" if gaps.size else "-",
                _seconds(np.array([_geometric(_values(group, "fit_cpu_seconds")) for group in groups]), _geometric),
                _seconds(np.array([_geometric(micro) for micro in micros]), _geometric),
            ]
        )
    against = f"p against {reference or 'one'}"
    headings = ["method", "mean rank", against, "test (%)", "bits", "gap (%)", "fit (s)", "predict (us/row)"]
    return Table("UCI suite: all methods", headings, rows, _note(comparison, sets, grid))


def _note(comparison: RankComparison | None, sets: Sequence[str], grid: Grid) -> str:
    """Return the note of the summary: its sets, its statistics, and what is missing."""
    partial = [name for name in _names(grid)[0] if name not in sets]
    parts = [
        f"Over the {len(sets)} sets that all methods were measured on: {', '.join(sets) or 'none yet'}.",
        "Accuracy: mean; gap: median; bits and times: geometric means. Hyper-parameters, where there are any, by "
        "validation inside the training part.",
    ]
    if comparison is not None:
        parts.insert(
            1,
            f"Friedman: p = {comparison.friedman_p:.2g}; p against one: Wilcoxon, adjusted by Holm for all pairs; "
            f"Nemenyi's critical difference {comparison.difference:.2f}.",
        )
    if partial:
        parts.append(f"Not by all methods, so not in this table: {', '.join(partial)}.")
    absent = {
        method.needs: [name for name, one in METHODS.items() if one.needs == method.needs]
        for method in METHODS.values()
        if not method.available and not any(key[1] == method.name for key in grid)
    }
    parts += [f"Left out, {package} is not installed: {', '.join(names)}." for package, names in absent.items()]
    return " ".join(parts)


def _p_value(comparison: RankComparison, first: str, second: str) -> float:
    return float(comparison.p_values[comparison.methods.index(first), comparison.methods.index(second)])


def _matrix(grid: Grid, title: str, field: str, show: Show, note: str, only: Sequence[str] | None = None) -> Table:
    sets, methods = _names(grid)
    methods = [name for name in methods if only is None or name in only]
    rows = [[one, *(show(_values(grid.get((one, method), []), field)) for method in methods)] for one in sets]
    return Table(title, ["set", *methods], rows, note)


def _bound_claim(records: Records) -> Claim:
    certified = [record.measured for record in records if record.measured["lower_bound"] is not None]
    holds = [one["lower_bound"] <= one["objective"] * (1.0 + 1e-9) for one in certified]
    statement = "the relaxation bounds the training objective of every quantized network from below."
    return exact("Theory: Bartan, Pilanci, section 3 (on the suite)", statement, holds)


def _pair_claim(grid: Grid, source: str, ours: str, theirs: str, words: str) -> Claim:
    """Compare two methods on the sets with measurements of both."""
    methods, sets, scores = _complete({key: group for key, group in grid.items() if key[1] in {ours, theirs}})
    statement = f"{words}; here on the sets of the suite."
    if set(methods) != {ours, theirs}:
        return not_measured(source, statement, f"{ours} and {theirs} have no set in common")
    first, second = (dict(zip(sets, scores[:, methods.index(name)], strict=True)) for name in (ours, theirs))
    return paired_claim(source, statement, first, second, names=(ours, theirs))


def _percent(values: FloatArray) -> str:
    if not len(values):
        return "-"
    deviation = f" ± {100.0 * np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{100.0 * np.mean(values):.1f}{deviation}"


def _gap(values: FloatArray) -> str:
    return f"{100.0 * np.median(values):.1f}" if len(values) else "-"


def _geometric(values: FloatArray) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(values, 1e-12))))) if len(values) else float("nan")


def _count(values: FloatArray, mean: Any = np.mean) -> str:
    return f"{float(mean(values)):,.0f}" if len(values) else "-"


def _seconds(values: FloatArray, mean: Any = np.mean) -> str:
    if not len(values):
        return "-"
    value = float(mean(values))
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
