"""Rows out equal rows in: predictions for tables in which any cells hold any text."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.tables import read_table, table_chunks

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.exceptions.QSDPWarning")

COLUMNS = {
    "size": [f"{k * 37 % 41 / 4}" for k in range(60)],
    "day": [f"2024-01-{k % 28 + 1:02d}" for k in range(60)],
    "kind": [("red", "green", "blue")[k % 3] for k in range(60)],
    "on": [("true", "False")[k * 7 % 5 % 2] for k in range(60)],
}
TARGET = np.array([k * 37 % 41 / 4 * (1 + k % 3) for k in range(60)])
#: Text that files in UTF-8 can hold; some of it means something to a reader of tables.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6) | st.sampled_from(
    [
        "",
        "none",
        "N/A",
        "?",
        "1e999",
        "-inf",
        "nan",
        "years",
        "1,5",
        "12 kg",
        "2024-13-01",
        "size",
        "#",
        '"',
        "\r\n",
        "sep=;",
    ]
)


def written(folder: Path, columns: dict[str, list[str]], newline: str = "\n") -> Path:
    with open(folder / "rows.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator=newline, quoting=csv.QUOTE_ALL)
        writer.writerows([list(columns), *zip(*columns.values(), strict=True)])
    return folder / "rows.csv"


@cache
def model_of(names: tuple[str, ...], folder: Path) -> Any:
    table = read_table(written(folder, {name: COLUMNS[name] for name in names}))
    model = qsdp.QuantizedNetworkRegressor(10, beta="20%", encoding="both", refine="none", random_state=0)
    return model.fit(table, TARGET)


@settings(max_examples=40, deadline=None)
@given(
    names=st.sampled_from([tuple(COLUMNS), ("size",), ("day",), ("kind",), ("kind", "on")]),
    n=st.integers(1, 12),
    newline=st.sampled_from(["\n", "\r\n"]),
    data=st.data(),
)
def test_any_table_has_a_prediction_for_every_row(
    names: tuple[str, ...], n: int, newline: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    model = model_of(names, folder)
    columns = {name: COLUMNS[name][:n] for name in names}
    for name in names:
        for row in data.draw(st.sets(st.integers(0, n - 1))):
            columns[name][row] = data.draw(TEXTS)
    path = written(folder, columns, newline)
    table = read_table(path)
    try:
        predictions = model.predict(table)
    except InvalidInputError:
        with pytest.raises(InvalidInputError, match="in which most of its entries here cannot be read"):
            model.predict(table)
        return
    assert len(predictions) == n
    assert np.isfinite(predictions).all()
    assert sum(map(len, table_chunks(path, 5))) == n


@pytest.mark.parametrize("first", ["none", "NONE", "years", "age", "?"])
def test_a_word_above_numbers_is_a_row(tmp_path: Path, first: str) -> None:
    model = model_of(("size",), tmp_path)
    rest = COLUMNS["size"][:30]
    table = read_table(written(tmp_path, {"size": [first, *rest]}))
    plain = read_table(written(tmp_path, {"size": ["", *rest]}))
    np.testing.assert_array_equal(model.predict(table), model.predict(plain))
    np.testing.assert_array_equal(model.predict(plain)[1:], model.predict(plain.iloc[1:]))
