"""Pages in a headless Chromium: what installs it, windows of a width, messages and accessibility."""

import shutil
from collections.abc import Container, Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import pytest

_PROGRAMS = ("chromium", "chromedriver")
_MODULES = ("selenium", "axe_core_python")

#: Mark of tests that need a browser.
needs_browser = pytest.mark.skipif(
    not all(map(shutil.which, _PROGRAMS)) or not all(map(find_spec, _MODULES)),
    reason="a browser is missing: apt-get install -y chromium chromium-driver && pip install selenium axe-core-python",
)


@contextmanager
def browser(*, scripts: bool = True) -> Iterator[Any]:
    """Open a browser that has no network, and close it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for one in ("headless", "no-sandbox", "disable-gpu", "hide-scrollbars", "host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(f"--{one}")
    if not scripts:
        options.add_argument("--blink-settings=scriptEnabled=false")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def resize(driver: Any, width: int, *, dark: bool = False) -> None:
    """Show the page in a window of a width, with light or dark colours."""
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def messages(driver: Any) -> list[str]:
    """Return what the page has written to the console since the last call, errors of scripts and policies included."""
    return [entry["message"] for entry in driver.get_log("browser")]


def serious_findings(driver: Any) -> list[str]:
    """Return what axe-core finds of serious or critical impact, with the elements at fault."""
    return findings(driver, impacts=("serious", "critical"))


def findings(driver: Any, impacts: Container[str] = ("minor", "moderate", "serious", "critical")) -> list[str]:
    """Return what axe-core finds of these impacts, with the elements at fault."""
    driver.execute_script(files("axe_core_python").joinpath("axe.min.js").read_text("utf-8"))
    found = driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    assert found["passes"]
    return [
        f"{one['id']}: {node['html']}"
        for one in found["violations"]
        if one["impact"] in impacts
        for node in one["nodes"]
    ]


def overflows(driver: Any) -> bool:
    """Return whether the page is wider than its window."""
    return bool(driver.execute_script("return document.documentElement.scrollWidth > window.innerWidth"))
