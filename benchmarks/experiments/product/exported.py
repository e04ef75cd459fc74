"""Models where they run: predictions, exported C, and ONNX in onnxruntime.

Seconds are CPU time of one thread, for the fastest of several calls. The networks have random weights.

    in memory            float64 rows of 30 columns: networks, evaluated neuron by neuron or as a quadratic form,
                         whichever takes fewer operations, beside scikit-learn's logistic regression and boosting
    integers of 8 bits   networks with integer weights, exported as C in the layouts "neurons" and "form", compiled
                         with -O3; their outputs are checked to equal those of `predict`
    files                `qsdp predict` with a model of 500 neurons: reading, encoding, predicting and writing CSV
    network, classifier  exported ONNX beside `predict`, for a batch of rows and for one row, and bytes of the file;
                         all outputs are compared: those of networks exactly with integers, of classifiers by label

No column is appended, and nothing is trained, so there is no beta.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.machinery.common import TARGET, Records, experiment_in, grid, timed, where
from benchmarks.machinery.process import installed
from benchmarks.machinery.verdicts import Claim, exact
from benchmarks.versions import ESTIMATORS

COLUMNS, NEURONS = 30, (100, 500, 2500)
#: Number of rows that models are fitted to, and divisor of the number of rows for files.
FITTED, FILE_SHARE = 5000, 8
#: Neurons, inputs, outputs, smallest and largest input.
NETWORKS = ((64, 31, 1, -1, 1), (250, 32, 1, -128, 127), (250, 32, 1, -(2**15), 2**15 - 1), (1000, 784, 10, 0, 255))

EQUAL = (TARGET, "Exported ONNX gives the integers and the labels of `predict` in onnxruntime.")
FASTER = "In memory, networks of 100 to 2500 neurons predict more rows a second than boosting of 100 iterations."


def cases(quick: bool) -> list[dict[str, Any]]:
    kinds = [kind for kind in SPEEDS if not quick or kind != "integers of 8 bits" or installed("gcc")]
    made = grid(kind=kinds, rows=2000 if quick else 200_000)
    names, rows = ("neurons", "inputs", "outputs", "low", "high"), 1000 if quick else 10_000
    for sizes in NETWORKS[: 2 if quick else None]:
        made.append({"kind": "network", **dict(zip(names, sizes, strict=True)), "rows": rows})
    made += grid(kind="classifier", encoding=("standard", "thresholds"), rows=rows)
    return made


def run(case: dict[str, Any]) -> dict[str, Any]:
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        return speeds(case) if case["kind"] in SPEEDS else KINDS[case["kind"]](case)


def fastest(call: Callable[[], Any], rows: int, least: int = 3) -> float:
    """Return the seconds of the fastest call.

    Calls are repeated for half a second, but for a hundredth with the few rows of a quick run, and at least `least`
    times.
    """
    seconds: list[float] = []
    while len(seconds) < least or sum(seconds) < (0.5 if rows >= 10_000 else 0.01):
        seconds.append(timed(call)[1])
    return min(seconds)


# -- rows a second ----------------------------------------------------------------------------------------


def speeds(case: dict[str, Any]) -> dict[str, Any]:
    """Return the rows that each model or program predicts per second."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((case["rows"], COLUMNS))
    y = np.where(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(len(X)) > 0.0, 1.0, -1.0)
    return {name: {"rows_a_second": rate} for name, rate in SPEEDS[case["kind"]](X, y).items()}


