"""Result of training: a network with its certificate, and all that is needed to draw another network."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qsdp._utils.deadline import Deadline
from qsdp._utils.options import documented
from qsdp._utils.progress import progress
from qsdp._utils.summary import Rows, Summarized, Summary, format_number, format_seconds
from qsdp._utils.validation import FloatArray, RandomState, check_choice, check_random_state
from qsdp.certificates import Certificate, certify
from qsdp.column_generation import ColumnGenerationResult
from qsdp.exceptions import InvalidInputError
from qsdp.networks import BilinearNetwork
from qsdp.options import REFINEMENTS, TrainingOptions
from qsdp.problem import TrainingProblem
from qsdp.refinement import Interrupted, Trial, best_at_interrupt, improve, refit, suits_statistics
from qsdp.relaxation import Relaxation
from qsdp.sampling import sample_network
from qsdp.shaping import SignCovariance, shape_covariance

__all__ = ["QSDPResult", "refined", "timed_stage"]

#: Stages that every network goes through.
_OF_A_NETWORK = frozenset({"sample", "refine", "certify"})


@dataclass(frozen=True, eq=False, repr=False)
class QSDPResult(Summarized):
    """A sampled network with its certificate and all intermediate results of training.

    Attributes
    ----------
    network : BilinearNetwork
    certificate : Certificate
        Objective of the network and the bound on the global optimum.
    relaxation : Relaxation
    covariance : SignCovariance, or a list of one for each output
    problem : TrainingProblem
    timings : dict of str to float
        Seconds spent in the stages "encoding" (if it is chosen), "beta" (if it is chosen or a share of `beta_max`),
        "compile", "solve", "shape", "sample", "refine" (if any) and "certify".
    refine : {"none", "refit", "polish", "exact"}
        Refinement applied to the sampled network.
    exact : ColumnGenerationResult or None
        Result of the search for the global optimum, for ``refine="exact"``.
    kept : TrainingProblem or None
        Problem of a sample, weighted to stand for all rows, if the certificate is for rows that are not held. It is
        `problem` itself if the loss is not squared; passes over all rows have then certified the network.
    """

    network: BilinearNetwork
    certificate: Certificate
    relaxation: Relaxation
    covariance: SignCovariance | list[SignCovariance]
    problem: TrainingProblem
    timings: dict[str, float]
    refine: str = "none"
    exact: ColumnGenerationResult | None = None
    kept: TrainingProblem | None = None

    @property
    def rows(self) -> TrainingProblem:
        """Problem that has rows: `kept`, or `problem` if that is None."""
        return self.problem if self.kept is None else self.kept

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of the network, shape (n,) or (n, C)."""
        return self.network.predict(X)

    @documented(TrainingOptions)
    def resample(
        self,
        n_neurons: int,
        random_state: RandomState = TrainingOptions.random_state,
        *,
        levels: int | None = None,
        allocation: str = TrainingOptions.allocation,
        refine: str | None = None,
        time_limit: float | None = TrainingOptions.time_limit,
        n_jobs: int | None = TrainingOptions.n_jobs,
        device: str | None = TrainingOptions.device,
        verbose: bool | int = TrainingOptions.verbose,
    ) -> QSDPResult:
        """Draw another network, of any size and number of levels, from the same solution, without another solve.

        Parameters
        ----------
        n_neurons : int
            Number of neurons, m >= 1.
        random_state : int, Generator, RandomState or None, default=0
            Seed; None draws a new one. With one output and the same seed, the neurons of a smaller network are the
            first neurons of a larger one.
        levels : int, optional
            Number of levels, if it differs from this result. The solution is carried over to the new problem (same
            data, loss and beta), and its lower bound is recomputed from the same dual vector. The bound is valid,
            but looser than the bound from a solve for these levels.
        allocation, time_limit, n_jobs, device, verbose
            See `TrainingOptions`.
        refine : {"none", "refit", "polish"}, optional
            Refinement of the new network; by default, the refinement of this result. If this is "exact", the default is
            "none", because the global optimum does not depend on a sample.

        Returns
        -------
        QSDPResult
            Result with the new network, its certificate and the timings of its sampling.

        Raises
        ------
        InvalidInputError
            The network was certified by passes over rows that are not held. A new network would need them as well.
        """
        if self.kept is self.problem:
            raise InvalidInputError(
                "resample needs the rows that certified the network, which came in batches: fit again with another "
                "number of neurons"
            )
        refine = ("none" if self.refine == "exact" else self.refine) if refine is None else refine
        check_choice("refine", refine, [name for name in REFINEMENTS if name != "exact"])
        levels = self.problem.levels if levels is None else levels
        options = TrainingOptions.of(locals())
        deadline = options.deadline()
        result, rng = self, check_random_state(random_state)
        timings = {stage: seconds for stage, seconds in self.timings.items() if stage not in _OF_A_NETWORK}
        with progress(verbose) as stages:
            if levels != self.problem.levels:
                timings.pop("shape")
                with timed_stage(timings, "shape"):
                    relaxation = self.relaxation.with_levels(levels)
                    methods = self.covariance if isinstance(self.covariance, list) else [self.covariance]
                    covariance = shape_covariance(relaxation, method=methods[0].method, verbose=verbose)
                kept = None if self.kept is None else self.kept.with_levels(levels)
                changed: dict[str, Any] = {"relaxation": relaxation, "covariance": covariance, "kept": kept}
                result = replace(self, **changed, problem=relaxation.problem)
            with timed_stage(timings, "sample"), stages.stage("sample"):
                network = sample_network(result.covariance, n_neurons, rng, allocation=allocation, n_jobs=n_jobs)
            if refine != "none":
                with timed_stage(timings, "refine"):
                    limit = options.refinement_deadline(deadline)
                    try:
                        network = refined(network, result.problem, options, rng, limit, result.kept)
                    except Interrupted as interrupt:
                        network = best_at_interrupt([network, interrupt.network], result.problem)
            with timed_stage(timings, "certify"):
                certificate = certify(network, result.problem, result.relaxation, verbose=verbose)
        return replace(result, network=network, certificate=certificate, timings=timings, refine=refine, exact=None)

    def __repr__(self) -> str:
        return f"QSDPResult({self.network!r}; {self.certificate})"

    def _summary(self) -> Summary:
        first = self.covariance[0] if isinstance(self.covariance, list) else self.covariance
        rows: Rows = [
            *self.certificate._summary().rows,
            *self.network._summary().rows,
            ("relaxation", self.relaxation._course()),
            ("shaping", f"{first.method}, c = {format_number(first.constant, 4)}"),
        ]
        if self.refine != "none":
            rows.append(("refinement", self.refine))
        return Summary("QSDPResult", [*rows, self._timings_row()])

    def timed(self, stage: str, seconds: float) -> QSDPResult:
        """Return the result with the seconds of a stage put first in `timings`."""
        return replace(self, timings={stage: seconds, **self.timings})

    def _timings_row(self) -> tuple[str, str]:
        return "time", ", ".join(f"{stage} {format_seconds(seconds)}" for stage, seconds in self.timings.items())


