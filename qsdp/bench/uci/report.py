"""Tables, ranks and claims computed from the measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

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


def _percent(values: FloatArray) -> str:
    deviation = f" ± {100.0 * np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{100.0 * np.mean(values):.1f}{deviation}"


def _gap(values: FloatArray) -> str:
    return f"{100.0 * np.median(values):.1f}"


def _count(values: FloatArray) -> str:
    return f"{np.mean(values):,.0f}"


def _seconds(values: FloatArray) -> str:
    value = float(np.mean(values))
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


#: Tables of all sets: measurement, how it is shown, title, and note.
_TABLES: tuple[tuple[str, Show, str, str], ...] = (
    ("test", _percent, "Test accuracy (%)", "Mean and deviation over {seeds} splits at most."),
    ("bits", _count, "Bits of the parameters", "Without the scaling of columns, which all methods share."),
    ("relative_gap", _gap, "Certified relative gap of the training objective (%)",
     "No network of any width with the same levels has an objective lower by more."),
    ("fit_cpu_seconds", _seconds, "Seconds to fit, validation included", "Of one processor thread."),
)  # fmt: skip
_PAPER, _BEYOND = "Bartan, Pilanci, Figure", "Beyond Bartan, Pilanci"
_TRAINED = "trained by backpropagation and then quantized"
_MATCHED = "networks trained in float and matched by polished ones"
_HIGHER = "have a higher test accuracy than"
_POLISHED = f"polished networks of 250 neurons {_HIGHER}"
#: Source, method for which a higher test accuracy is claimed, method it is compared with, and the claim.
_PAIRS = (
    (f"{_PAPER}s 2, 3 and 5", "qsdp-250", "backprop-rounded", f"sampled networks {_HIGHER} networks {_TRAINED}"),
    (f"{_PAPER} 6", "qsdp-250", "relu-rounded", f"sampled networks {_HIGHER} ReLU networks {_TRAINED}"),
    (_BEYOND, "backprop-matched", "straight-through", f"{_MATCHED} {_HIGHER} straight-through ones"),
    (_BEYOND, "qsdp-polish", "logistic-rounded", f"{_POLISHED} logistic regression of 8 bits a weight"),
    (_BEYOND, "qsdp-polish", "tree", f"{_POLISHED} a decision tree"),
)


def tables(records: Records) -> list[Table]:
    """Return the summary, a description of the methods, then their accuracy, bits, gap and time on every set."""
    if not records:
        return [Table("UCI suite", ["method"], [], "no measurements yet")]
    grid = _grid(records)
    sets, methods = _names(grid)
    seeds = max(len(group) for group in grid.values())
    described = Table("Methods", ["method", "what it is"], [[name, METHODS[name].what] for name in methods])
    found = [_summary(records, grid), described]
    for field, show, title, note in _TABLES:
        shown = [name for name in methods if field != "relative_gap" or METHODS[name].quantized]
        rows = [[one, *(_shown(_values(grid.get((one, name), []), field), show) for name in shown)] for one in sets]
        found.append(Table(title, ["set", *shown], rows, note.format(seeds=seeds)))
    return found


def comparison_of(records: Records) -> RankComparison | None:
    """Compare the methods on the sets with measurements of all; None for fewer than two methods or sets."""
    names, sets, scores = _complete(_grid(records))
    return compare(scores, names) if len(names) > 1 and len(sets) > 1 else None


def claims(records: Records) -> list[Claim]:
    """Return the claims with their verdicts."""
    grid = _grid(records)
    certified = [record.measured for record in records if record.measured["lower_bound"] is not None]
    holds = [one["lower_bound"] <= one["objective"] * (1.0 + 1e-9) for one in certified]
    statement = "the relaxation bounds the training objective of every quantized network from below."
    bound = exact("Theory: Bartan, Pilanci, section 3 (on the suite)", statement, holds)
    return [bound, *(_pair_claim(grid, *pair) for pair in _PAIRS)]


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
    sets, methods = {key[0] for key in grid}, {key[1] for key in grid}
    return [name for name in SETS if name in sets], [name for name in METHODS if name in methods]


def _complete(grid: Grid) -> tuple[list[str], list[str], FloatArray]:
    """Return the methods, the sets with splits that all of them share, and mean test accuracies over those splits."""
    sets, methods = _names(grid)
    rows = {}
    for name in sets:
        accuracies = [
            {record.case["seed"]: record.measured["test"] for record in grid.get((name, method), [])}
            for method in methods
        ]
        if seeds := sorted(set.intersection(*map(set, accuracies))):
            # Rounded so that different orders of summation give ties.
            rows[name] = [round(float(np.mean([one[seed] for seed in seeds])), 12) for one in accuracies]
    return methods, list(rows), np.array(list(rows.values())).reshape(len(rows), len(methods))


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
        bits, gaps, seconds, predict, tests = (
            [_values(group, field) for group in groups]
            for field in ("bits", "relative_gap", "fit_cpu_seconds", "predict_seconds", "n_test")
        )
        micros = [1e6 * one / count for one, count in zip(predict, tests, strict=True)]
        rank, p = "-", "-"
        if comparison is not None:
            rank = f"{ranks[name]:.2f}"
            i, j = (comparison.methods.index(one) for one in (reference, name))
            p = "-" if i == j else f"{comparison.p_values[i, j]:.2g}"
        accuracy = f"{100.0 * scores[:, methods.index(name)].mean():.1f}" if groups else "-"
        gap = _shown(np.concatenate([*gaps, np.array([])]), _gap)
        costs = [_geometric(bits, _count), gap, _geometric(seconds, _seconds), _geometric(micros, _seconds)]
        rows.append([name, rank, p, accuracy, *costs])
    against = f"p against {reference or 'one'}"
    headings = ["method", "mean rank", against, "test (%)", "bits", "gap (%)", "fit (s)", "predict (us/row)"]
    return Table("UCI suite: all methods", headings, rows, _note(comparison, sets, grid))


def _note(comparison: RankComparison | None, sets: Sequence[str], grid: Grid) -> str:
    """Return the note of the summary: its sets, its statistics, and what is missing."""
    known, methods = _names(grid)
    parts = [f"Over the {len(sets)} sets that all methods were measured on: {', '.join(sets) or 'none yet'}."]
    if comparison is not None:
        parts.append(
            f"Friedman: p = {comparison.friedman_p:.2g}; p against one: Wilcoxon, adjusted by Holm for all pairs; "
            f"Nemenyi's critical difference {comparison.difference:.2f}."
        )
    parts.append(
        "Accuracy: mean; gap: median; bits and times: geometric means. Hyper-parameters, where there are any, by "
        "validation inside the training part."
    )
    if partial := [name for name in known if name not in sets]:
        parts.append(f"Not by all methods, so not in this table: {', '.join(partial)}.")
    absent = [one for one in METHODS.values() if not one.available and one.name not in methods]
    for package in dict.fromkeys(one.needs for one in absent):
        names = [name for name, one in METHODS.items() if one.needs == package]
        parts.append(f"Left out, {package} is not installed: {', '.join(names)}.")
    return " ".join(parts)


def _pair_claim(grid: Grid, source: str, ours: str, theirs: str, words: str) -> Claim:
    """Compare two methods on the sets with measurements of both."""
    methods, sets, scores = _complete({key: group for key, group in grid.items() if key[1] in {ours, theirs}})
    statement = f"{words}; here on the sets of the suite."
    if set(methods) != {ours, theirs}:
        return not_measured(source, statement, f"{ours} and {theirs} have no set in common")
    first, second = (dict(zip(sets, scores[:, methods.index(name)], strict=True)) for name in (ours, theirs))
    return paired_claim(source, statement, first, second, names=(ours, theirs))


def _shown(values: FloatArray, show: Show) -> str:
    return show(values) if len(values) else "-"


def _geometric(sets: Sequence[FloatArray], show: Show) -> str:
    """Show the geometric mean over sets of those over splits."""
    means = [np.mean(np.log(np.maximum(values, 1e-12))) for values in sets]
    return _shown(np.exp([np.mean(means)]) if means else np.array([]), show)
