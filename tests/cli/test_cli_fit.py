"""`qsdp fit`: what it prints, refuses and leaves behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from cli_program import FIT_LABEL, figure, messy, number, refused, run

import qsdp


def test_fit_reports_how_it_read_the_file(here: Path) -> None:
    (here / "messy.csv").write_bytes(messy())
    result = run("fit", "messy.csv", "--target", "label", "--drop", "id", "--drop", "price", "--encoding", "standard")
    assert (result.exit_code, result.stderr) == (0, "")
    text = result.stdout
    for name, parts in {
        "data": ("messy.csv", "93 training", "24 test", "3 without 'label'", "10 inputs"),
        "target": ("'label'", "'no'", "'yes'"),
        "numeric": ("'age'", "'income [EUR]'"),
        "categorical": ("'city' (5 values)", "'sex' (2 values)"),
        "dropped": ("'id' (--drop)", "'price' (--drop)", "'const' (constant)", "'empty' (no values)"),
    }.items():
        assert all(part in figure(text, name) for part in parts)
    assert figure(text, "saved") == "messy.qsdp"
    assert number(text, "lower bound") <= number(text, "objective")
    assert number(text, "accuracy") > 70.0
    model = qsdp.load("messy.qsdp")
    assert model.certificate_.objective == pytest.approx(number(text, "objective"), rel=1e-5)
    assert model.network_.n_neurons in {8, 16, 32, 64, 128}
    assert (model.loss, model.network_.lifted) == ("auto", True)
    assert sorted(path.name for path in here.iterdir()) == ["messy.csv", "messy.qsdp"]


def test_fit_several_classes(trained: Path) -> None:
    result = run(
        "fit", trained / "iris.csv", "--encoding", "standard",
        "--target", "kind", "--output", trained / "kind3.qsdp", "--force",
        "--levels", 3, "--neurons", 1000, "--jobs", 2, "--beta", 1,
    )  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")
    text = result.stdout
    assert all(name in figure(text, "target") for name in ("'kind'", "'setosa'", "'versicolor'", "'virginica'"))
    assert all(part in figure(text, "network") for part in ("1,000 neurons", "3 levels", "3 outputs", "beta 1"))
    assert number(text, "size") == 2 * 1000 * (4 * 2 + 1) + 3 * 64
    assert number(text, "accuracy") > 85.0
    model = qsdp.load(trained / "kind3.qsdp")
    assert model.certificate_.objective == pytest.approx(number(text, "objective"), rel=1e-5)
    assert (model.network_.levels, model.network_.n_inputs, model.network_.n_outputs) == (3, 4, 3)


def test_fit_numbers_as_classes(here: Path) -> None:
    (here / "data.csv").write_text("a,y\n" + "1,1\n2,2\n3,3.0\n4,3\n" * 5)
    assert "a number: mean" in run("fit", "data.csv", "--encoding", "standard", "--target", "y", "--neurons", 5).stdout
    result = run(
        "fit",
        "data.csv",
        "--encoding",
        "standard",
        "--target",
        "y",
        "--task",
        "classification",
        "--force",
        "--neurons",
        5,
    )
    assert figure(result.stdout, "target") == "'y', 3 classes: '1', '2', '3'"
    assert qsdp.load("data.qsdp").classes_.tolist() == [1, 2, 3]


def test_fit_two_classes_with_two_outputs(here: Path) -> None:
    (here / "messy.csv").write_bytes(messy())
    options = ["--target", "label", "--drop", "id", "--drop", "price", "--loss", "cross_entropy"]
    result = run("fit", "messy.csv", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    assert figure(result.stdout, "target") == "'label', 2 classes: 'no', 'yes'"
    assert qsdp.load("messy.qsdp").network_.n_outputs == 2
    rows = run("predict", "messy.qsdp", "messy.csv").stdout.splitlines()
    assert rows[0] == "prediction,score,probability_no,probability_yes"
    for row in rows[1:]:
        label, score, no, yes = row.split(",")
        assert (label == "yes") == (float(score) > 0.0) == (float(yes) > 0.5)
        assert float(no) + float(yes) == pytest.approx(1.0)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_scores_decide(here: Path, loss: str) -> None:
    (here / "messy.csv").write_bytes(messy())
    run(*FIT_LABEL, "--beta", "50%", "--loss", loss)
    header, *rows = run("predict", "messy.qsdp", "messy.csv").stdout.splitlines()
    assert header.startswith("prediction,score")
    assert all((row.split(",")[0] == "yes") == (float(row.split(",")[1]) > 0.0) for row in rows)


@pytest.mark.parametrize("options", [[], ["--loss", "logistic", "--levels", 3, "--activation", "relu_like"]])
def test_fit_and_refine(here: Path, options: list[Any]) -> None:
    (here / "messy.csv").write_bytes(messy())
    common = [*FIT_LABEL, "--encoding", "standard", "--neurons", 300, *options, "--beta", 1, "--tol", 1e-6]
    objectives, bounds = {}, {}
    for refine in ("none", "refit", "polish", "exact"):
        result = run(*common, "--refine", refine, "--output", f"{refine}.qsdp")
        assert result.exit_code == 0
        text, model = result.stdout, qsdp.load(f"{refine}.qsdp")
        assert ("Warning: the certified gap is" in result.stderr) == (number(text, "relative gap") > 50.0)
        assert model.certificate_.objective == pytest.approx(number(text, "objective"), rel=1e-5)
        assert model.certificate_.lower_bound == pytest.approx(number(text, "lower bound"), rel=1e-5)
        assert figure(text, "network").startswith(f"{model.network_.n_neurons} neurons, ")
        assert ("globally optimal to relative gap" in text) == (refine == "exact")
        kept = model.network_.n_neurons
        if refine == "none":
            assert "refined" not in text
        else:
            assert "refine " in figure(text, "time")
            assert figure(text, "refined").startswith(
                {
                    "refit": f"refit: {kept} of the sampled neurons remain",
                    "polish": "polish: single weights of the sampled neurons improved",
                    "exact": "exact: column generation, ",
                }[refine]
            )
        assert (kept < 94) if refine in ("refit", "exact") else (kept == 300)
        objectives[refine], bounds[refine] = model.certificate_.objective, model.certificate_.lower_bound
        # What is stored can be used.
        assert len(run("predict", f"{refine}.qsdp", "messy.csv").stdout.splitlines()) == 121
    assert objectives["exact"] < min(objectives["refit"], objectives["polish"])
    assert max(objectives["refit"], objectives["polish"]) < objectives["none"]
    assert bounds["none"] == bounds["refit"] == bounds["polish"] < bounds["exact"] <= objectives["exact"]
    assert objectives["exact"] - bounds["exact"] <= 1e-6 * objectives["exact"]


def test_fit_needs_force_to_overwrite(here: Path) -> None:
    (here / "messy.csv").write_bytes(messy())
    (here / "messy.qsdp").write_text("precious")
    arguments = ["fit", "messy.csv", "--target", "label", "--drop", "id", "--neurons", "5"]
    assert "'messy.qsdp' exists" in refused(*arguments)
    assert (here / "messy.qsdp").read_text() == "precious"
    assert run(*arguments, "--force").exit_code == 0
    assert qsdp.load("messy.qsdp").network_.n_neurons == 5
    assert "is the input" in refused(*arguments, "--force", "--output", "messy.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--neurons", "0"], "--neurons"),
        (["--beta", "inf"], "--beta"),
        (["--seed", "-2"], "--seed"),
        (["--test-size", "1"], "--test-size must be at least 0 and below 1; got 1"),
        (["--test-size", "nan"], "--test-size"),
        (["--task", "regresion"], "did you mean 'regression'"),
        (["--loss", "cubic"], "--loss must be one of"),
        (["--refine", "perfect"], "--refine must be one of 'exact', 'none', 'polish', 'refit'; got 'perfect'"),
        (["--refine", "polish", "--time-limit", "0"], "--time-limit must be a finite number > 0; got 0"),
        (["--refine", "exact", "--beta", "0"], "--beta must be a finite number > 0; got 0.0; for nearly no"),
        (["--task", "regression", "--loss", "hinge"], "--loss hinge is for classes, but target 'y' is a number; use"),
        (["--task", "regression", "--loss", "cross_entropy"], "--loss cross_entropy is for classes"),
        (["--levels", "1"], "levels must be an integer from 2 to 128"),
        (["--levels", "129"], "levels must be an integer from 2 to 128"),
        (["--activation", "sigmoid"], "--activation must be one of 'bilinear', 'linear_quadratic', 'quadratic'"),
        (["--activation", "1,2,3,4"], "--activation must be a name or three numbers"),
        (["--activation", "1e999,0,0"], "finite"),
        (["--jobs", "0"], "--jobs must be None or an integer other than 0"),
        (["--output", "."], "is a folder"),
        (["--output", "no/such/folder.qsdp"], "does not exist"),
    ],
)
def test_bad_options_are_refused_before_the_file_is_read(here: Path, options: list[str], message: str) -> None:
    # The file is not there.
    assert message in refused("fit", "data.csv", "--target", "y", *options)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (None, [], "'data.csv': No such file"),
        ("", [], "is empty"),
        ("a,y\n1,2\n3\n", [], "'data.csv', line 3: 1 field"),
        ("a,a,y\n1,2,3\n", [], "repeated: 'a'"),
        ("a,b\n1,2\n", [], "no column 'y'; it has 'a', 'b'"),
        ("a,y\n1,x\n2,x\n3,x\n", [], "holds only 'x'"),
        ("a,y\n1,2\n", [], "holds only '2'"),
        ("a,y\n1,x\n2,y\n", [], "has 2 rows with a target 'y', 1 of them for training; at least 2 are needed"),
        ("a,y\n" + "1,x\n2,y\n3,z\n" * 4, ["--neurons", "2"], "--neurons must be at least 3, one for each class"),
        (
            "a,y\n" + "".join(f"{i},v{i}\n" for i in range(120)),
            [],
            "120 classes, at most 100 are possible: 'v0' (1)",
        ),
        ("a,y\n" + "1,x\n1,y\n" * 4, [], "no column is left to learn from besides the target 'y'; 'a': constant"),
        ("a,y\n" + "1,1\n2,2\n3,3\n" * 4, ["--loss", "logistic"], "target 'y' is a number"),
        ("a,y\n" + "1,1\n2,2\n3,3\n" * 4, ["--loss", "cross_entropy"], "is for classes, but target 'y' is a number"),
        ("a,y\n" + "1,x\n2,y\n" * 4, ["--drop", "b"], "no column 'b'"),
        (
            "a,y\n" + "1,x\n2,y\n" * 4,
            ["--task", "regression"],
            "line 2, column 'y': expected a number; got 'x'",
        ),
        ("a,y\n" + "".join(f"v{i},{i}\n" for i in range(80)), [], "'a': an identifier: 64 texts are distinct"),
    ],
)
def test_files_that_cannot_be_learned_from(here: Path, text: str | None, options: list[str], message: str) -> None:
    if text is not None:
        (here / "data.csv").write_text(text)
    assert message in refused("fit", "data.csv", "--target", "y", *options)
    assert [path.name for path in here.iterdir()] == ([] if text is None else ["data.csv"])


def test_a_failed_save_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device", "m.qsdp")

    (here / "messy.csv").write_bytes(messy(40))
    monkeypatch.setattr(os, "replace", fail)
    assert "No space left" in refused("fit", "messy.csv", "--target", "label", "--drop", "id", "--encoding", "standard")
    assert [path.name for path in here.iterdir()] == ["messy.csv"]


# -- weights ---------------------------------------------------------------------------------------------


def weighted_table(weights: list[str]) -> str:
    """Return a file of 20 rows in which `a` decides `kind` and says something of `price`."""
    rows = [f"{i % 7},{i % 3},{'pos' if i % 7 > 2 else 'neg'},{i % 7 + i % 3},{w}" for i, w in enumerate(weights)]
    return "\n".join(["a,b,kind,price,w", *rows]) + "\n"


def test_a_column_of_weights_is_remembered_and_no_input(here: Path) -> None:
    (here / "data.csv").write_text(weighted_table([str(i % 3) for i in range(20)]))
    options = ["--target", "kind", "--drop", "price", "--test-size", 0, "--neurons", 50]
    result = run("fit", "data.csv", "--encoding", "standard", *options, "--weights", "w")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "13 training + 0 test rows; 7 of weight zero left out, 2 inputs" in figure(result.stdout, "data")
    assert figure(result.stdout, "weights") == "column 'w': 1 to 2, 19 in all"
    model = qsdp.load("data.qsdp")
    assert (model.table_.weights, model.class_weight) == ("w", None)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.certificate_.objective == pytest.approx(number(result.stdout, "objective"), rel=1e-5)
    (here / "new.csv").write_text("a,b\n1,2\n")
    assert run("predict", "data.qsdp", "new.csv").exit_code == 0
    assert run("certify", "data.qsdp", "data.csv").exit_code == 0
    (here / "without.csv").write_text("a,b,kind\n1,2,pos\n2,1,neg\n")
    assert "has no column 'w'" in refused("certify", "data.qsdp", "without.csv", "--force")
    (here / "other.csv").write_text(weighted_table([str(1 + i % 3) for i in range(20)]))
    assert "is not the file this model was trained on" in refused("certify", "data.qsdp", "other.csv", "--force")


def test_balanced_classes(here: Path) -> None:
    (here / "data.csv").write_text(weighted_table(["1"] * 20))
    options = ["--target", "kind", "--drop", "price", "--drop", "w", "--test-size", 0, "--neurons", 50]
    result = run("fit", "data.csv", "--encoding", "standard", *options, "--class-weight", "balanced")
    assert figure(result.stdout, "weights").startswith("balanced classes: ")
    # As the classifier of Python, which has tests of its own.
    assert qsdp.load("data.qsdp").class_weight == "balanced"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            ["-1", "-2", "1"],
            "'data.csv', column 'w': 2 of 20 rows have a negative weight, the first in line 2",
        ),
        (["1", "", "?", "NA"], "column 'w': 3 of 20 rows have no weight, the first in line 3; weights must be numbers"),
        (["0"] * 20, "0 of them for training with a positive weight in column 'w'"),
        (["1", "many"], "line 3, column 'w': expected a number; got 'many'"),
        (["1", "inf"], "line 3, column 'w': expected a number; got 'inf'"),
    ],
)
def test_bad_weights(here: Path, weights: list[str], message: str) -> None:
    (here / "data.csv").write_text(weighted_table((weights + ["1"] * 20)[:20]))
    assert message in refused("fit", "data.csv", "--target", "kind", "--weights", "w")


def test_an_interrupted_training_writes_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = qsdp.QuantizedNetworkClassifier.fit

    def interrupted(*arguments: Any, **options: Any) -> Any:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return fit(*arguments, **options)

    monkeypatch.setattr(qsdp.QuantizedNetworkClassifier, "fit", interrupted)
    (here / "messy.csv").write_bytes(messy())
    (here / "messy.qsdp").write_text("precious")
    result = run(*FIT_LABEL, "--force")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Interrupted\n")
    assert sorted(path.name for path in here.iterdir()) == ["messy.csv", "messy.qsdp"]
    assert (here / "messy.qsdp").read_text() == "precious"
