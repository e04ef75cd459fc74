"""Accuracy and bits of networks with M + 1 levels, for several M from one solve of each split.

The relaxation is solved for binary weights (M = 1); networks with M = 2, 4, 8 are sampled from the same solution
(`result.resample(m, levels=M + 1)`), which takes no solve. Squared loss, bilinear with a constant column, beta = 10,
2500 neurons, standardised by training rows, the paper's shares. A case is a split; its accuracy for an M is the mean of
networks drawn with different seeds, the same seeds for every M, so that M and 1 are compared in pairs.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments._common import TARGET, Records, accuracy, experiment_in, grid, values, where
from benchmarks.experiments._data import standardised, targets_of, with_constant
from qsdp.bench import Claim, exact, judged, paired_claim, within

SETS = ("breast-cancer", "ionosphere", "credit-approval", "vehicle")
FACTORS = (1, 2, 4, 8)
BINARY, BETA, SPLITS = 1, 10.0, 20

#: What an earlier run on one split has found.
FINDING = "Earlier finding of the package"


def cases(quick: bool) -> list[dict[str, Any]]:
    sets, splits, networks, neurons = (SETS[:2], 2, 2, 500) if quick else (SETS, SPLITS, 5, 2500)
    return grid(split=range(splits), data=sets, networks=networks, neurons=neurons)


def run(case: dict[str, Any]) -> dict[str, Any]:
    X, X_test, y, y_test = standardised(case["data"], case["split"])
    X, X_test = with_constant(X, X_test)
    measured: dict[str, Any] = {}
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # Bounds carried over to other levels are loose, and said to be.
        warnings.simplefilter("ignore")
        result = qsdp.solve_and_sample(X, targets_of(y), n_neurons=case["neurons"], beta=BETA, random_state=0)
        for M in FACTORS:
            drawn = [result.resample(case["neurons"], seed, levels=M + 1) for seed in range(case["networks"])]
            weights = [np.concatenate([one.network.U.ravel(), one.network.V.ravel()]) for one in drawn]
            measured[str(M)] = {
                "test": [accuracy(one.network.predict(X_test), y_test) for one in drawn],
                "gaps": [one.certificate.relative_gap for one in drawn],
                "outermost": [float(np.mean(np.abs(values) == M)) for values in weights],
                "bits": drawn[0].network.n_bits,
            }
    return measured


def tests(records: Records, M: int) -> np.ndarray:
    """Return the test accuracy of every network with M + 1 levels, shape (splits, networks)."""
    return values(records, f"{M}/test")


def of_sampling(records: Records, M: int) -> float:
    """Return the deviation between networks of one solution, the root of its mean square over splits."""
    return float(np.sqrt(np.mean(np.var(tests(records, M), axis=1, ddof=1))))


def change(records: Records, M: int) -> np.ndarray:
    """Return accuracy with M + 1 levels minus that with two, for every split."""
    return np.asarray(np.mean(tests(records, M) - tests(records, BINARY), axis=1))


def claims(records: Records) -> list[Claim]:
    found, last, groups = [], FACTORS[-1], {name: where(records, data=name) for name in SETS}
    for name, group in groups.items():
        statement = f"{name}: networks with M = {last} have a higher test accuracy than binary ones (one solve)."
        many, binary = ({r.case["split"]: float(tests([r], M).mean()) for r in group} for M in (last, BINARY))
        found.append(paired_claim(TARGET, statement, many, binary, names=(f"M = {last}", "M = 1")))
    groups = {name: group for name, group in groups.items() if group}
    noise = {name: of_sampling(group, BINARY) for name, group in groups.items()}
    changes = {name: dict(enumerate(change(group, last))) for name, group in groups.items()}
    parts = {name: within(changes[name], 0.0, noise[name], unit=100.0) for name in groups}
    figures = "; ".join(f"{name} {part.number}, networks {100 * noise[name]:.2f}" for name, part in parts.items())
    words = "is less than networks of one solution differ among themselves"
    found.append(judged(FINDING, f"What M = {last} changes in test accuracy {words}.", parts, figures))
    statement = f"Nine of ten weights are at +-M in every network, also with M = {last}."
    shares = {M: values(records, f"{M}/outermost") for M in FACTORS[1:]} if records else {}
    figures = ", ".join(f"M = {M}: {share.min():.2f} to {share.max():.2f}" for M, share in shares.items())
    holds = np.all([np.all(share >= 0.9, axis=1) for share in shares.values()], axis=0) if records else []
    return [*found, exact(FINDING, statement, holds, figures, needed=len(SETS) * SPLITS)]


EXPERIMENT = experiment_in(
    __name__,
    "More levels from the same solve",
    "Targets of the package; Bartan, Pilanci, Theorem 1, for what levels are",
)
