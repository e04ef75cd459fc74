"""Exported ONNX and QONNX where they run: speed of onnxruntime beside `predict`, circuits of hls4ml bit by bit.

Speed: seconds for a batch of rows and for a single one, the fastest of the calls that half a second allows, one thread
each; and bytes of the file. Every output is compared first: networks exactly with integers, classifiers by label.
Circuits: hls4ml (pip install hls4ml h5py) converts QONNX with a default precision of as many bits as the proven bound
needs, g++ compiles what it writes, and the outputs are compared with those of the weights for 1000 inputs.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments._common import TARGET, Records, experiment_in, timed, where
from qsdp.bench import Claim, exact
from qsdp.export import onnx_inputs, to_onnx, to_qonnx

#: Rows of a batch; for quick cases.
ROWS, FEW = 10_000, 1000
#: Neurons, inputs, outputs, smallest and largest input.
NETWORKS = ((64, 31, 1, -1, 1), (250, 32, 1, -128, 127), (250, 32, 1, -(2**15), 2**15 - 1), (1000, 784, 10, 0, 255))
#: Neurons, inputs, levels, activation, outputs, whether second-layer weights are equal.
CIRCUITS = (
    (64, 31, 2, None, 1, True),
    (20, 16, 3, None, 1, True),
    (20, 16, 4, None, 3, True),
    (20, 16, 2, "relu_like", 1, True),
    (20, 16, 2, None, 1, False),
)

EQUAL = (TARGET, "Exported ONNX gives the integers and the labels of `predict` in onnxruntime.")
SAME = (TARGET, "Circuits of hls4ml, made of exported QONNX, give the integers of the weights.")


def cases(quick: bool) -> list[dict[str, Any]]:
    names = ("neurons", "inputs", "outputs", "low", "high")
    made = [{"kind": "network", **dict(zip(names, sizes, strict=True))} for sizes in NETWORKS[: 2 if quick else None]]
    made += [{"kind": "classifier", "encoding": encoding} for encoding in ("standard", "thresholds")]
    made = [{**case, "rows": FEW if quick else ROWS} for case in made]
    names = ("neurons", "inputs", "levels", "activation", "outputs", "shared")
    return made + [{"kind": "circuit", **dict(zip(names, sizes, strict=True))} for sizes in CIRCUITS if not quick]


def run(case: dict[str, Any]) -> dict[str, Any]:
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        return KINDS[case["kind"]](case)


def network_of(rng: np.random.Generator, case: dict[str, Any]) -> qsdp.BilinearNetwork:
    """Return a network of random weights; neurons serve one output each."""
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
    model, feed = to_onnx(network, input_range=(low, high)), onnx_inputs(network, X, input_range=(low, high))
    values = (X @ network.U.T.astype(np.int64)) * (X @ network.V.T.astype(np.int64))
    exact_outputs = values @ (network.alpha.reshape(len(network.alpha), -1) != 0.0).astype(np.int64)
    session = started(model)
    equal = np.array_equal(session.run(["outputs"], feed)[0], exact_outputs)
    return {"equal": equal, **speeds(network.predict, X.astype(float), session, feed, model)}


def of_classifier(case: dict[str, Any]) -> dict[str, Any]:
    X, y = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
    fitted = qsdp.QuantizedNetworkClassifier(encoding=case["encoding"], loss="logistic", random_state=0).fit(X, y)
    many = np.resize(X, (case["rows"], X.shape[1]))
    model, feed = to_onnx(fitted), onnx_inputs(fitted, many)
    session = started(model)
    equal = np.array_equal(session.run(["label"], feed)[0], fitted.predict(many))
    return {"equal": equal, **speeds(fitted.predict, many, session, feed, model)}


def started(model: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def speeds(
    predict: Callable[[Any], Any], X: np.ndarray, session: Any, feed: dict[str, Any], model: Any
) -> dict[str, Any]:
    """Return seconds for all rows and for the first one, by `predict` and by the session."""
    one = {name: values[:1] for name, values in feed.items()}
    return {
        "predict": fastest(lambda: predict(X)),
        "onnxruntime": fastest(lambda: session.run(None, feed)),
        "predict_one": fastest(lambda: predict(X[:1])),
        "onnxruntime_one": fastest(lambda: session.run(None, one)),
        "bytes": len(model.SerializeToString()),
    }


def fastest(call: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of the calls that half a second allows, five at least."""
    seconds: list[float] = []
    while len(seconds) < 5 or sum(seconds) < 0.5:
        seconds.append(timed(call, time.perf_counter)[1])
    return min(seconds)


def of_circuit(case: dict[str, Any]) -> dict[str, Any]:
    """Return what a network loses that hls4ml has converted and g++ compiled."""
    import hls4ml
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.util.cleanup import cleanup_model

    rng = np.random.default_rng(0)
    network, d = network_of(rng, case), case["inputs"]
    model = to_qonnx(network, input_range=(-8, 7))
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


KINDS = {"network": of_network, "classifier": of_classifier, "circuit": of_circuit}


def name_of(group: Records) -> str:
    case = group[0].case
    if case["kind"] == "classifier":
        return f"classifier of breast-cancer, {case['encoding']}"
    sizes = f"{case['neurons']} neurons, {case['inputs']} inputs, {case['outputs']} outputs"
    if case["kind"] == "network":
        return f"{sizes}, {case['low']} to {case['high']}"
    weights = "equal" if case["shared"] else "free"
    return f"{sizes}, {case['levels']} levels, {case['activation'] or 'bilinear'}, {weights} weights"


def claims(records: Records) -> list[Claim]:
    speed, circuits = where(records, kind=("network", "classifier")), where(records, kind="circuit")
    return [
        exact(*claim, {name_of([record]): record.measured["equal"] for record in part}, needed=needed)
        for claim, part, needed in ((EQUAL, speed, len(NETWORKS) + 2), (SAME, circuits, len(CIRCUITS)))
    ]


EXPERIMENT = experiment_in(__name__, "ONNX and QONNX where they run", "Targets of the package")
