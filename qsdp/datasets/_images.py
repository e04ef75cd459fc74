"""MNIST and Fashion-MNIST, read from verified gzipped IDX files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import check_choice
from qsdp.datasets._dataset import Dataset
from qsdp.datasets._fetch import RawFile, declarations, read_unpacked
from qsdp.exceptions import DatasetError

Images = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class ImagePart:
    """Part of a data set: files of images and of labels, and the shape (n, rows, columns) of the images."""

    images: RawFile
    labels: RawFile
    shape: tuple[int, int, int]


@dataclass(frozen=True)
class ImageSpec:
    """Declaration of an image data set: its training and test parts, and its description."""

    parts: Mapping[str, ImagePart]
    classes: tuple[str, ...]
    title: str
    origin: Literal["LeCun", "Zalando"]
    citation: str
    licence: str


def _spec(entry: dict[str, Any]) -> ImageSpec:
    parts = {part: ImagePart(**fields) for part, fields in entry.pop("parts").items()}
    return ImageSpec(parts=parts, **entry)


SPECS: Mapping[str, ImageSpec] = MappingProxyType(
    {name: _spec(entry) for name, entry in declarations("images").items()}
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

    Examples
    --------
    >>> from qsdp.datasets import load_fashion_mnist
    >>> images, labels = load_fashion_mnist("test")  # doctest: +SKIP
    >>> images.shape, labels[:3]  # doctest: +SKIP
    ((10000, 784), array([9, 2, 1]))
    """
    return load_images("fashion-mnist", part)


def load_images(name: str, part: str) -> Images:
    """Load images of shape (n, rows * columns) and labels of the data set `name`."""
    spec = SPECS[name]
    files = spec.parts[check_choice("part", part, spec.parts)]
    images = parse_idx(*read_unpacked(files.images), files.shape)
    path, content = read_unpacked(files.labels)
    labels = parse_idx(path, content, files.shape[:1])
    if labels.max(initial=0) >= len(spec.classes):
        raise DatasetError(f"{path}: a label is {labels.max()}, expected 0 to {len(spec.classes) - 1}")
    return images.reshape(len(images), -1), labels.astype(np.int64)


def load_training_part(name: str) -> Dataset:
    """Load the training images of the data set `name` in float64, as a `Dataset`."""
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
    found = tuple(int(size) for size in np.frombuffer(content, ">u4", count=len(shape), offset=4))
    if found != shape:
        raise DatasetError(f"{path}: the header says shape {found}, expected {shape}")
    if len(content) - start != math.prod(shape):
        raise DatasetError(f"{path}: {len(content) - start} bytes after the header, expected {math.prod(shape)}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
