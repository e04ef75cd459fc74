"""Verilog of MNIST's digits: accuracy, lookup tables counted by yosys, and outputs simulated by Icarus Verilog.

    python benchmarks/verilog_luts.py [--quick] [--json FILE]

Sums over squares of pixels are compared with one threshold: bits, for which networks of one output a class are trained
on part of the training images. Modules are simulated on 1000 test images and compared with integers; `yosys` maps them
to tables of six inputs (`abc -fast -lut 6`, without carry chains), from bits and from the sums. Needs Debian's packages
iverilog and yosys. Adding up pixels is not counted. Published figures stand beside them; these models were not run.
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

#: Test accuracy in per cent and tables of six inputs as printed, after placing and routing for a Virtex UltraScale+.
#: TreeLUT: boosted trees, comparisons of pixels included; table I of the survey arXiv:2506.07367, which prints those of
#: arXiv:2501.01511. DWN: weightless networks, comparisons of pixels not included; table 2 of arXiv:2410.11112.
PUBLISHED = [
    {"model": "TreeLUT (I)", "accuracy": 97.0, "tables": 4478},
    {"model": "TreeLUT (II)", "accuracy": 96.0, "tables": 3499},
    {"model": "DWN (n=6; sm)", "accuracy": 97.1, "tables": 692},
    {"model": "DWN (n=6; lg)", "accuracy": 98.3, "tables": 4082},
]

_LIMIT = 1800


def main():
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
            save({"quick": options.quick, "rows": rows, "published": PUBLISHED}, options.json)
    for row in PUBLISHED:
        print("published:", "  ".join(f"{name} {value}" for name, value in row.items()))


def measure(side, n, digits):
    X, X_test, y, y_test = qsdp.datasets.load_dataset("mnist").split(0)
    X, X_test, y = sums_of(X[:n], side), sums_of(X_test, side), y[:n]
    encoder = ThresholdEncoder(n_thresholds=1, strategy="quantile", bits="bipolar")
    began = time.perf_counter()
    model = qsdp.QuantizedNetworkClassifier(
        encoding=encoder, beta="1%", activation="relu_like", refine="none", n_neurons=50_000, tol=1e-2,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    trained = time.perf_counter() - began
    # Thresholds of integers lie half-way between two of them.
    halves = {f"x{j}": 2 for j in range(X.shape[1])}
    verilog = to_verilog(model, name="mnist", digits=digits, scales=halves)
    words = verilog.words.columns(X_test)
    bits = verilog.model.bits(X_test)
    decided = verilog.model.description.decide(verilog.model.outputs(bits))
    outputs, chosen = verilog.simulate(words[:1000], columns=True)
    return {
        "bits": verilog.model.n_bits,
        "images": n,
        "digits": digits,
        "model": round(100 * model.score(X_test, y_test), 2),
        "accuracy": round(100 * float(np.mean(verilog.model.description.predictions(decided) == y_test)), 2),
        "equal": bool(np.array_equal(outputs, verilog.model.outputs(bits[:1000])) and (chosen == decided[:1000]).all()),
        "products": int(np.count_nonzero(verilog.model.pairs)),
        "tables": tables_of(verilog.source, "mnist"),
        "tables_from_sums": tables_of(verilog.source, "mnist_columns"),
        "seconds": round(trained, 1),
    }


def sums_of(X, side):
    """Return the sums of squares of pixels of 0 to 255."""
    return X.reshape(-1, 28 // side, side, 28 // side, side).sum(axis=(2, 4)).reshape(len(X), -1)


def tables_of(source, top):
    """Return the lookup tables of six inputs of a module, or None where yosys takes too long."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.v").write_text(source)
        script = f"read_verilog model.v; synth -flatten -noabc -top {top}; abc -fast -lut 6; stat"
        try:
            done = subprocess.run(
                ["yosys", "-p", script], cwd=folder, capture_output=True, text=True, check=True, timeout=_LIMIT
            )
        except subprocess.TimeoutExpired:
            return None
    return int(re.findall(r"\$lut\s+(\d+)", done.stdout)[-1])


if __name__ == "__main__":
    main()
