"""Estimators fitted to Dask collections: as to the rows themselves, wherever they lie."""

from __future__ import annotations

import pickle
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from torch_devices import DEVICE, devices_of_products, needs_torch

import qsdp
from qsdp import QuantizedNetworkClassifier, QuantizedNetworkRegressor
from qsdp.exceptions import InvalidInputError, InvalidTypeError

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

N_ROWS = 500
FAST: dict[str, Any] = {"beta": 5.0, "encoding": "standard", "tol": 1e-7, "refine": "refit", "random_state": 0}


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, 4)) * [1.0, 5.0, 0.1, 1.0] + [0.0, 20.0, 0.0, 0.0]
    return X, X[:, 0] * X[:, 3] + 0.2 * (X[:, 1] - 20.0) + 0.1 * rng.standard_normal(N_ROWS)


def blocks(*arrays: np.ndarray, size: int = 120) -> list[Any]:
    return [da.from_array(one, chunks=(size, *one.shape[1:])) for one in arrays]


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_regressor_is_that_of_the_rows(outputs: int) -> None:
    X, y = rows()
    w = np.random.default_rng(1).integers(0, 3, N_ROWS) * 0.5
    y = y if outputs == 1 else np.column_stack([y, X[:, 0]])
    here = QuantizedNetworkRegressor(**FAST).fit(X, y, w)
    there = QuantizedNetworkRegressor(**FAST).fit(*blocks(X, y, w))
    # Encoding, targets and bound are those of a fit here; bits may differ by the tolerance of the solver.
    np.testing.assert_allclose(there._inputs(X), here._inputs(X), rtol=1e-12)
    np.testing.assert_allclose(there.target_scaling_.offset, here.target_scaling_.offset)
    assert there.certificate_.lower_bound == pytest.approx(here.certificate_.lower_bound, rel=1e-5)
    assert there.certificate_.objective == pytest.approx(here.result_.problem.objective(there.network_), rel=1e-9)
    predicted = there.predict(blocks(X)[0])
    assert isinstance(predicted, da.Array)
    assert predicted.shape == y.shape
    np.testing.assert_array_equal(predicted.compute(), there.predict(X))
    with pytest.raises(InvalidInputError, match=r"X must have shape \(n, 4\)"):
        there.predict(blocks(X[:, :3])[0])


@needs_torch
def test_products_of_blocks_run_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    devices = devices_of_products(monkeypatch)
    here, there = (
        QuantizedNetworkRegressor(**FAST, device=device).fit(*blocks(X, y, size=250)) for device in (None, DEVICE)
    )
    assert devices == [None] * 2 + [DEVICE] * 2
    assert there.certificate_.lower_bound == pytest.approx(here.certificate_.lower_bound, rel=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_classifier_of_frames_of_unknown_lengths(loss: str) -> None:
    X, y = rows()
    label = np.where(y > 1.0, "high", np.where(y < -1.0, "low", "middle"))
    kind = np.where(X[:, 2] > 0.0, "red", "blue")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=kind, label=label)
    parts = dd.from_pandas(frame, npartitions=4)
    parts = parts[parts["b"] > 12.0]
    frame = frame[frame["b"] > 12.0]
    inputs = [*"abcd", "kind"]
    options = {**FAST, "loss": loss, "class_weight": "balanced"}
    here = QuantizedNetworkClassifier(**options).fit(frame[inputs], frame["label"])
    there = QuantizedNetworkClassifier(**options).fit(parts[inputs], parts["label"])
    assert there.classes_.tolist() == ["high", "low", "middle"]
    assert there.feature_names_in_.tolist() == inputs
    assert there.certificate_.objective == pytest.approx(here.certificate_.objective, rel=1e-5)
    assert there.certificate_.lower_bound == pytest.approx(here.certificate_.lower_bound, rel=0.05)
    predicted = there.predict(parts[inputs])
    assert isinstance(predicted, dd.Series)
    assert predicted.compute().index.equals(frame.index)
    assert predicted.compute().tolist() == there.predict(frame[inputs]).tolist()
    if loss == "logistic":
        np.testing.assert_allclose(there.predict_proba(parts[inputs]).compute(), there.predict_proba(frame[inputs]))
    np.testing.assert_allclose(there.decision_function(parts[inputs]).compute(), there.decision_function(frame[inputs]))


def test_losses_that_need_rows_are_certified_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.estimators.dask_fits.SAMPLE", 150)
    X, y = rows()
    there = QuantizedNetworkClassifier(**FAST, loss="hinge").fit(*blocks(X, np.where(y > 0.0, "a", "b")))
    inputs = there._inputs(X)
    kind: dict[str, Any] = {"loss": "hinge", "activation": there.network_.activation}
    problem = qsdp.TrainingProblem(inputs, np.where(y > 0.0, -1.0, 1.0), beta=FAST["beta"], **kind)
    assert there.certificate_.objective == pytest.approx(problem.objective(there.network_), rel=1e-9)
    optimum = qsdp.solve_relaxation(problem).objective
    assert 0.5 * optimum < there.certificate_.lower_bound <= optimum * (1.0 + 1e-9)
    with pytest.raises(InvalidInputError, match="resample needs all rows"):
        there.resample(50)
    assert there.decision_function(blocks(X)[0]).shape == (N_ROWS,)


