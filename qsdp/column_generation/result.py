"""Result of column generation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from qsdp._utils.gap import Gap
from qsdp._utils.summary import Summarized, Summary, format_seconds
from qsdp._utils.validation import FloatArray
from qsdp.certificates import Certificate
from qsdp.column_generation.loop import Round
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem

__all__ = ["ColumnGenerationResult", "settled_network", "settled_status"]

_Network = TypeVar("_Network", bound="BilinearNetwork")


@dataclass(frozen=True, eq=False, repr=False)
class ColumnGenerationResult(Summarized, Gap):
    """Result of column generation: the best network and the best proven bound.

    Attributes
    ----------
    network : BilinearNetwork
    certificate : Certificate
        Its bound type is "exact" if the largest pricing values behind the bound were computed exactly. The
        certificate of a bilinear network can be saved and checked by others.
    problem : TrainingProblem
    status : {"optimal", "time limit", "interrupted", "stalled"}
        Why the loop ended. "optimal": the relative gap, recomputed from the data, and the relative rounding error of
        the objective are at most `tol`.
    history : list of Round
        Objective, bound, gap, columns, neurons and seconds after every round, and the output that it was for.
    seconds : float
    """

    network: Any
    certificate: Certificate
    problem: TrainingProblem
    status: str
    history: list[Round]
    seconds: float

    @property
    def objective(self) -> float:  # type: ignore[override]
        """Objective of the network."""
        return self.certificate.objective

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        """Lower bound on the objective of every network, of any width and with any weights."""
        return self.certificate.lower_bound

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.history)

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of the network."""
        prediction: FloatArray = self.network.predict(X)
        return prediction

    def __repr__(self) -> str:
        return (
            f"ColumnGenerationResult({self.network!r}; {self.problem.settings_text()}; {self.certificate}; "
            f"status={self.status!r}, "
            f"rounds={self.rounds}, seconds={self.seconds:.3g})"
        )

    def _summary(self) -> Summary:
        rows = [
            *self.certificate._summary().rows,
            ("status", self.status),
            *self.network._summary().rows,
            ("rounds", f"{self.rounds} in {format_seconds(self.seconds)}"),
        ]
        return Summary("ColumnGenerationResult", rows)


def settled_network(network: _Network, problem: TrainingProblem) -> _Network:
    """Return the network, or the zero network if the objective may not be smaller in view of rounding."""
    largest = network.objective(problem) + problem.objective_rounding(network)
    if largest <= problem.data_fit.value_at_zero or not (np.any(network.alpha) or np.any(network.weights)):
        return network
    return replace(network, alpha=np.zeros_like(network.alpha), weights=np.zeros_like(network.weights))


def settled_status(status: str, certificate: Certificate, rounding: float, tol: float) -> str:
    """Decide the final status: "optimal" only if the certificate attains the gap in spite of rounding."""
    closed = certificate.relative_gap <= tol and rounding <= tol * certificate.objective
    return "stalled" if status == "optimal" and not closed else status
