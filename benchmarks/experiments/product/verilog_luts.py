"""Verilog of MNIST's digits: accuracy, lookup tables counted by yosys, and outputs simulated by Icarus Verilog.

Sums over squares of pixels are compared with one threshold. Networks of one output per class are trained on these bits,
with part of the training images. Modules are simulated on 1000 test images and compared with integers; `yosys` maps
them to tables of six inputs (`abc -fast -lut 6`, without carry chains), from the bits and from the sums. Adding up the
pixels is not counted. Published figures of other models are quoted, not measured. Requires Debian's iverilog and yosys.

There are two rows, for three and four decimal digits of the coefficients. The classifier has a beta of 1 % of the
smallest value that makes the zero network optimal, an activation with a constant part and no constant column; it learns
from the first 10000 training images. Seconds are CPU time for the fit.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import qsdp
from benchmarks.data.sets import pooled
from benchmarks.machinery.common import TARGET, Records, by, experiment_in, timed
from benchmarks.machinery.process import installed
from benchmarks.machinery.verdicts import Claim, exact
from benchmarks.versions import ESTIMATORS

#: Published test accuracies and six-input tables, after placing and routing for a Virtex UltraScale+.
PRINTED = (
    "TreeLUT (boosted trees, comparisons of pixels included; table I of the survey arXiv:2506.07367, which prints "
    "those of arXiv:2501.01511): 97.0 % in 4,478 and 96.0 % in 3,499 tables. DWN (weightless networks, comparisons of "
    "pixels not included; table 2 of arXiv:2410.11112), n=6: 97.1 % in 692 and 98.3 % in 4,082."
)
PROGRAMS = ("iverilog", "yosys")


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return cases by the side of the pixel squares, the number of training images and the digits of coefficients."""
    small = [(7, 1000, 3)] if installed(*PROGRAMS) else []
    sizes = small if quick else [(4, 10_000, 3), (4, 10_000, 4)]
    return [{"side": side, "images": n, "digits": digits} for side, n, digits in sizes]


def run(case: dict[str, Any]) -> dict[str, Any]:
    images, labels = qsdp.datasets.load_mnist()
    train, test = np.split(np.random.default_rng(0).permutation(len(labels)), [int(0.8 * len(labels))])
    X, X_test, y, y_test = images[train], images[test], labels[train], labels[test]
    side, n = case["side"], case["images"]
    # Sums of pixels from 0 to 255, rounded back to integers.
    X, X_test = (np.rint(side**2 * pooled(part, 28 // side)) for part in (X[:n], X_test))
    encoder = qsdp.encoding.TableEncoder("thresholds", n_thresholds=1, strategy="quantile", bits="bipolar")
    options = {"beta": "1%", "activation": "relu_like", "refine": "none", "n_neurons": 50_000, "tol": 1e-2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        model = qsdp.QuantizedNetworkClassifier(encoding=encoder, random_state=0, **options)
        _, seconds = timed(lambda: model.fit(X, y[:n]))
        # Thresholds lie half-way between two integers.
        halves = {f"x{j}": 2 for j in range(X.shape[1])}
        verilog = qsdp.export.to_verilog(model, name="mnist", digits=case["digits"], scales=halves)
    words = verilog.words.columns(X_test)
    bits = verilog.model.bits(X_test)
    decided = verilog.model.description.decide(verilog.model.outputs(bits))
    outputs, chosen = verilog.simulate(words[:1000], columns=True)
    return {
        "bits": verilog.model.n_bits,
        "network_test": model.score(X_test, y_test),
        "test": float(np.mean(verilog.model.description.predictions(decided) == y_test)),
        "equal": bool(np.array_equal(outputs, verilog.model.outputs(bits[:1000])) and (chosen == decided[:1000]).all()),
        "products": int(np.count_nonzero(verilog.model.pairs)),
        "tables": tables_of(verilog.source, "mnist"),
        "tables_from_sums": tables_of(verilog.source, "mnist_columns"),
        "seconds": seconds,
    }


def tables_of(source: str, top: str) -> int:
    """Return the number of six-input lookup tables of a module."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.v").write_text(source)
        script = f"read_verilog model.v; synth -flatten -noabc -top {top}; abc -fast -lut 6; stat"
        options: dict[str, Any] = {"capture_output": True, "text": True, "check": True, "timeout": 1800}
        done = subprocess.run(["yosys", "-p", script], cwd=folder, **options)
    return int(re.findall(r"\$lut\s+(\d+)", done.stdout)[-1])


def claims(records: Records) -> list[Claim]:
    return [
        exact(TARGET, "Outputs and classes of simulated modules are those of integers.", by(records, "equal", "digits"))
    ]


def quotes(records: Records) -> dict[str, str]:
    known = {r.case["digits"]: r.measured for r in records}
    if not known.keys() >= {3, 4}:
        return {}
    few, many = (known[digits]["tables_from_sums"] / known[digits]["products"] for digits in (3, 4))
    accuracy, tables = f"{100 * known[3]['test']:.1f} %", f"{known[3]['tables_from_sums']:,}"
    sizes = " and ".join(
        f"{100 * known[digits]['test']:.1f} % in {known[digits]['tables_from_sums']:,}" for digits in (3, 4)
    )
    return {
        "sizes": sizes,
        "guide": "In the circuits of the experiment `verilog_luts`, yosys counts "
        f"{few:.1f} six-input lookup tables per product at `digits=3` and {many:.1f} at `digits=4`. Each output has up "
        "to d (d - 1) / 2 products; two bits of the same column need none. The smaller circuit reads "
        f"{accuracy} of MNIST's test images in {tables} tables, where TreeLUT reports 3,499 for 96 %.",
    }


#: The answer on top of the page.
ANSWER = """\
Simulated modules give the integers and classes of the network in {verilog_luts: Outputs and classes} circuits. With
three and four decimal digits of the coefficients, they have {verilog_luts.sizes} lookup tables of six inputs after
synthesis, comparisons of the sums included and adding up pixels not. Others print far higher accuracies for MNIST in as
many: TreeLUT 97.0 % in 4,478 after placing and routing.
"""

#: Methods whose versions are stored with the records.
MEASURED = (*ESTIMATORS, "export")
EXPERIMENT = experiment_in(
    __name__, "Circuits in Verilog", "Targets of the package: exported models", extra={"Printed": PRINTED}
)
