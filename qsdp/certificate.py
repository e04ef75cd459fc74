"""How far a network can be from the global optimum, at most."""

from __future__ import annotations

from dataclasses import dataclass

from qsdp._gap import Gap
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.relaxation import Relaxation

__all__ = ["Certificate", "certify"]


@dataclass(frozen=True)
class Certificate(Gap):
    r"""``lower_bound <= p_b* <= objective``: what is known about a network and the global optimum.

    Attributes
    ----------
    lower_bound : float
        No network, of any width and with any weights, has a smaller objective.
    objective : float
        Objective (24) of the certified network.
    kind : str
        "sdp": the bound is that of the semidefinite relaxation, computed in floating point.
    """

    lower_bound: float
    objective: float
    kind: str = "sdp"

    def __str__(self) -> str:
        return (
            f"objective {self.objective:.6g}, global optimum >= {self.lower_bound:.6g} "
            f"({self.kind} bound), gap {self.gap:.3g} ({100 * self.relative_gap:.3g} %)"
        )


def certify(network: BilinearNetwork, problem: TrainingProblem, relaxation: Relaxation) -> Certificate:
    """Return the certificate of `network` on `problem`.

    Parameters
    ----------
    network : BilinearNetwork
        Any network of the problem's inputs, outputs, levels and activation, wherever its weights come from; a
        polynomial one through `from_polynomial`.
    problem : TrainingProblem
    relaxation : Relaxation
        A solved relaxation of the same problem; its lower bound holds for every network.

    Raises
    ------
    InvalidInputError
        The network is of another kind, or the relaxation is one of another problem.
    """
    if not isinstance(network, BilinearNetwork):
        raise InvalidTypeError(f"network must be a BilinearNetwork; got {type(network).__name__}")
    if not isinstance(problem, TrainingProblem):
        raise InvalidTypeError(f"problem must be a TrainingProblem; got {type(problem).__name__}")
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
    for what in ("n_inputs", "n_outputs", "vector", "levels", "activation"):
        ours = getattr(problem, "n_features" if what == "n_inputs" else what)
        theirs = getattr(network, what)
        if theirs != ours:
            named = "vector outputs" if what == "vector" else what
            raise InvalidInputError(f"network must have {named} {ours}, as the problem has; got {theirs}")
    if relaxation.problem != problem:
        raise InvalidInputError("relaxation must be one of the same problem (data, targets, loss and beta)")
    return Certificate(lower_bound=relaxation.lower_bound, objective=problem.objective(network))
