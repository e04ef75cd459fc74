"""The reader of one kind of file names the reader of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qsdp
from qsdp.exceptions import StorageError

READERS: dict[str, Any] = {
    "qsdp.load": qsdp.load,
    "qsdp.load_network": qsdp.load_network,
    "qsdp.load_certificate": qsdp.load_certificate,
    "qsdp.SufficientStatistics.load": qsdp.SufficientStatistics.load,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, set[str]]]:
    """Return a file of each kind, and the names of what reads it."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    y = X[:, 0] + X[:, 1] * X[:, 2]
    model = qsdp.QuantizedNetworkRegressor(beta="20%", random_state=0).fit(X, y)
    columns = qsdp.solve_and_sample(X, y, 10, 1.0, random_state=0).network
    of_networks = {"qsdp.load", "qsdp.load_network"}
    written = {
        "model": (model, {"qsdp.load"}),
        "network": (columns, of_networks),
        "network on blocks": (model.network_, of_networks),
        "certificate": (model.certificate_, {"qsdp.load_certificate"}),
        "statistics": (qsdp.SufficientStatistics().partial_fit(X, y), {"qsdp.SufficientStatistics.load"}),
    }
    folder = tmp_path_factory.mktemp("files")
    for name, (saved, _) in written.items():
        saved.save(folder / name)
    return {name: (folder / name, readers) for name, (_, readers) in written.items()}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["model", "network", "network on blocks", "certificate", "statistics"])
def test_the_reader_is_named(kind: str, reader: str, files: dict[str, tuple[Path, set[str]]]) -> None:
    path, readers = files[kind]
    if reader in readers:
        READERS[reader](path)
        return
    with pytest.raises(StorageError) as error:
        READERS[reader](path)
    message = str(error.value)
    assert message.startswith(repr(str(path)))
    assert "\n" not in message
    # Networks on columns and statistics are archives of the same format, which names what it holds.
    assert any(name in message for name in readers) or f"holds a '{KINDS[kind]}'; expected" in message


KINDS = {"network": "bilinear-network", "statistics": "sufficient statistics"}
