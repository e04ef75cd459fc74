import gzip
import hashlib
import os
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pooch
import pytest

from qsdp.datasets import _images, load_fashion_mnist, load_mnist
from qsdp.datasets._fetch import RawFile
from qsdp.exceptions import DatasetError, MissingPackageError

PIXELS = np.arange(5 * 3 * 2, dtype=np.uint8).reshape(5, 3, 2) * 8
LABELS = np.array([3, 0, 9, 1, 3], dtype=np.uint8)


def idx(array: np.ndarray, kind: int = 0x08) -> bytes:
    """The IDX format by its specification, written without the reader's help."""
    return struct.pack(">BBBB", 0, 0, kind, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Tiny:
    """A set of five images in the place of MNIST, whose files a test can damage."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        self.images_path = folder / "mnist/train-images-idx3-ubyte.gz"
        self.labels_path = folder / "mnist/train-labels-idx1-ubyte.gz"
        self.images_path.parent.mkdir(parents=True)
        self.declare(idx(PIXELS), idx(LABELS))

    def declare(self, images: bytes, labels: bytes, mirrors: tuple[str, ...] = ("http://127.0.0.1:1",)) -> None:
        """Write both files and declare their checksums."""
        files = []
        for path, content in ((self.images_path, images), (self.labels_path, labels)):
            packed = gzip.compress(content, mtime=0)
            path.write_bytes(packed)
            local = path.relative_to(self.folder).as_posix()
            urls = tuple(f"{mirror}/{path.name}" for mirror in mirrors)
            files.append(RawFile(local, urls, sha256(packed), sha256(content)))
        parts = {**_images.SETS["mnist"], "train": _images.ImagePart(*files, (5, 3, 2))}
        self.monkeypatch.setitem(_images.SETS, "mnist", parts)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    monkeypatch.setenv("QSDP_DATA", str(tmp_path))
    return Tiny(tmp_path, monkeypatch)


def refused(match: str) -> str:
    with pytest.raises(DatasetError, match=match) as caught:
        load_mnist("train")
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- what is read ------------------------------------------------------------------------------


def test_images_are_rows_of_bytes_and_labels_integers(tiny):
    images, labels = load_mnist()
    assert images.dtype == np.uint8
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(images, PIXELS.reshape(5, 6))
    np.testing.assert_array_equal(labels, LABELS)
    images[0, 0] = labels[0] = 1  # the caller's own


# --- files that are not as they should be ------------------------------------------------------


def test_other_content_is_a_checksum_mismatch(tiny):
    other = idx(PIXELS[::-1])
    tiny.images_path.write_bytes(gzip.compress(other))
    message = refused("damaged or another version")
    for part in (str(tiny.images_path), sha256(other), sha256(idx(PIXELS)), "replace it by"):
        assert part in message


def test_every_flipped_byte_is_noticed_or_harmless(tiny):
    packed = tiny.images_path.read_bytes()
    noticed = 0
    for position in range(len(packed)):
        damaged = bytearray(packed)
        damaged[position] ^= 0xFF
        tiny.images_path.write_bytes(bytes(damaged))
        try:
            images, _ = load_mnist()
        except DatasetError as error:
            noticed += str(tiny.images_path) in str(error)
        else:
            # Time stamp, flags for speed and operating system are not part of the content.
            assert 4 <= position < 10
            np.testing.assert_array_equal(images, PIXELS.reshape(5, 6))
    assert noticed >= len(packed) - 6


CONTENTS = {
    "empty": (b"", "first four bytes are missing, expected 00 00 08 03"),
    "wrong magic": (b"\x89PNG" + bytes(40), "first four bytes are 89 50 4e 47, expected 00 00 08 03"),
    "floats": (idx(PIXELS.astype(">f4"), kind=0x0D), "first four bytes are 00 00 0d 03"),
    "two dimensions": (idx(PIXELS.reshape(5, 6)), "first four bytes are 00 00 08 02"),
    "short header": (idx(PIXELS)[:15], "header ends after 15 bytes, expected 16"),
    "other header": (idx(PIXELS.transpose(0, 2, 1)), r"header says shape \(5, 2, 3\), expected \(5, 3, 2\)"),
    "header too large": (idx(PIXELS[:4]), r"header says shape \(4, 3, 2\)"),
    "pixels missing": (idx(PIXELS)[:-1], "29 bytes after the header, expected 30"),
    "pixels too many": (idx(PIXELS) + b"\n", "31 bytes after the header, expected 30"),
}


@pytest.mark.parametrize("what", CONTENTS)
def test_content_that_is_not_the_declared_array(tiny, what):
    content, match = CONTENTS[what]
    tiny.declare(content, idx(LABELS))
    assert str(tiny.images_path) in refused(match)


def test_without_pooch_a_folder_is_read_and_a_download_is_refused_with_both_remedies(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    np.testing.assert_array_equal(load_mnist()[1], LABELS)
    monkeypatch.delenv("QSDP_DATA")
    expected = (
        "downloading http://127.0.0.1:1/train-images-idx3-ubyte.gz needs pooch: pip install pooch, or set the "
        "environment variable QSDP_DATA to a folder that holds the file as mnist/train-images-idx3-ubyte.gz"
    )
    with pytest.raises(MissingPackageError) as caught:
        load_mnist()
    assert str(caught.value) == expected


# --- mirrors -----------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(tiny, tmp_path, monkeypatch):
    """A server with three mirrors, of which one lacks the files and one serves them damaged; no QSDP_DATA."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests, server.files = [], {}
    address = f"http://127.0.0.1:{server.server_port}"
    for path in (tiny.images_path, tiny.labels_path):
        server.files[f"/good/{path.name}"] = path.read_bytes()
        server.files[f"/damaged/{path.name}"] = path.read_bytes()[:-1]
    server.address = address
    monkeypatch.delenv("QSDP_DATA")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def use_mirrors(tiny, server, *names):
    tiny.declare(idx(PIXELS), idx(LABELS), tuple(f"{server.address}/{name}" for name in names))


def test_the_next_mirror_is_asked_when_one_fails(tiny, server, tmp_path):
    use_mirrors(tiny, server, "absent", "damaged", "good", "never")
    for _ in range(2):
        images, labels = load_mnist()
        np.testing.assert_array_equal(images, PIXELS.reshape(5, 6))
        np.testing.assert_array_equal(labels, LABELS)
    names = (tiny.images_path.name, tiny.labels_path.name)
    assert server.requests == [f"/{mirror}/{name}" for name in names for mirror in ("absent", "damaged", "good")]
    cached = sorted(path.relative_to(tmp_path / "cache").as_posix() for path in (tmp_path / "cache").rglob("*.*"))
    assert cached == [f"mnist/{name}" for name in names]


# --- declarations and the real files -----------------------------------------------------------


def real(name):
    """Skip where the real files are not: tests never download."""
    if not Path(os.environ.get("QSDP_DATA") or os.devnull, name).is_dir():
        pytest.skip(f"{name} not found: set QSDP_DATA")


@pytest.mark.usefixtures("qsdp_data")
@pytest.mark.parametrize(
    ("name", "load", "first", "counts", "mean"),
    [
        # Counts and first labels: the table of the authors' pages. Means of the training pixels over 255: the ones
        # that everyone normalises by.
        ("mnist", load_mnist, [5, 0, 4, 1, 9], [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949], 0.1307),
        ("fashion_mnist", load_fashion_mnist, [9, 0, 0, 3, 0], [6000] * 10, 0.2860),
    ],
)
def test_real_training_part(name, load, first, counts, mean):
    real(name)
    images, labels = load()
    assert images.shape == (60_000, 784)
    np.testing.assert_array_equal(labels[:5], first)
    np.testing.assert_array_equal(np.bincount(labels), counts)
    assert images.mean() / 255 == pytest.approx(mean, abs=5e-5)


@pytest.mark.usefixtures("qsdp_data")
@pytest.mark.parametrize(
    ("name", "load", "counts"),
    [
        ("mnist", load_mnist, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
        ("fashion_mnist", load_fashion_mnist, [1000] * 10),
    ],
)
def test_real_test_part(name, load, counts):
    real(name)
    images, labels = load("test")
    assert images.shape == (10_000, 784)
    assert (images.min(), images.max()) == (0, 255)
    np.testing.assert_array_equal(np.bincount(labels), counts)
