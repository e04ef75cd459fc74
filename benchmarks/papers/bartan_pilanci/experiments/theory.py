"""Measurements of what Bartan and Pilanci prove: Theorems 1 to 3, the constants of the lower bound and of rounding.

The proofs need no measurement, but their constants and possible misprints do. All data are random, nothing is split and
no column is appended; objectives are sums over samples unless stated. The optima of (12) and (24) are proven by
`qsdp.column_generation`. Seconds are wall time, which no table shows. Each series has a table:

    reduction      networks of 20 random neurons on 5 columns, mapped by Theorem 1 and back by Appendix C. "forth" and
                   "back" are the largest relative differences of outputs, "neurons" the neurons of the mapped network
                   for each bilinear one, "values" the number of distinct first-layer weights, "outside" the relative
                   distance of the bilinear networks from the span of all neurons of M + 1 levels, "printed" the error
                   of the coefficients as printed
    optima         optima and bounds of (24), bilinear networks, and of (12), polynomial networks, for sigma = t^2, on
                   25 samples of 4 Gaussian columns with Gaussian targets of deviation 2, beta = 0.3, and on 50 samples
                   of 3, 6 and 9 such columns at three betas
    shaping        covariances of Theorem 2 for random feasible Z of side d and given rank: in closed form and by (27);
                   "slope" is E[u v'] in units of gamma Z
    concentration  200 planted samples with noise, targets in units of their deviation, beta = 0.01, mean absolute
                   error: distances of sampled networks from the optimum of (24), by their number of neurons
    constants      40 planted samples with noise, columns in units of their deviation, squared loss; beta is a share of
                   the smallest beta at which the zero network is optimal. "tight" is the relaxation with 2 beta D rho,
                   "printed" (25) as printed, "half" the tight one at half of beta, "krivine" the one at K beta

`tests/campaigns soundness` checks that bounds are below objectives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.machinery import draw
from benchmarks.machinery.common import Records, What, experiment_in, grid, medians, table_row, values, where
from benchmarks.machinery.summary import crossed, summary
from benchmarks.machinery.verdicts import Claim, compare, exact, judged, share
from benchmarks.papers.bartan_pilanci.theory_checks import ACTIVATIONS, CHECKS, KRIVINE, bernstein
from benchmarks.runner import Record, Table

THEORY = "Theory: Bartan, Pilanci"
#: Numbers of columns and betas of the optima on 50 samples.
OPTIMA = {"d": (3, 6, 9), "beta": (0.1, 1.0, 10.0)}
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
        *grid(kind="optima", n=25, d=4, beta=0.3, levels=levels[:2], seed=seeds),
        *grid(
            kind="optima", n=50, d=OPTIMA["d"][:1] if quick else OPTIMA["d"], beta=OPTIMA["beta"], levels=2, seed=seeds
        ),
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


def _values_beyond(record: Record) -> int:
    """Return by how many values the first layers of mapped networks exceed 2 M + 1."""
    return int(record.measured["values"]) - (2 * record.case["levels"] - 1)


#: Function that returns a measurement of all cases by its name, or computed from the record.
Of = Callable[[What], np.ndarray]
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
        "Theorem 1, converse",
        "Conversely, a bilinear network is a network of M + 1 levels (errata 2b: not x1^2 - x2^2, for M = 1).",
        lambda of: of("outside") < 1e-8,
    ),
    (
        "reduction",
        "Theorem 1, Appendix C",
        "m bilinear neurons equal at most 3 m neurons with the same activation and 2 M + 1 values, integers up to M.",
        lambda of: (of("back") < 1e-10) & (of("neurons") <= 3.0) & (of(_values_beyond) <= 0),
    ),
    (
        "optima",
        "after Theorem 3",
        "What holds for (24) applies to approximating (12): their optima are equal (errata 2b).",
        lambda of: of("polynomial/bound") <= of("bilinear/optimum") * ABOVE,
    ),
    (
        "optima",
        "(12), (24)",
        "The optimum of (24) is at most that of (12), so that its lower bounds hold for both.",
        lambda of: of("bilinear/bound") <= of("polynomial/optimum") * ABOVE,
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


def tables(records: Records) -> list[Table]:
    """Return a table for each series; the bounds on the optima equal them in all digits shown."""
    optima = [
        replace(record, case={**record.case, "network": network}, measured={"optimum": proven["optimum"]})
        for record in where(records, kind="optima")
        for network, proven in record.measured.items()
    ]
    made = summary([record for record in records if record.case["kind"] != "optima"])
    keys, note = ("n", "d", "beta", "levels"), "Means and deviations over 10 draws of the data."
    return [*made, crossed("optima", optima, keys, "network", lambda record: record.measured["optimum"], note)]


def plot(records: Records) -> Any:
    """Draw the bounds relative to the optimum, and the errors of sampled networks by their number of neurons."""
    bounds: dict[str, dict[float, list[float]]] = {}
    words = {
        "tight": "relaxation",
        "printed": "relaxation as printed, (25)",
        "krivine": "relaxation at K beta, above the optimum",
    }
    for record in where(records, kind="constants"):
        for name, label in words.items():
            ratios = bounds.setdefault(label, {}).setdefault(record.case["share"], [])
            ratios.append(record.measured[name] / record.measured["optimum"])
    errors: dict[str, dict[float, list[float]]] = {}
    for record in where(records, kind="concentration"):
        for neurons, bound in zip(record.case["neurons"], error(record), strict=True):
            errors.setdefault(f"sampled, d = {record.case['d']}", {}).setdefault(neurons, []).append(bound)
    if not bounds or not errors:
        return None
    figure = draw.curves({"bounds": bounds, "Theorem 3": errors}, "beta / beta_max", "relative to the optimum", "x")
    figure.axes[1].set(xlabel="neurons", ylabel="error of the loss", yscale="log")
    return figure


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


def quotes(records: Records) -> dict[str, str]:
    """Return by how much the optimum of (12) exceeds that of (24), by columns and beta."""
    rows = []
    for d in OPTIMA["d"]:
        cells = []
        for beta in OPTIMA["beta"]:
            found = where(records, kind="optima", n=50, d=d, beta=beta)
            ratios = values(found, "polynomial/optimum") / values(found, "bilinear/optimum")
            # Both are proven to 1e-8.
            cells.append(f"{medians(np.round(100.0 * (ratios - 1.0), 5) + 0.0)} %" if found else "-")
        rows.append(table_row(f"{d} columns", *cells))
    heading = table_row("", *(f"$\\beta = {beta:g}$" for beta in OPTIMA["beta"]))
    return {"excess": "\n".join([heading, "|" + "---|" * (len(OPTIMA["beta"]) + 1), *rows])}


#: The answer on top of the page.
ANSWER = """\
Theorems 1 to 3 hold: a network of M + 1 levels
[is a bilinear network on lifted data]{theory: is a binary bilinear network = 1 supported}, every feasible Z
[has its covariance]{theory: For every feasible Z = 1 supported}, and
[of the order of 1/epsilon^2 neurons]{theory: m of the order = 1 supported} are enough for a loss within epsilon of the
optimum. The relaxation is [tight up to Grothendieck's constant]{theory: tight up to = 1 supported}. Five statements
need a [correction](../errata.md): the regulariser of the relaxation must be
[twice the printed one]{theory: has the regulariser = 1 contradicted}, the mean of sampled neurons is
[2/pi times the printed one]{theory: E[u v'] = 1 contradicted}, Theorem 1 has
[no converse as stated]{theory: Conversely, a bilinear network = 1 contradicted}, the optima of (12) and (24)
[differ]{theory: their optima are equal = 1 contradicted}, and
[coefficients of Appendix C]{theory: Of these the first m = 1 contradicted} are misprinted.
"""

#: Methods whose versions are stored with the records.
MEASURED = ("relaxation", "sampling", "column_generation")
EXPERIMENT = experiment_in(
    __name__,
    "What the paper proves, measured",
    "Bartan, Pilanci: Theorems 1 to 3, (25), (27), (28), (67), Appendix C",
)
