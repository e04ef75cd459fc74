"""Where the tests find the UCI files, which combinations run, in how many threads, and how workers share them."""

import gc
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# --doctest-modules would import every conftest.py of the tree under one name, and programs beside tests.
collect_ignore_glob = ["*conftest.py", "tests/golden/*", "tests/campaigns/[!t]*"]

# Beside other workers a second thread waits for a processor, and the first one for it: training in PyTorch then takes
# five times as long. Set before NumPy or PyTorch are imported; processes that tests start inherit it.
if "PYTEST_XDIST_WORKER" in os.environ:
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")

SHARED_DATA = Path(__file__).resolve().parents[1] / "shared" / "data"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give every worker consecutive tests, which share their module's fixtures, and let idle workers steal."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs every case."""
    parser.addoption("--every-case", action="store_true", help="run all combinations of stacked parametrisations")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out every second combination of stacked parametrisations, like the white fields of a chessboard.

    Every value of one is still tested with half of the values of the others.
    """
    if config.getoption("--every-case") or any("[" in asked for asked in config.args):
        return
    # Of each parametrisation of a test, the positions of its values in the order of the cases.
    orders: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    fields = []
    for item in items:
        field = []
        for name, value in _values(item):
            order = orders[item.nodeid.partition("[")[0], name]
            field.append((order, order.setdefault(id(value), len(order))))
        fields.append(field)
    white = [sum(len(order) > 1 for order, _ in field) > 1 and sum(at for _, at in field) % 2 == 1 for field in fields]
    if any(white):
        config.hook.pytest_deselected(items=[item for item, out in zip(items, white, strict=True) if out])
        items[:] = [item for item, out in zip(items, white, strict=True) if not out]


def _values(item: pytest.Item) -> Iterator[tuple[str, object]]:
    """Yield the first argument of each parametrisation of a test, and its value."""
    if isinstance(item, pytest.Function):
        for mark in item.iter_markers("parametrize"):
            names = mark.args[0]
            first = (names.split(",") if isinstance(names, str) else names)[0].strip()
            yield first, item.callspec.params[first]


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of garbage collections, which would visit millions of objects each time."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def qsdp_data() -> Iterator[None]:
    """Set QSDP_DATA for the session to a folder beside the repository, unless the user has set it."""
    with pytest.MonkeyPatch.context() as patch:
        if not os.environ.get("QSDP_DATA") and SHARED_DATA.is_dir():
            patch.setenv("QSDP_DATA", str(SHARED_DATA))
        yield


@pytest.fixture(scope="session")
def uci_available(qsdp_data: None) -> None:
    """Skip tests that need the real UCI files where there are none; the tests never download."""
    if not os.environ.get("QSDP_DATA"):
        pytest.skip("UCI files not found: set QSDP_DATA")
