"""Moments of a training set with which effects of columns can be centred without its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray
from qsdp.networks.quadratic_form import QuadraticForm

__all__ = ["InputMoments"]


@dataclass(frozen=True, eq=False)
class InputMoments:
    """Weighted means of inputs, and covariances of inputs that encode the same column.

    They determine constant and main effects of `Effects`; only the sizes of the effects need the rows.

    Attributes
    ----------
    mean : ndarray of shape (d,)
    within : ndarray of shape (K,)
        Covariances of the pairs of `_pairs_within`.
    """

    mean: FloatArray
    within: FloatArray

    @classmethod
    def from_inputs(cls, X: FloatArray, weights: FloatArray | None, groups: Sequence[int]) -> InputMoments:
        """Compute the moments of inputs X (n, d), of which input i encodes the column `groups[i]`."""
        fractions = np.full(len(X), 1.0 / len(X)) if weights is None else weights / weights.sum()
        mean: FloatArray = fractions @ X
        members = _members(groups)
        covariances = [np.zeros((len(inputs), len(inputs))) for inputs in members]
        for rows in chunks(len(X), len(mean)):
            Z = X[rows] - mean
            for inputs, covariance in zip(members, covariances, strict=True):
                covariance += (Z[:, inputs].T * fractions[rows]) @ Z[:, inputs]
        return cls(mean, np.concatenate([covariance[np.triu_indices(len(covariance))] for covariance in covariances]))

    def fits(self, groups: Sequence[int]) -> bool:
        """Whether these moments belong to inputs that encode the columns `groups`."""
        return len(self.mean) == len(groups) and len(self.within) == len(_pairs_within(groups)[0])

    def effects(self, form: QuadraticForm, groups: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Compute the constant (C,) of the effects, and the means (C, d) to subtract from the main effects.

        The mean of a column's main effect is the sum of those of its inputs.
        """
        S, s, s0 = form.parts
        first, second = _pairs_within(groups)
        products = S[:, first, second] * self.within * np.where(first == second, 1.0, 2.0)
        means: FloatArray = np.stack([np.bincount(first, product, len(self.mean)) for product in products])
        constant: FloatArray = s0 + s @ self.mean + (S @ self.mean) @ self.mean + means.sum(axis=1)
        return constant, means


def _pairs_within(groups: Sequence[int]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the pairs i <= j of inputs that encode the same column, ordered by column, i and j."""
    pairs = [inputs[np.array(np.triu_indices(len(inputs)))] for inputs in _members(groups)]
    first, second = np.concatenate(pairs, axis=1)
    return first, second


def _members(groups: Sequence[int]) -> list[npt.NDArray[np.intp]]:
    """Return the inputs that encode each column, in the order of the columns."""
    members: dict[int, list[int]] = {}
    for i, group in enumerate(groups):
        members.setdefault(group, []).append(i)
    return [np.array(members[group], dtype=np.intp) for group in sorted(members)]
