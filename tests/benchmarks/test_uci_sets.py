import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.data import uci_sets
from benchmarks.data.uci_sets import load_uci
from qsdp.exceptions import DatasetError

# --- arguments and declarations ----------------------------------------------------------------


# --- the parser, on a made-up set --------------------------------------------------------------

TINY = uci_sets.UCISpec(
    files=(uci_sets.RawFile("uci/tiny/tiny.data", ("https://127.0.0.1:1/tiny.data",), "0" * 64),),
    columns=("size", "junk", "colour", "class"),
    target="class",
    classes=("no", "yes"),
    categorical=("colour",),
    dropped={"junk": "unused"},
    n_samples=5,
    title="made up",
    citation="Nobody. Nothing. 1900.",
)
TEXT = "3,0,red,yes\r\n?,0,blue,no\n1,0,?,no\n 8 ,0,red,yes\n1e1,0,10,no\n\n"


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A function that writes texts as the files of the made-up set, with their checksums, and loads it."""
    (tmp_path / TINY.files[0].local).parent.mkdir(parents=True)
    monkeypatch.setenv("QSDP_DATA", str(tmp_path))

    def load_tiny(*texts, encoding="rank", **changes):
        files = []
        for number, text in enumerate(texts):
            file = dataclasses.replace(TINY.files[0], sha256=hashlib.sha256(text.encode()).hexdigest())
            files.append(dataclasses.replace(file, local=file.local if number == 0 else f"uci/tiny/{number}.data"))
            (tmp_path / files[-1].local).write_bytes(text.encode())
        spec = dataclasses.replace(TINY, files=tuple(files), **changes)
        monkeypatch.setattr(uci_sets, "SPECS", {**uci_sets.SPECS, "tiny": spec})
        return load_uci("tiny", encoding=encoding)

    return load_tiny


def test_adding_a_set_is_adding_a_spec(tiny):
    dataset = tiny(TEXT)
    # Median of 3, 1, 8, 10 is 5.5. Sorted strings: "10", "?", "blue", "red".
    np.testing.assert_array_equal(dataset.X, [[3, 3], [5.5, 2], [1, 1], [8, 3], [10, 0]])
    np.testing.assert_array_equal(dataset.y, [1, -1, -1, 1, -1])
    assert dataset.feature_names == ("size", "colour")
    onehot = tiny(TEXT, encoding="onehot")
    assert onehot.feature_names == ("size", "colour=10", "colour=?", "colour=blue", "colour=red")
    np.testing.assert_array_equal(onehot.X[:, 1:], np.eye(4)[[3, 2, 1, 3, 0]])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,0,red", "expected 4 fields, found 3"),
        ("1,0,red,yes,", "expected 4 fields, found 5"),
        ("", "expected 4 fields, found 1"),
        ("1,0,,yes", "colour is empty"),
        (" ,0,red,yes", "size is empty"),
        ("one,0,red,yes", "size is 'one', expected a number"),
        ("nan,0,red,yes", "size is 'nan', expected a number"),
        ("-inf,0,red,yes", "size is '-inf', expected a number"),
        ("1_0,0,red,yes", "size is '1_0', expected a number"),
        ("1,0,red,perhaps", "class is 'perhaps', expected one of 'no', 'yes'"),
    ],
)
def test_parser_names_file_and_line(tiny, line, message):
    with pytest.raises(DatasetError, match=message) as caught:
        tiny(f"3,0,red,yes\n{line}\n1,0,blue,no\n")
    assert "tiny.data, line 2: " in str(caught.value)


def test_first_lines_are_left_out_of_the_files_that_have_them(tiny):
    first = ("size,junk,colour,class", "|a note")
    text = "3,0,red,yes\n1,0,blue,no\n"
    dataset = tiny("size,junk,colour,class\n" + text, text, "|a note\r\n" + text, first_lines=first, n_train=2)
    np.testing.assert_array_equal(dataset.X, np.tile([[3, 1], [1, 0]], (3, 1)))
    np.testing.assert_array_equal(dataset.y, [1, -1] * 3)
    assert dataset.n_train == 2
    assert "Usual split: the first 2 rows for training, the others for test." in dataset.description


@given(st.lists(st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1), min_size=1))
def test_encodings_agree(values):
    table = uci_sets.ParsedRows({"size": ["1"] * len(values), "colour": values}, [(0, Path("here"), 1)])
    ranked, _ = uci_sets.encode_features(TINY, table, "rank")
    onehot, names = uci_sets.encode_features(TINY, table, "onehot")
    distinct = sorted(set(values))
    assert [distinct[int(rank)] for rank in ranked[:, 1]] == values
    assert names == ("size", *(f"colour={value}" for value in distinct))
    np.testing.assert_array_equal(onehot[:, 1:].argmax(axis=1), ranked[:, 1])
    np.testing.assert_array_equal(onehot[:, 1:].sum(axis=1), 1.0)
