"""Data sets bundled with scikit-learn, which need no download."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from qsdp._utils.validation import check_choice
from qsdp.datasets._dataset import Dataset, Task
from qsdp.datasets._fetch import declarations


@dataclass(frozen=True)
class BundledSpec:
    """Description of a bundled data set, available without loading it."""

    loader: str
    n_samples: int
    n_features: int
    task: Task
    title: str
    source: str


SPECS: Mapping[str, BundledSpec] = MappingProxyType(
    {name: BundledSpec(**entry) for name, entry in declarations("bundled").items()}
)


def load_bundled(name: str) -> Dataset:
    """Load a set bundled with scikit-learn.

    Parameters
    ----------
    name : {"breast-cancer-wisconsin", "diabetes", "digits", "iris", "wine"}
        "breast-cancer-wisconsin" is binary with malignant = +1 and benign = -1 (scikit-learn itself codes malignant
        as 0). "diabetes" is a regression task. The others have classes 0, 1, ...

    Returns
    -------
    Dataset
        The set, which has no missing values.

    Examples
    --------
    >>> from qsdp.datasets import load_bundled
    >>> load_bundled("wine")
    Dataset('wine', X (178, 13), y (178,), multiclass)
    """
    spec = SPECS[check_choice("name", name, SPECS)]
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, spec.loader)()
    if spec.task == "binary":  # scikit-learn's class 0 is the positive one
        y = np.where(bunch.target == 0, 1.0, -1.0)
        target_names = tuple(str(label) for label in bunch.target_names[::-1])
    elif spec.task == "multiclass":
        y = bunch.target.astype(np.int64)
        target_names = tuple(str(label) for label in bunch.target_names)
    else:
        y = bunch.target.astype(np.float64)
        target_names = ("progression",)
    return Dataset(
        name=name,
        X=np.ascontiguousarray(bunch.data, dtype=np.float64),
        y=y,
        feature_names=tuple(str(feature) for feature in bunch.feature_names),
        target_names=target_names,
        task=spec.task,
        description=f"{name}: {spec.title}.\nSource: scikit-learn. {spec.source}\nMissing values: none.",
    )
