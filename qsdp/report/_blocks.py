"""Building blocks of a report: sections of paragraphs, tables and charts, which each output format renders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qsdp._utils.validation import FloatArray

__all__ = ["BarChart", "Block", "Curve", "Grid", "Interval", "Paragraph", "Scatter", "Section", "TextTable"]


@dataclass(frozen=True)
class Paragraph:
    """Plain text, in which backquotes mark code."""

    text: str


@dataclass(frozen=True)
class TextTable:
    """Table of plain text.

    Attributes
    ----------
    header : sequence of str
        Headings, empty for rows of a name and a value.
    rows : sequence of sequences of str
    numbers : set of int
        Columns that are aligned at the right.
    caption : str
    folded : bool
        Whether only the caption is visible at first.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int] = frozenset()
    caption: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Interval:
    """A range from low to high on a scale that begins at zero, with a caption."""

    low: float
    high: float
    caption: str


@dataclass(frozen=True)
class BarChart:
    """Bars with labels and texts, whose lengths are relative to the largest."""

    rows: Sequence[tuple[str, float, str]]
    caption: str = ""


@dataclass(frozen=True, eq=False)
class Grid:
    """Non-negative numbers by row and column, shaded by size; nan is left empty.

    Attributes
    ----------
    row_names, column_names : sequence of str
    values : ndarray
    texts : sequence of sequences of str
    corner : str
        Description of rows and columns.
    caption : str
    """

    row_names: Sequence[str]
    column_names: Sequence[str]
    values: FloatArray
    texts: Sequence[Sequence[str]]
    corner: str = ""
    caption: str = ""


@dataclass(frozen=True, eq=False)
class Curve:
    """Values of several draws against sizes.

    Attributes
    ----------
    sizes : ndarray of float of shape (K,)
        Increasing sizes, on a logarithmic scale.
    values : ndarray of shape (K, R)
        Values; a line shows their mean and a band their range.
    x_label, y_label : str
    point : (float, float)
        Point to mark, with its name.
    point_name, line_name : str
    percent : bool
        Whether values are shares.
    """

    sizes: FloatArray
    values: FloatArray
    x_label: str
    y_label: str
    point: tuple[float, float]
    point_name: str
    line_name: str
    percent: bool


@dataclass(frozen=True, eq=False)
class Scatter:
    """Points on equal scales, with the diagonal."""

    x: FloatArray
    y: FloatArray
    x_label: str
    y_label: str
    caption: str = ""


Block = Paragraph | TextTable | Interval | BarChart | Grid | Curve | Scatter


@dataclass(frozen=True)
class Section:
    """A heading and the blocks below it."""

    title: str
    blocks: Sequence[Block] = field(default_factory=list)
