"""Networks of binary weights polished for MNIST: how accurate they are in how many bits.

One relaxation, of the squared loss of targets of -1 and 1 on images pooled to half the pixels a side, at a share of
`beta_max` and to a relative gap of 1e-2, gives the samples that all networks begin with. They are polished for the
cross-entropy, with another share of that `beta_max`: 1e-4 and 3e-6 were tried with 10000 of the training images held
out (images 50000 to 60000), and the test images took part in no choice. Weights of the second layer are shared (one
number an output) or free (every neuron serves every class, by 64-bit numbers).

The network of all pixels begins with the pooled one: a weight of a block of four pixels is that of each of them, so
that its outputs are the same, and is polished on. Sweeps are counted, not seconds, so that a busy machine changes
nothing. Seconds are the processor's, on one thread.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments._common import TARGET, Records, accuracy, duration, experiment_in, table_row
from benchmarks.experiments._data import images, pooled, targets_of, with_constant
from benchmarks.experiments._process import in_own_process, peak
from qsdp.bench import Claim, exact

TOL = 1e-2
#: Claims, with the least accuracy and the most kilobytes, and the networks one of which has to have both.
CLAIMS = {
    (TARGET, "MNIST 14 x 14: 1000 polished neurons (49 kB), 97.5 % of the test images.", 0.975, 49.5): ["shared, many"],
    (TARGET, "... 300 neurons, 97 %.", 0.97, 49.5): ["shared, few", "free, few"],
    (TARGET, "MNIST 28 x 28: polished within 200 kB, 97 %.", 0.97, 200.0): ["shared, many, all pixels"],
}


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        sizes = {"samples": 400, "side": 4, "neurons": [30, 20]}
        return [{**sizes, "share": 0.02, "beta": 3e-4, "sweeps": 4, "pixel_sweeps": 1}]
    sizes = {"samples": 60_000, "side": 14, "neurons": [1000, 300]}
    return [{**sizes, "share": 0.001, "beta": 3e-6, "sweeps": 30, "pixel_sweeps": 4}]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Solve one relaxation, and sample and polish networks from it."""
    warnings.simplefilter("ignore")
    X, X_test, y, y_test = images("mnist", case["samples"])
    side, (many, few) = case["side"], case["neurons"]
    small, small_test = with_constant(pooled(X, side), pooled(X_test, side))
    squared = qsdp.TrainingProblem(small, 2.0 * targets_of(y) - 1.0, beta=1.0)
    with threadpool_limits(limits=1):
        start = time.process_time()
        largest = qsdp.beta_max(squared)
        relaxation = qsdp.solve_relaxation(squared.with_beta(case["share"] * largest), tol=TOL)
        covariances = qsdp.shape_covariance(relaxation)
        found: dict[str, Any] = {
            "relaxation": {
                "seconds": time.process_time() - start,
                "relative_gap": relaxation.relative_gap,
                "test_accuracy": accuracy(relaxation.predict(small_test), y_test),
            },
            "networks": {},
        }
        problem = qsdp.TrainingProblem(small, y, beta=case["beta"] * largest, loss="cross_entropy")

        def polished(
            name: str, network: qsdp.BilinearNetwork, problem: qsdp.TrainingProblem, X_test: np.ndarray, sweeps: int
        ) -> qsdp.BilinearNetwork:
            start = time.process_time()
            before = accuracy(network.predict(X_test), y_test)
            network = qsdp.polish(network, problem, max_sweeps=sweeps, random_state=0)
            found["networks"][name] = {
                "neurons": network.n_neurons,
                "bits": network.n_bits,
                "seconds": time.process_time() - start,
                "before": before,
                "train_accuracy": accuracy(network.predict(problem.X), y),
                "test_accuracy": accuracy(network.predict(X_test), y_test),
            }
            return network

        sampled = [qsdp.sample_network(covariances, m, random_state=0) for m in (many, few)]
        best = polished("shared, many", sampled[0], problem, small_test, case["sweeps"])
        polished("shared, few", sampled[1], problem, small_test, case["sweeps"])
        polished("free, few", with_free_weights(sampled[1]), problem, small_test, case["sweeps"])
        # Means of blocks are sums of quarters of their pixels.
        block = (28 // side) ** 2
        fine, fine_test = with_constant(X / block, X_test / block)
        problem = qsdp.TrainingProblem(
            fine, y, beta=problem.beta * problem.dimension / fine.shape[1], loss="cross_entropy"
        )
        polished("shared, many, all pixels", of_pixels(best, side), problem, fine_test, case["pixel_sweeps"])
    return {**found, "peak_mib": peak() / 2**20}


def with_free_weights(network: qsdp.BilinearNetwork) -> qsdp.BilinearNetwork:
    """Return the network with a second layer that polish may change weight by weight: it differs by rounding."""
    noise = 1e-9 * float(np.abs(network.alpha).max()) * np.random.default_rng(0).standard_normal(network.alpha.shape)
    return qsdp.BilinearNetwork(network.U, network.V, network.alpha + noise)


def of_pixels(network: qsdp.BilinearNetwork, side: int) -> qsdp.BilinearNetwork:
    """Return the network of 28 x 28 pixels, divided by their number in a block, and a one, of the same outputs."""
    block = 28 // side
    rows = np.arange(28) // block
    owners = np.append((rows[:, None] * side + rows).ravel(), side * side)
    return qsdp.BilinearNetwork(network.U[:, owners], network.V[:, owners], network.alpha)


def networks_of(records: Records) -> dict[str, dict[str, Any]]:
    """Return the networks of the whole training set by name."""
    full = [record.measured["networks"] for record in records if record.case in cases(quick=False)]
    return full[0] if full else {}


def claims(records: Records) -> list[Claim]:
    found, made = networks_of(records), []
    for (source, claim, least, kilobytes), names in CLAIMS.items():
        own = [found[name] for name in names if name in found]
        holds = [any(one["test_accuracy"] >= least and one["bits"] / 8e3 <= kilobytes for one in own)] if own else []
        figures = "; ".join(f"{100 * one['test_accuracy']:.2f} % in {one['bits'] / 8e3:.1f} kB" for one in own)
        made.append(exact(source, claim, holds, figures))
    return made


def quotes(records: Records) -> dict[str, str]:
    found = networks_of(records)
    if not found:
        return {}
    many, few, pixels = (found[name] for name in ("shared, many", "shared, few", "shared, many, all pixels"))
    sizes = [f"{one['bits'] / 8e3:.0f} kB" for one in (many, few, pixels)]
    right = [f"{100 * one['test_accuracy']:.1f} %" for one in (many, few, pixels)]
    what = f"... and {many['neurons']} neurons of ±1 weights from it, polished for the cross-entropy, {sizes[0]}"
    shown = f"{right[0]} of the test images, {duration(many['seconds'])} of processor; {few['neurons']} neurons, "
    shown += f"{sizes[1]}, {right[1]}; {pixels['neurons']} on all pixels, {sizes[2]}, {right[2]}"
    return {"networks": table_row(what, shown)}


EXPERIMENT = experiment_in(__name__, "Polished networks for MNIST", "Targets of the package")
