"""Several starts of one network trained as one batched computation; fewer epochs are read off on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.experiments._common import Records
from qsdp.baselines.quadratic import MultiStart, QuadraticNetworkClassifier, StartStatistics

HEADS = ("linear", "qnn", "rpqnn")
NAMES = {"linear": "ANN", "qnn": "QNN", "rpqnn": "RPQNN"}
#: Images, epochs, hidden neurons, head, and what else tells cells apart.
Key = tuple[Any, ...]


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
    measured["seconds_per_epoch"] = float(np.mean(starts.history_.seconds))
    return starts, measured


def scores(records: Records, *names: str, readout: str = "argmax") -> dict[Key, dict[int, float]]:
    """Return shares of right classes by start, for each cell; nan where a start diverged."""
    return {
        (case["images"], int(epochs), case["hidden"], case["head"], *(case[name] for name in names)): {
            start: np.nan if value is None else value for start, value in enumerate(found)
        }
        for case, measured in ((record.case, record.measured) for record in records)
        for epochs, found in measured.get(readout, {}).items()
    }


def statistics_of(records: Records, *names: str, readout: str = "argmax") -> dict[Key, StartStatistics]:
    """Return means, deviations and extremes over starts, for each cell."""
    found = scores(records, *names, readout=readout)
    return {key: StartStatistics.of(list(own.values())) for key, own in found.items()}
