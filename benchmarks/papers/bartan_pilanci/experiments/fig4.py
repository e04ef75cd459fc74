"""Figure 4 of the paper: accuracy on vehicle, four classes, against the number of sampled neurons.

Targets are one-hot, the loss is squared, the activation bilinear, the weights binary, and beta is 1 as in the paper.
Each of the ten splits has 676 training and 170 test samples, standardised, with a constant column. All networks of a
split are sampled from one solve. "sampled, equal neurons per class" is the paper's method: the program (67) as printed,
with a block of twice the size per class, solved by SCS, and the covariance of (68). "sampled, neurons in proportion to
rho" uses the tight regulariser, a solver of this package and the largest constant of the covariance; neurons are
divided among the classes in proportion to their rho. "polished" starts from the latter. The two horizontal lines are
the relaxations themselves. Times are not shown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import qsdp
from benchmarks.data.sets import standardised, targets_of, with_constant
from benchmarks.machinery import draw
from benchmarks.machinery.common import (
    PAPER,
    Records,
    accuracy,
    approach_claim,
    experiment_in,
    grouped,
    unfolded,
    values,
    where,
)
from benchmarks.machinery.verdicts import Claim
from benchmarks.runner import Record

SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)
KEYS = ("m",)
#: Fewer sizes than in `SIZES`, since the work of polishing grows with the neurons.
POLISHED = (10, 30, 100, 300)
CURVES = ("printed", "proportional", "polished")
BETA, DRAWS = 1.0, 5
#: Names of the curves in the figure and in tables, and of the lines of their relaxations.
NAMES = {
    "printed": "sampled, equal neurons per class",
    "proportional": "sampled, neurons in proportion to rho",
    "polished": "polished",
}
LINES = {"printed": "relaxation, as printed", "proportional": "relaxation, tight"}


def cases(quick: bool) -> list[dict[str, Any]]:
    sizes = {name: [30, 60] if quick else list(POLISHED if name == "polished" else SIZES) for name in CURVES}
    splits = range(1 if quick else 10)
    return [{"curve": name, "split": split, "sizes": sizes[name]} for split in splits for name in CURVES]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Solve once, then sample every size a few times."""
    X, X_test, y, y_test = standardised("vehicle", case["split"])
    X, X_test = with_constant(X, X_test)
    problem = qsdp.TrainingProblem(X, targets_of(y), beta=BETA)
    printed = case["curve"] == "printed"
    if printed:
        _, relaxation, covariance = qsdp.paper.algorithm_1(problem)
    else:
        relaxation = qsdp.solve_relaxation(problem)
        covariance = qsdp.shape_covariance(relaxation)
    shares = "equal" if printed else "proportional"

    def network_of(m: int, seed: int) -> Any:
        network = qsdp.sample_network(covariance, m, random_state=seed, allocation=shares)
        return qsdp.polish(network, problem, random_state=seed) if case["curve"] == "polished" else network

    points = []
    for m in case["sizes"]:
        networks = [network_of(m, seed) for seed in range(DRAWS)]
        train, test = (
            float(np.mean([accuracy(network.predict(rows), labels) for network in networks]))
            for rows, labels in ((X, y), (X_test, y_test))
        )
        points.append({"m": m, "bits": networks[-1].n_bits, "train": train, "test": test})
    sdp = {"sdp_train": accuracy(relaxation.predict(X), y), "sdp_test": accuracy(relaxation.predict(X_test), y_test)}
    return {"points": points, **sdp}


def shown(records: Records) -> list[Record]:
    """Return the records with the names of their curves."""
    return [replace(one, case={**one.case, "curve": NAMES[one.case["curve"]]}) for one in records]


def claims(records: Records) -> list[Claim]:
    found = []
    group = "The accuracy of sampled networks approaches the relaxation's"
    for part, words in (("train", "training"), ("test", "test")):
        distances = {
            one.case["split"]: tuple(one.measured[f"sdp_{part}"] - one.measured["points"][k][part] for k in (0, -1))
            for one in where(records, curve="printed")
        }
        statement = f"The {words} accuracy of sampled networks approaches the relaxation's: a tenth is left."
        names = (f"accuracy below the relaxation's at m = {SIZES[0]}:", f"at m = {SIZES[-1]}:")
        claim = approach_claim(f"{PAPER}, Figure 4", statement, distances, names=names)
        found.append(replace(claim, group=group, case=words))
    return found


def plot(records: Records) -> Any:
    """Draw accuracies against the number of neurons, with those of the relaxations."""
    panels: dict[str, dict[str, dict[float, Any]]] = {}
    for part, title in (("train", "training"), ("test", "test")):
        lines = panels.setdefault(f"vehicle, {title}, beta = 1", {})
        for (curve, m), group in grouped(unfolded(records, "points", "m"), "curve", "m").items():
            lines.setdefault(NAMES[curve], {})[m] = 100.0 * values(group, part)
        for curve, name in LINES.items():
            if group := where(records, curve=curve):
                lines[name] = dict.fromkeys(lines[NAMES[curve]], 100.0 * values(group, f"sdp_{part}").mean())
    return draw.curves(panels, "neurons m", "accuracy [%], mean and deviation", "x")


def quotes(records: Records) -> dict[str, str]:
    few, many = POLISHED[-1], SIZES[-1]
    polished, proportional = (where(records, curve=curve) for curve in ("polished", "proportional"))
    if not (polished and proportional):
        return {}
    right, sampled = (
        100 * np.mean([one.measured["points"][-1]["test"] for one in group]) for group in (polished, proportional)
    )
    relaxed = 100 * values(polished, "sdp_test").mean()
    shown = (
        f"{few} polished neurons have {right:.1f} % of the test rows right, {many:,} sampled ones {sampled:.1f} %, the "
        f"relaxation {relaxed:.1f} %"
    )
    return {
        "polished": shown,
        "sizes": f"*One semidefinite program, solved once, gives networks of every size. {shown}. Vehicle, four "
        "classes, beta = 1, means over ten splits: Figure 4 of the paper, and beyond.*",
    }


#: The answer on top of the page.
ANSWER = """\
The paper claims that sampled networks approach the relaxation's accuracy as neurons are added. From 10 to 10,000
neurons, the distance of test accuracies
[falls to less than a tenth]{fig4: The test accuracy of = 1 supported}, {fig4: The test accuracy of}; that of training
accuracies [is not shown to]{fig4: The training accuracy of = 1 inconclusive}, {fig4: The training accuracy of}. Beyond
the paper, {fig4.polished}.
"""


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    if case["curve"] == "printed":
        return ("relaxation", "sampling")
    return ("relaxation", "sampling", "adaptive", *(("refinement", "moments") if case["curve"] == "polished" else ()))


#: Methods whose versions are stored with the records.
MEASURED = ("relaxation", "sampling", "adaptive", "refinement", "moments")
EXPERIMENT = experiment_in(
    __name__, "Figure 4: several classes, accuracy against the number of neurons", f"{PAPER}, Figure 4", version=3
)
