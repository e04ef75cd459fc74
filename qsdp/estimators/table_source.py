"""Description of the table that an estimator was fitted to, which is saved with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from qsdp._utils.stored import Checks, checked, is_number, is_text
from qsdp.encoding.reading_rule import DATE, NUMBER
from qsdp.exceptions import StorageError

__all__ = ["TableSource"]


@dataclass(frozen=True)
class TableSource:
    """Description of a training table: target and weight columns, choice of held-out rows, and a digest.

    Attributes
    ----------
    target : str
        Column of targets; rows without a target are left out.
    weights : str or None
        Column of sample weights; rows of weight zero are left out.
    kind : {"number", "date"} or None
        Kind of the target; None for classes.
    decimal, thousands, missing
        How the text file was read, see `qsdp.tables.read_table`.
    seed : int
        Seed of the choice of rows that are held out.
    test_size : float
        Share of the rows that is held out, 0 <= test_size < 1.
    digest : str or None
        sha256 of the coded training rows; None before they are coded.
    """

    target: str
    weights: str | None = None
    kind: str | None = None
    decimal: str = "."
    thousands: str | None = None
    missing: tuple[str, ...] = ()
    seed: int = 0
    test_size: float = 0.0
    digest: str | None = None

    def __post_init__(self) -> None:
        checked("table_", vars(self), _CHECKS)
        if self.weights == self.target:
            raise StorageError("table_: the weights are not the target")

    @property
    def reading(self) -> dict[str, Any]:
        """Arguments with which `read_table` reads later files as it did the training file."""
        return {"decimal": self.decimal, "thousands": self.thousands, "missing": self.missing}


_CHECKS: Checks = {
    "target": is_text,
    "weights": lambda value: value is None or is_text(value),
    "kind": lambda value: value in (None, NUMBER, DATE),
    "decimal": lambda value: value in (".", ","),
    "thousands": lambda value: value is None or (is_text(value) and len(value) == 1 and not value.isalnum()),
    "missing": lambda value: type(value) is tuple and all(map(is_text, value)),
    "seed": lambda value: type(value) is int and value >= 0,
    "test_size": lambda value: is_number(value) and 0.0 <= value < 1.0,
    "digest": lambda value: value is None or (is_text(value) and re.fullmatch("[0-9a-f]{64}", value) is not None),
}
