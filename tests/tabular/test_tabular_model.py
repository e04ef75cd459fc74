"""Models in use: saved, loaded, resampled, evaluated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tabular_data import rows_csv, table, write

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.tabular import TabularModel, load_model, read_table


def test_the_model_survives_its_file(model: TabularModel, csv_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    model.save(path)
    loaded = load_model(path)
    for name in ("encoder", "target", "loss", "beta", "lower_bound", "objective", "holdout", "digest"):
        assert getattr(loaded, name) == getattr(model, name), name
    read = read_table(csv_file)
    np.testing.assert_array_equal(loaded.outputs(read), model.outputs(read))
    assert list(loaded.predict(read)) == list(model.predict(read))
    np.testing.assert_array_equal(loaded.network.U, model.network.U)
    np.testing.assert_array_equal(loaded.covariance.Q, model.covariance.Q)
    assert loaded.covariance.residual == model.covariance.residual


def test_a_network_with_free_second_layer_survives_too(model: TabularModel, tmp_path: Path) -> None:
    network = model.network
    free = qsdp.BilinearNetwork(network.U, network.V, np.linspace(0.0, 1.0, network.n_neurons))
    changed = TabularModel(**{**vars(model), "network": free})
    changed.save(tmp_path / "model.qsdp")
    np.testing.assert_array_equal(load_model(tmp_path / "model.qsdp").network.alpha, free.alpha)


def test_resampling_needs_only_the_file(model: TabularModel, csv_file: Path, tmp_path: Path) -> None:
    model.save(tmp_path / "model.qsdp")
    loaded = load_model(tmp_path / "model.qsdp")
    larger = loaded.resample(400, 1)
    assert (larger.network.n_neurons, larger.objective) == (400, None)
    assert larger.lower_bound == model.lower_bound
    known = larger.evaluated(read_table(csv_file))
    assert known.objective is not None
    assert known.objective >= model.lower_bound
    again = loaded.resample(50, 0).evaluated(read_table(csv_file))
    np.testing.assert_array_equal(again.network.U, model.network.U)
    assert again.objective == pytest.approx(model.objective, rel=1e-12)


def test_the_objective_is_known_on_the_training_rows_only(model: TabularModel, csv_file: Path, tmp_path: Path) -> None:
    text = csv_file.read_text()
    for other in (rows_csv(seed=1), text.replace("red", "pink"), text.rsplit("\n", 2)[0] + "\n"):
        with pytest.raises(InvalidInputError, match="not the file this model was trained on"):
            model.evaluated(read_table(write(tmp_path, other)))
    with pytest.raises(InvalidInputError, match="has no column"):
        model.evaluated(table({"a": ["1"]}))


def test_saving_twice_gives_the_same_bytes(model: TabularModel, tmp_path: Path) -> None:
    model.save(tmp_path / "first.qsdp")
    load_model(tmp_path / "first.qsdp").save(tmp_path / "second.qsdp")
    assert (tmp_path / "first.qsdp").read_bytes() == (tmp_path / "second.qsdp").read_bytes()
