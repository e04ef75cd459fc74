"""Validated data of a training problem, samples or statistics that stand for them, and interfaces that it requires."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from qsdp._utils.validation import (
    FloatArray,
    check_integer,
    check_magnitude,
    check_matrix,
    check_sample_weight,
    check_targets,
    read_only,
    read_only_copy,
)
from qsdp.activations import PolynomialActivation
from qsdp.block_layout import Layout
from qsdp.blocks import Blocks
from qsdp.data_map import SAMPLES, DataMap, require
from qsdp.exceptions import InvalidInputError
from qsdp.forms import FormMap
from qsdp.lifting import QuadraticMap
from qsdp.losses import Loss

__all__ = [
    "MAX_LEVELS",
    "QuadraticModel",
    "Statistics",
    "TrainingData",
    "check_binary",
    "check_levels",
    "counting_rows",
    "data_of_model",
    "data_of_rows",
    "map_of_data",
    "positive_weights",
    "quadratic_map",
    "targets_of_classes",
]

#: Largest number of levels of an int8 weight, -127 .. 127 in steps of two.
MAX_LEVELS = int(np.iinfo(np.int8).max) + 1


@dataclass(frozen=True, eq=False)
class QuadraticModel:
    r"""Squared loss as a function of the matrices of a network, :math:`\|\langle F, S \rangle - y\|^2` plus a constant.

    Few rows F and targets y stand for all samples, or for their loss near a point.

    Attributes
    ----------
    map : FormMap
        The rows F.
    targets : ndarray of shape (r,) or (r, C)
        The targets y.
    """

    map: FormMap
    targets: FloatArray


@runtime_checkable
class Statistics(Protocol):
    """Interface of `qsdp.SufficientStatistics` that a problem requires."""

    def reduced(self, activation: PolynomialActivation | None) -> QuadraticModel:
        """Return a few rows and targets that have the same squared loss as all samples."""


class SecondLayer(Protocol):
    """Interface of networks that the objective requires."""

    @property
    def alpha(self) -> FloatArray:
        """Second-layer weights."""

    def predict(self, X: Any) -> FloatArray:
        """Evaluate the network at rows of data."""


class TrainingData(NamedTuple):
    """Data map, targets of shape (n, C), positive weights or None, and whether targets were passed as (n,)."""

    weight_map: DataMap
    targets: FloatArray
    sample_weight: FloatArray | None
    scalar: bool


def data_of_rows(
    X: Any, y: Any, sample_weight: Any, loss: Loss, activation: PolynomialActivation | None
) -> TrainingData:
    """Validate samples, targets and weights, see `TrainingProblem`; samples of weight zero are dropped."""
    data, encoded, weights = counting_rows(X, y, sample_weight, loss.encode_target)
    target = encoded.reshape(len(encoded), -1)
    loss.check_target(target)
    weights = None if weights is None or np.all(weights == 1.0) else read_only_copy(weights)
    # The packed entries of blocks may be most of the memory, or more than it holds.
    data = data if isinstance(data, Blocks) else read_only_copy(data)
    return TrainingData(map_of_data(data, activation), read_only_copy(target), weights, not encoded.shape[1:])


def counting_rows(
    X: Any, y: Any, sample_weight: Any, encode: Callable[[FloatArray], FloatArray], n_columns: int | None = None
) -> tuple[Any, FloatArray, FloatArray | None]:
    """Validate samples, targets and weights; return those of positive weight, the targets encoded."""
    data: Any = X if isinstance(X, Blocks) else check_matrix("X", X, n_columns=n_columns)
    target = encode(check_targets("y", y, length=data.shape[0]))
    weights = check_sample_weight(sample_weight, data.shape[0])
    if weights is not None and not np.all(weights > 0.0):
        positive = weights > 0.0
        data, target, weights = data[positive], target[positive], weights[positive]
    rows = data.rows if isinstance(data, Blocks) else data
    check_magnitude("X", rows, "rescale its columns, for instance with StandardScaler")
    check_magnitude("y", target, "rescale it")
    return data, target, weights


def data_of_model(model: QuadraticModel) -> TrainingData:
    """Return the rows and targets of a quadratic model as training data."""
    target = model.targets
    # There may be no rows at all, so the number of outputs does not follow from the size.
    columns = target.reshape(len(target), *(target.shape[1:] or (1,)))
    return TrainingData(model.map, read_only(columns), None, not target.shape[1:])


def positive_weights(data: DataMap, sample_weight: Any) -> FloatArray | None:
    """Check weights of all samples of a problem, which are positive since others were dropped with their rows."""
    require(data, "reweighting", SAMPLES)
    weights = check_sample_weight(sample_weight, data.n_rows)
    if weights is not None and not np.all(weights > 0.0):
        raise InvalidInputError("sample_weight must be positive: to drop rows of weight zero, build another problem")
    return None if weights is None else read_only_copy(weights)


def targets_of_classes(targets: FloatArray, loss: Loss) -> FloatArray:
    """Convert targets (n, C) with two values a column to those of a loss for classes; others are unchanged."""
    if not loss.for_classes:
        return targets
    high = targets == targets.max(axis=0)
    if not np.all(high | (targets == targets.min(axis=0))) or not (loss.labels or np.all(high.sum(axis=1) == 1)):
        raise InvalidInputError(
            f"loss must be for real targets, since the targets of the problem are not classes; got {loss!r}"
        )
    return np.where(high, 1.0, -1.0 if loss.labels else 0.0)


def map_of_data(X: FloatArray | Blocks, activation: PolynomialActivation | None) -> DataMap:
    """Create the data map of columns, for an activation, or of blocks."""
    return FormMap.from_blocks(X) if isinstance(X, Blocks) else quadratic_map(X, activation)


def quadratic_map(X: FloatArray, activation: PolynomialActivation | None) -> QuadraticMap:
    """Create the data map for an activation; None is bilinear."""
    if activation is None:
        return QuadraticMap(X)
    return QuadraticMap(X, activation.coefficients, activation.lifted)


def check_binary(layout: Layout | None, levels: int, activation: PolynomialActivation | None) -> None:
    """Raise `InvalidInputError` for blocks with levels or an activation."""
    if layout is not None and (levels > 2 or activation is not None):
        raise InvalidInputError(
            "levels must be 2 and activation None for blocks: an encoder can lift the data before it packs them"
        )


def check_levels(levels: Any, name: str = "levels") -> int:
    """Check a number of levels, an integer from 2 to 128."""
    return check_integer(name, levels, minimum=2, maximum=MAX_LEVELS)
