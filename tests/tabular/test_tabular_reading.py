"""CSV files to tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tabular_data import write

from qsdp.exceptions import InvalidInputError
from qsdp.tabular import read_table


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_delimiters_newlines_and_byte_order_marks(tmp_path: Path, delimiter: str, newline: str, mark: bytes) -> None:
    lines = [delimiter.join(fields) for fields in [["a b", "ü"], ["1", "x"], ["2", '"y, z; |"']]]
    read = read_table(write(tmp_path, mark + (newline.join(lines) + newline).encode()))
    assert read.columns == ("a b", "ü")
    assert [list(row) for row in read.rows] == [["1", "x"], ["2", "y, z; |"]]
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
    assert [list(row) for row in read.rows] == [["1,5", "x", "two\nlines"], ["2", "y", "z"]]
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
    assert all(len(row) == len(read.columns) for row in read.rows)
