"""Column generation of bilinear neurons, for one output or several coupled ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.parallel import few_threads
from qsdp._utils.validation import FloatArray
from qsdp.certificates.proof import output_columns, scaled_tree
from qsdp.column_generation.floor import Floor
from qsdp.column_generation.loop import ATOMS, CLOSING, NEIGHBOURS, STARTS, PricingResult, Round, generate
from qsdp.column_generation.master import Atoms, Master
from qsdp.networks import BilinearNetwork
from qsdp.pricing import BilinearOracle, BoundTree, OracleResult
from qsdp.problem import TrainingProblem
from qsdp.relaxation import Relaxation
from qsdp.relaxation.bounds import instance_bound
from qsdp.relaxation.instance import Instance
from qsdp.sampling import sample_network
from qsdp.shaping import shape_covariance

__all__ = ["Part", "bilinear_part", "is_cheap", "network_of"]

#: Size up to which every round is priced exactly, in tens of milliseconds at most. With 22 and 31, proofs of 10, 16 and
#: 34 inputs take as long.
_CHEAP = 28

#: Operations of shapings with a sample, per output and divided by the cubed size (about as measured at a size of 512),
#: and share of the time left that they may take.
_SHAPINGS, _SAMPLING = {"adaptive": 600.0, "krivine": 60.0}, 0.25

#: Size up to which a proof may take all the time left; beyond it, enumeration takes more than seconds.
_ENUMERATED = 35

#: Minimum time of a search, in seconds.
_TICK = 1e-6

#: Seconds that an enumeration takes per column of each sign vector where values are close.
_ENUMERATION = 4e-11

#: Operations per entry of the matrix until a start settles: ten rounds of two products.
_SETTLED = 40.0

#: Operations of a certificate without known bounds, divided by the cubed size: eigenvalues of a matrix of twice the
#: side, at most twice, at a quarter of the rate of a factorisation.
_CERTIFIED = 4 * 2 * 4 / 3 * 2**3


@dataclass(frozen=True)
class PricingRule:
    """Rule for when to search for pricing values, prove them and add cutting planes; proven facts do not depend on it.

    Proofs of six problems of 10 to 34 inputs (breast-cancer, credit-approval, ionosphere, vehicle and heart; squared,
    logistic and hinge loss) take 6.1 to 6.4 s of CPU time. They take 6.3 to 7.1 s with about a third or three times
    `sampled` or `promise`, a `seed_share` of 0.6 or 0.95, and half or twice `tried`. A third of `cutting` takes 5.5 s;
    a quarter and three times `many_starts` take 1.00 and 0.94 of the time.
    """

    #: Neurons sampled from a relaxation, and share of the dual radius that pricing values of seeds must reach.
    sampled: int = 500
    seed_share: float = 0.8
    #: Atoms of a round beyond `ATOMS`: a share of the most neurons that an optimum may need, and their maximum.
    atoms: float = 0.3
    most_atoms: int = 1000
    #: Random starts of the last search before an expensive proof: minimum, maximum, and its share of the proof's time.
    many_starts: int = 20_000
    most_starts: int = 200_000
    before: float = 0.1
    #: An expensive proof must promise to reduce the gap to this share of it.
    promise: float = 0.1
    #: Share of the time left in which a proof of more than `_ENUMERATED` inputs is tried. If it fails, it is tried
    #: again once neither columns nor cutting planes help.
    tried: float = 0.2
    #: Share of the time for cutting planes before the first search, and smallest share of the total rise of the bound
    #: that a round of these must add; otherwise, columns come first.
    cutting: float = 0.1
    least_rise: float = 0.05
    #: Largest estimated share of the time left for a round of these, and the same where a proof may take all that time.
    #: Six proofs within 6 s each take 0.65 of the time with 0.2 instead of 0.5. Beyond `_ENUMERATED` inputs, where such
    #: rounds close the gap, eight gaps after 4 to 20 s are larger with 0.2, by 0.1 to 1.2 points.
    round: float = 0.5
    round_before_proof: float = 0.2
    #: Every round includes cutting planes if columns promise to close no more than this share of the gap, or if the
    #: last cutting planes raised the bound faster than columns have lowered the objective since.
    remains: float = 0.5
    #: The time left must exceed that of a proof by this factor for another one to be expected.
    last: float = 1.5
    #: Share of the time left that a search spends near the current neurons, so that wide inputs have rounds as well.
    near: float = 0.1


def is_cheap(problem: TrainingProblem) -> bool:
    """Return whether every round is priced exactly, by enumeration."""
    return problem.size <= _CHEAP


@dataclass(frozen=True, eq=False)
class Part:
    """Outcome for one output or for all coupled ones: atoms of true levels, and the proof of the bound."""

    atoms: Atoms
    weights: FloatArray
    nu: FloatArray
    trees: tuple[BoundTree, ...]
    uppers: tuple[float | None, ...]
    exact: bool
    status: str


def bilinear_part(
    problem: TrainingProblem,
    k: int | None,
    relaxation: Relaxation | None,
    start: BilinearNetwork | None,
    tol: float,
    deadline: Deadline,
    rng: np.random.Generator,
    report: Callable[[Round], None],
    rule: PricingRule = PricingRule(),
) -> Part:
    """Train output `k` of a bilinear problem, or all outputs together if `k` is None."""
    # Time is reserved for the certificate and, out of the rest, for the last weights.
    deadline = deadline.before(deadline.seconds(_CERTIFIED * problem.size**3))
    master = Master(Instance.of(problem), deadline)
    inner = deadline.share(1.0 - CLOSING)
    dual = None
    if relaxation is not None:
        found = relaxation.dual
        nu = found.nu if k is None else found.nu[:, k]
        z = np.atleast_2d(found.z) if k is None else found.z[[k]]
        dual = instance_bound(master.instance, [nu], [z if problem.vector else z[0]])
    provable = problem.size <= _ENUMERATED
    floor = Floor(master.instance, dual, inner, rng, rule.round_before_proof if provable else rule.round)
    # If every proof fits into the time, cutting planes only delay them: 34 inputs take twice the time.
    floor.exhausted |= provable and rule.last * _proof_seconds(problem) <= inner.left
    pricing = _BilinearPricing(problem, rng, inner, tol, None if dual is None else np.atleast_2d(dual.z), floor, rule)
    seeds = [start] if start is not None else []
    if relaxation is not None and relaxation.status != "failed":
        seeds += _sampled(relaxation, k, rng, inner, rule.sampled)
    if seeds:
        nu = dual.nu if dual is not None else _slope(problem, k, seeds[0])
        master.add(pricing.seeds(nu, seeds), inner)
    with few_threads(small=master.small):
        outcome = generate(
            master,
            pricing,
            tol=tol,
            deadline=inner,
            floor=lambda: floor.value,
            raise_floor=floor.improve,
            report=report,
        )
        atoms, weights = master.support(outcome.accuracy, deadline)
    M = np.int8(problem.levels - 1)
    U, V = atoms.U.copy(), atoms.V.copy()
    U[:, : problem.n_features] *= M
    V[:, : problem.n_features] *= M
    atoms = Atoms(U, V, atoms.signs, atoms.outputs)
    proof, priced = outcome.proof, outcome.priced
    if proof is not None and priced is not None and proof.value >= floor.value:
        trees = tuple(scaled_tree(tree, proof.scale) for tree in priced.trees)
        uppers = tuple(proof.largest(upper) for upper in priced.uppers)
        return Part(atoms, weights, proof.nu, trees, uppers, priced.exact, outcome.status)
    nu, trees = floor.proof()
    return Part(atoms, weights, nu, trees, (None,) * len(trees), False, outcome.status)


def _slope(problem: TrainingProblem, k: int | None, network: BilinearNetwork) -> FloatArray:
    """Return minus the gradient of the loss at a network's predictions, an optimal dual vector for an optimal one."""
    prediction = problem.predictions(network)
    return -problem.data_fit.gradient(prediction if k is None else prediction[:, k])


