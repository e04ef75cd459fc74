"""Column generation on blocks: all 60000 training images of MNIST, moments of patches in 16 regions, ten classes.

Images are pooled to 14 x 14 means of four pixels, rounded to integers. A patch is 3 x 3 of these, in units of a pixel's
largest value, and a constant: a column of ones is appended to all patches. A region is 3 x 3 neighbouring patches of
the 12 x 12. The 16 data matrices of an image are the means of the products of two entries of a patch over the patches
of a region: P = 880 numbers of single precision. Nothing is augmented, and neither betas nor anything else were chosen
by the test images.

    squared         ten outputs, one class against the rest with targets -1 and 1, at shares of the `beta_max` of all
                    outputs together
    cross_entropy   ten outputs coupled; soon is when a gap of 1e-2 was certified

Seconds are CPU time of one thread. They include the Gram matrix, and neither the moments nor `beta_max`. Every case
runs in its own process; its peak memory includes libraries and data.

Every certificate is saved without its rows, with their sums for squared losses and with their digest for the other, and
`qsdp-check` reads it in a process of its own; for the other loss it is given the rows. Its seconds are of that process.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import qsdp
from benchmarks.data.sets import images, pooled, signs_of
from benchmarks.machinery.common import TARGET, Records, accuracy, experiment_in, timed, where
from benchmarks.machinery.process import in_own_process, peak
from benchmarks.machinery.verdicts import Claim, exact

SQUARED, COUPLED = "squared", "cross_entropy"
#: Share of `beta_max` and largest number of seconds in which all classes are proven.
SOON = ((0.001, 10.0), (0.0003, 20.0), (0.0001, 60.0))
PROVEN, MEMORY = 1e-6, 4096.0
#: Largest size in MiB of a certificate's file, and largest number of seconds in which it is checked.
FILE, CHECKED = 50.0, 60.0
#: Share for coupled outputs, and gaps with the largest number of seconds in which they are certified.
SHARE, GAPS = 0.001, ((1e-2, 120.0), (1e-4, 900.0))


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return [{"loss": loss, "share": 0.1, "samples": 200} for loss in (SQUARED, COUPLED)]
    squared = [{"loss": SQUARED, "share": share, "samples": 60_000} for share, _ in SOON]
    return [*squared, {"loss": COUPLED, "share": SHARE, "samples": 60_000}]


def blocks_of(X: np.ndarray) -> qsdp.Blocks:
    """Return the moments of the patches of images with pixels in [0, 1]."""
    pixels = np.rint(255.0 * pooled(X, 14)).astype(np.float32).reshape(-1, 14, 14) / 255.0
    moments = np.empty((len(X), 16, 55), dtype=np.float32)
    first, second = np.triu_indices(10)
    for start in range(0, len(X), 1000):
        some = pixels[start : start + 1000]
        parts = [some[:, a : a + 12, b : b + 12] for a in range(3) for b in range(3)]
        patches = np.stack([*parts, np.ones_like(parts[0])], axis=-1)
        products = (patches[..., first] * patches[..., second]).reshape(-1, 4, 3, 4, 3, 55)
        moments[start : start + 1000] = products.mean(axis=(2, 4)).reshape(-1, 16, 55)
    return qsdp.Blocks(moments.reshape(len(X), -1), sizes=[10] * 16)


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case, threads=1)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    X, X_test, y, y_test = images("mnist", case["samples"])
    blocks, test = blocks_of(X), blocks_of(X_test)
    del X, X_test
    squared, gaps = case["loss"] == SQUARED, []
    targets = signs_of(y) if squared else y
    problem = qsdp.TrainingProblem(blocks, targets, beta=1.0, loss=case["loss"])
    problem = problem.with_beta(case["share"] * qsdp.beta_max(problem))
    start = time.process_time()

    def record(one: Any) -> None:
        gaps.append((one.relative_gap, time.process_time() - start))

    result, seconds = timed(
        lambda: qsdp.column_generation(
            problem, tol=PROVEN if squared else GAPS[-1][0], time_limit=3 * GAPS[-1][1], callback=record
        )
    )
    memory = peak()
    file_mib, accepted, check_seconds = checked(result.certificate, None if squared else (blocks.rows, y))
    return {
        "seconds": seconds,
        "soon": min((at for gap, at in gaps if gap <= GAPS[0][0]), default=float("inf")) if not squared else None,
        "gap": result.relative_gap,
        "kind": result.certificate.bound_type,
        "status": result.status,
        "rounds": result.rounds,
        "neurons": result.network.n_neurons,
        "train_accuracy": accuracy(result.predict(blocks), y),
        "test_accuracy": accuracy(result.predict(test), y_test),
        "peak_mib": memory / 2**20,
        "file_mib": file_mib,
        "accepted": accepted,
        "check_seconds": check_seconds,
    }


def checked(certificate: qsdp.Certificate, rows: tuple[np.ndarray, np.ndarray] | None) -> tuple[float, bool, float]:
    """Return the MiB of a certificate's file, whether `qsdp-check` accepts it, and CPU seconds of the check."""
    with TemporaryDirectory() as folder:
        file, data = Path(folder, "certificate.npz"), Path(folder, "rows.npz")
        certificate.save(file, include_data="sums" if rows is None else False)
        command = [sys.executable, "-m", "qsdp_check", str(file)]
        if rows is not None:
            np.savez(data, X=rows[0], y=rows[1])
            command += ["--data", str(data)]
        before = cpu_of_children()
        status = subprocess.run(command, capture_output=True, check=False).returncode
        return file.stat().st_size / 2**20, status == 0, cpu_of_children() - before


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def claims(records: Records) -> list[Claim]:
    full, made = [record for record in records if record.case in cases(quick=False)], []
    for share, limit in SOON:
        own = [r.measured for r in where(full, loss=SQUARED, share=share)]
        holds = [m["seconds"] <= limit and m["gap"] <= PROVEN and m["kind"] == "exact" for m in own]
        figures = "; ".join("{seconds:.1f} s, gap {gap:.1g}, {neurons} neurons".format(**m) for m in own)
        statement = f"Squared loss, ten classes at {share:g} beta_max: proven to {PROVEN:g} in {limit:g} s."
        made.append(exact(TARGET, statement, holds, figures))
    own = [r.measured for r in where(full, loss=COUPLED)]
    for (gap, limit), name in zip(GAPS, ("soon", "seconds"), strict=True):
        holds = [m[name] <= limit and (name == "soon" or m["gap"] <= gap) for m in own]
        figures = "; ".join(f"{m[name]:.0f} s" for m in own)
        statement = f"Cross-entropy, ten coupled classes at {SHARE:g} beta_max: a gap of {gap:g} in {limit:g} s."
        made.append(exact(TARGET, statement, holds, figures))
    files = [r.measured for r in full]
    holds = [m["accepted"] and m["check_seconds"] <= CHECKED and m["file_mib"] <= FILE for m in files]
    figures = "; ".join("{file_mib:.1f} MiB, {check_seconds:.1f} s".format(**m) for m in files)
    made.append(
        exact(TARGET, f"Every file below {FILE:g} MiB, accepted by qsdp-check in {CHECKED:g} s.", holds, figures)
    )
    sizes = [r.measured["peak_mib"] for r in full]
    made.append(exact(TARGET, "... all of these below 4 GiB.", [size <= MEMORY for size in sizes]))
    return made


