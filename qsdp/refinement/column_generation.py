"""Column generation: networks that are proven to be globally optimal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qsdp._gap import Gap, relative
from qsdp._html import generation_html
from qsdp._progress import Line, shown_stages
from qsdp._proof import output_columns, root_tree, scaled_tree
from qsdp._validation import (
    FloatArray,
    check_choice,
    check_flag,
    check_random_state,
    check_real,
)
from qsdp._work import few_threads
from qsdp.activations import PolynomialActivation
from qsdp.certificate import Certificate, certificate_of, check_fits
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks import BilinearNetwork
from qsdp.polynomial import QUADRATIC, PolynomialNetwork
from qsdp.pricing import BilinearOracle, PolynomialOracle, Price, PriceTree
from qsdp.problem import TrainingProblem
from qsdp.refinement.generation import Clock, Offer, Outcome, Proven, Round, generate
from qsdp.refinement.master import Atoms, Master
from qsdp.refinement.refit import network_of
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.relaxation.bounds import best_scale, dual_value, entry_rounding, instance_bound
from qsdp.relaxation.instance import Instance
from qsdp.sampling import sample_network
from qsdp.shaping import shape_covariance

__all__ = ["ColumnGenerationResult", "column_generation"]

NEURONS = ("bilinear", "polynomial")

#: Size up to which every round is priced exactly: in tens of milliseconds at most.
_CHEAP = 28

#: Atoms taken in a round, random starts of a search, and of the last one before an expensive proof.
_ATOMS, _STARTS, _MANY_STARTS = 200, 300, 20_000

#: Most used neurons whose one-bit neighbours a search starts from.
_NEIGHBOURS = 100

#: Neurons sampled from a relaxation, and the share of their price from which on they are taken in.
_SAMPLED, _WORTHY = 500, 0.8

#: Relative gap from which on the last weights are computed as accurately as they can be.
_CLOSED = 1e-5

#: Share of the time for a relaxation that was not given.
_SHARE = 0.25

#: Share of the gap to which an expensive proof must promise to reduce it, and one of a polynomial network.
_PROMISE, _POLYNOMIAL_PROMISE = 0.1, 0.5

RandomState = int | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True, eq=False, repr=False)
class ColumnGenerationResult(Gap):
    """The best network that was found and the best bound that was proven.

    Attributes
    ----------
    network : BilinearNetwork or PolynomialNetwork
    certificate : Certificate
        Of kind "exact" where the prices behind the bound were computed exactly; that of a bilinear network can be
        saved and checked by others.
    problem : TrainingProblem
    status : {"optimal", "time limit", "interrupted", "stalled"}
        Why the loop ended; "optimal" is a relative gap of at most `tol`.
    history : list of Round
        Objective, bound, gap, columns, neurons and seconds after every round.
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
        """No network, of any width and with any weights, has a smaller objective."""
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
            f"ColumnGenerationResult({self.network!r}; {self.certificate}; status={self.status!r}, "
            f"rounds={self.rounds}, seconds={self.seconds:.3g})"
        )

    def _repr_html_(self) -> str:
        return generation_html(self)


