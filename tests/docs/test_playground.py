"""The playground: its files are what the page says, and the page shows what Python computes of drawings."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from browser import browser, messages, needs_browser, overflows, resize, serious_findings

import qsdp

DOCS = Path(__file__).parents[2] / "docs"
DATA = DOCS / "playground" / "data"
FACTS = json.loads((DATA / "mnist.json").read_text())
#: What the theme of the documentation defines.
THEME = """<!doctype html><html lang="en"><head><title>Playground</title><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><style>
:root { --pst-color-surface: #f3f4f5; --pst-color-border: #c9c9c9; --pst-color-text-base: #222832;
--pst-color-text-muted: #48566b; } body { max-width: 60rem; margin: 1rem auto; padding: 0 1rem; } </style></head>
<body><main><h1>Playground</h1>
"""


def loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def encoder() -> Any:
    return loaded("make_playground", DOCS / "playground" / "make_playground.py").mnist_encoder()


@pytest.fixture(scope="module")
def networks() -> list[Any]:
    return [qsdp.load_network(DATA / one["file"]) for one in FACTS["networks"]]


# -- files -------------------------------------------------------------------------------------------------


def test_networks_are_what_the_page_says(networks: list[Any], encoder: Any) -> None:
    sizes = [(DATA / one["file"]).stat().st_size for one in FACTS["networks"]]
    assert sizes == sorted(sizes)
    assert 500 < sizes[0] < sizes[-1] < 3000
    for network, one in zip(networks, FACTS["networks"], strict=True):
        assert network.n_neurons == one["neurons"]
        assert one["gap"] == pytest.approx(1 - FACTS["bound"] / one["objective"])
    folder = os.environ.get("QSDP_DATA")
    if folder is None or not Path(folder, "mnist").is_dir():
        pytest.skip("images of MNIST not found: set QSDP_DATA")
    X, y = qsdp.datasets.load_mnist("test")
    for network, one in zip(networks, FACTS["networks"], strict=True):
        assert np.mean(encoder.predict(network, X).argmax(axis=1) == y) == pytest.approx(one["accuracy"], abs=1e-12)


# -- the page ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("sphinx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        html = loaded("playground", DOCS / "_ext" / "playground.py").playground()
        text = "\n".join([THEME, html, "</main></body></html>"])
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(text, "utf-8")
    with browser() as driver:
        driver.get(path.as_uri())
        resize(driver, 1400)
        yield driver


SHOWN = """
const find = (selector) => document.querySelector(selector);
const texts = (selector) => [...document.querySelectorAll(selector)].map((one) => one.innerText);
const { data } = find(".evidence canvas").getContext("2d").getImageData(0, 0, 28, 28);
return {
  image: Array.from({ length: 784 }, (_, i) => data[4 * i]), answer: find("#draw .answer").innerText,
  chances: texts("#draw .bars .number"), parts: texts("#draw .grid span"), neurons: texts("#draw .neurons span"),
  size: find("#draw .size output").innerText, certificate: find("#draw .certificate").innerText,
};
"""


def numbers(texts: list[str]) -> list[float]:
    return [float(text.replace("\u2212", "-").strip("+ %")) for text in texts]


def check_answers(driver: Any, network: Any, encoder: Any, chosen: int | None = None) -> str:
    """Compare all that is shown of the image that the network sees, and return the answer."""
    shown = driver.execute_script(SHOWN)
    image = np.array(shown["image"], dtype=np.uint8).reshape(1, 28, 28)
    (scores,) = encoder.predict(network, image)
    assert shown["answer"] == str(scores.argmax())
    powers = np.exp(scores - scores.max())
    assert numbers(shown["chances"]) == pytest.approx((100 * powers / powers.sum()).tolist(), abs=0.051)
    own = scores.argmax() if chosen is None else chosen
    rows = encoder.transform(image).rows[0].astype(float)
    values = network.layout.products(network.U.astype(float), network.V.astype(float), network.block) @ rows
    terms = values * network.output_weights[:, own]
    parts = np.bincount(network.block, terms, minlength=16)
    assert parts.sum() == pytest.approx(scores[own])
    assert numbers(shown["parts"]) == pytest.approx(parts.tolist(), abs=0.0051)
    largest = terms[np.argsort(-np.abs(terms), kind="stable")[:12]]
    assert numbers(shown["neurons"]) == pytest.approx(largest.tolist(), abs=0.0051)
    return str(shown["answer"])


@needs_browser
def test_example_digits_are_recognised(page: Any, networks: list[Any], encoder: Any) -> None:
    for digit, button in enumerate(page.find_elements("css selector", ".examples button")):
        button.click()
        assert check_answers(page, networks[-1], encoder) == str(digit)
    assert messages(page) == []


@needs_browser
def test_drawings_by_pointer_and_networks_by_key(page: Any, networks: list[Any], encoder: Any) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    page.find_element("class name", "clear").click()
    shown = page.execute_script(SHOWN)
    assert not any(shown["image"])
    assert (shown["answer"], shown["neurons"], set(shown["chances"])) == ("\u2013", [], {""})
    field = page.find_element("css selector", ".field")
    # A seven, in one stroke and a bar across.
    strokes = [[(-70, -90), (0, -90), (70, -92), (40, -30), (10, 30), (-10, 95)], [(-20, 5), (50, 5)]]
    for first, *others in strokes:
        drawn = ActionChains(page, duration=20).move_to_element_with_offset(field, *first).click_and_hold()
        for point in others:
            drawn = drawn.move_to_element_with_offset(field, *point)
        drawn.release().perform()
    assert check_answers(page, networks[-1], encoder) == "7"
    # The image is as in MNIST: twenty pixels high, its centre of mass in the middle.
    image = np.array(page.execute_script(SHOWN)["image"]).reshape(28, 28)
    assert 18 <= np.ptp(np.flatnonzero(image.max(axis=1) > 60)) <= 21
    assert abs(image.sum(axis=1) @ np.arange(28) / image.sum() - 13.5) <= 1.0
    slider = page.find_element("id", "bytes")
    for network, facts in zip(networks[::-1], FACTS["networks"][::-1], strict=True):
        check_answers(page, network, encoder)
        shown = page.execute_script(SHOWN)
        assert shown["size"].startswith(f"{(DATA / facts['file']).stat().st_size:,} bytes: {facts['neurons']} neurons")
        assert f"{100 * facts['gap']:.2f} %" in shown["certificate"]
        slider.send_keys(Keys.ARROW_LEFT)
    slider.send_keys(Keys.END)
    page.find_element("css selector", "#draw select").send_keys("2")
    check_answers(page, networks[-1], encoder, 2)
    page.find_element("css selector", "#draw select").send_keys(Keys.HOME)


@needs_browser
@pytest.mark.parametrize("width", [1400, 480])
def test_everybody_can_use_it(page: Any, width: int) -> None:
    resize(page, width)
    assert serious_findings(page) == []
    assert not overflows(page)
    assert not page.find_element("css selector", "#draw .need").is_displayed()
    for one in page.find_elements("css selector", "main :is(button, input, select, canvas)"):
        assert one.accessible_name
    resize(page, 1400)
