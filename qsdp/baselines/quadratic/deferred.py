r"""The input layer of per-sample gradient descent, with its weights updated once a block of samples.

The inputs of the first layer are known beforehand. Its maps are linear in their parameters,
:math:`v(x) = \langle \theta, \phi(x) \rangle`, and step t adds :math:`e_t \otimes \phi(x_t)` to them, with
:math:`e_t = -\eta\, dL/dv`. Hence inside a block that starts from :math:`\theta_0`

.. math:: v(x_s) = \langle \theta_0, \phi(x_s) \rangle + \sum_{t<s} k(x_s, x_t)\, e_t,
          \qquad k(x, x') = \langle \phi(x), \phi(x') \rangle,

the same numbers as those of one update a sample, up to rounding. The first term and the update of
:math:`\theta` at the end of the block are matrix products; a product with a matrix of weights for every sample, which
waits for memory, becomes one with the few numbers :math:`e_t`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.baselines.quadratic.families import Family
from qsdp.baselines.quadratic.maps import Parameters

__all__ = ["DeferredLayer"]

#: Numbers that a temporary array of the first term may hold.
_LARGEST = 2**21


class DeferredLayer:
    """The first layer during one block of K samples.

    Parameters
    ----------
    family : Family
    parameters : Parameters
        With one leading axis, of S starts; changed by `flush` only.
    X : ndarray of shape (K, n) or (S, K, n)
        The samples in the order in which they are visited, shared by all starts or of each.
    """

    def __init__(self, family: Family, parameters: Parameters, X: FloatArray) -> None:
        self.family, self.parameters, self.X = family, parameters, X
        self.shared = X.ndim == 2
        starts = self._starting_values()
        self.n_starts, self.K, self.m = starts[0].shape
        # Where starts share their samples, one product with the steps of all is quicker than one for each.
        self.base = [self._samples_first(value) if self.shared else value for value in starts]
        self.kernels = [part.kernel(X) for part in family.maps]
        self.steps = [np.zeros_like(base) for base in self.base]

    def _starting_values(self) -> list[FloatArray]:
        """Return the values of every map before the block, (S, K, m), in pieces of bounded memory."""
        cached = sum(part.n_cached(*self._size()) for part in self.family.maps)
        rows = max(1, _LARGEST // max(1, cached * self._n_starts()))
        parts: list[list[FloatArray]] = [[] for _ in self.family.maps]
        for start in range(0, self.X.shape[-2], rows):
            evaluated = self.family.evaluate(self.X[..., start : start + rows, :], self.parameters)
            for values, (value, _) in zip(parts, evaluated, strict=True):
                values.append(value)
        return [np.concatenate(values, axis=1) for values in parts]

    def _size(self) -> tuple[int, int]:
        weights = self.parameters[self.family.maps[0].weight]
        return self.X.shape[-1], weights.shape[1]

    def _n_starts(self) -> int:
        return len(self.parameters[self.family.maps[0].weight])

    def _samples_first(self, value: FloatArray) -> FloatArray:
        """Return (S, B, m) as (B, S m)."""
        return np.swapaxes(value, 0, 1).reshape(value.shape[1], -1)

    def _starts_first(self, value: FloatArray) -> FloatArray:
        """Return (B, S m) as (S, B, m)."""
        return np.swapaxes(value.reshape(len(value), self.n_starts, self.m), 0, 1)

    def values(self, start: int, stop: int) -> list[FloatArray]:
        """Return the values of every map for samples start..stop after all steps recorded, (S, B, m)."""
        current = []
        for base, kernel, steps in zip(self.base, self.kernels, self.steps, strict=True):
            value = base[..., start:stop, :]
            if start:
                value = value + kernel[..., start:stop, :start] @ steps[..., :start, :]
            current.append(self._starts_first(value) if self.shared else value)
        return current

    def record(self, start: int, stop: int, steps: Sequence[FloatArray]) -> None:
        """Keep minus rate times the derivatives by the values, (S, B, m) for every map."""
        for kept, step in zip(self.steps, steps, strict=True):
            kept[..., start:stop, :] = self._samples_first(step) if self.shared else step

    def flush(self) -> None:
        """Add the sum of all steps to the parameters."""
        steps = [self._starts_first(kept) if self.shared else kept for kept in self.steps]
        self.family.add(self.parameters, steps, self.X)