def quotes(records: Records) -> dict[str, str]:
    """Return the test accuracies of the networks of the squared loss and of the cross-entropy."""
    full = [record for record in records if record.case in cases(quick=False)]
    found = {}
    for loss in (SQUARED, COUPLED):
        if own := [100.0 * r.measured["test_accuracy"] for r in where(full, loss=loss)]:
            found[loss] = " to ".join(dict.fromkeys(f"{share:.1f}" for share in (min(own), max(own)))) + " %"
    return found


#: The answer on top of the page.
ANSWER = """\
With moments of patches in 16 regions of all 60000 MNIST images and the squared loss, optima over all networks are
[proven for ten classes]{block_mnist: Squared loss, ten classes = 3 supported} at three betas, each to 1e-6 within its
limit of 10, 20 or 60 s. For the cross-entropy, gaps of [1e-2]{block_mnist: a gap of 0.01 = 1 supported} and
[1e-4]{block_mnist: a gap of 0.0001 = 1 supported} take {block_mnist: a gap of 0.01} and {block_mnist: a gap of 0.0001}.
The networks have {block_mnist.squared} of the test images right, and {block_mnist.cross_entropy} with the
cross-entropy. `qsdp-check` [accepts every certificate]{block_mnist: accepted by qsdp-check = 1 supported}.
"""

#: Methods whose versions are stored with the records.
MEASURED = ("column_generation", "certificates")
EXPERIMENT = experiment_in(__name__, "Proofs on blocks of MNIST", "Targets of the package", version=2)
