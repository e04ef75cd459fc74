"""Networks on disk: exact round trips, whole or not at all, and nothing but an error from a bad file."""

from __future__ import annotations

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
from archives import digest, packed, read_archive, write_archive, write_text
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
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 40), d=st.integers(1, 40), shared=st.booleans())
def test_round_trip(tmp_path: Path, seed: int, m: int, d: int, shared: bool) -> None:
    network = make(seed, m, d, shared=shared)
    path = tmp_path / "network.qsdp"
    network.save(path)
    loaded = load_network(path)
    assert_same(loaded, network)
    assert loaded.n_bits == network.n_bits
    assert not loaded.U.flags.writeable
    X = np.random.default_rng(seed).standard_normal((3, d))
    np.testing.assert_array_equal(loaded.predict(X), network.predict(X))
    packed = -(-2 * m * d // 8) + 8 * (1 if network.shared_alpha else m)
    assert packed <= path.stat().st_size <= packed + HEADER_BYTES


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


@pytest.mark.parametrize("alpha", [5e-324, 1.7976931348623157e308, -0.1, 0.0, 1 / 3])
def test_extreme_alphas_come_back_exactly(tmp_path: Path, alpha: float) -> None:
    for values in ([alpha, alpha], [alpha, 1.0]):
        network = BilinearNetwork([[1], [-1]], [[1], [1]], values)
        network.save(tmp_path / "n")
        assert_same(load_network(tmp_path / "n"), network)


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


def test_paths_as_text_and_as_path(tmp_path: Path) -> None:
    network = make(0, 3, 5)
    network.save(str(tmp_path / "a name with spaces and ümläuts.bin"))
    assert_same(load_network(tmp_path / "a name with spaces and ümläuts.bin"), network)


def test_a_network_can_be_saved_where_it_was_loaded_from(tmp_path: Path) -> None:
    path = tmp_path / "n"
    make(0, 3, 5).save(path)
    loaded = load_network(path)
    make(1, 300, 50).save(path)  # the first one must not be a view of the replaced file
    assert_same(loaded, make(0, 3, 5))
    loaded.save(path)
    assert_same(load_network(path), loaded)


def test_equal_networks_are_equal_bytes(tmp_path: Path) -> None:
    # The metadata of safetensors is a hash map with a random seed: several entries would change places.
    for name in "abcdefgh":
        make(0, 9, 13).save(tmp_path / name)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    load_network(tmp_path / "a").save(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


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


def test_overwriting(saved: Path) -> None:
    make(1, 20, 30).save(saved)
    assert_same(load_network(saved), make(1, 20, 30))
    assert [entry.name for entry in saved.parent.iterdir()] == [saved.name]


def test_a_failing_rename_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError("no rename")

    monkeypatch.setattr(os, "replace", fail)
    leave_the_old_file(saved, PermissionError)


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt(), MemoryError()])
def test_a_failing_write_leaves_the_old_file(
    saved: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    class HalfWritten:
        def __init__(self, *arguments: Any) -> None:
            self.stream = open(*arguments)  # noqa: SIM115

        def __enter__(self) -> HalfWritten:
            return self

        def __exit__(self, *_: object) -> None:
            self.stream.close()

        def write(self, blob: bytes) -> None:
            self.stream.write(blob[: len(blob) // 2])
            raise failure

    monkeypatch.setattr("qsdp._utils.atomic_files.open", HalfWritten, raising=False)
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


@pytest.mark.parametrize("extra", [b"\x00", b" ", b"\n", b"x" * 100])
def test_trailing_bytes(saved: Path, extra: bytes) -> None:
    saved.write_bytes(saved.read_bytes() + extra)
    with pytest.raises(StorageError):
        load_network(saved)


@pytest.mark.parametrize(
    "options",
    [{}, {"shared": True}, {"levels": 4, "activation": (1, 2, 3), "C": 2, "shared": True}],
    ids=str,
)
def test_flipped_bits_of_every_byte_are_noticed(tmp_path: Path, options: dict[str, Any]) -> None:
    network = make(0, 3, 5, **options)
    assert not unnoticed_flips(network, tmp_path / "n", assert_same)


def test_swapped_arrays_are_noticed(saved: Path) -> None:
    blob = saved.read_bytes()
    swapped = blob.replace(b'"alpha":', b'"?":').replace(b'"neurons":', b'"alpha":').replace(b'"?":', b'"neurons":')
    assert swapped != blob
    saved.write_bytes(swapped)
    with pytest.raises(StorageError, match="digest"):
        load_network(saved)


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


@pytest.mark.parametrize("value", [10**12, 10**20, 2**63, -3, 0, 3.0, True, "3", None, [3], {}], ids=repr)
@pytest.mark.parametrize("name", ["n_neurons", "n_inputs", "levels"])
def test_hostile_sizes(tmp_path: Path, name: str, value: Any) -> None:
    write_archive(tmp_path / "n", KIND, HEADER | {name: value}, ARRAYS)
    with pytest.raises(StorageError, match="not a valid network"):
        load_network(tmp_path / "n")


@pytest.mark.parametrize("n_inputs", [1, 4, 9, 16])
def test_sizes_that_contradict_the_arrays(tmp_path: Path, n_inputs: int) -> None:
    write_archive(tmp_path / "n", KIND, HEADER | {"n_inputs": n_inputs}, ARRAYS)
    with pytest.raises(StorageError):
        load_network(tmp_path / "n")
    for n_neurons in (1, 2, 4):
        write_archive(tmp_path / "n", KIND, HEADER | {"n_neurons": n_neurons}, ARRAYS)
        with pytest.raises(StorageError):
            load_network(tmp_path / "n")


@pytest.mark.parametrize("levels", [1, 3, 4, 5, 128, 129, 256, 2**31])
def test_hostile_levels(tmp_path: Path, levels: int) -> None:
    # What takes more bits does not fit, and no level is more than 127.
    write_archive(tmp_path / "n", KIND, HEADER | {"levels": levels}, ARRAYS)
    with pytest.raises(StorageError, match="not a valid network"):
        load_network(tmp_path / "n")
    wide = np.zeros(-(-2 * 3 * 5 * (levels - 1).bit_length() // 8), np.uint8)
    write_archive(tmp_path / "n", KIND, HEADER | {"levels": levels}, ARRAYS | {"neurons": wide})
    if levels in range(2, 129):
        assert load_network(tmp_path / "n").U.tolist() == [[1 - levels] * 5] * 3
    else:
        with pytest.raises(StorageError, match="not a valid network"):
            load_network(tmp_path / "n")


@pytest.mark.parametrize(
    "value",
    [
        [0, 0, 0],
        [1, 2],
        [1, 2, 3, 4],
        [],
        ["1", "2", "3"],
        [True, 0, 0],
        [1, None, 0],
        [[1], [2], [3]],
        {},
        "tanh",
        "quadratic",
        {"a": 1, "b": 0, "c": 0},
        1.0,
        True,
        False,
        0,
        "",
        [10**400, 0, 0],
    ],
    ids=lambda value: f"{value!r:.20}",
)
def test_hostile_activations(tmp_path: Path, value: Any) -> None:
    # Not a name either: what it stands for could change with the version.
    write_archive(tmp_path / "n", KIND, HEADER | {"activation": value}, ARRAYS)
    with pytest.raises(StorageError, match="not a valid network"):
        load_network(tmp_path / "n")


def test_an_activation_that_contradicts_the_arrays(tmp_path: Path) -> None:
    # With the lifted entry, neurons of 8 inputs take 18 bits in place of 16.
    eight = {"neurons": np.full(6, 255, np.uint8)}
    header = HEADER | {"n_inputs": 8, "activation": [1.0, 0.0, 0.0]}
    write_archive(tmp_path / "n", KIND, header, ARRAYS | eight)
    assert load_network(tmp_path / "n").U.tolist() == [[1] * 8] * 3
    write_archive(tmp_path / "n", KIND, header | {"activation": [1.0, 0.0, 1.0]}, ARRAYS | eight)
    with pytest.raises(StorageError, match="bits are left where 24 are expected"):
        load_network(tmp_path / "n")


@pytest.mark.parametrize(
    ("shared", "sizes"),
    [
        ([1.0, 2.0], [1, 1]),
        ([1.0, 2.0], [4, -1]),
        ([1.0, 2.0, 3.0, 4.0, 5.0], [2**62, 2**62, 2**62, 2**62, 3]),
        ([1.0, 2.0], [3]),
        ([1.0], [2, 1]),
        ([], []),
        ([np.nan, 1.0], [2, 1]),
        ([np.inf, 1.0], [3, 0]),
        ([[1.0, 2.0]], [[2, 1]]),
    ],
    ids=str,
)
def test_hostile_shared_weights(tmp_path: Path, shared: Any, sizes: Any) -> None:
    good = {"shared": np.array([1.0, 2.0]), "sizes": np.array([2, 1])}
    weights, header = {"neurons": ARRAYS["neurons"]}, HEADER | {"n_outputs": 2}
    write_archive(tmp_path / "n", KIND, header, weights | good)
    assert load_network(tmp_path / "n").alpha.tolist() == [[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]]
    for arrays in (
        {"shared": np.array(shared), "sizes": np.array(sizes, dtype=np.int64)},
        good | {"sizes": np.array([2.0, 1.0])},
        good | {"sizes": np.array([2, 1], dtype=np.int32)},
        good | {"shared": np.ones(2, np.float32)},
        good | {"alpha": np.ones(3)},
        {"shared": good["shared"]},
        {"sizes": good["sizes"]},
    ):
        write_archive(tmp_path / "n", KIND, header, weights | arrays)
        with pytest.raises(StorageError, match="not a valid network"):
            load_network(tmp_path / "n")


@pytest.mark.parametrize("missing", sorted(HEADER))
def test_missing_sizes(tmp_path: Path, missing: str) -> None:
    write_archive(tmp_path / "n", KIND, {k: v for k, v in HEADER.items() if k != missing}, ARRAYS)
    with pytest.raises(StorageError, match=f"not a valid network: .*{missing}"):
        load_network(tmp_path / "n")


@pytest.mark.parametrize(
    "alpha",
    [
        np.array([np.nan, 1.0, 1.0]),
        np.array([1.0, np.inf, 1.0]),
        np.array([1.0, 1.0, -np.inf]),
        np.array([np.nan]),
        np.ones(3, np.float32),
        np.ones(3, np.float16),
        np.ones(3, np.int64),
        np.ones(3, bool),
        np.ones(3, np.complex64),
        np.ones(2),
        np.ones(4),
        np.ones(0),
        np.ones((3, 0)),
        np.ones((3, 1, 1)),
        np.ones((1, 3)),
        np.array(1.0),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_hostile_alpha(tmp_path: Path, alpha: np.ndarray) -> None:
    write_text(tmp_path / "n", KIND, json.dumps(HEADER), ARRAYS | {"alpha": alpha})
    with pytest.raises(StorageError):
        load_network(tmp_path / "n")


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.astype(np.int8),
        lambda a: a.astype(np.float64),
        lambda a: a > 0,
        lambda a: a[:2],
        lambda a: a[:0],
        lambda a: np.hstack([a, a]),
        lambda a: np.append(a, np.uint8(0)),
        lambda a: a[None],
        lambda a: np.array(7, np.uint8),
        lambda a: a | 1,
    ],
    ids=[
        *("int8", "float64", "bool", "few bytes", "no bytes", "twice", "another byte"),
        *("two-dimensional", "scalar", "bits beyond the last one"),
    ],
)
def test_hostile_weights(tmp_path: Path, change: Any) -> None:
    neurons = np.ascontiguousarray(change(ARRAYS["neurons"]))
    write_text(tmp_path / "n", KIND, json.dumps(HEADER), ARRAYS | {"neurons": neurons})
    with pytest.raises(StorageError):
        load_network(tmp_path / "n")


@pytest.mark.parametrize("name", ["neurons", "alpha"])
def test_scalar_tensors(tmp_path: Path, name: str) -> None:
    header = HEADER | {"n_neurons": 1}
    arrays = {"neurons": ARRAYS["neurons"][:2] & np.uint8(192), "alpha": ARRAYS["alpha"][:1]}
    write_text(tmp_path / "n", KIND, json.dumps(header), arrays | {name: np.array(0, arrays[name].dtype)})
    with pytest.raises(StorageError):
        load_network(tmp_path / "n")


@pytest.mark.parametrize("missing", ["neurons", "alpha"])
def test_missing_tensors(tmp_path: Path, missing: str) -> None:
    write_archive(tmp_path / "n", KIND, HEADER, {k: v for k, v in ARRAYS.items() if k != missing})
    with pytest.raises(StorageError, match=rf"not a valid network: .*({missing}|arrays \['neurons'\])"):
        load_network(tmp_path / "n")


def test_extra_tensors_are_refused(tmp_path: Path) -> None:
    write_archive(tmp_path / "n", KIND, HEADER, ARRAYS | {"payload": np.zeros(3)})
    with pytest.raises(StorageError, match=r"not a valid network: .*payload"):
        load_network(tmp_path / "n")


def test_extra_entries_of_the_header_are_refused(tmp_path: Path) -> None:
    # The header is strict: what this version does not know could change what the file means.
    write_archive(tmp_path / "n", KIND, HEADER | {"surprise": [1, 0, 0]}, ARRAYS)
    with pytest.raises(StorageError, match=r"not a valid network: header must have exactly the fields"):
        load_network(tmp_path / "n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[3, 5]",
        '"n_neurons"',
        '{"n_neurons": NaN, "n_inputs": 5, "levels": 2, "activation": null}',
        '{"n_neurons": 1e999, "n_inputs": 5, "levels": 2, "activation": null}',
        '{"n_neurons": 3, "n_inputs": 5, "levels": 2, "activation": [NaN, 0, 0]}',
        '{"n_neurons": 3, "n_inputs": 5, "levels": 2, "activation": [Infinity, 0, 0]}',
        '{"n_neurons": ' + "9" * 5000 + ', "n_inputs": 5, "levels": 2, "activation": null}',
        "[" * 100_000 + "]" * 100_000,
        '{"n_inputs": 5, "n_neurons": 3, "levels": 2, "activation": ' + "[" * 100_000 + "]" * 100_000 + "}",
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


@pytest.mark.parametrize("value", [1, ["qsdp"], HEADER], ids=repr)
@pytest.mark.parametrize("name", ["format", "version", "kind", "header", "sha256"])
def test_metadata_of_wrong_types(tmp_path: Path, name: str, value: Any) -> None:
    write_text(tmp_path / "n", KIND, json.dumps(HEADER), ARRAYS, **{name: value})
    with pytest.raises(StorageError):
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


def test_metadata_in_entries_of_their_own_is_not_ours(tmp_path: Path) -> None:
    text = json.dumps(HEADER)
    metadata = {
        "format": "qsdp",
        "version": "1",
        "kind": KIND,
        "header": text,
        "sha256": digest(KIND, text, ARRAYS),
    }
    (tmp_path / "n").write_bytes(safetensors.numpy.save(ARRAYS, metadata=metadata))
    with pytest.raises(StorageError, match="not a qsdp file"):
        load_network(tmp_path / "n")


@pytest.mark.parametrize("name", ["format", "version", "kind", "header", "sha256"])
def test_lone_surrogates_in_the_metadata(tmp_path: Path, name: str) -> None:
    write_text(tmp_path / "n", KIND, json.dumps(HEADER), ARRAYS, **{name: "\ud800"})
    with pytest.raises(StorageError):
        load_network(tmp_path / "n")


def test_lone_surrogates_under_a_right_digest(tmp_path: Path) -> None:
    write_text(tmp_path / "n", KIND, '{"n_neurons": "\ud800", "n_inputs": 5, "levels": 2, "activation": null}', ARRAYS)
    with pytest.raises(StorageError, match="not a valid network"):
        load_network(tmp_path / "n")


def test_a_safetensors_file_without_our_header(tmp_path: Path) -> None:
    safetensors.numpy.save_file(ARRAYS, tmp_path / "plain")
    with pytest.raises(StorageError, match="not a qsdp file"):
        load_network(tmp_path / "plain")


def test_another_kind(tmp_path: Path) -> None:
    write_archive(tmp_path / "n", "relaxation", HEADER, ARRAYS)
    with pytest.raises(StorageError, match="'relaxation'"):
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
    max_examples=300,
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
