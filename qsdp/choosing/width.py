"""Networks with a number of neurons that is requested or enough: sampled and refined, or brought to it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.progress import progress
from qsdp._utils.tuning import INNER, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.choosing.neurons import MAX_NEURONS, deviation, more_neurons, reachable_deviation
from qsdp.choosing.options import TrainingOptions
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.refinement import (
    AnyData,
    Trial,
    check_memory_of_polish,
    descent_data,
    improve,
    polish,
    refit,
    suits_statistics,
)
from qsdp.relaxation import Relaxation
from qsdp.sampling import check_memory_of_neurons, sample_network
from qsdp.shaping import SignCovariance

__all__ = ["WidthSearch", "check_memory_of_network", "refined", "resized", "timed_stage"]

#: Number of sweeps of a polish between decisions whether to continue it.
_TRIED_SWEEPS = 8


@dataclass
class WidthSearch:
    """Sampling and refinement (except "exact") of networks.

    Attributes
    ----------
    relaxation, covariance
        What is sampled from, and the problem that it belongs to.
    timings : dict of str to float
        The seconds of the stages "sample" and "refine" are added.
    subsample : TrainingProblem or None
        See `refined`.
    expected_loss : float
        Loss on new rows, if known, or 0; see `deviation`.
    enough : float
        Deviation from the relaxation at which neurons are enough.
    networks : list of BilinearNetwork
        All networks so far.
    """

    relaxation: Relaxation
    covariance: SignCovariance | list[SignCovariance]
    options: TrainingOptions
    rng: np.random.Generator
    timings: dict[str, float]
    subsample: TrainingProblem | None
    expected_loss: float
    enough: float
    networks: list[BilinearNetwork] = field(default_factory=list)

    def network(self) -> BilinearNetwork:
        """Sample a network with the requested number of neurons.

        If no number is requested, it grows while more neurons are needed and time is left, and a polish ends when it
        hardly improves.
        """
        grows = self.options.n_neurons is None and self.options.refine != "exact"
        n_neurons, smaller = self.options.neurons(self.relaxation.problem.n_outputs), None
        state = self.rng.bit_generator.state
        while True:
            # Restore the state, so that the sample is that of a call with this number of neurons.
            self.rng.bit_generator.state = state
            network, off = self._drawn(n_neurons, tries=grows and self.options.refine == "polish")
            if not grows or deadline.over():
                break
            off = self._compared(network)[0] if off is None else off
            needed = more_neurons(n_neurons, network.n_outputs, off, self.enough)
            if needed == n_neurons:
                return network
            n_neurons, smaller = needed, network
        # Time ended in the refinement of the larger network, which may not be the better one yet.
        return network if smaller is None else min(smaller, network, key=self.relaxation.problem.objective)

    @cached_property
    def _relaxed(self) -> FloatArray:
        """Outputs of the relaxation on the rows of the problem."""
        return self.relaxation.fitted

    @cached_property
    def _data(self) -> AnyData:
        """Data of the polishes of all numbers of neurons, which suit half of the largest number."""
        problem = _polished_problem(self.relaxation.problem, self.subsample)
        return descent_data(problem, MAX_NEURONS // 2 * problem.n_outputs)

    def _compared(self, network: BilinearNetwork) -> tuple[float, float]:
        """Return the deviation of a network from the relaxation, and its excess over the relaxation's objective."""
        problem = self.relaxation.problem
        outputs = problem.outputs(network)
        off = deviation(outputs, self._relaxed, self.relaxation, self.expected_loss)
        return off, problem.data_fit.value(outputs) + problem.penalty(network) - self.relaxation.objective

    def _drawn(self, n_neurons: int, *, tries: bool) -> tuple[BilinearNetwork, float | None]:
        """Sample and refine a network; also return its deviation from the relaxation, if known.

        If `tries`, the refinement ends when it shows that more neurons are needed, or that these suffice.
        """
        options = self.options
        last, checked = (math.inf, math.inf), None

        def continues(network: Any) -> bool:
            nonlocal last, checked
            off_before, excess_before = last
            off, excess = last = self._compared(network)
            checked = network
            if off <= self.enough:
                # These sweeps must lower the excess over the relaxation by more than a small part of it.
                return excess_before - excess >= INNER * excess_before
            reachable = reachable_deviation(off, off_before)
            return more_neurons(n_neurons, network.n_outputs, reachable, self.enough) == n_neurons

        with timed_stage(self.timings, "sample"), progress(options.verbose) as stages, stages.stage("sample"):
            network: BilinearNetwork = sample_network(
                self.covariance, n_neurons, self.rng, allocation=options.allocation, n_jobs=options.n_jobs
            )
        self.networks.append(network)
        if options.refine not in {"none", "exact"}:
            with timed_stage(self.timings, "refine"):
                trial = Trial(_TRIED_SWEEPS, continues) if tries else None
                data = self._data if tries else None
                network = refined(network, self.relaxation.problem, options, self.rng, self.subsample, trial, data)
            self.networks.append(network)
        return network, last[0] if network is checked else None


