"""CSV files to tables."""

from __future__ import annotations

import gzip
import os
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qsdp.tabular import file_batches, held_bytes, read_table, table_batches
from tabular_data import write

from qsdp.exceptions import InvalidInputError, MissingPackageError


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_delimiters_newlines_and_byte_order_marks(tmp_path: Path, delimiter: str, newline: str, mark: bytes) -> None:
    lines = [delimiter.join(fields) for fields in [["a b", "ü"], ["1", "x"], ["2", '"y, z; |"']]]
    read = read_table(write(tmp_path, mark + (newline.join(lines) + newline).encode()))
    assert read.columns == ("a b", "ü")
    assert list(read.data) == [["1", "2"], ["x", "y, z; |"]]
    assert list(read.lines) == [2, 3]


def test_decimal_commas_do_not_mislead_the_sniffer(tmp_path: Path) -> None:
    read = read_table(write(tmp_path, "a;b\n1,5;2,5\n3,5;4,5\n"))
    assert read.columns == ("a", "b")
    read = read_table(write(tmp_path, "price, net;size\n1;2\n3;4\n5;6\n"))
    assert read.columns == ("price, net", "size")


def test_quotes_blank_lines_spaces_and_lines_inside_fields(tmp_path: Path) -> None:
    text = '\n\na, "b ""c""",d\n\n"1,5", x ,"two\nlines"\n   \n2,y,z\n'
    read = read_table(write(tmp_path, text))
    assert read.columns == ("a", 'b "c"', "d")
    assert list(read.data) == [["1,5", "2"], ["x", "y"], ["two\nlines", "z"]]
    assert list(read.lines) == [5, 8]


def test_missing_tokens(tmp_path: Path) -> None:
    tokens = ["", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
    read = read_table(write(tmp_path, "a,b\n" + "".join(f"{token},1\n" for token in tokens)))
    assert read.column("a") == [None] * len(tokens)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "data.csv' is empty"),
        ("\n \n", "data.csv' is empty"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n\n1,2,3\n", "data.csv', line 4: 3 fields; the header has 2"),
        ("a,b\n1\n", "line 2: 1 fields"),
        ("a,,b,\n1,2,3,4\n", "line 1: every column needs a name; number 2, 4 has none"),
        ("a,b,a\n1,2,3\n", "repeated: 'a'"),
        ('a,b\n1,"2\n3,4\n', "line 2: not valid CSV"),
        ('a,b\n1,"2"3\n', "line 2: not valid CSV"),
        (b"a,b\n\xff\xfe,2\n", "not UTF-8"),
        ("a,b\n1," + "x" * 200_000 + "\n", "line 2: not valid CSV: field larger"),
    ],
)
def test_unreadable_files(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_table(write(tmp_path, text))
    assert message in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet='a1,;"\n\r\t|? ', max_size=40))
