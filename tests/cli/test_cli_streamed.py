"""`qsdp fit` on files that are streamed: all rows count, in any batches, and a killed pass goes on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_program import figure, number, refused, run
from torch_devices import DEVICE, devices_of_products, needs_torch

from qsdp._utils.memory import main_memory
from qsdp._utils.progress import NO_BAR
from qsdp.cli import _fit_streamed
from qsdp.problem import TrainingProblem
from qsdp.relaxation import solve_relaxation
from qsdp.tabular import Sampling, load_model, network_inputs, read_table, table_batches

N_ROWS = 400
STREAMED = ["--memory", 0, "--beta", "5%", "--tol", 1e-6, "--neurons", 100, "--encoding", "standard"]


def text_of(n: int = N_ROWS, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    lines = ["a,b,colour,w,y,label"]
    for _ in range(n):
        a, b, colour = rng.normal(5, 2), rng.normal(), rng.choice(["red", "green"])
        y = (a - 5) * b + (colour == "red")
        shown = "" if rng.random() < 0.02 else f"{a:.6f}"
        label = "" if rng.random() < 0.02 else ["no", "yes"][int(y > 0)]
        lines.append(f"{shown},{b:.6f},{colour},{rng.integers(0, 3)},{y:.6f},{label}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def data(here: Path) -> Path:
    (here / "data.csv").write_text(text_of())
    return here / "data.csv"


@pytest.mark.parametrize("options", [["--target", "y", "--drop", "label"], ["--target", "label", "--drop", "y"]])
def test_the_objective_is_that_of_all_training_rows(data: Path, options: list[Any]) -> None:
    result = run("fit", data, *options, *STREAMED, "--weights", "w", "--activation", "bilinear", "--refine", "refit")
    assert result.exit_code == 0, result.stderr
    model = qsdp.load("data.qsdp")
    sampling = Sampling(options[1], "w", 0.2, 0)
    ((train, test),) = sampling.parts(data, NO_BAR)
    assert f"streamed: {len(train)} training + {len(test)} test rows" in figure(result.stdout, "data")
    assert 0.7 * len(train) < 4 * len(test) < 1.4 * len(train)
    outputs, target = model.outputs(train), model.target
    truth = target.truth(train) if target.classes is None else 2.0 * target.truth(train) - 1.0 - target.offset[0]
    w = train.all_numbers("w")
    penalty = model.beta * model.network_.U.shape[1] * np.abs(model.network_.alpha).sum()
    assert model.certificate_.objective == pytest.approx(float(w @ (outputs - truth) ** 2) + penalty, rel=1e-9)
    assert model.certificate_.lower_bound <= model.certificate_.objective * (1 + 1e-12)
    assert number(result.stdout, "accuracy" if target.classes else "R^2") > 0.5
    assert sorted(path.name for path in data.parent.iterdir()) == ["data.csv", "data.qsdp"]
    assert "statistics of a streamed file" in refused("certify", "data.qsdp", data)
    assert run("resample", "data.qsdp", "--neurons", 20, "--output", "other.qsdp").exit_code == 0
    predicted = run("predict", "data.qsdp", data)
    assert len(predicted.stdout.splitlines()) == 1 + N_ROWS


def test_the_memory_is_that_of_the_container(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = data.with_name("memory.max")
    limit.write_text("20000")
    monkeypatch.setattr("qsdp._utils.memory._CONTAINER", limit)
    main_memory.cache_clear()
    try:
        result = run("fit", data, "--target", "y", "--drop", "label", *STREAMED[2:])
    finally:
        main_memory.cache_clear()
    assert "streamed" in figure(result.stdout, "data")


def test_a_killed_pass_goes_on(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["fit", data, "--target", "y", "--drop", "label", *STREAMED]
    monkeypatch.setattr("qsdp.tabular._streaming._EVERY", 60)
    monkeypatch.setattr("qsdp.tabular._streaming._ROWS", 50)
    assert run(*command, "--output", "whole.qsdp").exit_code == 0
    passes = 0

    def killed(path: Path, rows: int, missing: frozenset[str]) -> Iterator[Any]:
        nonlocal passes
        passes += 1
        for k, table in enumerate(table_batches(path, rows, missing)):
            if passes == 2 and k == 5:
                raise KeyboardInterrupt
            yield table

    monkeypatch.setattr("qsdp.tabular._streaming.table_batches", killed)
    assert run(*command, "--output", "resumed.qsdp").exit_code == 130
    left = [path.name for path in data.parent.iterdir() if path.name not in ("data.csv", "whole.qsdp")]
    assert len(left) == 1
    assert left[0].startswith(".resumed.qsdp.")
    seen = []
    add = "qsdp.statistics.sufficient.SufficientStatistics.partial_fit"
    from qsdp import SufficientStatistics

    original = SufficientStatistics.partial_fit
    monkeypatch.setattr(add, lambda self, X, y, w=None: (seen.append(len(X)), original(self, X, y, w))[1])
    assert run(*command, "--output", "resumed.qsdp").exit_code == 0
    assert 0 < sum(seen) < 0.7 * N_ROWS
    assert not (data.parent / left[0]).exists()
    whole, resumed = qsdp.load("whole.qsdp"), qsdp.load("resumed.qsdp")
    assert resumed.objective == pytest.approx(whole.objective, rel=1e-10)
    np.testing.assert_array_equal(resumed.network.U, whole.network.U)


@needs_torch
def test_products_of_rows_run_on_the_device(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = devices_of_products(monkeypatch)
    command = ["fit", data, "--target", "y", "--drop", "label", *STREAMED]
    assert run(*command, "--output", "here.qsdp").exit_code == 0
    assert set(devices) == {None}
    devices.clear()
    assert run(*command, "--output", "there.qsdp", "--device", DEVICE).exit_code == 0
    assert set(devices) == {DEVICE}
    here, there = qsdp.load("here.qsdp"), qsdp.load("there.qsdp")
    assert there.lower_bound == pytest.approx(here.lower_bound, rel=1e-5)


def test_a_device_that_is_not_there_is_refused_before_the_file_is_read(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    data.write_text("nothing to be read")
    command = ["fit", data, "--target", "y", *STREAMED, "--device", "cuda"]
    assert "device='cuda' needs torch: pip install torch" in refused(*command)


def test_parquet_is_streamed_alike(data: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = read_table(data)
    arrays = {}
    for name in table.columns:
        notation = table.notation(name)
        arrays[name] = pa.array(table.column(name) if notation is None else table.numbers(name, notation))
    parquet.write_table(pa.table(arrays), data.with_suffix(".parquet"), row_group_size=64)
    models = []
    for suffix in (".csv", ".parquet"):
        options = ["--target", "label", *STREAMED, "--output", f"{suffix[1:]}.qsdp"]
        assert run("fit", data.with_suffix(suffix), *options).exit_code == 0
        models.append(qsdp.load(f"{suffix[1:]}.qsdp"))
    assert models[1].objective == pytest.approx(models[0].objective, rel=1e-9)
    assert run("predict", "csv.qsdp", data).stdout == run("predict", "csv.qsdp", data.with_suffix(".parquet")).stdout


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_other_losses_are_fitted_on_a_sample_and_certified_on_all(
    data: Path, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qsdp.cli._fit_streamed.SAMPLE", 150)
    options = ["--target", "label", "--drop", "y", "--weights", "w", *STREAMED, "--loss", loss, "--refine", "none"]
    result = run("fit", data, *options)
    assert result.exit_code == 0, result.stderr
    model = qsdp.load("data.qsdp")
    ((train, _),) = Sampling("label", "w", 0.2, 0).parts(data, NO_BAR)
    y, w = 2.0 * model.target.truth(train) - 1.0, train.all_numbers("w")
    X, activation = network_inputs(model.encoder.encode(train), model.network_.activation), model.network_.activation
    kind: dict[str, Any] = {"loss": loss, "activation": activation, "sample_weight": w}
    problem = TrainingProblem(X, y, beta=model.beta, **kind)
    assert model.certificate_.objective == pytest.approx(problem.objective(model.network_), rel=1e-9)
    optimum = solve_relaxation(problem).objective
    assert 0.5 * optimum < model.certificate_.lower_bound <= optimum * (1.0 + 1e-9)
    # Without the rows the same dual vector bounds networks of other levels.
    finer = model.resample(50, 0, levels=4)
    assert 0.0 < finer.lower_bound <= solve_relaxation(problem.with_levels(4)).objective * (1.0 + 1e-9)


def test_rows_of_a_sample_count_by_their_own_weights(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def run_on_statistics(statistics: Any, few: TrainingProblem, options: Any) -> Any:
        seen.append(few)
        return trained(statistics, few, options)

    trained = _fit_streamed.run_on_statistics
    monkeypatch.setattr(_fit_streamed, "run_on_statistics", run_on_statistics)
    monkeypatch.setattr(_fit_streamed, "SAMPLE", 70)
    command = ["fit", data, "--target", "y", "--drop", "label", *STREAMED, "--refine", "none"]
    for column in (["--weights", "w"], ["--drop", "w"]):
        assert run(*command, *column, "--output", f"{column[0][2:]}.qsdp").exit_code == 0
        few = seen.pop()
        assert set(few.repetitions) == ({1.0, 2.0} if "--weights" in column else {1.0})
        ((train, _),) = Sampling("y", "w" if "--weights" in column else None, 0.2, 0).parts(data, NO_BAR)
        np.testing.assert_allclose(few.sample_weight, few.repetitions * len(train) / 70, rtol=1e-15)


def test_what_cannot_be_streamed(data: Path) -> None:
    streamed = ["fit", data, "--target", "label", "--memory", 0]
    message = refused(*streamed, "--class-weight", "balanced")
    assert "is larger than --memory allows and is streamed, which does not support --class-weight" in message
    message = refused(*streamed, "--loss", "logistic", "--refine", "exact", "--beta", 1.0)
    assert "refine must be one of none, refit, polish for rows in batches and a loss other than 'squared'" in message
    data.write_text(text_of() + "1,oops,red,1,1,no\n")
    message = refused("fit", data, "--target", "label", "--drop", "b", "--drop", "y", "--memory", -1)
    assert "--memory must be" in message
    assert [path.name for path in data.parent.iterdir()] == ["data.csv"]


def test_text_among_numbers_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.cli._fit_streamed.SAMPLE", 50)
    data.write_text(text_of() + "1,oops,red,1,1,no\n")
    result = run("fit", data, "--target", "y", "--drop", "label", *STREAMED)
    assert result.exit_code == 0
    assert "column 'b': 1 of " in result.stderr
    assert f"entries are no numbers and count as missing, such as 'oops' in line {N_ROWS + 2}" in result.stderr
