"""Estimators on images and series through encoders of blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import qsdp
import qsdp_check
from qsdp.encoding import Patches, Windows
from qsdp.exceptions import InvalidInputError

DIGITS = load_digits()
IMAGES, LABELS = DIGITS.images.astype(np.uint8)[:500], DIGITS.target[:500]
FEW = LABELS < 3


def classifier(encoding: Any = None, **options: Any) -> Any:
    encoding = Patches(3, regions=2) if encoding is None else encoding
    options = {"beta": "2%", "refine": "exact", "random_state": 0, **options}
    return qsdp.QuantizedNetworkClassifier(encoding=encoding, **options)


@pytest.fixture(scope="module")
def fitted() -> Any:
    return classifier(loss="cross_entropy").fit(IMAGES[FEW][:80], LABELS[FEW][:80])


def test_the_whole_for_images(fitted: Any) -> None:
    assert fitted.score(IMAGES[FEW][80:], LABELS[FEW][80:]) > 0.85
    assert (fitted.certificate_.bound_type, fitted.certificate_.relative_gap <= 1e-6) == ("exact", True)
    outputs = fitted.network_.predict(fitted.encoder_.transform(IMAGES))
    np.testing.assert_allclose(fitted.decision_function(IMAGES), outputs, rtol=1e-10)
    assert fitted.predict_proba(IMAGES).sum(axis=1) == pytest.approx(1.0)
    assert fitted.n_features_in_ == 64
    assert fitted.result_.covariance is not None
    assert "column generation" in str(fitted.result_.relaxation.solver)
    assert fitted.result_.relaxation.lower_bound <= fitted.certificate_.objective * (1 + 1e-9)


def test_other_networks_come_from_the_point_of_the_proven_one(fitted: Any) -> None:
    drawn = clone(fitted).fit(IMAGES[FEW][:80], LABELS[FEW][:80])
    objectives = [drawn.resample(m, 0).certificate_.objective for m in (100, 10_000)]
    proven = fitted.certificate_
    assert proven.lower_bound <= objectives[1] < objectives[0]
    assert objectives[1] < 2.0 * proven.objective


def test_one_beta_and_centred_targets_of_the_squared_loss_without_biases() -> None:
    """The problem is that of the theory: one-hot rows less their means, one beta, nothing free but neurons."""
    images, labels = IMAGES[FEW][:80], LABELS[FEW][:80]
    model = classifier().fit(images, labels)
    hot = np.eye(3)[labels]
    blocks = Patches(3, regions=2).fit_transform(images)
    problem = qsdp.TrainingProblem(blocks, hot - hot.mean(axis=0), beta=1.0)
    problem = problem.with_beta(0.02 * qsdp.beta_max(problem))
    assert model.result_.problem == problem
    alone = qsdp.column_generation(problem)
    assert model.certificate_.objective == pytest.approx(alone.certificate.objective, rel=1e-6)
    np.testing.assert_allclose(model.target_scaling_.offset, hot.mean(axis=0))
    expected = hot.mean(axis=0) + model.network_.predict(blocks)
    np.testing.assert_allclose(model.decision_function(images), expected, atol=1e-9)


def test_the_certificate_of_an_estimator_is_checked_from_the_images(
    fitted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, data = tmp_path / "certificate", tmp_path / "images.npz"
    fitted.certificate_.save(path, include_data=False)
    np.savez(data, images=IMAGES[FEW][:80], patches=fitted.result_.problem.blocks.patches, y=LABELS[FEW][:80])
    assert qsdp_check.main([str(path), "--data", str(data)]) == 0
    assert "rows computed from the images" in capsys.readouterr().out
    np.savez(data, images=IMAGES[FEW][1:81], patches=fitted.result_.problem.blocks.patches, y=LABELS[FEW][1:81])
    assert qsdp_check.main([str(path), "--data", str(data)]) == 1
    assert "does not belong" in capsys.readouterr().out


def test_a_regressor_finds_frequencies_of_series() -> None:
    rng = np.random.default_rng(0)
    y = rng.uniform(0.3, 1.0, size=120)
    X = np.sin(y[:, None] * np.arange(30) + rng.uniform(0, 6, (120, 1)))
    model = qsdp.QuantizedNetworkRegressor(encoding=Windows(4, segments=1), beta="1%", refine="exact", random_state=0)
    assert model.fit(X[:80], y[:80]).score(X[80:], y[80:]) > 0.95
    weights = np.where(np.arange(120) < 80, 1.0, 0.0)
    assert np.array_equal(model.fit(X, y, weights).predict(X), clone(model).fit(X[:80], y[:80]).predict(X))


def test_dask_rows_of_images() -> None:
    da = pytest.importorskip("dask.array")
    flat = IMAGES[FEW].reshape(-1, 64)
    encoding = Patches(3, regions=2, image_shape=(8, 8))
    X, y = da.from_array(flat, chunks=(50, 64)), da.from_array(LABELS[FEW], chunks=50)
    model, here = classifier(encoding).fit(X, y), classifier(encoding).fit(flat, LABELS[FEW])
    assert model.certificate_.objective == pytest.approx(here.certificate_.objective, rel=1e-4)
    assert np.array_equal(model.predict(X).compute(), model.predict(flat))
    with pytest.raises(InvalidInputError, match="loss must be 'squared' for blocks of a Dask collection"):
        classifier(encoding, loss="cross_entropy").fit(X, y)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: classifier().fit(IMAGES[:, :, :, None, None], LABELS), "X must be images of shape"),
        (lambda: classifier().fit(IMAGES, LABELS[:-1]), "y must have 500 rows"),
        (lambda: classifier(activation=(1.0, 1.0, 0.0)).fit(IMAGES, LABELS), "activation"),
        (lambda: classifier(levels=3).fit(IMAGES, LABELS), "levels"),
        (lambda: classifier(Patches(7, regions=3)).fit(IMAGES, LABELS), "regions must be at most"),
        (lambda: classifier().fit(np.where(IMAGES > 15, np.nan, IMAGES), LABELS), "X must be finite"),
    ],
)
def test_bad_input_is_one_clear_error(change: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        change()
