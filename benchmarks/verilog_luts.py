"""Verilog of MNIST's digits: accuracy, lookup tables counted by yosys, and outputs simulated by Icarus Verilog.

    python benchmarks/verilog_luts.py [--quick] [--json FILE]

Images are averaged over squares of pixels and compared with one threshold: bits, for which networks of one output a
class are trained on part of the training images. Modules are simulated on 1000 test images and compared with integers;
`yosys` maps them to tables of six inputs (`abc -fast -lut 6`, without carry chains). Needs Debian's packages iverilog
and yosys. Comparing images with the threshold is not counted.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from _results import save

import qsdp
from qsdp.encoding import ThresholdEncoder
from qsdp.export import to_verilog

#: Side of the squares of pixels, training images, digits of coefficients.
CASES = [(4, 10_000, 3), (4, 10_000, 4)]
QUICK = [(7, 1000, 3)]

_LIMIT = 1800


def main():
    """Measure, save and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small case")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=qsdp.QSDPWarning)
    rows = []
    for side, n, digits in QUICK if options.quick else CASES:
        rows.append(measure(side, n, digits))
        print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
        if options.json:
            save({"quick": options.quick, "rows": rows}, options.json)


def measure(side, n, digits):
    """Return the figures of one module."""
    X, X_test, y, y_test = qsdp.datasets.load_dataset("mnist").split(0)
    X, X_test, y = means_of(X[:n], side), means_of(X_test, side), y[:n]
    encoder = ThresholdEncoder(n_thresholds=1, strategy="quantile", bits="bipolar")
    began = time.perf_counter()
    model = qsdp.QuantizedNetworkClassifier(
        encoding=encoder, beta="1%", activation="relu", refine="none", n_neurons=50_000, tol=1e-2,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    trained = time.perf_counter() - began
    verilog = to_verilog(model, name="mnist", digits=digits)
    bits = verilog.model.bits(X_test)
    decided = verilog.model.description.decide(verilog.model.outputs(bits))
    outputs, chosen = verilog.simulate(bits[:1000])
    return {
        "bits": verilog.model.n_bits,
        "images": n,
        "digits": digits,
        "model": round(100 * model.score(X_test, y_test), 2),
        "accuracy": round(100 * float(np.mean(verilog.model.description.predictions(decided) == y_test)), 2),
        "equal": bool(np.array_equal(outputs, verilog.model.outputs(bits[:1000])) and (chosen == decided[:1000]).all()),
        "products": int(np.count_nonzero(verilog.model.pairs)),
        "tables": tables_of(verilog.source),
        "seconds": round(trained, 1),
    }


def means_of(X, side):
    """Return the means of squares of pixels."""
    return X.reshape(-1, 28 // side, side, 28 // side, side).mean(axis=(2, 4)).reshape(len(X), -1)


def tables_of(source):
    """Return the lookup tables of six inputs, or None where yosys takes too long."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.v").write_text(source)
        script = "read_verilog model.v; synth -flatten -noabc -top mnist; abc -fast -lut 6; stat"
        try:
            done = subprocess.run(
                ["yosys", "-p", script], cwd=folder, capture_output=True, text=True, check=True, timeout=_LIMIT
            )
        except subprocess.TimeoutExpired:
            return None
    return int(re.findall(r"\$lut\s+(\d+)", done.stdout)[-1])


if __name__ == "__main__":
    main()
