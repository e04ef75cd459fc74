"""Linear toy of the paper on back-propagating least squares (its Figure 4): errors against the noise.

For a linear network the method is ordinary least squares, whatever the random weights; so its errors are known
exactly, ``sqrt(6) sigma`` in training and ``sqrt(2 * 2.125) sigma`` in test. The printed inverse of equation 6 does
not exist here: three hidden neurons of two inputs have rank two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.experiments._common import experiment_in, grid
from benchmarks.experiments.least_squares import _bpls_toys as toys
from qsdp.baselines.bpls import BPLSRegressor
from qsdp.bench import Claim, Record, Table, exact, not_measured

SOURCE = "Tomic, Matos-Carvalho, Beko 2024"
SIGMAS = [round(0.1 * k, 1) for k in range(11)]

METHODS = ("BPLS", *toys.COMPETITORS)

#: Training / test of the specification's prototype: 1000 runs of least squares, 200 of the others.
PRINTED = {
    "BPLS": {0.1: "0.246 / 0.208", 0.5: "1.229 / 1.041", 1.0: "2.458 / 2.081"},
    "Adam": {0.1: "1.107 / 0.985", 0.5: "1.696 / 1.414", 1.0: "2.823 / 2.237"},
    "NAG": {0.1: "0.304 / 0.286", 0.5: "1.293 / 1.126", 1.0: "2.572 / 2.244"},
    "SGD": {0.1: "0.444 / 0.385", 0.5: "1.274 / 1.090", 1.0: "2.483 / 2.109"},
    "AdaGrad": {0.1: "0.247 / 0.209", 0.5: "1.234 / 1.042", 1.0: "2.468 / 2.082"},
}

#: Source and statement of every claim.
STATEMENTS = {
    "competitors": (
        f"{SOURCE}, Figure 4",
        "Linear toy: BPLS matches the best competitor in training and is slightly better in test.",
    ),
    "printed": toys.printed_key("Linear toy"),
    "theorem": (
        f"{SOURCE}, Section II",
        "The weights of a linear network are optimal: predictions are those of ordinary least squares.",
    ),
    "inverse": (
        f"{SOURCE}, equation 6",
        "The normal equations as printed, with an inverse, solve the paper's first example.",
    ),
}


def cases(quick: bool) -> list[dict[str, Any]]:
    sigmas, runs, epochs = ([0.5], 20, 10) if quick else (SIGMAS, 1000, 1000)
    found = grid(method="BPLS", sigma=sigmas, runs=runs)
    found += grid(method=toys.COMPETITORS, sigma=sigmas, runs=runs, epochs=epochs)
    return found + grid(method="theorem", sigma=1.0, runs=runs) + grid(method="inverse", sigma=0.0, runs=runs)


def run(case: dict[str, Any]) -> dict[str, Any]:
    method, sigma, runs = case["method"], case["sigma"], case["runs"]
    if method == "BPLS":
        return toys.least_squares_runs(toys.linear, sigma, runs, {"activation": "identity"})
    if method == "theorem":
        return {"difference": max(_difference(sigma, number) for number in range(runs))}
    if method == "inverse":
        return _printed_inverse(runs)
    return toys.gradient_runs(toys.linear, sigma, runs, method, activation="identity", epochs=case["epochs"])


def _difference(sigma: float, number: int) -> float:
    """Return the largest difference from ordinary least squares, for the rule of this run."""
    rules = ("first", "mean", "ls", "relax", "damped", "gauss-seidel", "minnorm")
    Y = toys.noisy(toys.linear, sigma, number)
    model = BPLSRegressor(
        (3,), activation="identity", hidden_target=rules[number % 7], literal=number % 2 == 0, random_state=number
    ).fit(toys.TRAIN, Y)
    A, B = (np.column_stack([data, np.ones(5)]) for data in (toys.TRAIN, toys.TEST))
    expected = B @ np.linalg.lstsq(A, Y, rcond=None)[0]
    return float(np.abs(model.predict(toys.TEST) - expected).max())


def _printed_inverse(runs: int) -> dict[str, Any]:
    """Return what the normal equations as printed make of exact data."""
    A, Y = np.column_stack([toys.TRAIN, np.ones(5)]), toys.linear(toys.TRAIN)
    errors, residuals = 0, []
    for number in range(runs):
        H = A @ np.random.default_rng(number).uniform(-1.0, 1.0, (2, 3))
        try:
            residuals.append(float(np.linalg.norm(H @ (np.linalg.inv(H.T @ H) @ (H.T @ Y)) - Y)))
        except np.linalg.LinAlgError:
            errors += 1
    return {"errors": errors, "median": float(np.median(residuals)), "largest": float(np.max(residuals))}


def expected(sigma: float) -> tuple[float, float]:
    """Return the expected root mean squares of ordinary least squares."""
    return math.sqrt(6.0) * sigma, math.sqrt(2.0 * 2.125) * sigma


def tables(records: Sequence[Record]) -> list[Table]:
    found, other = toys.by_noise(records), []
    for key, what, printed, shown in (
        (
            ("inverse", 0.0),
            "printed inverse on exact data: errors, median and largest residual",
            "253, 10.6, 1.8e+03",
            "{errors}, {median:.1f}, {largest:.2g}",
        ),
        (("theorem", 1.0), "largest difference from least squares, every rule", "<= 1e-10", "{difference:.1e}"),
    ):
        if key in found:
            other.append([what, printed, shown.format(**found[key].measured), str(found[key].case["runs"])])
    return [
        *toys.error_tables("Linear toy", found, PRINTED, METHODS, expected),
        Table("Linear toy: what else was measured", ["what", "printed", "measured", "runs"], other),
    ]


def claims(records: Sequence[Record]) -> list[Claim]:
    found = toys.by_noise(records)
    theorem, inverse = (
        None if key not in found else found[key].measured for key in (("theorem", 1.0), ("inverse", 0.0))
    )
    return [
        toys.match_claim(
            STATEMENTS["competitors"],
            toys.ratios_to_best(found, "BPLS", toys.COMPETITORS, (sigma for _, sigma in found if sigma > 0.0)),
        ),
        toys.printed_claim("Linear toy", found, PRINTED),
        exact(
            *STATEMENTS["theorem"],
            [theorem["difference"] <= 1e-8],
            f"largest difference {theorem['difference']:.1e}, every rule for hidden targets, printed and repaired",
        )
        if theorem
        else not_measured(*STATEMENTS["theorem"]),
        exact(
            *STATEMENTS["inverse"],
            [inverse["errors"] == 0 and inverse["largest"] < 1e-6],
            f"{inverse['errors']} of {records[-1].case['runs']} runs fail, the matrix being singular; median residual "
            f"{inverse['median']:.1f} on exact data",
        )
        if inverse
        else not_measured(*STATEMENTS["inverse"]),
    ]


def plot(records: Sequence[Record]) -> Any:
    return toys.draw_errors(toys.by_noise(records), METHODS)


EXPERIMENT = experiment_in(__name__, "Back-propagating least squares: linear toy", f"{SOURCE}, Figure 4")
