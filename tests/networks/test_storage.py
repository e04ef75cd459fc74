"""Networks on disk: exact round trips, whole or not at all, and nothing but an error from a bad file."""

from __future__ import annotations

import builtins
import errno
import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from archives import packed, read_archive, write_archive, write_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_networks import random_network, unnoticed_flips

from qsdp import BilinearNetwork, load_network
from qsdp.exceptions import StorageError

KIND = "bilinear-network"
#: Bytes of the safetensors header with the longest sizes, digest and names.
HEADER_BYTES = 600

FUZZ = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def make(seed: int, m: int, d: int, **options: Any) -> BilinearNetwork:
    return random_network(np.random.default_rng(seed), m, d, **options)


def assert_same(one: BilinearNetwork, other: BilinearNetwork) -> None:
    assert type(one) is type(other) is BilinearNetwork
    assert (one.levels, one.activation) == (other.levels, other.activation)
    for name in ("U", "V", "alpha"):
        first, second = getattr(one, name), getattr(other, name)
        assert first.dtype == second.dtype
        assert first.tobytes() == second.tobytes()
        assert first.shape == second.shape


# -- round trips -------------------------------------------------------------------------------------


@FUZZ
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 30),
    d=st.integers(1, 20),
    levels=st.sampled_from([2, 3, 4, 5, 8, 9, 64, 65, 127, 128]),
    activation=st.sampled_from(
        [None, (1, 0, 0), (0, 1, 0), (0.0937, 0.5, 0.4688), (1e-300, 0, 1e300), (1 / 3, 5e-324, 0)]
    ),
    C=st.sampled_from([None, 1, 3]),
    shared=st.booleans(),
)
def test_round_trip_of_levels_activations_and_vectors(
    tmp_path: Path, seed: int, m: int, d: int, levels: int, activation: Any, C: int | None, shared: bool
) -> None:
    network = make(seed, m, d, shared=shared, levels=levels, activation=activation, C=C)
    path = tmp_path / "network.qsdp"
    network.save(path)
    loaded = load_network(path)
    assert_same(loaded, network)
    assert (loaded.n_bits, loaded.shared_alpha) == (network.n_bits, network.shared_alpha)
    assert not loaded.U.flags.writeable
    blob = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == blob
    kind, header, arrays = read_archive(path)
    assert (kind, header) == (
        KIND,
        {
            "n_neurons": m,
            "n_inputs": d,
            "sizes": None,
            "kinds": None,
            "n_outputs": C,
            "levels": levels,
            "activation": list(activation) if activation else None,
        },
    )
    packed = -(-2 * m * (d * (levels - 1).bit_length() + network.lifted) // 8)
    assert arrays["neurons"].shape == (packed,)
    outputs = C or 1
    shared_floats = 1 if C is None else 2 * C
    floats = shared_floats if network.shared_alpha else m * outputs
    n_bytes = packed + 8 * floats
    assert sum(array.nbytes for array in arrays.values()) == n_bytes
    assert n_bytes <= len(blob) <= n_bytes + HEADER_BYTES + 200


def test_the_size_on_disk_is_that_of_the_packed_bits(tmp_path: Path) -> None:
    network = make(0, 1000, 400, shared=True)
    network.save(tmp_path / "n")
    assert (tmp_path / "n").stat().st_size <= network.n_bits / 8 * 1.01


def packed_signs(network: BilinearNetwork) -> np.ndarray:
    """Return all weights of a network without a lift, as their numbers in the fewest bits each, end to end."""
    M = network.levels - 1
    numbers = (np.concatenate([network.U.ravel(), network.V.ravel()]).astype(int) + M) // 2
    return packed(numbers[None], M.bit_length())[0]


@pytest.mark.parametrize("levels", [*range(2, 10), 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128])
def test_weights_take_the_fewest_bits(levels: int, tmp_path: Path) -> None:
    for m, d in ((1, 1), (3, 7), (2, 8)):
        network = make(levels, m, d, levels=levels)
        network.save(tmp_path / "n")
        _, header, arrays = read_archive(tmp_path / "n")
        np.testing.assert_array_equal(arrays["neurons"], packed_signs(network))
        if np.any(2 * m * d * (levels - 1).bit_length() % 8):
            damaged = arrays["neurons"].copy()
            damaged[-1] |= 1
            write_archive(tmp_path / "n", KIND, header, {**arrays, "neurons": damaged})
            with pytest.raises(StorageError, match="not a valid network"):
                load_network(tmp_path / "n")
    # Numbers beyond the levels mean nothing.
    width = (levels - 1).bit_length()
    for number in {levels, 2**width - 1} & set(range(levels, 2**width)):
        write_archive(tmp_path / "n", KIND, header, {**arrays, "neurons": packed(np.full((1, 32), number), width)[0]})
        with pytest.raises(StorageError, match="not a valid network"):
            load_network(tmp_path / "n")


def test_a_network_can_be_saved_where_it_was_loaded_from(tmp_path: Path) -> None:
    path = tmp_path / "n"
    make(0, 3, 5).save(path)
    loaded = load_network(path)
    make(1, 300, 50).save(path)  # the first one must not be a view of the replaced file
    assert_same(loaded, make(0, 3, 5))
    loaded.save(path)
    assert_same(load_network(path), loaded)


@pytest.mark.parametrize("C", [None, 3])
def test_equal_networks_of_levels_and_vectors_are_equal_bytes(tmp_path: Path, C: int | None) -> None:
    for name in "abcdefgh":
        make(0, 9, 13, levels=4, activation=(1, 2, 3), C=C, shared=C is not None).save(tmp_path / name)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


# -- writing: whole or not at all --------------------------------------------------------------------


def leave_the_old_file(path: Path, failure: type[BaseException]) -> None:
    old = path.read_bytes()
    with pytest.raises(failure):
        make(1, 20, 30).save(path)
    assert path.read_bytes() == old
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "a temporary file is left"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "network.qsdp"
    make(0, 3, 5).save(path)
    return path


def test_a_failing_rename_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError("no rename")

    monkeypatch.setattr(os, "replace", fail)
    leave_the_old_file(saved, PermissionError)


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt(), MemoryError()])
def test_a_failing_write_leaves_the_old_file(
    saved: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    opened = open

    class HalfWritten:
        def __init__(self, *arguments: Any) -> None:
            self.stream = opened(*arguments)

        def __enter__(self) -> HalfWritten:
            return self

        def __exit__(self, *_: object) -> None:
            self.stream.close()

        def write(self, blob: bytes) -> None:
            self.stream.write(blob[: len(blob) // 2])
            raise failure

    monkeypatch.setattr(builtins, "open", HalfWritten)
    leave_the_old_file(saved, type(failure))


def test_the_file_is_complete_when_it_gets_its_name(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    replace = os.replace

    def watch(source: Path, target: Path) -> None:
        sizes.append(Path(source).stat().st_size)
        assert Path(source).parent == Path(target).parent, "a rename is atomic in one folder only"
        replace(source, target)

    monkeypatch.setattr(os, "replace", watch)
    make(1, 20, 30).save(saved)
    assert sizes == [saved.stat().st_size]


def test_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "no such folder" / "network"
    with pytest.raises(FileNotFoundError, match="no such folder"):
        make(0, 3, 5).save(path)
    assert not path.parent.exists()


def test_a_folder_of_that_name_is_no_target(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        make(0, 3, 5).save(tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


# -- reading: damaged files --------------------------------------------------------------------------


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_network(tmp_path / "nowhere")
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        load_network(tmp_path)


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"\x00",
        b"\x00" * 8,
        b"\x00" * 1000,
        b"\xff" * 1000,
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 4) + b"null",
        struct.pack("<Q", 2) + b"[]",
        b"PK\x03\x04" + b"\x00" * 100,
        b"\x93NUMPY\x01\x00" + b"\x00" * 100,
        b"hello, world\n" * 20,
    ],
    ids=lambda contents: repr(contents[:12]),
)
def test_foreign_bytes(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(contents)
    with pytest.raises(StorageError, match="foreign"):
        load_network(path)


def test_truncation_at_every_97th_byte(tmp_path: Path) -> None:
    path = tmp_path / "n"
    make(0, 200, 77).save(path)
    blob = path.read_bytes()
    assert len(blob) > 5000
    for length in range(0, len(blob), 97):
        path.write_bytes(blob[:length])
        with pytest.raises(StorageError):
            load_network(path)
    path.write_bytes(blob[:-1])
    with pytest.raises(StorageError):
        load_network(path)


@pytest.mark.parametrize(
    "options", [{}, {"levels": 4, "activation": (1, 2, 3), "C": 2, "shared": True}], ids=["one output", "levels"]
)
def test_flipped_bits_of_every_byte_are_noticed(tmp_path: Path, options: dict[str, Any]) -> None:
    network = make(0, 3, 5, **options)
    assert not unnoticed_flips(network, tmp_path / "n", assert_same)


class Bomb:
    """Pickled, it makes a file when loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_a_pickle_is_not_executed(tmp_path: Path, protocol: int) -> None:
    marker, path = tmp_path / "executed", tmp_path / "pickle"
    path.write_bytes(pickle.dumps(Bomb(marker), protocol=protocol))
    with pytest.raises(StorageError):
        load_network(path)
    assert not marker.exists()


# -- reading: hostile files --------------------------------------------------------------------------

NETWORK = make(0, 3, 5)
HEADER: dict[str, Any] = {
    "n_neurons": 3,
    "n_inputs": 5,
    "sizes": None,
    "kinds": None,
    "n_outputs": None,
    "levels": 2,
    "activation": None,
}
ARRAYS = {
    "neurons": np.packbits(np.concatenate([NETWORK.U.ravel(), NETWORK.V.ravel()]) > 0),
    "alpha": NETWORK.alpha.copy(),
}


def test_the_hostile_files_would_load_without_their_fault(tmp_path: Path) -> None:
    write_archive(tmp_path / "n", KIND, HEADER, ARRAYS)
    assert_same(load_network(tmp_path / "n"), NETWORK)
    write_text(tmp_path / "n", KIND, json.dumps(HEADER), ARRAYS)
    assert_same(load_network(tmp_path / "n"), NETWORK)


#: What a header or arrays of a right digest may not say; None leaves the entry out.
HOSTILE: list[dict[str, Any]] = [
    *({name: value} for name in ("n_neurons", "n_inputs", "levels") for value in (10**20, -3, 0, 3.0, True, "3", None)),
    *({"n_inputs": value} for value in (4, 9)),
    *({"levels": value} for value in (3, 128, 129)),
    *({"activation": value} for value in ([0, 0, 0], [1, 2], ["1", "2", "3"], "quadratic", [10**400, 0, 0], [1, 0, 1])),
    {"surprise": [1, 0, 0]},
    *({"neurons": value} for value in (None, NETWORK.U, ARRAYS["neurons"][:2], ARRAYS["neurons"] | 1, np.uint8(7))),
    *(
        {"alpha": value}
        for value in (None, np.array([np.nan, 1, 1]), np.ones(3, np.float32), np.ones(2), np.ones((3, 0)))
    ),
    {"payload": np.zeros(3)},
    *(
        {"n_outputs": 2, "alpha": None, "shared": np.array(shared), "sizes": np.array(sizes)}
        for shared, sizes in [
            ([1.0, 2.0], [1, 1]),
            ([1.0, 2.0], [4, -1]),
            ([1.0] * 5, [2**62, 2**62, 2**62, 2**62, 3]),
            ([np.nan, 1.0], [2, 1]),
            ([1.0, 2.0], [2.0, 1.0]),
        ]
    ),
]


@pytest.mark.parametrize("changes", HOSTILE, ids=lambda changes: "-".join(f"{k} {v!r:.20}" for k, v in changes.items()))
def test_hostile_contents(tmp_path: Path, changes: dict[str, Any]) -> None:
    # Names of activations are refused: what they stand for could change with the version.
    tensors = {"neurons", "alpha", "payload", "shared", "sizes"}
    header = HEADER | {name: value for name, value in changes.items() if name not in tensors}
    arrays = ARRAYS | {name: value for name, value in changes.items() if name in tensors}
    header = {name: value for name, value in header.items() if value is not None or HEADER.get(name, 0) is None}
    arrays = {name: np.asarray(value) for name, value in arrays.items() if value is not None}
    write_text(tmp_path / "n", KIND, json.dumps(header), arrays)
    with pytest.raises(StorageError, match="not a valid network"):
        load_network(tmp_path / "n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[3, 5]",
        '{"n_neurons": NaN, "n_inputs": 5, "levels": 2, "activation": null}',
        '{"n_neurons": ' + "9" * 5000 + ', "n_inputs": 5, "levels": 2, "activation": null}',
        '{"n_neurons": "\ud800", "n_inputs": 5, "levels": 2, "activation": null}',
        '{"a":' * 100_000 + "1" + "}" * 100_000,
    ],
    ids=lambda text: text[:30] or "empty",
)
def test_hostile_header_text(tmp_path: Path, text: str) -> None:
    write_text(tmp_path / "n", KIND, text, ARRAYS)
    with pytest.raises(StorageError):
        load_network(tmp_path / "n")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"format": None}, "not a qsdp file"),
        ({"format": "QSDP"}, "not a qsdp file"),
        ({"version": None}, "version"),
        ({"version": "2"}, "version '2'"),
        ({"version": "1.0"}, "version"),
        ({"kind": None}, "expected a 'bilinear-network'"),
        ({"kind": "relaxation"}, "holds a 'relaxation'"),
        ({"sha256": None}, "digest"),
        ({"sha256": ""}, "digest"),
        ({"sha256": "0" * 64}, "digest"),
        ({"header": None}, "digest"),
        ({"header": '{"n_inputs": 5, "n_neurons":3}'}, "digest"),
    ],
)
def test_wrong_metadata(tmp_path: Path, changes: dict[str, str | None], word: str) -> None:
    write_text(tmp_path / "n", KIND, json.dumps(HEADER), ARRAYS, **changes)
    with pytest.raises(StorageError, match=word):
        load_network(tmp_path / "n")


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "{",
        "null",
        "1",
        '"qsdp"',
        "[]",
        '["format", "version", "kind", "header", "sha256"]',
        "{}",
        "NaN",
        "9" * 5000,
        "[" * 100_000 + "]" * 100_000,
        '{"format":' * 100_000 + "1" + "}" * 100_000,
    ],
    ids=lambda entry: entry[:20] or "empty",
)
def test_hostile_metadata(tmp_path: Path, entry: str) -> None:
    (tmp_path / "n").write_bytes(safetensors.numpy.save(ARRAYS, metadata={"qsdp": entry}))
    with pytest.raises(StorageError, match="not a qsdp file"):
        load_network(tmp_path / "n")


@pytest.mark.parametrize(
    ("dtype", "shape", "n_bytes"),
    [
        ("BF16", [1], 2),
        ("F8_E4M3", [1], 1),
        ("F8_E5M2", [1], 1),
        ("F4", [2], 1),
        ("F6_E2M3", [4], 3),
        ("NONSENSE", [1], 1),
        ("U8", [10**12], 1),
        ("U8", [2**63, 4], 1),
        ("U8", [2**64], 1),
        ("U8", [-1], 1),
        ("U8", [1.0], 1),
        ("U8", [0, 5], 0),
        ("U8", [1] * 100, 1),
    ],
)
def test_hostile_tensors(tmp_path: Path, dtype: str, shape: list[Any], n_bytes: int) -> None:
    # NumPy has no word for some of these, others claim more than the file holds.
    fields = {
        "format": "qsdp",
        "version": "1",
        "kind": KIND,
        "header": json.dumps(HEADER),
        "sha256": "0" * 64,
    }
    tensor = {"dtype": dtype, "shape": shape, "data_offsets": [0, n_bytes]}
    header = json.dumps({"__metadata__": {"qsdp": json.dumps(fields)}, "neurons": tensor}).encode()
    (tmp_path / "n").write_bytes(struct.pack("<Q", len(header)) + header + b"\x01" * n_bytes)
    with pytest.raises(StorageError):
        load_network(tmp_path / "n")


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    edits=st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=0, max_size=6), st.integers(0, 6)), min_size=1)
)
def test_random_edits(tmp_path: Path, edits: list[tuple[int, bytes, int]]) -> None:
    path = tmp_path / "n"
    NETWORK.save(path)
    blob = bytearray(path.read_bytes())
    for position, inserted, removed in edits:
        start = position % len(blob) if blob else 0
        blob[start : start + removed] = inserted
    path.write_bytes(blob)
    try:
        loaded = load_network(path)
    except StorageError:
        return
    assert_same(loaded, NETWORK)
