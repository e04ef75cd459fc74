"""One large case for each solver and for each part of the package that small tests are too small to see.

Every case runs in processes of its own with one BLAS thread; seconds are CPU time of the call. The variable QSDP_BEFORE
names another checkout of the repository, such as a worktree of an earlier commit. Each case is then run in both,
alternately, and the shortest of two times of each is compared: *ratio* is now to before. Without the variable only this
checkout runs.

    interior, splitting, low-rank    the solver's name, on planted data (2000 x 80), 30 principal components of MNIST
                                     (60000 images, ten classes) and all pixels of 2000 images
    scs, clarabel                    through CVXPY, on ionosphere
    logistic                         planted data, 5000 x 40
    pixels                           MNIST pooled to 14 x 14, 60000 images, one class against the rest, to 1e-2
    letters                          26 outputs
    blocks                           ten proofs on blocks of moments, one for each class of MNIST, as in `block_mnist`
    inputs                           a proof on ionosphere, 35 inputs
    polish                           250 neurons of random signs, cross-entropy, ten classes, 5000 pooled images
    certificate                      of a network of planted data, 1000 x 60

Betas are in the cases, as numbers or as shares of `beta_max`. UCI sets are standardised; UCI sets and images have a
column of ones, planted data and principal components do not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import qsdp
from benchmarks.data.sets import images, pooled, scaled, signs_of, with_constant
from benchmarks.data.uci_sets import load_uci
from benchmarks.experiments.product.block_mnist import blocks_of
from benchmarks.experiments.solvers.solvers import mnist_components
from benchmarks.machinery.common import TARGET, Records, experiment_in
from benchmarks.machinery.verdicts import Claim, exact

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "benchmarks" / "methods" / "canary.py"
#: Runs of each checkout, the ratio that a change may cost, and the seconds that nobody sees.
RUNS, ALLOWED, UNSEEN = 2, 1.1, 0.02

Arrays = dict[str, np.ndarray]


def planted(n: int, d: int, *, signs: bool = False) -> Arrays:
    X, y = qsdp.datasets.make_planted(n, d, random_state=0)
    return {"X": X, "y": np.where(y > np.median(y), 1.0, -1.0) if signs else y}


def components(n: int) -> Arrays:
    X, labels = mnist_components(n, 30)
    return {"X": X, "y": signs_of(labels)}


def uci(name: str) -> Arrays:
    data = load_uci(name)
    X = data.X[:, data.X.std(axis=0) > 0.0]
    (X,) = with_constant(scaled(X, X[:1])[0])
    return {"X": X, "y": data.y if data.y.dtype.kind == "f" else signs_of(data.y)}


def pictures(n: int, side: int, *, digit: int | None = None, classes: bool = False) -> Arrays:
    X, _, labels, _ = images("mnist", n)
    (X,) = with_constant(pooled(X, side))
    signs = signs_of(labels)
    return {"X": X, "y": labels if classes else signs if digit is None else signs[:, digit]}


def moments(n: int) -> Arrays:
    X, _, labels, _ = images("mnist", n)
    blocks = blocks_of(X)
    return {"X": blocks.rows, "sizes": np.asarray(blocks.sizes), "y": signs_of(labels)}


DATA: dict[str, Callable[..., Arrays]] = {
    "planted": planted,
    "components": components,
    "uci": uci,
    "pictures": pictures,
    "moments": moments,
}


def case(name: str, kind: str, data: str, size: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"canary": name, "kind": kind, "data": data, "size": size, "options": options}


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return [
            case("interior", "relaxation", "planted", {"n": 60, "d": 6}, beta=1.0, solver="interior"),
            case("polish", "polish", "planted", {"n": 60, "d": 6}, beta=1.0, n_neurons=10, max_sweeps=2),
        ]
    ionosphere = {"name": "ionosphere"}
    return [
        case("interior", "relaxation", "planted", {"n": 2000, "d": 80}, beta=1.0, solver="interior"),
        case("splitting", "relaxation", "components", {"n": 60_000}, beta=10.0, solver="splitting", tol=1e-4),
        case("low-rank", "relaxation", "pictures", {"n": 2000, "side": 28, "digit": 3}, share=0.05, solver="low-rank",
             tol=1e-2),
        case("scs", "relaxation", "uci", ionosphere, beta=10.0, solver="scs", tol=1e-4),
        case("clarabel", "relaxation", "uci", ionosphere, beta=10.0, solver="clarabel", tol=1e-4),
        case("logistic", "relaxation", "planted", {"n": 5000, "d": 40, "signs": True}, beta=10.0, loss="logistic"),
        case("pixels", "relaxation", "pictures", {"n": 60_000, "side": 14, "digit": 3}, share=0.02, tol=1e-2),
        case("letters", "relaxation", "uci", {"name": "letter"}, share=0.0001, tol=1e-5),
        case("blocks", "proof", "moments", {"n": 60_000}, share=0.001, tol=1e-6),
        case("inputs", "proof", "uci", ionosphere, beta=1.0, tol=1e-6),
        case("polish", "polish", "pictures", {"n": 5000, "side": 14, "classes": True}, share=1e-4,
             loss="cross_entropy", n_neurons=250, max_sweeps=3),
        case("certificate", "certificate", "planted", {"n": 1000, "d": 60}, beta=1.0),
    ]  # fmt: skip


def run(case: dict[str, Any]) -> dict[str, Any]:
    checkouts = {"now": ROOT}
    if before := os.environ.get("QSDP_BEFORE"):
        checkouts["before"] = Path(before).resolve()
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in checkouts}
    with TemporaryDirectory() as folder:
        file = Path(folder, "data.npz")
        np.savez(file, **DATA[case["data"]](**case["size"]))
        for _ in range(RUNS):
            for name, checkout in checkouts.items():
                runs[name].append(measured_in(checkout, case, file))
    best = {name: min(each, key=lambda one: one["seconds"]) for name, each in runs.items()}
    measured = dict(best["now"])
    if "before" in best:
        measured |= {"before": best["before"], "ratio": measured["seconds"] / best["before"]["seconds"]}
    return measured


def measured_in(checkout: Path, case: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return the measurement of a case by the library of a checkout."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-", case["kind"], str(file), json.dumps(case["options"])]
    environment = {**os.environ, **threads, "PYTHONPATH": str(checkout)}
    with SCRIPT.open(encoding="utf-8") as script:
        ran = subprocess.run(
            command, stdin=script, cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )
    if ran.returncode:
        raise RuntimeError(f"{case['canary']} in {checkout}: {ran.stderr.strip().splitlines()[-1]}")
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def shown(records: Records) -> Records:
    """Return records named by their canary alone, with both times and what both checkouts returned."""
    found = []
    for record in records:
        before = record.measured.get("before", {})
        differing = {f"{name} before": before[name] for name in before if before[name] != record.measured.get(name)}
        measured = {name: value for name, value in record.measured.items() if name != "before"} | differing
        found.append(replace(record, case={"canary": record.case["canary"]}, measured=measured))
    return found


def claims(records: Records) -> list[Claim]:
    compared = [record for record in records if "ratio" in record.measured]
    holds = {}
    for record in compared:
        longer = record.measured["seconds"] - record.measured["before"]["seconds"]
        holds[record.case["canary"]] = record.measured["ratio"] <= ALLOWED or longer <= UNSEEN
    figures = ", ".join(f"{r.case['canary']} {r.measured['ratio']:.2f}" for r in compared)
    statement = (
        f"No canary takes more than {ALLOWED:g} times the time of the checkout before, or {1e3 * UNSEEN:g} ms more."
    )
    return [exact(TARGET, statement, holds, figures, needed=len(cases(quick=False)))]


#: The answer on top of the page.
ANSWER = """\
In {canaries: No canary takes} large cases, one for each solver and part, this checkout takes at most 1.1 times the time
of the one before, or 20 ms more.
"""

#: Methods whose versions are stored with the records: none, since a checkout is compared with another.
MEASURED = ()
EXPERIMENT = experiment_in(__name__, "Canaries: large cases, now and before", "Targets of the package: no step back")
