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
from qsdp.relaxation.interior.coordinates import Coordinates, FactorCoordinates, SampleCoordinates
from qsdp.relaxation.interior.fits import SlackFit
from qsdp.relaxation.interior.method import State, follow
from qsdp.relaxation.interior.outputs import solve_outputs
from qsdp.relaxation.solution import RawSolution

__all__ = ["solve_interior"]

#: The least capacity, as a share of what the dual vector of the zero point takes: with none there is no path.
_LEAST_CAPACITY = 1e-9

#: Of the way from zero to the dual vector of the zero point the path starts at.
_START_SHARE = 0.5


def solve_interior(instance: Instance, limits: Limits, start: RawSolution | None = None) -> RawSolution:
    """Solve the relaxation by a primal-dual interior-point method.

    Parameters
    ----------
    instance : Instance
        Normalised. All losses but the coupled ones.
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
        raw = solve_outputs(small, limits, lambda k, part, own: _solve_output(shared, k, part, own))
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
            return _Setting(self._samples, DirectEvaluation(part), part.target, lambda nu: nu)
        factor, products = self._factor, self._products[:, k]
        targets = factor.targets(products)
        evaluation = GramEvaluation(part, self._gram, products[:, None])
        return _Setting(factor, evaluation, targets, lambda nu: factor.preimage(targets - 0.5 * nu)[None])


@dataclass(frozen=True)
class _Setting:
    coordinates: Coordinates
    evaluation: Evaluation
    targets: FloatArray
    candidate: Callable[[FloatArray], FloatArray]


def _solve_output(shared: _Shared, k: int, part: Instance, limits: Limits) -> RawSolution:
    setting = shared.setting(k, part)
    coordinates, targets = setting.coordinates, setting.targets
    incumbent = Incumbent(setting.evaluation, limits)
    try:
        return incumbent.solution(_from_zero(part, setting, coordinates, targets, incumbent))
    except KeyboardInterrupt:
        return incumbent.solution("interrupted")


def _from_zero(
    part: Instance, setting: _Setting, coordinates: Coordinates, targets: FloatArray, incumbent: Incumbent
) -> str:
    nu = -part.loss.gradient(np.zeros_like(targets), targets)
    M = coordinates.adjoint(nu)
    largest = float(np.abs(np.linalg.eigvalsh(M)).max()) * coordinates.size
    if largest <= part.capacity:
        # The zero point is optimal, and its own dual vector proves it.
        incumbent.offer_dual(setting.candidate(nu), np.ones((1, coordinates.size)))
        if (reason := incumbent.stop(0)) is not None:
            return reason
    capacity = max(part.capacity, _LEAST_CAPACITY * largest)
    if not 0.0 < capacity < np.inf:
        return "stalled"
    share = _START_SHARE * min(1.0, capacity / largest) if largest > 0.0 else _START_SHARE
    fit = SlackFit(part.loss, targets, share * nu)
    r = 0.25 * float(incumbent.objectives[0]) / capacity
    Y = np.stack([np.eye(coordinates.size)] * 2) * (0.5 * r)
    state = State(Y, r, np.full(coordinates.size, capacity / coordinates.size))
    return follow(coordinates, fit, state, capacity, incumbent, setting.candidate)


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
