"""scikit-learn's own checks of all estimators."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from qsdp import (
    QuantizedNetworkClassifier,
    QuantizedNetworkRegressor,
)

#: Needs the environment variable SCIPY_ARRAY_API; the estimators compute in NumPy only.
SKIPPED = ["check_array_api_input"]

#: Only the checks of `CHOSEN` choose beta, which takes most of the time of a fit. Estimators, and how many checks
#: scikit-learn 1.9 has for them, of which all but `SKIPPED` run.
ESTIMATORS = [
    (QuantizedNetworkRegressor(8, beta="5%", encoding="standard"), 58),
    (QuantizedNetworkClassifier(beta="5%", encoding="additive"), 61),
]

#: What depends on how samples are dealt to folds, on their number and on that of the columns.
CHOSEN = [
    "check_sample_weight_equivalence_on_dense_data",
    "check_methods_sample_order_invariance",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
    "check_fit_idempotent",
    "check_dict_unchanged",
    "check_estimators_pickle",
]


@pytest.mark.parametrize(("estimator", "n_checks"), ESTIMATORS, ids=lambda one: getattr(one, "encoding", None))
def test_check_estimator(estimator: Any, n_checks: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = [f"{o['check_name']}: {o['exception']!r}" for o in outcomes if o["status"] not in {"passed", "skipped"}]
    assert not failed, "\n".join(failed)
    assert [o["check_name"] for o in outcomes if o["status"] == "skipped"] == SKIPPED
    passed = [o["check_name"] for o in outcomes if o["status"] == "passed"]
    assert len(passed) >= n_checks
    assert "check_sample_weight_equivalence_on_dense_data" in passed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("check", CHOSEN)
def test_chosen_encodings(check: str) -> None:
    getattr(estimator_checks, check)("QuantizedNetworkRegressor", QuantizedNetworkRegressor())
