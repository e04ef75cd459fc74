"""Distributions of neurons: signs of a Gaussian with measures of its accuracy, or of independent numbers, by block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.summary import Summarized, Summary, format_number
from qsdp._utils.validation import FloatArray, read_only
from qsdp.activations import PolynomialActivation
from qsdp.block_layout import Layout
from qsdp.shaping.roots import smallest_eigenvalue

__all__ = ["BlockCovariances", "LinearNeurons", "SignCovariance", "measured_covariance", "replicas_of", "scaled_block"]


@dataclass(frozen=True, eq=False, repr=False)
class SignCovariance(Summarized):
    r"""Covariance `Q` of a Gaussian with :math:`\arcsin(Q_{12}) = c Z_s`, and its numerical accuracy.

    With M + 1 levels, a weight is the sum of M signs, called its replicas. `Q` holds the correlations between replicas
    of different coordinates, and ones on the diagonal. `replica_correlation` holds the correlations between replicas of
    the same coordinate.

    Attributes
    ----------
    Q : ndarray of shape (2N, 2N)
        Covariance of ``[u; v]`` (the first replica of each coordinate) before the signs are taken.
    constant : float
        Constant c: Krivine's gamma, or the larger constant of "adaptive".
    rho : float
        Scale of the relaxation, :math:`Z = \rho Z_s`.
    method : str
        "adaptive"; "krivine", with the reason if "adaptive" was requested ("krivine, because Z is zero"); or "(27)" for
        a solution of the program (27) of the paper.
    residual : float
        Largest entry of :math:`|\arcsin(Q_{12}) - c Z_s|`.
    diagonal_error : float
        Largest deviation of the diagonal of `Q` from one.
    min_eigenvalue : float
        Smallest eigenvalue of the covariance of all replicas. Rounding alone can make it as low as about -1e-15 N.
    replicas : ndarray of shape (2N,)
        Number of signs in each weight: M, or 1 for the binary last coordinate of a lift.
    replica_correlation : ndarray of shape (2N,)
    levels : int
    activation : PolynomialActivation or None
    """

    Q: FloatArray
    constant: float
    rho: float
    method: str
    residual: float
    diagonal_error: float
    min_eigenvalue: float
    replicas: npt.NDArray[np.intp]
    replica_correlation: FloatArray
    levels: int = 2
    activation: PolynomialActivation | None = None

    @property
    def dimension(self) -> int:
        """Length N of u and of v."""
        return int(self.Q.shape[0]) // 2

    @property
    def total_weight(self) -> float:
        r"""Sum of the second-layer weights, :math:`\rho \pi / c`, for any number of neurons."""
        return self.rho * math.pi / self.constant

    @property
    def mean_covariance(self) -> FloatArray:
        """Covariance of the means over replicas, of shape (2N, 2N); `Q` if each weight has one replica."""
        if self.replicas.max() == 1:
            return self.Q
        return _mean_covariance(self.Q, self.replicas, self.replica_correlation)

    def __repr__(self) -> str:
        return (
            f"SignCovariance(dimension={self.dimension}, method={self.method!r}, "
            f"constant={self.constant:.6g}, rho={self.rho:.6g}, "
            f"residual={self.residual:.1e}, min_eigenvalue={self.min_eigenvalue:.1e})"
        )

    def _summary(self) -> Summary:
        rows = [
            ("method", self.method),
            ("constant c", f"{format_number(self.constant)} (Krivine's 0.881374, at most pi / 2)"),
            ("rho", format_number(self.rho)),
            ("dimension", f"{self.dimension} a side of a neuron"),
            ("levels", str(self.levels)),
            ("residual", format_number(self.residual, 2)),
            ("diagonal error", format_number(self.diagonal_error, 2)),
            ("smallest eigenvalue", format_number(self.min_eigenvalue, 2)),
        ]
        return Summary("SignCovariance", rows)


def scaled_block(Z: FloatArray, rho: float) -> FloatArray:
    """Return Z / rho with entries clipped to [-1, 1], or Z if rho is 0."""
    return np.clip(Z / rho, -1.0, 1.0) if rho > 0.0 else Z


def replicas_of(levels: int, activation: PolynomialActivation | None, N: int) -> npt.NDArray[np.intp]:
    """Return the number of signs in each of N weights: one for the last coordinate of a lift."""
    lifted = activation is not None and activation.lifted
    replicas = np.full(N, levels - 1)
    replicas[N - lifted :] = 1
    return replicas


def measured_covariance(
    Q: FloatArray,
    Z: FloatArray,
    rho: float,
    constant: float,
    method: str,
    *,
    within: FloatArray | None = None,
    levels: int = 2,
    activation: PolynomialActivation | None = None,
) -> SignCovariance:
    """Build a `SignCovariance` and measure its residual, diagonal error and smallest eigenvalue.

    `within` holds the correlations of the replicas of each of the N coordinates; by default, replicas are equal.
    """
    N = len(Z)
    replicas = np.tile(replicas_of(levels, activation, N), 2)
    correlation = np.ones(2 * N) if within is None else np.concatenate([within, within])
    return SignCovariance(
        Q=read_only(Q),
        constant=constant,
        rho=float(rho),
        method=method,
        residual=_residual(Q[:N, N:], Z, rho, constant),
        diagonal_error=float(np.abs(Q.diagonal() - 1.0).max()),
        min_eigenvalue=_smallest_eigenvalue(Q, replicas, correlation),
        replicas=replicas,
        replica_correlation=read_only(correlation),
        levels=levels,
        activation=activation,
    )


def _smallest_eigenvalue(Q: FloatArray, replicas: npt.NDArray[np.intp], within: FloatArray) -> float:
    """Compute the smallest eigenvalue of the covariance of all replicas."""
    if replicas.max() == 1:
        return smallest_eigenvalue(Q)
    # It acts on the means over replicas, which have length 1 / sqrt(M), and on the deviations.
    root = np.sqrt(replicas)
    means = _mean_covariance(Q, replicas, within) * np.outer(root, root)
    return min(smallest_eigenvalue(means), float((1.0 - within[replicas > 1]).min()))


def _residual(S: FloatArray, Z: FloatArray, rho: float, constant: float) -> float:
    """Compute the largest entry of |arcsin(S) - c Z / rho|, block by block to save memory."""
    if rho == 0.0 and not np.any(S):
        return 0.0
    return max(
        float(np.abs(np.arcsin(np.clip(S[rows], -1.0, 1.0)) - constant * scaled_block(Z[rows], rho)).max())
        for rows in chunks(*Z.shape)
    )


def _mean_covariance(Q: FloatArray, replicas: npt.NDArray[np.intp], within: FloatArray) -> FloatArray:
    covariance = Q.copy()
    np.fill_diagonal(covariance, Q.diagonal() * (1.0 + (replicas - 1) * within) / replicas)
    return covariance


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
