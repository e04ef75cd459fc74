"""Saved estimators of refined networks: their bounds hold for all that is made of them."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_files import REFINED, replaced, rows_table, trained

import qsdp
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.storage import ESTIMATOR_KIND, read_archive, write_archive
from qsdp.tables.training import inputs_of, problem_on


@pytest.fixture(params=REFINED)
def refined(request: pytest.FixtureRequest) -> Any:
    return trained(request.param)


def is_exact(model: Any) -> bool:
    """Whether the gap is closed, which no sampled network does."""
    certificate = model.certificate_
    return bool(certificate.objective - certificate.lower_bound <= 1e-6 * certificate.objective)


def test_the_bound_is_the_best_known(refined: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    refined.save(path)
    loaded, rows = qsdp.load(path), inputs_of(refined, rows_table())
    solution, certificate = loaded._solution_of_relaxation(), loaded.certificate_
    assert solution.lower_bound <= certificate.lower_bound == solution.best_bound
    assert certificate.lower_bound <= certificate.objective * (1.0 + 1e-9)
    assert (solution.improved_bound is not None) == is_exact(loaded)
    np.testing.assert_array_equal(loaded.predict(rows), refined.predict(rows))
    problem = problem_on(loaded, rows_table())
    assert problem.objective(loaded.network_) == pytest.approx(certificate.objective, rel=1e-12)
    assert solution.bound_with(problem) == certificate.lower_bound
    loaded.save(tmp_path / "again.qsdp")
    assert (tmp_path / "again.qsdp").read_bytes() == path.read_bytes()


def test_resampled_networks_are_sampled_ones(refined: Any, tmp_path: Path) -> None:
    refined.save(tmp_path / "model.qsdp")
    other = qsdp.load(tmp_path / "model.qsdp").resample(300, 0)
    assert (other.network_.n_neurons, other.network_.shared_alpha) == (300, True)
    assert np.isnan(other.certificate_.objective)
    problem = problem_on(other, rows_table())
    assert other.certificate_.lower_bound == refined.certificate_.lower_bound <= problem.objective(other.network_)


@pytest.mark.parametrize("levels", [2, 3, 4, 6])
def test_bounds_for_other_levels_are_below_the_optimum(refined: Any, tmp_path: Path, levels: int) -> None:
    solution, beta = refined._solution_of_relaxation(), refined._trained_beta
    problem = problem_on(refined, rows_table()).with_levels(levels)
    optimum = qsdp.column_generation(problem, time_limit=20.0)
    assert optimum.status == "optimal"
    bound = solution.bound(levels, beta)
    assert 0.0 < bound <= solution.bound_with(problem) <= optimum.objective * (1.0 + 1e-9)
    # Each of the two bounds, carried over by itself.
    weighted = replace(solution, improved_bound=None).bound(levels, beta)
    alone = replace(solution, lower_bound=0.0, improved_bound=solution.best_bound).bound(levels, beta)
    assert alone > 0.0
    assert max(weighted, alone) == bound
    # And back, from the model with other levels.
    refined.save(tmp_path / "model.qsdp")
    back = qsdp.load(tmp_path / "model.qsdp").resample(50, 0, levels=levels).resample(50, 0, levels=solution.levels)
    assert back.certificate_.lower_bound == refined.certificate_.lower_bound


def test_its_problem_is_that_of_the_table_it_was_trained_on(refined: Any) -> None:
    problem, certificate = problem_on(refined, rows_table()), refined.certificate_
    assert problem.objective(refined.network_) == pytest.approx(certificate.objective, rel=1e-12)
    assert (problem.loss.name, problem.beta, problem.levels) == (refined.loss, 1.0, refined.network_.levels)
    with pytest.raises(InvalidInputError, match="not the file this model was trained on"):
        problem_on(refined, rows_table()[1:])


def test_bounds_that_contradict_each_other(refined: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    refined.save(path)
    kind, header, arrays = read_archive(path, ESTIMATOR_KIND)
    improved, lower, objective = ("relaxation", "improved_bound"), ("certificate", "lower_bound"), header["certificate"]
    wrong = [
        replaced(header, improved, header["relaxation"]["lower_bound"]),
        replaced(header, improved, -1.0),
        replaced(header, improved, 1.1 * objective["objective"]),
        replaced(header, lower, 0.5 * objective["lower_bound"]),
        replaced(replaced(header, improved, 1.1 * objective["objective"]), lower, 1.1 * objective["objective"]),
    ]
    if is_exact(refined):
        wrong.append(replaced(header, improved, None))
    for changed in wrong:
        write_archive(path, kind, changed, copy.copy(arrays))
        with pytest.raises(StorageError, match="not a valid estimator"):
            qsdp.load(path)
