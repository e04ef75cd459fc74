"""MNIST and Fashion-MNIST, read from verified gzipped IDX files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import check_choice
from qsdp.datasets._fetch import RawFile, read_raw
from qsdp.exceptions import DatasetError

Images = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class ImagePart:
    """Part of a data set: files of images and of labels, and the shape (n, rows, columns) of the images."""

    images: RawFile
    labels: RawFile
    shape: tuple[int, int, int]


#: Beginnings of the names of the files of a part, and the shape of its images.
_PARTS = {"train": ("train", (60_000, 28, 28)), "test": ("t10k", (10_000, 28, 28))}

#: Number of classes of both sets.
_CLASSES = 10


def _parts(folder: str, mirrors: Sequence[str], checksums: Sequence[tuple[str, str]]) -> Mapping[str, ImagePart]:
    """Return the parts of a set from the checksums of each gzip file and of its content.

    The files are training images, training labels, test images and test labels, in this order.
    """
    parts = {}
    for number, (part, (prefix, shape)) in enumerate(_PARTS.items()):
        images, labels = (
            RawFile(f"{folder}/{name}", tuple(f"{url}/{name}" for url in mirrors), *pair)
            for name, pair in zip(
                (f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"),
                checksums[2 * number : 2 * number + 2],
                strict=True,
            )
        )
        parts[part] = ImagePart(images, labels, shape)
    return parts


SETS: Mapping[str, Mapping[str, ImagePart]] = {
    "mnist": _parts(
        "mnist",
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "https://storage.googleapis.com/cvdf-datasets/mnist",
            "http://yann.lecun.com/exdb/mnist",
        ),
        (
            (
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            (
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
            (
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            (
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        ),
    ),
    "fashion_mnist": _parts(
        "fashion_mnist",
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        ),
        (
            (
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            ),
            (
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            ),
            (
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            ),
            (
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            ),
        ),
    ),
}


def load_mnist(part: str = "train") -> Images:
    """Load a part of MNIST: 28 x 28 images of handwritten digits.

    The files are read from ``$QSDP_DATA/mnist/`` if the environment variable ``QSDP_DATA`` is set; otherwise they
    are downloaded once into the user's cache folder, which needs pooch (the extra ``download``). The checksums of
    their contents are verified.

    Parameters
    ----------
    part : {"train", "test"}, default "train"
        The 60000 training images or the 10000 test images.

    Returns
    -------
    images : ndarray of shape (n, 784), uint8
        One row per image, with its pixels in row-major order, from 0 (background) to 255.
    labels : ndarray of shape (n,), int64
        The digits.

    Raises
    ------
    DatasetError
        A file is not found, cannot be downloaded, or does not have the expected contents.
    MissingPackageError
        A download needs pooch, which is not installed.

    References
    ----------
    Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied to document recognition. Proceedings of
    the IEEE 86(11), 2278-2324, 1998. No licence is stated by the authors; it is usually given as CC BY-SA 3.0.

    Examples
    --------
    >>> from qsdp.datasets import load_mnist
    >>> images, labels = load_mnist("test")  # doctest: +SKIP
    >>> images.shape, labels[:3]  # doctest: +SKIP
    ((10000, 784), array([7, 2, 1]))
    """
    return _load("mnist", part)


def load_fashion_mnist(part: str = "train") -> Images:
    """Load a part of Fashion-MNIST: 28 x 28 images of ten kinds of clothing.

    The files are those in ``$QSDP_DATA/fashion_mnist/``, or downloaded, as in `load_mnist`. The labels 0 to 9 are
    T-shirt/top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag and ankle boot.

    Parameters
    ----------
    part : {"train", "test"}, default "train"
        The 60000 training images or the 10000 test images.

    Returns
    -------
    images : ndarray of shape (n, 784), uint8
        One row per image, as in `load_mnist`.
    labels : ndarray of shape (n,), int64
        The kinds of clothing.

    Raises
    ------
    DatasetError
        A file is not found, cannot be downloaded, or does not have the expected contents.
    MissingPackageError
        A download needs pooch, which is not installed.

    References
    ----------
    H. Xiao, K. Rasul, R. Vollgraf. Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms.
    arXiv:1708.07747, 2017. MIT licence, Zalando SE.

    Examples
    --------
    >>> from qsdp.datasets import load_fashion_mnist
    >>> images, labels = load_fashion_mnist("test")  # doctest: +SKIP
    >>> images.shape, labels[:3]  # doctest: +SKIP
    ((10000, 784), array([9, 2, 1]))
    """
    return _load("fashion_mnist", part)


def _load(name: str, part: str) -> Images:
    parts = SETS[name]
    files = parts[check_choice("part", part, parts)]
    images = _parse_idx(*read_raw(files.images), files.shape)
    path, content = read_raw(files.labels)
    labels = _parse_idx(path, content, files.shape[:1])
    if labels.max(initial=0) >= _CLASSES:
        raise DatasetError(f"{path}: a label is {labels.max()}, expected 0 to {_CLASSES - 1}")
    return images.reshape(len(images), -1), labels.astype(np.int64)


def _parse_idx(path: Path, content: bytes, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Parse an IDX file of unsigned bytes, which must have the shape `shape`.

    An IDX file holds two zero bytes, the type code (8: unsigned byte), the number of dimensions, each dimension as a
    big-endian 32-bit integer, and then the entries in row-major order.
    """
    start = 4 + 4 * len(shape)
    magic = bytes((0, 0, 8, len(shape)))
    if content[:4] != magic:
        raise DatasetError(
            f"{path}: the first four bytes are {content[:4].hex(' ') or 'missing'}, expected {magic.hex(' ')}: "
            f"not an IDX file of unsigned bytes in {len(shape)} dimension(s)"
        )
    if len(content) < start:
        raise DatasetError(f"{path}: the header ends after {len(content)} bytes, expected {start}")
    actual = tuple(int(size) for size in np.frombuffer(content, ">u4", count=len(shape), offset=4))
    if actual != shape:
        raise DatasetError(f"{path}: the header says shape {actual}, expected {shape}")
    if len(content) - start != math.prod(shape):
        raise DatasetError(f"{path}: {len(content) - start} bytes after the header, expected {math.prod(shape)}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
