"""Choice of the Newton system of an instance by operation counts, and a cache shared by its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.tuning import EIGEN, INNER, TYPICAL_STEPS
from qsdp._utils.validation import FloatArray
from qsdp.data_map import COLUMNS, SAMPLES, DataMap
from qsdp.gram import Gram, GramFactor, SharedGram, to_vectors
from qsdp.losses import DataFit
from qsdp.relaxation.evaluation import DirectEvaluation, Evaluation, GramEvaluation
from qsdp.relaxation.instance import Instance, LinearInstance
from qsdp.relaxation.solvers.interior.coordinates import FormCoordinates, SampleCoordinates
from qsdp.relaxation.solvers.interior.newton_system import CoupledNewton, Newton, PrimalNewton, SingleNewton

__all__ = ["FactorCache", "NewtonSetup", "operations", "takes_factor", "unsuited"]

#: Side of the largest linear system: it takes 0.8 GB, and each factorisation takes seconds.
_LARGEST = 10_000


@dataclass(frozen=True)
class NewtonSetup:
    """Newton system of one output or of several coupled outputs, with conversions of its dual vectors."""

    newton: Newton
    evaluation: Evaluation
    #: Loss of the predictions in these coordinates.
    fit: DataFit
    #: Map the multiplier to a dual vector of the evaluation; map a dual vector in the target's shape to the multiplier.
    candidate: Callable[[FloatArray], FloatArray]
    multiplier: Callable[[FloatArray], FloatArray]

    def dominating(self, nu: FloatArray, M: FloatArray, z: FloatArray) -> FloatArray:
        """Compute `spectra.dominating` for the matrices M of a multiplier."""
        return self.evaluation.dominating(self.candidate(nu), M, z)


class FactorCache:
    """Coordinates that all outputs share: samples, or a factor of the Gram matrix if that is cheaper."""

    def __init__(self, instance: Instance, shared: SharedGram | None, device: str | None = None) -> None:
        data = instance.map
        self._layout, self._factor = data.layout, None
        if instance.fit.quadratic and takes_factor(data):
            gram = (shared or Gram).from_map(data, instance.target, instance.fit.weights, np.float64, device)
            self._gram, self._products = gram.into_basis()
            deadline.check()
            self._factor = factor = GramFactor(self._gram)
            single = data.n_blocks == 1 and not any(data.layout.linear) and not data.layout.weights
            rows = (factor.lower.T, factor.order) if single else (factor.rows,)
            self._coordinates: SampleCoordinates | FormCoordinates = FormCoordinates(data.layout, *rows)
        elif COLUMNS in data.offers:
            self._coordinates = SampleCoordinates(data)
        else:
            self._coordinates = FormCoordinates(data.layout, data.features())

    def setup(self, k: int, part: Instance) -> NewtonSetup:
        """Create the Newton system of output k."""
        if self._factor is None:
            newton = self._newton(part)
            return NewtonSetup(newton, DirectEvaluation(part), part.fit, np.transpose, np.transpose)
        layout, factor, products = self._layout, self._factor, self._products[:, [k]]
        targets = factor.targets(products)

        def packed(matrices: FloatArray, weights: FloatArray) -> FloatArray:
            return to_vectors(matrices, layout, weights)

        return NewtonSetup(
            SingleNewton(self._coordinates),
            GramEvaluation(part, self._gram, products),
            DataFit(part.loss, targets),
            lambda nu: factor.preimage(targets - 0.5 * nu.T),
            lambda nu: factor.targets(packed(*part.map.pull(nu))).T,
        )

    def _newton(self, part: Instance) -> Newton:
        if part.loss.coupled:
            return CoupledNewton(self._coordinates, part.target.shape[1])
        if not isinstance(self._coordinates, SampleCoordinates):
            return SingleNewton(self._coordinates)
        # It is less accurate for losses with kinks, so it must take at most a tenth of the other system's operations.
        affordable = self._coordinates.work * (1.0 if part.loss.smooth else INNER)
        is_cheaper = PrimalNewton.operations(self._coordinates) < affordable
        return PrimalNewton(self._coordinates) if is_cheaper else SingleNewton(self._coordinates)


# -- operation counts ---------------------------------------------------------------------------------------


def takes_factor(data: DataMap) -> bool:
    """Whether to use a factor of the Gram matrix instead of the samples, for a squared loss or statistics.

    The factor has at most p = N(N + 1)/2 rows, but its kernel takes two products of p x p matrices. The kernel of the
    samples costs very little compared with its Cholesky factorisation, so samples are cheaper up to nearly n = 2 p.
    """
    n, N, p = data.n_rows, data.size, data.layout.n_entries
    if SAMPLES not in data.offers:
        return True
    if n <= p or n > _LARGEST or data.n_blocks > 1 or data.layout.weights:
        return n > p
    return _factor_step(p) + float(n) * p * p / TYPICAL_STEPS < _samples_step(n, N)


def unsuited(instance: LinearInstance) -> str | None:
    """Return what of an instance the method does not support, or None."""
    return "blocks of real weights without any neurons" if not instance.map.n_blocks else None


def operations(instance: Instance, tol: float) -> float:
    """Estimate the number of floating-point operations of a solve; return infinity beyond the largest system."""
    data, N, (n, C) = instance.map, instance.size, (instance.map.n_rows, instance.target.shape[1])
    p = data.layout.n_entries
    coupled = C // instance.fit.n_parts
    # In several blocks, losses other than the squared one have the system of all samples.
    several = (data.n_blocks > 1 or bool(data.layout.weights)) and not instance.fit.quadratic
    if (n if several else min(n, p)) * coupled > _LARGEST:
        return math.inf
    # Count decompositions of N x N matrices, and passes over the data.
    step = (4.0 * EIGEN * N**3 * data.n_blocks + 4.0 * n * p) * coupled
    once: float = 0.0
    if instance.fit.quadratic and takes_factor(instance.map):
        once = float(n) * p * p
        step += _factor_step(p)
    elif several:
        step += 2.0 * n * n * p * coupled + _cholesky(n * coupled)
    elif n > p and not instance.fit.quadratic:
        step += float(n) * p * p * coupled + _cholesky(p * coupled)
    else:
        step += _samples_step(n, N, coupled)
    return float(once + TYPICAL_STEPS * step * (C / coupled))


def _factor_step(p: int) -> float:
    return 2.0 * float(p) ** 3 + _cholesky(p)


def _samples_step(n: int, N: int, coupled: int = 1) -> float:
    return 4.0 * n * n * N * coupled + _cholesky(n * coupled)


def _cholesky(side: int) -> float:
    """Return the operations of a Cholesky factorisation."""
    return side**3 / 3.0
