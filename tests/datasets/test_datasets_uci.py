import dataclasses
import hashlib
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qsdp.datasets import _fetch, _uci, load_uci
from qsdp.exceptions import DatasetError, InvalidInputError, InvalidTypeError

NAMES = ("breast-cancer", "ionosphere", "credit-approval", "vehicle")
CONTINUOUS_CREDIT = {2: "A2", 3: "A3", 8: "A8", 11: "A11", 14: "A14", 15: "A15"}  # crx.names

real_files = pytest.mark.usefixtures("uci_available")


def read_frame(name):
    """The raw file as strings, read without qsdp; columns are numbered from 1 as in the .names files."""
    folder = Path(os.environ["QSDP_DATA"]) / "uci" / name
    if name == "vehicle":
        parts = [pd.read_csv(folder / f"xa{c}.dat", sep=r"\s+", header=None, dtype=str) for c in "abcdefghi"]
        frame = pd.concat(parts, ignore_index=True)
    else:
        (path,) = [path for path in folder.iterdir() if path.suffix == ".data"]
        frame = pd.read_csv(path, header=None, dtype=str, keep_default_na=False)
    return frame.rename(columns=lambda i: i + 1)


def ranks(column):
    return pd.Categorical(column, categories=sorted(set(column))).codes.astype(float)


# --- the real files ----------------------------------------------------------------------------


@real_files
@pytest.mark.parametrize(
    ("name", "shape", "counts", "sizes"),
    [
        ("breast-cancer", (286, 9), {-1.0: 201, 1.0: 85}, (228, 58)),
        ("ionosphere", (351, 33), {-1.0: 126, 1.0: 225}, (280, 71)),
        ("credit-approval", (690, 15), {-1.0: 383, 1.0: 307}, (552, 138)),
        ("vehicle", (846, 18), {0: 218, 1: 212, 2: 217, 3: 199}, (676, 170)),
    ],
)
def test_shapes_counts_and_split_sizes(name, shape, counts, sizes):
    dataset = load_uci(name)
    assert dataset.X.shape == shape
    assert dataset.X.dtype == np.float64
    assert dataset.X.flags.c_contiguous
    assert dict(zip(*np.unique(dataset.y, return_counts=True), strict=True)) == counts
    assert dataset.y.dtype == (np.int64 if name == "vehicle" else np.float64)
    X_train, X_test, y_train, y_test = dataset.split()
    assert (len(X_train), len(X_test)) == (len(y_train), len(y_test)) == sizes
    for part in ("UCI", "CC BY 4.0", "Missing values"):
        assert part in dataset.description


@real_files
def test_target_names_and_signs():
    assert load_uci("breast-cancer").target_names == ("no-recurrence-events", "recurrence-events")
    assert load_uci("ionosphere").target_names == ("b", "g")
    assert load_uci("credit-approval").target_names == ("-", "+")
    assert load_uci("vehicle").target_names == ("bus", "opel", "saab", "van")
    for name, column, positive in [
        ("breast-cancer", 1, "recurrence-events"),
        ("ionosphere", 35, "g"),
        ("credit-approval", 16, "+"),
    ]:
        np.testing.assert_array_equal(load_uci(name).y == 1.0, read_frame(name)[column] == positive)
    np.testing.assert_array_equal(load_uci("vehicle").y, ranks(read_frame("vehicle")[19]))


@real_files
def test_breast_cancer_ranks():
    X, _ = load_uci("breast-cancer")
    frame = read_frame("breast-cancer")
    np.testing.assert_array_equal(X, np.column_stack([ranks(frame[i]) for i in range(2, 11)]))
    # By hand: 30-39, premeno, 30-34, 0-2, no, 3, left, left_low, no; "?" sorts before "no".
    np.testing.assert_array_equal(X[0], [1, 2, 5, 0, 1, 2, 0, 2, 0])
    assert "Soklic" in load_uci("breast-cancer").description


@real_files
def test_ionosphere_is_the_file_without_its_constant_column():
    dataset = load_uci("ionosphere")
    frame = read_frame("ionosphere")
    assert set(frame[2]) == {"0"}
    np.testing.assert_array_equal(dataset.X, frame.drop(columns=[2, 35]).astype(float))
    assert dataset.feature_names == ("a1", *(f"a{i}" for i in range(3, 35)))
    assert "a2 (constant 0)" in dataset.description


