"""What the experiments on the figures train: the printed program, and networks at or above its bound."""

from __future__ import annotations

import numpy as np
import pytest

import qsdp
from benchmarks.data import sets
from benchmarks.experiments.comparisons import objectives
from benchmarks.papers.bartan_pilanci.experiments import printed as study

pytest.importorskip("torch")


@pytest.mark.parametrize("constant", [False, True])
def test_the_program_is_the_printed_one(uci_available: None, constant: bool) -> None:
    (case,) = [c for c in study.cases(True) if c["method"] == "program" and c["constant"] is constant]
    X, X_test, y, y_test = sets.standardised(case["set"], case["split"])
    if constant:
        X, X_test = (np.column_stack([rows, np.ones(len(rows))]) for rows in (X, X_test))
    problem = qsdp.TrainingProblem(X, y, beta=case["beta"])
    network = qsdp.paper.algorithm_1(problem, case["m"], random_state=0).network
    (point,) = study.run(case)["points"]
    assert point["test"] == np.mean(np.sign(network.predict(X_test)) == y_test)
    assert point["train"] == np.mean(np.sign(network.predict(X)) == y)


def test_objectives_of_real_networks_are_at_or_above_the_bound(uci_available: None) -> None:
    names = set()
    for case in objectives.EXPERIMENT.cases(True):
        networks = objectives.EXPERIMENT.run(case)["networks"]
        names |= set(networks)
        assert min(one["over bound"] for one in networks.values()) >= 1.0 - 1e-9
    assert names == {"sampled", "polished", "rounded", "straight-through"}