def column_generation(
    problem: TrainingProblem,
    *,
    neurons: str = "bilinear",
    tol: float = 1e-6,
    time_limit: float | None = 60.0,
    relaxation: Relaxation | None = None,
    start: BilinearNetwork | None = None,
    random_state: RandomState = 0,
    verbose: bool = False,
    callback: Callable[[Round], None] | None = None,
) -> ColumnGenerationResult:
    r"""Train to a proven global optimum over all widths.

    The problem is convex in a weight for each of the exponentially many neurons. A restricted one over the
    neurons in hand is solved exactly; its dual vector :math:`\nu` says what any other neuron is worth, the
    price :math:`|u^T M_\nu v|` with :math:`M_\nu = \sum_i \nu_i \mathcal{X}_i`. Neurons worth more than
    :math:`\beta D` are taken in; when the most valuable one of all is not worth more, the network is optimal.

    Parameters
    ----------
    problem : TrainingProblem
        With ``beta > 0``. Outputs of a loss that adds up over them are trained one after the other.
    neurons : {"bilinear", "polynomial"}, default="bilinear"
        "polynomial" trains :math:`\sum_j \alpha_j \sigma(x^T q_j)` on the objective (12) directly.
    tol : float, default=1e-6
        Relative gap at which to stop, > 0.
    time_limit : float or None, default=60.0
        Seconds, > 0. When they are over, the best network and the best bound are returned. None: until done.
    relaxation : Relaxation, optional
        Of the same problem: neurons are sampled from it to begin with, and its bound is the first one. Solved here
        beyond 28 columns if not given (for bilinear neurons), in a quarter of the time at most.
    start : BilinearNetwork, optional
        A network whose neurons are tried first.
    random_state : int, Generator, RandomState or None, default=0
        Of the starts of the searches.
    verbose : bool, default=False
        Show objective and gap after every round, on the standard error or in the notebook.
    callback : callable, optional
        Called with a `Round` after each; raising KeyboardInterrupt ends the loop in good order.

    Returns
    -------
    ColumnGenerationResult
        Interrupted with Ctrl-C, too.

    Raises
    ------
    InvalidInputError
        An argument is not allowed, or `beta` is zero, where no bound but zero holds.

    Notes
    -----
    Sections 5 and 6 of the theory. The neurons of an optimal network of M + 1 levels have the weights -M and M
    only: the price is bilinear, its maximum at corners. Prices are found by sign alternation from many starts and
    proven by enumeration, beyond about 33 columns by branch and bound (`qsdp.pricing`).

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
    >>> result = qsdp.column_generation(qsdp.TrainingProblem(X, y, beta=0.1))
    >>> result.status, result.certificate.kind, result.relative_gap <= 1e-6
    ('optimal', 'exact', True)
    """
    clock = Clock(time_limit)
    _check(problem, neurons, tol, time_limit, relaxation, start, verbose, callback)
    rng = check_random_state(random_state)
    history: list[Round] = []
    with shown_stages(verbose) as stages:
        if neurons == "bilinear" and relaxation is None and problem.size > _CHEAP:
            limit = time_limit and _SHARE * time_limit
            relaxation = solve_relaxation(problem, time_limit=limit, verbose=verbose)
        apart = problem.vector and not problem.loss.coupled
        with stages.stage("exact", tol) as line:
            report = _reporter(history, line, problem.n_outputs if apart else 1, callback)
            if neurons == "polynomial":
                return _polynomial(problem, tol, clock, rng, history, report(0))
            parts = []
            for k in range(problem.n_outputs) if apart else [None]:
                one = problem if k is None else problem.output(k)
                shares = 1 if k is None else problem.n_outputs - k
                own = Clock(None if clock.left is None else clock.left / shares)
                parts.append(_bilinear(one, k, relaxation, start, tol, own, rng, report(k or 0)))
                if parts[-1].status == "interrupted":
                    clock.stop()
    return _joined(problem, parts, history, clock)


# -- arguments -----------------------------------------------------------------------------------------


def _check(
    problem: Any, neurons: Any, tol: Any, time_limit: Any, relaxation: Any, start: Any, verbose: Any, callback: Any
) -> None:
    if not isinstance(problem, TrainingProblem):
        raise InvalidTypeError(f"problem must be a TrainingProblem; got {type(problem).__name__}")
    check_choice("neurons", neurons, NEURONS)
    check_real("tol", tol, strict=True)
    check_flag("verbose", verbose)
    if time_limit is not None:
        check_real("time_limit", time_limit, strict=True)
    if callback is not None and not callable(callback):
        raise InvalidTypeError(f"callback must be callable; got {type(callback).__name__}")
    if problem.beta == 0.0:
        raise InvalidInputError(
            "beta must be > 0 for column_generation, which prices neurons against beta D; got 0. "
            "With beta = 0 the optimum is a convex fit of a quadratic function, and its weights are unbounded"
        )
    if relaxation is not None:
        if not isinstance(relaxation, Relaxation):
            raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
        if relaxation.problem != problem:
            raise InvalidInputError("relaxation must be one of the same problem (data, targets, loss and beta)")
    if start is not None:
        check_fits(start, problem, "start")
    if neurons == "polynomial" and (relaxation is not None or start is not None or problem.vector):
        what = "a scalar target" if problem.vector else "no relaxation and no start, which are bilinear,"
        raise InvalidInputError(f"problem must have {what} for neurons='polynomial'")


