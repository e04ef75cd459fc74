"""Truth values mean the same in every notation, in columns and targets, from CSV, Parquet or data frames."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import qsdp
from qsdp.cli import app
from qsdp.encoding import TableEncoder
from qsdp.exceptions import InvalidInputError
from qsdp.tables import read_table
from qsdp.tables.training import labels_of

pytest.importorskip("pyarrow")

RNG = np.random.default_rng(0)
N_ROWS = 120
FLAGS, SIZES = RNG.random((2, N_ROWS)) < 0.5, RNG.standard_normal(N_ROWS).round(3)
TARGET = SIZES + (2.0 * FLAGS[0] - 1.0) * (2.0 * FLAGS[1] - 1.0) > 0.0
#: Pairs of false and true in each notation.
NOTATIONS = [(False, True), ("FALSE", "TRUE"), ("false", "True"), ("no", "yes"), ("NO", "Yes"), ("N", "Y"), ("f", "t")]
NUMBERS = [(0, 1), (0.0, 1.0), ("0", "1"), ("0.0", "1.0")]


def table(notation: tuple[Any, Any], target: tuple[Any, Any] = ("low", "high")) -> pd.DataFrame:
    columns = {name: [notation[int(flag)] for flag in flags] for name, flags in zip("ab", FLAGS, strict=True)}
    return pd.DataFrame({**columns, "size": SIZES, "label": [target[int(high)] for high in TARGET]})


def stored(frame: pd.DataFrame, folder: Path, kind: str) -> pd.DataFrame:
    path = folder / f"table.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    return read_table(path)


@pytest.mark.parametrize("notation", [*NOTATIONS, *NUMBERS])
def test_predictions_do_not_depend_on_the_notation(notation: tuple[Any, Any], tmp_path: Path) -> None:
    frame = table(notation)
    X = frame.drop(columns="label")
    model = qsdp.QuantizedNetworkClassifier(8, encoding="standard", beta="5%", random_state=0).fit(X, frame["label"])
    model.save(tmp_path / "model.qsdp")
    expected = model.decision_function(X)
    assert model.score(X, frame["label"]) > 0.7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for read in (model, qsdp.load(tmp_path / "model.qsdp")):
            for other in (*NOTATIONS, *NUMBERS):
                for again in (table(other), *(stored(table(other), tmp_path, kind) for kind in ("csv", "parquet"))):
                    np.testing.assert_array_equal(read.decision_function(again.drop(columns="label")), expected)
                one = table(other).drop(columns="label").iloc[[7]]
                np.testing.assert_allclose(read.decision_function(one), expected[[7]], rtol=1e-12)


@pytest.mark.parametrize(
    ("training", "later", "inputs"),
    [
        # Other words beside them leave the meaning open.
        (["yes", "no", "unknown"], ["Y", True, 1], [0.0, 0.0, 0.0]),
        (["yes", "N", "yes"], ["Y", "no", "N"], [0.0, 0.0, 0.0]),
        # Numbers that are not 0 and 1 alone.
        ([0.0, 1.0, 2.0], ["TRUE", "1", "2"], [1.0, 1.0, 2.0]),
        # Missing entries stay missing.
        (["no", "yes", None], ["Y", None, "maybe"], [1.0, 0.0, 0.0]),
        ([True, False, None], ["1", None, "maybe"], [1.0, 0.0, 0.0]),
    ],
)
def test_notations_are_exchanged_only_if_they_are_certain(training: list[Any], later: list[Any], inputs: Any) -> None:
    encoder = TableEncoder("standard", handle_unknown="ignore", missing="fill")
    encoder.fit(pd.DataFrame({"a": pd.Series(training, dtype=object)}))
    encoded = encoder.transform(pd.DataFrame({"a": pd.Series(later, dtype=object)}))
    name = next((j for j, one in enumerate(encoder.encoding_.names) if one in {"a", "a == yes", "a == True"}), 0)
    expression = encoder.expressions_[name]
    np.testing.assert_allclose(encoded[:, name] * expression.scale + expression.center, inputs, atol=1e-12)


def test_an_encoding_without_a_notation_of_truth_values_is_as_before() -> None:
    encoder = TableEncoder("standard").fit(pd.DataFrame({"a": [0, 1, 1], "b": ["no", "yes", "no"]}))
    state = encoder.encoding_.to_state()
    assert [column["notation"] for column in state["columns"]] == ["0 or 1", None]
    state["columns"][0]["notation"] = "number"
    encoder.restore(type(encoder.encoding_).from_state(state), {}, named=True)
    # As in files that were saved before: an entry that is not a number is an error or missing.
    with pytest.raises(InvalidInputError, match="most of its entries here cannot be read"):
        encoder.transform(pd.DataFrame({"a": ["TRUE", "FALSE"], "b": ["Y", "N"]}))
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"a": [0, 1], "b": ["Y", "N"]}))[:, 1], [1.0, 0.0])


@pytest.mark.parametrize(
    ("known", "entries", "labels"),
    [
        (["no", "yes"], ["TRUE", "False", "1", "N", "yes"], ["yes", "no", "yes", "no", "yes"]),
        (["FALSE", "TRUE"], [1.0, 0, True, "n"], ["TRUE", "FALSE", "TRUE", "FALSE"]),
        ([0, 1], ["yes", "F", "1.0"], [1, 0, 1]),
        (["no", "unsure", "yes"], ["no", "TRUE"], ["no", "TRUE"]),
        (["N", "S"], ["N", "no"], ["N", "no"]),
    ],
)
def test_labels_keep_the_notation_of_training(known: list[Any], entries: list[Any], labels: list[Any]) -> None:
    assert labels_of(pd.Series(entries, dtype=object), known).tolist() == labels


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_commands_accept_a_target_in_another_notation(kind: str, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        result = CliRunner().invoke(app, [*words, "--force"])
        assert result.exit_code == 0, result.output
        return result.output

    def written(notation: tuple[Any, Any], name: str) -> str:
        frame, path = table(notation, notation), str(tmp_path / name)
        frame.to_csv(path, index=False) if path.endswith("csv") else frame.to_parquet(path, index=False)
        return path

    first, other = written(("no", "yes"), "first.csv"), written((False, True), f"other.{kind}")
    model, out, page, proof = (str(tmp_path / name) for name in ("model.qsdp", "out.csv", "page.html", "proof.cert"))
    run("fit", first, "--target", "label", "--output", model, "--neurons", "8", "--encoding", "standard", "--beta=5%")
    scores, predictions = [], []
    for path in (first, other):
        predicted = run("predict", model, path, "--output", out)
        scores.append(predicted[predicted.index("accuracy") :])
        predictions.append(Path(out).read_text())
        certified = run("certify", model, path, "--output", proof)
        for output in (predicted, certified, run("report", model, path, "--output", page)):
            assert output.count(" as 'no', 'yes'") == (path == other)
    assert scores[0] == scores[1]
    assert predictions[0] == predictions[1]
    assert "yes," in predictions[0]
