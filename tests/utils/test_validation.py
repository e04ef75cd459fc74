"""Bad arguments: one clear error each, which names the argument, before any solve starts."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import qsdp
from qsdp import (
    QuantizedNetworkClassifier,
    QuantizedNetworkRegressor,
    TrainingProblem,
    sample_network,
    solve_and_sample,
    solve_relaxation,
)
from qsdp.exceptions import InvalidInputError, InvalidTypeError, QSDPError
from qsdp.relaxation.backends import BACKENDS

N, D = 8, 3
LABEL_LOSSES = ["logistic", "hinge", "squared_hinge"]
#: A message is for reading: longer ones show data instead of saying what is wrong.
LONGEST_MESSAGE = 400

RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
Y = X[:, 0] * X[:, 1]
LABELS = np.array([-1.0, 1.0] * (N // 2))


@pytest.fixture(scope="module")
def problem() -> TrainingProblem:
    return TrainingProblem(X, Y, beta=0.1)


@pytest.fixture(scope="module")
def result() -> qsdp.QSDPResult:
    return solve_and_sample(X, Y, n_neurons=4, random_state=0)


@pytest.fixture(autouse=True)
def no_solve(problem: TrainingProblem, result: qsdp.QSDPResult, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every back end raises: what is refused must be refused before."""

    def explode(*_: object) -> None:
        raise AssertionError("a solve started")

    for name, backend in BACKENDS.items():
        monkeypatch.setitem(BACKENDS, name, dataclasses.replace(backend, solve=explode))


