"""Files of networks: the memory and the steps that reading takes are bounded by the size of the file."""

from __future__ import annotations

import contextlib
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import write_archive

import qsdp
from qsdp.exceptions import InvalidInputError, StorageError


def number(value: int) -> bytes:
    """Return the LEB128 code of an integer."""
    found = b""
    while value >= 128:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def compact(n_outputs: int, runs: list[tuple[int, int, bool]], parameters: list[int], bits: Any) -> bytes:
    """Return a compact file of runs of blocks (length, side, linear) with a right digest."""
    head = number(n_outputs) + number(len(runs))
    head += b"".join(number(length) + number(2 * side + flat) for length, side, flat in runs)
    head += np.full(max(n_outputs, 1), 1.1, dtype="<f4").tobytes() + bytes(parameters)
    body = b"qsdB\x01" + head + np.packbits(np.array(bits, dtype=np.uint8)).tobytes()
    return body + zlib.crc32(body).to_bytes(4, "little")


def archive(folder: Path, kind: str, header: dict[str, Any], **arrays: Any) -> bytes:
    path = folder / "archive"
    write_archive(path, kind, header, {name: np.asarray(array) for name, array in arrays.items()})
    return path.read_bytes()


def load(folder: Path, contents: bytes) -> Any:
    """Load a file, and check that the peak of the memory is bounded by the file's size."""
    (folder / "n").write_bytes(contents)
    tracemalloc.start()
    try:
        return qsdp.load_network(folder / "n")
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 2**25 + 2**10 * len(contents), f"{peak / 2**20:.0f} MiB for {len(contents)} bytes"


def refused(folder: Path, contents: bytes, message: str) -> None:
    with pytest.raises(StorageError, match=f"is not a valid network: .*{message}"):
        load(folder, contents)


@pytest.fixture(autouse=True)
def imported(tmp_path: Path) -> None:
    """Import what loading a network needs, so that it does not count as memory of a file."""
    qsdp.BilinearNetwork([[1]], [[1]], [1.0]).save(tmp_path / "first")
    qsdp.load_network(tmp_path / "first")


@pytest.mark.parametrize("side", [1, 10, 2**15, 2**29])
@pytest.mark.parametrize("length", [2**12, 2**22, 2**31])
@pytest.mark.parametrize("flat", [True, False])
def test_runs_of_blocks(tmp_path: Path, flat: bool, length: int, side: int) -> None:
    contents = compact(0, [(length, side, flat)], [0, 0], [0] * 264)
    assert len(contents) < 64
    refused(tmp_path, contents, f"{length} blocks and 1 outputs are more than {len(contents)} bytes hold")


def test_many_runs_and_outputs(tmp_path: Path) -> None:
    runs = [(2**20 + k, 1 + k, False) for k in range(20)]
    refused(tmp_path, compact(0, runs, [0, 0], [0] * 264), "blocks and 1 outputs are more than")
    refused(tmp_path, compact(50, [(200, 1, False)], [0, 0], [0] * 264), "200 blocks and 50 outputs are more than")
    contents = compact(0, [(1, 3, False)], [0, 0], [0] * 264)
    many = contents[:5] + number(2**31) + contents[6:-4]
    refused(tmp_path, many + zlib.crc32(many).to_bytes(4, "little"), "2147483648 outputs are more than")
    # As many blocks as bits allow, but none of them with a neuron.
    refused(tmp_path, compact(0, [(2**17, 1, True)], [0, 0], [0] * 2**17), "are more than a file of")


def test_empty_blocks_beside_neurons(tmp_path: Path) -> None:
    """A neuron takes the memory of the largest side, whatever the side of its block."""
    for side in (2**13, 2**15):
        for m in (1, 3, 60):
            # As many neurons as there are zeros before the first one; all weights are one, and all gaps zero.
            contents = compact(0, [(1, 1, True), (1, side, True)], [0, 0], [0] * m + [1] * (2 + m + m))
            with contextlib.suppress(StorageError):
                assert load(tmp_path, contents).U.shape == (m, side)
        m = 300
        contents = compact(0, [(1, 1, True), (1, side, True)], [0, 0], [0] * m + [1] * (2 + m + m))
        refused(tmp_path, contents, f"arrays of {m * (2 * side + 8)} bytes are more than a file of")
    contents = compact(0, [(1, 1, True), (1, 2**15 + 1, True)], [0, 0], [0, 1, 1, 1, 1])
    refused(tmp_path, contents, "a block has a side beyond 32768")