def _reporter(
    history: list[Round], line: Line, parts: int, callback: Callable[[Round], None] | None
) -> Callable[[int], Callable[[Round], None]]:
    """Return what makes the report of each part: it numbers the rounds, keeps and shows them and calls back."""

    def of_part(k: int) -> Callable[[Round], None]:
        def report(one: Round) -> None:
            one = replace(one, number=len(history) + 1)
            history.append(one)
            line.closing(one, k, parts)
            if callback is not None:
                callback(one)

        return report

    return of_part


# -- bilinear networks ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Part:
    """The outcome for one output, or for all coupled ones: atoms of true levels, and what proves the bound."""

    atoms: Atoms
    weights: FloatArray
    nu: FloatArray
    trees: tuple[PriceTree, ...]
    prices: tuple[float | None, ...]
    exact: bool
    status: str


def _bilinear(
    problem: TrainingProblem,
    k: int | None,
    relaxation: Relaxation | None,
    start: BilinearNetwork | None,
    tol: float,
    clock: Clock,
    rng: np.random.Generator,
    report: Callable[[Round], None],
) -> _Part:
    master = Master(Instance.of(problem))
    floor = None
    if relaxation is not None:
        dual = relaxation.dual
        nu = dual.nu if k is None else dual.nu[:, k]
        z = np.atleast_2d(dual.z) if k is None else dual.z[[k]]
        floor = instance_bound(master.instance, [nu], [z if problem.vector else z[0]])
    pricing = _BilinearPricing(problem, rng, clock, tol, None if floor is None else np.atleast_2d(floor.z))
    seeds = [start] if start is not None else []
    if relaxation is not None and relaxation.status != "failed":
        seeds.append(_sampled(relaxation, k, rng))
    if seeds:
        worth = floor.nu if floor is not None else _slope(problem, k, seeds[0])
        master.add(pricing.seeds(worth, seeds))
    with few_threads(small=master.small):
        outcome = generate(
            master, pricing, tol=tol, clock=clock, floor=0.0 if floor is None else floor.value, report=report
        )
        atoms, weights = master.support(_accuracy(outcome))
    M = np.int8(problem.levels - 1)
    U, V = atoms.U.copy(), atoms.V.copy()
    U[:, : problem.n_features] *= M
    V[:, : problem.n_features] *= M
    atoms = Atoms(U, V, atoms.signs, atoms.outputs)
    if outcome.proven is not None and (floor is None or outcome.proven.value >= floor.value):
        proven = outcome.proven
        trees = tuple(scaled_tree(tree, proven.scale) for tree in proven.offer.trees)
        prices = tuple(proven.scale * price for price in proven.offer.uppers)
        return _Part(atoms, weights, proven.nu, trees, prices, proven.offer.exact, outcome.status)
    if floor is None:
        nothing = np.zeros_like(problem.y)
        trees = tuple(root_tree(np.zeros(problem.size)) for _ in range(problem.n_outputs))
        return _Part(atoms, weights, nothing, trees, (None,) * len(trees), False, outcome.status)
    columns = zip(output_columns(floor.nu), np.atleast_2d(floor.z), strict=True)
    trees = tuple(root_tree(z * bool(np.any(column))) for column, z in columns)
    return _Part(atoms, weights, floor.nu, trees, (None,) * len(trees), False, outcome.status)


def _slope(problem: TrainingProblem, k: int | None, network: BilinearNetwork) -> FloatArray:
    """Return minus the gradient of the loss at a network's predictions: at an optimal one an optimal dual vector."""
    prediction = network.predict(problem.X)
    return -problem.loss.gradient(prediction if k is None else prediction[:, k], problem.y)


def _sampled(relaxation: Relaxation, k: int | None, rng: np.random.Generator) -> BilinearNetwork:
    covariance = shape_covariance(relaxation, method="adaptive")
    if k is not None:
        covariance = covariance[k]
    n_neurons = max(_SAMPLED, len(covariance) if isinstance(covariance, list) else 1)
    return sample_network(covariance, n_neurons, rng)


