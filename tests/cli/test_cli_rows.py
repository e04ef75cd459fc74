"""Files that `qsdp fit` reads: rows for training and test, labels, and columns that are left out."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_program import figure, refused, run

import qsdp

FAST = ("--encoding", "standard", "--beta", "20%", "--neurons", 8, "--refine", "none")


def held_out(n: int) -> list[int]:
    """Return the rows that are test rows with the seed 0."""
    return np.random.default_rng(0).permutation(n)[int(round(0.8 * n, 9)) :].tolist()


def test_classes_without_a_training_row_are_never_predicted_and_named(here: Path) -> None:
    labels = ["rare" if k == held_out(40)[0] else "ab"[k % 2] for k in range(40)]
    (here / "data.csv").write_text("x,y\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels)))
    result = run("fit", "data.csv", "--target", "y", *FAST)
    assert result.exit_code == 0
    assert "Warning: no training row has the class 'rare' of target 'y', which is never predicted" in result.stderr
    assert qsdp.load("data.qsdp").classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("other", "task", "message"),
    [
        ("2", "classification", "the 16 training rows hold only one class of target 'y'; choose another seed"),
        ("2", "regression", "target 'y' is constant in the 16 training rows"),
    ],
)
def test_one_class_or_one_number_among_the_training_rows(here: Path, other: str, task: str, message: str) -> None:
    entries = [other if k == held_out(20)[0] else "1" for k in range(20)]
    (here / "data.csv").write_text("x,y\n" + "".join(f"{k},{entry}\n" for k, entry in enumerate(entries)))
    assert message in refused("fit", "data.csv", "--target", "y", "--task", task)


def test_columns_that_number_the_rows_are_no_inputs(here: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "id": np.arange(1, 61), "t": np.arange(60)[::-1]})
    frame.assign(y=frame["x"] > 0.0).to_csv("data.csv", index_label="Unnamed: 0")
    result = run("fit", "data.csv", "--target", "y", *FAST)
    assert result.exit_code == 0, result.stderr
    assert figure(result.stdout, "dropped").startswith("'Unnamed: 0' (numbers the rows), 'id' (numbers the rows)")
    model = qsdp.load("data.qsdp")
    assert model.feature_names_in_.tolist() == ["x", "t"]
    frame[["x", "t"]].to_csv("new.csv", index=False)
    assert run("predict", "data.qsdp", "new.csv").exit_code == 0
    # Numbers of rows that are all there is to learn from, or that are too few to tell, are inputs.
    frame.assign(y=frame["x"] > 0.0)[["id", "y"]].to_csv("only.csv", index=False)
    frame.assign(y=frame["x"] > 0.0)[:20].to_csv("few.csv", index=False)
    for name, columns in (("only", ["id"]), ("few", ["x", "id", "t"])):
        assert run("fit", f"{name}.csv", "--target", "y", *FAST).exit_code == 0
        assert qsdp.load(f"{name}.qsdp").feature_names_in_.tolist() == columns


def test_numbers_in_groups_are_read_with_the_option_and_named_without(here: Path) -> None:
    rng = np.random.default_rng(0)
    sizes, prices = rng.integers(100000, 9999999, 60), rng.integers(100000, 999999, 60)
    lakhs = [f"{str(size)[:-5]},{str(size)[-5:-3]},{str(size)[-3:]}" for size in sizes]
    beds, rooms = rng.integers(1, 5, (2, 60))
    rows = (f'"{a}",{b},{c},"{d:,}"\n' for a, b, c, d in zip(lakhs, beds, rooms, prices, strict=True))
    (here / "houses.csv").write_text("size,beds,rooms,price\n" + "".join(rows))
    plain = pd.DataFrame({"size": sizes, "beds": beds, "rooms": rooms, "price": prices})
    plain.to_csv("plain.csv", index=False)
    assert run("fit", "plain.csv", "--target", "price", *FAST).exit_code == 0
    assert run("fit", "houses.csv", "--target", "price", "--thousands", ",", *FAST).exit_code == 0
    model = qsdp.load("houses.qsdp")
    assert model.table_.reading == {
        "decimal": ".",
        "thousands": ",",
        "missing": tuple(sorted(("", "?", "na", "n/a", "nan", "null", "none", "nat", "-", "."))),
    }
    expected = run("predict", "plain.qsdp", "plain.csv")
    # The model remembers it; the option overrides it.
    for file, options in (("houses.csv", ()), ("plain.csv", ()), ("houses.csv", ("--thousands", ","))):
        assert run("predict", "houses.qsdp", file, *options).stdout == expected.stdout
        assert run("predict", "houses.qsdp", file, *options).stderr.replace(file, "plain.csv") == expected.stderr
    for command in ("certify", "report"):
        assert run(command, "houses.qsdp", "houses.csv").exit_code == 0
    # Without the option, one warning names the column and the argument.
    result = run("fit", "houses.csv", "--target", "beds", *FAST, "--output", "beds.qsdp")
    for name in ("size", "price"):
        lines = [line for line in result.stderr.splitlines() if f"column {name!r}" in line]
        assert len(lines) == 1, result.stderr
        assert 'thousands=","' in lines[0]
        assert f"{name!r} (an identifier: " in figure(result.stdout, "dropped")
    (here / "only.csv").write_text("size,beds\n" + "".join(f'"{a}",{k % 7}\n' for k, a in enumerate(lakhs)))
    result = run("fit", "only.csv", "--target", "beds")
    message = result.stderr
    assert result.exit_code == 2
    assert "no column is left to learn from besides the target 'beds'; 'size': an identifier" in message
    assert "column 'size' is read as categories, because of entries such as" in message


def test_decimal_commas_are_read_with_the_option(here: Path) -> None:
    values = np.random.default_rng(0).normal(size=(60, 2)).round(3)
    frame = pd.DataFrame({"x": values[:, 0], "y": values[:, 0] ** 2 + 0.1 * values[:, 1]}).round(3)
    frame.to_csv("points.csv", index=False)
    frame.to_csv("commas.csv", index=False, sep=";", decimal=",")
    assert run("fit", "points.csv", "--target", "y", *FAST).exit_code == 0
    assert run("fit", "commas.csv", "--target", "y", "--decimal", ",", *FAST).exit_code == 0
    predicted = run("predict", "points.qsdp", "points.csv").stdout
    assert run("predict", "commas.qsdp", "commas.csv").stdout == predicted
    assert run("predict", "commas.qsdp", "points.csv", "--decimal", ".").stdout == predicted
    assert run("predict", "points.qsdp", "commas.csv", "--decimal", ",").stdout == predicted
    assert "in which most of its entries here cannot be read" in refused("predict", "points.qsdp", "commas.csv")
    result = run("predict", "commas.qsdp", "points.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "column 'x' is read as categories, because the point in" in result.stderr
    assert "Error: column 'x' holds categories, such as" in result.stderr
    for option, value, message in (
        ("--decimal", ";", "decimal must be one of"),
        ("--thousands", "ab", "thousands must be one character"),
    ):
        assert message in refused("fit", "commas.csv", "--target", "y", option, value, "--force")
        assert message in refused("predict", "commas.qsdp", "commas.csv", option, value)


def test_classes_that_often_mean_missing_are_counted_or_kept(here: Path) -> None:
    kinds = ["Apnea", "Insomnia", "None"]
    (here / "data.csv").write_text("x,y\n" + "".join(f"{k % 3}.{k},{kinds[k % 3]}\n" for k in range(60)))
    result = run("fit", "data.csv", "--target", "y", *FAST)
    assert "20 without 'y' left out ('None' 20; --missing says what counts as missing)" in result.stdout
    assert "Warning: rows whose target 'y' counts as missing are left out ('None' 20; --missing" in result.stderr
    exact = ("--encoding", "standard", "--beta", "1%", "--neurons", 100)
    result = run("fit", "data.csv", "--target", "y", *exact, "--missing", "?,x", "--force")
    assert figure(result.stdout, "target") == "'y', 3 classes: 'Apnea', 'Insomnia', 'None'"
    assert qsdp.load("data.qsdp").table_.missing == ("", "?", "x")
    # The model remembers it.
    predicted = run("predict", "data.qsdp", "data.csv")
    assert {line.split(",")[0] for line in predicted.stdout.splitlines()[1:]} == set(kinds)
    assert "on 60 rows with 'y'" in predicted.stderr
    # In Parquet, text is text.
    pytest.importorskip("pyarrow")
    pd.read_csv("data.csv", keep_default_na=False).to_parquet("data.parquet", index=False)
    result = run("fit", "data.parquet", "--target", "y", *FAST, "--output", "typed.qsdp")
    assert figure(result.stdout, "target") == "'y', 3 classes: 'Apnea', 'Insomnia', 'None'"


@pytest.mark.parametrize("labels", [["007", "7"], ["5%", "10%"], ["2024-01-01", "2024-01-02"], ["1.0", "2.5"]])
def test_predictions_are_labels_as_written(here: Path, labels: list[str]) -> None:
    (here / "data.csv").write_text("x,y\n" + "".join(f"{k},{labels[k > 20]}\n" for k in range(40)))
    assert run("fit", "data.csv", "--target", "y", *FAST, "--task", "classification").exit_code == 0
    result = run("predict", "data.qsdp", "data.csv")
    assert {line.split(",")[0] for line in result.stdout.splitlines()[1:]} == set(labels)


def test_identifiers_and_the_index_of_a_data_frame_are_left_out(here: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"key": [f"id-{k}" for k in range(80)], "x": rng.normal(size=80).round(3)})
    frame["y"] = np.where(frame["x"] > 0.0, "yes", "no")
    frame.to_csv("data.csv")
    result = run("fit", "data.csv", "--target", "y", *FAST)
    assert result.exit_code == 0
    assert "'data.csv': left out the first column, a data frame's index without a name" in result.stderr
    assert figure(result.stdout, "numeric") == "'x'"
    assert figure(result.stdout, "dropped") == "'key' (an identifier: 64 texts are distinct)"
    assert list(qsdp.load("data.qsdp").feature_names_in_) == ["key", "x"]
    # Nor is it needed for predictions.
    frame[["x"]].to_csv("new.csv", index=False)
    assert run("predict", "data.qsdp", "new.csv").exit_code == 0
    pytest.importorskip("pyarrow")
    frame.sample(frac=1.0, random_state=0).to_parquet("data.parquet")
    result = run("fit", "data.parquet", "--target", "y", *FAST, "--output", "typed.qsdp")
    assert "'data.parquet': left out '__index_level_0__', the index of a data frame" in result.stderr
    assert list(qsdp.load("typed.qsdp").feature_names_in_) == ["key", "x"]


def test_test_rows_are_checked_before_training(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = set(held_out(60)[:8])
    entries = ["far" if k in words else str(k) for k in range(60)]
    (here / "data.csv").write_text("x,y\n" + "".join(f"{one},{'ab'[k > 30]}\n" for k, one in enumerate(entries)))
    monkeypatch.setattr("qsdp.estimators.QuantizedNetworkClassifier.fit", lambda *_: pytest.fail("trained"))
    assert "in which most of its entries here cannot be read" in refused("fit", "data.csv", "--target", "y", *FAST)


def test_rare_categories_have_one_warning(here: Path) -> None:
    rows = "".join(f"v{k % 40},{k % 7},{'ab'[k % 3 > 0]}\n" for k in range(200))
    (here / "data.csv").write_text(f"kind,x,y\n{rows}")
    result = run("fit", "data.csv", "--target", "y", "--max-categories", "10", *FAST)
    assert (result.exit_code, result.stderr.count("entries outside the categories")) == (0, 1)


@pytest.mark.parametrize("n_rows", [1, 5000])
def test_later_files_are_read_whole_in_the_kinds_of_training(here: Path, n_rows: int) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=80), "code": rng.choice(["7", "12", "A1"], 80)})
    frame.assign(y=frame["x"] + (frame["code"] == "7")).to_csv("data.csv", index=False)
    assert run("fit", "data.csv", "--target", "y", *FAST).exit_code == 0
    later = pd.DataFrame({"x": rng.normal(size=n_rows).astype(object), "code": "7"})
    if n_rows > 1:
        # What a part of the rows holds alone does not decide about them.
        later.loc[n_rows - 400 :, "x"], later.loc[10:29, "code"] = "unknown", "new"
        later.loc[n_rows - 5 :, "code"] = "other"
    later.to_csv("new.csv", index=False)
    result = run("predict", "data.qsdp", "new.csv")
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == n_rows + 1
    if n_rows > 1:
        assert result.stderr.count("400 of 5000 entries are not numbers, such as 'unknown' in line 4602") == 1
        assert result.stderr.count("'code' 25 (such as 'new')") == 1


@pytest.mark.parametrize("name", ["p.parquet", "p.xlsx", "p.json"])
def test_predictions_are_csv_only(here: Path, name: str) -> None:
    (here / "data.csv").write_text("x,y\n" + "".join(f"{k},{k % 5}\n" for k in range(60)))
    assert run("fit", "data.csv", "--target", "y", *FAST).exit_code == 0
    assert "--output must end in .csv or .csv.gz" in refused("predict", "data.qsdp", "data.csv", "--output", name)
    assert run("predict", "data.qsdp", "data.csv", "--output", "p.csv.gz").exit_code == 0
    plain = run("predict", "data.qsdp", "data.csv").stdout
    assert pd.read_csv("p.csv.gz")["prediction"].tolist() == [float(line) for line in plain.splitlines()[1:]]
    packed = Path("p.csv.gz").read_bytes()
    assert b"tmp" not in packed
    assert run("predict", "data.qsdp", "data.csv", "--output", "again.csv.gz").exit_code == 0
    assert Path("again.csv.gz").read_bytes() == packed


def test_predictions_to_a_device(here: Path) -> None:
    (here / "data.csv").write_text("x,y\n" + "".join(f"{k},{k % 5}\n" for k in range(60)))
    assert run("fit", "data.csv", "--target", "y", *FAST).exit_code == 0
    assert run("predict", "data.qsdp", "data.csv", "--output", os.devnull).exit_code == 0
    assert not Path(os.devnull).is_file()
