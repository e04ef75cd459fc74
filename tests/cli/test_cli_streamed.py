"""`qsdp fit` on files that are streamed: all rows count, in any batches, and a killed pass goes on."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_program import figure, number, refused, run
from torch_devices import DEVICE, devices_of_products, needs_torch

import qsdp
from qsdp._utils.memory import main_memory
from qsdp._utils.progress import NO_BAR
from qsdp.cli._rows import _parts
from qsdp.estimators import collections
from qsdp.estimators.source import TableSource
from qsdp.problem import TrainingProblem
from qsdp.relaxation import solve_relaxation
from qsdp.tables import MISSING, read_table, table_chunks
from qsdp.tables.training import coded_problem, inputs_of

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


def parts_of(data: Path, target: str, weights: str | None = None) -> tuple[Any, Any]:
    """Return training and test rows, which do not depend on how a file is cut into batches."""
    table = read_table(data)
    known = table[table[target].notna()]
    held_out = np.random.default_rng(0).random(len(known)) < 0.2
    counting = np.ones(len(known), dtype=bool) if weights is None else known[weights].astype(float).to_numpy() > 0.0
    return known[~held_out & counting], known[held_out & counting]


@pytest.mark.parametrize("options", [["--target", "y", "--drop", "label"], ["--target", "label", "--drop", "y"]])
def test_the_objective_is_that_of_all_training_rows(data: Path, options: list[Any]) -> None:
    result = run("fit", data, *options, *STREAMED, "--weights", "w", "--activation", "bilinear", "--refine", "refit")
    assert result.exit_code == 0, result.stderr
    model = qsdp.load("data.qsdp")
    train, test = parts_of(data, options[1], "w")
    assert f"streamed: {len(train)} training + {len(test)} test rows" in figure(result.stdout, "data")
    assert 0.7 * len(train) < 4 * len(test) < 1.4 * len(train)
    classes, scaling = hasattr(model, "classes_"), model.target_scaling_
    if classes:
        assert model.classes_.tolist() == ["no", "yes"]
        truth = np.where(train["label"] == "yes", 1.0, -1.0)
    else:
        truth = train["y"].astype(float).to_numpy()
    outputs = model.network_.predict(model.network_inputs(inputs_of(model, train)))
    w, beta = train["w"].astype(float).to_numpy(), model._trained_beta
    truth = (truth - scaling.offset) / scaling.scale
    penalty = beta * model.network_.U.shape[1] * np.abs(model.network_.alpha).sum()
    assert model.certificate_.objective == pytest.approx(float(w @ (outputs - truth) ** 2) + penalty, rel=1e-9)
    assert model.certificate_.lower_bound <= model.certificate_.objective * (1 + 1e-12)
    assert number(result.stdout, "accuracy" if classes else "R²") > 0.5
    assert sorted(path.name for path in data.parent.iterdir()) == ["data.csv", "data.qsdp"]
    assert "statistics of a streamed file" in refused("certify", "data.qsdp", data)
    assert run("resample", "data.qsdp", "--neurons", 20, "--output", "other.qsdp").exit_code == 0
    predicted = run("predict", "data.qsdp", data)
    assert len(predicted.stdout.splitlines()) == 1 + N_ROWS


def test_the_memory_is_that_of_the_container(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = data.with_name("memory.max")
    limit.write_text("100000")
    monkeypatch.setattr("qsdp._utils.memory._CONTAINER", limit)
    main_memory.cache_clear()
    try:
        result = run("fit", data, "--target", "y", "--drop", "label", *STREAMED[2:])
    finally:
        main_memory.cache_clear()
    assert "streamed" in figure(result.stdout, "data")


def test_a_killed_pass_goes_on(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["fit", data, "--target", "y", "--drop", "label", *STREAMED]
    monkeypatch.setattr("qsdp.estimators.collections._EVERY", 60)
    monkeypatch.setattr("qsdp.cli._rows._ROWS", 50)
    assert run(*command, "--output", "whole.qsdp").exit_code == 0
    passes = 0

    def killed(path: Path, rows: int, missing: frozenset[str]) -> Iterator[Any]:
        nonlocal passes
        passes += 1
        for k, table in enumerate(table_chunks(path, rows, missing)):
            if passes == 2 and k == 5:
                raise KeyboardInterrupt
            yield table

    monkeypatch.setattr("qsdp.cli._rows.table_chunks", killed)
    assert run(*command, "--output", "resumed.qsdp").exit_code == 130
    left = [path.name for path in data.parent.iterdir() if path.name not in ("data.csv", "whole.qsdp")]
    assert len(left) == 1
    assert left[0].startswith(".resumed.qsdp.")
    seen = []
    add = "qsdp.statistics.sufficient.SufficientStatistics.partial_fit"
    original = qsdp.SufficientStatistics.partial_fit
    monkeypatch.setattr(add, lambda self, X, y, w=None: (seen.append(len(X)), original(self, X, y, w))[1])
    assert run(*command, "--output", "resumed.qsdp").exit_code == 0
    assert 0 < sum(seen) < 0.7 * N_ROWS
    assert not (data.parent / left[0]).exists()
    whole, resumed = qsdp.load("whole.qsdp"), qsdp.load("resumed.qsdp")
    assert resumed.certificate_.objective == pytest.approx(whole.certificate_.objective, rel=1e-10)
    np.testing.assert_array_equal(resumed.network_.U, whole.network_.U)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_batches_of_any_size_give_the_same_model(data: Path, monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    models = []
    for rows in (7, 64, 2**14):
        monkeypatch.setattr("qsdp.cli._rows._ROWS", rows)
        options = ["--target", "label", "--drop", "y", *STREAMED, "--loss", loss, "--output", f"{rows}.qsdp"]
        assert run("fit", data, *options).exit_code == 0
        models.append(qsdp.load(f"{rows}.qsdp"))
    for other in models[1:]:
        np.testing.assert_array_equal(other.network_.U, models[0].network_.U)
        assert other.certificate_.objective == pytest.approx(models[0].certificate_.objective, rel=1e-10)
        assert other.certificate_.lower_bound == pytest.approx(models[0].certificate_.lower_bound, rel=1e-6)


def test_the_parts_of_a_file_are_the_same_in_any_batches(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = TableSource("label", "w", test_size=0.2)
    for rows in (1, 13, 500):
        monkeypatch.setattr("qsdp.cli._rows._ROWS", rows)
        parts = list(_parts(data, source, MISSING, NO_BAR))
        for found, expected in zip(list(zip(*parts, strict=True))[1:], parts_of(data, "label", "w"), strict=True):
            assert [line for part in found for line in part.index] == expected.index.tolist()


def test_the_encoding_is_chosen_on_the_sample(data: Path) -> None:
    options = ["fit", data, "--target", "y", "--drop", "label", "--drop", "w", "--neurons", 100, "--beta", "5%"]
    assert run(*options, "--memory", 0, "--output", "streamed.qsdp").exit_code == 0
    streamed = qsdp.load("streamed.qsdp")
    train, _ = parts_of(data, "y")
    alone = qsdp.QuantizedNetworkRegressor(100, beta="5%", random_state=0)
    alone.fit(train[["a", "b", "colour"]], train["y"].astype(float))
    assert streamed.encoder_.encoding_ == alone.encoder_.encoding_
    assert streamed.certificate_.lower_bound == pytest.approx(alone.certificate_.lower_bound, rel=1e-2)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_balanced_classes(data: Path, loss: str) -> None:
    weights = ["--class-weight", "balanced", "--weights", "w"]
    result = run("fit", data, "--target", "label", "--drop", "y", *STREAMED, "--loss", loss, *weights)
    assert result.exit_code == 0, result.stderr
    assert figure(result.stdout, "weights").startswith("column 'w', balanced classes: ")
    model, (train, _) = qsdp.load("data.qsdp"), parts_of(data, "label", "w")
    w, yes = train["w"].astype(float).to_numpy(), (train["label"] == "yes").to_numpy()
    # The sample is all rows: each class has half of the total weight.
    factors = 0.5 * w.sum() / np.where(yes, w[yes].sum(), w[~yes].sum())
    truth = (np.where(yes, 1.0, -1.0) - model.target_scaling_.offset) / model.target_scaling_.scale
    problem = TrainingProblem(
        model.network_inputs(inputs_of(model, train)),
        truth,
        beta=model._trained_beta,
        loss=loss,
        activation=model.network_.activation,
        sample_weight=w * factors,
    )
    assert model.certificate_.objective == pytest.approx(problem.objective(model.network_), rel=1e-9)
    assert model.certificate_.lower_bound <= solve_relaxation(problem).objective * (1.0 + 1e-9)


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
    assert there.certificate_.lower_bound == pytest.approx(here.certificate_.lower_bound, rel=1e-5)


def test_a_device_that_is_not_there_is_refused_before_the_file_is_read(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    data.write_text("nothing to be read")
    command = ["fit", data, "--target", "y", *STREAMED, "--device", "cuda"]
    assert "device='cuda' needs torch: pip install torch" in refused(*command)


def test_parquet_is_streamed_alike(data: Path) -> None:
    read_table(data).astype({"a": float, "b": float, "w": int, "y": float}).to_parquet(
        data.with_suffix(".parquet"), index=False, row_group_size=64
    )
    models = []
    for suffix in (".csv", ".parquet"):
        options = ["--target", "label", *STREAMED, "--output", f"{suffix[1:]}.qsdp"]
        assert run("fit", data.with_suffix(suffix), *options).exit_code == 0
        models.append(qsdp.load(f"{suffix[1:]}.qsdp"))
    assert models[1].certificate_.objective == pytest.approx(models[0].certificate_.objective, rel=1e-9)
    assert run("predict", "csv.qsdp", data).stdout == run("predict", "csv.qsdp", data.with_suffix(".parquet")).stdout


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_other_losses_are_fitted_on_a_sample_and_certified_on_all(
    data: Path, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qsdp.cli._rows.SAMPLE", 150)
    options = ["--target", "label", "--drop", "y", "--weights", "w", *STREAMED, "--loss", loss, "--refine", "none"]
    result = run("fit", data, *options)
    assert result.exit_code == 0, result.stderr
    model = qsdp.load("data.qsdp")
    train, _ = parts_of(data, "label", "w")
    problem = TrainingProblem(
        model.network_inputs(inputs_of(model, train)),
        np.where(train["label"] == "yes", 1.0, -1.0),
        beta=model._trained_beta,
        loss=loss,
        activation=model.network_.activation,
        sample_weight=train["w"].astype(float),
    )
    own = coded_problem(model, train)
    for name in ("X", "y", "sample_weight"):
        np.testing.assert_array_equal(getattr(own, name), getattr(problem, name))
    assert model.certificate_.objective == pytest.approx(problem.objective(model.network_), rel=1e-9)
    optimum = solve_relaxation(problem).objective
    assert 0.5 * optimum < model.certificate_.lower_bound <= optimum * (1.0 + 1e-9)
    # Without the rows the same dual vector bounds networks of other levels.
    finer = model.resample(50, 0, levels=4)
    assert 0.0 < finer.certificate_.lower_bound <= solve_relaxation(problem.with_levels(4)).objective * (1.0 + 1e-9)


def test_rows_of_a_sample_count_by_their_own_weights(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def run_pipeline(few: TrainingProblem, options: Any, **known: Any) -> Any:
        seen.append(few)
        return trained(few, options, **known)

    trained = collections.run_pipeline
    monkeypatch.setattr(collections, "run_pipeline", run_pipeline)
    monkeypatch.setattr("qsdp.cli._rows.SAMPLE", 70)
    command = ["fit", data, "--target", "y", "--drop", "label", *STREAMED, "--refine", "none"]
    for column in (["--weights", "w"], ["--drop", "w"]):
        assert run(*command, *column, "--output", f"{column[0][2:]}.qsdp").exit_code == 0
        few = seen.pop()
        assert set(few.repetitions) == ({1.0, 2.0} if "--weights" in column else {1.0})
        train, _ = parts_of(data, "y", "w" if "--weights" in column else None)
        np.testing.assert_allclose(few.sample_weight, few.repetitions * len(train) / 70, rtol=1e-15)


def test_what_cannot_be_streamed(data: Path) -> None:
    streamed = ["fit", data, "--target", "label", "--memory", 0]
    message = refused(*streamed, "--loss", "logistic", "--refine", "exact", "--beta", 1.0)
    assert "refine must be one of none, refit, polish for rows in batches and a loss other than 'squared'" in message
    data.write_text(text_of() + "1,oops,red,1,1,no\n")
    message = refused("fit", data, "--target", "label", "--drop", "b", "--drop", "y", "--memory", -1)
    assert "--memory must be" in message
    assert [path.name for path in data.parent.iterdir()] == ["data.csv"]


def test_text_among_numbers_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.cli._rows.SAMPLE", 50)
    data.write_text(text_of() + "1,oops,red,1,1,no\n")
    result = run("fit", data, "--target", "y", "--drop", "label", *STREAMED)
    assert result.exit_code == 0
    place = f"such as 'oops' in line {N_ROWS + 2}; they count as missing"
    assert re.search(rf"column 'b' holds numbers, but 1 of \d+ entries are not numbers, {place}", result.stderr)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize(("labels", "other"), [(["no", "yes"], "maybe"), (["0", "1"], "maybe"), (["0", "1"], "2")])
def test_a_label_that_the_sample_lacks_is_named(
    data: Path, monkeypatch: pytest.MonkeyPatch, loss: str, labels: list[str], other: str
) -> None:
    monkeypatch.setattr("qsdp.cli._rows.SAMPLE", 50)
    rows = "".join(f"{k % 7},{labels[k % 7 > 3]}\n" for k in range(400))
    data.write_text("a,label\n" + rows + f"1,{other}\n" * 5)
    message = refused("fit", data, "--target", "label", *STREAMED, "--loss", loss)
    assert "y must hold labels that the sampled rows have" in message
    assert f"got {other!r}" in message or f"got {other}" in message


def test_warnings_of_reading_are_printed_once(data: Path) -> None:
    lines = data.read_text().splitlines()
    data.write_text("\n".join([f",{lines[0]}", *(f"{k},{line}" for k, line in enumerate(lines[1:]))]))
    result = run("fit", data, "--target", "y", "--drop", "label", *STREAMED)
    assert (result.exit_code, result.stderr.count("left out the first column")) == (0, 1)
