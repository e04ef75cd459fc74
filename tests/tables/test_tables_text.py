"""Files as people have them: encodings, and notations of numbers."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from qsdp.tabular import DataTable, read_table

from qsdp.exceptions import InvalidInputError

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


@pytest.mark.parametrize("entries", [["1,5", "2.5"], ["1,5", "a"], ["5%", "seven"], ["a-b", "c"]])
def test_text_stays_text(entries: list[str | None]) -> None:
    table = DataTable.of_rows("t.csv", ["a"], [[entry] for entry in entries], range(len(entries)))
    assert table.notation("a") is None
    assert table.column("a") == entries


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (["1,234", "12"], "commas separate thousands or decimals, such as '1,234'; write 1234 or 1.234"),
        (["1.234.567", "3"], "points between thousands, such as '1.234.567'; write 1234.5"),
        (["01/02/2024", "03/02/2024"], "day and month cannot be told apart, such as .*; write them as 2024-01-31"),
        (["3.4.24", "5.4.24"], "day and month cannot be told apart"),
    ],
)
def test_numbers_of_several_readings_are_refused(tmp_path: Path, column: list[str], reason: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a;b\n" + "".join(f"{entry};x\n" for entry in column), encoding="utf-8")
    table = read_table(path)
    with pytest.raises(InvalidInputError, match=rf"line 2, column 'a': expected a number or text, not .*{reason}"):
        table.notation("a")
    assert table.notation("b") is None


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