def test_any_text_is_a_table_or_an_error_of_qsdp(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = write(tmp_path_factory.getbasetemp(), text, "any.csv")
    try:
        read = read_table(path)
    except InvalidInputError:
        return
    assert all(len(column) == len(read) for column in read.data)
    assert len(read.data) == len(read.columns)


def test_compressed_text(tmp_path: Path) -> None:
    text = "a,b\n" + "".join(f"{k},x\n" for k in range(100))
    read = read_table(write(tmp_path, gzip.compress(text.encode()), "data.csv.gz"))
    assert read.column("a") == [str(k) for k in range(100)]
    with pytest.raises(InvalidInputError, match="is damaged or incomplete"):
        read_table(write(tmp_path, gzip.compress(text.encode())[:-20], "cut.csv.gz"))


def test_batches_are_the_table(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n\n" + "".join(f"{k},x{k}\n" for k in range(10)))
    whole, parts = read_table(path), list(table_batches(path, 4))
    assert [len(part) for part in parts] == [4, 4, 2]
    stacked = parts[0].stacked(parts[1]).stacked(parts[2])
    assert (stacked.data, stacked.lines) == (whole.data, whole.lines)
    with pytest.raises(InvalidInputError, match="line 13: 1 fields"):
        list(table_batches(write(tmp_path, path.read_text() + "1\n"), 4))


def test_batches_of_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, "a,w,b,y\n1,2,3,4\n5,6,7,8\n9,10,11,12\n")
    batches = list(file_batches(path, "y", weights="w", rows=2))
    assert [part.tolist() for part in batches[0]] == [[[1.0, 3.0], [5.0, 7.0]], [4.0, 8.0], [2.0, 6.0]]
    assert [part.tolist() for part in batches[1]] == [[[9.0, 11.0]], [12.0], [10.0]]
    (X, y), _ = file_batches(path, "y", drop=("w",), rows=2)
    assert (X.shape, y.tolist()) == ((2, 2), [4.0, 8.0])
    with pytest.raises(InvalidInputError, match="line 3, column 'a': expected a number; got 'x'"):
        list(file_batches(write(tmp_path, "a,y\n1,2\nx,3\n"), "y", rows=1))
    with pytest.raises(InvalidInputError, match="no column besides 'y'"):
        list(file_batches(write(tmp_path, "y\n1\n"), "y"))


def test_parquet_and_arrow(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet, feather = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.feather")
    columns = {
        "n": pa.array([1, 2, None]),
        "x": pa.array([0.5, float("nan"), -1e30]),
        "t": pa.array(["a ", "?", None]),
        "c": pa.array(["u", "v", "u"]).dictionary_encode(),
        "b": pa.array([True, False, None]),
        "d": pa.array([1, 2, 3], pa.decimal128(5, 2)),
    }
    parquet.write_table(pa.table(columns), tmp_path / "data.parquet")
    feather.write_feather(pa.table(columns), str(tmp_path / "data.feather"))
    (tmp_path / "parts").mkdir()
    parquet.write_table(pa.table(columns), tmp_path / "parts" / "0.parquet")
    for name in ("data.parquet", "data.feather", "parts"):
        read = read_table(tmp_path / name)
        assert read.columns == tuple(columns)
        assert read.column("n") == ["1", "2", None]
        assert read.column("x") == ["0.5", None, "-1e+30"]
        assert read.column("t") == ["a", "?", None]
        assert read.column("c") == ["u", "v", "u"]
        assert read.column("b") == ["True", "False", None]
        assert read.all_numbers("d").tolist() == [1.0, 2.0, 3.0]
        assert [len(part) for part in table_batches(tmp_path / name, 2)] == [2, 1]
    with pytest.raises(InvalidInputError, match="row 1, column 't': expected a number; got 'a'"):
        read.all_numbers("t")
    content = (tmp_path / "data.parquet").read_bytes()
    with pytest.raises(InvalidInputError, match="is damaged or incomplete"):
        read_table(write(tmp_path, content[:-40], "cut.parquet"))
    parquet.write_table(pa.table({"l": [[1], [2]]}), tmp_path / "lists.parquet")
    with pytest.raises(InvalidInputError, match="column 'l': entries must be numbers or text; got list"):
        read_table(tmp_path / "lists.parquet")
    parquet.write_table(pa.table(columns).slice(0, 0), tmp_path / "none.parquet")
    with pytest.raises(InvalidInputError, match="columns but no rows"):
        read_table(tmp_path / "none.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="a folder without Parquet files"):
        read_table(tmp_path / "empty")


def test_parquet_without_pyarrow_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(MissingPackageError, match="pip install pyarrow"):
        read_table(write(tmp_path, b"PAR1....PAR1", "data.parquet"))


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("a,b\n1,2\n"))
    writer.start()
    assert held_bytes(pipe) == 0
    assert read_table(pipe).data == [["1"], ["2"]]
    writer.join()
