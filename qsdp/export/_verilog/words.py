"""Representation of columns as words of a circuit, and comparisons of words that yield a model's bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp.encoding import Encoding
from qsdp.export._description import ModelDescription
from qsdp.export._integers.fixed_point import MISSING, Scales, column_scales, compared, fixed_columns
from qsdp.export._verilog.bits import BitArray

__all__ = ["Comparison", "Word", "Words", "column_words"]


@dataclass(frozen=True)
class Word:
    """Column as a signed integer of `width` bits, whose smallest value represents a missing entry.

    Attributes
    ----------
    position : int
        Position of the column in the table.
    start : int
        Index of its lowest bit among the bits of all words.
    width : int
        Minimum number of bits that distinguish the values with which the column is compared; others are clipped.
    """

    position: int
    start: int
    width: int

    @property
    def missing(self) -> int:
        """Value that represents a missing entry."""
        return -(1 << (self.width - 1))


@dataclass(frozen=True)
class Comparison:
    """Definition of a bit: whether a word is above or equal to `value`, or missing.

    Attributes
    ----------
    word : Word
    kind : {"above", "equals", "missing"}
    value : int
        0 for "missing".
    if_missing : bool
        The bit of a missing entry: a number is replaced by the fill value of its column, a symbol equals none.
    """

    word: Word
    kind: str
    value: int
    if_missing: bool


@dataclass(frozen=True, eq=False)
class Words:
    """Columns of a table as the inputs of a circuit.

    Attributes
    ----------
    description : ModelDescription
    scales : list of Fraction or None
        Scale of every used column of numbers: its word is the integer nearest to the scale times the entry.
    words : tuple of Word
        Words of the columns that are used.
    comparisons : tuple of Comparison
        Comparisons that yield the bits, in the order of the encoding.
    """

    description: ModelDescription
    scales: Scales
    words: tuple[Word, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def width(self) -> int:
        """Number of bits of all words together."""
        return sum(word.width for word in self.words)

    def columns(self, X: Any) -> npt.NDArray[np.int64]:
        """Convert an array or a data frame to words, shape (n, number of columns); unused columns are zero."""
        fixed = fixed_columns(self.description, self.description.columns(X, infinite=True), self.scales)
        words = np.zeros_like(fixed)
        for word in self.words:
            entries = fixed[:, word.position]
            cut = np.clip(entries, word.missing + 1, -word.missing - 1)
            words[:, word.position] = np.where(entries == MISSING, word.missing, cut)
        return words

    def bits(self, columns: npt.NDArray[Any]) -> BitArray:
        """Compute the bits of shape (n, d) from the words that `columns` returns."""
        bits = np.empty((len(columns), len(self.comparisons)), dtype=np.uint8)
        for index, comparison in enumerate(self.comparisons):
            entries = columns[:, comparison.word.position]
            test = (
                entries > comparison.value
                if comparison.kind == "above"
                else (entries == comparison.value) & (comparison.kind == "equals")
            )
            bits[:, index] = np.where(entries == comparison.word.missing, comparison.if_missing, test)
        return bits

    def packed(self, columns: npt.NDArray[Any]) -> BitArray:
        """Expand words to bits, shape (n, width), the lowest bit first."""
        parts = [columns[:, [word.position]] >> np.arange(word.width) & 1 for word in self.words]
        return np.hstack(parts).astype(np.uint8)


def column_words(description: ModelDescription, user_scales: Mapping[str, float] | None) -> Words:
    """Define the words of a model whose inputs are bits, with the user's scales of columns or powers of ten."""
    encoding = description.encoding
    assert encoding is not None
    scales = column_scales(description, [None] * encoding.width, user_scales)
    values = [
        0
        if expression.kind == "missing"
        else compared(expression, encoding.columns[expression.position], scales[expression.position])
        for expression in encoding.expressions
    ]
    words: dict[int, Word] = {}
    for position in encoding.used:
        constants = [
            value
            for value, expression in zip(values, encoding.expressions, strict=True)
            if expression.position == position
        ]
        start = sum(word.width for word in words.values())
        words[position] = Word(position, start, _width(constants))
    return Words(description, scales, tuple(words.values()), _comparisons(encoding, values, words))


def _width(values: Sequence[int]) -> int:
    """Compute the width of a word that ranges from one below min(values, -1) to one above the largest value."""
    return max(-min(*values, -1), max(values) + 1).bit_length() + 1


def _comparisons(encoding: Encoding, values: Sequence[int], words: Mapping[int, Word]) -> tuple[Comparison, ...]:
    comparisons = []
    for expression, value in zip(encoding.expressions, values, strict=True):
        fill, threshold = encoding.columns[expression.position].fill, expression.value
        filled = (
            expression.kind == "above" and fill is not None and isinstance(threshold, (int, float)) and fill > threshold
        )
        comparisons.append(
            Comparison(words[expression.position], expression.kind, value, expression.kind == "missing" or filled)
        )
    return tuple(comparisons)