def _sampled(
    relaxation: Relaxation, k: int | None, rng: np.random.Generator, deadline: Deadline, n_neurons: int
) -> list[BilinearNetwork]:
    """Return a list of one network, sampled with the best shaping that fits into a share of the time, if any does."""
    cubes = relaxation.problem.n_outputs * relaxation.problem.size**3
    share = deadline.share(_SAMPLING)
    affordable = (method for method, operations in _SHAPINGS.items() if share.affords(operations * cubes))
    method = next(affordable, None)
    if method is None:
        return []
    covariance = shape_covariance(relaxation, method=method)
    if k is not None:
        covariance = covariance[k]
    n_neurons = max(n_neurons, len(covariance) if isinstance(covariance, list) else 1)
    return [sample_network(covariance, n_neurons, rng)]


class _BilinearPricing:
    """Pricing of a master's dual vector: search for the largest values, and proof where that pays."""

    def __init__(
        self,
        problem: TrainingProblem,
        rng: np.random.Generator,
        deadline: Deadline,
        tol: float,
        shifts: FloatArray | None,
        floor: Floor,
        rule: PricingRule,
    ) -> None:
        self.problem, self.rng, self.deadline, self.tol, self.shifts = problem, rng, deadline, tol, shifts
        self.rule = rule
        self.floor, self._first, self._open = floor, True, True
        self.oracle = BilinearOracle(problem.size)
        #: Number of atoms of a round, larger if an optimum may need many.
        neurons = min(problem.n_samples, problem.size * (problem.size + 1) // 2)
        self._n_atoms = max(ATOMS, min(rule.most_atoms, int(rule.atoms * neurons)))
        #: Seconds that a proof takes, and the time at which the last one ended.
        self._seconds = _proof_seconds(problem)
        self._proven = time.monotonic()
        #: Rise of the bound per second by the last cutting planes, and the objective and the time after them.
        self._rise = 0.0
        self._mark: tuple[float, float] | None = None

    def seeds(self, nu: FloatArray, networks: Sequence[BilinearNetwork]) -> Atoms:
        """Return atoms near the neurons of networks whose pricing values reach most of their penalty."""
        dual_radius = Instance.of(self.problem).dual_radius
        starts = np.vstack([np.where(side < 0, -1.0, 1.0) for net in networks for side in (net.U, net.V)])
        results = [
            self.oracle.search(
                self.problem.adjoint(column),
                threshold=self.rule.seed_share * dual_radius,
                starts=starts,
                n_starts=0,
                max_atoms=2 * self.rule.sampled,
                rng=self.rng,
                time_limit=self.deadline.time_limit,
            )
            for column in output_columns(nu)
        ]
        return PricingResult.of(results).atoms

    def __call__(self, master: Master, gap: float) -> PricingResult:
        dual_radius = master.instance.dual_radius
        matrices = list(master.instance.adjoints(master.nu))
        if is_cheap(self.problem):
            return self._prove(matrices, dual_radius, [0.0] * len(matrices), whole=True)
        self._raise_floor_first()
        began = time.monotonic()
        found = self._search(master, matrices, dual_radius, STARTS)
        if self._pays(_promised(master, found), gap):
            # A better atom found now saves a proof, so the search may take a share of its time. A clock may stand still
            # for a moment.
            each = max(time.monotonic() - began, _TICK) / STARTS
            n_starts = int(max(self.rule.many_starts, self.rule.before * min(self._seconds, self.deadline.left) / each))
            if n_starts * each <= self.deadline.left:
                found = self._search(master, matrices, dual_radius, min(n_starts, self.rule.most_starts))
        promised = _promised(master, found)
        if self._pays(promised, gap):
            whole = self.problem.size <= _ENUMERATED or (promised <= self.tol and self.floor.exhausted)
            return self._prove(matrices, dual_radius, [result.value for result in found], whole=whole)
        if promised <= self.rule.remains * gap or self._rise > self._fall(master.objective):
            self._raise_floor()
            self._mark = master.objective, time.monotonic()
        return PricingResult.of(found)

    def _fall(self, objective: float) -> float:
        """Return by how much columns have lowered the objective per second since the last cutting planes."""
        if self._mark is None:
            self._mark = objective, time.monotonic()
            return np.inf
        before, began = self._mark
        return (before - objective) / max(time.monotonic() - began, _TICK)

    def _raise_floor(self, share: Deadline = NEVER) -> bool:
        """Make a round of cutting planes, record the bound's rise per second, and return whether others may help."""
        before, began = self.floor.value, time.monotonic()
        more = self.floor.improve(share)
        self._rise = (self.floor.value - before) / max(time.monotonic() - began, _TICK)
        return more

    def _raise_floor_first(self) -> None:
        """Spend up to a share of the time, once, on the bound of the semidefinite program, as long as that pays."""
        if self._first:
            self._first = False
            share, start, before = self.deadline.share(self.rule.cutting), self.floor.value, -np.inf
            while self.floor.value - before >= self.rule.least_rise * (self.floor.value - start) and not share.over:
                before = self.floor.value
                if not self._raise_floor(share):
                    break

    def _pays(self, promised: float, gap: float) -> bool:
        """Return whether to prove now that no pricing value exceeds those found, which would leave the gap `promised`.

        An expensive proof must close the gap as far as requested; or it must close most of it and, up to `_ENUMERATED`
        inputs, take no longer than the rounds since the last proof or be the last one that there is time for.
        """
        if self.deadline.over:
            return False
        if promised <= self.tol:
            return self._open or self.floor.exhausted
        if self.problem.size > _ENUMERATED:
            return self._open and promised <= self.rule.promise * gap
        waited = self._seconds <= time.monotonic() - self._proven
        return promised <= self.rule.promise * gap and (waited or self.deadline.left <= self.rule.last * self._seconds)

    def _search(
        self, master: Master, matrices: list[FloatArray], dual_radius: float, n_starts: int
    ) -> list[OracleResult]:
        n_atoms = max(20, self._n_atoms // len(matrices))
        return [
            self.oracle.search(
                M,
                threshold=dual_radius,
                starts=self._neighbours(master, k),
                n_starts=n_starts,
                max_atoms=n_atoms,
                rng=self.rng,
                time_limit=self.deadline.time_limit,
            )
            for k, M in enumerate(matrices)
        ]

    def _neighbours(self, master: Master, k: int) -> FloatArray | None:
        """Return both sides of an output's most used neurons, and all vectors that differ from a side in one sign."""
        mine, N = master.atoms.outputs == k, self.problem.size
        atoms = master.atoms[mine]
        seconds = self.deadline.seconds(_SETTLED * 2.0 * (N + 1) * N**2)
        count = int(min(NEIGHBOURS, 1.0 + self.rule.near * self.deadline.left / seconds)) if seconds else NEIGHBOURS
        if not len(atoms):
            return None
        used = np.argsort(-master.weights[mine])[:count]
        sides = np.vstack([atoms.U[used], atoms.V[used]]).astype(np.float64)
        flipped = np.repeat(sides, N, axis=0)
        flipped[np.arange(len(flipped)), np.tile(np.arange(N), len(sides))] *= -1.0
        return np.vstack([sides, flipped])

    def _prove(
        self, matrices: list[FloatArray], dual_radius: float, incumbents: list[float], *, whole: bool
    ) -> PricingResult:
        """Prove the largest pricing values in all the time left, or in a share of it."""
        n_atoms = max(20, self._n_atoms // len(matrices))
        deadline, began = self.deadline if whole else self.deadline.share(self.rule.tried), time.monotonic()
        results = [
            self.oracle.prove(
                M,
                threshold=dual_radius,
                max_atoms=n_atoms,
                incumbent=incumbent,
                slack=0.1 * self.tol if not is_cheap(self.problem) else 0.0,
                time_limit=deadline.share(1.0 / (len(matrices) - k)).time_limit,
                shift=None if self.shifts is None else self.shifts[k],
            )
            for k, (M, incumbent) in enumerate(zip(matrices, incumbents, strict=True))
        ]
        proven = PricingResult.of(results)
        self._open, self._proven = proven.exact or whole, time.monotonic()
        if proven.exact:
            self._seconds = self._proven - began
        return proven


def _proof_seconds(problem: TrainingProblem) -> float:
    """Return an upper estimate of the seconds that a proof takes."""
    return _ENUMERATION * problem.size * 2.0 ** min(problem.size - 1, 100)


def _promised(master: Master, found: Sequence[OracleResult]) -> float:
    """Return the relative gap that a proof would leave if no pricing value exceeds those found."""
    return master.gap(max(result.value for result in found))


def network_of(problem: TrainingProblem, atoms: Atoms, weights: FloatArray) -> BilinearNetwork:
    """Return the network of atoms of true levels, with equal neurons of several outputs merged into one."""
    U, V = atoms.U, atoms.V
    alpha = atoms.signs * weights
    if not len(atoms):
        U = V = np.full((1, problem.size), problem.levels - 1, dtype=np.int8)
        U[:, problem.n_features :] = 1
        outputs, alpha = np.zeros(1, dtype=np.intp), np.zeros(1)
    else:
        outputs = atoms.outputs
    if not problem.vector:
        return BilinearNetwork(U, V, alpha, problem.levels, problem.activation)
    pairs, inverse = np.unique(np.hstack([U, V]), axis=0, return_inverse=True)
    full = np.zeros((len(pairs), problem.n_outputs))
    np.add.at(full, (inverse.ravel(), outputs), alpha)
    N = problem.size
    return BilinearNetwork(pairs[:, :N], pairs[:, N:], full, problem.levels, problem.activation)
