"""Scaling of targets to the units in which a network is trained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray
from qsdp.encoding.binning import without_outliers
from qsdp.losses import Loss

__all__ = ["TargetScaling"]


@dataclass(frozen=True, eq=False)
class TargetScaling:
    """Affine map between targets and the outputs of a network: a prediction is ``offset + scale * output``.

    The certificate of a network refers to its own outputs.

    Attributes
    ----------
    offset, scale : ndarray of shape () or (C,)
        One for each output; scales are positive.
    """

    offset: FloatArray
    scale: FloatArray

    @classmethod
    def from_targets(
        cls, target: FloatArray, weights: FloatArray | None, *, centre: bool = True, scale: bool = True
    ) -> TargetScaling:
        """Return the map by (weighted) means and standard deviations of targets (n,) or (n, C), or only one of them."""
        zero, unscaled = np.zeros(target.shape[1:]), np.ones(target.shape[1:])
        # Divide first, so that squares of extreme values stay finite.
        largest = np.abs(target).max(axis=0)
        units = np.where(largest > 0.0, largest, 1.0)
        mean = np.average(target / units, axis=0, weights=weights)
        deviation = np.sqrt(np.average((target / units - mean) ** 2, axis=0, weights=weights))
        # The deviation of equal targets is a rounding error.
        deviation = np.where(deviation > len(target) * EPS, deviation, 1.0)
        return cls(units * mean if centre else zero, units * deviation if scale else unscaled)

    @classmethod
    def of_numbers(cls, target: FloatArray, weights: FloatArray | None, loss: Loss) -> TargetScaling:
        """Return the map by means and standard deviations, without outliers for losses of bounded slope.

        Such losses tolerate outliers only if the other targets determine the units.
        """
        return cls.from_targets(without_outliers(target, weights) if loss.bounded_dual else target, weights)

    def encode(self, target: FloatArray) -> FloatArray:
        """Return targets as outputs of a network."""
        coded: FloatArray = (target - self.offset) / self.scale
        return coded

    def targets(self, coded: FloatArray) -> FloatArray:
        """Return the targets that `encode` coded."""
        targets: FloatArray = self.offset + self.scale * coded
        return targets

    def decode(self, outputs: FloatArray) -> FloatArray:
        """Return outputs of a network as predictions."""
        decoded: FloatArray = self.offset + self.scale * outputs
        return decoded