def in_memory(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    few = slice(0, FITTED)
    models: dict[str, Any] = {f"network, {m} neurons": relu_like(m) for m in NEURONS}
    models["logistic regression"] = LogisticRegression().fit(X[few], y[few])
    models["boosting, 100 iterations"] = HistGradientBoostingClassifier().fit(X[few], y[few])
    return {name: len(X) / fastest(partial(model.predict, X), len(X)) for name, model in models.items()}


def relu_like(m: int) -> qsdp.BilinearNetwork:
    rng = np.random.default_rng(m)
    U, V = rng.choice([-1, 1], (2, m, COLUMNS + 1))
    return qsdp.BilinearNetwork(U, V, rng.standard_normal(m), activation="relu_like")


def in_c(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    rows = np.clip(np.round(32.0 * X), -128, 127)
    columns, found = np.column_stack([rows, np.ones(len(rows))]).astype(np.int8), {}
    for m in NEURONS:
        floats = relu_like(m)
        alpha = np.round(8.0 * floats.alpha)
        integers = qsdp.BilinearNetwork(floats.U, floats.V, np.where(alpha == 0.0, 1.0, alpha))
        found[f"{m} neurons, predict"] = len(rows) / fastest(partial(integers.predict, columns), len(rows))
        for layout in ("neurons", "form"):
            model = qsdp.export.to_c(integers, input_range=(-128, 127), layout=layout, packed=False).compile()
            np.testing.assert_array_equal(model.scores(columns[:1000])[:, 0], integers.predict(columns[:1000]))
            found[f"{m} neurons, C of {layout}"] = len(rows) / fastest(partial(model.evaluate, columns), len(rows))
    return found


def from_files(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    import pyarrow as pa
    from pyarrow import parquet

    table = np.column_stack([X, y])[: len(X) // FILE_SHARE]
    names = [*(f"c{k}" for k in range(X.shape[1])), "y"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, part in (("few.csv", table[:FITTED]), ("all.csv", table)):
            np.savetxt(folder / path, part, fmt="%.6g", delimiter=",", header=",".join(names), comments="")
        parquet.write_table(pa.table(dict(zip(names, table.T, strict=True))), folder / "all.parquet")
        model, out = folder / "model.qsdp", folder / "out.csv"
        fit = ["fit", folder / "few.csv", "--target", "y", "--encoding", "standard", "--beta", "5%", "--neurons", 500]
        command(*fit, "--refine", "none", "--output", model)
        files = {"qsdp predict, CSV": folder / "all.csv", "qsdp predict, Parquet": folder / "all.parquet"}
        predict = partial(command, "predict", model, "--output", out, "--force")
        return {name: len(table) / fastest(partial(predict, path), len(X), 1) for name, path in files.items()}


def command(*arguments: Any) -> None:
    from typer.testing import CliRunner

    from qsdp import cli

    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    if result.exit_code:
        raise RuntimeError(result.stderr)


SPEEDS = {"in memory": in_memory, "integers of 8 bits": in_c, "files": from_files}


# -- ONNX -----------------------------------------------------------------------------------------------------


def network_of(rng: np.random.Generator, case: dict[str, Any]) -> qsdp.BilinearNetwork:
    """Return a network of random signs, in which each neuron serves one output."""
    m, C = case["neurons"], case["outputs"]
    U, V = 2 * rng.integers(0, 2, size=(2, m, case["inputs"])) - 1
    alpha = 0.37 * np.eye(C)[np.sort(rng.integers(0, C, m))]
    return qsdp.BilinearNetwork(U, V, alpha if C > 1 else alpha[:, 0])


def of_network(case: dict[str, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    network, low, high = network_of(rng, case), case["low"], case["high"]
    X = rng.integers(low, high, (case["rows"], case["inputs"]), endpoint=True)
    model, feed = (
        qsdp.export.to_onnx(network, input_range=(low, high)),
        qsdp.export.onnx_inputs(network, X, input_range=(low, high)),
    )
    values = (X @ network.U.T.astype(np.int64)) * (X @ network.V.T.astype(np.int64))
    integers = values @ (network.alpha.reshape(len(network.alpha), -1) != 0.0).astype(np.int64)
    return in_onnxruntime(model, feed, "outputs", integers, network.predict, X.astype(float))


def of_classifier(case: dict[str, Any]) -> dict[str, Any]:
    X, y = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
    fitted = qsdp.QuantizedNetworkClassifier(encoding=case["encoding"], loss="logistic", random_state=0).fit(X, y)
    many = np.resize(X, (case["rows"], X.shape[1]))
    return in_onnxruntime(
        qsdp.export.to_onnx(fitted),
        qsdp.export.onnx_inputs(fitted, many),
        "label",
        fitted.predict(many),
        fitted.predict,
        many,
    )


def in_onnxruntime(
    model: Any, feed: dict[str, Any], name: str, expected: np.ndarray, predict: Callable[[Any], Any], X: np.ndarray
) -> dict[str, Any]:
    """Return whether the outputs are equal, and the seconds of both for all rows and for the first row."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
    one = {key: values[:1] for key, values in feed.items()}
    return {
        "equal": np.array_equal(session.run([name], feed)[0], expected),
        "predict": fastest(lambda: predict(X), len(X)),
        "onnxruntime": fastest(lambda: session.run(None, feed), len(X)),
        "predict_one": fastest(lambda: predict(X[:1]), len(X)),
        "onnxruntime_one": fastest(lambda: session.run(None, one), len(X)),
        "bytes": len(model.SerializeToString()),
    }


KINDS = {"network": of_network, "classifier": of_classifier}


def claims(records: Records) -> list[Claim]:
    equal = {kind: [r.measured["equal"] for r in where(records, kind=kind)] for kind in KINDS}
    faster = {}
    for record in where(records, kind="in memory"):
        rates = {name: one["rows_a_second"] for name, one in record.measured.items()}
        faster = {name: rate > rates["boosting, 100 iterations"] for name, rate in rates.items() if "network" in name}
    return [
        exact(TARGET, FASTER, faster),
        exact(*EQUAL, equal["network"] + equal["classifier"], needed=len(NETWORKS) + 2),
    ]


def quotes(records: Records) -> dict[str, str]:
    found = {}
    networks, classifiers = (
        [r.measured for r in records if r.case["kind"] == kind] for kind in ("network", "classifier")
    )
    if len(networks) == len(NETWORKS) and classifiers:
        # In the order of the cases: signs, bytes, words of 16 bits and pixels as inputs, and the classifiers.
        *narrow, wide, pixels = (one["onnxruntime"] / one["predict"] for one in networks)
        batches = [*narrow, pixels, *(one["onnxruntime"] / one["predict"] for one in classifiers)]
        signs, _, _, images = (one["predict_one"] / one["onnxruntime_one"] for one in networks)
        slowest = min(one["predict_one"] / one["onnxruntime_one"] for one in classifiers)
        times = (
            f"A batch of 10000 samples takes {min(batches):.1f} to {max(batches):.1f} times as long as with `predict`, "
            f"and {wide:.1f} times for 16-bit inputs. A single sample is {signs:.1f} times as fast for a network of 31 "
            f"inputs, {images:.0f} times for one of 784 inputs and 1000 neurons, and {slowest:.0f} times or more for "
            "classifiers"
        )
        found |= {"onnx": f"{times} (experiment `exported`).", "times": f"{times}."}
    for record in where(records, kind="in memory"):
        rates = {name: one["rows_a_second"] / 1e6 for name, one in record.measured.items()}
        slowest = min(rate for name, rate in rates.items() if "network" in name)
        found["rows"] = (
            f"{slowest:.1f} million or more, beside {rates['boosting, 100 iterations']:.1f} million; logistic "
            f"regression predicts {rates['logistic regression']:.0f} million"
        )
    return found


#: The answer on top of the page.
ANSWER = """\
In memory, {exported: In memory} networks predict more rows a second than boosting of 100 iterations,
{exported.rows}. Exported ONNX gives the integers and labels of `predict` in {exported: Exported ONNX} cases.
{exported.times}
"""

#: Methods whose versions are stored with the records.
MEASURED = (*ESTIMATORS, "export")
EXPERIMENT = experiment_in(__name__, "Models where they run", "Targets of the package: exported models")
