"""The training systems of other papers: a folder for each paper, with its experiments, their records and its tests."""

from __future__ import annotations

import importlib
from typing import Any

#: The estimators of each paper.
ESTIMATORS = {
    "noel": ("QuadraticLogisticRegression", "QuadraticNetworkClassifier"),
    "fan": ("ReLinearClassifier", "ReLinearRegressor"),
    "tomic": ("BPLSClassifier", "BPLSRegressor"),
    "zhang": ("RLSNetworkClassifier", "RLSNetworkRegressor"),
}


def estimator_class(name: str) -> Any:
    """Return a training system by the name of its class, from a paper's folder or from `qsdp.baselines`."""
    papers = [paper for paper, names in ESTIMATORS.items() if name in names]
    module = f"benchmarks.papers.{papers[0]}" if papers else "qsdp.baselines"
    return getattr(importlib.import_module(module), name)