@real_files
def test_vehicle_is_the_file():
    np.testing.assert_array_equal(load_uci("vehicle").X, read_frame("vehicle").drop(columns=19).astype(float))


@real_files
def test_credit_approval_ranks_and_medians():
    dataset = load_uci("credit-approval")
    frame = read_frame("credit-approval")
    assert dataset.feature_names == tuple(f"A{i}" for i in range(1, 16))
    for i in range(1, 16):
        if i in CONTINUOUS_CREDIT:
            numbers = pd.to_numeric(frame[i].replace("?", np.nan))
            expected = numbers.fillna(numbers.median())
        else:
            expected = ranks(frame[i])
        np.testing.assert_array_equal(dataset.X[:, i - 1], expected)


@real_files
def test_missing_counts_are_those_of_the_documentation():
    credit = (read_frame("credit-approval") == "?").sum()
    assert credit[credit > 0].to_dict() == {1: 12, 2: 12, 4: 6, 5: 6, 6: 9, 7: 9, 14: 13}  # crx.names
    assert "Missing values: 67 in 37 rows." in load_uci("credit-approval").description
    assert "median" in load_uci("credit-approval").description
    breast = (read_frame("breast-cancer") == "?").sum()
    assert breast[breast > 0].to_dict() == {6: 8, 9: 1}  # breast-cancer.names
    assert "Missing values: 9 in 9 rows." in load_uci("breast-cancer").description
    assert "median" not in load_uci("breast-cancer").description
    for name in ("ionosphere", "vehicle"):
        assert "Missing values: none." in load_uci(name).description


@real_files
@pytest.mark.parametrize(
    ("name", "categorical"),
    [("breast-cancer", range(2, 11)), ("credit-approval", {*range(1, 16)} - {*CONTINUOUS_CREDIT})],
)
def test_onehot_is_pandas_dummies(name, categorical):
    dataset = load_uci(name, encoding="onehot")
    frame = read_frame(name)
    ranked = load_uci(name)
    names = []
    for feature, i in zip(ranked.feature_names, range(2, 11) if name == "breast-cancer" else range(1, 16), strict=True):
        if i not in categorical:
            names.append(feature)
            np.testing.assert_array_equal(
                dataset.X[:, dataset.feature_names.index(feature)],
                ranked.X[:, ranked.feature_names.index(feature)],
            )
            continue
        dummies = pd.get_dummies(frame[i], prefix=feature, prefix_sep="=")
        names.extend(sorted(dummies.columns))
        block = dataset.X[:, [dataset.feature_names.index(column) for column in dummies.columns]]
        np.testing.assert_array_equal(block, dummies.astype(float))
        np.testing.assert_array_equal(block.sum(axis=1), 1.0)
    assert dataset.feature_names == tuple(names)
    np.testing.assert_array_equal(dataset.y, ranked.y)


@real_files
def test_onehot_has_a_column_for_missing_values():
    dataset = load_uci("breast-cancer", encoding="onehot")
    assert dataset.X[:, dataset.feature_names.index("node-caps=?")].sum() == 8
    np.testing.assert_array_equal(dataset.X.sum(axis=1), 9.0)  # one value for each of the 9 attributes


@real_files
@pytest.mark.parametrize("name", ["ionosphere", "vehicle"])
def test_onehot_changes_nothing_without_categorical_attributes(name):
    np.testing.assert_array_equal(load_uci(name, encoding="onehot").X, load_uci(name).X)


