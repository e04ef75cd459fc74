"""Files as data frames."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import threading
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_files import write

from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.tables import read_table, table_chunks

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
}


# -- text ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_delimiters_newlines_and_byte_order_marks(tmp_path: Path, delimiter: str, newline: str, mark: bytes) -> None:
    lines = [delimiter.join(fields) for fields in [["a b", "ü"], ["1", "x"], ["2", '"y, z; |"']]]
    read = read_table(write(tmp_path, mark + (newline.join(lines) + newline).encode()))
    assert read.to_dict("list") == {"a b": ["1", "2"], "ü": ["x", "y, z; |"]}
    assert (read.index.name, read.index.tolist()) == ("line", [2, 3])


def test_a_first_line_of_excel_names_the_delimiter(tmp_path: Path) -> None:
    for newline in ("\n", "\r\n"):
        read = read_table(write(tmp_path, newline.join(["sep=;", "a,b;c", "1,2;3", ""])))
        assert read.to_dict("list") == {"a,b": ["1,2"], "c": ["3"]}
        assert read.index.tolist() == [3]


def test_the_index_of_a_data_frame_is_left_out_with_a_line(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.5, 2.5, 3.5], "b": list("xyz")})
    frame.to_csv(tmp_path / "data.csv")
    with pytest.warns(QSDPWarning, match="'.*data.csv': left out the first column, a data frame's index"):
        read = read_table(tmp_path / "data.csv")
    assert read.to_dict("list") == {"a": ["1.5", "2.5", "3.5"], "b": ["x", "y", "z"]}
    for rows in ("u,1\nv,2\n", "1,1\n1,2\n"):
        with pytest.raises(
            InvalidInputError, match="every column needs a name; number 1 has none, and is not an index"
        ):
            read_table(write(tmp_path, f",a\n{rows}"))


def test_quotes_blank_lines_spaces_and_lines_inside_fields(tmp_path: Path) -> None:
    text = '\n\na, "b ""c""",d\n\n"1,5", x ,"two\nlines"\n   \n2,y,z\n'
    read = read_table(write(tmp_path, text))
    assert read.to_dict("list") == {"a": ["1,5", "2"], 'b "c"': ["x", "y"], "d": ["two\nlines", "z"]}
    assert read.index.tolist() == [5, 8]


def test_missing_entries_may_be_named(tmp_path: Path) -> None:
    tokens = ["", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "none", "NaT", "-", "."]
    path = write(tmp_path, "a,b\n" + "".join(f"{token},1\n" for token in [*tokens, "None"]))
    assert read_table(path)["a"].tolist() == [None] * (len(tokens) + 1)
    for missing in ({"", "-"}, ["", " - "]):
        read = read_table(path, missing=missing)
        assert read["a"].tolist() == [None if token in {"", "-"} else token for token in [*tokens, "None"]]
    assert set(read.attrs) == {"file"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "data.csv' is empty"),
        ("\n \n", "data.csv' is empty"),
        ("a,b\n", "has a header line but no rows"),
        ("a,b\n1,2\n\n1,2,3\n", "data.csv', line 4: 3 fields; the header in line 1, 'a, b', has 2"),
        ("My report\n\na,b\n1,2\n", "header in line 1, 'My report', has 1; remove what is above the names"),
        ("TOA5,site,CR1000\na,b\n1,2\n", "in line 1, 'TOA5, site, CR1000', has 3; remove what is above"),
        ("a,b\n1,2\n\nNotes: provisional\n", "line 4: 1 field; the header in line 1, 'a, b', has 2; remove notes"),
        ("% a comment\n\n@RELATION x\n@DATA\n1,2\n", "is an ARFF file"),
        ("a,b\n1\n", "line 2: 1 field"),
        ("a,,b,\n1,,3,\n1,2,3,4\n", "every column needs a name; number 2 has none, and is not an index: it holds '2'"),
        ("a,b\n1,2,,x\n", "line 2: 4 fields"),
        ("a,b,a\n1,2,3\n", "repeated: 'a'"),
        ('a,b\n1,"2\n3,4\n', "line 2: not valid CSV"),
        ('a,b\n1,"2"3\n', "line 2: not valid CSV"),
        (b"a,b\n\xff\xfe,2\n", "not UTF-8"),
        ("Sepal,Petal\nMazda,1,2\nDatsun,3,4\n", "line 2: 3 fields; the header in line 1, 'Sepal, Petal', has 2"),
        (
            "Report,2024\na,b,c\n1,2,3\n",
            "line 2: 3 fields; the header in line 1, 'Report, 2024', has 2; remove what is",
        ),
    ],
)
def test_unreadable_files(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_table(write(tmp_path, text))
    assert message in str(caught.value)


OTHERS = {
    "JSON": [
        b'{"a": 1, "b": 2}\n{"a": 3, "b": 4}\n',
        b'\xef\xbb\xbf[\n  {"a": 1}\n]',
        gzip.compress(b"[[1, 2], [3, 4]]"),
    ],
    "HTML or XML": [b"<!DOCTYPE html>\n<table>", b"<?xml version='1.0'?>", b" <TABLE>"],
    "an ARFF file": [b"@RELATION iris\n@ATTRIBUTE a REAL\n"],
    "a workbook or another zip archive": [b"PK\x03\x04" + bytes(99)],
    "compressed by xz": [lzma.compress(b"a,b\n1,2\n")],
    "text in UTF-32": ["\ufeffa,b\n1,2\n".encode(f"utf-32-{end}") for end in ("le", "be")],
    "a workbook or document of Microsoft Office": [b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)],
    "a database of SQLite": [b"SQLite format 3\0" + bytes(99)],
    "an array of NumPy": [b"\x93NUMPY\x01\x00v\x00"],
    "an HDF5 file": [b"\x89HDF\r\n\x1a\n"],
    "a pickle of Python": [pickle.dumps({"a": [1, 2]}, protocol=protocol) for protocol in (2, 4, 5)],
    "a model of qsdp": [b"x\x18\0\0\0\0\0\0" + b'{"__metadata__":{"qsdp":"{}"}}'],
    "compressed by Zstandard": [b"\x28\xb5\x2f\xfd\x24\x00"],
}


