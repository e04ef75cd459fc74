"""Training pipeline: data, relaxation, shaping, sampling, refinement, certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qsdp._utils.deadline import Deadline
from qsdp._utils.options import documented
from qsdp._utils.progress import progress
from qsdp._utils.validation import (
    RandomState,
    check_random_state,
)
from qsdp.activations import PolynomialActivation
from qsdp.certificates import certify
from qsdp.column_generation import column_generation
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss
from qsdp.networks import BilinearNetwork
from qsdp.options import LIMITED, REFINEMENTS, TrainingOptions
from qsdp.problem import TrainingProblem
from qsdp.refinement import Interrupted, Trial, best_at_interrupt
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.relaxation.joining import joining_operations, with_network
from qsdp.result import QSDPResult, refined, timed_stage
from qsdp.sampling import sample_network
from qsdp.shaping import SignCovariance, covariances_of, root_operations
from qsdp.statistics import SufficientStatistics
from qsdp.width import more_neurons

__all__ = [
    "QSDPResult",
    "run_on_batches",
    "run_on_statistics",
    "run_pipeline",
    "sample_from",
    "solve_and_sample",
]

#: Relative gap of refine="exact".
_EXACT = 1e-6

#: Refinements whose networks may be better than a relaxation that ended early ("exact" has its own bounds), and the
#: largest share of the refinement's time that is reserved for joining the network and the relaxation.
_JOINED, _JOINING_TIME = frozenset({"refit", "polish"}), 0.15

#: Largest share of a time limit that a solve leaves to shaping and sampling.
_SAMPLING_TIME = 0.5

#: Sweeps of a polish that show whether this few neurons may suffice, and time of all sweeps over theirs (2.5 to 5.5).
_TRIED_SWEEPS, _ALL_SWEEPS = 8, 4.0

#: A refinement of more neurons is started if in full it takes at most this multiple of the time left. After eight
#: sweeps, neurons are as good as half as many after sixteen, and better later (letter: 88.9 and 88.6 % accuracy on new
#: rows, both after 22 s; vehicle, digits).
_BEGUN = 4.0

#: Passes that certify a network on rows in batches.
_PASSES = 3


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
        A keyboard interrupt stopped the sampling and refinement. The best network found so far is returned.

    Notes
    -----
    Algorithm 1 of Bartan and Pilanci.

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
    options = TrainingOptions.of(locals())
    return run_pipeline(options.problem(X, y, sample_weight), options)


def run_pipeline(
    problem: TrainingProblem,
    options: TrainingOptions,
    start: Relaxation | None = None,
    statistics: SufficientStatistics | None = None,
) -> QSDPResult:
    """Run the steps of `solve_and_sample` for a problem made by `TrainingOptions.problem`.

    With `statistics`, train on them; the rows of `problem` are then a sample of the summarised rows. The solver starts
    from the relaxation `start`, for example of other data, if it has the same shape and is not zero.
    """
    deadline = options.deadline()
    rng = check_random_state(options.random_state)
    timings: dict[str, float] = {}
    kept, expected_loss = None, 0.0
    with progress(options.verbose) as stages:
        if isinstance(options.beta, str):
            with timed_stage(timings, "beta"), stages.stage("beta") as bar:
                choice = options.beta_choice(problem, deadline, bar)
            problem, expected_loss = problem.with_beta(choice.beta), choice.expected_loss
        if statistics is not None:
            kind: dict[str, Any] = {"activation": problem.activation, "levels": problem.levels}
            kept, problem = problem, TrainingProblem.from_statistics(statistics, beta=problem.beta, **kind)
        following = deadline.seconds(problem.n_outputs * root_operations(problem.size))
        own = deadline.before(min(following, _SAMPLING_TIME * deadline.left))
        own = _before_refinement(own, options)
        if start is not None and not _leads(start, problem):
            start = None
        relaxation = solve_relaxation(
            problem,
            start=start,
            solver=options.solver,
            tol=options.tol,
            time_limit=own.time_limit,
            n_jobs=options.n_jobs,
            verbose=options.verbose,
            device=options.device,
        )
        result = sample_from(relaxation, options, rng, deadline, kept, expected_loss)
    return result.timed("beta", timings["beta"]) if timings else result


def run_on_statistics(statistics: SufficientStatistics, few: TrainingProblem, options: TrainingOptions) -> QSDPResult:
    """Run the steps of `solve_and_sample` for all rows summarised by statistics.

    `few`, a sample weighted to stand for all rows, determines beta. Networks with many inputs are polished on it.
    """
    return run_pipeline(few, options, statistics=statistics)


def run_on_batches(few: TrainingProblem, batches: Any, options: TrainingOptions) -> QSDPResult:
    """Run the steps of `solve_and_sample` on `few` weighted rows that stand for all rows, and certify on all rows.

    Parameters
    ----------
    few : TrainingProblem
    batches : callable
        Returns an iterator over batches of all rows; see `certify`.
    options : TrainingOptions
    """
    if options.refine == "exact":
        raise InvalidInputError(
            f"refine must be one of {', '.join(name for name in REFINEMENTS if name != 'exact')} for rows in batches "
            f"and a loss other than 'squared'; got 'exact', which needs all rows in memory"
        )
    deadline = options.deadline()
    result = run_pipeline(few, options)
    timings = dict(result.timings)
    with timed_stage(timings, "certify"):
        certificate = certify(
            result.network,
            batches,
            result.relaxation,
            beta=result.problem.beta,
            passes=_PASSES,
            time_limit=deadline.time_limit,
            verbose=options.verbose,
        )
    return replace(result, certificate=certificate, timings=timings, kept=result.problem)


def _leads(start: Relaxation, problem: TrainingProblem) -> bool:
    same = (start.problem.size, start.problem.y.shape) == (problem.size, problem.y.shape)
    # The zero point has no scale.
    return same and bool(np.any(start.rho_stack > 0.0))


def sample_from(
    relaxation: Relaxation,
    options: TrainingOptions,
    rng: np.random.Generator,
    deadline: Deadline,
    kept: TrainingProblem | None = None,
    expected_loss: float = 0.0,
) -> QSDPResult:
    """Run the steps of `solve_and_sample` after the relaxation, until the deadline.

    `kept` is as in `QSDPResult`. The loss expected on new rows, if known, helps to decide how many neurons are enough.
    """
    problem, verbose = relaxation.problem, options.verbose
    timings = {"compile": relaxation.compile_time, "solve": relaxation.solve_time}
    exact = None
    with progress(verbose) as stages:
        with timed_stage(timings, "shape"):
            covariance = _shaped(relaxation, options, deadline)
        limit = options.refinement_deadline(deadline)
        joins = options.refine in _JOINED and relaxation.status != "optimal"
        kept_time = limit.seconds(joining_operations(problem))
        reserved = kept_time <= _JOINING_TIME * limit.left
        if joins and reserved:
            limit = limit.before(kept_time)
        found: list[BilinearNetwork] = []
        try:
            network = _enough_neurons(
                relaxation, covariance, options, rng, limit, kept, expected_loss, timings, stages, found
            )
        except KeyboardInterrupt as interrupt:
            network = _best_found(found, interrupt, problem)
        in_time = (reserved and not deadline.over) or deadline.affords(joining_operations(problem))
        if joins and in_time and network.objective(problem) < relaxation.objective:
            with timed_stage(timings, "solve"):
                relaxation = with_network(relaxation, network, deadline)
            with timed_stage(timings, "shape"):
                covariance = _shaped(relaxation, options, deadline)
        if options.refine == "exact":
            with timed_stage(timings, "refine"):
                exact = column_generation(
                    problem,
                    tol=_EXACT,
                    relaxation=relaxation,
                    start=network,
                    time_limit=limit.time_limit,
                    random_state=rng,
                    verbose=verbose,
                )
            network = exact.network
        with timed_stage(timings, "certify"):
            certificate = exact.certificate if exact else certify(network, problem, relaxation, verbose=verbose)
    return QSDPResult(network, certificate, relaxation, covariance, problem, timings, options.refine, exact, kept)


def _shaped(relaxation: Relaxation, options: TrainingOptions, deadline: Deadline) -> Any:
    # The search for a larger constant must leave a refinement its share of the time.
    own = _before_refinement(deadline, options)
    return covariances_of(relaxation, options.shaping, own, options.verbose, within=True)


def _before_refinement(deadline: Deadline, options: TrainingOptions) -> Deadline:
    """Return a deadline that leaves half of the time to a refinement among `LIMITED`, if one follows."""
    return deadline.share(0.5) if options.refine in LIMITED else deadline


def _best_found(
    found: list[BilinearNetwork], interrupt: KeyboardInterrupt, problem: TrainingProblem
) -> BilinearNetwork:
    """Return the best network found before an interrupt, with a warning, or raise the interrupt if there is none."""
    if isinstance(interrupt, Interrupted):
        found.append(interrupt.network)
    if not found:
        raise interrupt
    return best_at_interrupt(found, problem)


@dataclass
class _Tried:
    """Number of neurons to draw after the first sweeps of a polish, and seconds that all sweeps would take."""

    more: int
    seconds: float = 0.0


def _enough_neurons(
    relaxation: Relaxation,
    covariance: SignCovariance | list[SignCovariance],
    options: TrainingOptions,
    rng: np.random.Generator,
    limit: Deadline,
    kept: TrainingProblem | None,
    expected_loss: float,
    timings: dict[str, float],
    stages: Any,
    found: list[BilinearNetwork],
) -> BilinearNetwork:
    """Return a network of as many neurons as the options request or as suffice, refined unless by "exact".

    Every intermediate network is appended to `found`.
    """
    problem, refines = relaxation.problem, options.refine not in {"none", "exact"}
    grows = options.n_neurons is None and options.refine != "exact"
    tries = grows and options.refine == "polish"
    state, n_neurons, smaller = rng.bit_generator.state, options.neurons(problem.n_outputs), None

    def affordable(seconds: float) -> float:
        """Return how many neurons may be refined in the time left, if the current number takes `seconds`."""
        return _BEGUN * n_neurons * limit.left / max(seconds, 1e-9)

    def next_size(network: BilinearNetwork, seconds: float, *, settled: bool) -> int:
        more = more_neurons(n_neurons, network, relaxation, expected_loss, settled=settled)
        while more > max(n_neurons, affordable(seconds)):
            more //= 2
        return max(more, n_neurons)

    while True:
        # Restore the state, so that the network equals the result of a call with this number of neurons.
        rng.bit_generator.state = state
        with timed_stage(timings, "sample"), stages.stage("sample"):
            network = sample_network(covariance, n_neurons, rng, allocation=options.allocation, n_jobs=options.n_jobs)
        found.append(network)
        began, tried = limit.elapsed, _Tried(n_neurons)

        def goes_on(
            network: BilinearNetwork, before: int = n_neurons, began: float = began, tried: _Tried = tried
        ) -> bool:
            tried.seconds = _ALL_SWEEPS * (limit.elapsed - began)
            tried.more = next_size(network, tried.seconds, settled=False)
            return tried.more == before

        if refines:
            with timed_stage(timings, "refine"):
                trial = Trial(_TRIED_SWEEPS, goes_on) if tries else None
                network = refined(network, problem, options, rng, limit, kept, trial)
            found.append(network)
        if tried.more > n_neurons:
            # Do not try the largest number that time allows: the time of the trial would be missing at the end.
            tries = affordable(tried.seconds) >= 2 * tried.more
            n_neurons, smaller = tried.more, network
            continue
        if not grows:
            return network
        if smaller is not None and limit.over and smaller.objective(problem) <= network.objective(problem):
            return smaller
        more = next_size(network, limit.elapsed - began, settled=True)
        if more == n_neurons:
            return network
        tries, n_neurons, smaller = False, more, network
