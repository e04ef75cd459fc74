"""Non-linear toy of the paper on back-propagating least squares (its Figure 5): repairs one by one, and competitors.

Sigmoid hidden and output layer. "literal" is the pass as printed but for its inverse, with targets cut at 1e-3 and
desired hidden values at 1e-6; every row after it adds one repair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.experiments._common import experiment_in, grid
from benchmarks.experiments.least_squares import _bpls_toys as toys
from qsdp.bench import Claim, Record, Table

SOURCE = "Tomic, Matos-Carvalho, Beko 2024"
SIGMAS = [0.0, 0.02, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2]

_LITERAL = {"hidden_target": "relax", "literal": True}
_SAFE = {"ridge": 1e-3, "eps_hidden": 1e-2}

#: Options of `BPLSRegressor` by the names of the specification's table.
VARIANTS: dict[str, dict[str, Any]] = {
    "last layer only, no ridge": {"ridge": 0.0},
    "equation 5 for output 1 only": {"literal": True},
    "literal pass, no ridge, eps_H 1e-6": _LITERAL,
    "literal pass, ridge 1e-3, eps_H 1e-2": {**_LITERAL, **_SAFE},
    "+ refit": {**_LITERAL, **_SAFE, "refit": True},
    "+ keep_best": {**_SAFE},
    "+ 10 passes": {**_SAFE, "passes": 10},
}
METHODS = (*VARIANTS, *toys.COMPETITORS)
BEST = "+ 10 passes"

#: Training / test of the specification's prototype: 1000 runs of least squares, 200 of the others.
PRINTED = {
    "last layer only, no ridge": {0.0: "0.046 / 0.078", 0.05: "0.111 / 0.145", 0.1: "0.218 / 0.274"},
    "literal pass, no ridge, eps_H 1e-6": {0.0: "0.333 / 0.298", 0.05: "0.427 / 0.361", 0.1: "0.566 / 0.493"},
    "literal pass, ridge 1e-3, eps_H 1e-2": {0.0: "0.068 / 0.067", 0.05: "0.159 / 0.126", 0.1: "0.302 / 0.242"},
    "+ refit": {0.0: "0.048 / 0.055", 0.05: "0.130 / 0.108", 0.1: "0.256 / 0.213"},
    "+ keep_best": {0.0: "0.046 / 0.054", 0.05: "0.123 / 0.110", 0.1: "0.241 / 0.215"},
    "+ 10 passes": {0.0: "0.028 / 0.028", 0.05: "0.116 / 0.103", 0.1: "0.232 / 0.217"},
    "Adam": {0.0: "0.046 / 0.039", 0.05: "0.125 / 0.104", 0.1: "0.244 / 0.184"},
    "AdaGrad": {0.0: "0.016 / 0.029", 0.05: "0.098 / 0.111", 0.1: "0.206 / 0.203"},
    "NAG": {0.0: "0.246 / 0.206", 0.05: "0.282 / 0.219", 0.1: "0.370 / 0.250"},
    "SGD": {0.0: "0.563 / 0.570", 0.05: "0.584 / 0.571", 0.1: "0.639 / 0.572"},
}
#: What is compared with the competitors, and source and statement of every claim.
COMPARED = {"literal pass, no ridge, eps_H 1e-6": "as printed", BEST: "with the repairs and ten passes"}
STATEMENTS = {
    name: (
        f"{SOURCE}, Figure 5",
        f"Non-linear toy: BPLS {words} matches the best competitor in training and is slightly better in test.",
    )
    for name, words in COMPARED.items()
}


def cases(quick: bool) -> list[dict[str, Any]]:
    sigmas, runs, epochs = ([0.05], 10, 10) if quick else (SIGMAS, 1000, 1000)
    found = grid(method=VARIANTS, sigma=sigmas, runs=runs)
    # By the processor's clock, which the trainings for the errors do not need.
    found += grid(timed=range(1 if quick else 3), method=VARIANTS, sigma=0.05, runs=runs // 5)
    return found + grid(method=toys.COMPETITORS, sigma=sigmas, runs=runs, epochs=epochs)


def run(case: dict[str, Any]) -> dict[str, Any]:
    method, sigma, runs = case["method"], case["sigma"], case["runs"]
    if method in toys.COMPETITORS:
        return toys.gradient_runs(toys.nonlinear, sigma, runs, method, activation="sigmoid", epochs=case["epochs"])
    options = {"output_activation": "sigmoid", **VARIANTS[method]}
    return toys.least_squares_runs(
        toys.nonlinear, sigma, runs, options, readout_only=method == "last layer only, no ridge"
    )


def tables(records: Sequence[Record]) -> list[Table]:
    records, timed = untimed(records), [record for record in records if "timed" in record.case]
    passes = []
    for name in VARIANTS:
        group = [record.measured for record in records if record.case["method"] == name]
        if group:
            made, clipped = (float(np.mean([each[key] for each in group])) for key in ("passes", "clipped"))
            cpu = [record.measured["cpu_per_pass"] for record in timed if record.case["method"] == name]
            taken = f"{1e6 * min(cpu):.0f}" if cpu else "-"
            passes.append([name, f"{made:.1f}", taken, f"{100 * clipped:.1f} %"])
    return [
        *toys.error_tables("Non-linear toy", toys.by_noise(records), PRINTED, METHODS),
        Table(
            "Non-linear toy: passes",
            ["variant", "passes", "CPU microseconds a pass", "hidden values cut"],
            passes,
            "Seconds of one thread, the checks before a training included; the least of three times 200 trainings.",
        ),
    ]


def untimed(records: Sequence[Record]) -> list[Record]:
    """Return the records that errors are taken from."""
    return [record for record in records if "timed" not in record.case]


def claims(records: Sequence[Record]) -> list[Claim]:
    found = toys.by_noise(untimed(records))
    sigmas = {sigma for _, sigma in found}
    return [
        *(
            toys.match_claim(STATEMENTS[name], toys.ratios_to_best(found, name, toys.COMPETITORS, sigmas))
            for name in COMPARED
        ),
        toys.printed_claim("Non-linear toy", found, PRINTED),
    ]


def plot(records: Sequence[Record]) -> Any:
    names = ["literal pass, no ridge, eps_H 1e-6", "+ keep_best", BEST, *toys.COMPETITORS]
    return toys.draw_errors(toys.by_noise(untimed(records)), names)


EXPERIMENT = experiment_in(__name__, "Back-propagating least squares: non-linear toy", f"{SOURCE}, Figure 5")
