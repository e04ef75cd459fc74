"""Time, memory, parameters and multiplications of linear, quadratic and reduced quadratic layers.

Seconds are of the processor, so that other programs on the machine count less; the best of three repetitions.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.experiments._common import Records, by, experiment_in, grid, timed, where
from benchmarks.experiments.quadratic._starts import HEADS, NAMES
from qsdp.baselines.quadratic import LOSSES, Descent, Layer, QuadraticNetwork, get_family, starting_parameters
from qsdp.bench import Claim, Record, exact
from qsdp.quadratic_theory import (
    count_operations,
    count_parameters,
    network_operations,
)

SOURCE = "Noel, Muthiah-Nakarajan, Oswal, Tables 1, 2 and 5"
FAMILIES = (*HEADS, "fan")
REPETITIONS = 3


def cases(quick: bool) -> list[dict[str, Any]]:
    widths, counts, sizes = ((30,), (1,), (16, 32)) if quick else ((10, 30), (1, 25), (32, 64, 128, 256))
    networks = grid(kind="network", hidden=widths, n_starts=counts, head=FAMILIES, samples=400 if quick else 2000)
    return networks + grid(kind="square", n=sizes, head=FAMILIES)


def descent_of(head: str, widths: Sequence[int], X: np.ndarray, rate: float, n_starts: int = 1) -> Descent:
    """Return per-sample training of starts of a network, linear but for its last layer, on random classes."""
    rng, n_classes = np.random.default_rng(0), widths[-1]
    families = [get_family(name) for name in ("linear", head)]
    shapes = list(zip(families, *(widths[k : k + 2] for k in (0, 1)), strict=True))
    starts = [
        QuadraticNetwork([Layer(family, starting_parameters(family, n, m, rng), "sigmoid") for family, n, m in shapes])
        for _ in range(n_starts)
    ]
    Y = np.eye(n_classes)[np.random.default_rng(2).integers(0, n_classes, len(X))]
    return Descent(QuadraticNetwork.stack(starts), X, Y, LOSSES["binary_cross_entropy"], rate)


def seconds_per_sample(descent: Descent, samples: int) -> float:
    order = np.arange(samples)
    descent.epoch(order[: min(samples, 64)])
    return min(timed(lambda: descent.epoch(order))[1] for _ in range(REPETITIONS)) / samples


def run(case: dict[str, Any]) -> dict[str, Any]:
    rng, head = np.random.default_rng(1), case["head"]
    if case["kind"] == "square":
        # The second of two square layers: the first one, of linear neurons, hands it inputs.
        n, samples = case["n"], 64
        X = rng.random((samples, n))
        own, linear = (seconds_per_sample(descent_of(name, (n, n, n), X, 1e-3), samples) for name in (head, "linear"))
        return {"seconds_per_sample": own, "of_linear": linear, "operations": count_operations(head, n, n).total}
    samples = case["samples"]
    X = rng.random((samples, 784)) * (rng.random((samples, 784)) < 0.2)
    descent = descent_of(head, (784, case["hidden"], 10), X, 0.01, case["n_starts"])
    trained = descent.network
    rate = seconds_per_sample(descent, samples)
    tracemalloc.start()
    descent.epoch(np.arange(min(samples, 400)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "seconds_per_sample": rate,
        "parameters": trained.n_parameters,
        "operations": network_operations(trained).total,
        "cached": trained.n_cached,
        "bytes_of_parameters": sum(one.nbytes for layer in trained.layers for one in layer.parameters.values()),
        "bytes_of_temporaries": peak,
    }


def squares_of(records: Records, head: str) -> list[Record]:
    return sorted(where(records, kind="square", head=head), key=lambda record: record.case["n"])


def layer_seconds(record: Record) -> float:
    return max(record.measured["seconds_per_sample"] - 0.5 * record.measured["of_linear"], 1e-9)


def exponent(records: Sequence[Record], what: str) -> float:
    """Return the slope of a cost over n in logarithms, between two records."""
    first, second = records
    values = [layer_seconds(r) if what == "seconds" else r.measured["operations"] for r in (first, second)]
    return float(np.log(values[1] / values[0]) / np.log(second.case["n"] / first.case["n"]))


def claims(records: Records) -> list[Claim]:
    source = "Noel, Muthiah-Nakarajan, Oswal"
    times = by(where(records, kind="network", hidden=30, n_starts=1, head=HEADS), "seconds_per_sample", "head")
    printed = {"qnn": 3.67, "rpqnn": 1.05} if len(times) == len(HEADS) else {}
    ratios = {head: times[head] / times["linear"] for head in printed}
    near = {NAMES[head]: abs(ratio - printed[head]) < 0.1 * ratio for head, ratio in ratios.items()}
    shown = ", ".join(f"{NAMES[head]} {ratio:.2f}" for head, ratio in ratios.items())
    extra = {head: count_parameters(head, 30, 1) - count_parameters("linear", 30, 1) for head in ("qnn", "rpqnn")}
    right = {"quadratic": extra["qnn"] == 30 * 31 // 2, "reduced": extra["rpqnn"] == 30}
    squares = {head: found for head in HEADS if len(found := squares_of(records, head)) > 1}
    exponents = {NAMES[head]: exponent(found[-2:], "operations") for head, found in squares.items()}
    orders = {name: abs(value - (3 if name == NAMES["qnn"] else 2)) < 0.15 for name, value in exponents.items()}
    return [
        exact(
            f"{source}, Table 5",
            "A QNN takes 3.67 times the time of an ANN, an RPQNN 1.05 times (to a tenth).",
            near,
            f"{shown} times (784-30-10, one start)",
            needed=2,
        ),
        exact(
            f"{source}, sections 3 and 4",
            "A quadratic neuron has n(n+1)/2 parameters more than a linear one, a reduced one n more.",
            right if records else {},
            f"For n = 30: {extra['qnn']} and {extra['rpqnn']}",
        ),
        exact(
            f"{source}, section 5",
            "Layers of n inputs and neurons cost O(n²) for ANN and RPQNN, O(n³) for QNN.",
            orders,
            "exponents " + ", ".join(f"{name} {value:.2f}" for name, value in exponents.items()),
            needed=len(HEADS),
        ),
    ]


EXPERIMENT = experiment_in(__name__, "Costs of quadratic layers", SOURCE, version=2)
