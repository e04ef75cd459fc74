"""What experiments share: data of the paper, accuracies, groups of records and how numbers are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import qsdp
from qsdp.bench import Record
from qsdp.lifting import append_constant

PAPER = "Bartan, Pilanci"


def standardised(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ``X, X_test, y, y_test`` of a UCI set: the paper's shares, training statistics, no constant column."""
    X, X_test, y, y_test = qsdp.datasets.load_uci(name).split(random_state=seed)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0.0] = 1.0
    return (X - mean) / deviation, (X_test - mean) / deviation, y, y_test


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
