"""Training pipeline: data, relaxation, shaping, sampling, refinement, certificate; and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.option_fields import documented
from qsdp._utils.progress import progress
from qsdp._utils.summary import Rows, Summarized, Summary, format_number, format_seconds
from qsdp._utils.validation import FloatArray, RandomState, check_choice, check_random_state, warn
from qsdp.activations import PolynomialActivation
from qsdp.certificates import Certificate, certify, certify_stream
from qsdp.choosing.beta import BetaChoice
from qsdp.choosing.neurons import ENOUGH
from qsdp.choosing.options import REFINEMENTS, TrainingOptions
from qsdp.choosing.width import WidthSearch, check_memory_of_network, resized, timed_stage
from qsdp.column_generation import ColumnGenerationResult, column_generation
from qsdp.column_generation.generator import is_cheap
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.refinement import Interrupted, best_at_interrupt, in_bits
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.relaxation.joining import relaxation_of, with_network
from qsdp.relaxation.solution import warn_of_choices
from qsdp.relaxation.solve import warn_of_zero
from qsdp.shaping import SignCovariance, shape_covariance
from qsdp.statistics import SufficientStatistics

__all__ = [
    "QSDPResult",
    "run_on_batches",
    "run_pipeline",
    "sample_from",
    "solve_and_sample",
]

#: Refinements whose networks may improve a relaxation that ended early ("exact" computes separate bounds).
_JOINED = frozenset({"refit", "polish"})

#: Bits of the second-layer weights and the weights of columns of a network that is not sampled.
_ALPHA_BITS = 8

#: Inputs up to which such a network is priced exactly, which closes most of the gap.
_PRICED = 40

#: Limit of this pricing, as a number of checks of time limits: so many, and so many more for each output. Checks are up
#: to three milliseconds apart. A limit in seconds would change the bound from run to run; most networks need a tenth.
_CHECKS, _CHECKS_OF_OUTPUT = 150, 100

#: Seconds that this pricing may take even if the time limit of the call has passed.
_OVERTIME = 1.0

#: Number of passes that certify a network on rows in batches.
_PASSES = 3

#: Stages that every network goes through.
_OF_A_NETWORK = frozenset({"sample", "refine", "certify"})


@dataclass(frozen=True, eq=False, repr=False)
class QSDPResult(Summarized):
    """Result of training: a sampled network with its certificate and all intermediate results.

    Attributes
    ----------
    network : BilinearNetwork
    certificate : Certificate
        Objective of the network and the bound on the global optimum.
    relaxation : Relaxation
    covariance : SignCovariance, or a list of one for each output
    problem : TrainingProblem
    timings : dict of str to float
        Seconds spent in the stages "encoding" (if "auto"), "beta" (if "auto" or a fraction of `beta_max`),
        "compile", "solve", "shape", "sample", "refine" (if any) and "certify".
    refine : {"none", "refit", "polish", "exact"}
        Refinement applied to the sampled network.
    exact : ColumnGenerationResult or None
        Result of the search for the global optimum, for ``refine="exact"``.
    subsample : TrainingProblem or None
        Problem of a sample of the rows, weighted to represent all, if the certificate is for rows that are not in
        memory. For losses other than the squared one, it is `problem`, and passes over all rows certified the network.
    choice : BetaChoice or None
        How beta was chosen, with the errors expected on new rows.
    """

    network: BilinearNetwork
    certificate: Certificate
    relaxation: Relaxation
    covariance: SignCovariance | list[SignCovariance]
    problem: TrainingProblem
    timings: dict[str, float]
    refine: str = "none"
    exact: ColumnGenerationResult | None = None
    subsample: TrainingProblem | None = None
    choice: BetaChoice | None = None

    @property
    def rows(self) -> TrainingProblem:
        """Problem with rows in memory: `subsample`, or `problem` if that is None."""
        return self.problem if self.subsample is None else self.subsample

    def predict(self, X: Any) -> FloatArray:
        """Compute the outputs of the network, shape (n,) or (n, C)."""
        return self.network.predict(X)

    @documented(TrainingOptions)
    def resample(
        self,
        n_neurons: int | None,
        random_state: RandomState = TrainingOptions.random_state,
        *,
        levels: int | None = None,
        allocation: str = TrainingOptions.allocation,
        refine: str | None = None,
        time_limit: float | None = TrainingOptions.time_limit,
        n_jobs: int | None = TrainingOptions.n_jobs,
        verbose: bool | int = TrainingOptions.verbose,
    ) -> QSDPResult:
        """Draw another network, of any size and number of levels, from the same solution, without another solve.

        Parameters
        ----------
        n_neurons : int or None
            Number of neurons, m >= 1; None as in `solve_and_sample`.
        random_state : int, Generator, RandomState or None, default=0
            Seed; None draws a new one. With one output and the same seed, the neurons of a smaller network are the
            first neurons of a larger one.
        levels : int, optional
            Number of levels, if it differs from this result. The solution is carried over to the new problem (same
            data, loss and beta), and its lower bound is recomputed from the same dual vector. The bound is valid,
            but looser than the bound from a solve for these levels.
        allocation, time_limit, n_jobs, verbose
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
            The network was certified by passes over rows that are not in memory. A new network would need them as well.
        """
        if self.subsample is self.problem:
            raise InvalidInputError(
                "resample needs all rows to certify another network, but they were read in batches: fit again with "
                "another number of neurons"
            )
        refine = ("none" if self.refine == "exact" else self.refine) if refine is None else refine
        check_choice("refine", refine, [name for name in REFINEMENTS if name != "exact"])
        relaxation, subsample = self.relaxation, self.subsample
        covariance: Any = self.covariance
        levels = self.problem.levels if levels is None else levels
        first = covariance[0] if isinstance(covariance, list) else covariance
        # The closed form may have been a fallback.
        shaping = "krivine" if first.method == "krivine" else "adaptive"
        options = TrainingOptions.from_values(locals())
        timings = {stage: seconds for stage, seconds in self.timings.items() if stage not in _OF_A_NETWORK}
        with options.limit(), progress(verbose):
            if levels != self.problem.levels:
                timings.pop("shape")
                relaxation, covariance = self.relaxation.with_levels(levels), None
                subsample = None if subsample is None else subsample.with_levels(levels)
            rng = check_random_state(random_state)
            return sample_from(relaxation, options, rng, subsample, self.choice, timings, covariance)

    def __repr__(self) -> str:
        return f"QSDPResult({self.network!r}; {self.problem.settings_text()}; {self.certificate})"

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
        """Return the result with the seconds of a stage prepended to `timings`."""
        return replace(self, timings={stage: seconds, **self.timings})

    def _timings_row(self) -> tuple[str, str]:
        return "time", ", ".join(f"{stage} {format_seconds(seconds)}" for stage, seconds in self.timings.items())


@documented(TrainingOptions)
def solve_and_sample(
    X: Any,
    y: Any,
    n_neurons: int | None = TrainingOptions.n_neurons,
    beta: float | str = TrainingOptions.beta,
    loss: str | Loss = TrainingOptions.loss,
    *,
    sample_weight: Any = None,
    activation: str | Sequence[float] | PolynomialActivation | None = TrainingOptions.activation,
    levels: int = TrainingOptions.levels,
    solver: str = TrainingOptions.solver,
    shaping: str = TrainingOptions.shaping,
    refine: str = TrainingOptions.refine,
    tol: float = TrainingOptions.tol,
    allocation: str = TrainingOptions.allocation,
    time_limit: float | None = TrainingOptions.time_limit,
    n_jobs: int | None = TrainingOptions.n_jobs,
    device: str | None = TrainingOptions.device,
    random_state: RandomState = TrainingOptions.random_state,
    verbose: bool | int = TrainingOptions.verbose,
) -> QSDPResult:
    r"""Train a network with quantized first-layer weights and certify it.

    Solves the semidefinite relaxation of

    .. math::

        \min \sum_i w_i\, \ell\Big(\sum_j \alpha_j\, u_j^T \mathcal{X}_i v_j, y_i\Big) + \beta D \sum_j \|\alpha_j\|_1,

    shapes a covariance from its solution, samples the neurons from that covariance and refines them if requested.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Data. A bilinear network is even, :math:`f(-x) = f(x)`. If that is not wanted, append a column of ones, as
        the estimators do.
    y : array-like of shape (n,) or (n, C)
        Targets. Losses for labels take -1 and +1; the cross-entropy takes class numbers or one-hot rows.
    n_neurons, beta, loss
        See `TrainingOptions`.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`w_i` >= 0; None gives every sample weight one. See `TrainingProblem`.
    activation, levels, solver, shaping, refine, tol, allocation, time_limit, n_jobs, device, random_state, verbose
        See `TrainingOptions`.

    Returns
    -------
    QSDPResult

    Warns
    -----
    QSDPWarning
        A keyboard interrupt stopped the relaxation, the sampling or the refinement. The best network so far is
        returned; after an interrupt of the relaxation, it is not refined.

    Notes
    -----
    Algorithm 1 of Bartan and Pilanci with the factor of the regulariser corrected; as printed, it is
    `qsdp.paper.algorithm_1`.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
    >>> result = qsdp.solve_and_sample(X, y, n_neurons=500, beta=0.1, random_state=0)
    >>> result.certificate.lower_bound <= result.certificate.objective
    True
    >>> result.resample(2000, random_state=1).network.n_neurons
    2000
    >>> optimal = qsdp.solve_and_sample(X, y, beta=0.1, refine="exact", random_state=0)
    >>> optimal.certificate.bound_type, optimal.certificate.relative_gap <= 1e-6
    ('exact', True)
    """
    options = TrainingOptions.from_values(locals())
    problem = options.problem(X, y, sample_weight)
    return run_pipeline(problem, options)


def run_pipeline(
    problem: TrainingProblem,
    options: TrainingOptions,
    start: Relaxation | None = None,
    statistics: SufficientStatistics | None = None,
    *,
    network: BilinearNetwork | None = None,
) -> QSDPResult:
    """Run the steps of `solve_and_sample` for a problem created by `TrainingOptions.problem`.

    With `statistics`, train on them; the rows of `problem` are then a sample, weighted to stand for all rows, which
    determines beta, and on which networks with many inputs are polished. The solver starts from the relaxation
    `start`, for example of other data, if it has the same shape. A `network` that is optimal to about a percent
    replaces relaxation and sampling; if a number of neurons is requested, its largest ones remain, or are split.
    """
    rng = check_random_state(options.random_state)
    timings: dict[str, float] = {}
    subsample, choice = None, BetaChoice(problem.beta)
    with options.limit(), progress(options.verbose) as stages:
        if isinstance(options.beta, str):
            with timed_stage(timings, "beta"), stages.stage("beta"):
                choice = options.beta_choice(problem)
            problem = problem.with_beta(choice.beta)
        if statistics is not None:
            kind: dict[str, Any] = {"activation": problem.activation, "levels": problem.levels}
            subsample, problem = problem, TrainingProblem.from_statistics(statistics, beta=problem.beta, **kind)
        if options.refine == "exact" and problem.blocks is not None and is_cheap(problem):
            return _proven(problem, options, rng, subsample, timings, network)
        if network is not None and options.refine != "exact" and (options.n_neurons is None or network.n_neurons):
            return _refitted(network, problem, options, rng, timings)
        check_memory_of_network(problem, options, subsample)
        if start is not None and _shape_of(start.problem) != _shape_of(problem):
            start = None
        with options.solving():
            relaxation = solve_relaxation(
                problem,
                start=start,
                solver=options.solver,
                tol=options.tol,
                n_jobs=options.n_jobs,
                verbose=options.verbose,
                device=options.device,
            )
        timings |= {"compile": relaxation.compile_time, "solve": relaxation.solve_time}
        if relaxation.interrupted and options.refine != "none":
            # One interrupt ends the call, not only its first stage.
            where = "interrupted while the relaxation was solved"
            warn(f"{where}: the network is sampled from its best point, and not refined")
            options = replace(options, refine="none")
        result = sample_from(relaxation, options, rng, subsample, choice, timings)
        warn_of_choices()
    return result


def _shape_of(problem: TrainingProblem) -> tuple[Any, ...]:
    """Return what problems have in common whose relaxations start from each other."""
    return problem.size, problem.y.shape, problem.blocks


def _proven(
    problem: TrainingProblem,
    options: TrainingOptions,
    rng: np.random.Generator,
    subsample: TrainingProblem | None,
    timings: dict[str, float],
    start: BilinearNetwork | None = None,
) -> QSDPResult:
    """Run column generation on blocks without a previous relaxation, and build one from its result.

    Neurons of small blocks are enumerated, which takes far less time than a solve of the relaxation.
    """
    exact = _searched(problem, options, rng, timings, start=start)
    kind = {"solver": "column generation", "solver_status": exact.status}
    with deadline.unlimited():
        with timed_stage(timings, "solve"):
            relaxation = relaxation_of(exact.network, problem, tol=options.tol, **kind)
        with timed_stage(timings, "shape"):
            covariance = shape_covariance(relaxation, options.shaping, verbose=options.verbose)
    certificate = exact.certificate
    return QSDPResult(
        exact.network, certificate, relaxation, covariance, problem, timings, options.refine, exact, subsample
    )


def _refitted(
    network: BilinearNetwork,
    problem: TrainingProblem,
    options: TrainingOptions,
    rng: np.random.Generator,
    timings: dict[str, float],
) -> QSDPResult:
    """Build the relaxation of a nearly optimal network, and store the network in few bits unless it stays as it is.

    If a number of neurons is requested, the network is brought to it first.
    """
    if not np.any(network.entries):
        warn_of_zero(problem)
    source: dict[str, Any] = {"solver": "column generation", "solver_status": "optimal"}
    with timed_stage(timings, "solve"):
        relaxation = relaxation_of(network, problem, tol=options.tol, **source)
    with timed_stage(timings, "shape"):
        covariance = _shaped(relaxation, options)
    checks, seconds = _CHECKS + _CHECKS_OF_OUTPUT * problem.n_outputs, max(_OVERTIME, deadline.left())
    with timed_stage(timings, "certify"), deadline.unlimited(), deadline.within(seconds), deadline.checks(checks):
        # An unfinished maximum has a valid bound, too.
        bound_type = "exact" if problem.size <= _PRICED else "sdp"
        certificate = certify(network, problem, relaxation, bound_type=bound_type, verbose=options.verbose)
    with timed_stage(timings, "refine"), options.refining():
        if options.n_neurons is not None:
            network = resized(network, problem, covariance, options.n_neurons, options, rng)
        if options.refine != "none":
            network = in_bits(network, problem, _ALPHA_BITS)
    # The gradient at another network would prove less.
    objective = network.objective(problem)
    proof: Any = certificate.proof
    bound = min(certificate.lower_bound, objective)
    certificate = replace(certificate, lower_bound=bound, objective=objective, proof=replace(proof, network=network))
    return QSDPResult(network, certificate, relaxation, covariance, problem, timings, options.refine)


def run_on_batches(few: TrainingProblem, batches: Any, options: TrainingOptions) -> QSDPResult:
    """Run the steps of `solve_and_sample` on `few` weighted rows that stand for all rows, and certify on all rows.

    Parameters
    ----------
    few : TrainingProblem
    batches : callable
        Returns an iterator over batches of all rows; see `certify_stream`.
    options : TrainingOptions
    """
    if few.blocks is not None:
        raise InvalidInputError(
            f"loss must be 'squared' for blocks of a Dask collection; got {few.loss.name!r}, which needs all rows in "
            "memory"
        )
    if options.refine == "exact":
        raise InvalidInputError(
            f"refine must be one of {', '.join(name for name in REFINEMENTS if name != 'exact')} for rows in batches "
            f"and a loss other than 'squared'; got 'exact', which needs all rows in memory"
        )
    with options.limit():
        result = run_pipeline(few, options)
        timings = dict(result.timings)
        with timed_stage(timings, "certify"):
            certificate = certify_stream(
                result.network,
                batches,
                result.relaxation,
                beta=result.problem.beta,
                passes=_PASSES,
                verbose=options.verbose,
            )
    return replace(result, certificate=certificate, timings=timings, subsample=result.problem)


def sample_from(
    relaxation: Relaxation,
    options: TrainingOptions,
    rng: np.random.Generator,
    subsample: TrainingProblem | None = None,
    choice: BetaChoice | None = None,
    timings: Mapping[str, float] | None = None,
    covariance: Any = None,
) -> QSDPResult:
    """Run the steps of `solve_and_sample` after the relaxation, until a time limit.

    `subsample` is as in `QSDPResult`. The `choice` of beta holds the expected loss and the resolution that decide how
    many neurons are enough. `timings` are those of earlier stages, and `covariance` that of the relaxation, if known.
    """
    problem, verbose, timings, exact = relaxation.problem, options.verbose, dict(timings or {}), None
    with progress(verbose):
        if covariance is None:
            with timed_stage(timings, "shape"):
                covariance = _shaped(relaxation, options)
        choice = choice or BetaChoice(problem.beta)
        known = choice.loss_of(relaxation), min(ENOUGH, choice.resolution)
        sampling = WidthSearch(relaxation, covariance, options, rng, timings, subsample, *known)
        try:
            with options.refining():
                network = sampling.network()
        except KeyboardInterrupt as interrupt:
            networks = sampling.networks + ([interrupt.network] if isinstance(interrupt, Interrupted) else [])
            if not networks:
                raise
            network = best_at_interrupt(networks, problem)
        joins = options.refine in _JOINED and relaxation.status != "optimal"
        if joins and network.objective(problem) < relaxation.objective:
            with timed_stage(timings, "solve"):
                relaxation = with_network(relaxation, network)
            with timed_stage(timings, "shape"):
                covariance = _shaped(relaxation, options)
        if options.refine == "exact":
            exact = _searched(problem, options, rng, timings, relaxation=relaxation, start=network)
            network = exact.network
        with timed_stage(timings, "certify"), deadline.unlimited():
            certificate = exact.certificate if exact else certify(network, problem, relaxation, verbose=verbose)
    return QSDPResult(
        network, certificate, relaxation, covariance, problem, timings, options.refine, exact, subsample, choice
    )


def _searched(
    problem: TrainingProblem,
    options: TrainingOptions,
    rng: np.random.Generator,
    timings: dict[str, float],
    **known: Any,
) -> ColumnGenerationResult:
    """Search for the global optimum, from a known relaxation and network if there are any."""
    with timed_stage(timings, "refine"), options.refining():
        return column_generation(problem, random_state=rng, verbose=options.verbose, **known)


def _shaped(relaxation: Relaxation, options: TrainingOptions) -> Any:
    with options.solving():
        return shape_covariance(relaxation, options.shaping, verbose=options.verbose)
