"""A file and the models trained on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tabular_data import rows_csv, write

import qsdp
from qsdp.activations import get_activation
from qsdp.tabular import TabularModel, prepare, read_table

# The search for doctests imports all files, and conftest is the name of another one already.
collect_ignore = ["conftest.py"]


@pytest.fixture(scope="session")
def csv_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tabular"), rows_csv())


#: Target, loss, activation and levels of the models.
KINDS: dict[str, tuple[str, str, str | None, int]] = {
    "label": ("label", "squared", None, 2),
    "price": ("price", "squared", None, 2),
    "grade": ("grade", "squared", "relu", 3),
    "entropy": ("label", "cross_entropy", None, 4),
}


@pytest.fixture(scope="session", params=KINDS)
def model(request: pytest.FixtureRequest, csv_file: Path) -> TabularModel:
    target, loss, activation, levels = KINDS[request.param]
    drop = [name for name in ("label", "price", "grade") if name != target]
    sigma = get_activation(activation)
    training = prepare(read_table(csv_file), target, loss=loss, activation=sigma, drop=drop)
    result = qsdp.solve_and_sample(
        training.X, training.y, n_neurons=50, beta=1.0, loss=loss, activation=sigma, levels=levels, random_state=0
    )
    return training.model(result)
