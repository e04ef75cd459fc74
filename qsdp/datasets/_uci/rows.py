"""Parser of file texts into columns of fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from qsdp.datasets._uci.spec import UCISpec
from qsdp.exceptions import DatasetError


@dataclass(frozen=True)
class ParsedRows:
    """Fields of all files by column, and the position of each row in its file.

    Attributes
    ----------
    columns : dict of str to list of str
        Fields of each column; equal strings are one object.
    starts : list of (int, Path, int)
        For each file, the index of its first row, its path, and the line of that row.
    """

    columns: dict[str, list[str]]
    starts: list[tuple[int, Path, int]]

    def where(self, index: int) -> str:
        """Return the file and line of a row, for error messages."""
        first, path, line = [start for start in self.starts if start[0] <= index][-1]
        return f"{path}, line {line + index - first}"


def parse_rows(spec: UCISpec, files: Iterable[tuple[Path, str]]) -> ParsedRows:
    """Split texts into rows with the columns of `spec`; blank lines are allowed only at the end."""
    columns: list[list[str]] = [[] for _ in spec.columns]
    starts: list[tuple[int, Path, int]] = []
    known: dict[str, str] = {}
    for path, text in files:
        lines = text.rstrip().split("\n")
        skipped = int(lines[0].strip() in spec.first_lines)
        if len(lines) == skipped:
            raise DatasetError(f"{path}: no rows after the first line")
        starts.append((len(columns[0]), path, 1 + skipped))
        for number, line in enumerate(lines[skipped:], start=1 + skipped):
            fields = [part.strip() for part in line.split(spec.separator)]
            if len(fields) != len(columns):
                raise DatasetError(f"{path}, line {number}: expected {len(columns)} fields, found {len(fields)}")
            if "" in fields:
                raise DatasetError(f"{path}, line {number}: {spec.columns[fields.index('')]} is empty")
            for column, field in zip(columns, fields, strict=True):
                column.append(known.setdefault(field, field))
    return ParsedRows(dict(zip(spec.columns, columns, strict=True)), starts)
