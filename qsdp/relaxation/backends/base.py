"""The interface of a back end: a name, its abilities as data, and one function that solves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qsdp.gram import SharedGram
from qsdp.losses import Loss
from qsdp.relaxation.incumbent import Limits, Progress
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution

__all__ = ["Backend", "Settings"]


@dataclass(frozen=True)
class Settings:
    """Settings of one solve; None leaves the limit to the solver.

    Attributes
    ----------
    tol : float
        The solver's own accuracy (relative certified gap for solvers of this package).
    form : {"two-block", "full"}
    max_iter : int or None
    callback : callable or None
        Called with a `Progress` in the instance's units; returning True stops the solve. For solvers of this package.
    start : RawSolution or None
        Solution of a neighbouring instance, in the units of this instance. For solvers of this package.
    device : str or None
        Device for large matrix products, such as "cpu" or "cuda"; None means NumPy. For solvers that take a device.
    gram : SharedGram or None
        Gram matrix of solves with the same data, such as those of one path.
    effort : float
        Floating-point operations after which the low-rank method gives up.
    """

    tol: float
    form: str
    max_iter: int | None
    callback: Callable[[Progress], object] | None = None
    start: RawSolution | None = None
    device: str | None = None
    gram: SharedGram | None = None
    effort: float = math.inf

    def limits(self, max_iter: int) -> Limits:
        """Return the limits of a method, with `max_iter` as its default limit on iterations."""
        return Limits(self.tol, self.max_iter or max_iter, self.callback)


@dataclass(frozen=True)
class Backend:
    """A solver of the relaxation.

    Attributes
    ----------
    name : str
    solve : callable
        Maps a normalised instance and settings to candidates. Solvers through CVXPY also take a `ReducedInstance`.
    package, install : str
        Module that must be importable, and the command that installs it.
    cones : frozenset of str
        Cones that it can express besides linear and semidefinite ones: "quadratic", "exponential".
    time_limit, devices, rows : bool
        Whether it takes a time limit, takes a device, and needs the rows of the data, not only statistics.
    licence : callable or None
        Returns None if the licence is valid, otherwise one line that says what is missing.
    operations : callable or None
        For methods of this package: returns about how many floating-point operations an instance takes to a tolerance,
        or infinity if memory does not suffice. "auto" compares these.
    unfit : callable or None
        Returns what a loss lacks, such as "second derivatives (`curvature`)", or None. Without this function, `cones`
        alone decides.
    """

    name: str
    solve: Callable[[Any, Settings], RawSolution]
    package: str = "qsdp"
    install: str = ""
    cones: frozenset[str] = frozenset({"quadratic", "exponential"})
    time_limit: bool = True
    devices: bool = False
    rows: bool = False
    licence: Callable[[], str | None] | None = None
    operations: Callable[[Instance, float], float] | None = None
    unfit: Callable[[Loss], str | None] | None = None

    @property
    def certified(self) -> bool:
        """Whether it is a method of this package.

        Such methods stop at a certified relative gap, take every limit, a callback and a start, solve all outputs
        together, and return points that are feasible by construction.
        """
        return self.operations is not None
