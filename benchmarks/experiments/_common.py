"""What experiments share: data, accuracies, groups of records, how numbers are shown and when a claim holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import qsdp
from qsdp.bench import Claim, Record
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


# -- pictures --------------------------------------------------------------------------------------------


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


# -- verdicts --------------------------------------------------------------------------------------------

#: Splits or seeds below which nothing is judged.
REPETITIONS = 10


def not_measured(source: str, statement: str, why: str = "none of its cases has a record") -> Claim:
    """Return the claim as one that nothing can be said of so far."""
    return Claim(source, statement, "not measured", "", f"not measured yet: {why}")


def with_unmeasured(found: Sequence[Claim], listed: Iterable[tuple[str, str]]) -> list[Claim]:
    """Return claims in the order of a list of sources and statements; those not among them as not measured."""
    known = {(claim.source, claim.statement): claim for claim in found}
    listed = list(listed)
    rest = [claim for key, claim in known.items() if key not in listed]
    return [known.get(key) or not_measured(*key) for key in listed] + rest


def medians(numbers: Sequence[float] | np.ndarray) -> str:
    """Return the median and the range as text."""
    numbers = np.asarray(numbers, dtype=float)
    return f"{np.median(numbers):.3g} ({numbers.min():.3g} to {numbers.max():.3g})" if numbers.size else "-"


def paired_claim(
    source: str,
    statement: str,
    ours: Mapping[Any, float],
    theirs: Mapping[Any, float],
    *,
    names: tuple[str, str],
    show: Callable[[np.ndarray], str] = percent,
    less: bool = False,
    log: bool = False,
    needed: int = REPETITIONS,
) -> Claim:
    """Return whether the first of two measurements is the larger (the smaller if `less`), by split or seed.

    The one rule of these experiments: the mean of the paired differences (of logarithms if `log`) beyond two of its
    standard errors is "reproduced", beyond them on the other side "not", between them "partly". With fewer than
    `needed` pairs, or with one measured by halves, nothing is said. Splits of one data set share samples, so that the
    standard error is on the small side.
    """
    pairs = sorted(set(ours) & set(theirs))
    if set(ours) != set(theirs) or len(pairs) < needed:
        return not_measured(source, statement, f"{len(pairs)} of {max(needed, len(set(ours) | set(theirs)))} pairs")
    first, second = (np.array([measured[pair] for pair in pairs], dtype=float) for measured in (ours, theirs))
    a, b = (np.log(first), np.log(second)) if log else (first, second)
    differences = b - a if less else a - b
    if not np.all(np.isfinite(differences)):
        return not_measured(source, statement, "a measurement is not finite")
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) / len(pairs) ** 0.5
    verdict = "reproduced" if mean > 2.0 * error else "not" if mean < -2.0 * error else "partly"
    size = f"{mean / error:+.1f} standard errors" if error else f"{mean:+.3g} in every pair"
    why = {"reproduced": "", "partly": f"{size}: within the noise of the pairs", "not": f"the opposite, by {size}"}
    text = f"{names[0]} {show(first)}, {names[1]} {show(second)}; {len(pairs)} pairs"
    return Claim(source, statement, verdict, text + (f", {size}" if verdict == "reproduced" else ""), why[verdict])


def approach_claim(
    source: str, statement: str, distances: Mapping[Any, tuple[float, float]], *, names: tuple[str, str], show: Any
) -> Claim:
    """Return whether a distance falls below a tenth from its first to its last, by the rule of `paired_claim`."""
    first, last = ({key: pair[k] for key, pair in distances.items()} for k in (0, 1))
    tenth = {key: 0.1 * distance for key, distance in first.items()}
    found = paired_claim(source, statement, last, tenth, names=names, show=show, less=True)
    if found.verdict == "not measured":
        return found
    text = f"{names[0]} {show(np.array(list(first.values())))}, {names[1]} {show(np.array(list(last.values())))}"
    text += f"; {len(first)} repetitions"
    if found.verdict == "reproduced":
        return Claim(source, statement, "reproduced", text)
    falls = paired_claim(source, statement, last, first, names=names, less=True).verdict == "reproduced"
    why = "it falls, but no clear tenth of it is left" if falls else "it does not clearly fall"
    return Claim(source, statement, "partly" if falls else "not", text, why)
