"""Models of refined networks: their bounds hold for all that is made of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tabular_data import replaced

import qsdp
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.storage import read_archive, write_archive
from qsdp.tabular import TabularModel, load_model, read_table


def is_exact(model: TabularModel) -> bool:
    """Whether the gap is closed, which no sampled network does."""
    assert model.objective is not None
    return model.objective - model.lower_bound <= 1e-6 * model.objective


def test_the_bound_is_the_best_known(refined: TabularModel, csv_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    refined.save(path)
    loaded = load_model(path)
    solution, read = loaded.solution, read_table(csv_file)
    assert loaded.objective is not None
    assert solution.lower_bound <= loaded.lower_bound == solution.best_bound <= loaded.objective * (1.0 + 1e-9)
    assert (solution.improved_bound is not None) == is_exact(loaded)
    np.testing.assert_array_equal(loaded.outputs(read), refined.outputs(read))
    assert list(loaded.predict(read)) == list(refined.predict(read))
    evaluated = loaded.evaluated(read)
    assert evaluated.lower_bound == loaded.lower_bound
    assert evaluated.objective == pytest.approx(loaded.objective, rel=1e-12)
    loaded.save(tmp_path / "again.qsdp")
    assert (tmp_path / "again.qsdp").read_bytes() == path.read_bytes()


def test_resampled_networks_are_sampled_ones(refined: TabularModel, csv_file: Path) -> None:
    read = read_table(csv_file)
    other = refined.resample(300, 0)
    assert (other.network.n_neurons, other.network.shared_alpha, other.objective) == (300, True, None)
    known = other.evaluated(read)
    assert known.objective is not None
    assert known.lower_bound == refined.lower_bound <= known.objective


@pytest.mark.parametrize("levels", [2, 3, 4, 6])
def test_bounds_for_other_levels_are_below_the_optimum(refined: TabularModel, csv_file: Path, levels: int) -> None:
    solution = refined.solution
    problem = refined.problem(read_table(csv_file)).with_levels(levels)
    optimum = qsdp.column_generation(problem, time_limit=20.0)
    assert optimum.status == "optimal"
    bound = solution.bound(levels, refined.beta)
    assert 0.0 < bound <= solution.bound_with(problem) <= optimum.objective * (1.0 + 1e-9)
    # Each of the two bounds, carried over by itself.
    weighted = replace(solution, improved_bound=None).bound(levels, refined.beta)
    alone = replace(solution, lower_bound=0.0, improved_bound=solution.best_bound).bound(levels, refined.beta)
    assert alone > 0.0
    assert max(weighted, alone) == bound
    # And back, from the model with other levels.
    back = refined.resample(50, 0, levels=levels).resample(50, 0, levels=solution.levels)
    assert back.lower_bound == refined.lower_bound


def test_its_problem_is_that_of_the_file_it_was_trained_on(refined: TabularModel, csv_file: Path) -> None:
    problem = refined.problem(read_table(csv_file))
    assert problem.objective(refined.network) == pytest.approx(refined.objective, rel=1e-12)
    assert (problem.loss.name, problem.beta, problem.levels) == (refined.loss, refined.beta, refined.network.levels)
    with pytest.raises(InvalidInputError, match="not the file this model was trained on"):
        refined.problem(read_table(csv_file).take(range(1, 60)))


def test_bounds_that_contradict_each_other(refined: TabularModel, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    refined.save(path)
    _, header, arrays = read_archive(path, "tabular-model")
    improved = ("relaxation", "improved_bound")
    wrong = [
        replaced(header, improved, header["relaxation"]["lower_bound"]),
        replaced(header, improved, -1.0),
        replaced(header, improved, 1.1 * header["objective"]),
        replaced(header, ("lower_bound",), 0.5 * header["lower_bound"]),
        replaced(replaced(header, improved, 1.1 * header["objective"]), ("lower_bound",), 1.1 * header["objective"]),
    ]
    if is_exact(refined):
        wrong.append(replaced(header, improved, None))
    for header in wrong:
        write_archive(path, "tabular-model", header, arrays)
        with pytest.raises(StorageError, match="not a valid model"):
            load_model(path)
