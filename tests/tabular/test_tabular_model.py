"""Models in use: saved, loaded, resampled, evaluated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tabular_data import rows_csv, table, write

import qsdp
from qsdp.estimators.classes import choose_classes
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.options import TrainingOptions
from qsdp.tabular import TabularModel, load_model, prepare, read_table


def test_the_model_survives_its_file(model: TabularModel, csv_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    model.save(path)
    loaded = load_model(path)
    np.testing.assert_array_equal(qsdp.load_network(path).U, model.network.U)
    for name in (
        "encoder",
        "target",
        "weighting",
        "loss",
        "beta",
        "allocation",
        "lower_bound",
        "objective",
        "holdout",
        "digest",
        "provenance",
    ):
        assert getattr(loaded, name) == getattr(model, name), name
    read = read_table(csv_file)
    np.testing.assert_array_equal(loaded.outputs(read), model.outputs(read))
    assert list(loaded.predict(read)) == list(model.predict(read))
    np.testing.assert_array_equal(loaded.network.U, model.network.U)
    for name in ("Z", "V", "rho", "weights"):
        np.testing.assert_array_equal(getattr(loaded.solution, name), getattr(model.solution, name))
    for name in ("levels", "activation", "lower_bound", "improved_bound", "regularization", "shaping"):
        assert getattr(loaded.solution, name) == getattr(model.solution, name), name


def test_a_network_with_free_second_layer_survives_too(model: TabularModel, tmp_path: Path) -> None:
    network = model.network
    alpha = np.linspace(0.0, 1.0, network.alpha.size).reshape(network.alpha.shape)
    free = qsdp.BilinearNetwork(network.U, network.V, alpha, network.levels, network.activation)
    changed = TabularModel(**{**vars(model), "network": free})
    changed.save(tmp_path / "model.qsdp")
    np.testing.assert_array_equal(load_model(tmp_path / "model.qsdp").network.alpha, alpha)


def test_resampling_needs_only_the_file(model: TabularModel, csv_file: Path, tmp_path: Path) -> None:
    model.save(tmp_path / "model.qsdp")
    loaded = load_model(tmp_path / "model.qsdp")
    larger = loaded.resample(400, 1)
    assert (larger.network.n_neurons, larger.objective) == (400, None)
    assert larger.lower_bound == model.lower_bound
    assert (model.provenance["loss"], larger.provenance["random_state"]) == (model.loss, "1")
    known = larger.evaluated(read_table(csv_file))
    assert known.objective is not None
    assert known.objective >= model.lower_bound
    again = loaded.resample(50, 0).evaluated(read_table(csv_file))
    np.testing.assert_array_equal(again.network.U, model.network.U)
    assert again.objective == pytest.approx(model.objective, rel=1e-12)


@pytest.mark.parametrize("levels", [2, 5])
def test_resampling_other_levels_needs_only_the_file(
    model: TabularModel, csv_file: Path, tmp_path: Path, levels: int
) -> None:
    model.save(tmp_path / "model.qsdp")
    other = load_model(tmp_path / "model.qsdp").resample(3000, 1, levels=levels)
    assert (other.network.levels, other.network.activation) == (levels, model.network.activation)
    known = other.evaluated(read_table(csv_file))
    assert known.objective is not None
    assert 0.0 < other.lower_bound <= known.lower_bound <= known.objective
    np.testing.assert_array_equal(known.network.alpha, other.network.alpha)
    # Nothing is lost on the way: the levels that were solved for come back with their bound.
    other.save(tmp_path / "other.qsdp")
    back = load_model(tmp_path / "other.qsdp").resample(50, 0, levels=model.network.levels)
    assert back.lower_bound == model.lower_bound
    np.testing.assert_array_equal(back.network.U, model.network.U)


def problem_of(model: TabularModel, csv_file: Path, levels: int) -> qsdp.TrainingProblem:
    read = read_table(csv_file)
    training = read.take(model.holdout.split(len(read))[0])
    X, y = model._encode_quietly(training)
    return qsdp.TrainingProblem(
        X, y, beta=model.beta, loss=model.loss, activation=model.solution.activation, levels=levels
    )


@pytest.mark.parametrize("levels", [2, 3, 4, 6])
def test_bounds_for_other_levels_hold_and_predictions_stay(model: TabularModel, csv_file: Path, levels: int) -> None:
    problem, solution = problem_of(model, csv_file, levels), model.solution
    optimum = qsdp.solve_relaxation(problem).objective
    assert solution.bound(levels, model.beta) <= solution.bound_with(problem) <= optimum * (1.0 + 1e-9)
    solved = problem.with_levels(solution.levels)
    Z, V, rho = solution.blocks(levels)
    for k in range(solution.n_outputs):
        expected = solved.forward(solution.Z[k])
        np.testing.assert_allclose(problem.forward(Z[k]), expected, atol=1e-12 * np.abs(expected).max())
        np.testing.assert_array_equal(V[k].diagonal(), rho[k])
        assert np.linalg.eigvalsh(np.block([[V[k], Z[k]], [Z[k], V[k]]]))[0] > -1e-9 * rho[k]


def test_the_covariance_is_that_of_training(model: TabularModel, csv_file: Path) -> None:
    solution = model.solution
    relaxation = qsdp.solve_relaxation(problem_of(model, csv_file, solution.levels))
    found, expected = solution.covariances(solution.levels), qsdp.shape_covariance(relaxation)
    for one, other in zip(found, expected if isinstance(expected, list) else [expected], strict=True):
        np.testing.assert_array_equal(one.Q, other.Q)
        np.testing.assert_array_equal(one.replica_correlation, other.replica_correlation)
        assert (one.rho, one.levels, one.activation) == (other.rho, other.levels, other.activation)


def test_a_solution_that_is_zero() -> None:
    read = table({"x": ["1", "2", "3", "4"], "y": ["a", "b", "c", "b"]})
    training = prepare(read, "y", test_size=0.0)
    with pytest.warns(QSDPWarning, match="zero network is globally optimal"):
        result = qsdp.solve_and_sample(training.X, training.y, n_neurons=3, beta=1e6, random_state=0)
    model = training.model(result, TrainingOptions())
    np.testing.assert_array_equal(model.resample(9, 0, levels=4).network.alpha, 0.0)
    size = float(np.sum(training.y**2))
    assert model.resample(9, 0, levels=4).evaluated(read).objective == pytest.approx(size)


def test_effects_add_up_to_the_values(model: TabularModel, csv_file: Path) -> None:
    read = read_table(csv_file)
    effects, values = model.effects(read), model.target.values(model.outputs(read))
    if model.loss == "cross_entropy":
        values = values[:, 1] - values[:, 0]
    assert effects.columns == ("size", "colour", "smooth")
    found = effects.constant + effects.contributions(model.encoder.encode(read)).sum(axis=-1)
    np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-9)


def test_probabilities(model: TabularModel, csv_file: Path) -> None:
    outputs = model.outputs(read_table(csv_file))
    probabilities = model.probabilities(outputs)
    if model.loss != "cross_entropy":
        assert probabilities is None
        return
    assert probabilities is not None
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), choose_classes(outputs))


def test_bad_sizes_and_levels(model: TabularModel) -> None:
    for levels in (1, 129, 2.5):
        with pytest.raises(InvalidInputError, match="levels must be an integer from 2 to 128"):
            model.resample(50, levels=levels)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="n_neurons must be"):
        model.resample(0)


def test_the_objective_is_known_on_the_training_rows_only(model: TabularModel, csv_file: Path, tmp_path: Path) -> None:
    text = csv_file.read_text()
    for other in (
        rows_csv(seed=1),
        text.replace("red", "pink"),
        text.rsplit("\n", 2)[0] + "\n",
        text.replace(",small,", ",tiny,").replace(",low", ",none").replace(".", ".1"),
    ):
        with pytest.raises(InvalidInputError, match="not the file this model was trained on"):
            model.evaluated(read_table(write(tmp_path, other)))
    with pytest.raises(InvalidInputError, match="has no column"):
        model.evaluated(table({"a": ["1"]}))


def test_saving_twice_gives_the_same_bytes(model: TabularModel, tmp_path: Path) -> None:
    model.save(tmp_path / "first.qsdp")
    load_model(tmp_path / "first.qsdp").save(tmp_path / "second.qsdp")
    assert (tmp_path / "first.qsdp").read_bytes() == (tmp_path / "second.qsdp").read_bytes()
