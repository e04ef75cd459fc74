"""Rows predicted a second: networks of 100 to 2500 neurons beside scikit-learn's logistic regression and boosting.

    python benchmarks/prediction.py [--rows 400000] [--json FILE]

In memory: float64 rows of 30 columns, one thread, the best of three of the processor's seconds; a network is evaluated
neuron by neuron or as a quadratic form, whichever takes fewer operations. In C, networks of as many neurons and
weights that are integers, on integers of 8 bits: as neurons and as the form of the same function, compiled with -O3,
checked to give the outputs of `predict`. From files: `qsdp predict` of a model of 500 neurons on CSV and (with pyarrow)
Parquet, reading, encoding, predicting and writing CSV together.
"""

from __future__ import annotations

import tempfile
import time
import timeit
from pathlib import Path

import numpy as np
from _results import FOLDER, options_of, save
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import qsdp
from qsdp import cli

COLUMNS, NEURONS = 30, (100, 500, 2500)
#: Rows that models are fitted on, and those of files.
FITTED, FILE_SHARE = 5000, 8


def main():
    options = options_of(__doc__, rows={"type": int, "default": 400_000})
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.rows, COLUMNS))
    y = np.where(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(len(X)) > 0.0, 1.0, -1.0)
    with threadpool_limits(1):
        found = {**in_memory(X, y), **in_c(X), **from_files(X, y)}
    save({"rows": len(X), "columns": COLUMNS, "rows_a_second": found}, options.json or FOLDER / "prediction.json")
    for name, rate in found.items():
        print(f"{name:40} {rate:12.4g} rows/s")


def in_memory(X, y):
    few = slice(0, FITTED)
    models = {f"network, {m} neurons": network(m) for m in NEURONS}
    models["logistic regression"] = LogisticRegression().fit(X[few], y[few])
    models["boosting, 100 iterations"] = HistGradientBoostingClassifier().fit(X[few], y[few])
    return {name: speed(lambda: model.predict(X), len(X)) for name, model in models.items()}  # noqa: B023


def network(m):
    rng = np.random.default_rng(m)
    U, V = rng.choice([-1, 1], (2, m, COLUMNS + 1))
    return qsdp.BilinearNetwork(U, V, rng.standard_normal(m), activation="relu_like")


def in_c(X):
    """Return the rows a second of exported C beside `predict`, for rows of integers, where there is a compiler."""
    rows = np.clip(np.round(32.0 * X), -128, 127)
    columns = np.column_stack([rows, np.ones(len(rows))]).astype(np.int8)
    report = {}
    for m in NEURONS:
        floats = network(m)
        alpha = np.round(8.0 * floats.alpha)
        integers = qsdp.BilinearNetwork(floats.U, floats.V, np.where(alpha == 0.0, 1.0, alpha))
        report[f"integers, {m} neurons, predict"] = speed(lambda: integers.predict(columns), len(rows))  # noqa: B023
        for layout in ("neurons", "form"):
            try:
                model = qsdp.export.to_c(integers, input_range=(-128, 127), layout=layout, packed=False).compile()
            except qsdp.exceptions.MissingPackageError:
                return report
            np.testing.assert_array_equal(model.scores(columns[:1000])[:, 0], integers.predict(columns[:1000]))
            report[f"integers, {m} neurons, C of {layout}"] = speed(lambda: model.evaluate(columns), len(rows))  # noqa: B023
    return report


def from_files(X, y):
    names, rows = [f"c{k}" for k in range(X.shape[1])], slice(0, len(X) // FILE_SHARE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = np.column_stack([X[rows], y[rows]])
        for path, part in (("few.csv", table[:FITTED]), ("all.csv", table)):
            np.savetxt(folder / path, part, fmt="%.6g", delimiter=",", header=",".join([*names, "y"]), comments="")
        model, out = folder / "model.qsdp", folder / "out.csv"
        fit = ["fit", folder / "few.csv", "--target", "y", "--encoding", "standard", "--beta", "5%", "--neurons", 500]
        call(*fit, "--refine", "none", "--output", model)
        files = {"qsdp predict, CSV": folder / "all.csv"}
        try:
            import pyarrow as pa
            import pyarrow.parquet
        except ImportError:
            pass
        else:
            files["qsdp predict, Parquet"] = folder / "all.parquet"
            pa.parquet.write_table(pa.table(dict(zip([*names, "y"], table.T, strict=True))), folder / "all.parquet")
        return {
            name: speed(lambda: call("predict", model, path, "--output", out, "--force"), len(table), 1)  # noqa: B023
            for name, path in files.items()
        }


def call(*arguments):
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    if result.exit_code:
        raise RuntimeError(result.stderr)


def speed(function, n_rows, repeats=3):
    """Return rows a processor second, the best of some calls."""
    return n_rows / min(timeit.repeat(function, timer=time.process_time, repeat=repeats, number=1))


if __name__ == "__main__":
    main()
