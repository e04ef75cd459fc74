"""Container of a data set, returned by every loader, and the paper's split into training and test set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from qsdp._utils.summary import Rows, Summarized, Summary, first_few, format_number
from qsdp._utils.validation import FloatArray, check_matrix, check_random_state
from qsdp.exceptions import InvalidInputError

if TYPE_CHECKING:
    from qsdp.networks import BilinearNetwork

AnyArray = npt.NDArray[Any]
Task = Literal["binary", "multiclass", "regression"]
Split = tuple[FloatArray, FloatArray, AnyArray, AnyArray]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Summarized):
    """Data set: samples and targets with their description; unpacks as ``X, y = dataset``.

    Attributes
    ----------
    name : str
        Name by which the set is loaded.
    X : ndarray of shape (n, d), float64
        One row per sample.
    y : ndarray of shape (n,)
        Targets. Binary: -1.0 and +1.0. Multiclass: integers from 0. Regression: real numbers.
    feature_names : tuple of str
        Names of the d columns.
    target_names : tuple of str
        Binary: the negative class, then the positive class. Multiclass: the class of each integer. Regression: the
        target.
    task : {"binary", "multiclass", "regression"}
        Kind of `y`.
    description : str
        Source, citation, licence, encoding and missing values, in a few lines.
    network : BilinearNetwork or None
        Planted network that generated `y`, if any.
    n_train : int or None
        Number of leading rows that the literature uses for training; the other rows are for testing. None if there is
        no such split.
    """

    name: str
    X: FloatArray
    y: AnyArray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    task: Task
    description: str
    network: BilinearNetwork | None = None
    n_train: int | None = None

    @property
    def data(self) -> FloatArray:
        """Samples `X`, under the name that scikit-learn uses."""
        return self.X

    @property
    def target(self) -> AnyArray:
        """Targets `y`, under the name that scikit-learn uses."""
        return self.y

    def __iter__(self) -> Iterator[AnyArray]:
        yield self.X
        yield self.y

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, X {self.X.shape}, y {self.y.shape}, {self.task})"

    def _summary(self) -> Summary:
        n, d = self.X.shape
        rows: Rows = [
            ("name", self.name),
            ("data", f"{n:,} samples, {d} columns"),
            ("task", self.task),
            ("columns", first_few(self.feature_names)),
        ]
        if self.n_train is not None:
            rows.append(("usual split", f"the first {self.n_train:,} for training"))
        if self.description:
            rows.append(("about", self.description.splitlines()[0]))
        if self.task == "regression":
            low, high = (format_number(float(end), 4) for end in (self.y.min(), self.y.max()))
            rows.append(("target", f"{first_few(self.target_names)}, {low} to {high}"))
        else:
            codes = (self.y > 0).astype(int) if self.task == "binary" else self.y.astype(int)
            counts = np.bincount(codes, minlength=len(self.target_names))
            classes = [f"{name} ({count:,})" for name, count in zip(self.target_names, counts, strict=True)]
            rows.append(("classes", first_few(classes)))
        return Summary("Dataset", rows)

    def split(self, random_state: object = 0) -> Split:
        """Return ``X_train, X_test, y_train, y_test`` of `paper_split`."""
        return paper_split(self, random_state=random_state)

    def usual_split(self) -> Split:
        """Return ``X_train, X_test, y_train, y_test``: copies of the first `n_train` rows and of the other rows.

        Raises
        ------
        InvalidInputError
            The set has no usual split.
        """
        if self.n_train is None:
            raise InvalidInputError(f"{self.name!r} has no standard split; use split(random_state)")
        train, test = slice(self.n_train), slice(self.n_train, None)
        return self.X[train].copy(), self.X[test].copy(), self.y[train].copy(), self.y[test].copy()


def paper_split(X: Dataset | Any, y: Any = None, random_state: object = 0) -> Split:
    """Split into 80 percent training and 20 percent test rows, with the sizes of the paper.

    The rows are permuted by ``numpy.random.default_rng(random_state).permutation(n)``. The first ``int(0.8 * n)``
    permuted rows are for training. For the four UCI sets of the paper, this gives the paper's 228/58, 280/71, 552/138
    and 676/170 rows.

    Parameters
    ----------
    X : Dataset or array-like of shape (n, d), n >= 2
        Samples.
    y : array-like of shape (n,) or (n, C), optional
        Targets. Omit them if `X` is a `Dataset`; they are required otherwise.
    random_state : None, int, Generator or RandomState, default 0
        Seed or generator of the permutation of the rows.

    Returns
    -------
    X_train, X_test, y_train, y_test : ndarray
        Copies of the rows; `y` keeps its dtype.

    Examples
    --------
    >>> from qsdp.datasets import load_bundled, paper_split
    >>> X_train, X_test, y_train, y_test = paper_split(load_bundled("iris"))
    >>> X_train.shape, X_test.shape
    ((120, 4), (30, 4))
    """
    if isinstance(X, Dataset):
        if y is not None:
            raise InvalidInputError("y must be omitted if X is a Dataset, which contains targets")
        samples, targets = X.X, X.y
    else:
        samples, targets = check_matrix("X", X), _check_targets(y)
    n = samples.shape[0]
    if targets.shape[0] != n:
        raise InvalidInputError(f"y must have {n} entries, one for each row of X; got {targets.shape[0]}")
    if n < 2:
        raise InvalidInputError("X must have at least 2 rows to be split; got 1")
    order = check_random_state(random_state).permutation(n)
    train, test = np.split(order, [int(0.8 * n)])
    return samples[train], samples[test], targets[train], targets[test]


def _check_targets(y: Any) -> AnyArray:
    if y is None:
        raise InvalidInputError("y is missing: call paper_split(X, y) or paper_split(dataset)")
    try:
        targets = np.asarray(y)
    except ValueError as error:
        raise InvalidInputError(f"y must be an array of shape (n,) or (n, C): {error}") from None
    if targets.ndim not in (1, 2):
        raise InvalidInputError(f"y must have shape (n,) or (n, C); got shape {targets.shape}")
    return targets
