"""Paths of the public interface: an integer must not be taken for an open file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

import qsdp
from qsdp.exceptions import InvalidTypeError
from qsdp.tables import read_table, table_chunks


@cache
def model() -> Any:
    X, y = qsdp.datasets.load_bundled("diabetes")
    options: dict[str, Any] = {"beta": "5%", "refine": "none", "encoding": "standard", "random_state": 0}
    return qsdp.QuantizedNetworkRegressor(8, **options).fit(X[:60], y[:60])


CALLS: dict[str, Callable[[Any], Any]] = {
    "load": qsdp.load,
    "load_network": qsdp.load_network,
    "load_certificate": qsdp.load_certificate,
    "statistics": qsdp.SufficientStatistics.load,
    "read_table": read_table,
    "table_chunks": lambda path: list(table_chunks(path)),
    "make_report": qsdp.report.make_report,
    "save": lambda path: model().save(path),
    "network": lambda path: model().network_.save(path),
    "certificate": lambda path: model().certificate_.save(path),
    "to_c": lambda path: qsdp.export.to_c(model()).write(path),
    "to_js": lambda path: qsdp.export.to_js(model()).write(path),
}


@pytest.fixture
def descriptor() -> Iterator[int]:
    """Yield the descriptor of a pipe that holds a table."""
    reading, writing = os.pipe()
    os.write(writing, b"a,b\n1,2\n")
    os.close(writing)
    yield reading
    assert os.read(reading, 20) == b"a,b\n1,2\n"
    os.close(reading)


@pytest.mark.parametrize("name", CALLS)
def test_no_number_is_opened(name: str, descriptor: int) -> None:
    for path in (descriptor, True, None):
        with pytest.raises(InvalidTypeError, match="must be text or a pathlib"):
            CALLS[name](path)
