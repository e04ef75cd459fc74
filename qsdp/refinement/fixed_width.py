"""Search for the best network with a fixed number of neurons: multistart, polishing and exchange of neurons."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.gap import Gap
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.parallel import few_threads
from qsdp._utils.progress import ProgressBar, progress
from qsdp._utils.summary import Summarized, Summary, format_number, gap_rows
from qsdp._utils.tuning import FIRST_TRY
from qsdp._utils.validation import (
    RandomState,
    check_choice,
    check_integer,
    check_random_state,
    check_verbose,
    warn,
)
from qsdp.certificates import check_fits, check_relaxation
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem, check_problem
from qsdp.refinement._choice import AnyData, descent_data
from qsdp.refinement._exchange import exchange, greedy_network, random_network
from qsdp.refinement._models import check_descends
from qsdp.refinement.polishing import MOST_SWEEPS, BestNetwork, Run, is_small, perturbed
from qsdp.refinement.refitting import SECOND_LAYERS
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.sampling import allocate, check_neurons, sample_network
from qsdp.shaping import shape_covariance

__all__ = ["FixedWidthResult", "train_fixed_width"]

#: Minimum number, and total neurons, of starts whose neurons are exchanged; a third costs 1 %.
_LEAST_EXCHANGED, _NEURONS_EXCHANGED = 3, 30

#: Total neurons of perturbed networks per restart; a third or thrice is as good.
_NEURONS_KICKED = 12


@dataclass(frozen=True)
class FixedWidthResult(Summarized, Gap):
    r"""Result of a search for the best network with a fixed number of neurons.

    Attributes
    ----------
    network : BilinearNetwork
    objective : float
        Objective of `network`, recomputed from the data.
    lower_bound : float
        Lower bound from the relaxation: no network of ANY width has a smaller objective. A network of few neurons may
        be unable to come near it. So `gap` bounds the improvement by any other network; it is not the distance of
        `network` to the best network of its size.
    starts : tuple of float
        Objective of the network polished from each start, before neurons were exchanged.
    """

    network: BilinearNetwork
    objective: float
    lower_bound: float
    starts: tuple[float, ...]

    def _summary(self) -> Summary:
        rows = gap_rows(self, "of this network", "of networks of any width")
        best, worst = format_number(min(self.starts)), format_number(max(self.starts))
        rows.append(("starts", f"{len(self.starts)}, polished to {best} at best, {worst} at worst"))
        return Summary("FixedWidthResult", [*rows, *self.network._summary().rows])


def train_fixed_width(
    problem: TrainingProblem,
    n_neurons: int,
    *,
    second_layer: str = "shared",
    restarts: int = 10,
    time_limit: float | None = None,
    starts: Iterable[BilinearNetwork] | None = None,
    relaxation: Relaxation | None = None,
    random_state: RandomState = None,
    verbose: bool | int = False,
) -> FixedWidthResult:
    r"""Search for the best network with exactly m neurons.

    .. math::

        \min_{u_j, v_j, \alpha_j}\; \ell\Big(\sum_{j=1}^m \alpha_j\, u_j^T \mathcal{X}_i v_j,\, y_i\Big)
        + \beta D \sum_{j=1}^m \|\alpha_j\|_1

    For fixed m, this is hard: even the case of one neuron contains MaxCut. The guarantees of the relaxation hold for
    networks of any width.

    Parameters
    ----------
    problem : TrainingProblem
    n_neurons : int
        m >= 1; at least the number of outputs if the second layer is shared.
    second_layer : {"shared", "free"}, default="shared"
        "shared": one magnitude per output; outputs get equal numbers of neurons, as in `sample_network`. "free": a
        weight for every neuron and output.
    restarts : int, default=10
        Number of starts besides `starts`, >= 0: in turn sampled from the relaxation, built greedily neuron by
        neuron, and random. With 0, `starts` is required.
    time_limit : float, optional
        Seconds, > 0; solving the relaxation here takes at most a quarter. At least one start is evaluated.
    starts : iterable of BilinearNetwork, optional
        Further starts: networks of m neurons, with shared second layers if `second_layer` is "shared".
    relaxation : Relaxation, optional
        A solved relaxation of the problem, for the bound and for sampling; solved here by default.
    random_state : int, Generator, RandomState or None
    verbose : bool or int, default=False
        Show a progress bar of starts, exchanges and perturbations, on standard error or in the notebook.

    Returns
    -------
    FixedWidthResult

    Raises
    ------
    InvalidInputError
        An argument is not allowed, or a start or the relaxation belongs to another problem.
    SolverError
        The loss couples outputs and has no curvature.

    Warns
    -----
    QSDPWarning
        A keyboard interrupt ended the search, and the best network so far is returned.

    Notes
    -----
    Every start is polished. Then neurons of the best ones are exchanged until no exchange helps: a neuron is removed,
    the best replacement computed by sign alternation, and the network polished again. Finally the best network is
    perturbed or redrawn, and polished: `restarts` times, or more often for few neurons.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> problem = qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.01)
    >>> found = qsdp.train_fixed_width(problem, 2, random_state=0)
    >>> found.network.n_neurons, len(found.starts), found.lower_bound <= found.objective <= min(found.starts)
    (2, 10, True)
    """
    check_problem(problem)
    shared = check_choice("second_layer", second_layer, SECOND_LAYERS) == "shared"
    least = problem.n_outputs if shared else 1
    m = check_neurons("n_neurons", n_neurons, minimum=least)
    restarts = check_integer("restarts", restarts, minimum=0)
    rng = check_random_state(random_state)
    problem.require_columns("train_fixed_width")
    check_descends(problem.loss)
    # A single weight is both free and shared, and the shared case is less work.
    shared = shared or (m == 1 and problem.scalar)
    given = _check_starts(starts, problem, m, shared)
    if relaxation is not None:
        check_relaxation(relaxation, problem)
    if not given and restarts == 0:
        raise InvalidInputError("restarts must be at least 1 if there are no starts; got 0")
    with deadline.after(time_limit) as limit, progress(check_verbose(verbose)) as stages:
        if relaxation is None:
            with deadline.fraction(FIRST_TRY):
                relaxation = solve_relaxation(problem, verbose=verbose)
            if relaxation.interrupted:
                limit.expire()
        C = problem.n_outputs
        owners = np.repeat(np.arange(C), allocate(m, [1.0] * C)).tolist() if m >= C else list(range(m))
        with few_threads(small=is_small(problem)), stages.stage("search") as bar:
            search = _FixedWidthSearch(problem, owners, shared, descent_data(problem, m), rng)
            network, objective, polished = search.run(given, restarts, relaxation, bar)
    return FixedWidthResult(network, objective, relaxation.lower_bound, polished)


@dataclass(frozen=True, eq=False)
class _FixedWidthSearch:
    """Search for the best network whose neurons serve the outputs `owners`."""

    problem: TrainingProblem
    owners: list[int]
    shared: bool
    data: AnyData
    rng: np.random.Generator

    def run(
        self, initial: list[BilinearNetwork], restarts: int, relaxation: Relaxation, bar: ProgressBar
    ) -> tuple[BilinearNetwork, float, tuple[float, ...]]:
        """Polish all starts, exchange neurons of the best ones, then perturb the best network of all.

        Returns the best network, its objective and those of the polished starts.
        """
        # Small networks have many poor local optima but are quickly polished, so more of them are exchanged and kicked.
        m, starts = len(self.owners), len(initial) + restarts
        exchanged, kicks = max(_LEAST_EXCHANGED, _NEURONS_EXCHANGED // m), restarts * max(1, _NEURONS_KICKED // m)
        total = starts + min(starts, exchanged) + kicks
        candidates = self._starts(initial, restarts, relaxation)
        best = BestNetwork(self.problem, next(candidates))

        def report(done: int) -> None:
            bar.count(done, total, f"objective {best.objective:.6g}, {done} of {total}")

        polished: list[tuple[float, int, Run]] = []
        run: Run | None = None
        try:
            for candidate in itertools.chain([best.network], candidates):
                if polished and deadline.over():
                    break
                run = self._descent(candidate)
                _sweep(run)
                best.offer(run.network())
                polished.append((run.objective, len(polished), run))
                report(len(polished))
            for number, (_, _, run) in enumerate(sorted(polished)[:exchanged]):
                self._exchange_all(run)
                best.offer(run.network())
                report(starts + number + 1)
            for number in deadline.in_time(range(kicks)):
                run = self._descent(perturbed(best.network, self.problem, self.rng) if number % 2 else self._random())
                _sweep(run)
                if run.objective < best.objective * (1.0 - ROUNDING):
                    self._exchange_all(run)
                    best.offer(run.network())
                report(total - kicks + number + 1)
        except KeyboardInterrupt:
            if run is None:
                raise
            best.offer(run.network())
            warn(f"interrupted: returning the best network so far, of objective {best.objective:.6g}")
        return best.network, best.objective, tuple(value for value, _, _ in polished)

    def _starts(
        self, initial: list[BilinearNetwork], restarts: int, relaxation: Relaxation
    ) -> Iterator[BilinearNetwork]:
        """Yield the initial networks, then in turn sampled, greedy (until the time limit) and random ones."""
        yield from initial
        m, C = len(self.owners), self.problem.n_outputs
        # The zero relaxation has no covariance to sample from.
        covariance: Any = None
        if m >= C and np.all(relaxation.rho_stack > 0.0):
            with deadline.unlimited():
                covariance = shape_covariance(relaxation)
        kinds = ["greedy", "random"] if covariance is None else ["sampled", "greedy", "random"]
        for number in range(restarts):
            kind = kinds[number % len(kinds)]
            if kind == "sampled":
                yield sample_network(covariance, m, self.rng)
            elif kind == "greedy" and not deadline.over():
                yield greedy_network(self.problem, self.owners, self.rng, self.data)
            else:
                yield self._random()

    def _random(self) -> BilinearNetwork:
        return random_network(self.problem, self.owners, self.rng)

    def _descent(self, start: BilinearNetwork) -> Run:
        return Run(start, self.rng, self.data, self.shared)

    def _exchange_all(self, run: Run) -> None:
        for part in run.parts:
            exchange(part, self.shared, self.rng)


def _sweep(run: Run) -> None:
    for _ in run.sweeps(MOST_SWEEPS):
        pass


def _check_starts(starts: Any, problem: TrainingProblem, m: int, shared: bool) -> list[BilinearNetwork]:
    if starts is None:
        return []
    if isinstance(starts, BilinearNetwork) or not isinstance(starts, Iterable):
        raise InvalidTypeError(f"starts must be a list of networks; got {type(starts).__name__}")
    checked: list[BilinearNetwork] = []
    for i, start in enumerate(starts):
        try:
            check_fits(start, problem)
        except InvalidInputError as error:
            raise type(error)(f"starts[{i}]: {error}") from None
        if start.n_neurons != m:
            raise InvalidInputError(f"starts[{i}] must have {m} neurons; got {start.n_neurons}")
        if shared and not start.shared_alpha:
            raise InvalidInputError(f"starts[{i}] must have a shared second layer; got a free one")
        checked.append(start)
    return checked
