"""Where the tests find the UCI files, how many threads they take, and how workers share them."""

import gc
import os
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
