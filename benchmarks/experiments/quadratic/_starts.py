"""Several starts of one network trained as one batched computation; fewer epochs are read off on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from qsdp.baselines.quadratic import MultiStart, QuadraticNetworkClassifier


def train_starts(
    model: QuadraticNetworkClassifier, case: dict[str, Any], random_state: Any, split: Any
) -> tuple[MultiStart, dict[str, Any]]:
    """Return the starts of a case after its last epoch, and scores of both read-outs at all of its epochs."""
    X, X_test, y, y_test = split
    starts = MultiStart(model.set_params(n_epochs=case["epochs"][0]), case["n_starts"], random_state=random_state)
    starts.fit(X, y)
    measured: dict[str, Any] = {"argmax": {}, "code": {}}
    done = case["epochs"][0]
    for epochs in case["epochs"]:
        if epochs > done:
            starts.train(epochs - done)
            done = epochs
        for readout in ("argmax", "code"):
            scores = starts.scores(X_test, y_test, readout)
            measured[readout][str(epochs)] = [None if np.isnan(score) else float(score) for score in scores]
    return starts, measured
