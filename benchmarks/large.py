"""Time and memory of the whole theory at once: many samples, levels, a lift and several outputs.

    python benchmarks/large.py [--samples 20000] [--features 50] [--levels 5] [--outputs 10] [--jobs 2]

Planted quadratic targets with noise; squared loss, activation (0.0937, 0.5, 0.4688). The squared loss is reduced to
N(N + 1)/2 rows once for all outputs, so the solves do not depend on the number of samples. Memory is the peak of
this process and, with more than one job, of its largest worker.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
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
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    table = Table(
        title=f"n = {options.samples}, d = {options.features}, M = {options.levels - 1}, C = {options.outputs}"
    )
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in [
        ("total seconds", f"{total:.1f}"),
        *((f"  {stage} seconds", f"{seconds:.2f}") for stage, seconds in result.timings.items()),
        ("peak memory, MiB", f"{peak / 1024:.0f}"),
        ("relaxation's certified relative gap", f"{result.relaxation.relative_gap:.1e}"),
        ("network's certified relative gap", f"{result.certificate.relative_gap:.3f}"),
        ("bits", f"{result.network.n_bits:,}"),
    ]:
        table.add_row(name, value)
    Console().print(table)


if __name__ == "__main__":
    main()
