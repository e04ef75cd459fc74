"""Checks that networks, problems and relaxations are compatible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks import BilinearNetwork, PolynomialNetwork, from_polynomial
from qsdp.networks.polynomial import QUADRATIC
from qsdp.problem import TrainingProblem, check_problem
from qsdp.relaxation import Relaxation

__all__ = ["as_bilinear", "check_bilinear", "check_fits", "check_relaxation"]


def as_bilinear(network: Any, problem: TrainingProblem) -> Any:
    """Convert a polynomial network; a problem without an activation has the neurons of the quadratic one."""
    if not isinstance(network, PolynomialNetwork):
        return network
    converted = from_polynomial(network)
    plain = problem.activation is None and converted.activation == QUADRATIC
    return replace(converted, activation=None) if plain else converted


def check_bilinear(network: Any, name: str = "network") -> None:
    """Raise `InvalidTypeError` unless `network` is bilinear; the message suggests a conversion."""
    if isinstance(network, BilinearNetwork):
        return
    attribute = next((name for name in ("network", "network_") if hasattr(network, name)), None)
    hint = ""
    if isinstance(network, PolynomialNetwork):
        hint = "; convert it with qsdp.from_polynomial"
    elif attribute is not None:
        hint = f"; pass its {attribute!r}"
    raise InvalidTypeError(f"{name} must be a BilinearNetwork; got {type(network).__name__}{hint}")


def check_fits(network: Any, problem: Any, name: str = "network") -> None:
    """Raise `InvalidInputError` unless `network` has the blocks, inputs and outputs of `problem`, or is bilinear."""
    check_bilinear(network, name)
    check_problem(problem)
    ours, theirs = (
        None if layout is None else (layout.all_sizes, layout.kinds) for layout in (problem.blocks, network.blocks)
    )
    if theirs != ours:
        expected, actual = (
            "columns" if layout is None else f"blocks of sizes {layout[0]!r:.90}" for layout in (ours, theirs)
        )
        raise InvalidInputError(f"{name} must be on {expected}, as the problem is; got a network on {actual}")
    for what in ("n_inputs", "n_outputs", "output_shape", "levels", "activation"):
        ours = getattr(problem, "n_features" if what == "n_inputs" else what)
        theirs = getattr(network, what)
        if theirs != ours:
            named = "outputs of shape" if what == "output_shape" else what
            raise InvalidInputError(f"{name} must have {named} {ours}, as the problem has; got {theirs}")


def check_relaxation(relaxation: Any, problem: TrainingProblem) -> None:
    """Raise `InvalidInputError` unless `relaxation` is a relaxation of `problem`."""
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
    if relaxation.problem != problem:
        raise InvalidInputError("relaxation must belong to the same problem (data, targets, loss and beta)")