@real_files
def test_truncated_real_file(tmp_path, monkeypatch):
    original = Path(os.environ["QSDP_DATA"]) / "uci/ionosphere/ionosphere.data"
    copy = tmp_path / "uci/ionosphere/ionosphere.data"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(original.read_bytes()[:40_000])
    monkeypatch.setenv("QSDP_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match=r"ionosphere\.data is damaged"):
        load_uci("ionosphere")


# --- arguments and declarations ----------------------------------------------------------------


def test_names_and_encodings_are_checked_before_any_file(monkeypatch, tmp_path):
    monkeypatch.setenv("QSDP_DATA", str(tmp_path / "absent"))
    with pytest.raises(InvalidInputError, match="did you mean 'ionosphere'"):
        load_uci("ionospher")
    with pytest.raises(InvalidInputError, match="encoding must be one of 'onehot', 'rank'"):
        load_uci("ionosphere", encoding="one-hot")
    with pytest.raises(InvalidTypeError, match="name must be one of"):
        load_uci(None)


@pytest.mark.parametrize("name", NAMES)
def test_specs_are_consistent(name):
    spec = _uci.SPECS[name]
    assert len(set(spec.columns)) == len(spec.columns)
    assert {spec.target, *spec.dropped} | spec.categorical <= set(spec.columns)
    assert spec.target not in spec.categorical
    assert len({file.sha256 for file in spec.files}) == len(spec.files)
    assert all(file.local.startswith(f"uci/{name}/") and len(file.sha256) == 64 for file in spec.files)


# --- the parser, on a made-up set --------------------------------------------------------------

TINY = _uci.UCISpec(
    files=(_fetch.RawFile("uci/tiny/tiny.data", "tiny/tiny.data", "0" * 64),),
    columns=("size", "junk", "colour", "class"),
    target="class",
    classes=("no", "yes"),
    categorical=frozenset({"colour"}),
    dropped={"junk": "unused"},
    n_samples=5,
    title="made up",
    citation="Nobody. Nothing. 1900.",
)
TEXT = "3,0,red,yes\r\n?,0,blue,no\n1,0,?,no\n 8 ,0,red,yes\n1e1,0,10,no\n\n"


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A function that writes a text as the file of the made-up set, with its checksum, and loads it."""
    path = tmp_path / TINY.files[0].local
    path.parent.mkdir(parents=True)
    monkeypatch.setenv("QSDP_DATA", str(tmp_path))

    def load(text, encoding="rank", **changes):
        path.write_bytes(text.encode())
        file = dataclasses.replace(TINY.files[0], sha256=hashlib.sha256(text.encode()).hexdigest())
        spec = dataclasses.replace(TINY, files=(file,), **changes)
        monkeypatch.setattr(_uci, "SPECS", {**_uci.SPECS, "tiny": spec})
        return load_uci("tiny", encoding=encoding)

    return load


def test_adding_a_set_is_adding_a_spec(tiny):
    dataset = tiny(TEXT)
    # Median of 3, 1, 8, 10 is 5.5. Sorted strings: "10", "?", "blue", "red".
    np.testing.assert_array_equal(dataset.X, [[3, 3], [5.5, 2], [1, 1], [8, 3], [10, 0]])
    np.testing.assert_array_equal(dataset.y, [1, -1, -1, 1, -1])
    assert dataset.feature_names == ("size", "colour")
    onehot = tiny(TEXT, "onehot")
    assert onehot.feature_names == ("size", "colour=10", "colour=?", "colour=blue", "colour=red")
    np.testing.assert_array_equal(onehot.X[:, 1:], np.eye(4)[[3, 2, 1, 3, 0]])


def test_three_classes_are_integers(tiny):
    dataset = tiny(TEXT.replace("10,no", "10,maybe"), classes=("maybe", "no", "yes"))
    assert dataset.task == "multiclass"
    np.testing.assert_array_equal(dataset.y, [2, 1, 1, 2, 0])


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


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_empty_file(tiny, text):
    with pytest.raises(DatasetError, match=r"tiny\.data, line 1: expected 4 fields"):
        tiny(text)


@given(st.lists(st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1), min_size=1))
def test_encodings_agree(values):
    rows = [_uci.Row("here", {"size": "1", "colour": value}) for value in values]
    ranked, _ = _uci.encode_features(TINY, rows, "rank")
    onehot, names = _uci.encode_features(TINY, rows, "onehot")
    distinct = sorted(set(values))
    assert [distinct[int(rank)] for rank in ranked[:, 1]] == values
    assert names == ("size", *(f"colour={value}" for value in distinct))
    np.testing.assert_array_equal(onehot[:, 1:].argmax(axis=1), ranked[:, 1])
    np.testing.assert_array_equal(onehot[:, 1:].sum(axis=1), 1.0)
