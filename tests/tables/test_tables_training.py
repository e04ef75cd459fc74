"""Tables made ready for training: targets, weights, rows held out, and the problem of a model on them."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from table_files import KINDS, REFINED, fit_to, rows_csv, rows_table, table, trained, write

import qsdp
from qsdp.estimators.table_source import TableSource
from qsdp.exceptions import InvalidInputError
from qsdp.tables import read_table
from qsdp.tables.training_tables import (
    inputs_in,
    inputs_of,
    labels_of,
    problem_if_trained,
    problem_on,
    row_numbers,
    source_of,
    split,
    targets_of,
    weights_of,
    with_target,
)


def test_columns_that_number_the_rows_are_known() -> None:
    count = list(range(30))
    frame = pd.DataFrame(
        {
            "text": list(map(str, count)),
            "from 1": [str(k + 1) for k in count],
            "floats": [float(k) for k in count],
            "years": [1990 + k for k in count],
            "twice": [k // 2 for k in count],
            "swapped": [1, 0, *count[2:]],
            "gap": [*map(str, count[:-1]), None],
            "truth": [False, True] * 15,
            "words": ["0", *["a"] * 29],
        }
    )
    assert row_numbers(frame) == {"text", "from 1", "floats"}


# -- what a table is used for ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "task", "message"),
    [
        (["a", "a", "a"], "auto", "target 'y' of 'data.csv' holds only 'a'; there is nothing to learn"),
        (["5", "5.0", "5"], "auto", "holds only '5'"),
        ([None, None, None], "auto", "has no values"),
        (["1", "two", "3"], "regression", "line 3, column 'y': expected a number; got 'two'"),
        (["1", "inf", "3"], "regression", "line 3, column 'y': expected a number; got 'inf'"),
        (["1", "1e999", "3"], "regression", "line 3, column 'y': expected a number; got '1e999'"),
        (["1", "2", "3"], "ranking", "task must be one of"),
        (["007", "1200", "3"], "regression", "line 2, column 'y': expected a number; got '007'"),
        (["1,5", "1200", "3"], "regression", "--decimal and --thousands say how numbers are written"),
    ],
)
def test_targets_that_cannot_be_learned(entries: list[Any], task: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        source_of(table({"x": ["1", "2", "3"], "y": entries}), "y", task=task)
    assert message in str(caught.value)


def test_markers_of_missing_targets_count_among_numbers_only() -> None:
    numbers = table({"x": list("12345"), "y": ["1", ".", "2.5", "3", "."]})
    source = source_of(numbers, "y")
    assert source.kind == "number"
    assert targets_of(source, with_target(source, numbers)).tolist() == [1.0, 2.5, 3.0]
    text = table({"x": list("1234"), "y": ["a", ".", "a", "."]})
    source = source_of(text, "y")
    assert targets_of(source, with_target(source, text)).tolist() == ["a", ".", "a", "."]


def test_inputs_are_the_other_columns_by_name() -> None:
    rows = rows_table()
    source = source_of(rows, "label", weights="price", drop=["grade"])
    assert list(inputs_in(source, ["grade"], rows).columns) == ["size", "colour", "smooth"]
    model = trained("label")
    shuffled = rows[["colour", "grade", "smooth", "size"]]
    pd.testing.assert_frame_equal(inputs_of(model, shuffled), inputs_of(model, rows))
    with pytest.raises(InvalidInputError, match=r"data\.csv' has no columns 'size', 'smooth'; it has 'colour'"):
        inputs_of(model, rows[["colour"]])
    with pytest.raises(InvalidInputError, match=r"the data frame has no column 'size'; .* did you mean 'sise'"):
        inputs_of(model, pd.DataFrame({"sise": [1.0], "colour": ["red"], "smooth": ["y"]}))


def test_weights_are_numbers_that_are_not_negative() -> None:
    columns: dict[str, list[Any]] = {"x": list("1234"), "y": list("abab")}
    source = TableSource("y", "w")
    assert weights_of(TableSource("y"), table(columns)) is None
    assert weights_of(source, table({**columns, "w": ["1", "0", "2.5", "1e3"]})).tolist() == [1.0, 0.0, 2.5, 1000.0]
    for entries, message in (
        (["1", "-1", "-2", "1"], "'data.csv', column 'w': 2 of 4 rows have a negative weight, the first in line 3"),
        (["1", "1", None, "1"], "1 of 4 rows have no weight, the first in line 4; weights must be numbers >= 0"),
        (["1", "many", "1", "1"], "line 3, column 'w': expected a number; got 'many'"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            weights_of(source, table({**columns, "w": entries}))
        assert message in str(caught.value)


# -- rows held out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "share"), [(10, 0.9), (10, 0.2), (569, 0.2), (7, 0.0), (3, 0.5)])
def test_the_split_is_seeded_and_complete(n: int, share: float) -> None:
    rows = table({"x": [str(k) for k in range(n)], "y": ["a"] * n})
    source = TableSource("y", seed=3, test_size=share)
    train, test = split(source, rows)
    assert sorted(train.index.tolist() + test.index.tolist()) == rows.index.tolist()
    assert len(train) == math.floor(round((1 - share) * n, 6))
    again = split(source, rows)
    for one, other in zip((train, test), again, strict=True):
        pd.testing.assert_frame_equal(one, other)
    if n > 100:
        assert split(replace(source, seed=4), rows)[0].index.tolist() != train.index.tolist()


def test_rows_without_target_or_weight_are_left_out() -> None:
    rows = table({"x": list("123456"), "y": ["a", None, "b", "a", None, "b"], "w": ["1", "1", "0", "2", "1", "1"]})
    train, test = split(TableSource("y", "w"), rows)
    assert sorted(train.index) == [2, 5, 7]
    assert len(test) == 0


def test_nothing_is_learned_from_the_held_out_rows() -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, list[Any]] = {
        "x": [f"{value:.3f}" for value in rng.normal(size=40)],
        "c": [str(value) for value in rng.choice(["p", "q", "r"], 40)],
        "y": [f"{value:.3f}" for value in rng.normal(size=40)],
    }
    changed = copy.deepcopy(columns)
    for line in split(TableSource("y", test_size=0.2), table(columns))[1].index:
        changed["x"][line - 2], changed["c"][line - 2], changed["y"][line - 2] = "word", "elsewhere", "-99"
    first, second = (
        fit_to(qsdp.QuantizedNetworkRegressor(random_state=0), table(one), "y", test_size=0.2)
        for one in (columns, changed)
    )
    assert first.encoder_.inputs_.encoding_ == second.encoder_.inputs_.encoding_
    assert first.table_ == second.table_
    np.testing.assert_array_equal(first.network_.U, second.network_.U)
    np.testing.assert_array_equal(first.network_.weights, second.network_.weights)


# -- the problem of a model ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, *REFINED])
def test_the_problem_on_its_table_is_that_of_the_fit(kind: str, tmp_path: Path) -> None:
    model = trained(kind)
    fitted = model.result_.problem
    model.save(tmp_path / "model.qsdp")
    for one in (model, qsdp.load(tmp_path / "model.qsdp")):
        problem = problem_on(one, rows_table())
        assert (problem.beta, problem.loss.name, problem.levels) == (fitted.beta, fitted.loss.name, fitted.levels)
        assert problem.activation == fitted.activation
        np.testing.assert_array_equal(problem.X, fitted.X)
        np.testing.assert_array_equal(problem.y, fitted.y)
        assert problem.sample_weight is fitted.sample_weight is None
        assert problem.objective(one.network_) == model.certificate_.objective
        assert one._trained_beta == fitted.beta
        assert problem_if_trained(one, rows_table()) == problem


@pytest.mark.parametrize("kind", KINDS)
def test_another_table_has_another_problem(kind: str, tmp_path: Path) -> None:
    model, text = trained(kind), rows_csv()
    for other in (
        rows_csv(seed=1),
        text.replace("red", "pink"),
        text.rsplit("\n", 2)[0] + "\n",
        text.replace(",small,", ",tiny,").replace(",low", ",none").replace(".", ".1"),
    ):
        rows = read_table(write(tmp_path, other))
        assert None is problem_if_trained(model, rows)
        with pytest.raises(InvalidInputError, match="not the file this model was trained on"):
            problem_on(model, rows)
    # Blanks and columns that are not used do not count.
    rows = read_table(
        write(tmp_path, text.replace(",", " , ").replace("size", "new,size", 1).replace("\n", "\n1,", 60))
    )
    assert problem_if_trained(model, rows) is not None
    with pytest.raises(InvalidInputError, match="has no column"):
        problem_on(model, table({"a": ["1"]}))


def test_targets_are_read_in_the_kind_of_training() -> None:
    source = source_of(table({"x": list("1234"), "y": ["1.5", "2.5", "3.5", "4"]}), "y")
    assert targets_of(source, table({"y": ["2", "7.25"]})).tolist() == [2.0, 7.25]
    with pytest.raises(InvalidInputError, match="line 3, column 'y': expected a number; got '5%'"):
        targets_of(source, table({"y": ["2", "5%"]}))
    days = source_of(table({"x": list("1234"), "y": [f"2024-01-0{k}" for k in range(1, 5)]}), "y")
    assert targets_of(days, table({"y": ["1970-01-02", "1970-01-01T12Z"]})).tolist() == [1.0, 0.5]
    with pytest.raises(InvalidInputError, match="line 3, column 'y': expected a date; got '5'"):
        targets_of(days, table({"y": ["2024-01-01", "5"]}))


# -- labels: as written, and the same from text and from typed columns -------------------------------------


def column(entries: list[Any]) -> pd.Series:
    return pd.Series(entries, dtype=object)


@pytest.mark.parametrize(
    ("entries", "labels"),
    [
        (["b", "a", "b"], ["b", "a", "b"]),
        (["5%", "10%", "none"], ["5%", "10%", "none"]),
        (["2024-01-01", "2024-01-02"], ["2024-01-01", "2024-01-02"]),
        (["007", "7"], ["007", "7"]),
        (["1", "1.0", "0", "0.0"], [1, 1, 0, 0]),
        (["1.0", "1", "2.0"], ["1", "1", "2.0"]),
        (["10", "9", "-2"], [10, 9, -2]),
        (["1.5", "2"], ["1.5", "2"]),
        (["1", "x"], ["1", "x"]),
        ([1.0, 2.0], [1, 2]),
        ([1.5, 2.0], ["1.5", "2"]),
        ([True, False], ["True", "False"]),
        (["12345678901234567", "12345678901234568"], [12345678901234567, 12345678901234568]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["-0", "0"], [0, 0]),
    ],
)
def test_labels_are_integers_or_text_as_written(entries: list[Any], labels: list[Any]) -> None:
    found = labels_of(column(entries))
    assert found.tolist() == labels
    assert found.dtype == (np.int64 if isinstance(labels[0], int) else object)


def test_labels_of_other_rows_are_written_as_those_of_training() -> None:
    assert labels_of(column(["1.0", "2", "07"]), [1, 2]).tolist() == [1, 2, "07"]
    assert labels_of(column(["1.0", "other"]), [1, 2]).tolist() == [1, "other"]
    assert labels_of(column([1, 2]), ["1.0", "2.0"]).tolist() == ["1.0", "2.0"]
    assert labels_of(column(["TRUE", True, "false"]), ["False", "True"]).tolist() == ["True", "True", "False"]
    assert labels_of(column(["YES", "yes"]), ["no", "yes"]).tolist() == ["YES", "yes"]
    assert labels_of(column(["1", "2"]), [1, 2]).dtype == np.int64
