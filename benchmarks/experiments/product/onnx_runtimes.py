"""Exported ONNX and QONNX where they run: speed of onnxruntime beside `predict`, circuits of hls4ml bit by bit.

    python benchmarks/onnx_runtimes.py [--quick] [--only {speed,circuits} ...] [--json FILE]

speed: seconds for a batch of samples and for a single one, and bytes of the file; one thread each. Every output is
compared first: networks exactly with integers, estimators by label.
circuits: hls4ml (pip install hls4ml h5py) converts QONNX with a default precision of as many bits as the proven bound
needs, g++ compiles what it writes, and the outputs are compared with those of the weights for 1000 inputs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from _results import FOLDER, save
from threadpoolctl import threadpool_limits

import qsdp
from qsdp.export import onnx_inputs, to_onnx, to_qonnx

#: Neurons, inputs, outputs, smallest and largest input.
NETWORKS = [(64, 31, 1, -1, 1), (250, 32, 1, -128, 127), (250, 32, 1, -(2**15), 2**15 - 1), (1000, 784, 10, 0, 255)]

#: Neurons, inputs, levels, activation, outputs, whether second-layer weights are equal.
CIRCUITS = [
    (64, 31, 2, None, 1, True),
    (20, 16, 3, None, 1, True),
    (20, 16, 4, None, 3, True),
    (20, 16, 2, (0.0937, 0.5, 0.4688), 1, True),
    (20, 16, 2, None, 1, False),
]


def main():
    """Measure, save and print."""
    options = parse()
    warnings.filterwarnings("ignore", category=qsdp.QSDPWarning)
    rows = []
    with threadpool_limits(1):
        for section in options.only:
            cases = {"speed": speed, "circuits": circuits}[section](options.quick)
            for row in cases:
                rows.append({"section": section, **row})
                save({"quick": options.quick, "rows": rows}, options.json)
                print("  ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                                for name, value in row.items()), flush=True)  # fmt: skip
    sys.exit(0 if all(row["equal"] for row in rows) else "an output differs")


def parse():
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=["speed", "circuits"], default=["speed"])
    parser.add_argument("--json", type=Path, default=FOLDER / "onnx_runtimes.json")
    return parser.parse_args()


def speed(quick):
    """Yield rows of networks and of a classifier."""
    rng = np.random.default_rng(0)
    for m, d, C, low, high in NETWORKS[: 2 if quick else None]:
        network = random_network(rng, m, d, C=C)
        X = rng.integers(low, high, (1000 if quick else 10_000, d), endpoint=True)
        model, feed = to_onnx(network, input_range=(low, high)), onnx_inputs(network, X, input_range=(low, high))
        x = X.astype(object) if quick else X
        values = (x @ network.U.T.astype(x.dtype)) * (x @ network.V.T.astype(x.dtype))
        exact = values @ (network.alpha.reshape(m, -1) != 0.0).astype(x.dtype)
        session = started(model)
        equal = np.array_equal(session.run(["outputs"], feed)[0], exact.astype(np.int64))
        yield {"case": f"{m} neurons, {d} inputs, {C} outputs, {low} to {high}", "equal": equal,
               **timed(network.predict, X.astype(float), session, feed, model)}  # fmt: skip
    X, y = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
    for encoding in ("standard", "thresholds"):
        fitted = qsdp.QuantizedNetworkClassifier(encoding=encoding, loss="logistic", random_state=0).fit(X, y)
        many = np.tile(X, (2 if quick else 18, 1))[:10_000]
        model, feed = to_onnx(fitted), onnx_inputs(fitted, many)
        session = started(model)
        equal = np.array_equal(session.run(["label"], feed)[0], fitted.predict(many))
        yield {"case": f"classifier, {encoding}", "equal": equal, **timed(fitted.predict, many, session, feed, model)}


def random_network(rng, m, d, *, levels=2, activation=None, C=1, shared=True):
    """Return a network of random weights; neurons serve one output each."""
    U, V = 2 * rng.integers(0, levels, size=(2, m, d)) - (levels - 1)
    if activation is not None:
        U, V = (np.hstack([own, rng.choice([-1, 1], (m, 1))]) for own in (U, V))
    served = np.eye(C)[np.sort(rng.integers(0, C, m))]
    alpha = 0.37 * served if shared else rng.normal(size=(m, C))
    return qsdp.BilinearNetwork(U, V, alpha if C > 1 else alpha[:, 0], levels, activation)


def started(model):
    """Return a session of one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def timed(predict, X, session, feed, model):
    """Return seconds for all samples and for the first one, by `predict` and by the session."""
    one = {name: values[:1] for name, values in feed.items()}
    first = X[:1]
    return {
        "samples": len(X),
        "predict": fastest(lambda: predict(X)),
        "onnxruntime": fastest(lambda: session.run(None, feed)),
        "predict one": fastest(lambda: predict(first)),
        "onnxruntime one": fastest(lambda: session.run(None, one)),
        "bytes": len(model.SerializeToString()),
    }


def fastest(call):
    """Return the seconds of the fastest of the calls that half a second allows, five at least."""
    seconds, end = [], time.perf_counter() + 0.5
    while len(seconds) < 5 or time.perf_counter() < end:
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def circuits(quick):
    """Yield rows of networks that hls4ml has converted and g++ compiled."""
    import hls4ml
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.util.cleanup import cleanup_model

    rng = np.random.default_rng(0)
    for m, d, levels, activation, C, shared in CIRCUITS[: 1 if quick else None]:
        network = random_network(rng, m, d, levels=levels, activation=activation, C=C, shared=shared)
        model = to_qonnx(network, input_range=(-8, 7))
        about = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
        bits = about["bound"].bit_length() + 1
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            cleaned = cleanup_model(ModelWrapper(model))
            options = {"backend": "Vitis", "default_precision": f"ap_fixed<{bits},{bits}>"}
            config = hls4ml.utils.config.config_from_onnx_model(cleaned, granularity="name", **options)
            circuit = hls4ml.converters.convert_from_onnx_model(
                cleaned, output_dir=os.path.join(folder, "hls"), io_type="io_parallel", backend="Vitis",
                hls_config=config,
            )  # fmt: skip
            circuit.compile()
            X = np.vstack([rng.integers(-8, 8, (998, d)), np.full((1, d), -8), np.full((1, d), 7)])
            found = circuit.predict(X.astype(np.float32)).reshape(len(X), -1)
        expected = network.predict(X.astype(float)).reshape(found.shape)
        lost = float(np.abs(found.astype(float) * about["unit"] - expected).max())
        whole = bool(np.array_equal(found, np.rint(found)))
        allowed = about["error"] + 1e-9 * np.abs(expected).max()
        yield {"case": f"{m} neurons, {d} inputs, {levels} levels, {activation}, {C} outputs, "
               f"{'equal' if shared else 'free'} weights", "equal": whole and lost <= allowed, "bits": bits,
               "error": about["error"], "lost": lost, "seconds": time.perf_counter() - begun}  # fmt: skip


if __name__ == "__main__":
    main()
