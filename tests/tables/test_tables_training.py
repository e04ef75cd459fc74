"""Tables made ready for training."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qsdp.tabular import Holdout, choose_encoding, prepare, read_table
from tabular_data import table

from qsdp.activations import get_activation
from qsdp.encoding.scales import NO_GAIN
from qsdp.estimators import EstimatorOptions
from qsdp.exceptions import InvalidInputError, QSDPWarning


@pytest.mark.parametrize(
    ("entries", "task", "message"),
    [
        (["a", "a", "a"], "auto", "holds only 'a'"),
        (["5", "5.0", "5"], "auto", "holds only '5'"),
        ([None, None, None], "auto", "has no values"),
        (["1", "two", "3"], "regression", "line 3, column 'y': expected a number; got 'two'"),
        (["1", "inf", "3"], "regression", "line 3, column 'y': expected a finite number"),
        (["1", "2", "3"], "ranking", "task must be one of"),
    ],
)
def test_targets_that_cannot_be_learned(entries: list[str | None], task: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        prepare(table({"x": ["1", "2", "3"], "y": entries}), "y", task=task, test_size=0.0)
    assert message in str(caught.value)


def test_more_than_a_hundred_classes_are_refused_and_ten_listed() -> None:
    labels: list[str | None] = [f"c{i:03}" for i in range(101)]
    numbers: list[str | None] = [str(i) for i in range(101)]
    with pytest.raises(InvalidInputError, match=r"101 classes, at most 100 .*'c009' \(1\), and 91 more$"):
        prepare(table({"x": numbers, "y": labels}), "y")
    with pytest.raises(InvalidInputError, match=r"'9' \(1\), and 91 more; use --task regression"):
        prepare(table({"x": numbers, "y": numbers}), "y", task="classification")
    assert prepare(table({"x": numbers[:100], "y": labels[:100]}), "y", test_size=0.0).y.shape == (100, 100)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "cross_entropy"])
def test_losses_of_classes_are_refused_for_a_number(csv_file: Path, loss: str) -> None:
    with pytest.raises(InvalidInputError, match=f"loss '{loss}' is for classes, but target 'price' is a number"):
        prepare(read_table(csv_file), "price", loss=loss)


def test_the_constant_column_is_there_unless_the_activation_has_one(csv_file: Path) -> None:
    read = read_table(csv_file)
    plain = prepare(read, "label", drop=["price"])
    for name, n_more in ((None, 1), ("quadratic", 1), ("relu_like", 0), ("linear_quadratic", 0)):
        X = prepare(read, "label", drop=["price"], activation=get_activation(name)).X
        assert X.shape[1] == plain.encoder.width + n_more
        np.testing.assert_array_equal(X[:, : plain.encoder.width], plain.X[:, :-1])


def test_a_chosen_encoding_has_the_inputs_that_help(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(150, 6))
    lines = [",".join(map(repr, [*row, row[0] * row[1] + row[0]])) for row in X.tolist()]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,e,f,y", *lines]))
    options = EstimatorOptions(random_state=0)
    standard = prepare(read_table(tmp_path / "t.csv"), "y", activation=get_activation(options.activation))
    chosen = choose_encoding(standard, options)
    names = [column.name for column in chosen.encoder.columns]
    assert {"a", "b"} <= set(names) < set("abcdef")
    assert chosen.encoder.dropped == {name: NO_GAIN for name in "abcdef" if name not in names}
    np.testing.assert_array_equal(chosen.X, chosen.encoder.encode(chosen.train))


def test_classes_without_a_training_row_are_left_out_with_a_warning() -> None:
    held_out = Holdout(0, 0.2).split(10)[1]
    labels: list[str | None] = [*"abababacab"]
    labels[held_out[0]] = "rare"
    labels = [label if i in held_out else "ab"[i % 2] for i, label in enumerate(labels)]
    read = table({"x": list("0123456789"), "y": labels})
    with pytest.warns(QSDPWarning, match="no training row has the class 'rare' of target 'y'"):
        training = prepare(read, "y")
    assert training.target.classes == ("a", "b")
    assert -1.0 in training.target.truth(training.test)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "labl"}, "no column 'labl'; it has .*did you mean 'label'"),
        ({"drop": ["x", "y"]}, "no columns 'x', 'y'"),
        ({"drop": ["label"]}, "both the target and dropped"),
        ({"drop": ["size", "colour", "smooth", "price", "grade"]}, "no column left to learn from"),
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