def refined(
    network: BilinearNetwork,
    problem: TrainingProblem,
    options: TrainingOptions,
    rng: np.random.Generator,
    limit: Deadline,
    kept: TrainingProblem | None,
    trial: Trial | None = None,
) -> BilinearNetwork:
    """Return the refined network, polished on the kept rows if statistics do not suit a polish.

    A network polished on the kept rows is returned only if it is better on all rows. `trial` is passed to the polish.

    Raises
    ------
    Interrupted
        The exception holds the best network so far, measured on the kept rows if the polish uses them.
    """
    if options.refine == "refit":
        return refit(network, problem, time_limit=limit.time_limit, verbose=options.verbose)
    if kept is not None and suits_statistics(problem):
        kept = None
    polished = improve(
        network,
        problem if kept is None else kept,
        trial=trial,
        time_limit=limit.time_limit,
        random_state=rng,
        n_jobs=options.n_jobs,
        verbose=options.verbose,
        device=options.device,
    )
    return polished if kept is None else min(polished, network, key=problem.objective)


@contextmanager
def timed_stage(timings: dict[str, float], stage: str) -> Iterator[None]:
    """Add the seconds spent in the context to the timing of a stage."""
    start = time.perf_counter()
    try:
        yield
    finally:
        timings[stage] = timings.get(stage, 0.0) + time.perf_counter() - start
