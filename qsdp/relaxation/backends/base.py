"""What a back end is: a name, what it can do as data, and one function that solves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qsdp.relaxation.instance import Instance
from qsdp.relaxation.solution import RawSolution

__all__ = ["Backend", "Settings"]


@dataclass(frozen=True)
class Settings:
    """Settings of one solve; None leaves the limit to the solver.

    Attributes
    ----------
    tol : float
        The solver's own accuracy (relative certified gap for solvers of this package).
    form : {"two-block", "literal"}
    max_iter : int or None
    time_limit : float or None
        Seconds.
    verbose : bool
        Let the solver print its progress.
    """

    tol: float
    form: str
    max_iter: int | None
    time_limit: float | None
    verbose: bool


@dataclass(frozen=True)
class Backend:
    """A solver of the relaxation.

    Attributes
    ----------
    name : str
    package : str
        Module that must be importable.
    install : str
        Command that installs it.
    cones : frozenset of str
        What it can express beyond linear and semidefinite: "quadratic", "exponential".
    iteration_limit, time_limit : bool
        Which limits it takes.
    solve : callable
        From a (normalised) instance and settings to candidates.
    licence : callable or None
        Returns None where the licence is in order, else one line that says what is missing.
    """

    name: str
    package: str
    install: str
    cones: frozenset[str]
    iteration_limit: bool
    time_limit: bool
    solve: Callable[[Instance, Settings], RawSolution]
    licence: Callable[[], str | None] | None = None
