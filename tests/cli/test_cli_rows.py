"""Files that `qsdp fit` reads: rows for training and test, labels, and columns that are left out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_program import figure, refused, run

import qsdp
from qsdp.cli._rows import read_rows
from qsdp.exceptions import InvalidInputError
from qsdp.tables import MISSING, read_table
from qsdp.tables.training import split

COLUMNS: dict[str, Any] = {
    "task": "auto",
    "weights": None,
    "drop": (),
    "missing": MISSING,
    "seed": 0,
    "test_size": 0.2,
}
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


def test_a_file_decides_about_numbers_with_two_readings(here: Path) -> None:
    rng = np.random.default_rng(0)
    sizes, prices = rng.integers(1000, 9999, 40), rng.integers(100000, 999999, 40)
    rows = "".join(f'"{a:,}",{b},"${c:,}"\n' for a, b, c in zip(sizes, rng.integers(1, 5, 40), prices, strict=True))
    (here / "houses.csv").write_text("size,beds,price\n" + rows)
    # The currency of the target shows what the comma in another column means.
    assert run("fit", "houses.csv", "--target", "price", *FAST).exit_code == 0
    model = qsdp.load("houses.qsdp")
    assert [one.notation for one in model.encoder_.encoding_.columns] == ["thousands", "number"]
    assert model.table_.notation == "thousands in $"
    (here / "sizes.csv").write_text("size,beds,kind\n" + rows.replace("$", "k"))
    assert "commas separate thousands or decimals" in refused("fit", "sizes.csv", "--target", "beds")


def test_columns_of_lists_may_be_dropped(here: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"x": np.arange(40.0) % 7, "tags": [["a", "b"]] * 40, "y": ["u", "v"] * 20})
    frame.to_parquet("data.parquet")
    result = run("fit", "data.parquet", "--target", "y", *FAST, "--drop", "tags")
    assert result.exit_code == 0, result.stderr
    assert "'tags' (--drop)" in figure(result.stdout, "dropped")


def test_rows_are_those_of_the_split(here: Path) -> None:
    (here / "data.csv").write_text("x,y,w\n" + "".join(f"{k},{'ab?'[k % 3]},{k % 4}\n" for k in range(60)))
    rows = read_rows(here / "data.csv", "y", {**COLUMNS, "weights": "w"})
    assert rows.counts == (
        f"{len(rows.train)} training + {len(rows.test)} test rows; 20 without 'y' left out ('?' 20; --na-values says "
        "what counts as missing); 10 of weight zero left out"
    )
    assert len(rows.train) + len(rows.test) == 30
    assert rows.classes == ["a", "b"]
    table = pd.read_csv(here / "data.csv", dtype=str)
    known = table[(table["y"] != "?")].rename(lambda row: row + 2)
    for part, expected in zip((rows.train, rows.test), split(rows.source, known), strict=True):
        assert part.index.tolist() == expected.index.tolist()
    with pytest.raises(InvalidInputError, match=r"has 40 rows with a target 'y', 0 of them for training; at least 2"):
        read_rows(here / "data.csv", "y", {**COLUMNS, "test_size": 0.999})


def test_classes_that_often_mean_missing_are_counted_or_kept(here: Path) -> None:
    kinds = ["Apnea", "Insomnia", "None"]
    (here / "data.csv").write_text("x,y\n" + "".join(f"{k % 3}.{k},{kinds[k % 3]}\n" for k in range(60)))
    result = run("fit", "data.csv", "--target", "y", *FAST)
    assert "20 without 'y' left out ('None' 20; --na-values says what counts as missing)" in result.stdout
    assert "Warning: rows whose target 'y' counts as missing are left out ('None' 20; --na-values" in result.stderr
    exact = ("--encoding", "standard", "--beta", "1%", "--neurons", 100)
    result = run("fit", "data.csv", "--target", "y", *exact, "--na-values", "?,x", "--force")
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


def test_an_integer_of_few_values_may_be_classes(here: Path) -> None:
    (here / "data.csv").write_text("x,y\n" + "".join(f"{k},{k % 3}\n" for k in range(40)))
    result = run("fit", "data.csv", "--target", "y", *FAST)
    assert figure(result.stdout, "target").endswith("; of 3 values: --task classification if they are classes")
    (here / "data.csv").write_text("x,y\n" + "".join(f"{k},{k % 11}\n" for k in range(60)))
    assert "--task" not in run("fit", "data.csv", "--target", "y", *FAST, "--force").stdout


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


def test_a_few_odd_entries_of_a_number_column_are_missing_and_named(here: Path) -> None:
    rows = [f"{k},{'yes' if k > 30 else 'no'}" for k in range(60)]
    rows[7] = "about 7,no"
    (here / "data.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    result = run("fit", "data.csv", "--target", "y", *FAST)
    message = "column 'x' holds numbers, but 1 of 48 entries are not numbers, such as 'about 7' in line 9; they"
    assert result.stderr.count(message) == 1
    assert figure(result.stdout, "numeric") == "'x'"


def test_test_rows_are_checked_before_training(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = set(held_out(60)[:8])
    entries = ["far" if k in words else str(k) for k in range(60)]
    (here / "data.csv").write_text("x,y\n" + "".join(f"{one},{'ab'[k > 30]}\n" for k, one in enumerate(entries)))
    monkeypatch.setattr("qsdp.estimators.QuantizedNetworkClassifier.fit", lambda *_: pytest.fail("trained"))
    assert "in which most of its entries here cannot be read" in refused("fit", "data.csv", "--target", "y", *FAST)


def test_training_rows_are_encoded_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "data.csv").write_text("x,y\n" + "".join(f"{k},{'ab'[k > 30]}\n" for k in range(60)))
    sizes: list[int] = []
    encode = qsdp.encoding.Encoding.encode
    monkeypatch.setattr(
        "qsdp.encoding.Encoding.encode", lambda one, table, *rest: (sizes.append(len(table[0])), encode(one, table))[1]
    )
    result = run("fit", "data.csv", "--target", "y", *FAST)
    assert result.exit_code == 0
    # The test rows are encoded for the check and for the scores.
    assert sorted(sizes) == [12, 12, 48]
    model = qsdp.load("data.qsdp")
    train, _ = split(model.table_, read_table("data.csv"))
    assert figure(result.stdout, "accuracy").startswith(f"{100 * model.score(train[['x']], train['y']):.1f} % ")


def test_numbers_among_which_limits_make_text_have_a_line(here: Path) -> None:
    entries = ["<0.1" if k % 4 == 0 else f"{k % 20}.5" for k in range(80)]
    rows = "".join(f"{one},{['12 kg', '3 lb'][k % 2]},{k}\n" for k, one in enumerate(entries))
    (here / "data.csv").write_text(f"limit,unit,y\n{rows}")
    result = run("fit", "data.csv", "--target", "y", *FAST)
    line = "Warning: column 'limit' is text, not numbers, because of entries such as '<0.1'\n"
    assert (result.exit_code, result.stderr.count(line), result.stderr.count("is text, not numbers")) == (0, 1, 1)
    # Most of many numbers in several units may be distinct, so that they count as identifiers.
    rows = "".join(f"{k / 2}°{'N' if k % 3 else 'S'},{k % 7},{k % 5}\n" for k in range(80))
    (here / "data.csv").write_text(f"lat,x,y\n{rows}")
    result = run("fit", "data.csv", "--target", "y", *FAST, "--force")
    assert "column 'lat' is text, not numbers, because of entries such as " in result.stderr


def test_rare_categories_have_one_warning(here: Path) -> None:
    rows = "".join(f"v{k % 40},{k % 7},{'ab'[k % 3 > 0]}\n" for k in range(200))
    (here / "data.csv").write_text(f"kind,x,y\n{rows}")
    result = run("fit", "data.csv", "--target", "y", "--max-categories", "10", *FAST)
    assert (result.exit_code, result.stderr.count("entries outside the categories")) == (0, 1)


def test_another_notation_than_in_training_is_one_error(here: Path) -> None:
    rows = [(f"{k}.234,5", f"{k % 7} kg", k) for k in range(60)]
    (here / "data.csv").write_text("a;b;y\n" + "".join(f"{a};{b};{y}\n" for a, b, y in rows))
    result = run("fit", "data.csv", "--target", "y", *FAST)
    assert figure(result.stdout, "numeric") == "'a' (comma), 'b' (number in kg)"
    (here / "new.csv").write_text("b;a\n" + "".join(f"{k % 7} kg;{k},234.5\n" for k in range(20)))
    message = refused("predict", "data.qsdp", "new.csv", "--output", "p.csv")
    assert (
        "column 'a' holds numbers written like '1.234,5', in which most of its entries here cannot be read" in message
    )
    assert "such as '0,234.5' in line 2; write the column as in training" in message
    assert not (here / "p.csv").exists()
    (here / "new.csv").write_text("b;a;other\n" + "".join(f"{k % 7} kg;{k}.234,5;1\n" for k in range(20)))
    result = run("predict", "data.qsdp", "new.csv")
    assert result.stderr == "Warning: 'new.csv': ignored the columns that were not used in training: 'other'\n"
    assert result.stdout == "\n".join(run("predict", "data.qsdp", "data.csv").stdout.split("\n")[:21]) + "\n"


def test_versions_of_software_are_categories(here: Path) -> None:
    (here / "data.csv").write_text("v,y\n" + "".join(f"1.2.{k % 4},{k}\n" for k in range(60)))
    result = run("fit", "data.csv", "--target", "y", *FAST)
    assert (result.exit_code, figure(result.stdout, "categorical")) == (0, "'v' (4 values)")


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


def test_files_of_python_are_named(here: Path) -> None:
    X, y = qsdp.datasets.load_bundled("iris")
    qsdp.QuantizedNetworkClassifier(random_state=0, encoding="standard").fit(X, y).save("python.qsdp")
    qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5]).save("network.qsdp")
    (here / "data.csv").write_text("x,y\n1,2\n")
    for name, what in (("python", "an estimator that was saved in Python"), ("network", "a network")):
        message = f"'{name}.qsdp' holds {what}, without the columns of a table; in Python, qsdp.load('{name}.qsdp')"
        assert message in refused("predict", f"{name}.qsdp", "data.csv")
        assert message in refused("certify", f"{name}.qsdp", "data.csv")
