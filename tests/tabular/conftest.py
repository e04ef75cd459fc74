"""A file and the models trained on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tabular_data import rows_csv, write

import qsdp
from qsdp.tabular import TabularModel, prepare, read_table

# The search for doctests imports all files, and conftest is the name of another one already.
collect_ignore = ["conftest.py"]


@pytest.fixture(scope="session")
def csv_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tabular"), rows_csv())


@pytest.fixture(scope="session", params=["label", "price"])
def model(request: pytest.FixtureRequest, csv_file: Path) -> TabularModel:
    drop = ["price" if request.param == "label" else "label"]
    training = prepare(read_table(csv_file), request.param, drop=drop)
    result = qsdp.solve_and_sample(training.X, training.y, n_neurons=50, beta=1.0, random_state=0)
    return training.model(result)
