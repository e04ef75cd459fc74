"""Settings of one solve, and the state that a callback receives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from qsdp._utils.gap import Gap
from qsdp.gram import SharedGram
from qsdp.relaxation.scaled import RawSolution

__all__ = ["Progress", "Settings"]


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
