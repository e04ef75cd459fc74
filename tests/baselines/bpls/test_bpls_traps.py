"""A.11: the traps that the repairs are against; the first is with the solve, the fourth with the claims."""

from __future__ import annotations

import numpy as np
import pytest
from bpls_data import TRAIN, digits, nonlinear_targets

from qsdp.baselines.bpls import BPLSClassifier, BPLSRegressor


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "softmax"])
def test_a11_2_equation_5_taken_literally_destroys_classifiers(activation: str) -> None:
    X, _, y, _ = digits()
    scores = {}
    for rule in ("first", "mean", "relax"):
        model = BPLSClassifier(
            activation=activation, hidden_target=rule, tau_max=0, references=True, random_state=0
        ).fit(X, y)
        scores[rule] = model.history_.score[0]
    random = model.report_.references["random hidden layers"].score
    assert max(scores["first"], scores["mean"]) < 0.65
    assert scores["relax"] > random


def test_a11_3_desired_values_at_the_edge_dominate() -> None:
    X, X_test, y, y_test = digits()

    def mean_score(eps: float) -> float:
        fits = (BPLSClassifier(eps_hidden=eps, random_state=seed).fit(X, y) for seed in range(4))
        return float(np.mean([model.score(X_test, y_test) for model in fits]))

    # A.11.3: 0.877 and 0.947.
    assert mean_score(1e-2) > mean_score(1e-6) + 0.04


def test_a11_5_without_ridge_the_readout_of_the_misses_explodes() -> None:
    X, _, y, _ = digits()
    norms = {}
    for ridge in (0.0, 1e-3):
        model = BPLSClassifier(ridge=ridge, tau_max=1, stop="none", keep_best=False, random_state=0).fit(X, y)
        start = BPLSClassifier(ridge=ridge, tau_max=0, random_state=0).fit(X, y)
        share = model.report_.passes[1].share
        # Undo the blend.
        last, before = model.network_.weights[-1], start.network_.weights[-1]
        norms[ridge] = np.linalg.norm((last - (1 - share) * before) / share) / np.linalg.norm(before)
    assert norms[0.0] > 4.0
    assert norms[1e-3] < 3.0


def test_a11_6_too_much_ridge_kills_softmax_layers() -> None:
    X, X_test, y, y_test = digits()
    scores = [
        BPLSClassifier(activation="softmax", ridge=ridge, random_state=0).fit(X, y).score(X_test, y_test)
        for ridge in (1e-3, 1e-1)
    ]
    assert scores[0] > scores[1] + 0.1


def test_a11_8_targets_outside_the_range_are_cut() -> None:
    targets = nonlinear_targets(TRAIN) + np.random.default_rng(1).standard_normal((5, 2))
    assert np.any((targets < 0) | (targets > 1))
    model = BPLSRegressor((3,), output_activation="sigmoid", random_state=0).fit(TRAIN, targets)
    assert np.isfinite(model.predict(TRAIN)).all()
    assert model.report_.clipped_targets == np.mean((targets < 1e-3) | (targets > 1 - 1e-3))
