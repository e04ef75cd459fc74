"""What experiments share: data, accuracies, groups of records, how numbers are shown and when a claim holds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import qsdp
from qsdp.bench import Claim, Experiment, Record, compare, judged, not_measured
from qsdp.lifting import append_constant

PAPER = "Bartan, Pilanci"


def standardised(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ``X, X_test, y, y_test`` of a UCI set: the paper's shares, training statistics, no constant column."""
    X, X_test, y, y_test = qsdp.datasets.load_uci(name).split(random_state=seed)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0.0] = 1.0
    return (X - mean) / deviation, (X_test - mean) / deviation, y, y_test


def targets_of(y: np.ndarray) -> np.ndarray:
    """Return what networks are fitted to: signs as they are, classes as rows of ones and zeros."""
    return np.eye(int(y.max()) + 1)[y] if y.dtype.kind == "i" else y


def with_constant(*parts: np.ndarray) -> tuple[np.ndarray, ...]:
    """Append the column of ones."""
    return tuple(append_constant(part) for part in parts)


def accuracy(outputs: np.ndarray, y: np.ndarray) -> float:
    """Return the share of right classes: the largest of several outputs, or the sign of one."""
    decided = outputs.argmax(axis=1) if outputs.ndim == 2 else np.where(outputs > 0.0, 1.0, -1.0)
    return float(np.mean(decided == y))


def grouped(records: Iterable[Record], *names: str) -> dict[tuple[Any, ...], list[Record]]:
    """Return records by the values of parameters, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record.case.get(name) for name in names), []).append(record)
    return groups


def where(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Return the records of cases with these parameters."""
    return [record for record in records if all(record.case.get(name) == value for name, value in wanted.items())]


def values(records: Iterable[Record], name: str) -> np.ndarray:
    """Return one measurement of all records that have it."""
    return np.array([record.measured[name] for record in records if record.measured.get(name) is not None], dtype=float)


def spread(numbers: Sequence[float] | np.ndarray, digits: int = 3) -> str:
    """Return mean and deviation as text."""
    if len(numbers) == 0:
        return "-"
    deviation = f" ± {np.std(numbers, ddof=1):.{digits}f}" if len(numbers) > 1 else ""
    return f"{np.mean(numbers):.{digits}f}{deviation}"


def percent(numbers: Sequence[float] | np.ndarray, digits: int = 1) -> str:
    """Return mean and deviation of shares in percent."""
    return spread(100.0 * np.asarray(numbers, dtype=float), digits)


# -- experiments -----------------------------------------------------------------------------------------


def experiment_in(module: str, title: str, source: str, **changes: Any) -> Experiment:
    """Return the experiment of a module: named like it, of its functions cases, run, tables, claims and plot."""
    found = vars(sys.modules[module])
    functions = {name: found[name] for name in ("cases", "run", "tables", "claims", "plot") if name in found}
    return Experiment(**{"name": module.rpartition(".")[2], "title": title, "source": source, **functions, **changes})


# -- pictures --------------------------------------------------------------------------------------------


def subplots(*shape: int, **options: Any) -> tuple[Any, Any]:
    """Return a figure and its axes, which arrange themselves."""
    import matplotlib.pyplot as plt

    return plt.subplots(*shape, **{"layout": "constrained", **options})


def save(figure: Any, path: Path, dpi: int = 120) -> None:
    """Write a figure, and forget it."""
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=dpi)
    plt.close(figure)


def label_decades(axes: Any) -> None:
    """Label a logarithmic axis of both by its decades; over less than two of them by 1, 2 and 5, too."""
    from matplotlib.ticker import LogLocator, NullFormatter

    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        if axis.get_scale() != "log" or not 0.0 < low < high:
            continue
        if high < 100.0 * low:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high > 3.0 * low else range(1, 10)))
            axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


# -- claims ----------------------------------------------------------------------------------------------


def medians(numbers: Sequence[float] | np.ndarray) -> str:
    """Return the median and the range as text."""
    numbers = np.asarray(numbers, dtype=float)
    return f"{np.median(numbers):.3g} ({numbers.min():.3g} to {numbers.max():.3g})" if numbers.size else "-"


def per_cent(shares: Sequence[float] | np.ndarray) -> str:
    """Return the median and the range of shares in percent."""
    return f"{medians(100.0 * np.asarray(shares))} %"


def seconds(numbers: np.ndarray) -> str:
    """Return the median and the range of seconds."""
    return f"{medians(numbers)} s"


#: Kind of cases, where in a paper, what is said, and what judges it.
Theorem = tuple[str, str, str, Callable[[str, str, Sequence[Record]], Claim]]


def theorems(paper: str, listed: Iterable[Theorem], records: Sequence[Record]) -> list[Claim]:
    """Return the checks of what a paper proves."""
    made = []
    for kind, place, statement, decide in listed:
        source, found = f"Theory: {paper}, {place}", where(records, kind=kind)
        made.append(decide(source, statement, found) if found else not_measured(source, statement))
    return made


def approach_claim(
    source: str, statement: str, distances: Mapping[Any, tuple[float, float]], *, names: tuple[str, str]
) -> Claim:
    """Return whether a distance, a share, falls below a tenth from its first to its last."""
    first, last = ({key: pair[k] for key, pair in distances.items()} for k in (0, 1))
    tenth = {key: 0.1 * distance for key, distance in first.items()}
    shown = (per_cent(list(measured.values())) for measured in (first, last))
    figures = ", ".join(f"{name} {text}" for name, text in zip(names, shown, strict=True))
    evidence = compare(last, tenth, less=True, unit=100.0)
    number = f"{per_cent(list(first.values()))} to {per_cent(list(last.values()))}"
    return judged(source, statement, replace(evidence, number=number) if not evidence.missing else evidence, figures)
