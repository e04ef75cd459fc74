"""Encoders of images and series as blocks: against loops, the independent checker, and each other."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import qsdp
import qsdp_check
from qsdp.encoding import Patches, Windows
from qsdp.exceptions import InvalidInputError, InvalidTypeError, QSDPWarning

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (9, 8, 9, 2)).astype(np.uint8)

GEOMETRIES: list[dict[str, Any]] = [
    {"size": 3, "regions": 2},
    {"size": 2, "stride": 2, "padding": 1, "regions": 3, "centre": 5, "constant": 7},
    {"size": 3, "padding": 2, "regions": 2, "downsample": 2, "centre": 100},
    {"size": 1, "regions": 1, "constant": 0},
]


def slow_moments(images: np.ndarray, encoder: Patches) -> np.ndarray:
    """Return the means of outer products of patches of averaged pixels, by loops."""
    found = []
    for image in images.reshape(*images.shape[:3], -1).astype(float):
        d, pad = encoder.downsample, encoder.padding
        h, w = image.shape[0] // d, image.shape[1] // d
        x = image[: h * d, : w * d].reshape(h, d, w, d, -1).mean(axis=(1, 3))
        x = np.pad(x, ((pad, pad), (pad, pad), (0, 0))) - encoder.centre
        tops = range(0, x.shape[0] - encoder.size + 1, encoder.stride)
        lefts = range(0, x.shape[1] - encoder.size + 1, encoder.stride)
        R = encoder.regions
        products: list[list[np.ndarray]] = [[] for _ in range(R * R)]
        for i, top in enumerate(tops):
            for j, left in enumerate(lefts):
                p = x[top : top + encoder.size, left : left + encoder.size].ravel()
                p = np.append(p, encoder.constant_) if encoder.constant_ else p
                r = (i * R // len(tops)) * R + j * R // len(lefts)
                products[r].append(np.outer(p, p)[np.triu_indices(len(p))])
        found.append(np.concatenate([np.mean(one, axis=0) for one in products]))
    return np.array(found)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize(
    "images", [IMAGES, IMAGES[..., 0], IMAGES.astype(np.int16) - 128], ids=["two", "one", "signed"]
)
def test_rows_of_integers_are_exact_sums_as_the_checker_computes_them(
    geometry: dict[str, Any], images: np.ndarray
) -> None:
    encoder = Patches(**geometry)
    blocks = encoder.fit_transform(images)
    assert blocks.rows.dtype == (np.int32 if images.dtype == np.uint8 else np.float64)
    assert blocks.layout.patches is not None
    assert np.array_equal(blocks.rows, qsdp_check.packed_rows(images, list(blocks.layout.patches)))
    restored = Patches(**geometry)
    restored.restore(encoder.to_state())
    assert restored.transform(images) == blocks


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_rows_times_omega_are_means_in_units_of_the_constant(geometry: dict[str, Any]) -> None:
    encoder = Patches(**geometry)
    blocks = encoder.fit_transform(IMAGES)
    omega = np.array(blocks.omega)[blocks.layout.block]
    expected = slow_moments(IMAGES, encoder) / (encoder.constant_ or 1.0) ** 2
    np.testing.assert_allclose(blocks.rows / omega, expected, rtol=1e-12, atol=1e-12)


def test_size_scaling_makes_mean_sizes_equal() -> None:
    blocks = Patches(2, regions=2, scaling="size").fit_transform(IMAGES)
    for r, omega in enumerate(blocks.omega):
        own = slice(*blocks.layout.starts[r : r + 2])
        squares = blocks.rows[:, own].astype(float) ** 2 @ blocks.layout.counts[own]
        assert np.sqrt(squares.mean()) == pytest.approx(omega * blocks.sizes[r], rel=1e-12)


@pytest.mark.parametrize("scaling", ["none", "size"])
def test_fit_learns_the_same_without_the_rows_of_all(scaling: str) -> None:
    images = RNG.integers(0, 256, (300, 20, 20)).astype(np.uint8)
    for encoder in (Patches(5, regions=2, scaling=scaling), Patches((3, 5), scaling=scaling)):
        omega = clone(encoder).fit_transform(images).omega
        np.testing.assert_allclose(encoder.fit(images).layout_.omega, omega, rtol=1e-12)
    series = RNG.standard_normal((300, 2, 40))
    omega = Windows(3, scaling=scaling).fit_transform(series).omega
    np.testing.assert_allclose(Windows(3, scaling=scaling).fit(series).layout_.omega, omega, rtol=1e-12)


def test_images_of_all_kinds_give_the_same_rows(tmp_path: Path) -> None:
    images = IMAGES[..., 0]
    expected = Patches(3, regions=2).fit_transform(images)
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    flat = Patches(3, regions=2, image_shape=(8, 9)).fit_transform(images.reshape(9, -1))
    for other in (Patches(3, regions=2).fit_transform(mapped), flat):
        assert other == expected
        assert other.layout.patches == expected.layout.patches
    for kind in (np.float64, np.float32, np.int64):
        other = Patches(3, regions=2).fit_transform(images.astype(kind))
        assert other.rows.dtype == (np.float32 if kind is np.float32 else np.float64)
        assert np.array_equal(other.rows, expected.rows.astype(other.rows.dtype))
    assert other.layout.patches is not None
    nested = Patches(3, regions=2).fit_transform(images.tolist())
    assert np.array_equal(nested.rows, expected.rows)


def test_parts_and_batches_are_those_of_the_whole() -> None:
    images = RNG.integers(0, 256, (300, 20, 20)).astype(np.uint8)
    encoder = Patches(5, regions=2)
    whole = encoder.fit_transform(images)
    assert encoder.transform(images[37:61]) == whole[37:61]
    y = RNG.standard_normal(300)
    statistics = qsdp.SufficientStatistics()
    for some in (slice(0, 100), slice(100, 300)):
        statistics.partial_fit(encoder.transform(images[some]), y[some])
    from_batches = qsdp.TrainingProblem.from_statistics(statistics, beta=1.0)
    assert qsdp.beta_max(from_batches) == pytest.approx(qsdp.beta_max(qsdp.TrainingProblem(whole, y, beta=1.0)))


def test_images_of_another_scale_are_named() -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 6, 6)).astype(np.uint8)
    images[0, 0, :2] = 0, 255
    encoder = Patches(2, regions=1).fit(images)
    restored = Patches(2, regions=1)
    restored.restore(encoder.to_state())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Images may be dark, black, or of another type.
        for same in (images[3:4], images // 20, 0 * images, images.astype(np.float64), images.astype(np.int16)):
            encoder.transform(same)
    for other, here in (
        (images / 255.0, "float64 from 0 to 1"),
        (images > 127, "uint8 from 0 to 1"),
        (images.astype(np.uint16) * 257, "uint16 from 0 to 65535"),
        (images.astype(np.int16) - 128, "int16 from -128 to 127"),
    ):
        for one in (encoder, restored, Patches((2, 3), regions=1).fit(images)):
            with pytest.warns(QSDPWarning, match=f"X holds images of {here}, but those of training were uint8 from 0"):
                one.transform(other)


@pytest.mark.parametrize("m", [1, 3, 60])
def test_predictions_by_neurons_and_moments_are_those_of_the_blocks(m: int) -> None:
    encoders: list[tuple[Any, Any]] = [
        (Patches(3, regions=2, downsample=2), IMAGES),
        (Windows(3, segments=2, lags=(1, 2)), RNG.standard_normal((4, 2, 12))),
        (Patches(size=(2, 3), regions=(2, 1)), IMAGES),
    ]
    for encoder, X in encoders:
        blocks = encoder.fit_transform(X)
        U, V = RNG.choice([-1, 1], (2, m, blocks.layout.side))
        number = RNG.integers(blocks.n_blocks, size=m)
        for alpha in (RNG.standard_normal(m), RNG.standard_normal((m, 3))):
            network = qsdp.BilinearNetwork.on_blocks(blocks.layout, U, V, alpha, number)
            expected = network.predict(blocks)
            assert np.abs(encoder.predict(network, X) - expected).max() <= 1e-12 * np.abs(expected).max()
            whole = network.with_neurons(network.U, network.V, np.rint(3.0 * alpha) + (alpha == alpha.flat[0]))
            form, expected = whole.to_integer_form(), whole.predict(blocks)
            assert np.abs(encoder.predict(form, X) - expected).max() <= 1e-12 * np.abs(expected).max()
    with pytest.raises(InvalidInputError, match="blocks of the encoder"):
        encoder.predict(qsdp.BilinearNetwork([[1, 1]], [[1, 1]], [1.0], [0], [2]), X)


# -- series --------------------------------------------------------------------------------------------


def slow_windows(series: np.ndarray, encoder: Windows) -> np.ndarray:
    x = (series - encoder.mean_[:, None]) / encoder.scale_[:, None]
    parts = []
    for lag in encoder.lags:
        starts = [t for t in range(0, x.shape[1], encoder.stride) if t + (encoder.size - 1) * lag < x.shape[1]]
        for r in range(encoder.segments):
            own = [t for i, t in enumerate(starts) if i * encoder.segments // len(starts) == r]
            vectors = [np.append(x[:, [t + k * lag for k in range(encoder.size)]].T.ravel(), 1.0) for t in own]
            parts.append(np.mean([np.outer(v, v)[np.triu_indices(len(v))] for v in vectors], axis=0))
    return np.concatenate(parts)


@pytest.mark.parametrize("stride", [1, 2])
def test_rows_of_series_are_means_over_segments(stride: int) -> None:
    series = RNG.standard_normal((4, 2, 17))
    encoder = Windows(3, stride=stride, segments=2, lags=(1, 3))
    blocks = encoder.fit_transform(series)
    assert blocks.sizes == (7,) * 4
    values = np.concatenate(series, axis=1)
    np.testing.assert_allclose(encoder.mean_, values.mean(axis=1))
    np.testing.assert_allclose(encoder.scale_, values.std(axis=1))
    np.testing.assert_allclose(blocks.rows, [slow_windows(one, encoder) for one in series], rtol=1e-12, atol=1e-14)


def test_series_of_equal_length_may_be_an_array_or_a_list() -> None:
    series = RNG.standard_normal((5, 3, 12))
    encoder = Windows(4)
    blocks = encoder.fit_transform(series)
    assert Windows(4).fit_transform(list(series)) == blocks
    assert (encoder.n_features_in_, encoder.length_) == (3, 12)
    assert Windows(4).fit_transform(series[:, 0]) == Windows(4).fit_transform(series[:, :1])
    assert Windows(4).fit_transform(series.astype(object)) == blocks
    assert Windows(4).fit_transform(np.fromiter(series, dtype=object)) == blocks


@pytest.mark.parametrize("scaling", ["none", "size"])
@pytest.mark.parametrize("images", [IMAGES, IMAGES / np.float32(7.0)], ids=["integers", "floats"])
def test_several_settings_have_the_blocks_of_all(images: np.ndarray, scaling: str) -> None:
    several: dict[str, Any] = {"size": (2, 3, 1), "stride": [2, 1, 1], "padding": (1, 0, 0), "regions": (2, 1, 3)}
    several["downsample"] = np.array([1, 2, 1])
    common = {"centre": 3, "scaling": scaling}
    encoder = Patches(**several, **common)
    blocks = encoder.fit_transform(images)
    settings = [dict(zip(several, one, strict=True)) for one in zip(*several.values(), strict=True)]
    alone = [Patches(**one, **common).fit_transform(images) for one in settings]
    assert blocks.sizes == (9,) * 4 + (19,) + (3,) * 9
    assert blocks.rows.dtype == alone[0].rows.dtype == (np.int32 if images is IMAGES else np.float32)
    assert np.array_equal(blocks.rows, np.hstack([one.rows for one in alone]))
    np.testing.assert_allclose(blocks.omega, sum((one.omega for one in alone), ()), rtol=1e-14)
    assert blocks.layout.patches is None
    assert encoder.transform(images[2:5]) == blocks[2:5]
    # Sequences of one entry are a single setting, and numbers hold for every setting.
    one, same = Patches([3], regions=(2,), scaling=scaling), Patches(3, regions=2, scaling=scaling)
    assert one.fit_transform(images) == same.fit_transform(images)
    assert one.fit_transform(images).layout.patches == same.fit_transform(images).layout.patches
    both, two = Patches(range(2, 4), regions=2), Patches((2, 3), stride=(1, 1), regions=(2, 2))
    assert both.fit_transform(images) == two.fit_transform(images)


# -- certificates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_certificates_hold_the_geometry_and_are_checked_from_images(
    loss: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = RNG.integers(0, 256, (60, 6, 6)).astype(np.uint8)
    y = np.where(images[:, 2, 2] > images[:, 3, 3], 1.0, -1.0)
    blocks = Patches(2, regions=2).fit_transform(images)
    problem = qsdp.TrainingProblem(blocks, y, beta=1.0, loss=loss)
    result = qsdp.column_generation(problem.with_beta(0.1 * qsdp.beta_max(problem)))
    path, data = tmp_path / "certificate", tmp_path / "images.npz"
    result.certificate.save(path, include_data="sums" if loss == "squared" else False)
    np.savez(data, images=images, patches=blocks.layout.patches, y=y)
    assert qsdp_check.main([str(path), "--data", str(data)]) == 0
    assert "rows computed from the images" in capsys.readouterr().out
    np.savez(data, images=images[::-1], patches=blocks.layout.patches, y=y)
    assert qsdp_check.main([str(path), "--data", str(data)]) == 1
    again = qsdp.load_certificate(path, problem=result.certificate.proof.problem)
    again.save(tmp_path / "again", include_data="sums" if loss == "squared" else False)
    np.savez(data, images=images, patches=blocks.layout.patches, y=y)
    assert qsdp_check.main([str(tmp_path / "again"), "--data", str(data)]) == 0


# -- bad input -------------------------------------------------------------------------------------------

FITTED = Patches(3, regions=2).fit(IMAGES[..., 0])


@pytest.mark.parametrize("of_objects", [False, True])
def test_images_of_different_sizes_are_one_error(of_objects: bool) -> None:
    images: Any = [np.zeros((8, 8)), np.ones((8, 8)), np.zeros((6, 8))]
    labels = ["a", "b", "a"]
    model = qsdp.QuantizedNetworkClassifier(2, encoding=Patches(3, regions=1), random_state=0).fit(
        images[:2], labels[:2]
    )
    if of_objects:
        images = np.fromiter(images, dtype=object)
    for call in (
        lambda: model.predict(images),
        lambda: qsdp.QuantizedNetworkClassifier(2, encoding=Patches(3, regions=1)).fit(images, labels),
        lambda: Patches(3).fit(images),
    ):
        with pytest.raises(InvalidInputError, match=r"image 2 has shape \(6, 8\), image 0 has \(8, 8\): resize or"):
            call()
    with pytest.raises(InvalidInputError, match="image 1 has rows of different lengths"):
        Patches(1).fit([[[1, 2], [3, 4]], [[1, 2], [3]]])


@pytest.mark.parametrize("of_objects", [False, True])
def test_series_of_different_lengths_are_one_error(of_objects: bool) -> None:
    series: Any = [np.arange(20.0)[None], np.ones((1, 20)), np.zeros((1, 17))]
    model = qsdp.QuantizedNetworkRegressor(encoding=Windows(4), beta=1.0, random_state=0).fit(series[:2], [0.0, 1.0])
    if of_objects:
        series = np.fromiter(series, dtype=object)
    for call in (
        lambda: model.predict(series),
        lambda: clone(model).fit(series, [0.0, 1.0, 2.0]),
        lambda: Windows(4).fit(series),
        lambda: Windows(4).fit_transform(series),
    ):
        with pytest.raises(
            InvalidInputError, match=r"series 2 has shape \(1, 17\), series 0 has \(1, 20\): pad, cut or"
        ):
            call()
    for other in (np.zeros((2, 1, 17)), np.zeros((2, 2, 20)), [np.zeros(17)]):
        with pytest.raises(InvalidInputError, match=r"series of shape \(n, 1, 20\); got shape .*: pad, cut or inter"):
            model.predict(other)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: FITTED.transform(IMAGES[:, :7, :, 0]), r"X must be images of shape \(n, 8, 9, 1\); got shape \(9, 7"),
        (lambda: Patches(3).fit(IMAGES.reshape(9, -1)), "flat rows need image_shape"),
        (lambda: Patches(3, image_shape=(3, 3)).fit(IMAGES.reshape(9, -1)), "X must be images of shape"),
        (lambda: Patches(7, regions=3).fit(IMAGES), r"regions must be at most .* height of the images, 2 .* got 3"),
        (lambda: Patches(3, stride=4, regions=2).fit(IMAGES[:, :, :6]), "along the width of the images, 1 "),
        (lambda: Patches(99).fit(IMAGES), r"size must be at most the height of the images .* got 99"),
        (lambda: Patches(3).fit(np.where(IMAGES > 254, np.nan, IMAGES)), "X must be finite; found NaN .* in image"),
        (lambda: Patches(3).fit(IMAGES[:0]), "at least one image"),
        (lambda: Patches(2, padding=2).fit(IMAGES), "padding must be less than size=2; got 2"),
        (lambda: Patches((3, 2), padding=2).fit(IMAGES), "padding must be less than size=2; got 2"),
        (
            lambda: Patches((3, 7), regions=3).fit(IMAGES),
            r"regions must be at most .* height of the images, 2 .* got 3",
        ),
        (lambda: Patches((3, 0)).fit(IMAGES), "size must be an integer >= 1; got 0"),
        (
            lambda: Patches((2, 3), stride=[1, 1, 2]).fit(IMAGES),
            r"size and stride must be .* got size=\(2, 3\), stride",
        ),
        (lambda: Patches([]).fit(IMAGES), r"size must be integers or sequences .* length >= 1; got size=\[\]"),
        (lambda: Patches(3, scaling="both").fit(IMAGES), "scaling must be one of"),
        (lambda: Patches(3).fit(IMAGES.astype(np.int64) << 24), "sums of products are exact"),
        (lambda: Patches(0).fit(IMAGES), "size must be an integer >= 1"),
        (lambda: Windows(5, lags=(4,)).fit(np.zeros((2, 1, 16))), "series of 16 values have 0 windows of 5 values"),
        (lambda: Windows(5, segments=3).fit(np.zeros((2, 6))), "each of 3 segments; series of 6 values have 2 windows"),
        (lambda: Windows(2).fit(np.zeros(9)), r"series of shape \(n, channels, time\); got shape \(9,\)"),
        (lambda: Windows(2).fit(9.0), r"series of shape \(n, channels, time\); got shape \(\)"),
        (lambda: Windows(2).fit(np.full((2, 1, 9), np.nan)), "X must be finite; found NaN or infinity in series 0"),
        (lambda: Windows(2).fit([[1.0, 2.0], [3.0, [4.0]]]), "series 1 has rows of different lengths"),
        (lambda: Windows(2).fit([]), "at least one series"),
        (lambda: Windows(2, lags=(1, 1)).fit(np.zeros((2, 1, 9))), "lags must be distinct"),
        (lambda: Windows(2).fit(np.zeros((2, 2, 9))).transform(np.zeros((2, 3, 9))), r"shape \(n, 2, 9\)"),
        (lambda: Windows(2).fit(np.full((2, 9), 1e160)), "within 1e-100 .. 1e.100, .* got 1e.160: multiply all series"),
        (lambda: Windows(2, standardize=False).fit(np.full((2, 9), 1e-60)), "within 1e-50 .. 1e.50, .* got 1e-60"),
        (lambda: Patches(3).fit(IMAGES * 1e160), "X must be .* within 1e-50 .. 1e.50, .* multiply the pixels"),
        (lambda: Patches(3).fit(np.ma.masked_greater(IMAGES, 9.0)), "X must have no masked entries"),
        (lambda: Patches(3).fit([*IMAGES[:2], np.ma.masked_greater(IMAGES[2], 9)]), "image 2 of X must have no masked"),
        (lambda: Windows(2).fit(np.ma.masked_equal(np.eye(9), 1.0)), "X must have no masked entries"),
        (lambda: Windows(2).fit([np.zeros(9), np.ma.masked_equal(np.eye(9)[0], 1.0)]), "series 1 of X must have no"),
    ],
)
def test_bad_input_is_one_clear_error(call: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Patches(3).fit(np.array([[["a"]]])), "images of integers or floats"),
        (lambda: Patches(3, image_shape=9).fit(IMAGES), "image_shape must be"),
        (lambda: Windows(2).fit("series"), "series of integers or floats"),
        (lambda: Windows(2).fit(np.array(None)), "series of integers or floats; got entries of type object"),
    ],
)
def test_wrong_types_are_one_clear_error(call: Any, said: str) -> None:
    with pytest.raises(InvalidTypeError, match=said):
        call()
