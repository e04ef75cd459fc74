"""Measurements of what Bartan and Pilanci prove: Theorems 1 to 3, the constants of the lower bound and of rounding.

A proof needs no measurement, but its constants and possible misprints do. `tests/campaigns soundness` checks that
bounds are below objectives. Optima of (24) are the proven ones of `qsdp.column_generation`. Theorem 3 is measured on
planted data with noise and the mean absolute error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._verdicts import Claim, compare, exact, judged, share
from benchmarks.experiments._common import Records, experiment_in, grid, medians, values, where
from benchmarks.experiments.paper._theory_checks import ACTIVATIONS, CHECKS, KRIVINE, bernstein
from qsdp.bench import Record

THEORY = "Theory: Bartan, Pilanci"
#: Largest ratio of a bound to an optimum that rounding may cause.
ABOVE = 1.0 + 1e-6


def cases(quick: bool) -> list[dict[str, Any]]:
    seeds = range(1 if quick else 10)
    levels, networks, dimensions = ((2, 3), 3, (4, 6)) if quick else ((2, 3, 4, 8), 20, (4, 6, 8, 12))
    neurons = [100, 1000] if quick else [100, 300, 1000, 3000, 10_000]
    sizes = {"networks": 5 if quick else 20, "seed": seeds}
    shapes = ((5, 2),) if quick else ((5, 2), (10, 3), (20, 5), (20, 40))
    kinds = ((3, 2, ""),) if quick else ((3, 2, ""), (5, 2, ""), (4, 2, "relu_like"), (3, 3, "relu_like"))
    return [
        *grid(kind="reduction", levels=levels, activation=ACTIVATIONS, networks=networks, seed=0),
        *(case for d, rank in shapes for case in grid(kind="shaping", d=d, rank=rank, seed=seeds)),
        *grid(kind="concentration", n=200, d=dimensions, beta=0.01, neurons=[neurons], **sizes),
        *(
            case
            for d, levels_, name in kinds
            for case in grid(kind="constants", d=d, levels=levels_, activation=name, share=(0.01, 0.1, 0.5), seed=seeds)
        ),
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return CHECKS[case["kind"]](case)


def error(record: Record) -> np.ndarray:
    """Return, for each number of neurons, the error of the loss that 19 of 20 networks stay below."""
    return np.quantile(np.array(record.measured["loss"]), 0.95, axis=1)


def exponent(record: Record) -> float:
    """Return p such that m is proportional to epsilon^-p, fitted over all numbers of neurons."""
    slope = np.polyfit(np.log(record.case["neurons"]), np.log(error(record)), 1)[0]
    return float(-1.0 / slope)


def factor(record: Record) -> float:
    """Return m epsilon^2 / (R^4 d log d), the constant c_1 of Theorem 3, at the worst number of neurons."""
    d = record.case["d"]
    needed = np.array(record.case["neurons"]) * error(record) ** 2
    return float(needed.max() / (record.measured["radius"] ** 4 * d * np.log(d)))


#: Function that returns a measurement of all cases by its name.
Of = Callable[[str], np.ndarray]
#: Kind of cases, place in the paper, statement, and a function that tells for each case whether it holds.
EXACT: tuple[tuple[str, str, str, Callable[[Of], np.ndarray]], ...] = (
    (
        "reduction",
        "Theorem 1",
        "A network of M + 1 levels and an activation of degree two is a binary bilinear network on lifted data.",
        lambda of: of("forth") < 1e-10,
    ),
    (
        "reduction",
        "Theorem 1, Appendix C",
        "Conversely, m bilinear neurons are at most 3 m neurons of such a network.",
        lambda of: (of("back") < 1e-10) & (of("neurons") <= 3.0),
    ),
    (
        "reduction",
        "Appendix C",
        "Of these the first m have the bilinear network's weights, the others the opposite ones (errata 2).",
        lambda of: of("printed") < 1e-10,
    ),
    (
        "shaping",
        "Theorem 2",
        "For every feasible Z there is a covariance Q with arcsin(Q12) = gamma Z.",
        lambda of: np.max([of("krivine/residual"), of("krivine/diagonal"), -of("krivine/eigenvalue")], axis=0) < 1e-9,
    ),
    ("shaping", "(27)", "The second program's optimal value is zero.", lambda of: of("sdp/residual") < 1e-3),
    (
        "shaping",
        "after Theorem 2",
        "E[u v'] = arcsin(Q12) = gamma Z, to a hundredth (errata 3: 2/pi = 0.637 times that).",
        lambda of: np.abs(of("slope") - 1.0) < 0.01,
    ),
    (
        "constants",
        "(25), (67)",
        "The relaxation of (24) has the regulariser beta d rho (errata 1: a bound, but that of half of beta).",
        lambda of: (of("printed") <= of("optimum") * ABOVE) & (np.abs(of("printed") / of("half") - 1.0) >= 1e-4),
    ),
    (
        "constants",
        "section 4",
        "The relaxation is tight up to Grothendieck's constant: d(beta) <= optimum <= d(K beta) <= K d(beta).",
        lambda of: (
            (of("tight") <= of("optimum") * ABOVE)
            & (of("optimum") <= np.minimum(of("krivine"), KRIVINE * of("tight")) * ABOVE)
        ),
    ),
)


def claims(records: Records) -> list[Claim]:
    made = []
    for kind, place, statement, holds in EXACT:
        of = functools.partial(values, where(records, kind=kind))
        made.append(exact(f"{THEORY}, {place}", statement, holds(of)))
    found = where(records, kind="concentration")
    inside = [
        error <= bernstein(record.case, record.measured, m)
        for record in found
        for m, errors in zip(record.case["neurons"], record.measured["spectral"], strict=True)
        for error in errors
    ]
    exponents = {str(record.case): exponent(record) for record in found}
    sizes = sorted({record.case["d"] for record in found}) or [0]
    first, last = ({one.case["seed"]: factor(one) for one in where(found, d=d)} for d in (sizes[0], sizes[-1]))
    return [
        *made,
        judged(
            f"{THEORY}, (28)",
            "The sum of neurons concentrates around its mean as matrix Bernstein says.",
            share(inside, 0.95),
        ),
        judged(
            f"{THEORY}, Theorem 3",
            "For a loss within epsilon of the optimum, m of the order 1/epsilon^2 is enough.",
            compare(exponents, 2.2, less=True),
            f"m ~ epsilon^-p with p = {medians(list(exponents.values()))}, below 2.2",
        ),
        judged(
            f"{THEORY}, Theorem 3",
            "... and it grows with the dimension no faster than R^4 d log(d), R the norm of the longest sample.",
            compare(last, first, less=True, log=True),
            f"the constant c_1 at d = {sizes[-1]} over that at d = {sizes[0]}",
        ),
    ]


#: Methods of which records name the versions.
MEASURED = ("relaxation", "sampling", "column_generation")
EXPERIMENT = experiment_in(
    __name__,
    "What the paper proves, measured",
    "Bartan, Pilanci: Theorems 1 to 3, (25), (27), (28), (67), Appendix C",
)