def refused(name: str, call: Callable[[], Any]) -> str:
    """Check that `call` raises a good error about the argument `name`, quietly; return its message."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(QSDPError) as caught:
            call()
    assert isinstance(caught.value, (ValueError, TypeError))
    message = str(caught.value)
    assert re.search(rf"\b{re.escape(name)}\b", message), message
    assert len(message) <= LONGEST_MESSAGE
    assert "\n" not in message
    assert not message.rstrip().endswith((":", ",")), f"the message breaks off: {message}"
    return message


def test_valid_calls_do_reach_the_solver() -> None:
    # Otherwise every test of this file could pass for a wrong reason.
    for call in (
        lambda: solve_and_sample(X, Y),
        lambda: solve_relaxation(TrainingProblem(X, Y, beta=0.1)),
        lambda: QuantizedNetworkRegressor(encoding="standard").fit(X, Y),
        lambda: QuantizedNetworkClassifier(encoding="standard").fit(X, LABELS),
    ):
        with pytest.raises(AssertionError, match="a solve started"):
            call()


# -- data --------------------------------------------------------------------------------------------


def spoiled(value: float) -> np.ndarray:
    array = X.copy()
    array[2, 1] = value
    return array


BAD_X: dict[str, Any] = {
    "nan": spoiled(np.nan),
    "inf": spoiled(np.inf),
    "one-dimensional": X[:, 0],
    "three-dimensional": X[None],
    "None": None,
    "ragged": [[1.0, 2.0]] * (N - 1) + [[1.0]],
    "no rows": np.zeros((0, D)),
    "no columns": np.zeros((N, 0)),
    "words": [["a", "b"]] * N,
    "objects": np.full((N, D), object(), dtype=object),
    "complex": X + 1j,
    "complex objects": (X + 1j).astype(object),
    "integers beyond double": [[10**400, 1]] * N,
    "csr matrix": scipy.sparse.csr_matrix(X),
    "frame of words": pd.DataFrame({"a": list("abcdefgh")}),
    "frame with missing": pd.DataFrame({"a": pd.array([1, None] * (N // 2), dtype="Int64")}),
    "series": pd.Series(X[:, 0]),
    "too large": X * 1e150,
    "too small": X * 1e-150,
}

BAD_Y: dict[str, Any] = {
    "nan": np.r_[np.nan, Y[1:]],
    "inf": np.r_[np.inf, Y[1:]],
    "None": None,
    "short": Y[:-1],
    "long": np.r_[Y, 1.0],
    "three dimensions": Y[:, None, None],
    "no columns": np.zeros((N, 0)),
    "transposed columns": np.c_[Y, Y].T,
    "nan in a column": np.c_[Y, np.r_[np.nan, Y[1:]]],
    "ragged": [1.0, [2.0, 3.0]] * (N // 2),
    "words": list("abcdefgh"),
    "complex": Y + 1j,
    "sparse": scipy.sparse.csr_matrix(Y),
    "integers beyond double": [10**400] * N,
    "too large": Y * 1e150,
    "too small": Y * 1e-150,
}

#: Targets of shape (n, C), vector outputs for losses of real targets.
VECTOR_Y: dict[str, Any] = {
    "two columns": np.c_[Y, Y],
    "one column": Y[:, None],
    "frame": pd.DataFrame({"y": Y, "z": -Y}),
    "lists": np.c_[Y, Y].tolist(),
}

BAD_LABELS: dict[str, Any] = {
    "zero and one": (LABELS > 0).astype(int),
    "all +1": np.ones(N),
    "three values": [-1, 0, 1, 1, -1, 0, 1, 1],
    "real numbers": Y,
    "nearly labels": LABELS * (1 + 1e-9),
}

takes_data = pytest.mark.parametrize(
    "entry",
    [
        lambda X, y, **kw: TrainingProblem(X, y, beta=0.1, **kw),
        lambda X, y, **kw: solve_and_sample(X, y, 5, **kw),
    ],
    ids=["TrainingProblem", "solve_and_sample"],
)


@takes_data
@pytest.mark.parametrize("value", BAD_X.values(), ids=BAD_X.keys())
def test_bad_data(entry: Callable[..., Any], value: Any) -> None:
    refused("X", lambda: entry(value, Y))


@takes_data
@pytest.mark.parametrize("value", BAD_Y.values(), ids=BAD_Y.keys())
def test_bad_targets(entry: Callable[..., Any], value: Any) -> None:
    refused("y", lambda: entry(X, value))


@pytest.mark.parametrize("value", VECTOR_Y.values(), ids=VECTOR_Y.keys())
def test_columns_of_targets_are_vector_outputs(value: Any) -> None:
    problem = TrainingProblem(X, value, beta=0.1)
    assert problem.y.shape == np.asarray(value).shape
    for loss in LABEL_LOSSES:
        assert loss in refused("y", lambda loss=loss: TrainingProblem(X, value, beta=0.1, loss=loss))
    refused("y", lambda: TrainingProblem(X, value, beta=0.1, loss="cross_entropy"))


@takes_data
@pytest.mark.parametrize("loss", LABEL_LOSSES)
@pytest.mark.parametrize("value", BAD_LABELS.values(), ids=BAD_LABELS.keys())
def test_bad_labels(entry: Callable[..., Any], value: Any, loss: str) -> None:
    message = refused("y", lambda: entry(X, value, loss=loss))
    assert "-1" in message
    assert "+1" in message
    assert loss in message


@pytest.mark.parametrize("kind", [Decimal, Fraction])
def test_numbers_of_any_type_are_numbers(kind: type) -> None:
    exact = [[kind(int(4.0 * entry)) / 4 for entry in row] for row in X.tolist()]
    targets, weights = [kind(int(8.0 * entry)) / 8 for entry in Y], [kind(k + 1) for k in range(N)]
    for data, y, sample_weight in (
        (exact, targets, weights),
        (np.array(exact, dtype=object), np.array(targets, dtype=object), np.array(weights, dtype=object)),
    ):
        problem = TrainingProblem(data, y, beta=kind(1) / 2, sample_weight=sample_weight)
        assert problem == TrainingProblem(
            np.trunc(4.0 * X) / 4.0, np.trunc(8.0 * Y) / 8.0, beta=0.5, sample_weight=np.arange(1.0, N + 1.0)
        )
    for beta in (Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal(-1)):
        refused("beta", lambda beta=beta: TrainingProblem(X, Y, beta=beta))


def test_a_sparse_matrix_is_a_type_error_that_says_how_to_convert() -> None:
    with pytest.raises(InvalidTypeError, match=r"toarray\(\)"):
        TrainingProblem(scipy.sparse.csr_matrix(X), Y, beta=0.1)


def test_masked_entries_are_refused_and_a_mask_of_none_is_ignored() -> None:
    X, y = np.ones((4, 2)), np.arange(4.0)
    with pytest.raises(InvalidInputError, match=r"X must have no masked entries; .*X.filled\(0\)"):
        TrainingProblem(np.ma.array(X, mask=[[True, False]] * 4), y, beta=0.1)
    with pytest.raises(InvalidInputError, match="y must have no masked entries"):
        TrainingProblem(X, np.ma.array(y, mask=[True, False, False, False]), beta=0.1)
    with pytest.raises(InvalidInputError, match="rows must have no masked entries"):
        qsdp.Blocks(np.ma.array(np.ones((4, 3)), mask=True), [2])
    with pytest.raises(InvalidInputError, match="X must have no masked entries"):
        qsdp.QuantizedNetworkRegressor().fit(np.ma.array(X, mask=True), y)
    frame = pd.DataFrame({"_mask": [1.0, 2.0, 0.0, 1.0]})
    assert TrainingProblem(frame, y, beta=0.1) == TrainingProblem(frame.to_numpy(), y, beta=0.1)
    assert TrainingProblem(np.ma.array(X, mask=False), y, beta=0.1) == TrainingProblem(X, y, beta=0.1)


# -- data of the estimators --------------------------------------------------------------------------

#: What the encoding has bits for, or scales.
ENCODED = {"nan", "words", "frame of words", "frame with missing", "too large", "too small"}

ESTIMATOR_X = {name: value for name, value in BAD_X.items() if name not in ENCODED}
ESTIMATOR_Y = {name: value for name, value in BAD_Y.items() if name == "nan" or name not in ENCODED}
CLASSIFIER_Y: dict[str, Any] = {
    "nan": np.r_[np.nan, LABELS[1:]],
    "None": None,
    "short": LABELS[:-1],
    "two columns of three values": np.c_[LABELS, np.r_[0.0, LABELS[1:]]],
    "real numbers": Y,
    "single class": ["a"] * N,
    "complex": LABELS + 1j,
    "bytes": np.array([b"a", b"b"] * (N // 2)),
    "mixed": np.array([1, "a"] * (N // 2), dtype=object),
}


def estimator_cases() -> Iterator[Any]:
    for name, value in ESTIMATOR_X.items():
        yield pytest.param(QuantizedNetworkRegressor, value, Y, "X", id=f"regressor X {name}")
        yield pytest.param(QuantizedNetworkClassifier, value, LABELS, "X", id=f"classifier X {name}")
    for name, value in ESTIMATOR_Y.items():
        yield pytest.param(QuantizedNetworkRegressor, X, value, "y", id=f"regressor y {name}")
    for name, value in CLASSIFIER_Y.items():
        yield pytest.param(QuantizedNetworkClassifier, X, value, "y", id=f"classifier y {name}")


def test_errors_of_the_estimators_about_data_are_errors_of_qsdp_that_name_the_argument() -> None:
    offenders = []
    for case in estimator_cases():
        estimator, data, target, name = case.values
        try:
            estimator().fit(data, target)
        except Exception as error:
            if not isinstance(error, QSDPError):
                offenders.append(f"{case.id}: {type(error).__name__}, no QSDPError")
            elif not re.search(rf"\b{name}\b", str(error)):
                offenders.append(f"{case.id}: does not name {name}: {str(error)[:80]}")
    assert not offenders, "\n".join(offenders)


@pytest.mark.parametrize("name", ["nan", "frame of words", "frame with missing", "too large"])
def test_without_an_encoding_data_must_be_numbers_of_usual_size(name: str) -> None:
    refused("X", lambda: QuantizedNetworkRegressor(encoding="none").fit(BAD_X[name], Y))


# -- parameters --------------------------------------------------------------------------------------

NOT_NUMBERS: list[Any] = ["0.1", None, True, [0.1], 1j]

BAD_PARAMETERS: dict[str, list[Any]] = {
    "beta": [0, -1, np.nan, np.inf, 10**400, *NOT_NUMBERS],
    "n_neurons": [0, -1, 2.5, "3", True, None, 10**30],
    "loss": ["", "l2", None, 3, ["squared"], TrainingProblem],
    "solver": ["", "simplex", None, 1, True],
    "tol": [0, -1, np.nan, np.inf, *NOT_NUMBERS],
    "random_state": [-1, 1.5, "0", True, [0]],
    "levels": [129, 1, -2, 3.5, True, "2", None, 10**30],
    "activation": ["", "cubic", 0, False, (1, 0), {}, 1j],
    "allocation": ["", "by size", None, 1],
    "n_jobs": ["2", 0, 1.5, True, [2]],
    "max_iter": [0, 1.5, "10", True, 10**400],
    "time_limit": [0, -1.0, np.nan, np.inf, "1", True],
    "method": ["", "cholesky", None, 1],
}

Entry = tuple[Callable[[TrainingProblem, qsdp.QSDPResult, dict[str, Any]], Any], tuple[str, ...]]

#: What `solve_and_sample` and the estimators refuse is in `tests/test_options.py`.
ENTRIES: dict[str, Entry] = {
    "TrainingProblem": (
        lambda p, r, kw: TrainingProblem(X, Y, **({"beta": 0.1} | kw)),
        ("beta", "loss", "levels", "activation"),
    ),
    "solve_relaxation": (
        lambda p, r, kw: solve_relaxation(p, **kw),
        ("solver", "tol", "max_iter", "time_limit", "n_jobs"),
    ),
    "shape_covariance": (lambda p, r, kw: qsdp.shape_covariance(r.relaxation, **kw), ("method",)),
    "sample_network": (
        lambda p, r, kw: sample_network(r.covariance, **kw),
        ("n_neurons", "random_state", "allocation", "n_jobs"),
    ),
    "resample": (
        lambda p, r, kw: r.resample(**({"n_neurons": 3} | kw)),
        ("n_neurons", "random_state", "allocation", "levels", "n_jobs"),
    ),
    "with_levels": (lambda p, r, kw: p.with_levels(**kw), ("levels",)),
    "transfer": (lambda p, r, kw: r.relaxation.with_levels(**kw), ("levels",)),
}


def parameter_cases(table: dict[str, list[Any]]) -> Iterator[Any]:
    for entry, (_, arguments) in ENTRIES.items():
        for argument in arguments:
            for value in table.get(argument, []):
                if entry == "resample" and argument == "levels" and value is None:
                    continue  # the same levels
                if entry != "sample_network" and argument == "n_neurons" and value is None:
                    continue  # as many as there are by default
                yield pytest.param(entry, argument, value, id=f"{entry}-{argument}-{value!r}"[:60])


@pytest.mark.parametrize(("entry", "argument", "value"), list(parameter_cases(BAD_PARAMETERS)))
def test_bad_parameters(
    entry: str,
    argument: str,
    value: Any,
    problem: TrainingProblem,
    result: qsdp.QSDPResult,
    capfd: pytest.CaptureFixture[str],
) -> None:
    call, _ = ENTRIES[entry]
    message = refused(argument, lambda: call(problem, result, {argument: value}))
    shown = repr(value)
    assert (shown if len(shown) < 30 else shown[:20]) in message, "the message shows the value"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("value", [None, 3, "net", X])
def test_objects_of_the_wrong_class(value: Any, problem: TrainingProblem, result: qsdp.QSDPResult) -> None:
    refused("problem", lambda: solve_relaxation(value))
    refused("covariance", lambda: sample_network(value, 3))
    refused("relaxation", lambda: qsdp.shape_covariance(value))
    refused("problem", lambda: qsdp.certify(result.network, value, result.relaxation))
    # None is solved for.
    if value is not None:
        refused("relaxation", lambda: qsdp.certify(result.network, problem, value))


def test_hierarchy_of_errors() -> None:
    assert issubclass(InvalidInputError, QSDPError)
    assert issubclass(InvalidInputError, ValueError)
    assert issubclass(InvalidTypeError, InvalidInputError)
    assert issubclass(InvalidTypeError, TypeError)
    for call in (
        lambda: TrainingProblem(X, Y, beta="0.1"),
        lambda: solve_and_sample(X, Y, "3"),
        lambda: TrainingProblem(X, Y, beta=0.1, loss=3),
        lambda: TrainingProblem(np.full((N, D), object()), Y, beta=0.1),
    ):
        with pytest.raises(InvalidTypeError):
            call()


def test_a_problem_of_one_output_has_no_others() -> None:
    vector = TrainingProblem(X, np.c_[Y, Y, Y], beta=0.1)
    np.testing.assert_array_equal(vector.output(2).y, Y)
    with pytest.raises(InvalidInputError, match="the number of an output, 0 to 2"):
        vector.output(3)