def check_memory_of_network(
    problem: TrainingProblem, options: TrainingOptions, subsample: TrainingProblem | None
) -> None:
    """Raise `InvalidInputError` before a solve if the network could not be sampled or refined in the main memory."""
    n_neurons = options.neurons(problem.n_outputs)
    if options.refine == "polish":
        check_memory_of_polish(_polished_problem(problem, subsample), n_neurons)
    else:
        check_memory_of_neurons("sampling", n_neurons, problem.size, problem.n_outputs)


def refined(
    network: BilinearNetwork,
    problem: TrainingProblem,
    options: TrainingOptions,
    rng: np.random.Generator,
    subsample: TrainingProblem | None,
    trial: Trial | None = None,
    data: AnyData | None = None,
) -> Any:
    """Refine a network; it is polished on the subsample if polishing on statistics would be too slow.

    A network polished on the subsample is returned only if it is better on all rows. `trial` and `data` are passed to
    the polish.

    Raises
    ------
    Interrupted
        The exception holds the best network so far, measured on the subsample if the polish uses them.
    """
    if options.refine == "refit":
        return refit(network, problem, verbose=options.verbose)
    used = _polished_problem(problem, subsample)
    polished: BilinearNetwork = improve(
        network,
        used,
        trial=trial,
        data=data,
        random_state=rng,
        n_jobs=options.n_jobs,
        verbose=options.verbose,
    )
    return polished if used is problem else min(polished, network, key=problem.objective)


def _polished_problem(problem: TrainingProblem, subsample: TrainingProblem | None) -> TrainingProblem:
    """Return the problem itself, or that of the subsample if polishing on statistics would be too slow."""
    return problem if subsample is None or suits_statistics(problem) else subsample


def resized(
    network: BilinearNetwork,
    problem: TrainingProblem,
    covariance: Any,
    count: int,
    options: TrainingOptions,
    rng: np.random.Generator,
) -> BilinearNetwork:
    """Return the network with its `count` largest neurons; of fewer ones, the largest are split into equal parts.

    If neurons are missing, "refit" and "polish" move the other weights, and the result of "polish" is the better of
    this network and one that is sampled.
    """
    order = np.argsort(-np.abs(network.output_weights).max(axis=1), kind="stable")
    rows = order[np.arange(count) % network.n_neurons]
    alpha = network.output_weights[rows] / np.bincount(rows)[rows][:, None]
    changed: BilinearNetwork = network.with_neurons(network.U[rows], network.V[rows], problem.squeezed(alpha), rows)
    if count >= network.n_neurons or options.refine == "none":
        return changed
    changed = refit(changed, problem, tol=SMALL)
    if options.refine == "refit":
        return changed
    jobs: dict[str, Any] = {"n_jobs": options.n_jobs}
    sampled = sample_network(covariance, count, rng, allocation=options.allocation, **jobs)
    polished = [
        polish(start, problem, random_state=rng, verbose=options.verbose, **jobs) for start in (changed, sampled)
    ]
    better: BilinearNetwork = min(polished, key=problem.objective)
    return better


@contextmanager
def timed_stage(timings: dict[str, float], stage: str) -> Iterator[None]:
    """Add the seconds spent in the context to the timing of a stage."""
    start = time.perf_counter()
    try:
        yield
    finally:
        timings[stage] = timings.get(stage, 0.0) + time.perf_counter() - start
