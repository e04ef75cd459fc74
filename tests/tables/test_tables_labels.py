"""Labels come back as written, and are the same from text and from typed columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_files import fit_to, table

import qsdp
from qsdp.tables.training_tables import inputs_of, labels_of


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


@given(st.lists(st.sampled_from(["1", "1.0", "01", "2.", "2", "x", "-3", "-3.00"]), min_size=1), st.randoms())
def test_labels_do_not_depend_on_the_order_of_rows(entries: list[str], rng: Any) -> None:
    found = dict(zip(entries, labels_of(column(entries)).tolist(), strict=True))
    rng.shuffle(entries)
    assert dict(zip(entries, labels_of(column(entries)).tolist(), strict=True)) == found


def test_labels_of_other_rows_are_written_as_those_of_training() -> None:
    assert labels_of(column(["1.0", "2", "07"]), [1, 2]).tolist() == [1, 2, "07"]
    assert labels_of(column(["1.0", "other"]), [1, 2]).tolist() == [1, "other"]
    assert labels_of(column([1, 2]), ["1.0", "2.0"]).tolist() == ["1.0", "2.0"]
    assert labels_of(column(["TRUE", True, "false"]), ["False", "True"]).tolist() == ["True", "True", "False"]
    assert labels_of(column(["YES", "yes"]), ["no", "yes"]).tolist() == ["YES", "yes"]
    assert labels_of(column(["1", "2"]), [1, 2]).dtype == np.int64


@pytest.mark.parametrize("labels", [["5%", "10%", "none"], ["007", "7", "70"], ["1", "2", "3"], ["None.", "NO", "no"]])
def test_predictions_are_labels_of_the_file(labels: list[str]) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 60)
    rows = table({"a": [f"{code + 0.1 * rng.normal():.3f}" for code in codes], "y": [labels[code] for code in codes]})
    model = fit_to(qsdp.QuantizedNetworkClassifier(random_state=0), rows, "y", task="classification", test_size=0.0)
    predicted = model.predict(inputs_of(model, rows))
    assert set(map(str, predicted.tolist())) == set(labels)
    assert np.mean(predicted.astype(str) == rows["y"].to_numpy().astype(str)) > 0.9
