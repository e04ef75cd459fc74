"""`qsdp resample`: what it prints, refuses and leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_program import figure, messy, number, refused, run

from qsdp.tabular import load_model


def test_resample(trained: Path, here: Path) -> None:
    result = run("resample", trained / "label.qsdp", "--neurons", 3000, "--seed", 1)
    assert (result.exit_code, result.stderr) == (0, "")
    assert number(result.stdout, "size") == 2 * 3000 * 9 + 64
    assert "not known" in figure(result.stdout, "objective")
    model = load_model("label-3000.qsdp")
    assert (model.network.n_neurons, model.objective) == (3000, None)
    assert "exists" in refused("resample", trained / "label.qsdp", "--neurons", 3000)
    assert "--neurons" in refused("resample", trained / "label.qsdp", "--neurons", 0)


@pytest.mark.parametrize("target", ["label", "price"])
def test_resample_with_the_training_file(trained: Path, here: Path, target: str) -> None:
    result = run(
        "resample", trained / f"{target}.qsdp", "--neurons", 4000, "--data", trained / "messy.csv",
        "--output", "new.qsdp",
    )  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")
    old, new = load_model(trained / f"{target}.qsdp"), load_model("new.qsdp")
    assert old.objective is not None
    assert new.objective is not None
    assert old.lower_bound == new.lower_bound <= new.objective < old.objective
    assert number(result.stdout, "gap") == pytest.approx(new.objective - new.lower_bound, rel=1e-3)


def test_resample_with_another_file_saves_nothing(trained: Path, here: Path) -> None:
    (here / "other.csv").write_bytes(messy(seed=1))
    (here / "sparse.csv").write_text("a\n1\n")
    arguments = ["resample", trained / "label.qsdp", "--neurons", 10, "--data"]
    assert "not the file this model was trained on" in refused(*arguments, "other.csv")
    assert "has no column 'label'" in refused(*arguments, "sparse.csv")
    assert sorted(path.name for path in here.iterdir()) == ["other.csv", "sparse.csv"]