class _BilinearPricing:
    """Prices of the neurons of a master's dual vector: searched for, and proven where that pays."""

    def __init__(
        self, problem: TrainingProblem, rng: np.random.Generator, clock: Clock, tol: float, shifts: FloatArray | None
    ) -> None:
        self.problem, self.rng, self.clock, self.tol, self.shifts = problem, rng, clock, tol, shifts
        self.oracle = BilinearOracle(problem.size)

    def seeds(self, nu: FloatArray, networks: Sequence[BilinearNetwork]) -> Atoms:
        """Return atoms near the neurons of networks that are worth most of their price."""
        capacity = Instance.of(self.problem).capacity
        starts = np.vstack([np.where(side < 0, -1.0, 1.0) for net in networks for side in (net.U, net.V)])
        prices = [
            self.oracle.search(
                self.problem.adjoint(column),
                threshold=_WORTHY * capacity,
                starts=starts,
                n_starts=0,
                max_atoms=2 * _SAMPLED,
                rng=self.rng,
            )
            for column in output_columns(nu)
        ]
        return _atoms_of(prices, self.problem.size)

    def __call__(self, master: Master, gap: float) -> Offer:
        capacity = master.instance.capacity
        matrices = list(master.instance.adjoints(master.nu))
        if self.problem.size <= _CHEAP:
            return self._prove(matrices, capacity, [0.0] * len(matrices))
        found = self._search(master, matrices, capacity, _STARTS)
        if self._promising(master, found, gap):
            found = self._search(master, matrices, capacity, _MANY_STARTS)
        if self._promising(master, found, gap):
            return self._prove(matrices, capacity, [price.value for price in found])
        return Offer(_atoms_of(found, self.problem.size), max(price.value for price in found))

    def _promising(self, master: Master, found: Sequence[Price], gap: float) -> bool:
        """Whether a proof that nothing is worth more than was found would close much of the gap."""
        bound = master.bound(max(price.value for price in found))
        promised = relative(master.objective - bound, master.objective)
        return not self.clock.over and promised <= max(_PROMISE * gap, self.tol)

    def _search(self, master: Master, matrices: list[FloatArray], capacity: float, n_starts: int) -> list[Price]:
        n_atoms = max(20, _ATOMS // len(matrices))
        return [
            self.oracle.search(
                M,
                threshold=capacity,
                starts=_neighbours(master.atoms[master.atoms.outputs == k], master.weights[master.atoms.outputs == k]),
                n_starts=n_starts,
                max_atoms=n_atoms,
                rng=self.rng,
            )
            for k, M in enumerate(matrices)
        ]

    def _prove(self, matrices: list[FloatArray], capacity: float, incumbents: list[float]) -> Offer:
        n_atoms = max(20, _ATOMS // len(matrices))
        prices = []
        for k, (M, incumbent) in enumerate(zip(matrices, incumbents, strict=True)):
            left = self.clock.left
            prices.append(
                self.oracle.prove(
                    M,
                    threshold=capacity,
                    max_atoms=n_atoms,
                    incumbent=incumbent,
                    slack=0.1 * self.tol if self.problem.size > _CHEAP else 0.0,
                    time_limit=None if left is None else max(left / (len(matrices) - k), 1e-3),
                    shift=None if self.shifts is None else self.shifts[k],
                )
            )
        uppers = tuple(price.upper for price in prices)
        return Offer(
            _atoms_of(prices, self.problem.size),
            max(price.value for price in prices),
            max(uppers),
            uppers,
            tuple(tree for price in prices for tree in price.trees),
            all(price.exact for price in prices),
        )


def _accuracy(outcome: Outcome) -> float:
    """Return the accuracy of the last weights: the finest, where few neurons remain, unless much was left open."""
    return 1e-12 if outcome.gap <= _CLOSED else min(1e-6, 0.01 * outcome.gap)


def _atoms_of(prices: Sequence[Price], size: int) -> Atoms:
    empty = np.zeros((0, size), dtype=np.int8)
    atoms = Atoms.of(empty, empty)
    for k, price in enumerate(prices):
        atoms = atoms + Atoms.of(price.U, price.V, price.sign, k)
    return atoms


def _neighbours(atoms: Atoms, weights: FloatArray) -> FloatArray | None:
    """Return both sides of the most used neurons, and all vectors that differ from one in one sign."""
    if not len(atoms):
        return None
    used = np.argsort(-weights)[:_NEIGHBOURS]
    sides = np.vstack([atoms.U[used], atoms.V[used]]).astype(np.float64)
    N = sides.shape[1]
    flipped = np.repeat(sides, N, axis=0)
    flipped[np.arange(len(flipped)), np.tile(np.arange(N), len(sides))] *= -1.0
    return np.vstack([sides, flipped])


def _joined(
    problem: TrainingProblem, parts: Sequence[_Part], history: list[Round], clock: Clock
) -> ColumnGenerationResult:
    atoms, weights, nu = parts[0].atoms, parts[0].weights, parts[0].nu
    if problem.vector and not problem.loss.coupled:
        atoms = atoms[:0]
        for k, part in enumerate(parts):
            atoms = atoms + Atoms.of(part.atoms.U, part.atoms.V, part.atoms.signs, k)
        weights = np.concatenate([part.weights for part in parts])
        nu = np.stack([part.nu for part in parts], axis=1)
    network = network_of(problem, atoms, weights)
    certificate = certificate_of(
        problem,
        network,
        nu,
        [tree for part in parts for tree in part.trees],
        "exact" if all(part.exact for part in parts) else "sdp",
        prices=[price for part in parts for price in part.prices],
    )
    statuses = [part.status for part in parts]
    status = next((bad for bad in ("interrupted", "time limit", "stalled") if bad in statuses), "optimal")
    return ColumnGenerationResult(network, certificate, problem, status, history, clock.seconds)


# -- polynomial networks ----------------------------------------------------------------------------------


def _polynomial(
    problem: TrainingProblem,
    tol: float,
    clock: Clock,
    rng: np.random.Generator,
    history: list[Round],
    report: Callable[[Round], None],
) -> ColumnGenerationResult:
    d, M = problem.n_features, problem.levels - 1
    # The capacity of an instance is half its weight.
    master = Master(Instance(problem.weight_map, problem.loss, problem.y, 2.0 * problem.beta * (d * M)))
    oracle = PolynomialOracle(d, problem.levels, problem.lifted)

    def pricing(master: Master, gap: float) -> Offer:
        K = problem.weight_map.adjoint(master.nu)
        used = np.argsort(-master.weights)[:_NEIGHBOURS]
        found = oracle.search(
            K,
            threshold=master.instance.capacity,
            starts=master.atoms.U[used].astype(np.float64) if len(used) else None,
            n_starts=_STARTS,
            max_atoms=_ATOMS,
            rng=rng,
        )
        promised = relative(master.objective - master.bound(found.value), master.objective)
        if promised > max(_POLYNOMIAL_PROMISE * gap, tol) or clock.over:
            return Offer(_atoms_of([found], problem.size), found.value)
        price = oracle.prove(
            K,
            threshold=master.instance.capacity,
            max_atoms=_ATOMS,
            incumbent=found.value,
            time_limit=None if clock.left is None else max(clock.left, 1e-3),
        )
        return Offer(
            _atoms_of([price], problem.size), price.value, price.upper, (price.upper,), price.trees, price.exact
        )

    with few_threads(small=master.small):
        outcome = generate(master, pricing, tol=tol, clock=clock, report=report)
        atoms, weights = master.support(_accuracy(outcome))
    network = _polynomial_network(problem, atoms, weights)
    certificate = Certificate(
        lower_bound=_polynomial_bound(problem, master.instance, outcome.proven) if outcome.proven else 0.0,
        objective=network.objective(problem),
        kind="exact" if outcome.proven and outcome.proven.offer.exact else "sdp",
    )
    return ColumnGenerationResult(network, certificate, problem, outcome.status, history, clock.seconds)


def _polynomial_bound(problem: TrainingProblem, instance: Instance, proven: Proven) -> float:
    """Return the bound of a priced dual vector, recomputed from the data less what rounding may have added."""
    M = problem.levels - 1.0
    rounding = entry_rounding(problem.weight_map.with_levels(M), proven.nu)
    price = proven.scale * proven.offer.upper + rounding
    scale = best_scale(instance, proven.nu, instance.capacity / price if price > 0.0 else np.inf)
    return max(0.0, dual_value(instance, scale * proven.nu))


def _polynomial_network(problem: TrainingProblem, atoms: Atoms, weights: FloatArray) -> PolynomialNetwork:
    activation: PolynomialActivation = problem.activation or QUADRATIC
    Q = atoms.U[:, : problem.n_features]
    if not len(atoms):
        return PolynomialNetwork(np.full((1, problem.n_features), problem.levels - 1), np.zeros(1), activation)
    # The search may orient a lifted neuron so that its last entry is -1.
    if problem.lifted:
        Q = Q * atoms.U[:, -1:]
    return PolynomialNetwork(Q, atoms.signs * weights, activation)
