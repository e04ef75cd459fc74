"""Data sets bundled with scikit-learn, which need no download."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from qsdp._utils.validation import check_choice
from qsdp.datasets._dataset import Dataset, Task


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
    {
        "breast-cancer-wisconsin": BundledSpec(
            "load_breast_cancer",
            569,
            30,
            "binary",
            "malignant (+1) or benign (-1) tumours from 30 measures of cell nuclei",
            "W. H. Wolberg, W. N. Street, O. L. Mangasarian. Breast Cancer Wisconsin (Diagnostic). UCI Machine "
            "Learning Repository, 1995. CC BY 4.0.",
        ),
        "diabetes": BundledSpec(
            "load_diabetes",
            442,
            10,
            "regression",
            "disease progression after one year from 10 scaled baseline measures",
            "B. Efron, T. Hastie, I. Johnstone, R. Tibshirani. Least angle regression. Annals of Statistics 32(2), "
            "407-499, 2004. No licence stated. The columns are centred and scaled to a sum of squares of 1.",
        ),
        "iris": BundledSpec(
            "load_iris",
            150,
            4,
            "multiclass",
            "three species of iris from 4 lengths and widths",
            "R. A. Fisher. The use of multiple measurements in taxonomic problems. Annals of Eugenics 7(2), 179-188, "
            "1936. UCI Machine Learning Repository, CC BY 4.0.",
        ),
        "wine": BundledSpec(
            "load_wine",
            178,
            13,
            "multiclass",
            "three cultivars of wine from 13 chemical measures",
            "M. Forina et al., Institute of Pharmaceutical and Food Analysis and Technologies, Genoa. Wine. UCI "
            "Machine Learning Repository. CC BY 4.0.",
        ),
        "digits": BundledSpec(
            "load_digits",
            1797,
            64,
            "multiclass",
            "handwritten digits as 8 x 8 images with values from 0 to 16",
            "E. Alpaydin, C. Kaynak. Optical Recognition of Handwritten Digits (its test set). UCI Machine Learning "
            "Repository, 1998. CC BY 4.0.",
        ),
    }
)


def load_bundled(name: str) -> Dataset:
    """Load a table that comes with scikit-learn.

    Parameters
    ----------
    name : {"breast-cancer-wisconsin", "diabetes", "digits", "iris", "wine"}
        "breast-cancer-wisconsin" is binary with malignant = +1 and benign = -1 (scikit-learn itself codes malignant
        as 0). "diabetes" is a regression task. The others have classes 0, 1, ...

    Returns
    -------
    Dataset
        Unpacks as ``X, y = load_bundled(name)``; there are no missing values. Its attributes are `X`, `y`, `name`,
        `feature_names`, `target_names` (binary: the negative class, then the positive one; several classes: that of
        each integer; regression: the target), `task` ("binary", "multiclass" or "regression") and `description`
        (source, citation and licence). Its ``split(random_state=0)`` returns ``X_train, X_test, y_train, y_test``, with
        80 percent of the rows, in random order, for training.

    Examples
    --------
    >>> from qsdp.datasets import load_bundled
    >>> wine = load_bundled("wine")
    >>> wine
    Dataset('wine', X (178, 13), y (178,), multiclass)
    >>> X_train, X_test, y_train, y_test = wine.split()
    >>> X_train.shape, X_test.shape
    ((142, 13), (36, 13))
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
