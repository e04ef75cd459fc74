"""Text files as people have them: encodings, separators of decimals and of thousands."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from table_files import write

from qsdp.encoding import TableEncoder
from qsdp.exceptions import InvalidInputError, InvalidTypeError, QSDPWarning
from qsdp.tables import read_table, table_chunks

TEXT = "größe;label\n1,5;ja\n2;nein\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_that_say_what_they_are(tmp_path: Path, encoding: str, packed: bool) -> None:
    contents = TEXT.encode(encoding)
    read = read_table(write(tmp_path, gzip.compress(contents) if packed else contents), decimal=",")
    assert list(read.columns) == ["größe", "label"]
    assert read["größe"].tolist() == ["1.5", "2"]


def test_encodings_that_do_not(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"byte 0xf6 after 'gr'; .*iconv -f WINDOWS-1252 -t UTF-8 data.csv"):
        read_table(write(tmp_path, TEXT.encode("latin-1")))
    with pytest.raises(InvalidInputError, match="UTF-16 without a byte-order mark; save it as UTF-8"):
        read_table(write(tmp_path, "a,b\n1,2\n".encode("utf-16-le")))
    with pytest.raises(InvalidInputError, match=r"is marked as UTF-16.* but contains invalid bytes"):
        read_table(write(tmp_path, TEXT.encode("utf-16")[:-1]))


# -- separators --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decimal", "thousands", "entries"),
    [
        (".", ",", {"12,34,567": "1234567", "1,234.5": "1234.5", "-1,234e2": "-1234e2", "+7": "+7", ".5": ".5"}),
        (".", ",", {"1,5": "1,5", "1234,567": "1234,567", "1,2345": "1,2345", ",123": ",123", "1,,234": "1,,234"}),
        (",", None, {"1,5": "1.5", "-,5": "-.5", "7": "7", "1,": "1.", "2,5E-3": "2.5E-3", ",": ",", "1,2,3": "1,2,3"}),
        (",", ".", {"1.234,5": "1234.5", "1.234": "1234", "0,5": "0.5", "12.34.567": "1234567", "1.2.3": "1.2.3"}),
        (".", " ", {"1 234": "1234", "12 kg": "12 kg", "1 2": "1 2"}),
        (".", "'", {"1'234.50": "1234.50"}),
        (",", "\u202f", {"1\u202f234,5": "1234.5"}),
        (",", ".", {"Oslo, Rome": "Oslo, Rome", "007": "007", "01,5": "01.5", "2024-01-31": "2024-01-31"}),
        (".", None, {"1,234": "1,234", "1.5": "1.5"}),
    ],
)
def test_numbers_are_rewritten_with_a_point(
    tmp_path: Path, decimal: str, thousands: str | None, entries: dict[str, str]
) -> None:
    path = write(tmp_path, "a;b\n" + "".join(f"{entry};x\n" for entry in entries))
    read = read_table(path, decimal=decimal, thousands=thousands)
    assert read["a"].tolist() == list(entries.values())
    # Entry by entry: a row by itself is read alike.
    parts = [part["a"].tolist() for part in table_chunks(path, 1, decimal=decimal, thousands=thousands)]
    assert parts == [[entry] for entry in entries.values()]


def test_a_point_that_is_no_separator_makes_categories_with_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path, "a;b;c\n1,5;2,5;1.2.3\n1.234;3,5;4.5.6\n;4;7\n")
    with pytest.warns(QSDPWarning) as caught:
        read = read_table(path, decimal=",")
    (message,) = (str(one.message) for one in caught)
    assert (
        "column 'a' is read as categories, because the point in '1.234' is neither decimal=',' nor thousands=None"
        in message
    )
    assert read["a"].tolist() == ["1,5", "1.234", np.nan]
    assert read["b"].tolist() == ["2.5", "3.5", "4"]
    assert read["c"].tolist() == ["1.2.3", "4.5.6", "7"]
    assert TableEncoder().fit(read[["a", "b"]]).encoding_.columns[0].kind == "category"
    # Where training had numbers, it is an error, not another number.
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0, 2.0]}))
    with pytest.raises(InvalidTypeError, match="column 'a' holds categories, such as 1,5, where numbers are expected"):
        encoder.transform(read[["a"]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decimal": ";"}, "decimal must be one of"),
        ({"thousands": "."}, "thousands must be one character .* not decimal='.'; got '.'"),
        ({"decimal": ",", "thousands": ","}, "thousands must be one character .* not decimal=','; got ','"),
        ({"thousands": "1"}, "thousands must be one character"),
        ({"thousands": "-"}, "thousands must be one character"),
        ({"thousands": ""}, "thousands must be one character"),
        ({"missing": "NA"}, r"missing must be a collection of texts, such as \['\?', 'unknown'\]; got 'NA'"),
        ({"missing": [1]}, "missing must be a collection of texts"),
    ],
)
def test_wrong_arguments_are_refused_before_the_file_is_read(options: dict[str, Any], message: str) -> None:
    for read in (read_table, lambda path, **options: list(table_chunks(path, **options))):
        with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
            read("absent.csv", **options)
