"""Hundreds of inputs and several outputs: relaxations certified to 1e-2 for every output, and their networks.

The loss is squared, with targets of -1 and 1 and one output per class. Unless stated, betas are shares of `beta_max`,
which is not timed. Every case runs in its own process; its peak memory includes libraries and data.

    certified   `solver="auto"` on a path of betas; the first one includes the Gram matrix. MNIST pooled to 14 x 14
                pixels in [0, 1] with a column of ones; eleven columns of wines at ten thresholds each, six classes;
                the first 100 images of MNIST with all pixels. Seconds are CPU time of one thread.
    pixels      all 784 pixels of 60000 images: one relaxation per class by the low-rank method, beta = 3000; 1000
                sampled neurons, refitted and polished for five minutes. Seconds are wall time, with two threads.
    polished    networks sampled from a relaxation of pooled images and polished for the cross-entropy. For its beta,
                the shares 1e-4 and 3e-6 of that `beta_max` were tried on 10000 held-out training images; no choice
                used the test images. Second-layer weights are shared (one number per output) or free (each neuron
                serves every class, with 64-bit weights). The network of all pixels starts from the pooled one, with
                the weight of a 2 x 2 block for each of its pixels, and is polished further. The number of sweeps is
                fixed, not the time, so that load on the machine changes no result; seconds are CPU time.

Only pooled images have a column of ones.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import numpy as np

import qsdp
from benchmarks.data.sets import images, pooled, signs_of, with_constant
from benchmarks.data.uci_sets import load_uci
from benchmarks.machinery.common import TARGET, Records, accuracy, duration, experiment_in, table_row, timed, where
from benchmarks.machinery.process import in_own_process, peak
from benchmarks.machinery.verdicts import Claim, exact
from benchmarks.methods.peers import class_gaps
from qsdp.gram import SharedGram
from qsdp.relaxation.backends import Settings
from qsdp.relaxation.solution import join_outputs
from qsdp.relaxation.solve import solve_with

TOL, MEMORY = 1e-2, 8192.0
POOLED, WINES, FEW = "MNIST 14 x 14", "wines", "100 images"
#: Data, share of `beta_max`, largest number of seconds after the previous beta, and the claim.
SOON = (
    (POOLED, 0.001, 600.0, "MNIST 14 x 14, 60000 images, ten classes, 0.001 beta_max: every class to 1e-2 in 10 min."),
    (POOLED, 0.0005, 180.0, "... MNIST 14 x 14: 3 minutes more for a further beta."),
    (WINES, 0.01, 30.0, "4800 x 109 thresholds, six outputs, 0.01 beta_max: 1e-2 in 30 s."),
    (FEW, 0.01, 20.0, "100 rows, 784 inputs, ten classes, 0.01 beta_max: 1e-2 in 20 s."),
)
#: Networks of which one has at least this accuracy in at most so many kilobytes, and the claim.
ACCURATE = (
    (("shared, many",), 0.975, 49.5, "MNIST 14 x 14: 1000 polished neurons (49 kB), 97.5 % of the test images."),
    (("shared, few", "free, few"), 0.97, 49.5, "... 300 neurons, 97 %."),
    (("shared, many, all pixels",), 0.97, 200.0, "MNIST 28 x 28: polished within 200 kB, 97 %."),
)
STAGES = ("reading", "relaxing", "sampling", "refitting", "polishing")


def cases(quick: bool) -> list[dict[str, Any]]:
    sizes: list[tuple[str, int, list[float]]] = [
        (POOLED, 60_000, [0.001, 0.0005]),
        (WINES, 4800, [0.01]),
        (FEW, 100, [0.01]),
        (FEW, 100, [0.001]),
    ]
    pixels = {"kind": "pixels", "n": 60_000, "side": 28, "beta": 3000.0, "neurons": 1000, "polish": 300.0, "threads": 2}
    polished: dict[str, Any] = {"kind": "polished", "samples": 60_000, "side": 14, "neurons": [1000, 300]}
    polished |= {"share": 0.001, "beta": 3e-6, "sweeps": 30, "pixel_sweeps": 4}
    if quick:
        sizes = [(POOLED, 300, [0.02, 0.01]), (FEW, 20, [0.1])]
        pixels |= {"n": 2000, "side": 7, "beta": 100.0, "polish": 2.0, "threads": 1}
        polished |= {"samples": 400, "side": 4, "neurons": [30, 20], "share": 0.02, "beta": 3e-4}
        polished |= {"sweeps": 4, "pixel_sweeps": 1}
    return [
        *({"kind": "certified", "data": name, "samples": n, "shares": shares} for name, n, shares in sizes),
        pixels,
        polished,
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case, threads=case.get("threads", 1))


def measure(case: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    return {**KINDS[case["kind"]](case), "peak_mib": peak() / 2**20}


def certified(case: dict[str, Any]) -> dict[str, Any]:
    X, X_test, y, y_test = data(case["data"], case["samples"])
    problem = qsdp.TrainingProblem(X, signs_of(y), beta=1.0)
    largest, relaxation, betas = qsdp.beta_max(problem), None, {}
    settings = Settings(TOL, gram=SharedGram())
    for share in case["shares"]:
        own = problem.with_beta(share * largest)
        # One Gram matrix serves all betas.
        relaxation, seconds = timed(partial(solve_with, own, "auto", settings, start=relaxation))
        betas[str(share)] = {
            "seconds": seconds,
            "solver": relaxation.solver,
            "iterations": relaxation.iterations,
            "relative_gap": relaxation.relative_gap,
            "class_gap": max(class_gaps(relaxation)),
            "train_accuracy": accuracy(relaxation.predict(X), y),
            "test_accuracy": accuracy(relaxation.predict(X_test), y_test),
        }
    return {"share": betas}


def data(name: str, samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    if name == WINES:
        X, X_test, y, y_test = load_uci("wine-quality").split(random_state=0)
        encoder = qsdp.encoding.TableEncoder("thresholds", n_thresholds=10).fit(X[:samples])
        X, X_test = with_constant(encoder.transform(X[:samples]), encoder.transform(X_test))
        # Only three wines have the best class, so it is merged with the next.
        return X, X_test, np.minimum(y[:samples], 5), np.minimum(y_test, 5)
    X, X_test, y, y_test = images("mnist", samples)
    if name == POOLED:
        X, X_test = with_constant(pooled(X, 14), pooled(X_test, 14))
    return X, X_test, y, y_test


def all_pixels(case: dict[str, Any]) -> dict[str, Any]:
    """Solve one relaxation per class, sample a network and polish it."""
    clock = [time.perf_counter()]
    X, X_test, y, y_test = images("mnist", case["n"])
    X, X_test = (pooled(one, case["side"]) for one in (X, X_test)) if case["side"] < 28 else (X, X_test)
    problem = qsdp.TrainingProblem(X, signs_of(y), beta=case["beta"])
    clock.append(time.perf_counter())
    outputs = map(problem.output, range(problem.n_outputs))
    parts = [qsdp.solve_relaxation(one, solver="low-rank", tol=TOL) for one in outputs]
    clock.append(time.perf_counter())
    joined = join_outputs(problem, parts, certified=True)
    sampled = qsdp.sample_network(qsdp.shape_covariance(joined), case["neurons"], random_state=0)
    clock.append(time.perf_counter())
    refitted = qsdp.refit(sampled, problem, second_layer="shared")
    clock.append(time.perf_counter())
    polished = qsdp.polish(refitted, problem, time_limit=case["polish"], random_state=0)
    clock.append(time.perf_counter())
    models = {"relaxation": joined, "sampled": sampled, "polished": polished}
    return {
        "D": problem.dimension,
        "stages": dict(zip(STAGES, np.diff(clock).tolist(), strict=True)),
        "seconds": clock[-1] - clock[1],
        "class_gaps": [part.relative_gap for part in parts],
        "relative_gap": joined.relative_gap,
        "neurons": polished.n_neurons,
        "bits": polished.n_bits,
        "accuracy": {name: accuracy(model.predict(X_test), y_test) for name, model in models.items()},
    }


def polished(case: dict[str, Any]) -> dict[str, Any]:
    """Solve one relaxation, then sample networks from it and polish them."""
    X, X_test, y, y_test = images("mnist", case["samples"])
    side, (many, few), networks = case["side"], case["neurons"], {}
    small, small_test = with_constant(pooled(X, side), pooled(X_test, side))
    squared = qsdp.TrainingProblem(small, signs_of(y), beta=1.0)
    largest = qsdp.beta_max(squared)
    relaxation = qsdp.solve_relaxation(squared.with_beta(case["share"] * largest), tol=TOL)
    covariances = qsdp.shape_covariance(relaxation)
    problem = qsdp.TrainingProblem(small, y, beta=case["beta"] * largest, loss="cross_entropy")

    def polish(
        name: str, network: qsdp.BilinearNetwork, problem: qsdp.TrainingProblem, X_test: np.ndarray, sweeps: int
    ) -> qsdp.BilinearNetwork:
        before = accuracy(network.predict(X_test), y_test)
        network, seconds = timed(lambda: qsdp.polish(network, problem, max_sweeps=sweeps, random_state=0))
        networks[name] = {
            "neurons": network.n_neurons,
            "bits": network.n_bits,
            "seconds": seconds,
            "before": before,
            "train_accuracy": accuracy(network.predict(problem.X), y),
            "test_accuracy": accuracy(network.predict(X_test), y_test),
        }
        return network

    sampled = [qsdp.sample_network(covariances, m, random_state=0) for m in (many, few)]
    best = polish("shared, many", sampled[0], problem, small_test, case["sweeps"])
    polish("shared, few", sampled[1], problem, small_test, case["sweeps"])
    polish("free, few", with_free_weights(sampled[1]), problem, small_test, case["sweeps"])
    # A block mean is the sum of its pixels, each divided by the number of pixels in the block.
    block = (28 // side) ** 2
    fine, fine_test = with_constant(X / block, X_test / block)
    beta = problem.beta * problem.dimension / fine.shape[1]
    problem = qsdp.TrainingProblem(fine, y, beta=beta, loss="cross_entropy")
    polish("shared, many, all pixels", of_pixels(best, side), problem, fine_test, case["pixel_sweeps"])
    return {"network": networks}


def with_free_weights(network: qsdp.BilinearNetwork) -> qsdp.BilinearNetwork:
    """Return the network with distinct second-layer weights, up to rounding, so that polish frees each of them."""
    noise = 1e-9 * float(np.abs(network.alpha).max()) * np.random.default_rng(0).standard_normal(network.alpha.shape)
    return qsdp.BilinearNetwork(network.U, network.V, network.alpha + noise)


def of_pixels(network: qsdp.BilinearNetwork, side: int) -> qsdp.BilinearNetwork:
    """Return an equivalent network on 28 x 28 pixels, divided by the block size, and a constant column."""
    rows = np.arange(28) // (28 // side)
    owners = np.append((rows[:, None] * side + rows).ravel(), side * side)
    return qsdp.BilinearNetwork(network.U[:, owners], network.V[:, owners], network.alpha)


KINDS = {"certified": certified, "pixels": all_pixels, "polished": polished}


def claims(records: Records) -> list[Claim]:
    full, made = [record for record in records if record.case in cases(quick=False)], []
    for name, share, limit, statement in SOON:
        own = [r.measured["share"][str(share)] for r in where(full, data=name) if share in r.case["shares"]]
        holds = [m["seconds"] <= limit and m["class_gap"] <= TOL for m in own]
        figures = "; ".join("{seconds:.0f} s, largest gap {class_gap:.2g}".format(**m) for m in own)
        made.append(exact(TARGET, statement, holds, figures))
    sizes = [r.measured["peak_mib"] for r in where(full, data=POOLED)]
    made.append(exact(TARGET, "... MNIST 14 x 14: below 8 GiB.", [size <= MEMORY for size in sizes]))
    pixels = [r.measured for r in where(full, kind="pixels")]
    for what, holds in (
        (f"every class to a gap of {TOL:g}", [max(m["class_gaps"]) <= TOL for m in pixels]),
        ("under 30 minutes to a polished network", [m["seconds"] <= 1800.0 for m in pixels]),
        ("below 8 GiB", [m["peak_mib"] <= MEMORY for m in pixels]),
    ):
        made.append(exact(TARGET, f"784 pixels, 60000 images: {what}.", holds))
    networks = [r.measured["network"] for r in where(full, kind="polished")]
    for names, least, kilobytes, statement in ACCURATE:
        own = [found[name] for found in networks for name in names]
        holds = [any(m["test_accuracy"] >= least and m["bits"] / 8e3 <= kilobytes for m in own)] if own else []
        figures = "; ".join(f"{100 * m['test_accuracy']:.2f} % in {m['bits'] / 8e3:.1f} kB" for m in own)
        made.append(exact(TARGET, statement, holds, figures))
    return made


def quotes(records: Records) -> dict[str, str]:
    """Return rows for the README on all pixels, on pooled images and on networks polished from them."""
    full, found = [record for record in records if record.case in cases(quick=False)], {}
    for m in (r.measured for r in where(full, kind="pixels")):
        what = f"MNIST, 60000 images of {m['D']} pixels, ten classes, each certified to {100 * TOL:g} %"
        found["pixels"] = table_row(what, f"{duration(m['stages']['relaxing'])}, {m['peak_mib'] / 1024:.1f} GiB")
    for m in (r.measured for r in where(full, data=POOLED)):
        what = f"the same images pooled to 14 x 14 pixels, at beta = {' and then '.join(m['share'])} beta_max, each "
        minutes = " and ".join(f"{one['seconds'] / 60:.1f}" for one in m["share"].values())
        right = " and ".join(f"{100 * one['test_accuracy']:.1f}" for one in m["share"].values())
        shown = f"{minutes} minutes of processor time, {m['peak_mib'] / 1024:.1f} GiB; the relaxations have {right} % "
        found["pooled"] = table_row(f"{what}class to {100 * TOL:g} %", f"{shown}of the test images right")
    for networks in (r.measured["network"] for r in where(full, kind="polished")):
        own = [networks[name] for name in ("shared, many", "shared, few", "shared, many, all pixels")]
        shown = "; ".join(
            "{neurons} neurons, {:.0f} kB, {:.1f} %".format(m["bits"] / 8e3, 100 * m["test_accuracy"], **m) for m in own
        )
        what = "... and networks of ±1 weights from it, polished for the cross-entropy, the last one on all pixels"
        first = duration(own[0]["seconds"])
        found["networks"] = table_row(what, f"{shown} of the test images, the first in {first} of processor")
        many = f"{own[0]['neurons']} neurons of ±1 weights in {own[0]['bits'] / 8e3:.0f} kB, polished for {first}"
        found["short"] = table_row(f"**{100 * own[0]['test_accuracy']:.1f} %**", f"test accuracy on MNIST: {many}")
    return found


#: The answer on top of the page.
ANSWER = """\
{many_inputs: # supported} targets are met. All ten classes of 60000 MNIST images of 14 x 14 pixels are certified to 1 %
in {many_inputs: every class to 1e-2}. Test accuracies of polished networks of ±1 weights are
{many_inputs: 1000 polished neurons} with 1000 neurons, {many_inputs: 300 neurons} with 300, and
{many_inputs: MNIST 28 x 28} with 1000 neurons on all 28 x 28 pixels.
"""


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on; certified relaxations sample no network."""
    return tuple(name for name in MEASURED if case["kind"] != "certified" or name not in {"sampling", "adaptive"})


#: Methods whose versions are stored with the records.
MEASURED = ("relaxation", "sampling", "adaptive", "refinement", "encoding", "smooth_losses")
EXPERIMENT = experiment_in(__name__, "Hundreds of inputs and several outputs", "Targets of the package")
