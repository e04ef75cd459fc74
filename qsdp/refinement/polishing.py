"""Polish a network at equal storage: coordinate descent over single first-layer weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.parallel import count_jobs, few_threads, in_threads
from qsdp._utils.progress import progress
from qsdp._utils.tuning import FAR
from qsdp._utils.validation import RandomState, check_integer, check_random_state, check_verbose, warn
from qsdp.certificates import check_fits
from qsdp.exceptions import InvalidTypeError
from qsdp.networks import BilinearNetwork
from qsdp.networks.weights import owners_of
from qsdp.problem import TrainingProblem
from qsdp.refinement._choice import AnyData, descent_data, descent_of
from qsdp.refinement._descent import CoordinateDescent, largest_weights
from qsdp.refinement._models import check_descends
from qsdp.refinement._samples import SMALL, BlockSamples
from qsdp.refinement._second_layer import adjust_columns, rescale, rescale_to_optimum, resolve, revive, reweight

__all__ = ["MAX_SWEEPS", "Interrupted", "Trial", "best_at_interrupt", "improve", "polish"]

Callback = Callable[[int, float], object]

#: Maximum number of sweeps of a polish, most of which end after fewer; more would only take longer.
MAX_SWEEPS = 50

#: Smallest and largest fraction of the weights that a restart perturbs; half or twice is as good.
_PERTURBATION = (0.02, 0.2)


@dataclass(frozen=True)
class Trial:
    """Early-stopping test after every so many sweeps, of the better of the polished and the initial network."""

    sweeps: int
    continues: Callable[[Any], bool]


class Interrupted(KeyboardInterrupt):
    """Keyboard interrupt during polishing, after the objective has decreased; holds the best network so far."""

    def __init__(self, network: Any, problem: TrainingProblem) -> None:
        super().__init__()
        self.network, self.problem = network, problem


def polish(
    network: Any,
    problem: TrainingProblem,
    *,
    max_sweeps: int = MAX_SWEEPS,
    restarts: int = 0,
    time_limit: float | None = None,
    random_state: RandomState = 0,
    callback: Callback | None = None,
    n_jobs: int | None = None,
    verbose: bool | int = False,
) -> Any:
    r"""Lower a network's objective by coordinate descent over its weights, at equal storage.

    Coordinate descent on

    .. math::

        \ell\Big(\sum_{j=1}^m \alpha_j\, u_j^T \mathcal{X}_i v_j,\, y\Big) + \beta D \sum_{j=1}^m \|\alpha_j\|_1

    over the entries of :math:`u_j` and :math:`v_j`, one level (:math:`\pm 2`) at a time, and over the second layer
    between sweeps; for data in blocks, neurons stay in their blocks. One product with the data gives the slopes of all
    moves of one side of a neuron. A move is accepted only if an evaluation shows that the loss falls. If the descent
    stops by itself, no single move lowers the loss by more than rounding: 1e-12 of the loss, or 1e-9 of it on data of
    more than 131,072 entries.

    Parameters
    ----------
    network : BilinearNetwork
        Network to start from. Its width, levels, activation and kind of second layer are kept: a single magnitude
        per output stays single (and gets its best value), free weights stay free.
    problem : TrainingProblem
    max_sweeps : int, default=50
        Sweeps over all neurons from each start, >= 1.
    restarts : int, default=0
        Number of times that a random subset of the best network's weights is perturbed and the network polished again.
    time_limit : float, optional
        Seconds, > 0, checked before every evaluation of the loss; the current step is finished, and the result is
        evaluated.
    random_state : int, Generator, RandomState or None, default=0
        Used for restarts, and for neurons whose second-layer weight is zero.
    callback : callable, optional
        Called as ``callback(sweep, objective)`` after every sweep, numbered from 1 over all starts.
    n_jobs : int, optional
        Threads for outputs that do not interact (one magnitude per output, and a loss that adds up over outputs, but
        not a squared loss, whose outputs share products), as in joblib; None means one. Without a time limit, the
        result does not depend on it.
    verbose : bool or int, default=False
        Show objective and sweeps on standard error, or in the notebook.

    Returns
    -------
    BilinearNetwork
        A network of the same width and storage. Its objective, recomputed from the data, is at most that of the input.
        If the objective does not decrease, the input itself is returned.

    Raises
    ------
    InvalidInputError
        An argument is not allowed, or the network does not fit the problem.
    SolverError
        The loss couples outputs and has no curvature.

    Warns
    -----
    QSDPWarning
        A keyboard interrupt ended polishing, and the best network so far is returned. If none is better than the
        input, the interrupt is raised again.

    Notes
    -----
    Memory holds the network, the data and a rescaled copy of it (unless its largest entry is between 0.71 and 1.41).
    All else is bounded for any width, except for polishing on the Gram matrix (see below), which takes about 60 N bytes
    per neuron: about ten arrays of 32 MiB per thread, and a few of the size of the predictions.
    A sweep costs six to eight products of the data with all neurons, and usually a few loss evaluations per batch.

    On data of more than 131,072 entries, these products and a copy of the data for them are in single precision,
    unless targets, weights or single rows are too large or small for its range. Losses, the predictions at the start
    of every sweep and the returned objective are in double precision.

    Rows of data in blocks are converted in chunks, and no copy of them is kept. The derivatives of the outputs of a
    batch in all entries of a side are one array of at most 32 MiB, unless those of a single neuron take more.

    For problems from statistics, and for a squared loss with N up to 80 if this is estimated to be faster, moves are
    computed from the :math:`N(N+1)/2`-sided Gram matrix of the data, at a cost independent of the number of samples.
    One entry of the sides of all neurons is moved after the other, or the best of all moves is made if these are few;
    if no single move helps, pairs of moves are tried. The Gram matrix and a factor of it take 84 MB each for N = 80.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> from qsdp.refinement.polishing import polish
    >>> data = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
    >>> problem = qsdp.TrainingProblem(data.X, data.y, beta=0.1)
    >>> rng = np.random.default_rng(0)
    >>> U, V = rng.choice([-1, 1], size=(2, 20, 6))
    >>> network = qsdp.BilinearNetwork(U, V, np.full(20, 0.1))
    >>> polished = polish(network, problem)
    >>> problem.objective(polished) < 0.5 * problem.objective(network)
    True
    >>> polished.n_bits == network.n_bits
    True
    """
    try:
        return improve(
            network,
            problem,
            max_sweeps=max_sweeps,
            restarts=restarts,
            time_limit=time_limit,
            random_state=random_state,
            callback=callback,
            n_jobs=n_jobs,
            verbose=verbose,
        )
    except Interrupted as interrupt:
        return best_at_interrupt([interrupt.network], interrupt.problem)


def improve(
    network: Any,
    problem: TrainingProblem,
    *,
    max_sweeps: int = MAX_SWEEPS,
    restarts: int = 0,
    time_limit: float | None = None,
    random_state: RandomState = 0,
    callback: Callback | None = None,
    n_jobs: int | None = None,
    verbose: bool | int = False,
    trial: Trial | None = None,
    data: AnyData | None = None,
) -> Any:
    """Run `polish` for callers that handle keyboard interrupts, with an optional early-stopping test.

    The test `trial` decides after every so many sweeps whether to continue. Several polishes of a problem can share the
    `data` of their descents, see `descent_data`.

    Raises
    ------
    Interrupted
        A keyboard interrupt arrived after the objective had been lowered.
    """
    check_fits(network, problem)
    check_descends(problem.loss)
    sweeps = check_integer("max_sweeps", max_sweeps, minimum=1)
    starts = 1 + check_integer("restarts", restarts, minimum=0)
    jobs = count_jobs(n_jobs)
    check_verbose(verbose)
    rng = check_random_state(random_state)
    if callback is not None and not callable(callback):
        raise InvalidTypeError(f"callback must be callable; got {type(callback).__name__}")
    with deadline.after(time_limit):
        best = BestNetwork(problem, network)
        count = 0
        data = descent_data(problem, network.n_neurons) if data is None else data
        run = Run(network, rng, data)
        try:
            with few_threads(small=is_small(problem)), progress(verbose) as stages, stages.stage("polish") as bar:
                for start in range(starts):
                    if start:
                        if deadline.over():
                            break
                        run = Run(perturbed(best.network, problem, rng), rng, data)
                    for value in run.sweeps(sweeps, jobs):
                        count += 1
                        bar.sweep(count, value)
                        if callback is not None:
                            callback(count, value)
                        if trial is not None and count % trial.sweeps == 0:
                            best.offer(run.network())
                            if not trial.continues(best.network):
                                return best.network
                    best.offer(run.network())
        except KeyboardInterrupt:
            best.offer(run.network())
            if best.network is network:
                raise
            raise Interrupted(best.network, problem) from None
        return best.network


def best_at_interrupt(networks: Sequence[Any], problem: TrainingProblem) -> Any:
    """Return the best of the networks available at an interrupt, and warn that the search was interrupted."""
    objectives = [problem.objective(network) for network in networks]
    smallest = min(objectives)
    warn(f"interrupted: returning the best network so far, of objective {smallest:.6g}")
    return networks[objectives.index(smallest)]


class BestNetwork:
    """Best network so far (the first among equals) and its objective."""

    def __init__(self, problem: TrainingProblem, network: Any) -> None:
        self.problem, self.network, self.objective = problem, network, problem.objective(network)

    def offer(self, other: Any) -> None:
        """Replace the best network by `other` if its objective is lower."""
        objective = self.problem.objective(other)
        if objective < self.objective:
            self.network, self.objective = other, objective


class Run:
    """Polishing from one start: a single coordinate descent, or one per output if outputs do not interact.

    Outputs are separate scalar problems if they have their own neurons and the loss adds up over outputs. Those of a
    squared loss share one descent nevertheless: moves of different outputs do not conflict, and products of the data
    with few neurons take as long as those with many.
    """

    def __init__(self, network: BilinearNetwork, rng: np.random.Generator, data: AnyData) -> None:
        problem = data.problem
        self.origin, self.rng = network, rng
        self.shared = network.shared_alpha
        self.rows: list[Any] = [slice(None)]
        self.outputs: list[Any] = [slice(None)]
        self.constant = 0.0
        if len(problem.parts) == 1 or not self.shared:
            self.parts = [descent_of(problem, network, data)]
            return
        owners = owners_of(network.alpha)
        if len(network.weights) and len(np.unique(owners)) < problem.n_outputs:
            # Real weights move in outputs without neurons, too.
            self.parts = [descent_of(problem, network, data)]
            return
        if not isinstance(data, BlockSamples) and _comparable(network, problem):
            order = _in_turn(owners)
            turned = network.with_neurons(network.U[order], network.V[order], network.alpha[order], order)
            self.rows, self.parts = [order], [descent_of(problem, turned, data)]
        else:
            self.rows = [np.flatnonzero(owners == k) for k in range(problem.n_outputs)]
            self.parts = [
                descent_of(problem.output(k), part_of(network, rows, k), data)
                for k, rows in enumerate(self.rows)
                if len(rows)
            ]
            self.outputs = [[k] for k, rows in enumerate(self.rows) if len(rows)]
            self.rows = [rows for rows in self.rows if len(rows)]
            empty = set(range(problem.n_outputs)) - set(owners.tolist())
            # Outputs without neurons always predict zero.
            self.constant = sum(problem.data_fit.output(k).value_at_zero for k in empty)

    @property
    def objective(self) -> float:
        """Current objective."""
        return self.constant + sum(part.objective for part in self.parts)

    def sweeps(self, limit: int, n_jobs: int = 1) -> Iterator[float]:
        """Sweep until no single move helps or a limit is reached, and yield the objective after each sweep."""
        sweeping = [steps(part, self.shared, limit, self.rng) for part in self.parts]
        running = set(range(len(self.parts)))

        def sweep(k: int) -> None:
            if next(sweeping[k], None) is None:
                running.discard(k)

        while running:
            in_threads(sweep, sorted(running), min(n_jobs, len(running)))
            if running:
                yield self.objective

    def network(self) -> Any:
        """Return the current network."""
        origin = self.origin
        U, V, alpha = origin.U.copy(), origin.V.copy(), origin.output_weights.copy()
        weights = origin.column_weights.copy()
        for part, rows, outputs in zip(self.parts, self.rows, self.outputs, strict=True):
            network = part.network()
            U[rows], V[rows] = network.U, network.V
            weights[:, outputs] = network.column_weights
            # A part may be one of several outputs.
            whole = network.n_outputs == origin.n_outputs
            alpha[rows] = network.output_weights if whole else np.where(alpha[rows] != 0.0, network.output_weights, 0.0)
        return origin.with_neurons(
            U, V, alpha.reshape(origin.alpha.shape), weights=weights.reshape(origin.weights.shape)
        )


def steps(descent: CoordinateDescent, shared: bool, limit: int, rng: np.random.Generator) -> Iterator[bool]:
    """Run sweeps of a descent, whose predictions are up to date, until no single move helps; yield after each."""
    thorough = False
    if shared and not np.any(descent.alpha):
        _raise_from_zero(descent)
    for _ in deadline.in_time(range(limit)):
        if thorough:
            # Cheap sweeps need no predictions without rounding errors.
            descent.refresh()
        if shared:
            rescale(descent)
        else:
            revive(descent, rng)
            reweight(descent)
        adjust_columns(descent)
        accepted = descent.sweep(thorough=thorough)
        finished = accepted == 0 and thorough and not deadline.over()
        if finished and shared:
            rescale_to_optimum(descent)
        elif finished:
            finished = not resolve(descent)
        yield True
        if finished:
            return
        # Thorough sweeps cost more if many moves are almost downhill, so a cheap one follows each that finds a move.
        thorough = accepted == 0 and not thorough


def _raise_from_zero(descent: CoordinateDescent) -> None:
    """Set zero second-layer weights to the values that minimise the loss, ignoring the penalty."""
    descent.alpha = np.ones_like(descent.alpha)
    descent.refresh()
    penalty, descent.penalty = descent.penalty, 0.0
    rescale(descent)
    descent.penalty = penalty


def _comparable(network: Any, problem: TrainingProblem) -> bool:
    """Whether a squared loss has outputs of similar size, so that decreases of all of them exceed rounding errors.

    The magnitude of an output whose weights are all zero is raised separately.
    """
    if not problem.loss.quadratic or not np.all(np.any(network.alpha, axis=0)):
        return False
    losses = [fit.value_at_zero for fit in problem.data_fit.parts]
    return max(losses) <= FAR * min(losses)


def _in_turn(owners: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Order neurons so that the outputs they serve take turns."""
    turns = np.zeros(len(owners), dtype=np.intp)
    for k in np.unique(owners):
        turns[owners == k] = np.arange(np.sum(owners == k))
    return np.lexsort((owners, turns))


