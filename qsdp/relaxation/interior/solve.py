r"""The entry of the interior-point method: which coordinates, where to start, one output after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from qsdp._validation import FloatArray
from qsdp.lifting import QuadraticMap
from qsdp.relaxation.evaluation import DirectEvaluation, Evaluation, GramEvaluation, symmetric_basis
from qsdp.relaxation.incumbent import Incumbent, Limits
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.interior.coordinates import FactorCoordinates, SampleCoordinates
from qsdp.relaxation.interior.fits import fit_of
from qsdp.relaxation.interior.method import State, follow
from qsdp.relaxation.interior.newton import CoupledNewton, Newton, SingleNewton
from qsdp.relaxation.interior.outputs import solve_outputs
from qsdp.relaxation.interior.primal import PrimalNewton
from qsdp.relaxation.interior.start import cold_start, zero_dual
from qsdp.relaxation.solution import RawSolution

__all__ = ["solve_interior"]

#: What stands for no capacity, as a share of what the dual vector of the zero point takes: with none there is no path.
_LEAST_CAPACITY = 1e-9

#: The share of the work that the system in the matrix must save for losses with kinks, where it is less accurate.
_KINKED_SHARE = 0.1


def solve_interior(instance: Instance, limits: Limits, start: RawSolution | None = None) -> RawSolution:
    """Solve the relaxation by a primal-dual interior-point method.

    Parameters
    ----------
    instance : Instance
        Normalised.
    limits : Limits
    start : RawSolution, optional
        A solution of a similar instance, in this one's units.

    Returns
    -------
    RawSolution
        The best certified pair whatever stopped the iteration. Its status is "optimal", "iteration limit",
        "time limit", "stopped by the callback", "stalled" (rounding allows no further step), or "interrupted":
        a keyboard interrupt ends the iteration and is not raised again.
    """
    assert isinstance(instance.map, QuadraticMap)
    kept = _kept(instance.map)
    small = instance if np.all(kept) else replace(instance, map=_restricted(instance.map, kept))
    shared = _Shared(small)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        raw = solve_outputs(small, limits, lambda k, part, own: _solve_part(shared, k, part, own))
    return raw if np.all(kept) else _expanded(raw, kept)


class _Shared:
    """What the outputs share: coordinates, and the Gram matrix where it pays."""

    def __init__(self, instance: Instance) -> None:
        data = instance.map
        assert isinstance(data, QuadraticMap)
        targets = instance.target if instance.target.ndim == 2 else instance.target[:, None]
        self._factor: FactorCoordinates | None = None
        if instance.loss.name == "squared" and data.n_rows > data.size * (data.size + 1) // 2:
            gram, products = data.gram(targets)
            factors = symmetric_basis(data.size)[2]
            # The Gram matrix counts entries of the upper triangle; off-diagonal ones stand in two places.
            counts = np.where(factors == 1.0, 1.0, 2.0) / factors
            self._gram, self._products = gram * counts * counts[:, None], products * counts[:, None]
            self._factor = FactorCoordinates(self._gram, data.size)
        else:
            self._samples = SampleCoordinates(data)

    def setting(self, k: int, part: Instance) -> _Setting:
        """Return the setting of output k."""
        if self._factor is None:
            if part.loss.coupled:
                coupled = CoupledNewton(self._samples, part.n_blocks)
                return _Setting(coupled, DirectEvaluation(part), part.target.T, lambda nu: nu.T)
            primal = PrimalNewton(self._samples)
            affordable = self._samples.work * (1.0 if part.loss.smooth else _KINKED_SHARE)
            newton = primal if primal.work < affordable else SingleNewton(self._samples)
            return _Setting(newton, DirectEvaluation(part), part.target[None], lambda nu: nu[0])
        factor, products = self._factor, self._products[:, k]
        targets = factor.targets(products)
        evaluation = GramEvaluation(part, self._gram, products[:, None])
        return _Setting(
            SingleNewton(factor), evaluation, targets[None], lambda nu: factor.preimage(targets - 0.5 * nu[0])[None]
        )


@dataclass(frozen=True)
class _Setting:
    newton: Newton
    evaluation: Evaluation
    targets: FloatArray
    candidate: Callable[[FloatArray], FloatArray]


def _solve_part(shared: _Shared, k: int, part: Instance, limits: Limits) -> RawSolution:
    setting = shared.setting(k, part)
    incumbent = Incumbent(setting.evaluation, limits)
    try:
        return incumbent.solution(_from_zero(part, setting, incumbent))
    except KeyboardInterrupt:
        return incumbent.solution("interrupted")


def _from_zero(part: Instance, setting: _Setting, incumbent: Incumbent) -> str:
    """Start at the zero point, where that is not optimal already."""
    newton, targets = setting.newton, setting.targets
    nu = zero_dual(part.loss, targets)
    M = newton.adjoint(nu)
    largest = part.size * float(np.abs(np.linalg.eigvalsh(M)).max())
    if largest <= part.capacity:
        # The zero point is optimal, and its own dual vector proves it.
        incumbent.offer_dual(setting.candidate(nu), np.ones((part.n_blocks, part.size)))
        return incumbent.stop(0) or "stalled"
    capacity = part.capacity or _LEAST_CAPACITY * largest
    if not (capacity > 0.0 and np.isfinite(largest)):
        return "stalled"
    start = cold_start(part.loss, targets, newton, nu, M, capacity, float(incumbent.objectives.sum()))
    fit = fit_of(part.loss, targets, start.nu)
    return follow(newton, fit, State(start.Y, start.r, start.z), capacity, incumbent, setting.candidate)


def _kept(data: QuadraticMap) -> np.ndarray:
    """Return which rows and columns of the matrices the data reach at all."""
    kept = np.ones(data.size, dtype=bool)
    a, b, c = data.coefficients
    d = data.X.shape[1]
    kept[:d] = np.any(data.X != 0.0, axis=0) & (a != 0.0 or (data.lifted and b != 0.0))
    if data.lifted:
        kept[d] = c != 0.0 or (b != 0.0 and bool(np.any(data.X)))
    return kept


def _restricted(data: QuadraticMap, kept: np.ndarray) -> QuadraticMap:
    d = data.X.shape[1]
    if not np.any(kept):
        kept = np.arange(data.size) == 0
    return replace(data, X=data.X[:, kept[:d]], lifted=data.lifted and bool(kept[d]))


def _expanded(raw: RawSolution, kept: np.ndarray) -> RawSolution:
    """Return the solution with the rows and columns that were left out: no coupling, the common diagonal."""
    assert raw.Z is not None
    assert raw.V is not None
    assert raw.z is not None
    if not np.any(kept):
        kept = np.arange(len(kept)) == 0
    shape = (len(raw.Z), len(kept), len(kept))
    Z, V, z = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])
    inner = np.ix_(np.arange(len(raw.Z)), kept, kept)
    Z[inner], V[inner], z[:, kept] = raw.Z, raw.V, raw.z
    outer = np.flatnonzero(~kept)
    V[:, outer, outer] = np.diagonal(raw.V, axis1=1, axis2=2).max(axis=1, keepdims=True)
    return replace(raw, Z=Z, V=V, W=V, z=z)
