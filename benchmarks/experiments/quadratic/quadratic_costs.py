"""Time, memory, parameters and multiplications of linear, quadratic and reduced quadratic layers.

Seconds are of the processor, so that other programs on the machine count less; the best of three repetitions.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.experiments import draw, show
from benchmarks.experiments._common import Records, experiment_in, where
from benchmarks.experiments.quadratic._starts import HEADS, NAMES
from qsdp.baselines.quadratic import LOSSES, Descent, Layer, QuadraticNetwork, get_family, starting_parameters
from qsdp.bench import Claim, Record, Table, exact
from qsdp.quadratic_theory import (
    count_operations,
    count_parameters,
    network_operations,
    printed_extra_memory,
    printed_extra_operations,
)

SOURCE = "Noel, Muthiah-Nakarajan, Oswal, Tables 1, 2 and 5"
#: Source and statement of every claim.
STATEMENTS = {
    "time": (
        "Noel, Muthiah-Nakarajan, Oswal, Table 5",
        "A QNN takes 3.67 times the time of an ANN, an RPQNN 1.05 times (to a tenth).",
    ),
    "parameters": (
        "Noel, Muthiah-Nakarajan, Oswal, sections 3 and 4",
        "A quadratic neuron has n(n+1)/2 parameters more than a linear one, a reduced one n more.",
    ),
    "orders": (
        "Noel, Muthiah-Nakarajan, Oswal, section 5",
        "Layers of n inputs and neurons cost O(n²) for ANN and RPQNN, O(n³) for QNN.",
    ),
}
PRINTED_SECONDS = {"linear": (1.63, 0.04), "qnn": (5.98, 0.05), "rpqnn": (1.71, 0.01)}
FAMILIES = (*HEADS, "fan")
TITLES = {**NAMES, "fan": "Fan"}
REPETITIONS = 3


def cases(quick: bool) -> list[dict[str, Any]]:
    widths, counts, sizes = ((30,), (1,), (16, 32)) if quick else ((10, 30), (1, 25), (32, 64, 128, 256))
    made: list[dict[str, Any]] = [
        {"kind": "network", "head": head, "hidden": h, "n_starts": s, "samples": 400 if quick else 2000}
        for h in widths
        for s in counts
        for head in FAMILIES
    ]
    return made + [{"kind": "square", "head": head, "n": n} for n in sizes for head in FAMILIES]


def network(families: Sequence[str], widths: Sequence[int], n_starts: int) -> QuadraticNetwork:
    rng = np.random.default_rng(0)
    copies = [
        QuadraticNetwork(
            [
                Layer(get_family(name), starting_parameters(get_family(name), n, m, rng), "sigmoid")
                for name, n, m in zip(families, widths[:-1], widths[1:], strict=True)
            ]
        )
        for _ in range(n_starts)
    ]
    return QuadraticNetwork.stack(copies)


def seconds_per_sample(descent: Descent, samples: int) -> float:
    order = np.arange(samples)
    descent.epoch(order[: min(samples, 64)])
    taken = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        descent.epoch(order)
        taken.append(time.process_time() - start)
    return min(taken) / samples


def run(case: dict[str, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    if case["kind"] == "square":
        # The second of two square layers: the first one, of linear neurons, hands it inputs.
        n, samples = case["n"], 64
        X, Y = rng.random((samples, n)), np.eye(n)[rng.integers(0, n, samples)]
        rates = [
            seconds_per_sample(Descent(network(names, widths, 1), X, Y, LOSSES["binary_cross_entropy"], 1e-3), samples)
            for names, widths in ((("linear", case["head"]), (n, n, n)), (("linear", "linear"), (n, n, n)))
        ]
        total = count_operations(case["head"], n, n).total
        return {"seconds_per_sample": rates[0], "of_linear": rates[1], "operations": total}
    families, widths = ("linear", case["head"]), (784, case["hidden"], 10)
    n, samples = widths[0], case["samples"]
    X = rng.random((samples, n)) * (rng.random((samples, n)) < 0.2)
    Y = np.eye(10)[rng.integers(0, 10, samples)]
    trained = network(families, widths, case["n_starts"])
    descent = Descent(trained, X, Y, LOSSES["binary_cross_entropy"], 0.01)
    rate = seconds_per_sample(descent, samples)
    tracemalloc.start()
    descent.epoch(np.arange(min(samples, 400)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    stored = sum(value.nbytes for layer in trained.layers for value in layer.parameters.values())
    return {
        "seconds_per_sample": rate,
        "parameters": trained.n_parameters,
        "operations": network_operations(trained).total,
        "cached": trained.n_cached,
        "bytes_of_parameters": stored,
        "bytes_of_temporaries": peak,
    }


def linear_like(record: Record, records: Sequence[Record]) -> Record | None:
    """Return the conventional network of the same hidden width."""
    case = record.case
    found = where(records, kind="network", head="linear", hidden=case["hidden"], n_starts=case["n_starts"])
    return found[0] if found else None


def title_of(case: dict[str, Any]) -> str:
    plural = "starts" if case["n_starts"] > 1 else "start"
    return f"784-{case['hidden']}-10 {TITLES[case['head']]}, {case['n_starts']} {plural}"


def tables(records: Records) -> list[Table]:
    def ratio(record: Record) -> float:
        base = linear_like(record, records)
        return record.measured["seconds_per_sample"] / base.measured["seconds_per_sample"] if base else float("nan")

    def printed(record: Record) -> float | None:
        own = PRINTED_SECONDS.get(record.case["head"]) if record.case["hidden"] == 30 else None
        return own[0] / PRINTED_SECONDS["linear"][0] if own else None

    def per_start(record: Record) -> float:
        return record.measured["seconds_per_sample"] / record.case["n_starts"]

    best = ("repetitions", lambda group: f"best of {REPETITIONS}")
    networks = [
        ("network", lambda group: title_of(group[0].case)),
        ("parameters", show.first("parameters")),
        ("multiplications a sample", show.first("operations")),
        ("numbers cached", show.first("cached")),
        ("µs a sample and start", show.first(per_start, ".1f", unit=1e6)),
        ("s an epoch of 60000", show.first(per_start, ".2f", unit=60_000)),
        ("time / ANN printed", show.first(printed, ".2f")),
        ("time / ANN", show.first(ratio, ".2f")),
        ("MB of parameters", show.first("bytes_of_parameters", ".2f", unit=1e-6)),
        ("MB of temporaries", show.first("bytes_of_temporaries", ".2f", unit=1e-6)),
        best,
    ]
    note = (
        "Per-sample steps, one processor; the printed seconds are 1.63 (ANN), 5.98 (QNN), 1.71 (RPQNN), of a unit of "
        "work that the paper does not state."
    )
    n, m = 30, 10
    plain, rows = count_operations("linear", n, m), []
    for head in ("qnn", "rpqnn"):
        paper, counted = printed_extra_operations(head, n, m), count_operations(head, n, m)
        for part in ("forward", "delta", "update"):
            extra = getattr(counted, part) - getattr(plain, part)
            rows.append([f"{NAMES[head]} {part}", str(getattr(paper, part)), str(extra)])
        stored = count_parameters(head, n, m) - count_parameters("linear", n, m) + get_family(head).n_cached(n, m)
        rows.append([f"{NAMES[head]} memory", str(printed_extra_memory(head, n, m)), str(stored)])
    beyond = (
        "Counted, without repetitions, for the algorithms as implemented, which need both triangles of Q: its products "
        "number mn², not mn(n+1)/2."
    )
    squares = [
        ("layer", lambda group: TITLES[group[0].case["head"]]),
        ("n = m", lambda group: " / ".join(str(r.case["n"]) for r in group)),
        ("µs a sample", lambda group: " / ".join(f"{1e6 * layer_seconds(r):.0f}" for r in group)),
        ("exponent printed", lambda group: {"qnn": "3", "linear": "2", "rpqnn": "2"}.get(group[0].case["head"], "-")),
        ("of multiplications", lambda group: f"{exponent(group[-2:], 'operations'):.2f}"),
        ("of time, last two sizes", lambda group: f"{exponent(group[-2:], 'seconds'):.2f}"),
        best,
    ]
    return [
        show.table("Costs of the MNIST networks", where(records, kind="network"), networks, note),
        Table("Beyond a linear layer of 30 inputs and 10 neurons", ["", "printed", "counted"], rows, beyond),
        show.table(
            "A square layer of n inputs and n neurons",
            [group for head in FAMILIES if len(group := squares_of(records, head)) > 1],
            squares,
            "Time of a network of one linear and one such layer, less half of that of two linear layers.",
        ),
    ]


def squares_of(records: Records, head: str) -> list[Record]:
    """Return the square layers of a family by size."""
    return sorted(where(records, kind="square", head=head), key=lambda record: record.case["n"])


def layer_seconds(record: Record) -> float:
    return max(record.measured["seconds_per_sample"] - 0.5 * record.measured["of_linear"], 1e-9)


def exponent(records: Sequence[Record], what: str) -> float:
    """Return the slope of a cost over n in logarithms, between two records."""
    first, second = records
    values = [layer_seconds(r) if what == "seconds" else r.measured["operations"] for r in (first, second)]
    return float(np.log(values[1] / values[0]) / np.log(second.case["n"] / first.case["n"]))


def claims(records: Sequence[Record]) -> list[Claim]:
    times = {
        head: found[0].measured["seconds_per_sample"]
        for head in HEADS
        if (found := where(records, kind="network", head=head, hidden=30, n_starts=1))
    }
    ratios = {head: times[head] / times["linear"] for head in ("qnn", "rpqnn") if len(times) == len(HEADS)}
    near = {
        NAMES[head]: abs(ratio - {"qnn": 3.67, "rpqnn": 1.05}[head]) < 0.1 * ratio for head, ratio in ratios.items()
    }
    extra = {head: count_parameters(head, 30, 1) - count_parameters("linear", 30, 1) for head in ("qnn", "rpqnn")}
    right = {"quadratic": extra["qnn"] == 30 * 31 // 2, "reduced": extra["rpqnn"] == 30}
    exponents = {}
    for head in HEADS:
        found = squares_of(records, head)
        if len(found) > 1:
            exponents[head] = exponent(found[-2:], "operations")
    orders = {NAMES[head]: abs(value - (3 if head == "qnn" else 2)) < 0.15 for head, value in exponents.items()}
    shown = ", ".join(f"{NAMES[head]} {ratio:.2f}" for head, ratio in ratios.items())
    return [
        exact(*STATEMENTS["time"], near, f"{shown} times (784-30-10, one start)", needed=2),
        exact(*STATEMENTS["parameters"], right if records else {}, f"For n = 30: {extra['qnn']} and {extra['rpqnn']}"),
        exact(
            *STATEMENTS["orders"],
            orders,
            "exponents " + ", ".join(f"{NAMES[head]} {value:.2f}" for head, value in exponents.items()),
            needed=len(HEADS),
        ),
    ]


def plot(records: Sequence[Record]) -> Any:
    figure, axis = draw.subplots(figsize=(5.5, 3.8))
    for head in FAMILIES:
        found = squares_of(records, head)
        axis.loglog([r.case["n"] for r in found], [1e6 * layer_seconds(r) for r in found], "o-", label=TITLES[head])
    axis.set_xlabel("inputs and neurons of the layer")
    axis.set_ylabel("µs a sample")
    draw.label_decades(axis)
    axis.legend()
    return figure


EXPERIMENT = experiment_in(__name__, "Costs of quadratic layers", SOURCE, version=2)
