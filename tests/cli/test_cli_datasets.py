"""`qsdp datasets`."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from cli_program import run

import qsdp

NAMES = ("breast-cancer-wisconsin", "diabetes", "iris", "wine", "digits")


def test_the_sets_are_listed_with_their_sizes() -> None:
    heading, *rows = run("datasets").stdout.splitlines()
    assert heading.split() == ["name", "rows", "columns", "task", "about"]
    assert [row.split()[0] for row in rows] == list(NAMES)
    for row in rows:
        name, n_rows, n_columns, task, about = row.split(maxsplit=4)
        data = qsdp.datasets.load_bundled(name)
        assert (int(n_rows), int(n_columns)) == data.X.shape
        assert task == data.task
        assert data.description.startswith(f"{name}: {about}.")


@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_is_written_as_csv(name: str) -> None:
    data = qsdp.datasets.load_bundled(name)
    heading, *rows = csv.reader(run("datasets", name).stdout.splitlines())
    assert heading == [*data.feature_names, "target"]
    np.testing.assert_array_equal(np.array([row[:-1] for row in rows], dtype=float), data.X)
    targets = [row[-1] for row in rows]
    if data.task == "regression":
        np.testing.assert_array_equal(np.array(targets, dtype=float), data.y)
    else:
        codes = np.unique(data.y, return_inverse=True)[1]
        assert targets == [data.target_names[code] for code in codes]


def test_an_unknown_data_set_is_refused() -> None:
    result = run("datasets", "iri")
    assert result.exit_code == 2
    assert "'iri'" in result.stderr