@pytest.mark.parametrize("largest", [2, 64], ids=["rows kept", "statistics"])
def test_polish_and_resample_need_no_other_rows(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.refinement._choice._LARGEST", largest)
    monkeypatch.setattr("qsdp.estimators.dask_fits.SAMPLE", 200)
    X, y = rows()
    options = {**FAST, "refine": "polish", "beta": "auto"}
    there = QuantizedNetworkRegressor(**options).fit(*blocks(X, y))
    assert there.result_.subsample.n_samples == 200
    assert there.result_.subsample.data_fit.total_weight == pytest.approx(N_ROWS)
    problem = there.result_.problem
    assert problem.n_samples == N_ROWS
    assert problem.objective(there.network_) == there.certificate_.objective
    sampled = there.resample(50, 0, refine="none").certificate_.objective
    assert there.resample(50, 0, refine="polish").certificate_.objective < sampled
    assert there.resample(50, 0, levels=3).network_.levels == 3
    assert len(there.effects().terms) > 4
    assert pickle.loads(pickle.dumps(there)).predict(X[:3]).shape == (3,)


def test_rows_of_a_sample_count_by_their_own_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.estimators.dask_fits.SAMPLE", 150)
    X, y = rows()
    counts = np.random.default_rng(1).integers(1, 4, N_ROWS).astype(float)
    for weights in ([counts], []):
        kept = QuantizedNetworkRegressor(**FAST).fit(*blocks(X, y, *weights)).result_.subsample
        assert set(kept.repetitions) == ({1.0, 2.0, 3.0} if weights else {1.0})
        # That one stands for several does not make it so many rows.
        np.testing.assert_allclose(kept.sample_weight, kept.repetitions * N_ROWS / 150, rtol=1e-15)


def test_empty_blocks() -> None:
    X, y = rows()
    X[:100, 0] = np.abs(X[:100, 0])
    arrays = [part[da.from_array(X[:, 0] < 0.0, chunks=100)] for part in blocks(X, y > 0.0, size=100)]
    there = QuantizedNetworkClassifier(**FAST).fit(*arrays)
    assert there.predict(arrays[0]).compute().shape == (int(np.sum(X[:, 0] < 0.0)),)


def test_what_does_not_fit_is_refused() -> None:
    X, y = rows()
    model, (Xs, ys) = QuantizedNetworkRegressor(**FAST), blocks(X, y)
    with pytest.raises(InvalidTypeError, match="y must be a Dask array or data frame; got ndarray"):
        model.fit(Xs, y)
    with pytest.raises(InvalidTypeError, match="X must be a Dask collection, since y is one; got ndarray"):
        model.fit(X, ys)
    with pytest.raises(InvalidInputError, match=r"y must have shape \(n,\), one label for each row; got shape"):
        QuantizedNetworkClassifier(**FAST).fit(*blocks(X, np.column_stack([y > 0.0, X[:, 3] > 0.0])))
    with pytest.raises(InvalidInputError, match="y must have as many chunks of rows as X, 5; got 10"):
        model.fit(Xs, blocks(y, size=50)[0])
    with pytest.raises(InvalidInputError, match="chunk 1 of rows: y must have 120 rows, as X has; got 119"):
        model.fit(Xs, da.from_array(y[:499], chunks=((120, 119, 120, 120, 20),)))
    with pytest.raises(InvalidInputError, match="X must have at least one row of positive weight"):
        model.fit(Xs[:0], ys[:0])
    X[130, 2] = np.inf
    with pytest.raises(InvalidInputError, match="chunk 1 of rows: X must be finite or missing; infinity in row 10 of"):
        model.fit(*blocks(X, y))
    X[130, 2] = np.nan
    with pytest.raises(InvalidInputError, match="chunk 1 of rows: X must be finite; NaN or infinity in row 10 of"):
        QuantizedNetworkRegressor(**{**FAST, "encoding": "none"}).fit(*blocks(X, y))


def test_labels_that_the_sample_lacks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.estimators.dask_fits.SAMPLE", 20)
    X, y = rows()
    label = np.where(y > 0.0, "yes", "no").astype(object)
    label[300] = "rare"
    with pytest.raises(InvalidInputError, match=r"chunk 2 of rows: y must hold labels .*\['no', 'yes'\]; got 'rare'"):
        QuantizedNetworkClassifier(**FAST).fit(*blocks(X, label))


def test_folds_betas_and_seeds_over_a_cluster_are_those_of_one_process() -> None:
    distributed = pytest.importorskip("distributed")
    X, y = (part[:150] for part in rows())
    grid = {"beta": [5.0, 50.0], "random_state": [0, 1]}

    def found(n_jobs: int | None) -> Any:
        return GridSearchCV(QuantizedNetworkRegressor(**FAST), grid, cv=2, n_jobs=n_jobs).fit(X, y)

    here = found(None)
    options: dict[str, Any] = {"processes": False, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        there = found(2)
    np.testing.assert_array_equal(there.best_estimator_.network_.U, here.best_estimator_.network_.U)
    np.testing.assert_array_equal(there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"])
