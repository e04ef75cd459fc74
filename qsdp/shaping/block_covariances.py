"""Distributions of neurons for data in blocks: a Gaussian (quadratic) or independent signs (linear) per block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qsdp._utils.summary import Summarized, Summary, format_number
from qsdp._utils.validation import FloatArray, read_only
from qsdp.block_layout import Layout
from qsdp.shaping.covariance import SignCovariance

__all__ = ["BlockCovariances", "LinearNeurons"]


@dataclass(frozen=True, eq=False)
class LinearNeurons:
    r"""Distribution of the neurons of a linear block: signs u with mean :math:`s / \|s\|_\infty`.

    Attributes
    ----------
    s : ndarray of shape (N,)
        Weights of the predictions :math:`x^T s`.
    """

    s: FloatArray

    @property
    def total_weight(self) -> float:
        r"""Sum of the second-layer weights, :math:`\|s\|_\infty`."""
        return float(np.abs(self.s).max())

    def signs(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Draw `count` sign vectors (count, N) by stratified sampling, with one threshold in each of `count` strata.

        An entry is +1 where the threshold, uniform on -1 .. 1, is below the entry's mean. So the mean of the vectors
        differs from that of the distribution by at most 2 / count.
        """
        thresholds = -1.0 + 2.0 * (np.arange(count) + rng.random(count)) / max(count, 1)
        largest = self.total_weight or 1.0
        return np.where(self.s / largest > thresholds[:, None], 1.0, -1.0)


@dataclass(frozen=True, eq=False, repr=False)
class BlockCovariances(Summarized):
    """Distributions of the neurons of every output and block, and real weights of columns, which are not random.

    Attributes
    ----------
    parts : sequence of SignCovariance or LinearNeurons
        The blocks of an output one after the other.
    layout : Layout
        Sides and kinds of the blocks.
    output_shape : tuple of int
        () or (C,).
    real_weights : ndarray of shape (p, C)
        Real weights of the columns of all blocks of weights, those of the relaxation.
    """

    parts: Sequence[SignCovariance | LinearNeurons]
    layout: Layout
    output_shape: tuple[int, ...]
    real_weights: FloatArray

    @cached_property
    def weights(self) -> FloatArray:
        r"""Sums :math:`\rho_{cr} \pi / c_{cr}` of the second-layer weights of outputs and blocks, of shape (C, R)."""
        shape = self.real_weights.shape[1], self.layout.n_blocks
        return read_only(np.array([part.total_weight for part in self.parts]).reshape(shape))

    @property
    def covariances(self) -> list[SignCovariance]:
        """Covariances of the quadratic blocks."""
        return [part for part in self.parts if isinstance(part, SignCovariance)]

    @property
    def _sampled(self) -> list[SignCovariance]:
        return [each for each in self.covariances if each.total_weight > 0.0]

    @property
    def method(self) -> str:
        """Shaping methods of the quadratic blocks with neurons; "linear" if there are none."""
        return "; ".join(sorted({each.method for each in self._sampled})) or "linear"

    @property
    def constant(self) -> float:
        """Smallest constant c of these blocks; pi / 2, that of a linear block, if there are none."""
        return min((each.constant for each in self._sampled), default=0.5 * np.pi)

    @property
    def residual(self) -> float:
        """Largest residual of a quadratic block."""
        return max((each.residual for each in self.covariances), default=0.0)

    def __repr__(self) -> str:
        return (
            f"BlockCovariances(n_outputs={len(self.weights)}, n_blocks={len(self.layout.kinds)}, "
            f"method={self.method!r})"
        )

    def _summary(self) -> Summary:
        rows = [
            ("outputs and blocks", f"{len(self.weights)} x {len(self.layout.kinds)}"),
            ("method", self.method),
            ("smallest constant c", format_number(self.constant)),
            ("largest residual", format_number(self.residual, 2)),
        ]
        return Summary("BlockCovariances", rows)
