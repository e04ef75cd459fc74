"""Catalogue of all named data sets, and a function that loads any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qsdp._utils.validation import check_choice
from qsdp.datasets import _bundled, _images, _uci
from qsdp.datasets._dataset import Dataset, Task
from qsdp.datasets._fetch import RawFile, is_present


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a data set, available before it is loaded."""

    name: str
    n_samples: int
    n_features: int
    task: Task
    source: Literal["scikit-learn", "UCI", "LeCun", "Zalando"]
    description: str

    def available(self) -> bool:
        """Whether the set can be loaded without a download; its files are not verified."""
        return all(is_present(file) for file in _files(self.name))


def list_datasets() -> tuple[DatasetInfo, ...]:
    """List the data sets that `load_dataset` provides, without loading any of them.

    Returns
    -------
    tuple of DatasetInfo
        With `name`, `n_samples`, `n_features`, `task`, `source` ("scikit-learn", "UCI", "LeCun" or "Zalando")
        and a `description` of one line; `available()` returns whether it can be loaded without a download.

    Examples
    --------
    >>> from qsdp.datasets import list_datasets
    >>> for info in list_datasets():
    ...     print(info.name, info.n_samples, info.n_features, info.source)
    breast-cancer-wisconsin 569 30 scikit-learn
    diabetes 442 10 scikit-learn
    iris 150 4 scikit-learn
    wine 178 13 scikit-learn
    digits 1797 64 scikit-learn
    breast-cancer 286 9 UCI
    ionosphere 351 33 UCI
    credit-approval 690 15 UCI
    vehicle 846 18 UCI
    adult 48842 14 UCI
    banknote 1372 4 UCI
    heart 270 13 UCI
    pima 768 8 UCI
    spambase 4601 57 UCI
    glass 214 9 UCI
    letter 20000 16 UCI
    wine-quality 6497 11 UCI
    wine-quality-red 1599 11 UCI
    wine-quality-white 4898 11 UCI
    mnist 60000 784 LeCun
    fashion-mnist 60000 784 Zalando
    """
    bundled = (
        DatasetInfo(name, spec.n_samples, spec.n_features, spec.task, "scikit-learn", spec.title)
        for name, spec in _bundled.SPECS.items()
    )
    uci = (
        DatasetInfo(name, spec.n_samples, len(spec.features), spec.task, "UCI", spec.title)
        for name, spec in _uci.SPECS.items()
    )
    images = (
        DatasetInfo(name, n, n_rows * n_columns, "multiclass", spec.origin, spec.title)
        for name, spec in _images.SPECS.items()
        for n, n_rows, n_columns in (spec.parts["train"].shape,)
    )
    return (*bundled, *uci, *images)


def load_dataset(name: str) -> Dataset:
    """Load a data set by its name; UCI sets have their default encoding.

    Parameters
    ----------
    name : str
        A name in `list_datasets`.

    Returns
    -------
    Dataset
        The set as `load_bundled` or `load_uci` returns it. For "mnist" and "fashion-mnist", the 60000 training images
        in float64 (359 MiB); `load_mnist` and `load_fashion_mnist` return bytes, and also the test part.

    Examples
    --------
    >>> from qsdp.datasets import load_dataset
    >>> X, y = load_dataset("breast-cancer-wisconsin")
    >>> X.shape
    (569, 30)
    """
    check_choice("name", name, (*_bundled.SPECS, *_uci.SPECS, *_images.SPECS))
    if name in _images.SPECS:
        return _images.load_training_part(name)
    return _bundled.load_bundled(name) if name in _bundled.SPECS else _uci.load_uci(name)


def _files(name: str) -> tuple[RawFile, ...]:
    if name in _images.SPECS:
        return tuple(file for part in _images.SPECS[name].parts.values() for file in (part.images, part.labels))
    return _uci.SPECS[name].files if name in _uci.SPECS else ()
