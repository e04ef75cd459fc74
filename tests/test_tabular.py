"""CSV files to arrays and back, and the model file."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.exceptions import InvalidInputError, QSDPWarning, StorageError
from qsdp.storage import read_archive, write_archive
from qsdp.tabular import (
    CategoricalColumn,
    Holdout,
    NumericColumn,
    Table,
    TabularEncoder,
    TabularModel,
    Target,
    load_model,
    prepare,
    read_table,
)


def write(folder: Path, text: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def table(columns: dict[str, list[str | None]], path: str = "data.csv") -> Table:
    rows = list(zip(*columns.values(), strict=True))
    return Table(path, tuple(columns), rows, range(2, len(rows) + 2))


def rows_csv(n: int = 60, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    lines = ["size,colour,smooth,label,price"]
    for i in range(n):
        size, colour = rng.normal(3.0, 2.0), rng.choice(["red", "green", "blue"])
        value = (size - 3.0) + (colour == "red")
        shown = "" if i == 7 else f"{size:.3f}"
        lines.append(f"{shown},{colour},{'yn'[i % 2]},{'big' if value > 0 else 'small'},{10 * value:.3f}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tabular"), rows_csv())


@pytest.fixture(scope="module", params=["label", "price"])
def model(request: pytest.FixtureRequest, csv_file: Path) -> TabularModel:
    drop = ["price" if request.param == "label" else "label"]
    training = prepare(read_table(csv_file), request.param, drop=drop)
    result = qsdp.solve_and_sample(training.X, training.y, n_neurons=50, beta=1.0, random_state=0)
    return training.model(result)


# -- reading --------------------------------------------------------------------------------------


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


# -- encoding -------------------------------------------------------------------------------------


def test_numbers_are_standardised_with_the_median_for_missing_ones() -> None:
    encoder = TabularEncoder.fit(table({"a": ["1", None, "3", "8"]}), ["a"])
    filled = np.array([1.0, 3.0, 3.0, 8.0])
    assert encoder.columns == (NumericColumn("a", 3.0, filled.mean(), filled.std()),)
    expected = (filled - filled.mean()) / filled.std()
    np.testing.assert_array_equal(encoder.encode(table({"a": ["1", None, "3", "8"]}))[:, 0], expected)


def test_categories_are_sorted_columns_and_missing_is_one_of_them() -> None:
    known = table({"a": ["y", "x", None, "x"], "b": ["no", "yes", "no", "yes"], "c": ["k", None, "k", "k"]})
    encoder = TabularEncoder.fit(known, ["a", "b", "c"])
    assert [column.values for column in encoder.columns] == [("x", "y", None), ("no", "yes"), ("k", None)]
    expected = [[0, 1, 0, -1, -1], [1, 0, 0, 1, 1], [0, 0, 1, -1, -1], [1, 0, 0, 1, -1]]
    np.testing.assert_array_equal(encoder.encode(known), expected)


def test_unseen_categories_are_zeros_and_counted() -> None:
    known = table({"a": ["x", "y", "z"], "b": ["p", "q", "q"]})
    encoder = TabularEncoder.fit(known, ["a", "b"])
    with pytest.warns(QSDPWarning, match=r"4 entries.*'a' 2 \(such as 'new'\), 'b' 2 \(such as '\(missing\)'"):
        encoded = encoder.encode(table({"b": [None, "r", "q"], "a": ["x", "new", None]}))
    np.testing.assert_array_equal(encoded, [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]])


def test_columns_without_information_are_dropped_with_the_reason() -> None:
    read = table(
        {
            "none": [None] * 4,
            "number": ["0.1"] * 4,
            "written": ["1", "1.0", "1e0", "1"],
            "filled": ["2", None, "2", "2"],
            "text": ["x"] * 4,
            "kept": ["1", "2", "3", "4"],
        }
    )
    encoder = TabularEncoder.fit(read, read.columns)
    assert [column.name for column in encoder.columns] == ["kept"]
    assert encoder.dropped == {
        "none": "no values",
        "number": "constant",
        "written": "constant",
        "filled": "constant",
        "text": "constant",
    }


def test_what_a_column_is_does_not_depend_on_the_held_out_rows() -> None:
    read = table({"a": ["1", "2", "3", "unknown"]})
    assert TabularEncoder.fit(read, ["a"], [0, 1, 2]).columns == (CategoricalColumn("a", ("1", "2", "3")),)


@pytest.mark.parametrize("entry", ["inf", "-Infinity", "1e999", "1e200", "NAN"])
def test_numbers_that_are_not_finite_name_line_and_column(entry: str) -> None:
    read = table({"a": ["1", "2", entry]})
    with pytest.raises(InvalidInputError, match=rf"line 4, column 'a': expected a finite .* got '{entry}'"):
        TabularEncoder.fit(read, ["a"])
    encoder = TabularEncoder.fit(table({"a": ["1", "2"]}), ["a"])
    with pytest.raises(InvalidInputError, match="line 4, column 'a'"):
        encoder.encode(read)


def test_words_that_look_like_infinity_are_words_in_a_column_of_text() -> None:
    encoder = TabularEncoder.fit(table({"a": ["inf", "sup", "inf"]}), ["a"])
    assert encoder.columns == (CategoricalColumn("a", ("inf", "sup")),)


def test_a_word_where_training_had_numbers() -> None:
    encoder = TabularEncoder.fit(table({"a": ["1", "2"]}), ["a"])
    with pytest.raises(InvalidInputError, match="line 3, column 'a': expected a number; got 'two'"):
        encoder.encode(table({"a": ["1", "two"]}))


def test_a_number_that_overflows_when_standardised() -> None:
    encoder = TabularEncoder.fit(table({"a": ["1e-90", "2e-90"]}), ["a"])
    with pytest.raises(InvalidInputError, match="line 2, column 'a': expected a number of the order"):
        encoder.encode(table({"a": ["1e90"]}))


def test_thousands_with_underscores_are_no_numbers() -> None:
    encoder = TabularEncoder.fit(table({"a": ["1_000", "2", "3"]}), ["a"])
    assert isinstance(encoder.columns[0], CategoricalColumn)


def test_all_columns_with_too_many_values_are_in_one_error() -> None:
    wide: list[str | None] = [f"v{i}" for i in range(51)]
    read = table({"id": wide, "full name": wide, "ok": [*wide[:50], "v0"], "n": [str(i) for i in range(51)]})
    with pytest.raises(InvalidInputError, match=r"--drop id --drop 'full name'$") as caught:
        TabularEncoder.fit(read, read.columns)
    assert "'id' (51, such as 'v0')" in str(caught.value)
    assert "'ok'" not in str(caught.value)


def test_columns_are_found_by_name_whatever_their_order_and_company() -> None:
    known = table({"a": ["1", "2"], "b": ["x", "y"]})
    encoder = TabularEncoder.fit(known, ["a", "b"])
    other = table({"extra": ["?", "?"], "b": ["x", "y"], "a": ["1", "2"]})
    np.testing.assert_array_equal(encoder.encode(other), encoder.encode(known))
    with pytest.raises(InvalidInputError, match="no columns 'a', 'b'"):
        encoder.encode(table({"c": ["1"]}))


entries = st.one_of(st.none(), st.sampled_from(["x", "y", "zz", "1", "2.5", "-3e2"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(entries, entries), min_size=1, max_size=12))
def test_the_encoder_survives_json(rows: list[tuple[str | None, str | None]]) -> None:
    read = Table("any.csv", ("a", "b"), rows, range(2, len(rows) + 2))
    encoder = TabularEncoder.fit(read, ["a", "b"])
    encoded = encoder.encode(read)
    assert encoded.shape == (len(rows), encoder.width)
    assert np.all(np.isfinite(encoded))
    if encoder.columns:
        restored = TabularEncoder.from_state(json.loads(json.dumps(encoder.state())))
        assert restored == encoder
        np.testing.assert_array_equal(restored.encode(read), encoded)


# -- target and split -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "task", "classes"),
    [
        (["b", "a", "b", "a"], "auto", ("a", "b")),
        (["10", "9", "10", "9"], "auto", ("9", "10")),
        (["1", "1.0", "0", "0.0"], "auto", ("0", "1")),
        (["1", "2", "3", "4"], "auto", None),
        (["0", "1", "0", "1"], "regression", None),
        (["0", "1", "1", "0"], "classification", ("0", "1")),
    ],
)
def test_task_and_classes(entries: list[str | None], task: str, classes: tuple[str, str] | None) -> None:
    target = Target.fit(table({"y": entries}), "y", task, range(4))
    assert target.classes == classes
    if classes is None:
        numbers = np.array([float(entry or "nan") for entry in entries])
        assert (target.mean, target.scale) == (numbers.mean(), numbers.std())
        np.testing.assert_allclose(target.decode(target.encode(table({"y": entries}))), numbers)


@pytest.mark.parametrize(
    ("entries", "task", "message"),
    [
        (["a", "a", "a"], "auto", "holds only 'a'"),
        (["5", "5.0", "5"], "auto", "holds only '5'"),
        ([None, None, None], "auto", "has no values"),
        (["a", "b", "c"], "auto", "3 classes, this version trains on two: 'a' (1), 'b' (1), 'c' (1); keep"),
        (["1", "2", "3"], "classification", "keep the rows of two classes or use --task regression"),
        (["1", "two", "3"], "regression", "line 3, column 'y': expected a number; got 'two'"),
        (["1", "inf", "3"], "regression", "line 3, column 'y': expected a finite number"),
        (["1", "2", "3"], "ranking", "task must be one of"),
    ],
)
def test_targets_that_cannot_be_learned(entries: list[str | None], task: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        prepare(table({"x": ["1", "2", "3"], "y": entries}), "y", task=task, test_size=0.0)
    assert message in str(caught.value)


def test_at_most_ten_classes_are_listed() -> None:
    labels: list[str | None] = [f"c{i:02}" for i in range(12)]
    with pytest.raises(InvalidInputError, match=r"12 classes.*'c09' \(1\), and 2 more; keep"):
        prepare(table({"x": [str(i) for i in range(12)], "y": labels}), "y")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "labl"}, "no column 'labl'; it has .*did you mean 'label'"),
        ({"drop": ["x", "y"]}, "no columns 'x', 'y'"),
        ({"drop": ["label"]}, "both the target and dropped"),
        ({"drop": ["size", "colour", "smooth", "price"]}, "no column left to learn from"),
        ({"test_size": 0.99}, "has 60 rows, 0 of them for training"),
    ],
)
def test_training_that_cannot_start(csv_file: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        prepare(read_table(csv_file), **{"target": "label", **changes})


def test_one_class_or_one_number_among_the_training_rows() -> None:
    columns: dict[str, list[str | None]] = {"x": list("123456"), "y": ["a"] * 5 + ["b"]}
    held_out = Holdout(0, 0.2).split(6)[1]
    rare: list[str | None] = ["1"] * 6
    rare[held_out[0]] = "2"
    with pytest.raises(InvalidInputError, match="hold only one class"):
        prepare(table({**columns, "y": rare}), "y")
    with pytest.raises(InvalidInputError, match="constant in the 4 training rows"):
        prepare(table({**columns, "y": rare}), "y", task="regression")


def test_rows_without_target_are_left_out_and_counted() -> None:
    read = table({"x": list("123456"), "y": ["a", None, "b", "a", None, "b"]})
    training = prepare(read, "y", test_size=0.0)
    assert training.n_unlabelled == 2
    assert training.X.shape == (4, 2)
    np.testing.assert_array_equal(training.X[:, -1], 1.0)


@pytest.mark.parametrize(("n", "share"), [(10, 0.9), (10, 0.2), (569, 0.2), (7, 0.0), (3, 0.5)])
def test_the_split_is_seeded_and_complete(n: int, share: float) -> None:
    train, test = Holdout(3, share).split(n)
    assert sorted(train + test) == list(range(n))
    assert len(train) == math.floor(round((1 - share) * n, 6))
    assert Holdout(3, share).split(n) == (train, test)


def test_nothing_is_learned_from_the_held_out_rows() -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, list[str | None]] = {
        "x": [f"{value:.3f}" for value in rng.normal(size=20)],
        "c": [str(value) for value in rng.choice(["p", "q", "r"], 20)],
        "y": [f"{value:.3f}" for value in rng.normal(size=20)],
    }
    before = prepare(table(columns), "y")
    changed = copy.deepcopy(columns)
    for row in Holdout(0, 0.2).split(20)[1]:
        changed["x"][row], changed["c"][row], changed["y"][row] = "99", "elsewhere", "-99"
    after = prepare(table(changed), "y")
    assert (before.encoder, before.target) == (after.encoder, after.target)
    np.testing.assert_array_equal(before.X, after.X)


def test_scores() -> None:
    classes = Target("y", ("a", "b"))
    encoded = classes.encode(table({"y": ["a", "b", "other", "b"]}))
    assert classes.score(np.array([-1.0, 2.0, 3.0, -1.0]), encoded) == 0.5
    number = Target("y", None, 1.0, 2.0)
    assert number.score(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 1.0
    assert math.isnan(number.score(np.array([1.0, 2.0]), np.array([2.0, 2.0])))


# -- the model ------------------------------------------------------------------------------------


def test_the_model_survives_its_file(model: TabularModel, csv_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    model.save(path)
    loaded = load_model(path)
    for name in ("encoder", "target", "loss", "beta", "lower_bound", "objective", "holdout", "digest"):
        assert getattr(loaded, name) == getattr(model, name), name
    read = read_table(csv_file)
    np.testing.assert_array_equal(loaded.outputs(read), model.outputs(read))
    assert list(loaded.predict(read)) == list(model.predict(read))
    np.testing.assert_array_equal(loaded.network.U, model.network.U)
    np.testing.assert_array_equal(loaded.covariance.Q, model.covariance.Q)
    assert loaded.covariance.residual == model.covariance.residual


def test_a_network_with_free_second_layer_survives_too(model: TabularModel, tmp_path: Path) -> None:
    network = model.network
    free = qsdp.BilinearNetwork(network.U, network.V, np.linspace(0.0, 1.0, network.n_neurons))
    changed = TabularModel(**{**vars(model), "network": free})
    changed.save(tmp_path / "model.qsdp")
    np.testing.assert_array_equal(load_model(tmp_path / "model.qsdp").network.alpha, free.alpha)


def test_resampling_needs_only_the_file(model: TabularModel, csv_file: Path, tmp_path: Path) -> None:
    model.save(tmp_path / "model.qsdp")
    loaded = load_model(tmp_path / "model.qsdp")
    larger = loaded.resample(400, 1)
    assert (larger.network.n_neurons, larger.objective) == (400, None)
    assert larger.lower_bound == model.lower_bound
    known = larger.evaluated(read_table(csv_file))
    assert known.objective is not None
    assert known.objective >= model.lower_bound
    again = loaded.resample(50, 0).evaluated(read_table(csv_file))
    np.testing.assert_array_equal(again.network.U, model.network.U)
    assert again.objective == pytest.approx(model.objective, rel=1e-12)


def test_the_objective_is_known_on_the_training_rows_only(model: TabularModel, csv_file: Path, tmp_path: Path) -> None:
    text = csv_file.read_text()
    for other in (rows_csv(seed=1), text.replace("red", "pink"), text.rsplit("\n", 2)[0] + "\n"):
        with pytest.raises(InvalidInputError, match="not the file this model was trained on"):
            model.evaluated(read_table(write(tmp_path, other)))
    with pytest.raises(InvalidInputError, match="has no column"):
        model.evaluated(table({"a": ["1"]}))


WRONG = [None, True, -1, 1.5, "x", "\ud800", [], {}, ["a"], [1.0], float("nan"), float("inf"), -1.0]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a header."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


def replaced(header: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(header)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def test_every_field_of_the_header_is_checked(model: TabularModel, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    model.save(path)
    header, arrays = read_archive(path, "tabular-model")
    accepted, messages = [], set()
    for place in places(header)[1:]:
        for value in WRONG:
            try:
                write_archive(path, "tabular-model", replaced(header, place, value), arrays)
            except (ValueError, UnicodeEncodeError):  # cannot be written either
                continue
            try:
                load_model(path)
            except StorageError as error:
                messages.add(str(error).split(":", 1)[0])
            else:
                accepted.append((place[-1], value))
    assert messages == {f"{str(path)!r} is no valid model"}
    # What remains are other texts where any text is right, and other numbers where any number is.
    texts, any_number = {"name", "digest", 0, 1, 2, None}, {"median", "mean", "lower_bound"}
    not_negative = {"scale", "beta", "rho", "constant", "residual", "objective"}
    for field, value in accepted:
        allowed = (
            (isinstance(value, str) and field in texts)
            or (type(value) is float and field in any_number)
            or (value == 1.5 and field in not_negative)
            or (value is None and field in {1, 2, "objective", "classes"})
            or (value == {} and field == "dropped")
        )
        assert allowed, (field, value)


def test_fields_that_contradict_each_other(model: TabularModel, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    model.save(path)
    header, arrays = read_archive(path, "tabular-model")
    columns = header["encoder"]["columns"]
    contradictions = [
        replaced(header, ("lower_bound",), header["objective"] * 1.1),
        replaced(header, ("target", "name"), columns[0]["name"]),
        replaced(header, ("encoder", "columns"), [*columns, columns[0]]),
        replaced(header, ("encoder", "columns"), columns[:-1]),
        replaced(header, ("encoder", "dropped"), {columns[0]["name"]: "constant"}),
        replaced(header, ("target", "classes"), ["1", "1.0"]),
        replaced(header, ("target", "scale"), -2.0),
        {**header, "more": 1},
        {key: value for key, value in header.items() if key != "beta"},
    ]
    if model.target.classes is None:
        contradictions.append(replaced(header, ("loss",), "logistic"))
    else:
        contradictions.append(replaced(header, ("target", "mean"), 0.5))
    for contradiction in contradictions:
        write_archive(path, "tabular-model", contradiction, arrays)
        with pytest.raises(StorageError, match="no valid model"):
            load_model(path)


def test_arrays_that_do_not_fit(model: TabularModel, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    model.save(path)
    header, arrays = read_archive(path, "tabular-model")
    Q = arrays["Q"]
    indefinite, asymmetric, unscaled, broken = (Q.copy() for _ in range(4))
    indefinite[0, 1] = indefinite[1, 0] = 3.0
    asymmetric[0, 1] += 0.1
    unscaled[0, 0], broken[0, 0] = 2.0, math.nan
    changes: list[dict[str, Any]] = [
        *({"Q": wrong} for wrong in (indefinite, asymmetric, unscaled, broken, Q[:-1], Q.astype(np.float32))),
        {"U": arrays["U"][:-1]},
        {"U": arrays["U"].astype(np.int8)},
        {"V": np.hstack([arrays["V"]] * 2)},
        {"U": np.full_like(arrays["U"], 255)},
        {"U": arrays["U"][:0], "V": arrays["V"][:0]},
        {"alpha": np.zeros(3)},
        {"alpha": np.array([math.inf])},
        {"alpha": np.array([1], dtype=np.int64)},
        {"extra": np.zeros(1)},
    ]
    for change in changes:
        write_archive(path, "tabular-model", header, {**arrays, **change})
        with pytest.raises(StorageError, match="no valid model"):
            load_model(path)
    write_archive(path, "tabular-model", header, {name: arrays[name] for name in ("U", "V", "alpha")})
    with pytest.raises(StorageError, match="no valid model"):
        load_model(path)


def test_damaged_and_foreign_files(model: TabularModel, csv_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    model.save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [content[:cut] for cut in (0, 4, 100, len(content) // 2, len(content) - 1)]
    for position in rng.integers(0, len(content), 40):
        flipped = bytearray(content)
        flipped[position] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    for bad in damaged:
        path.write_bytes(bad)
        with pytest.raises(StorageError):
            load_model(path)
    model.network.save(path)
    with pytest.raises(StorageError, match="expected a 'tabular-model'"):
        load_model(path)
    with pytest.raises(StorageError):
        load_model(csv_file)
