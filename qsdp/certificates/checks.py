"""Checks that networks, problems and relaxations belong together."""

from __future__ import annotations

from typing import Any

from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem, check_problem
from qsdp.relaxation import Relaxation

__all__ = ["check_fits", "check_relaxation"]


def check_fits(network: Any, problem: Any, name: str = "network") -> None:
    """Raise `InvalidInputError` unless `network` is a bilinear network for the inputs and outputs of `problem`."""
    if not isinstance(network, BilinearNetwork):
        raise InvalidTypeError(f"{name} must be a BilinearNetwork; got {type(network).__name__}")
    check_problem(problem)
    for what in ("n_inputs", "n_outputs", "vector", "levels", "activation"):
        ours = getattr(problem, "n_features" if what == "n_inputs" else what)
        theirs = getattr(network, what)
        if theirs != ours:
            named = "vector outputs" if what == "vector" else what
            raise InvalidInputError(f"{name} must have {named} {ours}, as the problem has; got {theirs}")


def check_relaxation(relaxation: Any, problem: TrainingProblem) -> None:
    """Raise `InvalidInputError` unless `relaxation` is a relaxation of `problem`."""
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
    if relaxation.problem != problem:
        raise InvalidInputError("relaxation must belong to the same problem (data, targets, loss and beta)")
