"""One table gives one model, whatever it is read from: text, Parquet, data frames, Dask or batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from command_line import run
from table_files import fit_to

import qsdp
from qsdp.tables import read_table

pytest.importorskip("pyarrow")
dd = pytest.importorskip("dask.dataframe")

N_ROWS = 160
#: How the columns are read; `key` is an identifier.
KINDS = {
    "count": "number",
    "size": "number",
    "income": "number",
    "member": "boolean",
    "since": "date",
    "day": "date",
    "city": "category",
    "key": "category",
}


def typed() -> pd.DataFrame:
    """Return a table with columns of every type, missing entries and an identifier."""
    rng = np.random.default_rng(0)
    flags = rng.random(N_ROWS) < 0.5
    since = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N_ROWS), unit="D")
    frame = pd.DataFrame(
        {
            "count": rng.integers(0, 50, N_ROWS),
            "size": rng.normal(3.0, 2.0, N_ROWS).round(3),
            "income": [f"{amount:.2f}" for amount in rng.lognormal(9.0, 1.0, N_ROWS)],
            "member": flags.astype(object),
            "since": since,
            "day": (since + pd.to_timedelta(rng.integers(0, 90, N_ROWS), unit="D")).date,
            # One text means a missing entry.
            "city": rng.choice(["Oslo", "Rome", "Bonn", "NA"], N_ROWS),
            "key": [f"id-{k}" for k in range(N_ROWS)],
        }
    )
    for row, name in enumerate(["size", "income", "since", "day", "member", "city"]):
        frame.loc[5 * row, name] = None
    score = (frame["count"] - 25) / 15 * np.where(flags, 1, -1) + (frame["city"] == "Rome")
    score += 0.3 * frame["size"].fillna(3.0) + 0.2 * rng.standard_normal(N_ROWS)
    frame["label"] = np.where(score > score.median(), "yes", "no")
    return frame


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    """Return the table as it is, read from files of text and of types, with other types, of polars and of text."""
    folder, frame = tmp_path_factory.mktemp("one"), typed()
    frame.to_csv(folder / "table.csv", index=False)
    frame.to_parquet(folder / "table.parquet", index=False)
    frame.to_feather(folder / "table.feather")
    read = {name: read_table(folder / f"table.{name}") for name in ("parquet", "feather")}
    texts = pd.read_csv(folder / "table.csv", dtype=str, keep_default_na=False)
    return {
        "frame": frame,
        "csv": read_table(folder / "table.csv"),
        **read,
        "nullable": frame.convert_dtypes(),
        "arrow": frame.convert_dtypes(dtype_backend="pyarrow"),
        "polars": pl.from_pandas(frame),
        "lazily typed": pd.read_csv(folder / "table.csv", parse_dates=["since"]),
        "text": texts,
    }


def classifier(loss: str, encoding: str, tol: float = 1e-3) -> Any:
    return qsdp.QuantizedNetworkClassifier(30, loss=loss, encoding=encoding, beta="5%", tol=tol, random_state=0)


def encoder(model: Any) -> Any:
    """Return the encoder of the columns."""
    return getattr(model.encoder_, "inputs_", model.encoder_)


def inputs(table: Any) -> Any:
    return table.drop("label") if isinstance(table, pl.DataFrame) else table.drop(columns="label")


def dask_of(table: pd.DataFrame) -> tuple[Any, ...]:
    rows = table.reset_index(drop=True)
    return tuple(dd.from_pandas(part, npartitions=3) for part in (rows.drop(columns="label"), rows["label"]))


@pytest.mark.parametrize(("loss", "encoding"), [("squared", "auto"), ("logistic", "both")])
def test_predictions_are_equal_from_everywhere(tables: dict[str, pd.DataFrame], loss: str, encoding: str) -> None:
    fitted = {name: classifier(loss, encoding).fit(inputs(table), table["label"]) for name, table in tables.items()}
    first = fitted["frame"]
    assert {column.name: column.kind for column in encoder(first).encoding_.columns} == KINDS
    assert encoder(first).dropped_["key"] == f"an identifier: {N_ROWS} texts are distinct"
    expected = first.decision_function(inputs(tables["frame"]))
    assert first.score(inputs(tables["frame"]), tables["frame"]["label"]) > 0.8
    for name, model in fitted.items():
        assert encoder(model).encoding_ == encoder(first).encoding_, name
        np.testing.assert_array_equal(model.network_.U, first.network_.U, err_msg=name)
        np.testing.assert_array_equal(model.network_.alpha, first.network_.alpha, err_msg=name)
        # Every model predicts the table that it was trained on; the first one predicts all.
        for predicting in (first, model):
            np.testing.assert_array_equal(predicting.decision_function(inputs(tables[name])), expected, err_msg=name)
    predicted = first.predict(inputs(tables["csv"]))
    np.testing.assert_array_equal(predicted, np.where(expected > 0.0, "yes", "no"))


@pytest.mark.parametrize("encoding", ["auto", "both"])
def test_nested_lists_give_the_same(tables: dict[str, Any], encoding: str) -> None:
    frame = tables["frame"]
    rows = inputs(frame).astype(object).to_numpy().tolist()
    named = classifier("squared", encoding).fit(inputs(frame), frame["label"])
    listed = classifier("squared", encoding).fit(rows, frame["label"].tolist())
    assert encoder(listed).encoding_.renamed(list(KINDS)) == encoder(named).encoding_
    np.testing.assert_array_equal(listed.network_.U, named.network_.U)
    np.testing.assert_array_equal(listed.decision_function(rows), named.decision_function(inputs(frame)))
    np.testing.assert_allclose(
        listed.decision_function(rows[:1]), named.decision_function(inputs(frame))[:1], rtol=1e-12
    )


def test_rows_that_are_elsewhere_give_the_same(tables: dict[str, pd.DataFrame]) -> None:
    frame, text = tables["frame"], tables["csv"]
    here = classifier("logistic", "both", 1e-10).fit(frame.drop(columns="label"), frame["label"])
    problem = here.result_.problem
    for arguments in map(dask_of, (frame, text)):
        there = classifier("logistic", "both", 1e-10).fit(*arguments)
        assert there.encoder_.encoding_ == here.encoder_.encoding_
        for X in (frame, text):
            np.testing.assert_array_equal(
                there.network_inputs(X.drop(columns="label")), here.network_inputs(X.drop(columns="label"))
            )
        assert there.certificate_.lower_bound == pytest.approx(here.certificate_.lower_bound, rel=1e-5)
        assert there.certificate_.objective == pytest.approx(problem.objective(there.network_), rel=1e-9)
        np.testing.assert_array_equal(there.network_.U, here.network_.U)
        for table in (frame, text):
            # Sums of statistics round in another order.
            X = table.drop(columns="label")
            expected = here.decision_function(X)
            np.testing.assert_allclose(there.decision_function(X), expected, rtol=1e-9, atol=1e-9)
            np.testing.assert_array_equal(there.predict(X), here.predict(X))
        predicted = there.predict(dask_of(frame)[0]).compute()
        np.testing.assert_array_equal(predicted, here.predict(frame.drop(columns="label")))


def test_a_row_is_predicted_alike_alone_and_among_others(tables: dict[str, pd.DataFrame]) -> None:
    model = classifier("squared", "both").fit(tables["csv"].drop(columns="label"), tables["csv"]["label"])
    for table in tables.values():
        X = inputs(table)
        rows = [X[[row]] if isinstance(X, pl.DataFrame) else X.iloc[[row]] for row in range(0, N_ROWS, 7)]
        alone = np.concatenate([model.decision_function(row) for row in rows])
        np.testing.assert_allclose(alone, model.decision_function(X)[::7], rtol=1e-12, atol=1e-12)


def test_the_command_line_gives_the_model_of_python(tmp_path: Path) -> None:
    def printed(*arguments: Any) -> str:
        result = run(*arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    typed().to_csv(tmp_path / "table.csv", index=False)
    typed().to_parquet(tmp_path / "table.parquet", index=False)
    rows, predictions = read_table(tmp_path / "table.csv"), {}
    model = fit_to(classifier("logistic", "auto"), rows, "label", test_size=0.2)
    expected = model.decision_function(rows[list(model.feature_names_in_)])
    options = ["--target", "label", "--loss", "logistic", "--neurons", 30, "--beta", "5%", "--tol", 1e-10]
    for kind in ("csv", "parquet"):
        printed("fit", tmp_path / f"table.{kind}", *options, "--output", tmp_path / f"{kind}.qsdp")
        for other in ("csv", "parquet"):
            text = printed("predict", tmp_path / f"{kind}.qsdp", tmp_path / f"table.{other}")
            predictions[kind, other] = text
            loaded = qsdp.load(tmp_path / f"{kind}.qsdp")
            scores = [float(line.split(",")[1]) for line in text.splitlines()[1:]]
            X = read_table(tmp_path / f"table.{other}")[list(loaded.feature_names_in_)]
            np.testing.assert_allclose(scores, expected, rtol=1e-12)
            np.testing.assert_allclose(loaded.decision_function(X), expected, rtol=1e-12)
    assert len(set(predictions.values())) == 1