def part_of(network: Any, rows: Any, k: int) -> Any:
    """Extract the scalar network of output k from the neurons `rows`."""
    return network.with_neurons(
        network.U[rows], network.V[rows], network.alpha[rows, k], rows, network.column_weights[:, k]
    )


def perturbed(network: Any, problem: TrainingProblem, rng: np.random.Generator) -> Any:
    """Move a random fraction of the network's weights by one level."""
    fraction, largest = rng.uniform(*_PERTURBATION), largest_weights(problem)
    sides = []
    for weights in (network.U, network.V):
        steps = np.where(rng.random(weights.shape) < 0.5, 2, -2)
        steps = np.where(np.abs(weights + steps) > largest, -steps, steps)
        # Weights beyond the sides of blocks stay zero.
        steps = np.where(np.abs(weights + steps) > largest, 0, steps)
        moved = rng.random(weights.shape) < fraction
        if moved.size and not np.any(moved):
            moved.flat[rng.integers(moved.size)] = True
        sides.append((weights + np.where(moved, steps, 0)).astype(np.int8))
    return network.with_neurons(sides[0], sides[1], network.alpha)


def is_small(problem: TrainingProblem) -> bool:
    """Whether the products of a sweep are too small to benefit from several threads."""
    return len(problem.targets) * max(problem.size, problem.n_features) <= SMALL
