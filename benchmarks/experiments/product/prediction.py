"""Rows predicted a second: networks of 100 to 2500 neurons beside scikit-learn's logistic regression and boosting.

In memory: float64 rows of 30 columns, one thread, the best of three of the processor's seconds; a network is evaluated
neuron by neuron or as a quadratic form, whichever takes fewer operations. In C, networks of as many neurons and
weights that are integers, on integers of 8 bits: as neurons and as the form of the same function, compiled with -O3,
checked to give the outputs of `predict`. From files: `qsdp predict` of a model of 500 neurons on CSV and Parquet,
reading, encoding, predicting and writing CSV together.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments._common import TARGET, Records, experiment_in, grid, timed, where
from benchmarks.experiments._process import installed
from qsdp.bench import Claim, exact

COLUMNS, NEURONS = 30, (100, 500, 2500)
#: Rows that models are fitted on, and the share of rows in files.
FITTED, FILE_SHARE = 5000, 8


def cases(quick: bool) -> list[dict[str, Any]]:
    compiled = not quick or any(map(installed, ("cc", "gcc", "clang")))
    kinds = [kind for kind, measure in KINDS.items() if compiled or measure is not in_c]
    return grid(rows=2000 if quick else 200_000, kind=kinds)


def run(case: dict[str, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((case["rows"], COLUMNS))
    y = np.where(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(len(X)) > 0.0, 1.0, -1.0)
    with threadpool_limits(1):
        return {name: {"rows_a_second": rate} for name, rate in KINDS[case["kind"]](X, y).items()}


def in_memory(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    few = slice(0, FITTED)
    models: dict[str, Any] = {f"network, {m} neurons": network(m) for m in NEURONS}
    models["logistic regression"] = LogisticRegression().fit(X[few], y[few])
    models["boosting, 100 iterations"] = HistGradientBoostingClassifier().fit(X[few], y[few])
    return {name: speed(partial(model.predict, X), len(X)) for name, model in models.items()}


def network(m: int) -> qsdp.BilinearNetwork:
    rng = np.random.default_rng(m)
    U, V = rng.choice([-1, 1], (2, m, COLUMNS + 1))
    return qsdp.BilinearNetwork(U, V, rng.standard_normal(m), activation="relu_like")


def in_c(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the rows a second of exported C beside `predict`, for rows of integers."""
    rows = np.clip(np.round(32.0 * X), -128, 127)
    columns = np.column_stack([rows, np.ones(len(rows))]).astype(np.int8)
    found = {}
    for m in NEURONS:
        floats = network(m)
        alpha = np.round(8.0 * floats.alpha)
        integers = qsdp.BilinearNetwork(floats.U, floats.V, np.where(alpha == 0.0, 1.0, alpha))
        found[f"{m} neurons, predict"] = speed(partial(integers.predict, columns), len(rows))
        for layout in ("neurons", "form"):
            model = qsdp.export.to_c(integers, input_range=(-128, 127), layout=layout, packed=False).compile()
            np.testing.assert_array_equal(model.scores(columns[:1000])[:, 0], integers.predict(columns[:1000]))
            found[f"{m} neurons, C of {layout}"] = speed(partial(model.evaluate, columns), len(rows))
    return found


def from_files(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    import pyarrow as pa
    from pyarrow import parquet

    names, rows = [f"c{k}" for k in range(X.shape[1])], slice(0, len(X) // FILE_SHARE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = np.column_stack([X[rows], y[rows]])
        for path, part in (("few.csv", table[:FITTED]), ("all.csv", table)):
            np.savetxt(folder / path, part, fmt="%.6g", delimiter=",", header=",".join([*names, "y"]), comments="")
        parquet.write_table(pa.table(dict(zip([*names, "y"], table.T, strict=True))), folder / "all.parquet")
        model, out = folder / "model.qsdp", folder / "out.csv"
        fit = ["fit", folder / "few.csv", "--target", "y", "--encoding", "standard", "--beta", "5%", "--neurons", 500]
        call(*fit, "--refine", "none", "--output", model)
        files = {"qsdp predict, CSV": folder / "all.csv", "qsdp predict, Parquet": folder / "all.parquet"}
        predict = partial(call, "predict", model, "--output", out, "--force")
        return {name: speed(partial(predict, path), len(table), 1) for name, path in files.items()}


def call(*arguments: Any) -> None:
    from typer.testing import CliRunner

    from qsdp import cli

    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    if result.exit_code:
        raise RuntimeError(result.stderr)


def speed(function: Callable[[], Any], n_rows: int, repeats: int = 3) -> float:
    """Return rows a processor second, the best of some calls."""
    return n_rows / min(timed(function)[1] for _ in range(repeats))


KINDS = {"in memory": in_memory, "integers of 8 bits": in_c, "files": from_files}


def claims(records: Records) -> list[Claim]:
    statement = "In memory, networks of 100 to 2500 neurons predict more rows a second than boosting of 100 iterations."
    holds = {}
    for record in where(records, kind="in memory"):
        rates = {name: one["rows_a_second"] for name, one in record.measured.items()}
        boosting = rates["boosting, 100 iterations"]
        holds = {name: rate > boosting for name, rate in rates.items() if name.startswith("network")}
    return [exact(TARGET, statement, holds)]


EXPERIMENT = experiment_in(__name__, "Rows predicted a second", "Time and memory of the package")
