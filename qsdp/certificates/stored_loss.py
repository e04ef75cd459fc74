"""Storage of losses in certificate files: by name, or by an interval and a curvature."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, check_choice, check_real
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.losses import LOSSES, Loss, PiecewiseQuadratic

__all__ = ["StoredLoss", "loss_arrays", "read_loss", "stored_loss"]

_PIECEWISE = "piecewise quadratic"


@dataclass(frozen=True)
class StoredLoss(PiecewiseQuadratic):
    """Piecewise quadratic loss defined by the dual interval of every target.

    Parameters
    ----------
    targets, low, high : tuple of float
        Ascending targets and their intervals. Other targets have the interval of the nearest one.
    inverse_curvature : float
    label : str
        Name of the original loss, for display.
    """

    targets: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    inverse_curvature: float  # type: ignore[misc]  # of the instance
    label: str = field(default="", compare=False)

    name: ClassVar[str] = _PIECEWISE
    smooth: ClassVar[bool] = False
    cones: ClassVar[frozenset[str]] = frozenset({"quadratic"})

    @classmethod
    def of(cls, interval: tuple[Any, Any], inverse_curvature: float, target: FloatArray, label: str) -> StoredLoss:
        """Build the loss from intervals (numbers, or in the shape of the target) that depend on the target alone."""
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64) + 0.0, target.shape) for end in interval)
        c = check_real("inverse_curvature", inverse_curvature)
        finite = c > 0.0 or (np.all(np.isfinite(low)) and np.all(np.isfinite(high)))
        if not (np.all(low <= 0.0) and np.all(high >= 0.0) and finite):
            raise InvalidInputError(
                f"interval of the {label} loss must have ends <= 0 and >= 0, finite for inverse_curvature 0"
            )
        values, first = np.unique(target, return_index=True)
        low_ends, high_ends = low.ravel()[first], high.ravel()[first]
        if np.all(low == low_ends[0]) and np.all(high == high_ends[0]):
            values, low_ends, high_ends = np.zeros(1), low_ends[:1], high_ends[:1]
        loss = cls(tuple(values.tolist()), tuple(low_ends.tolist()), tuple(high_ends.tolist()), c, label)
        if not all(np.array_equal(mine, end) for mine, end in zip(loss.interval(target), (low, high), strict=True)):
            raise InvalidInputError(f"interval of the {label} loss must be the same for equal targets")
        return loss

    @property
    def bounded_dual(self) -> bool:  # type: ignore[override]
        """Whether all interval ends are finite."""
        return math.isfinite(self.lipschitz)

    @property
    def lipschitz(self) -> float:
        """Largest magnitude of an interval end."""
        return max(max(self.high), -min(self.low))

    def interval(self, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Look up the interval of the nearest stored target, in the shape of `target`."""
        values = np.array(self.targets)
        nearest = np.searchsorted(values[:-1] + 0.5 * np.diff(values), target)
        return np.array(self.low)[nearest], np.array(self.high)[nearest]

    def values(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Compute the maximum of ``nu (y - t) - c nu^2 / 2`` over the interval, in closed form."""
        nu = -self.gradient(prediction, target)
        return nu * (target - prediction - 0.5 * self.inverse_curvature * nu)

    def expression(self, prediction: Any, target: FloatArray, weight: float | FloatArray = 1.0) -> Any:
        """Return the sum of slopes times positive and negative parts, rounded at the kink by Huber's function."""
        import cvxpy as cp

        low, high = self.interval(target)
        c, total = self.inverse_curvature, 0.0
        for end, part in ((high, cp.pos(target - prediction)), (-low, cp.neg(target - prediction))):
            if c == 0.0:
                total += cp.sum(cp.multiply(weight * end, part))
                continue
            bends = np.where(np.isfinite(end) & (end > 0.0), c * end, 1.0)
            curved = np.where(np.isfinite(end), 0.5 * c * np.where(np.isfinite(end), end, 0.0) ** 2, 0.0)
            total += cp.sum(cp.multiply(weight * curved, cp.huber(cp.multiply(1.0 / bends, part))))
            total += cp.sum(cp.multiply(weight * np.where(np.isfinite(end), 0.0, 0.5 / c), cp.square(part)))
        return total

    def rescaled(self, scale: float) -> tuple[Loss, float]:
        """Return the loss of the same intervals with c / scale, and the factor `scale`."""
        scale = check_real("scale", scale, strict=True)
        targets = tuple(value / scale for value in self.targets)
        return StoredLoss(targets, self.low, self.high, self.inverse_curvature / scale, self.label), scale


def stored_loss(loss: Loss, target: FloatArray) -> Loss:
    """Convert `loss` to the form in which a file stores it: the built-in loss of that name, or a `StoredLoss`.

    Raises
    ------
    InvalidInputError
        The loss is of another kind, so a checker could not evaluate it.
    """
    kind = LOSSES.get(loss.name)
    if kind is not None and isinstance(loss, kind):
        return kind(*(getattr(loss, one.name) for one in fields(kind)))  # type: ignore[arg-type]
    if isinstance(loss, StoredLoss):
        return loss
    if isinstance(loss, PiecewiseQuadratic):
        return StoredLoss.of(loss.interval(target), loss.inverse_curvature, target, loss.name)
    raise InvalidInputError(
        f"a certificate of the {loss.name} loss cannot be saved: files hold the losses {', '.join(LOSSES)} and those "
        f"derived from PiecewiseQuadratic, which {type(loss).__name__} is not"
    )


def loss_arrays(loss: Loss, target: FloatArray) -> dict[str, Any]:
    """Encode a loss returned by `stored_loss` as arrays of a file."""
    if not isinstance(loss, StoredLoss):
        return {"loss": loss.name, "parameters": np.array(list(loss.parameters().values()), dtype="<f8")}
    constant = len(loss.targets) == 1
    interval = np.array([loss.low[0], loss.high[0]] if constant else loss.interval(target), dtype="<f8")
    return {
        "loss": loss.name,
        "label": loss.label,
        "interval": interval,
        "inverse_curvature": loss.inverse_curvature,
    }


def read_loss(arrays: dict[str, npt.NDArray[Any]], target: FloatArray) -> Loss:
    """Decode the loss from the arrays of a file."""
    name = str(arrays["loss"])
    if name != _PIECEWISE:
        kind = LOSSES[check_choice("loss", name, LOSSES)]
        return kind(*arrays["parameters"].tolist())
    low, high = arrays["interval"]
    if np.shape(low) not in {(), target.shape}:
        raise StorageError("its interval does not fit its targets")
    return StoredLoss.of((low, high), float(arrays["inverse_curvature"]), target, str(arrays["label"]))
