"""Estimators on images and series through encoders of blocks."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from sklearn.base import clone
from sklearn.datasets import load_digits

import qsdp
import qsdp_check
from qsdp.encoding import Patches, Windows
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.storage import read_archive, write_archive

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


@pytest.mark.parametrize(
    "encoding",
    [
        Patches(3, regions=2, centre=3, scaling="size"),
        Windows(3, segments=2, lags=(1, 2)),
        Patches(size=(2, 3), regions=(2, 1)),
    ],
)
def test_saved_estimators_predict_the_same(encoding: Any, tmp_path: Path) -> None:
    model = classifier(encoding).fit(IMAGES[FEW][:80], LABELS[FEW][:80])
    model.save(tmp_path / "model")
    loaded = qsdp.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(IMAGES), model.predict_proba(IMAGES))
    assert loaded.encoder_.layout_ == model.encoder_.layout_
    assert type(loaded.encoding) is type(model.encoding)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert clone(loaded).fit(IMAGES[FEW][:80], LABELS[FEW][:80]).score(IMAGES[FEW], LABELS[FEW]) > 0.9
    bound = model.certificate_.lower_bound
    drawn = loaded.resample(200, 1)
    expected = model.resample(200, 1, refine="none")
    for name in ("block", "U", "V", "alpha"):
        np.testing.assert_array_equal(getattr(drawn.network_, name), getattr(expected.network_, name))
    # Its objective needs the data; the bound is for networks of any width.
    assert np.isnan(drawn.certificate_.objective)
    assert drawn.certificate_.lower_bound == bound <= expected.certificate_.objective
    with pytest.raises(InvalidInputError, match="levels must be 2 for blocks; got 3"):
        loaded.resample(10, levels=3)


def test_forged_solutions_on_blocks_are_refused(tmp_path: Path) -> None:
    """The blocks have sides 5 and 10, so that the smaller ones leave room for entries that belong to nobody."""
    encoding = Patches(size=(2, 3), regions=1)
    classifier(encoding).fit(IMAGES[FEW][:80], LABELS[FEW][:80]).save(tmp_path / "model")
    kind, header, arrays = read_archive(tmp_path / "model", "estimator")

    def refused(reason: str, name: str, change: Any, **fields: Any) -> None:
        other = {key: array.copy() for key, array in arrays.items()}
        change(other[f"relaxation.{name}"])
        forged = {**header, "relaxation": {**header["relaxation"], **fields}}
        write_archive(tmp_path / "forged", kind, forged, other)
        with pytest.raises(StorageError, match=reason):
            qsdp.load(tmp_path / "forged")

    def put(place: tuple[int, ...], value: float) -> Any:
        return lambda array: array.__setitem__(place, value)

    def nothing(array: Any) -> None:
        pass

    write_archive(tmp_path / "same", kind, header, arrays)
    assert qsdp.load(tmp_path / "same").resample(10).network_.n_neurons == 10
    refused("an entry outside of its block is not zero", "Z", put((0, 9, 9), 1e-300))
    refused("an entry outside of its block is not zero", "V", put((2, 0, 7), 1e-300))
    refused("the diagonal of V is not rho", "V", put((1, 0, 0), 2.0 * arrays["relaxation.rho"][1]))
    refused("rho or weights are negative", "rho", put((1,), -1.0))
    refused("blocks have two levels and no activation", "Z", nothing, levels=3)
    refused("blocks have two levels and no activation", "Z", nothing, activation=[1.0, 0.5, 0.0])


def test_forged_encoders_are_refused(fitted: Any, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    kind, header, arrays = read_archive(tmp_path / "model", "estimator")
    forged = [
        ("encoder", {**header["encoder"], "omega": [1.0]}),
        ("encoder", {**header["encoder"], "omega": [0.0] * 4}),
        ("encoder", {**header["encoder"], "image_shape": [8, 8]}),
        ("encoder", {**header["encoder"], "image_shape": [3, 3, 1]}),
        ("encoder", {**header["encoder"], "image_shape": [2**40, 2**40, 1]}),
        ("encoder", {**header["encoder"], "constant": -1.0}),
        ("encoder", {**header["encoder"], "constant": 0.0}),
        ("encoder", {**header["encoder"], "more": 1}),
        ("encoder", None),
        ("n_features", 63),
        ("relaxation", {"beta": -1.0}),
        ("relaxation", {"beta": 1.0, "levels": 2}),
        ("parameters", {**header["parameters"], "encoding": {"encoder": "Path", "parameters": {}}}),
        ("parameters", {**header["parameters"], "encoding": {"encoder": "Patches", "parameters": {"side": 3}}}),
        ("parameters", {**header["parameters"], "encoding": {"encoder": "Patches", "parameters": {"size": -3}}}),
        ("parameters", {**header["parameters"], "encoding": {"encoder": "Patches", "parameters": {"regions": 2**40}}}),
        ("parameters", {**header["parameters"], "encoding": "none"}),
    ]
    for name, value in forged:
        write_archive(tmp_path / "forged", kind, {**header, name: value}, arrays)
        with pytest.raises(StorageError, match="not a valid estimator"):
            qsdp.load(tmp_path / "forged")
    with safe_open(tmp_path / "model", framework="np") as archive:
        assert "pickle" not in json.dumps(archive.metadata())


def test_the_problem_is_the_same_after_loading(fitted: Any, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    loaded = qsdp.load(tmp_path / "model")
    one, two = (model.training_problem(IMAGES[FEW][:80], LABELS[FEW][:80]) for model in (fitted, loaded))
    assert one == two
    assert one.beta == fitted.result_.problem.beta
    assert one.objective(fitted.network_) == two.objective(loaded.network_)
    assert two.objective(loaded.network_) == pytest.approx(loaded.certificate_.objective, rel=1e-12)


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


def test_what_a_network_on_blocks_does_not_have(fitted: Any) -> None:
    for call in (fitted.effects, fitted.to_expression, lambda: fitted.contributions(IMAGES)):
        with pytest.raises(InvalidInputError, match="blocks of images or series has no effects of columns"):
            call()
    assert not hasattr(fitted, "feature_importances_")
    assert pickle.loads(pickle.dumps(fitted)).predict(IMAGES[:3]).tolist() == fitted.predict(IMAGES[:3]).tolist()


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


def test_other_images_at_predict_time_are_refused(fitted: Any) -> None:
    for other in (IMAGES[:, :7], np.stack([IMAGES] * 3, axis=-1), IMAGES.reshape(-1, 64)[:, :63]):
        with pytest.raises(InvalidInputError, match=r"X must be images of shape \(n, 8, 8, 1\)"):
            fitted.predict(other)
