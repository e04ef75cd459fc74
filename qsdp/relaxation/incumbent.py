"""Incumbent of an iterative method (best feasible point and best lower bound), and stopping criteria."""

from __future__ import annotations

import time

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.gap import relative
from qsdp._utils.numeric import EPS, ROUNDING
from qsdp._utils.tuning import INNER, QUICK_SIDE, ROUGH, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem import dominating_weights
from qsdp.relaxation.evaluation import Evaluation, Ray
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import Progress, RawSolution, Settings

__all__ = ["FINAL", "STOPS", "Incumbent", "zero_solution"]

#: Exceptions that end an iterative method, and their statuses; rounding or overflow make matrices singular.
STOPS: dict[type[BaseException], str] = {
    KeyboardInterrupt: "interrupted",
    deadline.TimeOver: "time limit",
    np.linalg.LinAlgError: "stalled",
}

#: Statuses that end a whole solve: no other output, and no other method, is tried.
FINAL = ("stopped by the callback", "interrupted")


def zero_solution(instance: Instance, status: str) -> RawSolution:
    """Return the feasible zero point, as the result of a method that ends before its first candidate."""
    shape = (instance.n_matrices, instance.size, instance.size)
    return RawSolution(
        Z=np.zeros(shape), V=np.zeros(shape), W=np.zeros(shape), z=np.ones(shape[:2]), status=status, iterations=0,
        weights=instance.no_weights,
    )  # fmt: skip


