"""Solutions of saved estimators: bounds and networks of other sizes and levels, without the data."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_files import KINDS, rows_table, table, trained

import qsdp
from qsdp.estimators.solution import Solution
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.tables.training import inputs_of, problem_on


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> Any:
    return trained(request.param)


def stored(model: Any, tmp_path: Path) -> Any:
    model.save(tmp_path / "stored.qsdp")
    return qsdp.load(tmp_path / "stored.qsdp")


def solution_of(model: Any) -> tuple[Solution, float]:
    return model._solution_of_relaxation(), model._trained_beta


def test_the_solution_survives_its_file(model: Any, tmp_path: Path) -> None:
    loaded = stored(model, tmp_path)
    (solution, beta), (expected, own) = solution_of(loaded), solution_of(model)
    assert beta == own == 1.0
    for name in ("Z", "V", "rho", "weights"):
        np.testing.assert_array_equal(getattr(solution, name), getattr(expected, name))
    for name in ("levels", "activation", "lower_bound", "improved_bound", "shaping"):
        assert getattr(solution, name) == getattr(expected, name), name
    assert loaded.table_ == model.table_
    rows = inputs_of(model, rows_table())
    np.testing.assert_array_equal(loaded.network_.U, model.network_.U)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))


def test_a_network_with_free_second_layer_survives_too(model: Any, tmp_path: Path) -> None:
    network = model.network_
    alpha = np.linspace(0.0, 1.0, network.alpha.size).reshape(network.alpha.shape)
    model.network_ = qsdp.BilinearNetwork(network.U, network.V, alpha, network.levels, network.activation)
    np.testing.assert_array_equal(stored(model, tmp_path).network_.alpha, alpha)


def test_resampling_needs_only_the_file(model: Any, tmp_path: Path) -> None:
    loaded = stored(model, tmp_path)
    larger = copy.copy(loaded).resample(400, 1)
    assert larger.network_.n_neurons == 400
    assert np.isnan(larger.certificate_.objective)
    assert larger.certificate_.lower_bound == model.certificate_.lower_bound
    assert problem_on(larger, rows_table()).objective(larger.network_) >= model.certificate_.lower_bound
    again = loaded.resample(50, 0)
    np.testing.assert_array_equal(again.network_.U, model.network_.U)
    objective = problem_on(again, rows_table()).objective(again.network_)
    assert objective == pytest.approx(model.certificate_.objective, rel=1e-12)


@pytest.mark.parametrize("levels", [2, 5])
def test_resampling_other_levels_needs_only_the_file(model: Any, tmp_path: Path, levels: int) -> None:
    other = stored(model, tmp_path).resample(3000, 1, levels=levels)
    assert (other.network_.levels, other.network_.activation) == (levels, model.network_.activation)
    problem = problem_on(other, rows_table())
    bound = solution_of(other)[0].bound_with(problem)
    assert 0.0 < other.certificate_.lower_bound <= bound <= problem.objective(other.network_)
    # Nothing is lost on the way: the levels that were solved for come back with their bound.
    back = stored(other, tmp_path).resample(50, 0, levels=model.network_.levels)
    assert back.certificate_.lower_bound == model.certificate_.lower_bound
    np.testing.assert_array_equal(back.network_.U, model.network_.U)


@pytest.mark.parametrize("before", [2, 5])
def test_a_resampled_estimator_is_saved_with_the_solution_that_was_solved_for(
    model: Any, tmp_path: Path, before: int
) -> None:
    loaded = stored(copy.copy(model).resample(30, 0, levels=before), tmp_path)
    assert (loaded.network_.levels, solution_of(loaded)[0].levels) == (before, model.network_.levels)
    for levels in (None, 2, 3, 5):
        found = copy.copy(loaded).resample(30, 1, levels=levels)
        expected = copy.copy(model).resample(30, 1, levels=levels or before, refine="none")
        np.testing.assert_array_equal(found.network_.U, expected.network_.U)
        np.testing.assert_array_equal(found.network_.V, expected.network_.V)
        np.testing.assert_allclose(found.network_.alpha, expected.network_.alpha, rtol=1e-12)
        bound, least = expected.certificate_.lower_bound, found.certificate_.lower_bound
        if expected.network_.levels in {before, model.network_.levels}:
            assert least == pytest.approx(bound, rel=1e-9)
        else:
            assert 0.0 < least <= bound * (1.0 + 1e-9)


@pytest.mark.parametrize("levels", [2, 3, 4, 6])
def test_bounds_for_other_levels_hold_and_predictions_stay(model: Any, levels: int) -> None:
    solution, beta = solution_of(model)
    problem = problem_on(model, rows_table()).with_levels(levels)
    optimum = qsdp.solve_relaxation(problem).objective
    assert solution.bound(levels, beta) <= solution.bound_with(problem) <= optimum * (1.0 + 1e-9)
    solved = problem.with_levels(solution.levels)
    Z, V, rho = solution.blocks(levels)
    for k in range(solution.n_outputs):
        expected = solved.map.forward(solution.Z[k])
        np.testing.assert_allclose(problem.map.forward(Z[k]), expected, atol=1e-12 * np.abs(expected).max())
        np.testing.assert_array_equal(V[k].diagonal(), rho[k])
        assert np.linalg.eigvalsh(np.block([[V[k], Z[k]], [Z[k], V[k]]]))[0] > -1e-9 * rho[k]


def test_the_covariance_is_that_of_training(model: Any) -> None:
    solution, _ = solution_of(model)
    relaxation = qsdp.solve_relaxation(problem_on(model, rows_table()), tol=1e-6)
    found, expected = (
        solution.covariance(solution.levels, model.network_.output_shape),
        qsdp.shape_covariance(relaxation),
    )
    for one, other in zip(*(one if isinstance(one, list) else [one] for one in (found, expected)), strict=True):
        np.testing.assert_array_equal(one.Q, other.Q)
        np.testing.assert_array_equal(one.replica_correlation, other.replica_correlation)
        assert (one.rho, one.levels, one.activation) == (other.rho, other.levels, other.activation)


def test_a_solution_that_is_zero(tmp_path: Path) -> None:
    rows = table({"x": ["1", "2", "3", "4"], "y": ["a", "b", "c", "b"]})
    model = qsdp.QuantizedNetworkClassifier(3, beta=1e6, encoding="standard", refine="none", random_state=0)
    with pytest.warns(QSDPWarning, match="zero network is globally optimal"):
        model.fit(rows[["x"]], rows["y"])
    problem = model.training_problem(rows[["x"]], rows["y"])
    other = stored(model, tmp_path).resample(9, 0, levels=4)
    np.testing.assert_array_equal(other.network_.alpha, 0.0)
    finer = problem.with_levels(4)
    assert finer.objective(other.network_) == pytest.approx(float(np.sum(problem.y**2)))


def test_effects_add_up_to_the_values(model: Any, tmp_path: Path) -> None:
    loaded, rows = stored(model, tmp_path), inputs_of(model, rows_table())
    effects = loaded.effects(rows)
    assert list(effects.columns) == ["size", "colour", "smooth"]
    found = effects.constant + effects.contributions(loaded._rows(rows)).sum(axis=-1)
    values = loaded.decision_function(rows) if hasattr(loaded, "classes_") else loaded.predict(rows)
    np.testing.assert_allclose(found.reshape(values.shape), values, rtol=1e-9, atol=1e-9)


def test_bad_sizes_and_levels(model: Any, tmp_path: Path) -> None:
    loaded = stored(model, tmp_path)
    for levels in (1, 129, 2.5):
        with pytest.raises(InvalidInputError, match="levels must be an integer from 2 to 128"):
            loaded.resample(50, levels=levels)
    with pytest.raises(InvalidInputError, match="n_neurons must be"):
        loaded.resample(0)


def test_saving_twice_gives_the_same_bytes(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "first.qsdp")
    qsdp.load(tmp_path / "first.qsdp").save(tmp_path / "second.qsdp")
    assert (tmp_path / "first.qsdp").read_bytes() == (tmp_path / "second.qsdp").read_bytes()
