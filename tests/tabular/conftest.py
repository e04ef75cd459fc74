"""A file and the models trained on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tabular_data import rows_csv, write

import qsdp
from qsdp.activations import get_activation
from qsdp.options import TrainingOptions
from qsdp.tabular import TabularModel, prepare, read_table

# The search for doctests imports all files, and conftest is the name of another one already.
collect_ignore = ["conftest.py"]


@pytest.fixture(scope="session")
def csv_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tabular"), rows_csv())


#: Target, loss, activation, levels and refinement of the models.
KINDS: dict[str, tuple[str, str, str | None, int, str]] = {
    "label": ("label", "squared", None, 2, "none"),
    "price": ("price", "squared", None, 2, "none"),
    "grade": ("grade", "squared", "relu_like", 3, "none"),
    "entropy": ("label", "cross_entropy", None, 4, "none"),
}
REFINED: dict[str, tuple[str, str, str | None, int, str]] = {
    "refitted": ("grade", "squared", None, 2, "refit"),
    "polished": ("price", "absolute", "relu_like", 3, "polish"),
    "exact": ("label", "squared", None, 2, "exact"),
    "exact hinge": ("label", "hinge", None, 3, "exact"),
    "exact lifted": ("label", "logistic", "relu_like", 3, "exact"),
    "exact outputs": ("grade", "squared", "relu_like", 3, "exact"),
    "exact coupled": ("grade", "cross_entropy", None, 2, "exact"),
}


@pytest.fixture(scope="session", params=KINDS)
def model(request: pytest.FixtureRequest, csv_file: Path) -> TabularModel:
    return trained(csv_file, *KINDS[request.param])


@pytest.fixture(scope="session", params=REFINED)
def refined(request: pytest.FixtureRequest, csv_file: Path) -> TabularModel:
    return trained(csv_file, *REFINED[request.param])


def trained(csv_file: Path, target: str, loss: str, activation: str | None, levels: int, refine: str) -> TabularModel:
    drop = [name for name in ("label", "price", "grade") if name != target]
    sigma = get_activation(activation)
    training = prepare(read_table(csv_file), target, loss=loss, activation=sigma, drop=drop)
    result = qsdp.solve_and_sample(
        training.X,
        training.y,
        n_neurons=50,
        beta=1.0,
        loss=loss,
        activation=sigma,
        levels=levels,
        refine=refine,
        random_state=0,
    )
    return training.model(result, TrainingOptions())
