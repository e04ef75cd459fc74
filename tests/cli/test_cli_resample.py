"""`qsdp resample`: what it prints, refuses and leaves behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_program import figure, messy, number, refused, run

import qsdp
from qsdp.tables import read_table
from qsdp.tables.training import problem_on


def test_resample(trained: Path, here: Path) -> None:
    result = run("resample", trained / "label.qsdp", "--neurons", 3000, "--seed", 1)
    assert (result.exit_code, result.stderr) == (0, "")
    assert number(result.stdout, "size") == 2 * 3000 * 11 + 32
    assert "not known" in figure(result.stdout, "objective")
    model = qsdp.load("label-3000.qsdp")
    assert model.network_.n_neurons == 3000
    assert np.isnan(model.certificate_.objective)
    assert "exists" in refused("resample", trained / "label.qsdp", "--neurons", 3000)
    assert "--neurons" in refused("resample", trained / "label.qsdp", "--neurons", 0)


@pytest.mark.parametrize("target", ["label", "price"])
def test_resample_with_the_training_file(trained: Path, here: Path, target: str) -> None:
    result = run(
        "resample", trained / f"{target}.qsdp", "--neurons", 4000, "--data", trained / "messy.csv",
        "--output", "new.qsdp",
    )  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")
    old, new = (qsdp.load(path).certificate_ for path in (trained / f"{target}.qsdp", "new.qsdp"))
    assert old.lower_bound == new.lower_bound <= new.objective < old.objective
    assert number(result.stdout, "gap") == pytest.approx(new.objective - new.lower_bound, rel=1e-3)
    known = problem_on(qsdp.load("new.qsdp"), read_table(trained / "messy.csv"))
    assert known.objective(qsdp.load("new.qsdp").network_) == new.objective


def test_resample_with_another_file_saves_nothing(trained: Path, here: Path) -> None:
    (here / "other.csv").write_bytes(messy(seed=1))
    (here / "sparse.csv").write_text("a\n1\n")
    arguments = ["resample", trained / "label.qsdp", "--neurons", 10, "--data"]
    assert "not the file this model was trained on" in refused(*arguments, "other.csv")
    assert "has no column 'label'" in refused(*arguments, "sparse.csv")
    assert sorted(path.name for path in here.iterdir()) == ["other.csv", "sparse.csv"]


def test_resample_several_classes_with_other_levels(trained: Path, here: Path) -> None:
    model = trained / "kind.qsdp"
    result = run("resample", model, "--neurons", 6000, "--levels", 5)
    assert (result.exit_code, result.stderr) == (0, "")
    network = "6000 neurons, relu_like, 5 levels, 3 outputs, cross_entropy loss, beta 1"
    assert figure(result.stdout, "network") == network
    assert figure(result.stdout, "lower bound").endswith("carried over from 3 levels; --data may raise it")
    assert "not known" in figure(result.stdout, "objective")
    arguments = ["resample", model, "--neurons", 6000, "--levels", 5, "--data", trained / "iris.csv"]
    known = run(*arguments, "--output", "known.qsdp")
    assert (known.exit_code, known.stderr) == (0, "")
    bounds = [number(text, "lower bound") for text in (result.stdout, known.stdout)]
    assert 0.0 < bounds[0] < bounds[1] <= number(known.stdout, "objective")
    loose, tight = qsdp.load("kind-6000-5levels.qsdp"), qsdp.load("known.qsdp")
    assert loose.allocation == "proportional"
    assert loose.certificate_.lower_bound < tight.certificate_.lower_bound
    np.testing.assert_array_equal(loose.network_.U, tight.network_.U)
    np.testing.assert_array_equal(loose.network_.alpha, tight.network_.alpha)
    # From a resampled model as from the first one, and the levels stay where none are given.
    assert run("resample", "known.qsdp", "--neurons", 10, "--output", "small.qsdp").exit_code == 0
    assert qsdp.load("small.qsdp").network_.levels == 5
    back = run("resample", "known.qsdp", "--neurons", 1000, "--levels", 3, "--data", trained / "iris.csv")
    first = qsdp.load(model).certificate_
    assert number(back.stdout, "lower bound") == pytest.approx(first.lower_bound, rel=1e-5)
    assert number(back.stdout, "objective") == pytest.approx(first.objective, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--levels", 1], "levels must be an integer from 2 to 128; got 1"),
        (["--levels", "many"], "--levels"),
        (["--neurons", 2], "--neurons must be at least 3, one for each class; got 2"),
    ],
)
def test_resample_refuses(trained: Path, here: Path, options: list[str | int], message: str) -> None:
    assert message in refused("resample", trained / "kind.qsdp", "--neurons", 10, *options)
    assert list(here.iterdir()) == []
