"""Container of a data set, with the paper's split into training and test set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from qsdp._utils.summary import Rows, Summarized, Summary, first_few, format_number
from qsdp._utils.validation import FloatArray, check_random_state
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
    """

    name: str
    X: FloatArray
    y: AnyArray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    task: Task
    description: str
    network: BilinearNetwork | None = None

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
        """Split into 80 percent training and 20 percent test rows, with the sizes of the paper.

        The rows are permuted by ``numpy.random.default_rng(random_state).permutation(n)``. The first ``int(0.8 * n)``
        permuted rows are for training. For the four UCI sets of the paper, this gives the paper's 228/58, 280/71,
        552/138 and 676/170 rows.

        Parameters
        ----------
        random_state : None, int, Generator or RandomState, default 0
            Seed or generator of the permutation of the rows.

        Returns
        -------
        X_train, X_test, y_train, y_test : ndarray
            Copies of the rows.
        """
        n = len(self.X)
        if n < 2:
            raise InvalidInputError(f"{self.name!r} must have at least 2 rows to be split; it has {n}")
        order = check_random_state(random_state).permutation(n)
        train, test = np.split(order, [int(0.8 * n)])
        return self.X[train], self.X[test], self.y[train], self.y[test]