def test_numbers_of_neurons_do_not_overflow(tmp_path: Path) -> None:
    # Quotients of zero in unary, then remainders of 52 bits, all of them set.
    counts = [1] * (2100 + 2100 * 52)
    refused(tmp_path, compact(0, [(2100, 1, True)], [52, 0], counts), "neurons are more than")


HEADER = {
    "n_neurons": 1,
    "n_inputs": None,
    "sizes": [1],
    "kinds": ["linear"],
    "n_outputs": None,
    "levels": 2,
    "activation": None,
}


def test_second_layers(tmp_path: Path) -> None:
    """Shared weights take m C numbers in memory, and m + C in a file."""
    m, C = 50_000, 20_000
    U, sizes = np.full((m, 1), 128, np.uint8), np.zeros(C, np.int64)
    sizes[0] = m
    shared = {"shared": np.ones(C), "sizes": sizes}
    for n_outputs in (C, 1):
        header = HEADER | {"n_neurons": m, "n_outputs": n_outputs}
        contents = archive(tmp_path, "bilinear-network", header, neurons=np.full(m // 8, 255, np.uint8), **shared)
        refused(tmp_path, contents, f"arrays of {m * (2 + 8 * C) if n_outputs == C else 8 * m * C} bytes are more than")
    header = {"n_neurons": m, "n_inputs": 1, "largest_weight": 1, "equal_parity": True, "activation": [1.0, 0.0, 0.0]}
    contents = archive(tmp_path, "polynomial-network", header, Q=U, bias=np.zeros(C), **shared)
    refused(tmp_path, contents, f"arrays of {8 * m * C} bytes are more than")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_neurons": 2**21}, "2097152 neurons are more than 4 bytes hold"),
        ({"n_neurons": 2**70}, "neurons are more than 4 bytes hold"),
        ({"sizes": [1, 2**30], "kinds": ["linear", "linear"]}, "are more than a file of"),
        ({"sizes": [1, 2**62, 2**62], "kinds": ["linear", "quadratic", "quadratic"]}, "are more than a file of"),
        ({"n_outputs": 2**40}, "are more than a file of"),
        ({"n_neurons": 30, "n_outputs": 2**16}, "are more than a file of"),
    ],
)
def test_headers_of_networks_on_blocks(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    neurons = np.zeros(4, np.uint8)
    contents = archive(tmp_path, "bilinear-network", HEADER | changes, neurons=neurons, alpha=np.ones(1))
    refused(tmp_path, contents, message)


def test_a_large_empty_block_of_a_header(tmp_path: Path) -> None:
    header = HEADER | {"sizes": [1, 2**20], "kinds": ["linear", "quadratic"]}
    contents = archive(tmp_path, "bilinear-network", header, neurons=np.zeros(1, np.uint8), alpha=np.ones(1))
    assert load(tmp_path, contents).layout.sizes == (1, 2**20)


# -- what can be written can be read -----------------------------------------------------------------------


def saved(network: Any, folder: Path) -> Any:
    network.save(folder / "n")
    return load(folder, (folder / "n").read_bytes())


def many_outputs(C: int) -> Iterator[Any]:
    m = 20 * C
    signs, alpha = np.ones((m, 1), np.int8), np.zeros((m, C))
    alpha[np.arange(m), np.arange(m) // 20] = 1.0
    yield qsdp.BilinearNetwork(signs, signs, alpha)
    yield qsdp.PolynomialNetwork(signs, alpha)


@pytest.mark.parametrize("C", [10, 300])
def test_networks_with_many_outputs_can_be_read(tmp_path: Path, C: int) -> None:
    """Their second layers are stored in full where shared weights would be out of proportion to the file."""
    for network in many_outputs(C):
        assert np.array_equal(saved(network, tmp_path).alpha, network.alpha)
        assert ((tmp_path / "n").stat().st_size > network.alpha.nbytes) == (C == 300)


def test_networks_out_of_proportion_to_their_files_are_not_saved(tmp_path: Path) -> None:
    m, side = 1000, 20_000
    U = np.zeros((m, side), np.int8)
    U[:, 0] = 1
    network = qsdp.BilinearNetwork(U, np.zeros_like(U), np.ones(m), np.zeros(m), [1, side], ["linear", "linear"])
    with pytest.raises(InvalidInputError, match="fewer than load_network trusts for so many weights"):
        network.save(tmp_path / "n")
    assert not (tmp_path / "n").exists()


def test_a_network_without_weights(tmp_path: Path) -> None:
    network = qsdp.BilinearNetwork([[1, 1]], [[1, -1]], [0.0], [0], [2])
    rows = qsdp.Blocks([[1.0, 2.0, 3.0]], sizes=[2])
    assert saved(network, tmp_path).predict(rows) == 0.0