class Incumbent:
    """Best feasible point and best lower bound of all candidates, each evaluated from the data.

    For every `distance`-th dual vector the best weights are computed, for methods whose iterates have poor weights.
    """

    def __init__(self, evaluation: Evaluation, settings: Settings, distance: int | None = None) -> None:
        #: Computes values and bounds of candidates; may be replaced by a more exact one.
        self.evaluation, self._settings = evaluation, settings
        self._instance = instance = evaluation.instance
        self._distance = distance if instance.size <= QUICK_SIDE else None
        self._start = time.perf_counter()
        shape = (instance.n_matrices, instance.size, instance.size)
        self.T, self.S, self.weights = np.zeros(shape), np.zeros(shape), instance.no_weights
        self._moved = False
        #: Number of parts that do not interact: one per output, or one.
        self.n_parts = len(evaluation.at_zero)
        outputs = [instance.outputs_of(part) for part in range(self.n_parts)]
        #: Outputs and matrices of each part.
        self._members = [(of_part, instance.matrices_of(of_part)) for of_part in outputs]
        self.objectives = evaluation.at_zero.copy()
        self.bounds = np.zeros(self.n_parts)
        self._duals: list[FloatArray | None] = [None] * self.n_parts
        self.z = np.ones((instance.n_matrices, instance.size))
        self.iteration = self._offers = 0
        self._update()

    # -- candidates ----------------------------------------------------------------------------------

    def offer_point(self, A: FloatArray, B: FloatArray, weights: FloatArray | None = None) -> None:
        r"""Evaluate the point of positive semidefinite A, B of shape (K, N, N) (``T = A - B``), and keep the better.

        Real weights have the shape (C, p); None is zero.
        """
        T, S = A - B, A + B
        real = self._instance.no_weights if weights is None else weights
        if not all(np.isfinite(array).all() for array in (T, S, real)):
            return
        radii = S.diagonal(0, 1, 2).max(axis=1, initial=0.0)
        sizes = self._by_part(np.abs(real).sum(axis=1))
        costs = self._instance.dual_radius * (self._by_part(radii) + sizes)
        ray = self.evaluation.point(T, real)
        ones = np.ones(self.n_parts)
        for scales in (ones, ray.best(costs)):
            objectives = ray.values(scales) + scales * costs
            for part in (objectives < self.objectives).nonzero()[0].tolist():
                outputs, matrices = self._members[part]
                self._moved, self.objectives[part] = True, objectives[part]
                self.T[matrices], self.S[matrices] = scales[part] * T[matrices], scales[part] * S[matrices]
                self.weights[outputs] = scales[part] * real[outputs]
        self._update()

    def offer_dual(self, candidate: FloatArray, z: FloatArray, expected: float = 1.0) -> None:
        r"""Evaluate a dual vector with weights z of shape (K, N), of any sign and scale, and keep the better bound.

        The form of `candidate` depends on the evaluation. `expected` is the relative gap that the method expects; the
        weights are rough if it is large.
        """
        if not (np.isfinite(candidate).all() and np.isfinite(z).all()):
            return
        M, real, ray = self.evaluation.dual(candidate)
        # The bound loses as much as is added to the weights.
        floor = max(EPS, min(INNER * self.tol, ROUGH * min(expected, self.gap)))
        weights = np.maximum(z, 0.0)
        sums = weights.sum(axis=1, keepdims=True)
        weights += floor / max(1, weights.shape[1]) * sums
        weights[sums[:, 0] == 0.0] = 1.0
        self._take_dual(candidate, M, real, ray, weights)
        self._offers += 1
        if self._distance is not None and self._offers % self._distance == 0:
            self._search_weights(candidate, M, real, ray)

    def _take_dual(self, candidate: FloatArray, M: FloatArray, real: FloatArray, ray: Ray, weights: FloatArray) -> None:
        taus = self.evaluation.dominating(candidate, M, weights) * weights.sum(axis=1)
        worst = self._instance.constraints(taus, real).reshape(self.n_parts, -1).max(axis=1)
        with np.errstate(divide="ignore"):
            scales = ray.best(np.where(worst > 0.0, self._instance.dual_radius / worst, np.inf))
        values = ray.values(scales)
        for part in (values > self.bounds).nonzero()[0].tolist():
            _, matrices = self._members[part]
            self.bounds[part], self.z[matrices] = values[part], weights[matrices]
            self._duals[part] = candidate
        self._update()

    def _search_weights(self, candidate: FloatArray, M: FloatArray, real: FloatArray, ray: Ray) -> None:
        """Compute the best weights if the dual value closes a quarter of the gap that the current weights leave.

        Where the optimal z vanishes, the z of an iterate is noise, and scaling it proves little.
        """
        promised = ray.values(ray.best(np.full(self.n_parts, np.inf)))
        gaps = self.objectives - self.bounds
        open_parts = (self.gaps > self._settings.tol) & (promised > self.bounds + 0.25 * gaps)
        if not np.any(open_parts):
            return
        weights = np.array(self.z)
        for part in np.flatnonzero(open_parts).tolist():
            matrices = range(self._instance.n_matrices)[self._members[part][1]]
            tol = min(SMALL, max(ROUNDING, ROUGH * float(self.gaps[part])))
            for k in matrices:
                if deadline.over():
                    return
                tighter = dominating_weights(M[k], tol)
                if np.any(tighter > 0.0):
                    weights[k] = tighter + EPS * tighter.mean()
        self._take_dual(candidate, M, real, ray, weights)

    # -- state ---------------------------------------------------------------------------------------

    def _update(self) -> None:
        """Store the sum of the objectives, and the relative gaps, for whoever asks in every iteration."""
        #: Sum over the parts.
        self.objective = float(self.objectives.sum())
        #: Relative gap of each part, and the largest of them.
        self.gaps = np.array([relative(u - v, u) for u, v in zip(self.objectives, self.bounds, strict=True)])
        self.gap = float(self.gaps.max())

    @property
    def tol(self) -> float:
        """Relative gap at which the method may stop."""
        return self._settings.tol

    @property
    def has_callback(self) -> bool:
        """Whether a callback is to receive intermediate states."""
        return self._settings.callback is not None

    @property
    def progress(self) -> Progress:
        """Current state of the method, the argument of callbacks."""
        return Progress(self.iteration, self.objective, float(self.bounds.sum()), self.elapsed)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    def stop(self, iteration: int) -> str | None:
        """Return the status with which the method has to stop, or None if it may continue."""
        self.iteration = iteration
        settings = self._settings
        if settings.callback is not None and settings.callback(self.progress) is True:
            return "stopped by the callback"
        if self.gap <= settings.tol:
            return "optimal"
        if settings.max_iter is not None and iteration >= settings.max_iter:
            return "iteration limit"
        if deadline.over():
            return "time limit"
        return None

    def solution(self, status: str) -> RawSolution:
        """Return the best point and the dual vector of the best bound."""
        # Arrays of zeros take no memory until they are written to.
        V, Z = (0.5 * self.S, 0.5 * self.T) if self._moved else (self.S, self.T)
        return RawSolution(
            Z=Z, V=V, W=V, nu=self._nu(), z=self.z, status=status, iterations=self.iteration,
            timings={"solve": self.elapsed}, weights=self.weights,
        )  # fmt: skip

    def _nu(self) -> FloatArray | None:
        duals = {id(dual): dual for dual in self._duals if dual is not None}
        if not duals:
            return None
        known = {key: self.evaluation.nu(dual) for key, dual in duals.items()}
        nu = np.zeros_like(self._instance.target)
        for part, dual in enumerate(self._duals):
            if dual is not None:
                outputs, _ = self._members[part]
                nu[:, outputs] = known[id(dual)][:, outputs]
        return nu

    def _by_part(self, values: FloatArray) -> FloatArray:
        """Sum the values of the matrices, or of the outputs, of each part, which follow each other."""
        sums: FloatArray = values.reshape(self.n_parts, -1).sum(axis=1)
        return sums
