"""Input and output of a solver: the problem in normalised units, settings, progress and an unverified solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from qsdp._utils.gap import Gap
from qsdp._utils.validation import FloatArray
from qsdp.gram import SharedGram
from qsdp.problem import TrainingProblem
from qsdp.relaxation.instance import Instance, Units

__all__ = [
    "Progress",
    "RawSolution",
    "ScaledProblem",
    "Settings",
]


@dataclass(frozen=True)
class RawSolution:
    """Unverified solution that a back end returns.

    Attributes
    ----------
    Z, V, W : ndarray of shape (K, N, N) or None
        One for every output and block, K = C R; for data of one matrix a sample, K = C.
    nu : ndarray of shape (n, C), or None
        Multipliers of the predictions, ``yhat = 2 <X_i, Z>`` plus those of the real weights.
    z : ndarray of shape (K, N) or None
        Multipliers of the diagonals.
    status : str
        As reported by the solver. Built-in methods: "optimal", "iteration limit", "time limit", "stopped by the
        callback", "stalled" (rounding allows no further step) or "interrupted" (by the keyboard; the interrupt is not
        raised again).
    iterations : int or None
    timings : mapping of str to float
        Seconds of the stages "compile" and "solve".
    weights : ndarray of shape (C, p) or None
        Real weights; None is zero.
    """

    Z: FloatArray | None = None
    V: FloatArray | None = None
    W: FloatArray | None = None
    nu: FloatArray | None = None
    z: FloatArray | None = None
    status: str = "failed"
    iterations: int | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    weights: FloatArray | None = None


@dataclass(frozen=True, repr=False)
class Progress(Gap):
    """State of a running solve, passed to callbacks.

    Attributes
    ----------
    iteration : int
    objective, lower_bound : float
        Best objective of a feasible point and best proven lower bound so far, in the problem's units.
    elapsed : float
        Seconds since the start.
    """

    iteration: int
    objective: float
    lower_bound: float
    elapsed: float

    def __repr__(self) -> str:
        return (
            f"Progress(iteration={self.iteration}, objective={self.objective:.6g}, "
            f"lower_bound={self.lower_bound:.6g}, relative_gap={self.relative_gap:.2g}, elapsed={self.elapsed:.3g})"
        )


@dataclass(frozen=True)
class Settings:
    """Settings of one solve; None leaves the limit to the solver.

    Attributes
    ----------
    tol : float
        The solver's accuracy (relative certified gap for built-in solvers).
    max_iter : int or None
    callback : callable or None
        Called with a `Progress` in the instance's units; returning True stops the solve. For built-in solvers.
    start : RawSolution or None
        Solution of a neighbouring instance, in the units of this instance. For built-in solvers.
    device : str or None
        Torch device for the Gram matrix of the data, such as "cuda"; None means NumPy on the CPU.
    gram : SharedGram or None
        Gram matrix of solves with the same data, such as those for several betas.
    effort : float
        Floating-point operations after which the low-rank method gives up.
    """

    tol: float
    max_iter: int | None = None
    callback: Callable[[Progress], object] | None = None
    start: RawSolution | None = None
    device: str | None = None
    gram: SharedGram | None = None
    effort: float = math.inf

    def limited(self, max_iter: int) -> Settings:
        """Return the settings with `max_iter` as the iteration limit unless one is set."""
        return self if self.max_iter is not None else replace(self, max_iter=max_iter)


@dataclass(frozen=True, eq=False)
class ScaledProblem:
    """Training problem with its normalised instance, and conversions between them."""

    #: Problem in the original units.
    problem: TrainingProblem
    #: Normalised instance.
    instance: Instance
    #: Units of the instance, in units of the problem.
    units: Units

    @classmethod
    def from_problem(cls, problem: TrainingProblem) -> ScaledProblem:
        """Normalise the instance of a problem."""
        return cls(problem, *Instance.from_problem(problem).normalised())

    @cached_property
    def parts(self) -> list[ScaledProblem]:
        """Parts of the problem that do not interact, each normalised separately."""
        parts = self.problem.parts
        return [self] if parts == [self.problem] else [ScaledProblem.from_problem(part) for part in parts]

    def inside(
        self, Z: FloatArray, V: FloatArray, nu: FloatArray, z: FloatArray, weights: FloatArray | None = None
    ) -> RawSolution:
        """Convert Z, V, a dual vector, z and real weights from the problem's units to those of the instance."""
        units = self.units
        nu = nu * (units.prediction / units.value)
        inner = None if weights is None else weights / units.weight
        return RawSolution(Z / units.weight, V / units.weight, V / units.weight, nu, z, status="start", weights=inner)

    def divided(self, raw: RawSolution) -> list[RawSolution]:
        """Split a solution of the instance into solutions of its parts, each in the units of the part."""
        parts = self.parts
        return [raw] if parts == [self] else [self._of_part(raw, part.units, k) for k, part in enumerate(parts)]

    def _of_part(self, raw: RawSolution, part_units: Units, k: int) -> RawSolution:
        weight = self.units.weight / part_units.weight
        dual = (self.units.value / self.units.prediction) / (part_units.value / part_units.prediction)
        matrices = self.instance.matrices_of(slice(k, k + 1))
        Z, V, W = (None if M is None else weight * M[matrices] for M in (raw.Z, raw.V, raw.W))
        nu = None if raw.nu is None else dual * raw.nu[:, [k]]
        z = None if raw.z is None else raw.z[matrices]
        real = None if raw.weights is None else weight * raw.weights[[k]]
        return replace(raw, Z=Z, V=V, W=W, nu=nu, z=z, timings={}, weights=real)
