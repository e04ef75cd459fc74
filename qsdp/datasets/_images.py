"""MNIST and Fashion-MNIST, read from verified gzipped IDX files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import check_choice
from qsdp.datasets._dataset import Dataset
from qsdp.datasets._fetch import RawFile, read_unpacked
from qsdp.exceptions import DatasetError

Images = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]

_CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


@dataclass(frozen=True)
class ImagePart:
    """Part of a set: files of images and of labels, and the shape (n, rows, columns) of the images."""

    images: RawFile
    labels: RawFile
    shape: tuple[int, int, int]


@dataclass(frozen=True)
class ImageSpec:
    """Declaration of one set: its training and test parts, and its description."""

    parts: Mapping[str, ImagePart]
    classes: tuple[str, ...]
    title: str
    origin: Literal["LeCun", "Zalando"]
    citation: str
    licence: str


_MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    "http://yann.lecun.com/exdb/mnist",
)
_FASHION_MIRRORS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion",
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
)


def _part(folder: str, prefix: str, n: int, mirrors: tuple[str, ...], *sha256: str) -> ImagePart:
    """Return a part, given the checksums of images and labels, each packed and unpacked."""
    images, labels = (
        RawFile(f"{folder}/{name}", name, packed, unpacked, mirrors)
        for name, packed, unpacked in (
            (f"{prefix}-images-idx3-ubyte.gz", *sha256[:2]),
            (f"{prefix}-labels-idx1-ubyte.gz", *sha256[2:]),
        )
    )
    return ImagePart(images, labels, (n, 28, 28))


SPECS: Mapping[str, ImageSpec] = MappingProxyType(
    {
        "mnist": ImageSpec(
            parts={
                "train": _part(
                    "mnist",
                    "train",
                    60_000,
                    _MNIST_MIRRORS,
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                ),
                "test": _part(
                    "mnist",
                    "t10k",
                    10_000,
                    _MNIST_MIRRORS,
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                ),
            },
            classes=tuple("0123456789"),
            title="handwritten digits as 28 x 28 images with values from 0 to 255",
            origin="LeCun",
            citation=(
                "Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied to document "
                "recognition. Proceedings of the IEEE 86(11), 2278-2324, 1998."
            ),
            licence="none stated by the authors, usually given as CC BY-SA 3.0",
        ),
        "fashion-mnist": ImageSpec(
            parts={
                "train": _part(
                    "fashion_mnist",
                    "train",
                    60_000,
                    _FASHION_MIRRORS,
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                ),
                "test": _part(
                    "fashion_mnist",
                    "t10k",
                    10_000,
                    _FASHION_MIRRORS,
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                ),
            },
            classes=_CLOTHES,
            title="ten kinds of clothing as 28 x 28 images with values from 0 to 255",
            origin="Zalando",
            citation=(
                "H. Xiao, K. Rasul, R. Vollgraf. Fashion-MNIST: a novel image dataset for benchmarking machine "
                "learning algorithms. arXiv:1708.07747, 2017."
            ),
            licence="MIT, Zalando SE",
        ),
    }
)


def load_mnist(part: str = "train") -> Images:
    """Load a part of MNIST: 28 x 28 images of handwritten digits.

    The files are read from ``$QSDP_DATA/mnist/`` if the environment variable ``QSDP_DATA`` is set; otherwise they
    are downloaded once into the user's cache folder. The checksums of their contents are verified.

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

    Examples
    --------
    >>> from qsdp.datasets import load_mnist
    >>> images, labels = load_mnist("test")  # doctest: +SKIP
    >>> images.shape, labels[:3]  # doctest: +SKIP
    ((10000, 784), array([7, 2, 1]))
    """
    return load_images("mnist", part)


def load_fashion_mnist(part: str = "train") -> Images:
    """Load a part of Fashion-MNIST: 28 x 28 images of ten kinds of clothing.

    The parts, shapes and errors are those of `load_mnist`. The files are those in ``$QSDP_DATA/fashion_mnist/``. The
    labels 0 to 9 are T-shirt/top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag and ankle boot.

    Examples
    --------
    >>> from qsdp.datasets import load_fashion_mnist
    >>> images, labels = load_fashion_mnist("test")  # doctest: +SKIP
    >>> images.shape, labels[:3]  # doctest: +SKIP
    ((10000, 784), array([9, 2, 1]))
    """
    return load_images("fashion-mnist", part)


def load_images(name: str, part: str) -> Images:
    """Return images of shape (n, rows * columns) and labels of the set `name`."""
    spec = SPECS[name]
    files = spec.parts[check_choice("part", part, spec.parts)]
    images = parse_idx(*read_unpacked(files.images), files.shape)
    path, content = read_unpacked(files.labels)
    labels = parse_idx(path, content, files.shape[:1])
    if labels.max(initial=0) >= len(spec.classes):
        raise DatasetError(f"{path}: a label is {labels.max()}, expected 0 to {len(spec.classes) - 1}")
    return images.reshape(len(images), -1), labels.astype(np.int64)


def load_training_part(name: str) -> Dataset:
    """Return the training images of the set `name` in float64, as a `Dataset`."""
    spec = SPECS[name]
    images, labels = load_images(name, "train")
    _, n_rows, n_columns = spec.parts["train"].shape
    lines = (
        f"{name}: {spec.title}; the training part.",
        f"Source: {spec.parts['train'].images.url.rsplit('/', 1)[0]}",
        spec.citation,
        f"Licence: {spec.licence}.",
        "Missing values: none.",
    )
    return Dataset(
        name=name,
        X=images.astype(np.float64),
        y=labels,
        feature_names=tuple(f"pixel_{i}_{j}" for i in range(n_rows) for j in range(n_columns)),
        target_names=spec.classes,
        task="multiclass",
        description="\n".join(lines),
    )


def parse_idx(path: Path, content: bytes, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Return the array of unsigned bytes in an IDX file, which must have the given shape.

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
    found = tuple(int(size) for size in np.frombuffer(content, ">u4", count=len(shape), offset=4))
    if found != shape:
        raise DatasetError(f"{path}: the header says shape {found}, expected {shape}")
    if len(content) - start != math.prod(shape):
        raise DatasetError(f"{path}: {len(content) - start} bytes after the header, expected {math.prod(shape)}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
