"""Models where they run: predictions, exported C, ONNX in onnxruntime, circuits of hls4ml, and encrypted inputs.

Seconds are CPU time of one thread, for the fastest of several calls. The networks have random weights.

    in memory            float64 rows of 30 columns: networks, evaluated neuron by neuron or as a quadratic form,
                         whichever takes fewer operations, beside scikit-learn's logistic regression and boosting
    integers of 8 bits   networks with integer weights, exported as C in the layouts "neurons" and "form", compiled
                         with -O3; their outputs are checked to equal those of `predict`
    files                `qsdp predict` with a model of 500 neurons: reading, encoding, predicting and writing CSV
    network, classifier  exported ONNX beside `predict`, for a batch of rows and for one row, and bytes of the file;
                         all outputs are compared: those of networks exactly with integers, of classifiers by label
    circuit              hls4ml (pip install hls4ml h5py) converts QONNX with as many bits of default precision as
                         the proven bound needs, g++ compiles it; outputs are compared for 1000 inputs
    encrypted            TenSEAL evaluates one input at a time: medians, bytes, and errors beside their worst-case
                         bound

No column is appended, and nothing is trained, so there is no beta.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
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
#: Neurons, inputs, levels, activation, outputs, and whether second-layer weights are equal.
CIRCUITS = (
    (64, 31, 2, None, 1, True),
    (20, 16, 3, None, 1, True),
    (20, 16, 4, None, 3, True),
    (20, 16, 2, "relu_like", 1, True),
    (20, 16, 2, None, 1, False),
)
#: Inputs, neurons and outputs, and the largest entry of an input.
ENCRYPTED, BOUND = ((31, 74, 1), (31, 74, 3), (31, 1000, 1), (64, 320, 10), (100, 20, 1)), 3.0

EQUAL = (TARGET, "Exported ONNX gives the integers and the labels of `predict` in onnxruntime.")
SAME = (TARGET, "Circuits of hls4ml, made of exported QONNX, give the integers of the weights.")
NEAR = (TARGET, "No output of an encrypted input is further off than its bound.")
FASTER = "In memory, networks of 100 to 2500 neurons predict more rows a second than boosting of 100 iterations."


def cases(quick: bool) -> list[dict[str, Any]]:
    kinds = [kind for kind in SPEEDS if not quick or kind != "integers of 8 bits" or installed("gcc")]
    made = grid(kind=kinds, rows=2000 if quick else 200_000)
    names, rows = ("neurons", "inputs", "outputs", "low", "high"), 1000 if quick else 10_000
    for sizes in NETWORKS[: 2 if quick else None]:
        made.append({"kind": "network", **dict(zip(names, sizes, strict=True)), "rows": rows})
    made += grid(kind="classifier", encoding=("standard", "thresholds"), rows=rows)
    names = ("neurons", "inputs", "levels", "activation", "outputs", "shared")
    made += [{"kind": "circuit", **dict(zip(names, sizes, strict=True))} for sizes in CIRCUITS if not quick]
    for d, m, outputs in ENCRYPTED[: 1 if quick else None]:
        made.append({"kind": "encrypted", "inputs": d, "neurons": m, "outputs": outputs, "rows": 2 if quick else 20})
    return made


def run(case: dict[str, Any]) -> dict[str, Any]:
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        return speeds(case) if case["kind"] in SPEEDS else KINDS[case["kind"]](case)


def fastest(call: Callable[[], Any], least: int = 3) -> float:
    """Return the seconds of the fastest call; calls are repeated for half a second, and at least `least` times."""
    seconds: list[float] = []
    while len(seconds) < least or sum(seconds) < 0.5:
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
    return {name: len(X) / fastest(partial(model.predict, X)) for name, model in models.items()}


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
        found[f"{m} neurons, predict"] = len(rows) / fastest(partial(integers.predict, columns))
        for layout in ("neurons", "form"):
            model = qsdp.export.to_c(integers, input_range=(-128, 127), layout=layout, packed=False).compile()
            np.testing.assert_array_equal(model.scores(columns[:1000])[:, 0], integers.predict(columns[:1000]))
            found[f"{m} neurons, C of {layout}"] = len(rows) / fastest(partial(model.evaluate, columns))
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
        return {name: len(table) / fastest(partial(predict, path), 1) for name, path in files.items()}


def command(*arguments: Any) -> None:
    from typer.testing import CliRunner

    from qsdp import cli

    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    if result.exit_code:
        raise RuntimeError(result.stderr)


SPEEDS = {"in memory": in_memory, "integers of 8 bits": in_c, "files": from_files}


# -- ONNX, circuits, encrypted inputs -----------------------------------------------------------------------


def network_of(rng: np.random.Generator, case: dict[str, Any]) -> qsdp.BilinearNetwork:
    """Return a network of random weights; with shared weights, each neuron serves one output."""
    m, C, levels, activation = case["neurons"], case["outputs"], case.get("levels", 2), case.get("activation")
    U, V = 2 * rng.integers(0, levels, size=(2, m, case["inputs"])) - (levels - 1)
    if activation is not None:
        U, V = (np.hstack([own, rng.choice([-1, 1], (m, 1))]) for own in (U, V))
    served = np.eye(C)[np.sort(rng.integers(0, C, m))]
    alpha = 0.37 * served if case.get("shared", True) else rng.normal(size=(m, C))
    return qsdp.BilinearNetwork(U, V, alpha if C > 1 else alpha[:, 0], levels, activation)


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
        "predict": fastest(lambda: predict(X)),
        "onnxruntime": fastest(lambda: session.run(None, feed)),
        "predict_one": fastest(lambda: predict(X[:1])),
        "onnxruntime_one": fastest(lambda: session.run(None, one)),
        "bytes": len(model.SerializeToString()),
    }


def of_circuit(case: dict[str, Any]) -> dict[str, Any]:
    """Return the error of a network that hls4ml has converted and g++ has compiled."""
    import hls4ml
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.util.cleanup import cleanup_model

    rng = np.random.default_rng(0)
    network, d = network_of(rng, case), case["inputs"]
    model = qsdp.export.to_qonnx(network, input_range=(-8, 7))
    about = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    bits = about["bound"].bit_length() + 1
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        cleaned = cleanup_model(ModelWrapper(model))
        options = {"backend": "Vitis", "default_precision": f"ap_fixed<{bits},{bits}>"}
        config = hls4ml.utils.config.config_from_onnx_model(cleaned, granularity="name", **options)
        circuit = hls4ml.converters.convert_from_onnx_model(
            cleaned, output_dir=os.path.join(folder, "hls"), io_type="io_parallel", backend="Vitis", hls_config=config
        )
        circuit.compile()
        X = np.vstack([rng.integers(-8, 8, (998, d)), np.full((1, d), -8), np.full((1, d), 7)])
        found = circuit.predict(X.astype(np.float32)).reshape(len(X), -1)
    expected = network.predict(X.astype(float)).reshape(found.shape)
    lost = float(np.abs(found.astype(float) * about["unit"] - expected).max())
    allowed = about["error"] + 1e-9 * np.abs(expected).max()
    equal = bool(np.array_equal(found, np.rint(found)) and lost <= allowed)
    return {"equal": equal, "bits": bits, "error": about["error"], "lost": lost}


def of_encrypted(case: dict[str, Any]) -> dict[str, Any]:
    rng, m, outputs = np.random.default_rng(0), case["neurons"], case["outputs"]
    U, V = rng.choice([-1, 1], size=(2, m, case["inputs"]))
    alpha = 0.1 * np.eye(outputs)[np.arange(m) % outputs]
    network = qsdp.BilinearNetwork(U, V, alpha if outputs > 1 else alpha[:, 0])
    evaluated = qsdp.export.encrypted(network, bound=BOUND)
    client, keys_seconds = timed(lambda: qsdp.export.EncryptedClient(evaluated.parameters))
    seconds, errors = [], []
    for row in rng.uniform(-BOUND, BOUND, size=(case["rows"], 1, case["inputs"])):
        cipher, encrypting = timed(partial(client.encrypt, row))
        answer, evaluating = timed(partial(evaluated.evaluate, client.public, cipher))
        found, decrypting = timed(partial(client.decrypt, answer))
        seconds.append((encrypting, evaluating, decrypting))
        errors.append(np.abs(found - network.predict(row).reshape(1, -1)).max())
    steps = ("encrypt_seconds", "evaluate_seconds", "decrypt_seconds")
    return {
        "keys_seconds": keys_seconds,
        **dict(zip(steps, np.median(seconds, axis=0).tolist(), strict=True)),
        "public_bytes": len(client.public),
        "sent_bytes": sum(map(len, cipher[0])),
        "received_bytes": sum(map(len, answer[0])),
        "bound": evaluated.parameters.error,
        "error": max(errors),
    }


KINDS = {"network": of_network, "classifier": of_classifier, "circuit": of_circuit, "encrypted": of_encrypted}


def claims(records: Records) -> list[Claim]:
    equal = {kind: [r.measured["equal"] for r in where(records, kind=kind)] for kind in tuple(KINDS)[:3]}
    faster, near = {}, [r.measured["error"] <= r.measured["bound"] for r in where(records, kind="encrypted")]
    for record in where(records, kind="in memory"):
        rates = {name: one["rows_a_second"] for name, one in record.measured.items()}
        faster = {name: rate > rates["boosting, 100 iterations"] for name, rate in rates.items() if "network" in name}
    return [
        exact(TARGET, FASTER, faster),
        exact(*EQUAL, equal["network"] + equal["classifier"], needed=len(NETWORKS) + 2),
        exact(*SAME, equal["circuit"], needed=len(CIRCUITS)),
        exact(*NEAR, near, needed=len(ENCRYPTED)),
    ]


def quotes(records: Records) -> dict[str, str]:
    found = {}
    networks, classifiers, hidden = (
        [r.measured for r in records if r.case["kind"] == kind] for kind in ("network", "classifier", "encrypted")
    )
    if len(networks) == len(NETWORKS) and classifiers:
        # In the order of the cases: signs, bytes, words of 16 bits and pixels as inputs, and the classifiers.
        *narrow, wide, pixels = (one["onnxruntime"] / one["predict"] for one in networks)
        batches = [*narrow, pixels, *(one["onnxruntime"] / one["predict"] for one in classifiers)]
        signs, _, _, images = (one["predict_one"] / one["onnxruntime_one"] for one in networks)
        slowest = min(one["predict_one"] / one["onnxruntime_one"] for one in classifiers)
        found["onnx"] = (
            f"A batch of 10000 samples takes {min(batches):.1f} to {max(batches):.1f} times as long as with `predict`, "
            f"and {wide:.1f} times for 16-bit inputs. A single sample is {signs:.1f} times as fast for a network of 31 "
            f"inputs, {images:.0f} times for one of 784 inputs and 1000 neurons, and {slowest:.0f} times or more for "
            "classifiers ([measured](../results/exported.md))."
        )
    if hidden:
        keys, sent, back = (hidden[0][f"{what}_bytes"] / 2**20 for what in ("public", "sent", "received"))
        found["encrypted"] = (
            f"One input of this network takes {hidden[0]['evaluate_seconds']:.2f} s to evaluate on one processor "
            f"([measured](../results/exported.md)). The keys are {keys:.0f} MiB, sent once; ciphertexts are {sent:.1f} "
            f"MiB there and {back:.1f} MiB back."
        )
    return found


#: Methods whose versions are stored with the records.
MEASURED = (*ESTIMATORS, "export")
EXPERIMENT = experiment_in(__name__, "Models where they run", "Targets of the package: exported models")