@pytest.mark.parametrize("what", OTHERS)
def test_files_of_other_formats_are_named(tmp_path: Path, what: str) -> None:
    for contents in OTHERS[what]:
        with pytest.raises(InvalidInputError, match=rf"data\.csv' is {what}, not a table as CSV, .*; save it as CSV"):
            read_table(write(tmp_path, contents))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_comments_above_the_names_of_columns(tmp_path: Path, newline: str) -> None:
    lines = ["# made by hand, on", "#a,b", "", "sep=;", "a,1;#b", "1;# 2", "# 3;4"]
    read = read_table(write(tmp_path, newline.join(lines) + newline))
    assert read.to_dict("list") == {"a,1": ["1", "# 3"], "#b": ["# 2", "4"]}
    assert read.index.tolist() == [6, 7]
    # A name may begin as a comment does.
    read = read_table(write(tmp_path, newline.join(["# made by hand", "#id;b", "1;2", ""])))
    assert read.to_dict("list") == {"#id": ["1"], "b": ["2"]}
    assert read.index.tolist() == [3]
    for text in ("# nothing else", "#", "# a,b" + newline):
        with pytest.raises(InvalidInputError, match=r"data\.csv' (is empty|has a header line but no rows)"):
            read_table(write(tmp_path, text))


def test_delimiters_after_the_last_field_and_columns_without_entries(tmp_path: Path) -> None:
    for text in ("a,b,\n1,2,\n3,4,\n", "a,b\n1,2,,\n3,4,\n", ",a,,b\n,1,,2\n,3,,4\n"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read = read_table(write(tmp_path, text))
        assert read.to_dict("list") == {"a": ["1", "3"], "b": ["2", "4"]}


def test_a_blank_line_is_a_row_only_in_a_table_of_one_column(tmp_path: Path) -> None:
    assert read_table(write(tmp_path, "a\n\n1\n \n2\n\n"))["a"].tolist() == [None, "1", None, "2", None]
    assert read_table(write(tmp_path, "a,b\n\n1,2\n \n3,4\n\n"))["a"].tolist() == ["1", "3"]
    assert read_table(write(tmp_path, "a,b\n,\n1,2\n"))["a"].tolist() == [None, "1"]


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet='a1,;"\n\r\t|? ', max_size=40))
def test_any_text_is_a_table_or_an_error_of_qsdp(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = write(tmp_path_factory.getbasetemp(), text, "any.csv")
    try:
        read = read_table(path)
    except InvalidInputError:
        return
    assert len(read) > 0
    assert read.columns.is_unique
    assert all(entry is None or (type(entry) is str and entry == entry.strip()) for entry in read.to_numpy().ravel())


@pytest.mark.parametrize("packed", PACKERS)
def test_compressed_text_whatever_its_name(tmp_path: Path, packed: str) -> None:
    text = "a,b\n" + "".join(f"{k},x\n" for k in range(100))
    contents = PACKERS[packed](text.encode())
    for name in (f"data.csv.{packed}", "data.csv"):
        assert read_table(write(tmp_path, contents, name))["a"].tolist() == [str(k) for k in range(100)]
    parts = list(table_chunks(tmp_path / "data.csv", 30))
    assert [len(part) for part in parts] == [30, 30, 30, 10]
    with pytest.raises(InvalidInputError, match=r"cut\.csv' is damaged or incomplete"):
        read_table(write(tmp_path, contents[:-20], "cut.csv"))


def test_chunks_are_the_table(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n\n" + "".join(f"{k},x{k}\n" for k in range(10)))
    whole, parts = read_table(path), list(table_chunks(path, 4))
    assert [len(part) for part in parts] == [4, 4, 2]
    pd.testing.assert_frame_equal(pd.concat(parts), whole)
    with pytest.raises(InvalidInputError, match="line 13: 1 field"):
        list(table_chunks(write(tmp_path, path.read_text() + "1\n"), 4))
    with pytest.raises(InvalidInputError, match="rows must be an integer"):
        list(table_chunks(path, 0))


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("a,b\n1,2\n"))
    writer.start()
    assert read_table(pipe).to_dict("list") == {"a": ["1"], "b": ["2"]}
    writer.join()


# -- Parquet, Arrow and Feather ---------------------------------------------------------------------------


def test_parquet_and_arrow_keep_their_types(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet, feather = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.feather")
    columns = {
        "n": pa.array([1, 2, None]),
        "x": pa.array([0.5, float("nan"), -1e30]),
        "h": pa.array(np.array([0.5, 1.5, -2.0], dtype=np.float16)),
        "t": pa.array(["a ", "?", None]),
        "c": pa.array(["u", "v", "u"]).dictionary_encode(),
        "f": pa.array([True, False, True]),
        "b": pa.array([True, False, None]),
        "d": pa.array([Decimal("3550194.034801"), None, Decimal("-0.1")], pa.decimal128(20, 6)),
        "when": pa.array([0, 86_400_000, None], pa.timestamp("ms")),
        "day": pa.array([0, 1, None], pa.date32()),
    }
    parquet.write_table(pa.table(columns), tmp_path / "data.parquet")
    feather.write_feather(pa.table(columns), str(tmp_path / "data.feather"))
    (tmp_path / "parts").mkdir()
    parquet.write_table(pa.table(columns), tmp_path / "parts" / "0.parquet")
    for name in ("data.parquet", "data.feather", "parts"):
        read = read_table(tmp_path / name)
        assert list(read.columns) == list(columns)
        assert (read.index.name, read.index.tolist()) == ("row", [1, 2, 3])
        np.testing.assert_array_equal(read["n"], [1.0, 2.0, np.nan])
        np.testing.assert_array_equal(read["x"], [0.5, np.nan, -1e30])
        np.testing.assert_array_equal(read["h"], [0.5, 1.5, -2.0])
        # Text is text: only nulls are missing.
        assert read["t"].tolist() == ["a", "?", None]
        assert read["c"].tolist() == ["u", "v", "u"]
        assert [str(read[column].dtype) for column in "cf"] == ["category", "bool"]
        assert read["b"].tolist() == [True, False, None]
        np.testing.assert_array_equal(read["d"], [3550194.034801, np.nan, -0.1])
        assert read["when"].tolist() == [pd.Timestamp(0), pd.Timestamp(86_400_000_000_000), pd.NaT]
        assert [str(day) for day in read["day"]] == ["1970-01-01", "1970-01-02", "None"]
        assert [len(part) for part in table_chunks(tmp_path / name, 2)] == [2, 1]
        whole = pd.concat(table_chunks(tmp_path / name, 2))
        pd.testing.assert_frame_equal(whole.astype(read.dtypes), read)


def test_categories_of_any_type_are_categories_of_text(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"k": pd.Categorical([7, 12, None]), "b": pd.Categorical([True, False, True]), "x": [1, 2, 3]})
    frame.to_parquet(tmp_path / "data.parquet")
    frame.to_feather(tmp_path / "data.feather")
    for name in ("data.parquet", "data.feather"):
        read = read_table(tmp_path / name)
        assert read["k"].tolist() == ["7", "12", np.nan]
        assert read["b"].tolist() == ["True", "False", "True"]
        assert [str(dtype) for dtype in read.dtypes] == ["category", "category", "float64"]


def test_damaged_parquet_files_and_columns_of_lists(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    plain = pa.table({"a": [1, 2]})
    parquet.write_table(plain, tmp_path / "data.parquet")
    content = (tmp_path / "data.parquet").read_bytes()
    with pytest.raises(InvalidInputError, match=r"cut\.parquet' cannot be read: .* corrupted"):
        read_table(write(tmp_path, content[:-40], "cut.parquet"))
    parquet.write_table(pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"]), tmp_path / "twice.parquet")
    with pytest.raises(InvalidInputError, match=r"twice\.parquet' cannot be read: .* duplicate field names"):
        read_table(tmp_path / "twice.parquet")
    for kind, column in (("list", pa.array([[1], [2]])), ("binary", pa.array([b"a", b"b"]))):
        parquet.write_table(pa.table({"l": column, "a": [1, 2]}), tmp_path / "lists.parquet")
        with pytest.warns(QSDPWarning, match=rf"left out columns that hold neither numbers nor text: 'l' \({kind}"):
            assert list(read_table(tmp_path / "lists.parquet")) == ["a"]
        parquet.write_table(pa.table({"l": column}), tmp_path / "lists.parquet")
        with (
            pytest.warns(QSDPWarning, match="left out"),
            pytest.raises(InvalidInputError, match="has no column of numbers or text"),
        ):
            read_table(tmp_path / "lists.parquet")
    parquet.write_table(plain.slice(0, 0), tmp_path / "none.parquet")
    with pytest.raises(InvalidInputError, match="has columns but no rows"):
        read_table(tmp_path / "none.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="a folder without Parquet files"):
        read_table(tmp_path / "empty")


def test_the_index_that_pandas_stores_is_left_out_with_a_line(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[7, 5, 6])
    frame.to_parquet(tmp_path / "unnamed.parquet")
    frame.rename_axis("key").to_parquet(tmp_path / "named.parquet")
    for name, index in (("unnamed", "__index_level_0__"), ("named", "key")):
        with pytest.warns(QSDPWarning, match=rf"{name}\.parquet': left out '{index}', the index of a data frame"):
            read = read_table(tmp_path / f"{name}.parquet")
        assert list(read.columns) == ["a"]
    frame.reset_index().to_parquet(tmp_path / "column.parquet")
    assert list(read_table(tmp_path / "column.parquet").columns) == ["index", "a"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_parts_of_a_folder_may_have_other_types_and_columns(tmp_path: Path, order: tuple[int, ...]) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parts = [
        pa.table({"n": [1, 2], "t": ["x", "y"], "key": [0, 1]}),
        pa.table({"n": [1.5, 2.5], "t": pa.array(["x", None]).dictionary_encode(), "key": [2, 3]}),
        pa.table({"key": [4], "extra": [7], "t": ["z"]}),
    ]
    (tmp_path / "later").mkdir()
    for number, part in enumerate(order):
        parquet.write_table(parts[part], tmp_path / ("later" if number else "") / f"{number}.parquet")
    for name in ("notes.txt", "_SUCCESS", "_metadata.parquet", ".0.parquet", "later/.DS_Store"):
        (tmp_path / name).write_text("no table")
    read = read_table(tmp_path).sort_values("key")
    np.testing.assert_array_equal(read["n"], [1.0, 2.0, 1.5, 2.5, np.nan])
    np.testing.assert_array_equal(read["extra"], [np.nan] * 4 + [7.0])
    assert read["t"].tolist() == ["x", "y", "x", np.nan, "z"]
    assert read["t"].dtype == "category"
    assert len(pd.concat(table_chunks(tmp_path, 1))) == 5
    parquet.write_table(pa.table({"n": ["text"]}), tmp_path / "9.parquet")
    with pytest.raises(InvalidInputError, match=r"cannot be read: .* Field n has incompatible types"):
        read_table(tmp_path)


def test_periods_in_parquet_are_refused_with_the_remedy(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"x": range(12), "month": pd.period_range("2024-01", periods=12, freq="M")})
    frame.to_parquet(tmp_path / "data.parquet")
    with pytest.raises(InvalidInputError, match=r"column 'month' holds periods.*frame\['month'\]\.dt\.to_timestamp"):
        read_table(tmp_path / "data.parquet")
