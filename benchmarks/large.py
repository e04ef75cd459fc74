"""Time and memory of the whole theory at once: many samples, levels, a lift and several outputs.

    python benchmarks/large.py [--samples 20000] [--features 50] [--levels 5] [--outputs 10] [--jobs 2]
                                [--out benchmarks/results]

Planted quadratic targets with noise; squared loss, activation (0.0937, 0.5, 0.4688). The squared loss is reduced to
N(N + 1)/2 rows once for all outputs, so the solves do not depend on the number of samples. Memory is the peak of
this process and, with more than one job, that of its workers. Writes large.json.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from _memory import children_mib, peak_mib
from _results import add_out, write
from rich.console import Console
from rich.table import Table

import qsdp


def planted(n, d, outputs, seed=0):
    """Return data and targets of random quadratic functions with a tenth of noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    S = rng.standard_normal((outputs, d, d)) / d
    Y = np.stack([np.einsum("ij,ij->i", X @ A, X) for A in S], axis=1) + X @ rng.standard_normal((d, outputs))
    return X, Y + 0.1 * Y.std(axis=0) * rng.standard_normal(Y.shape)


def main():
    """Run once and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--levels", type=int, default=5)
    parser.add_argument("--outputs", type=int, default=10)
    parser.add_argument("--neurons", type=int, default=10_000)
    parser.add_argument("--beta", type=float, default=10.0)
    parser.add_argument("--jobs", type=int, default=1)
    add_out(parser)
    options = parser.parse_args()
    X, Y = planted(options.samples, options.features, options.outputs)
    start = time.perf_counter()
    result = qsdp.solve_and_sample(
        X,
        Y,
        n_neurons=options.neurons,
        beta=options.beta,
        activation="relu",
        levels=options.levels,
        n_jobs=options.jobs,
        random_state=0,
    )
    total = time.perf_counter() - start
    sizes = {name: value for name, value in vars(options).items() if name != "out"}
    report = {
        **sizes,
        "seconds": total,
        "stages": dict(result.timings),
        "solver": result.relaxation.solver,
        "peak_mib": peak_mib(),
        "workers_mib": children_mib(),
        "relaxation_gap": result.relaxation.relative_gap,
        "network_gap": result.certificate.relative_gap,
        "bits": result.network.n_bits,
    }
    write(options.out, "large", report)
    table = Table(
        title=f"n = {options.samples}, d = {options.features}, M = {options.levels - 1}, C = {options.outputs}"
    )
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in [
        ("total seconds", f"{total:.1f}"),
        *((f"  {stage} seconds", f"{seconds:.2f}") for stage, seconds in report["stages"].items()),
        ("solver", report["solver"]),
        ("peak memory, MiB", f"{report['peak_mib']:.0f}"),
        ("that of workers, MiB", f"{report['workers_mib']:.0f}"),
        ("relaxation's certified relative gap", f"{report['relaxation_gap']:.1e}"),
        ("network's certified relative gap", f"{report['network_gap']:.3f}"),
        ("bits", f"{report['bits']:,}"),
    ]:
        table.add_row(name, value)
    Console().print(table)


if __name__ == "__main__":
    main()
