"""Files as people have them: encodings, and notations of numbers."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from qsdp.exceptions import InvalidInputError
from qsdp.tabular import read_table
from qsdp.tabular._notation import plain_numbers

TEXT = "größe;label\n1,5;ja\n2;nein\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_that_say_what_they_are(tmp_path: Path, encoding: str, packed: bool) -> None:
    contents = TEXT.encode(encoding)
    path = tmp_path / "table.csv"
    path.write_bytes(gzip.compress(contents) if packed else contents)
    table = read_table(path)
    assert table.columns == ("größe", "label")
    assert table.all_numbers("größe").tolist() == [1.5, 2.0]


def test_encodings_that_do_not(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(TEXT.encode("latin-1"))
    with pytest.raises(InvalidInputError, match=r"byte 0xf6 after 'gr'; .*iconv -f WINDOWS-1252 -t UTF-8 table.csv"):
        read_table(path)
    path.write_bytes("a,b\n1,2\n".encode("utf-16-le"))
    with pytest.raises(InvalidInputError, match="UTF-16 without a byte-order mark; save it as UTF-8"):
        read_table(path)
    path.write_bytes(TEXT.encode("utf-16")[:-1])
    with pytest.raises(InvalidInputError, match=r"is marked as UTF-16.* but contains invalid bytes"):
        read_table(path)


@pytest.mark.parametrize(
    ("delimiter", "entries", "read"),
    [
        (";", ["1,5", "-2", ",25", None, "1,234"], [1.5, -2.0, 0.25, None, 1.234]),
        (";", ["0,125", "12,345"], [0.125, 12.345]),
        (",", ["1,234,567", "1,234", "12"], [1234567.0, 1234.0, 12.0]),
        (";", ["1,234.5", "-7.25"], [1234.5, -7.25]),
        (",", ["12.5%", "-3 %", None], [0.125, -0.03, None]),
        (",", ["1970-01-02", "2024-02-29T12:00"], [1.0, 19782.5]),
        (",", ["1970-01-01T01:00:00+01:00", "1970-01-01 00:00Z"], [0.0, 0.0]),
        (",", ["1e5", "-2.5"], [1e5, -2.5]),
    ],
)
def test_numbers_of_one_reading(delimiter: str, entries: list[str | None], read: list[float | None]) -> None:
    plain = plain_numbers(entries, delimiter=delimiter)
    assert [None if entry is None else float(entry) for entry in plain] == read


@pytest.mark.parametrize(
    ("delimiter", "entries"),
    [
        (",", ["1,5", "2"]),  # in quotes, in a file of commas: what is meant is anybody's guess
        (";", ["1,5", "2.5"]),
        (";", ["1,5", "a"]),
        (",", ["5%", "7"]),
        (",", ["2024-01-31", "2024-13-01"]),
        (",", ["0,123,456", "1"]),
        (",", [None, None]),
        (",", ["a-b", "c"]),
    ],
)
def test_text_stays_text(delimiter: str, entries: list[str | None]) -> None:
    assert plain_numbers(entries, delimiter=delimiter) == entries


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (["1,234", "12"], "commas separate thousands or decimals; write 1234 or 1.234"),
        (["1.234.567", "3"], "points between thousands; write 1234.5"),
        (["1.234,5", "3"], "points between thousands; write 1234.5"),
        (["01/02/2024", "03/02/2024"], "day and month cannot be told apart; write them as 2024-01-31"),
        (["3.4.24", "5.4.24"], "day and month cannot be told apart"),
    ],
)
def test_numbers_of_several_readings_are_refused(tmp_path: Path, column: list[str], reason: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a;b\n" + "".join(f"{entry};x\n" for entry in column), encoding="utf-8")
    table = read_table(path)
    with pytest.raises(InvalidInputError, match=rf"line 2, column 'a': expected a number or text, not .*{reason}"):
        table.numbers("a")
    assert table.numbers("b") is None


def test_a_fit_reads_decimal_commas_as_points(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((8, 2)).round(2)
    tables = []
    for name, decimal, delimiter in (("points", ".", ","), ("commas", ",", ";")):
        path = tmp_path / f"{name}.csv"
        rows = [delimiter.join(str(v).replace(".", decimal) for v in row) for row in values]
        path.write_text(f"a{delimiter}b\n" + "\n".join(rows), encoding="utf-8")
        tables.append(read_table(path))
    for column in ("a", "b"):
        np.testing.assert_array_equal(tables[0].all_numbers(column), tables[1].all_numbers(column))
