"""Tables in files, and estimators trained on them, for the tests of tables and of saved estimators."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import qsdp
from qsdp.tables import read_table
from qsdp.tables.numbered_frames import named_frame
from qsdp.tables.training_tables import (
    coded_problem,
    digest_of,
    inputs_in,
    source_of,
    split,
    targets_of,
    weights_of,
)

#: Target, loss, activation, levels and refinement of estimators.
KINDS: dict[str, tuple[str, str, str | None, int, str]] = {
    "label": ("label", "squared", None, 2, "none"),
    "price": ("price", "squared", None, 2, "none"),
    "grade": ("grade", "squared", "relu_like", 3, "none"),
    "entropy": ("label", "cross_entropy", None, 4, "none"),
}
REFINED: dict[str, tuple[str, str, str | None, int, str]] = {
    "refitted": ("grade", "squared", None, 2, "refit"),
    "polished": ("price", "absolute", "relu_like", 3, "polish"),
    "exact": ("label", "squared", None, 2, "exact"),
    "exact hinge": ("label", "hinge", None, 3, "exact"),
    "exact lifted": ("label", "logistic", "relu_like", 3, "exact"),
    "exact outputs": ("grade", "squared", "relu_like", 3, "exact"),
    "exact coupled": ("grade", "cross_entropy", None, 2, "exact"),
}


def write(folder: Path, text: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def table(columns: dict[str, list[Any]], name: str = "data.csv") -> pd.DataFrame:
    """Return columns as if read from the lines of a text file."""
    n_rows = len(next(iter(columns.values())))
    arrays = {label: np.array(column, dtype=object) for label, column in columns.items()}
    return named_frame(name, arrays, range(2, n_rows + 2), "line")


def rows_csv(n: int = 60, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    lines = ["size,colour,smooth,label,price,grade"]
    for i in range(n):
        size, colour = rng.normal(3.0, 2.0), rng.choice(["red", "green", "blue"])
        value = (size - 3.0) + (colour == "red")
        grade = "low" if value < -1 else "mid" if value < 1 else "high"
        shown = "" if i == 7 else f"{size:.3f}"
        lines.append(f"{shown},{colour},{'yn'[i % 2]},{'big' if value > 0 else 'small'},{10 * value:.3f},{grade}")
    return "\n".join(lines) + "\n"


@cache
def rows_table() -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        return read_table(write(Path(folder), rows_csv()))


def trained(kind: str) -> Any:
    """Return a copy of an estimator trained on `rows_table`, with `table_`."""
    return copy.copy(_trained(kind))


@cache
def _trained(kind: str) -> Any:
    target, loss, activation, levels, refine = (KINDS | REFINED)[kind]
    drop = [name for name in ("label", "price", "grade") if name != target]
    estimator = qsdp.QuantizedNetworkRegressor if target == "price" else qsdp.QuantizedNetworkClassifier
    options: dict[str, Any] = {"loss": loss, "activation": activation, "levels": levels, "refine": refine}
    model = estimator(50, beta=1.0, encoding="standard", tol=1e-6, random_state=0, **options)
    return fit_to(model, rows_table(), target, drop)


def fit_to(model: Any, rows: pd.DataFrame, target: str, drop: Any = (), **options: Any) -> Any:
    """Fit an estimator to the training rows of a table, as `qsdp fit` does."""
    source = source_of(rows, target, drop=drop, **options)
    train, _ = split(source, rows)
    model.fit(inputs_in(source, drop, train), targets_of(source, train), weights_of(source, train))
    model.table_ = source
    model.table_ = replace(source, digest=digest_of(coded_problem(model, train)))
    return model


def replaced(header: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(header)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed
