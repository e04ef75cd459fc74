"""`qsdp predict`: what it prints, refuses and leaves behind."""

from __future__ import annotations

import csv
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest
from cli_program import inputs, refused, run

import qsdp
from qsdp.tables import read_table


@pytest.mark.parametrize("target", ["label", "price"])
def test_predict_equals_the_model_in_memory(trained: Path, here: Path, target: str) -> None:
    result = run("predict", trained / f"{target}.qsdp", trained / "messy.csv")
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    model, table = qsdp.load(trained / f"{target}.qsdp"), read_table(trained / "messy.csv")
    if target == "label":
        assert list(rows[0]) == ["prediction", "score"]
        assert [row["prediction"] for row in rows] == list(model.predict(inputs(model, table)))
        assert [float(row["score"]) for row in rows] == model.decision_function(inputs(model, table)).tolist()
        ignored, score = result.stderr.splitlines()
        assert ignored.endswith("messy.csv': ignored the columns that were not used in training: 'id', 'price'")
        assert re.fullmatch(r"accuracy [\d.]+ % on 117 rows with 'label'", score)
    else:
        assert list(rows[0]) == ["prediction"]
        assert [float(row["prediction"]) for row in rows] == list(model.predict(inputs(model, table)))
        assert re.fullmatch(r"Warning: .* 'id', 'label'\nR² 0\.\d+ on 120 rows with 'price'\n", result.stderr)
    saved = run("predict", trained / f"{target}.qsdp", trained / "messy.csv", "--output", "p.csv")
    assert (saved.exit_code, saved.stdout) == (0, "")
    assert (here / "p.csv").read_text() == result.stdout
    assert [path.name for path in here.iterdir()] == ["p.csv"]


def test_predict_several_classes(trained: Path, here: Path) -> None:
    result = run("predict", trained / "kind.qsdp", trained / "iris.csv")
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    model, table = qsdp.load(trained / "kind.qsdp"), read_table(trained / "iris.csv")
    kinds = ["setosa", "versicolor", "virginica"]
    names = [f"{what}_{kind}" for what in ("score", "probability") for kind in kinds]
    assert list(rows[0]) == ["prediction", *names]
    assert [row["prediction"] for row in rows] == list(model.predict(inputs(model, table)))
    assert [[float(row[name]) for name in names[:3]] for row in rows] == model.decision_function(
        inputs(model, table)
    ).tolist()
    probabilities = model.predict_proba(inputs(model, table)).tolist()
    assert [[float(row[name]) for name in names[3:]] for row in rows] == probabilities
    for row in rows:
        assert sum(float(row[name]) for name in names[3:]) == pytest.approx(1.0)
        assert max(kinds, key=lambda kind: float(row[f"probability_{kind}"])) == row["prediction"]
    assert re.fullmatch(r"accuracy 9[\d.]+ % on 150 rows with 'kind'\n", result.stderr)
    (here / "new.csv").write_text("sl,sw,pl,pw,kind\n5.1,3.5,1.4,0.2,tulip\n5.1,3.5,1.4,0.2,\n")
    result = run("predict", trained / "kind.qsdp", "new.csv")
    assert [row.split(",")[0] for row in result.stdout.splitlines()[1:]] == ["setosa", "setosa"]
    assert result.stderr == "accuracy 0.0 % on 1 rows with 'kind'\n"


def test_predict_finds_columns_by_name(trained: Path, here: Path) -> None:
    with open(trained / "messy.csv", encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter=";"))
    columns = ["sex", "new", "city", "income [EUR]", "age"]
    with open("other.csv", "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="ignore", restval="9")
        writer.writeheader()
        writer.writerows(rows)
    result = run("predict", trained / "label.qsdp", "other.csv")
    line = "Warning: 'other.csv': ignored the columns that were not used in training: 'new'\n"
    assert (result.exit_code, result.stderr) == (0, line)
    assert result.stdout == run("predict", trained / "label.qsdp", trained / "messy.csv").stdout


def test_predict_does_not_need_a_target_it_understands(trained: Path, here: Path) -> None:
    header, row = "age,income [EUR],city,sex", "50,20000,Oslo,f"
    (here / "new.csv").write_text(f"{header},price\n{row},soon\n")
    result = run("predict", trained / "price.qsdp", "new.csv")
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: not scored: 'new.csv', line 2, column 'price'")
    (here / "new.csv").write_text(f"{header},price\n{row},?\n")
    assert run("predict", trained / "price.qsdp", "new.csv").stderr == ""
    (here / "new.csv").write_text(f"{header},label\n{row},maybe\n")
    assert run("predict", trained / "label.qsdp", "new.csv").stderr == "accuracy 0.0 % on 1 rows with 'label'\n"


def test_predict_refuses(trained: Path, here: Path) -> None:
    model, data = trained / "label.qsdp", trained / "messy.csv"
    (here / "few.csv").write_text("age\n1\n")
    assert "has no columns 'income [EUR]', 'city', 'sex'" in refused("predict", model, "few.csv")
    assert "No such file" in refused("predict", "none.qsdp", data)
    assert "the first argument must be a model saved by qsdp fit" in refused("predict", data, data)
    assert "download remote files first" in refused("predict", model, "https://host/data.csv")
    assert "not a qsdp file" in refused("predict", data, data)
    (here / "p.csv").write_text("precious")
    assert "'p.csv' exists" in refused("predict", model, data, "--output", "p.csv")
    assert (here / "p.csv").read_text() == "precious"
    assert "is the input" in refused("predict", model, "few.csv", "--output", "few.csv", "--force")
    assert run("predict", model, data, "--output", "p.csv", "--force").exit_code == 0
    assert (here / "p.csv").read_text().startswith("prediction,score\n")


def test_a_dash_is_standard_output_of_predictions_only(trained: Path, here: Path) -> None:
    model, data = trained / "label.qsdp", trained / "messy.csv"
    assert run("predict", model, data, "--output", "-").stdout == run("predict", model, data).stdout
    for command in (
        ("fit", data, "--target", "label"),
        ("certify", model, data),
    ):
        message = refused(*command, "--output", "-")
        assert "must be the name of a file, because this command prints its summary to standard output" in message
    assert "standard input is /dev/stdin" in refused("predict", model, "-")
    assert list(here.iterdir()) == []


def test_predict_writes_all_or_nothing(trained: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device", "p.csv")

    monkeypatch.setattr(os, "replace", fail)
    (here / "new.csv").write_text("age,income [EUR],city,sex\n50,20000,Oslo,f\n")
    assert "No space left" in refused("predict", trained / "label.qsdp", "new.csv", "--output", "p.csv")
    (here / "new.csv").unlink()
    assert list(here.iterdir()) == []
