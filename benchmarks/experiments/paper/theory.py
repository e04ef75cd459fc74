"""What Bartan and Pilanci prove, measured: Theorems 1 to 3, the constants of the lower bound and of rounding.

A proof needs no measurement; its constants do, and so do slips of print. That bounds are below objectives is tried by
`tests/campaigns soundness`. Optima of (24) are those of `qsdp.column_generation`, proven. Theorem 3 is measured on
planted data with noise, with the mean of absolute errors; the scale of section 5.1 on networks trained by gradients,
data as in Figure 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.experiments._common import (
    PAPER,
    Records,
    Theorem,
    experiment_in,
    grid,
    medians,
    per_cent,
    theorems,
    values,
)
from benchmarks.experiments.paper._theory_checks import ACTIVATIONS, CHECKS, KRIVINE, bernstein
from qsdp.bench import Claim, Record, compare, exact, judged, not_measured, share


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
        *grid(kind="scale", m=(30,) if quick else (30, 100, 300), seed=seeds, epochs=60 if quick else 300),
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return CHECKS[case["kind"]](case)


def error(record: Record, name: str) -> np.ndarray:
    """Return, for every number of neurons, the error that 19 of 20 networks stay below."""
    return np.quantile(np.array(record.measured[name]), 0.95, axis=1)


def exponent(record: Record, name: str) -> float:
    """Return p of m proportional to epsilon^-p, over all numbers of neurons."""
    slope = np.polyfit(np.log(record.case["neurons"]), np.log(error(record, name)), 1)[0]
    return float(-1.0 / slope)


def factor(record: Record) -> float:
    """Return m epsilon^2 / (R^4 d log d), the constant c_1 of Theorem 3, at the worst number of neurons."""
    d = record.case["d"]
    needed = np.array(record.case["neurons"]) * error(record, "loss") ** 2
    return float(needed.max() / (record.measured["radius"] ** 4 * d * np.log(d)))


def _forth(source: str, statement: str, records: Records) -> Claim:
    return exact(source, statement, values(records, "forth") < 1e-10, _differences(records, "forth"))


def _back(source: str, statement: str, records: Records) -> Claim:
    errors, neurons = (values(records, name) for name in ("back", "neurons"))
    figures = f"{_differences(records, 'back')}, {neurons.max():.2f} times the neurons at most"
    return exact(source, statement, (errors < 1e-10) & (neurons <= 3.0), figures)


def _appendix(source: str, statement: str, records: Records) -> Claim:
    figures = f"{_differences(records, 'printed')}, without the factors 2, -1/2, -1/2 of errata 2"
    return exact(source, statement, values(records, "printed") < 1e-10, figures)


def _differences(records: Records, name: str) -> str:
    return f"relative differences {medians(values(records, name))}"


def _covariance(source: str, statement: str, records: Records) -> Claim:
    residuals, lowest, diagonals = (values(records, f"krivine/{n}") for n in ("residual", "eigenvalue", "diagonal"))
    figures = f"residual {residuals.max():.0e}, smallest eigenvalue {lowest.min():.0e}"
    return exact(source, statement, np.maximum(np.maximum(residuals, diagonals), -lowest) < 1e-9, figures)


def _second_program(source: str, statement: str, records: Records) -> Claim:
    residuals = values(records, "sdp/residual")
    figures = f"largest entry of arcsin(Q12) - gamma Z: {residuals.max():.1e} (CVXPY and SCS)"
    return exact(source, statement, residuals < 1e-3, figures)


def _slope(source: str, statement: str, records: Records) -> Claim:
    slopes = values(records, "slope")
    figures = f"E[u v'] is {medians(slopes)} times gamma Z; 2/pi = 0.637, errata 3"
    return exact(source, statement, np.abs(slopes - 1.0) < 0.01, figures)


def _square(source: str, statement: str, records: Records) -> Claim:
    found = [exponent(record, "loss") for record in records]
    figures = f"m ~ epsilon^-p with p = {medians(found)}, below 2.2"
    return judged(source, statement, compare(dict(enumerate(found)), 2.2, less=True), figures)


def _dimensions(source: str, statement: str, records: Records) -> Claim:
    sizes = sorted({record.case["d"] for record in records})
    if len(sizes) < 2:
        return not_measured(source, statement, "one d only")
    factors = {d: {r.case["seed"]: factor(r) for r in records if r.case["d"] == d} for d in sizes}
    figures = ", ".join(f"d = {d}: c_1 = {max(found.values()):.2g} at most" for d, found in factors.items())
    return judged(source, statement, compare(factors[sizes[-1]], factors[sizes[0]], less=True, log=True), figures)


def _concentrates(source: str, statement: str, records: Records) -> Claim:
    inside = [
        error <= bernstein(record.case, record.measured, m)
        for record in records
        for m, errors in zip(record.case["neurons"], record.measured["spectral"], strict=True)
        for error in errors
    ]
    return judged(source, statement, share(inside, 0.95), "networks inside the bound of 95 %")


def _printed_bound(source: str, statement: str, records: Records) -> Claim:
    optimum, printed, half, tight = (values(records, name) for name in ("optimum", "printed", "half", "tight"))
    same = np.abs(printed / half - 1.0)
    figures = (
        f"as printed {medians(printed / optimum)} of the optimum, with 2 beta d rho {medians(tight / optimum)}; as "
        f"printed at beta and right at beta/2 differ by {same.max():.0e}: a bound, of half the regulariser (errata 1)"
    )
    return exact(source, statement, (printed <= optimum * (1.0 + 1e-6)) & (same >= 1e-4), figures)


def _sandwich(source: str, statement: str, records: Records) -> Claim:
    optimum, tight, krivine = (values(records, name) for name in ("optimum", "tight", "krivine"))
    inside = (tight <= optimum * (1.0 + 1e-6)) & (optimum <= krivine * (1.0 + 1e-6))
    ratio = optimum / tight
    return exact(
        source,
        statement,
        inside & (ratio <= KRIVINE),
        f"optimum over relaxation {medians(ratio)}, K = {KRIVINE:.3f}",
    )


def _scale(source: str, statement: str, records: Records) -> Claim:
    printed, right = (values(records, name) for name in ("printed", "right"))
    figures = f"relative error {per_cent(printed)} at that c, {per_cent(right)} at <Z_hat, Z> / <Z_hat, Z_hat>"
    return exact(source, statement, printed <= right * (1.0 + 1e-9), figures)


ONE, TWO, THREE = (f"Theorem {number}" for number in (1, 2, 3))
#: Kind of cases, place, what is said there, and what judges it.
CLAIMS: tuple[Theorem, ...] = (
    ("reduction", ONE, "A network of M + 1 levels and degree two is a binary bilinear network on lifted data.", _forth),
    ("reduction", f"{ONE}, Appendix C", "Conversely, m bilinear neurons are at most 3 m neurons of such a one.", _back),
    (
        "reduction",
        "Appendix C",
        "The first m have the bilinear network's weights, others the opposite ones.",
        _appendix,
    ),
    ("shaping", TWO, "For every feasible Z there is a covariance Q with arcsin(Q12) = gamma Z.", _covariance),
    ("shaping", "(27)", "The second program finds it: its optimal value is zero.", _second_program),
    ("shaping", f"after {TWO}", "E[u v'] = arcsin(Q12) = gamma Z (to a hundredth).", _slope),
    (
        "concentration",
        "(28)",
        "The sum of neurons concentrates around its mean as matrix Bernstein says.",
        _concentrates,
    ),
    ("concentration", THREE, "For a loss within epsilon of the optimum, m of order 1/epsilon^2 is enough.", _square),
    ("concentration", THREE, "... which grows with d no faster than R^4 d log(d), R the longest sample.", _dimensions),
    ("constants", "(25), (67)", "The bilinear relaxation of (24) has the regulariser beta d rho.", _printed_bound),
    (
        "constants",
        "section 4",
        "It is tight up to Grothendieck's K: d(beta) <= optimum <= d(K beta) <= K d(beta).",
        _sandwich,
    ),
    ("scale", "section 5.1", "c = <Z_hat, Z> / <Z, Z> solves min ||c Z_hat - Z||_F.", _scale),
)


def claims(records: Records) -> list[Claim]:
    return theorems(PAPER, CLAIMS, records)


EXPERIMENT = experiment_in(
    __name__,
    "What the paper proves, measured",
    "Bartan, Pilanci: Theorems 1 to 3, (25), (27), (28), (67), section 5.1, Appendix C",
)
