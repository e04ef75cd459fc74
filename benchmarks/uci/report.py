"""Tables of the suite, computed from the measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy

from benchmarks.runner._experiment import Record, Table
from benchmarks.runner._report import holm, percent
from benchmarks.uci.data import SETS
from benchmarks.uci.methods import METHODS
from qsdp._utils.validation import FloatArray

__all__ = ["means", "shared_splits", "tables"]

Records = Sequence[Record]
#: Measurements of one method; `Splits` has those of every method, by set and seed.
Measured = dict[str, Any]
Splits = dict[tuple[str, int], dict[str, Measured]]
Show = Callable[[list[Any]], str]

#: Bits, seconds of a fit, and microseconds to predict a row.
_COSTS: tuple[Callable[[Measured], float], ...] = (
    lambda one: float(one["bits"]),
    lambda one: float(one["fit_cpu_seconds"]),
    lambda one: 1e6 * float(one["predict_seconds"]) / int(one["n_test"]),
)


def tables(records: Records) -> list[Table]:
    """Return the summary, a description of the methods, and their accuracy and gap on every set."""
    methods, _ = shared_splits(records)
    quantized = [name for name in methods if METHODS[name].quantized]
    return [
        _summary(records),
        Table("Methods", ["method", "what it is"], [[name, METHODS[name].what] for name in methods]),
        _by_set(records, methods, "test", _percent, "Test accuracy (%)", "Mean and deviation over all splits of each."),
        _by_set(records, quantized, "relative_gap", _gap, "Certified relative gap of the training objective (%)",
                "Medians; no network of any width with the same levels has an objective lower by more."),
    ]  # fmt: skip


def shared_splits(records: Records) -> tuple[list[str], Splits]:
    """Return the methods that have records, and the splits that all of them have, in the suite's order of sets."""
    splits: Splits = {}
    for record in sorted(records, key=lambda one: SETS.index(one.case["set"])):
        splits.setdefault((record.case["set"], record.case["seed"]), {})[record.case["method"]] = record.measured
    methods = [name for name in METHODS if any(name in found for found in splits.values())]
    return methods, {split: found for split, found in splits.items() if len(found) == len(methods)}


def means(splits: Splits, method: str, what: Callable[[Measured], float]) -> dict[str, float]:
    """Return the mean of a measurement over the splits of each set."""
    values: dict[str, list[float]] = {}
    for (name, _), found in splits.items():
        values.setdefault(name, []).append(what(found[method]))
    # Rounded so that different orders of summation give ties.
    return {name: round(float(np.mean(own)), 12) for name, own in values.items()}


def _summary(records: Records) -> Table:
    """Return the table of mean ranks, accuracies and costs of the methods over their common splits."""
    methods, splits = shared_splits(records)
    scores = {name: np.array(list(means(splits, name, lambda one: one["test"]).values())) for name in methods}
    sets = list(dict.fromkeys(name for name, _ in splits))
    ranks: dict[str, float] = {}
    p_values: dict[str, float] = {}
    reference = "one"
    if len(methods) > 1 and len(sets) > 1:
        mean_ranks = scipy.stats.rankdata([-scores[name] for name in methods], axis=0).mean(axis=1)
        ranks = dict(zip(methods, mean_ranks.tolist(), strict=True))
        # The reference is the best of qsdp's methods, if there are any, else the best of all.
        reference = min(ranks, key=lambda name: (not name.startswith("qsdp"), ranks[name]))
        others = [name for name in methods if name != reference]
        adjusted = holm([_signed_rank_p(scores[name] - scores[reference]) for name in others])
        p_values = dict(zip(others, adjusted, strict=True))
    rows = []
    for name in sorted(methods, key=lambda method: ranks.get(method, 0.0)):
        costs = [list(means(splits, name, what).values()) for what in _COSTS]
        geometric = [float(scipy.stats.gmean(np.maximum(one, 1e-12))) if one else None for one in costs]
        gaps = [found[name]["relative_gap"] for found in splits.values()]
        accuracy = 100.0 * scores[name].mean() if splits else None
        cells = zip(
            ("{:.2f}", "{:.2g}", "{:.1f}", "{:,.0f}", "{:.3g}", "{:.3g}"),
            (ranks.get(name), p_values.get(name), accuracy, *geometric),
            strict=True,
        )
        shown = ["-" if value is None else form.format(value) for form, value in cells]
        rows.append([name, *shown[:4], _gap(gaps), *shown[4:]])
    headings = ["method", "mean rank", f"p against {reference}", "test (%)", "bits", "gap (%)", "fit (s)"]
    return Table("UCI suite: all methods", [*headings, "predict (us/row)"], rows, _note(records, splits))


def _signed_rank_p(differences: FloatArray) -> float:
    return float(scipy.stats.wilcoxon(differences, zero_method="pratt").pvalue) if np.any(differences) else 1.0


def _note(records: Records, splits: Splits) -> str:
    """Return the note of the summary: its sets, its statistics, and what is missing."""
    sets = list(dict.fromkeys(name for name, _ in splits))
    parts = [
        f"Over the {len(splits)} splits of {len(sets)} sets that all methods were measured on: "
        f"{', '.join(sets) or 'none yet'}. p: Wilcoxon's over sets, adjusted by Holm. Accuracy: mean; gap: median; "
        "bits and times (CPU seconds, including validation): geometric means over sets."
    ]
    if partial := [name for name in SETS if name in {one.case["set"] for one in records} - set(sets)]:
        parts.append(f"Not by all methods, so not in this table: {', '.join(partial)}.")
    return " ".join(parts)


def _by_set(records: Records, methods: Sequence[str], field: str, show: Show, title: str, note: str) -> Table:
    """Return the table of a measurement of each method on each set, over all splits with records."""
    found: dict[tuple[str, str], list[Any]] = {}
    for one in records:
        found.setdefault((one.case["set"], one.case["method"]), []).append(one.measured[field])
    sets = [name for name in SETS if any(name == one for one, _ in found)]
    return Table(
        title, ["set", *methods], [[one, *(show(found.get((one, m), [])) for m in methods)] for one in sets], note
    )


def _percent(shares: Sequence[float]) -> str:
    return percent(np.array(shares)).removesuffix(" %") if shares else "-"


def _gap(gaps: Sequence[float | None]) -> str:
    known = [gap for gap in gaps if gap is not None]
    return f"{100.0 * np.median(known):.1f}" if known else "-"
