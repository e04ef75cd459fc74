"""Pictures of neurons on images and series: which are shown, and the pixels of their filters and regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import qsdp
from qsdp.encoding import Patches, Windows
from qsdp.exceptions import InvalidInputError, InvalidTypeError

pytest.importorskip("matplotlib")
from qsdp.plotting import FiltersDisplay

IMAGES = np.random.default_rng(0).integers(0, 16, (40, 8, 8)).astype(np.uint8)
ENCODER = Patches(3, regions=2, padding=1).fit(IMAGES)


def network(**changes: Any) -> qsdp.BilinearNetwork:
    rng = np.random.default_rng(1)
    U, V = rng.choice([-1, 1], (2, 5, 10))
    alpha = np.array([[0.0, 3.0], [-4.0, 0.0], [1.0, 2.0], [0.0, 0.0], [0.5, 0.0]])
    return qsdp.BilinearNetwork(U, V, alpha, [3, 1, 0, 0, 2], ENCODER.layout_.sizes, **changes)


def test_neurons_of_largest_price_with_their_filters_and_regions() -> None:
    display = FiltersDisplay(network=network(), encoder=ENCODER, n_shown=3).plot()
    assert display.neurons_.tolist() == [[1, 0], [0, 1], [2, 1]]
    pictures = [image.get_array() for image in display.ax_.images]
    assert len(pictures) == 6
    for k, (j, _) in enumerate(display.neurons_.tolist()):
        for picture, signs in zip(pictures[2 * k :], (network().U[j], network().V[j]), strict=False):
            assert np.array_equal(2 * np.asarray(picture) - 1, signs[:9].reshape(3, 3))
    texts = [text.get_text() for text in display.ax_.texts]
    prices = ENCODER.layout_.prices[[1, 3, 0]] * [-4.0, 3.0, 2.0]
    assert texts == [f"output {c}: {price:+.2g}" for c, price in zip((0, 1, 1), prices, strict=True)]
    # Positions 0 .. 3 of 8 see pixels -1 .. 4, and 4 .. 7 see 3 .. 8, of which 0 .. 7 are in the image.
    regions = [patch.get_bbox().bounds for patch in display.ax_.patches if patch.get_alpha() == 0.35]
    x = [2.6, 2.6 + 3.9, 2.6 + 7.8]
    expected = [(x[0] + 3 / 8, 3 / 8), (x[1] + 3 / 8, 0.0), (x[2], 3 / 8)]
    np.testing.assert_allclose([bounds[:2] for bounds in regions], expected)
    np.testing.assert_allclose([bounds[2:] for bounds in regions], [(5 / 8, 5 / 8)] * 3)


def test_neurons_on_patches_of_several_settings() -> None:
    encoder = Patches((3, 4), regions=(2, 1), padding=(1, 0)).fit(IMAGES)
    U, V = np.random.default_rng(1).choice([-1, 1], (2, 2, 17))
    blocks = qsdp.BilinearNetwork.on_blocks(encoder.layout_, U, V, [2.0, 1.0], [3, 4])
    display = FiltersDisplay(network=blocks, encoder=encoder).plot()
    shown = [np.asarray(image.get_array()).shape[0] for image in display.ax_.images]
    assert shown == [3 if j == 0 else 4 for j, _ in display.neurons_.tolist() for _ in range(2)]
    regions = [patch.get_bbox().bounds for patch in display.ax_.patches if patch.get_alpha() == 0.35]
    expected = [(5 / 8, 5 / 8) if j == 0 else (1.0, 1.0) for j, _ in display.neurons_.tolist()]
    np.testing.assert_allclose([bounds[2:] for bounds in regions], expected)


def test_one_output_and_an_image() -> None:
    display = FiltersDisplay(network=network(), encoder=ENCODER, output=1, image=IMAGES[0], names=["no", "yes"]).plot()
    assert display.neurons_.tolist() == [[0, 1], [2, 1]]
    assert np.array_equal(display.ax_.images[2].get_array(), IMAGES[0])
    assert display.ax_.texts[0].get_text().startswith("yes: ")


def test_estimators_and_series() -> None:
    series = [np.sin(rate * np.arange(30))[None] for rate in np.linspace(0.3, 1.0, 30)]
    model = qsdp.QuantizedNetworkRegressor(encoding=Windows(4, segments=2), beta="2%", refine="exact", random_state=0)
    model.fit(series, np.linspace(0.3, 1.0, 30))
    display = FiltersDisplay.from_estimator(model, n_shown=2)
    assert display.ax_.images[0].get_array().shape == (1, 4)
    piped = make_pipeline(FunctionTransformer(), qsdp.QuantizedNetworkClassifier(encoding=Patches(2), beta="5%"))
    piped.set_params(quantizednetworkclassifier__refine="exact").fit(IMAGES, np.arange(40) % 3)
    assert "2: " in " ".join(text.get_text() for text in FiltersDisplay.from_estimator(piped).ax_.texts)


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: FiltersDisplay(network=3, encoder=ENCODER), InvalidTypeError, "network must be a BilinearNetwork"),
        (lambda: FiltersDisplay(network=network(), encoder=3), InvalidTypeError, "encoder must be a MomentEncoder"),
        (
            lambda: FiltersDisplay(network=network(), encoder=Patches(2).fit(IMAGES)),
            InvalidInputError,
            "blocks of the encoder",
        ),
        (lambda: FiltersDisplay(network=network(), encoder=ENCODER, n_shown=0), InvalidInputError, "n_shown"),
        (lambda: FiltersDisplay(network=network(), encoder=ENCODER, output=2), InvalidInputError, "output"),
    ],
)
def test_bad_arguments_are_one_clear_error(call: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        call()
