"""Interface of a solver back end: name, capabilities and solve function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qsdp.losses import Loss
from qsdp.relaxation.instance import Instance, LinearInstance
from qsdp.relaxation.scaled import RawSolution, Settings

__all__ = ["Backend"]


@dataclass(frozen=True)
class Backend:
    """Description of a solver for the relaxation: its name, capabilities and solve function.

    Attributes
    ----------
    name : str
    solve : callable
        Maps an instance, in units in which its numbers are near one, and settings to candidates. Built-in methods take
        an `Instance`, whose map is the data; solvers through CVXPY take any `LinearInstance`, such as one on few rows.
    package, install : str
        Module that must be importable, and the command that installs it.
    time_limit : bool
        Whether it supports a time limit.
    needs : frozenset of str
        What the data must offer, of the constants in ``qsdp/data_map.py``.
    licence : callable or None
        Returns None if the licence is valid, otherwise one line that says what is missing.
    operations : callable or None
        For built-in methods: estimates the floating-point operations needed to solve an instance to a tolerance, or
        infinity if memory does not suffice. "auto" compares these.
    unsuited : callable or None
        Returns what of an instance the solver does not support, or None.
    real_weights : bool
        Whether it supports blocks of real weights.
    unfit : callable or None
        Returns what a loss lacks, such as "second derivatives (`curvature`)", or None. Without this function, every
        loss is supported.
    """

    name: str
    solve: Callable[[Any, Settings], RawSolution]
    package: str = "qsdp"
    install: str = ""
    time_limit: bool = True
    needs: frozenset[str] = frozenset()
    licence: Callable[[], str | None] | None = None
    operations: Callable[[Instance, float], float] | None = None
    unsuited: Callable[[LinearInstance], str | None] | None = None
    real_weights: bool = True
    unfit: Callable[[Loss], str | None] | None = None

    @property
    def certified(self) -> bool:
        """Whether this is a built-in method, which certifies its result.

        Built-in methods stop at a certified relative gap, support every limit, callbacks and warm starts, solve all
        outputs together, and return points that are feasible by construction.
        """
        return self.operations is not None
