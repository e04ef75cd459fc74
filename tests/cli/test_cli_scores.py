"""Scores that `qsdp fit` prints beside accuracy."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cli_program import figure, inputs, run, split
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

import qsdp
from qsdp.tables import read_table


def rare_class(path: Path, n: int = 500) -> None:
    """Write a table in which one row in ten has the class `rare`."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    rare = X.sum(axis=1) + rng.standard_normal(n) > 2.2
    lines = [f"{a:.3f},{b:.3f},{'rare' if one else 'usual'}" for (a, b), one in zip(X, rare, strict=True)]
    path.write_text("\n".join(["a,b,y", *lines]) + "\n")


def noted(text: str, note: str) -> float:
    """Return the figure of the line that ends with a note."""
    (found,) = re.findall(rf"([\d.]+)(?: %)? +{re.escape(note)}", text)
    return float(found)


def test_two_classes_are_compared_with_simpler_models(here: Path) -> None:
    rare_class(here / "rare.csv")
    result = run("fit", "rare.csv", "--target", "y", "--encoding", "standard", "--test-size", 0.4)
    assert result.exit_code == 0
    model, table = qsdp.load("rare.qsdp"), read_table("rare.csv")
    train, test = split(table, "y", 0.4)
    truth, predicted = test["y"].to_numpy(), model.predict(inputs(model, test))
    text = result.stdout
    assert noted(text, "test rows\n") == pytest.approx(100.0 * np.mean(predicted == truth), abs=0.06)
    assert noted(text, "test rows, if 'usual' is always predicted") == pytest.approx(
        100.0 * np.mean(truth == "usual"), abs=0.06
    )
    assert noted(text, "test rows, mean of the recalls of the classes") == pytest.approx(
        100.0 * balanced_accuracy_score(truth, predicted), abs=0.06
    )
    scores = model.decision_function(inputs(model, test))
    assert noted(text, "test rows, area under the ROC curve") == pytest.approx(
        roc_auc_score(truth == "usual", scores), abs=6e-4
    )
    linear = LogisticRegression(max_iter=300).fit(model.network_inputs(inputs(model, train)), train["y"])
    assert noted(text, "test rows, logistic regression on the inputs") == pytest.approx(
        100.0 * linear.score(model.network_inputs(inputs(model, test)), truth), abs=0.06
    )


def test_a_rare_class_that_is_seldom_found_calls_for_weights(here: Path) -> None:
    rare_class(here / "rare.csv")
    common = ("fit", "rare.csv", "--target", "y", "--encoding", "standard", "--force")
    plain, weighted = run(*common), run(*common, "--class-weight", "balanced")
    assert re.search(r"class 'rare' has \d+\.\d % of the training rows.*--class-weight balanced", plain.stderr)
    assert weighted.stderr == ""
    note = "test rows, mean of the recalls of the classes"
    assert noted(weighted.stdout, note) > noted(plain.stdout, note)


def test_without_test_rows_the_training_rows_are_compared(here: Path) -> None:
    rare_class(here / "rare.csv")
    text = run("fit", "rare.csv", "--target", "y", "--encoding", "standard", "--test-size", 0).stdout
    assert 50.0 < noted(text, "training rows, if 'usual' is always predicted") < 100.0


def test_numbers_and_several_classes_have_no_area(here: Path, trained: Path) -> None:
    rare_class(here / "rare.csv")
    number = run("fit", "rare.csv", "--target", "b", "--encoding", "standard").stdout
    assert "always predicted" not in number
    assert "recalls" not in number
    several = run(
        "fit", trained / "iris.csv", "--target", "kind", "--encoding", "standard", "--output", here / "kind.qsdp"
    ).stdout
    assert "mean of the recalls" in several
    assert "ROC" not in several


def leaky(path: Path, *, number: bool, n: int = 200) -> None:
    """Write a table of twelve columns of noise and columns that tell the target."""
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((n, 12))
    y = noise[:, 0] * noise[:, 1] + 0.5 * rng.standard_normal(n)
    rows = [",".join([*(f"x{j}" for j in range(12)), "told", "code", "y"])]
    for row, value in zip(noise, y, strict=True):
        told = np.exp(value) if number else 3.0 * (value > 0) + rng.random()
        code = "c" if number else rng.choice(["a", "b"] if value > 0 else ["d", "e"])
        shown = f"{value:.4f}" if number else "yes" if value > 0 else "no"
        rows.append(",".join([*(f"{entry:.3f}" for entry in row), f"{told:.5f}", code, shown]))
    path.write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize("number", [False, True])
def test_columns_that_tell_the_target_are_named(here: Path, number: bool) -> None:
    leaky(here / "leaky.csv", number=number)
    command = ("fit", "leaky.csv", "--target", "y", "--encoding", "standard", "--neurons", 16, "--beta", "10%")
    result = run(*command)
    assert result.exit_code == 0
    named = "column 'told'" if number else "columns 'told', 'code'"
    drops = "--drop 'told'" if number else "--drop 'told' --drop 'code'"
    assert f"Warning: {named} alone predicts the test rows almost perfectly" in result.stderr
    assert f"leave it out with {drops}\n" in result.stderr
    result = run(*command, "--drop", "told", "--drop", "code", "--force")
    assert "alone predicts" not in result.stderr
    # Every column is listed, however many there are.
    assert figure(result.stdout, "numeric") == ", ".join(f"'x{j}'" for j in range(12))
    assert figure(result.stdout, "dropped") == "'told' (--drop), 'code' (--drop)"
